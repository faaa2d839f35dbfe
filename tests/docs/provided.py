"""
Small files under the names that documents use, so that their code and commands find what they read.

`FILES` says what stands under which names, `MODELS` which folders hold a tiny random model of which kind. A name that
no document uses any more does not belong here: a test says so.
"""

import gzip
import itertools
import json
import lzma
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas
import pytest
from original_udgn import UDGN, Dictionary
from test_masked_lms import SIZE, WORDS, randomised, saved
from tiny_models import (
    new_pushdown,
    new_rng_transformer,
    new_transformer_grammar,
    new_udgn,
    unigram_tokenizer,
)

from hf_structure import build_word_tokenizer
from hf_structure.text.sdp import HEADER

# Word, tag, head and relation.
SENTENCES = [
    "The/DT/2/det cat/NN/7/nsubj that/WDT/4/nsubj chased/VBD/2/acl:relcl the/DT/6/det mouse/NN/4/obj slept/VBD/0/root "
    "././7/punct",
    "Nobody/NN/2/nsubj saw/VBD/0/root it/PRP/2/obj ././2/punct",
    "She/PRP/2/nsubj gave/VBD/0/root her/PRP$/4/nmod:poss brother/NN/2/iobj a/DT/6/det book/NN/2/obj ././2/punct",
]
GENRES = ("academic", "bio", "conversation", "court", "interview", "news", "speech", "textbook", "vlog", "voyage")
LINES = [" ".join(word.split("/")[0] for word in sentence.split()) for sentence in SENTENCES]
BRACKETS = """\
( (S (NP (DT The) (NN cat)) (VP (VBD saw) (NP (DT the) (NN mouse))) (. .)) )
( (S (NP (PRP She)) (VP (VBD gave) (NP (PRP$ her) (NN brother)) (NP (DT a) (NN book))) (. .)) )
"""
SDP = f"""{HEADER}
#1
1\tShe\tshe\tPRP\t-\t-\t_\tARG1
2\tsleeps\tsleep\tVBZ\t+\t+\tv\t_

"""
WIKITEXT = " = Cats = \n \n The cat sat on the mat . It slept there . \n"
CIRCUITS = {"circuits": {"Agreement": 0.5, "Licensing": 0.25}}
PAIR = {"sentence_good": "The cats sleep.", "sentence_bad": "The cats sleeps.", "UID": "agreement_1"}
PAIR |= {"linguistics_term": "subject_verb_agreement", "field": "syntax"}


def treebank(path: Path, genres: Sequence[str] = GENRES[:3]) -> None:
    """Trees in HEAD and DEPS; every sentence is a document of another genre."""
    with path.open("w", encoding="utf-8") as file:
        for genre, sentence in zip(genres, itertools.cycle(SENTENCES), strict=False):
            print(f"# newdoc id = GUM_{genre}_1", file=file)
            print("# text =", *(word.partition("/")[0] for word in sentence.split()), file=file)
            for number, word in enumerate(sentence.split(), start=1):
                form, tag, head, relation = word.split("/")
                print(number, form, "_", "X", tag, "_", head, relation, f"{head}:{relation}", "_", sep="\t", file=file)
            print(file=file)


def text(path: Path) -> None:
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")


def compressed_treebank(path: Path) -> None:
    treebank(path.with_suffix(""))
    path.write_bytes(gzip.compress(path.with_suffix("").read_bytes()))


def compressed(path: Path) -> None:
    path.write_bytes(lzma.compress("".join(f"{line}\n" for line in LINES).encode()))


def table(path: Path) -> None:
    content = {"SOURCES.tsv": "source\tlicence\nmoon\tCC0 1.0\n"}
    content["DOCUMENTS.tsv.xz"] = "split\tkind\tnumber\tsource\ntrain\tweb\t1\tmoon\n"
    data = content[path.name].encode()
    path.write_bytes(lzma.compress(data) if path.suffix == ".xz" else data)


def pairs(path: Path) -> None:
    path.write_text("".join(json.dumps({**PAIR, "pairID": str(number)}) + "\n" for number in range(10)))


def own_pairs(path: Path) -> None:
    row = {"construction": "agreement", "right": "The cats sleep.", "wrong": "The cats sleeps."}
    row |= {"context": "The cats", "other_context": "The cat", "end": "sleep."}
    pandas.DataFrame([row]).to_csv(path, index=False)


def judgments(path: Path) -> None:
    rows = [
        {"item": 1, "acceptable": value, "text": PAIR[f"sentence_{name}"]} for name, value in (("good", 1), ("bad", 0))
    ]
    pandas.DataFrame(rows).to_csv(path, index=False)


def multiblimp(path: Path) -> None:
    row = {"sen": PAIR["sentence_good"], "wrong_sen": PAIR["sentence_bad"], "phenomenon": "SV-#", "lang": "eng"}
    pandas.DataFrame([row]).to_csv(path, sep="\t", index=False)


def suite(path: Path) -> None:
    sentences = {"match": ("The cats", "sleep", "."), "mismatch": ("The cats", "sleeps", ".")}
    conditions = [
        {"condition_name": name, "regions": [{"region_number": i, "content": c} for i, c in enumerate(regions, 1)]}
        for name, regions in sentences.items()
    ]
    formulas = [{"type": "formula", "formula": "(2;%match%) < (2;%mismatch%)"}]
    items = [{"item_number": 1, "conditions": conditions}]
    meta = {"name": path.stem, "metric": "sum"}
    path.write_text(json.dumps({"meta": meta, "predictions": formulas, "items": items}))


def items(path: Path) -> None:
    sentences = {
        "comma": "While she slept, / the cat / chased mice.",
        "none": "While she slept / the cat / chased mice.",
    }
    rows = [{"item": 1, "condition": name, "sentence": sentence} for name, sentence in sentences.items()]
    pandas.DataFrame(rows).to_csv(path, index=False)


def paradigm(path: Path) -> None:
    path.write_text(json.dumps({"log_probs": [[-1.0, -2.0], [-2.0, -1.5]], "phenomenon": "agreement"}))


def scored(path: Path) -> None:
    path.write_text("".join(json.dumps({"words": line.split(), "log_prob": -9.0}) + "\n" for line in LINES))


def checkpoint(path: Path) -> None:
    saved(randomised(UDGN(8, 6, 2, SIZE, nhead=3, n_parser_layers=2)), path, "whole")


# Names are separated by spaces.
FILES: dict[Callable[[Path], object], str] = {
    treebank: (
        "dev.conllu test.conllu gold.conllu system.conllu a.conllu b.conllu udgn-1.conllu udgn-2.conllu rest.conllu "
        "g2g.conllu deptr.conllu deptr-ch.conllu deptr-h.conllu en_ewt-dev.conllu en_ewt-test.conllu "
        "en_ewt-ud-test.conllu en_ewt-ud-dev.conllu en_gum-dev.conllu test.dep.conllu ar-dev.conllu ar-test.conllu"
    ),
    lambda path: treebank(path, GENRES): (
        "train.conllu train.dep.conllu en_ewt-train.conllu en_gum-train.conllu en_gum-test.conllu consensus.conllu "
        "gum-free.conllu ar-train.conllu gold10.conllu dev10.conllu test10.conllu de-train.conllu de-test.conllu "
        "zh-train.conllu zh-test.conllu"
    ),
    text: (
        "notes.txt train.txt test.txt text.txt web.txt wiki.txt fiction.txt textbooks.txt more.txt open.txt "
        "books.txt "
        "wikitext-valid.txt silver-a.txt silver-1.txt silver-2.txt silver-3.txt segmented.txt"
    ),
    lambda path: path.write_text("".join(f"{line}\n" for line in 5 * LINES)): (
        "1000000.txt runs/curve/texts/10000000.txt"
    ),
    lambda path: path.write_text(BRACKETS): (
        "gold.mrg test.mrg dev.mrg a.mrg b.mrg system.mrg relabelled.mrg "
        "gum_const-dev.mrg gum_const-test.mrg wsj-test.mrg"
    ),
    lambda path: path.write_text(BRACKETS * 3): "train.mrg gum_const-train.mrg",
    lambda path: path.write_text(SDP): "gold.sdp",
    lambda path: path.write_text(WIKITEXT): "wiki.valid.tokens",
    lambda path: path.write_text(json.dumps(CIRCUITS)): (
        "gilt/results.json txl/results.json runs/last/transformer-xl/suites/results.json "
        "runs/last/trees/suites/results.json runs/last-2/transformer-xl/suites/results.json "
        "runs/last-2/trees/suites/results.json"
    ),
    items: "items.csv",
    paradigm: (
        "runs/gum/enhanced-seed1/blimp/paradigms/agreement.json runs/gum/trees-seed1/blimp/paradigms/agreement.json "
        "runs/million/treereg-seed1/blimp/paradigms/agreement.json "
        "runs/million/treereg-shuffled-seed1/blimp/paradigms/agreement.json"
    ),
    lambda path: path.write_text(json.dumps([{"holds": [True]}])): (
        "runs/gum/enhanced-seed1/suites/suites/number_orc.json runs/gum/trees-seed1/suites/suites/number_orc.json "
        "runs/sg-gpt2/suites/number_orc.json"
    ),
    scored: "gilt.jsonl gpt2.jsonl gilt-2.jsonl gpt2-2.jsonl",
    compressed_treebank: "silver.conllu.gz",
    compressed: "open_text/train-web.txt.xz train-web.txt.xz train-textbooks.txt.xz train-fiction.txt.xz wiki.txt.xz",
    table: "open_text/SOURCES.tsv open_text/DOCUMENTS.tsv.xz",
    pairs: "blimp/data/agreement_1.jsonl",
    own_pairs: "pairs.csv",
    judgments: "judgments.csv",
    multiblimp: "multiblimp/eng/data.tsv",
    suite: "test_suites/json/number_orc.json",
    checkpoint: "udgn.pt",
    lambda path: pandas.to_pickle(Dictionary(WORDS), path): "ptb-dict.pkl",
    lambda path: pandas.DataFrame({"body": ["The cat slept. Nobody saw it."]}).to_parquet(path): "articles.parquet",
    lambda path: pandas.DataFrame({"text": ["The cat slept. Nobody saw it."]}).to_parquet(path): (
        "web-0.parquet web-1.parquet"
    ),
}
MODELS = {
    "udgn": "runs/udgn runs/small runs/own runs/udgn-1 runs/udgn-2 runs/udgn-3 runs/udgn-en runs/udgn10/udgn-seed1",
    "structformer": (
        "runs/structformer-1 runs/structformer-2 runs/structformer-3 runs/structformer-en-1 runs/structformer-en-2 "
        "runs/structformer-en-3 runs/compare/structformer-seed1"
    ),
    "rng_transformer": (
        "runs/ewt runs/student runs/teacher runs/refined runs/compact runs/student-2 runs/refined-2 runs/compact-2 "
        "runs/student-3a runs/fast-1 runs/fast-compact"
    ),
    "tagger": (
        "runs/refined-3a runs/refined-3b runs/refined-3c runs/student-4a runs/refined-4a runs/refined-4b runs/fast-2 "
        "runs/fast-compact-2 runs/fast-3a runs/fast-3b runs/fast-3c runs/fast-features runs/features runs/rngt-en "
        "runs/multilingual runs/multilingual-lemmas runs/multilingual-first runs/multilingual-further"
    ),
    "constituents": "runs/constituents runs/typed runs/parser-4 runs/large runs/large-tagger",
    "tagged_g2g_transformer": "runs/tagged",
    "g2g_transformer": (
        "runs/g2gt-en-ewt runs/table2/G2G-seed2 runs/table2/DepTr-seed2 runs/table2/DepTr+CH-seed2 "
        "runs/table2/DepTr+H-seed2"
    ),
    "graph_parser": (
        "runs/end/trees runs/web/gpt2-gilt-seed1 runs/web/gpt2-gilt-seed2 runs/gilt runs/last/trees runs/rest/trees "
        "runs/web/trees-seed1 runs/web/transformer-xl-seed1"
    ),
    "pushdown": "runs/pushdown runs/pushdown-ptb",
    "transformer_grammar": "runs/million/tg-seed1 runs/million/dtg-seed1",
}


def make(folder: Path, request: pytest.FixtureRequest) -> Path:
    """A folder with everything."""
    for maker, names in FILES.items():
        for name in names.split():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            maker(path)
    subwords = unigram_tokenizer([line.split() for line in LINES])
    words = build_word_tokenizer(WORDS)
    made = {
        "udgn": new_udgn(folder / "runs/udgn", words),
        "tagger": new_rng_transformer(
            folder / "runs/rngt-en",
            words,
            columns={"upos": ["NOUN"], "xpos": ["NN"], "feats": ["NOUN _"], "lemma": ["lower-0+"]},
            treebanks=["ewt", "gum"],
            num_segmentation_layers=1,
        ),
        "constituents": new_rng_transformer(
            folder / "runs/constituents",
            words,
            constituents=["NP", "S+VP", "VP"],
            constituent_size=8,
            columns={"xpos": ["DT", "NN", "VBD"]},
        ),
        "pushdown": new_pushdown(folder / "runs/pushdown", subwords),
        "transformer_grammar": new_transformer_grammar(folder / "runs/million/tg-seed1", subwords),
    }
    for kind, names in MODELS.items():
        source = made.get(kind) or request.getfixturevalue(kind)
        for name in names.split():
            if source != folder / name:
                shutil.copytree(source, folder / name, dirs_exist_ok=True)
    return folder
