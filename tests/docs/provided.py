"""
Small files under the names that documents use, so that their code and commands find what they read.

`FILES` says what stands under which names, `MODELS` which folders hold a tiny random model of which kind. A name that
no document uses any more does not belong here: a test says so.
"""

import json
import lzma
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas
import pytest
from original_udgn import UDGN, Dictionary
from test_masked_lms import SIZE, WORDS, randomised, saved
from tiny_models import TINY, randomise, save

from hf_structure import UDGNConfig, UDGNForMaskedLM, build_word_tokenizer
from hf_structure.data.sdp import HEADER

# Words, tags, heads and relations.
SENTENCES = [
    ("The cat that chased the mouse slept .", "DT NN WDT VBD DT NN VBD .", "2 7 4 2 6 4 0 7", "det nsubj nsubj acl:relcl det obj root punct"),
    ("She gave her brother a book about birds .", "PRP VBD PRP$ NN DT NN IN NNS .", "2 0 4 2 6 2 8 6 2", "nsubj root nmod:poss iobj det obj case nmod punct"),
    ("Nobody saw it .", "NN VBD PRP .", "2 0 2 2", "nsubj root obj punct"),
    ("The old man walked slowly along the river .", "DT JJ NN VBD RB IN DT NN .", "3 3 4 0 4 8 8 4 4", "det amod nsubj root advmod case det obl punct"),
]  # fmt: skip
GENRES = "academic bio conversation court fiction interview news speech textbook vlog voyage".split()
LINES = [words for words, *_ in SENTENCES]
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


def treebank(path: Path) -> None:
    sentences = []
    for genre, (words, tags, heads, relations) in zip(GENRES, SENTENCES * 3, strict=False):
        rows = [
            f"{i}\t{word}\t_\tX\t{tag}\t_\t{head}\t{relation}\t{head}:{relation}\t_"
            for i, (word, tag, head, relation) in enumerate(
                zip(words.split(), tags.split(), heads.split(), relations.split(), strict=True), start=1
            )
        ]
        sentences.append("\n".join([f"# newdoc id = GUM_{genre}_1", *rows]) + "\n\n")
    path.write_text("".join(sentences), encoding="utf-8")


def text(path: Path) -> None:
    path.write_text("".join(f"{line}\n" for line in LINES * 2), encoding="utf-8")


def compressed(path: Path) -> None:
    path.write_bytes(lzma.compress("".join(f"{line}\n" for line in LINES).encode()))


def table(path: Path) -> None:
    content = {"SOURCES.tsv": "source\tlicence\nmoon\tCC0 1.0\n"}
    content["DOCUMENTS.tsv.xz"] = "split\tkind\tnumber\tsource\ntrain\tweb\t1\tmoon\n"
    data = content[path.name].encode()
    path.write_bytes(lzma.compress(data) if path.suffix == ".xz" else data)


def pairs(path: Path) -> None:
    path.write_text("".join(json.dumps({**PAIR, "pairID": str(number)}) + "\n" for number in range(10)))


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


def paradigm(path: Path) -> None:
    path.write_text(json.dumps({"log_probs": [[-1.0, -2.0], [-2.0, -1.5], [-1.0, -1.0]]}))


def checkpoint(path: Path) -> None:
    saved(randomised(UDGN(8, 6, 2, SIZE, nhead=3, n_parser_layers=2)), path, "whole")


FILES: dict[Callable[[Path], object], Sequence[str]] = {
    treebank: (
        "train.conllu",
        "dev.conllu",
        "test.conllu",
        "gold.conllu",
        "system.conllu",
        "g2g.conllu",
        "deptr.conllu",
        "en_ewt-train.conllu",
        "en_ewt-dev.conllu",
        "en_ewt-test.conllu",
        "en_gum-train.conllu",
        "gum-free.conllu",
    ),
    text: ("notes.txt", "text.txt", "web.txt", "more.txt", "open.txt", "wikitext-valid.txt", "silver-a.txt"),
    lambda path: path.write_text(BRACKETS): ("gold.mrg", "test.mrg"),
    lambda path: path.write_text(SDP): ("gold.sdp",),
    lambda path: path.write_text(WIKITEXT): ("wiki.valid.tokens",),
    lambda path: path.write_text(json.dumps(CIRCUITS)): (
        "gilt/results.json",
        "txl/results.json",
        "runs/gilt/transformer-xl/suites/results.json",
        "runs/gilt/trees/suites/results.json",
        "runs/gilt/gpt2-post/suites/results.json",
        "runs/gilt/gpt2-gilt/suites/results.json",
    ),
    paradigm: ("runs/gum/enhanced/blimp/paradigms/agreement.json", "runs/gum/trees/blimp/paradigms/agreement.json"),
    compressed: ("open_text/train-web.txt.xz", "wiki.txt.xz"),
    table: ("open_text/SOURCES.tsv", "open_text/DOCUMENTS.tsv.xz"),
    pairs: ("blimp/data/agreement_1.jsonl",),
    suite: ("test_suites/json/number_a.json",),
    checkpoint: ("udgn.pt",),
    lambda path: pandas.to_pickle(Dictionary(WORDS), path): ("ptb-dict.pkl",),
    lambda path: pandas.DataFrame({"body": ["The cat slept. Nobody saw it."]}).to_parquet(path): ("articles.parquet",),
}
MODELS = {
    "runs/udgn": "udgn",
    "runs/small": "udgn",
    "runs/udgn-en": "udgn",
    "runs/structformer-1": "structformer",
    "runs/structformer-2": "structformer",
    "runs/structformer-3": "structformer",
    "runs/structformer-en-1": "structformer",
    "runs/structformer-en-2": "structformer",
    "runs/structformer-en-3": "structformer",
    "runs/compare/structformer": "structformer",
    "runs/ewt": "rng_transformer",
    "runs/gold": "rng_transformer",
    "runs/student-refined": "rng_transformer",
    "runs/refined": "rng_transformer",
    "runs/fast-2": "rng_transformer",
    "runs/tagged": "tagged_g2g_transformer",
    "runs/g2gt-en-ewt-small": "g2g_transformer",
    "runs/gilt": "graph_parser",
    "runs/gilt/trees": "graph_parser",
}

def make(folder: Path, request: pytest.FixtureRequest) -> Path:
    """A folder with everything."""
    for maker, names in FILES.items():
        for name in names:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            maker(path)
    udgn = UDGNForMaskedLM(UDGNConfig(vocab_size=len(words := build_word_tokenizer(WORDS)), parser_num_layers=1, **TINY))
    made = {"udgn": save(randomise(udgn), words, folder / "runs/udgn")}
    for name, kind in MODELS.items():
        source = made.get(kind) or request.getfixturevalue(kind)
        if source != folder / name:
            shutil.copytree(source, folder / name, dirs_exist_ok=True)
    return folder
