"""
How well language models with structure learn bracket languages, and which trees they induce of them.

    python examples/papers/prepare_dyck.py --kinds 4 --output dyck-4
    python examples/papers/compare_dyck.py --language dyck-4 --seeds 1 2 --output_dir runs/dyck-4 -- --bf16

Masked models that induce trees, `udgn` and `structformer`, with the `transformer` that StructFormer's paper compares
with; causal ones: `gilt` and `pushdown`, which are given the true dependencies or constituents in training and predict
them in tests, their `transformer-xl` without trees, and `gpt2`, a small model of GPT-2's architecture. All are trained
from scratch on `train.conllu`, or `train.mrg`, by `run_mlm.py` and `run_clm.py`, which get the options after `--`.

Tested are `test` (as in training), `longer` and `deeper`, of each the first `--words` words. `closing`: how often the
right type is the likeliest of all closing brackets, given that one comes, over the closing brackets of the texts
(chance: one in as many as there are kinds); of causal models after what is before it, of masked ones with it masked
and all others seen. `far`: the same of those that close a bracket more than 10 positions before. With one kind there
are no types: `closing` says then how often a masked model holds a closing bracket likelier than an opening one. Of
causal models it is not asked, as both may come. Of the trees UAS, UUAS and UF1 (see `run_mlm.py`); GiLT's graphs need
not be trees, and UAS stands for the F1 of their arcs. `neighbours` are trees without a model: right branching, and
each bracket's head the one before it. `binary trees` is the best UF1 that trees can have that split everything in two.

Finished runs are skipped, and interrupted ones resume from their last checkpoint: repeat the same command. The table
is written to `table.md` whenever a run ends, and is printed at the end, when figures of `closing` by distance and by
depth are drawn, too.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from transformers import AutoTokenizer

from hf_structure import parse
from hf_structure.cli.common import positive
from hf_structure.corpora.dyck import closing, depths, opening, partners
from hf_structure.drawing.figures import plot_curves
from hf_structure.metrics.attachment import attachment_scores, left_chain
from hf_structure.metrics.constituency import right_branching, unlabeled_f1
from hf_structure.metrics.graphs import arc_scores
from hf_structure.models.abilities import abilities_of
from hf_structure.scoring.masked_scoring import pseudo_log_probs
from hf_structure.scoring.scoring import choose_beam, is_masked, load_language_model, token_log_probs
from hf_structure.text.formats import load_sentences
from hf_structure.text.tokenization import encode_subwords, encode_words
from hf_structure.training.baselines import new_gpt2
from hf_structure.training.comparison import (
    add_seeds_argument,
    markdown_table,
    parse_arguments,
    read_results,
    run_script,
    score_cells,
    seed_folder,
    tokenizer_of_words,
)
from hf_structure.training.scripts import run, save_whole, write_figure, write_json, write_text

EXAMPLES = Path(__file__).parents[1]
MODELS = ("udgn", "structformer", "transformer", "gilt", "pushdown", "transformer-xl", "gpt2")
MASKED = MODELS[:3]
TESTS = ("test", "longer", "deeper")
COLUMNS = {"closing": "closing", "far": "far", "UAS": "uas", "UUAS": "uuas", "UF1": "uf1"}
FAR = 10
FILES = {"train": "train", "validation": "dev"}
FORMATS = ("conllu", "mrg")  # dependencies, and constituents
BEAM = 5  # structures of a text that are followed
OPTIONS = {"max_tokens": 1024, "learning_rate": 1e-3, "lr_scheduler_type": "cosine", "warmup_steps": 100}
OPTIONS |= {"early_stopping_patience": 0}
MAX_TOKENS = 4096  # of a batch that is tested


class Bracket(NamedTuple):
    """A closing bracket: its position in a word, its distance to the opening bracket, and its depth."""

    place: int
    distance: int
    depth: int


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--language", required=True, metavar="FOLDER", help="what prepare_dyck.py has made")
    parser.add_argument("--output_dir", required=True, metavar="FOLDER", help="where models and table go")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS, metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--hidden_size", type=positive, default=64, metavar="N", help="of all models; default: 64")
    parser.add_argument("--num_layers", type=positive, default=3, metavar="N", help="of all models; default: 3")
    parser.add_argument("--num_train_epochs", type=float, default=5, help="default: 5")
    parser.add_argument("--words", type=positive, default=100, metavar="N", help="of each test; default: 100")
    add_seeds_argument(parser)
    return parser


def shape(model: str, args: argparse.Namespace) -> dict:
    """Settings of a model's configuration."""
    size = {"hidden_size": args.hidden_size, "num_hidden_layers": args.num_layers, "num_attention_heads": 4}
    if model in MASKED:
        return size
    size |= {"intermediate_size": 4 * args.hidden_size, "hidden_dropout": 0.1, "attention_dropout": 0.1}
    if model == "pushdown":
        return size
    return size | {"graph_embedding_size": 16, "scorer_hidden_size": args.hidden_size, "scorer_size": args.hidden_size}


def tokenizer_folder(args: argparse.Namespace) -> Path:
    """The tokenizer of the causal models, to which each bracket is one token."""

    def brackets() -> list[str]:
        return [make(kind) for kind in range(count_kinds(args)) for make in (opening, closing)]

    return tokenizer_of_words(args.output_dir, brackets)


def train(model: str, folder: Path, seed: int, args: argparse.Namespace, options: list[str]) -> None:
    """Trains a model, unless that is done."""
    if (folder / "eval_results.json").exists():
        return
    suffix = "mrg" if model == "pushdown" else "conllu"
    files = {f"{part}_file": Path(args.language, f"{name}.{suffix}") for part, name in FILES.items()}
    named = {**OPTIONS, **files, "num_train_epochs": args.num_train_epochs, "seed": seed, "output_dir": folder}
    if model in MASKED:
        settings = {"model_type": model, "config_overrides": shape(model, args)}
        run_script(EXAMPLES / "run_mlm.py", *options, **named, **settings)
        return
    tokenizer = tokenizer_folder(args)
    if model == "gpt2":
        base = folder / "untrained"
        if not base.exists():
            save_whole(
                base,
                new_gpt2(shape(model, args), AutoTokenizer.from_pretrained(tokenizer, trust_remote_code=False), seed),
            )
        settings = {"base_model": base, "graph_layers": 0, "base_learning_rate": OPTIONS["learning_rate"]}
    else:
        settings = {"model_type": model, "config_overrides": shape(model, args)}
    run_script(EXAMPLES / "run_clm.py", *options, **named, **settings, tokenizer_name=tokenizer)


def closing_brackets(word: Sequence[str]) -> list[Bracket]:
    pairs = zip(partners(word), depths(word), strict=True)
    return [Bracket(place, place - one, depth) for place, (one, depth) in enumerate(pairs) if one < place]


def closings(model, tokenizer, words: Sequence[Sequence[str]], kinds: int) -> list[tuple[int, int, bool]]:
    """
    Of all closing brackets the distance, the depth, and whether a model holds the right type for the likeliest: of all
    types, or if there is one kind alone, of closing and opening ones.
    """
    brackets = [(word, bracket) for word in words for bracket in closing_brackets(word)]
    types = [closing(kind) for kind in range(kinds)] if kinds > 1 else [closing(0), opening(0)]
    log_probs = masked_log_probs if is_masked(model) else causal_log_probs
    values = log_probs(model, tokenizer, [(word, bracket.place) for word, bracket in brackets], types)
    results = []
    for number, (word, bracket) in enumerate(brackets):
        of_types = dict(zip(types, values[len(types) * number :], strict=False))
        right = max(of_types, key=of_types.get) == word[bracket.place]
        results.append((bracket.distance, bracket.depth, right))
    return results


Places = Sequence[tuple[Sequence[str], int]]  # words, and places in them


def masked_log_probs(model, tokenizer, places: Places, types: Sequence[str]) -> list[float]:
    """Log-probabilities of all types at each position, given all other brackets of the word."""
    rows = [
        {
            "input_ids": encode_words([*word[:place], bracket, *word[place + 1 :]], tokenizer),
            "word_ids": [int(number == place) for number in range(len(word))],  # which alone is scored
        }
        for word, place in places
        for bracket in types
    ]
    return [value for (value,) in pseudo_log_probs(model, tokenizer, rows, "original", MAX_TOKENS)]


def causal_log_probs(model, tokenizer, places: Places, types: Sequence[str]) -> list[float]:
    """Log-probabilities of all types at each position, given the brackets before it."""
    rows = [encode_subwords([*word[:place], bracket], tokenizer) for word, place in places for bracket in types]
    found = token_log_probs(model, rows, choose_beam(model, BEAM if abilities_of(model.config).incremental else None))
    return [values[-2] for values in found]  # the last is the end token's, before which nothing is pruned


def tree_scores(model, tokenizer, sentences: Sequence[dict], spans: Sequence[list]) -> dict[str, float]:
    """How near a model's trees or graphs are to the true ones, by the names of `COLUMNS`; nothing if it gives none."""
    words, heads = ([sentence[name] for sentence in sentences] for name in ("words", "heads"))
    if not abilities_of(model.config).structures:
        return {}
    parses = parse(words, model, tokenizer=tokenizer)
    if parses[0].graph is not None:
        system = [{"words": each.words, "arcs": each.graph.arcs} for each in parses]
        arcs = [[(head, number) for number, head in enumerate(tree, start=1)] for tree in heads]
        gold = [{"words": word, "arcs": each} for word, each in zip(words, arcs, strict=True)]
        return {"test_uas": arc_scores(system, gold).f1}
    found = {}
    if parses[0].dependency is not None:
        scores = attachment_scores([each.dependency.heads for each in parses], heads)
        found = {"test_uas": scores.uas, "test_uuas": scores.uuas}
    if parses[0].constituency is not None:
        system = [each.constituency.spans for each in parses]
        found["test_uf1"] = unlabeled_f1(system, spans, list(map(len, words))).uf1
    return found


def read_test(test: str, args: argparse.Namespace) -> tuple[list[dict], list[list]]:
    """The first words of a test, with heads, and their constituents."""
    sentences, trees = (list(load_sentences(Path(args.language, f"{test}.{s}")))[: args.words] for s in FORMATS)
    return sentences, [tree["spans"] for tree in trees]


def evaluate(folder: Path, args: argparse.Namespace) -> None:
    """Tests a trained model, unless that is done."""
    todo = [test for test in TESTS if not (folder / f"{test}.json").exists()]
    model, tokenizer = load_language_model(folder) if todo else (None, None)
    for test in todo:
        sentences, spans = read_test(test, args)
        words = [sentence["words"] for sentence in sentences]
        asked = count_kinds(args) > 1 or is_masked(model)
        found = closings(model, tokenizer, words, count_kinds(args)) if asked else []
        results = {"closings": found}
        if found:
            results["test_closing"] = fmean(right for *_, right in found)
        if far := [right for distance, _, right in found if distance > FAR]:
            results["test_far"] = fmean(far)
        write_json(results | tree_scores(model, tokenizer, sentences, spans), folder / f"{test}.json")


@cache
def _kinds(file: Path) -> int:
    return len({bracket for sentence in load_sentences(file) for bracket in sentence["words"]}) // 2


def count_kinds(args: argparse.Namespace) -> int:
    """Kinds of brackets of the language."""
    return _kinds(Path(args.language, "train.conllu"))


def baseline(test: str, args: argparse.Namespace) -> dict[str, float]:
    """Trees without a model: right branching, and every bracket's head its left neighbour."""
    sentences, spans = read_test(test, args)
    heads = [sentence["heads"] for sentence in sentences]
    scores = attachment_scores([left_chain(len(each)) for each in heads], heads)
    uf1 = unlabeled_f1([right_branching(len(each)) for each in heads], spans, list(map(len, heads))).uf1
    return {"test_uas": scores.uas, "test_uuas": scores.uuas, "test_uf1": uf1}


def binary_ceiling(test: str, args: argparse.Namespace) -> dict[str, float]:
    """UF1 of binary trees that have all constituents: such as StructFormer's, which splits a sentence in two."""
    sentences, spans = read_test(test, args)
    found = []
    for sentence, tree in zip(sentences, spans, strict=True):
        length = len(sentence["words"])
        gold = {(start, end) for start, end, _ in tree if 1 < end - start < length}
        found.append(2 * len(gold) / max(len(gold) + length - 2, 1))
    return {"test_uf1": fmean(found)}


def table(args: argparse.Namespace) -> str:
    """Current table, in Markdown."""
    rows = []
    for test in TESTS:
        for title, found in (("neighbours", baseline(test, args)), ("binary trees", binary_ceiling(test, args))):
            _, *cells = score_cells([found], COLUMNS.values())
            rows.append([title, test, "-", *cells])
        for model in args.models:
            found = (read_results(folder / f"{test}.json") for folder in folders(model, args))
            if cells := score_cells(found, COLUMNS.values()):
                rows.append([model, test, *cells])
    return markdown_table(("model", "test", "seeds", *COLUMNS), rows)


def folders(model: str, args: argparse.Namespace) -> list[Path]:
    return [seed_folder(args.output_dir, model, seed) for seed in args.seeds]


def draw(args: argparse.Namespace, name: str, class_of: Callable[[int, int], int], log: bool) -> None:
    """Figure `name.svg`: how many closing brackets of a class get their type, in percent; a mean for each run."""
    panels = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for test, model in product(TESTS, args.models):
        for folder in folders(model, args):
            classes = defaultdict(list)
            for distance, depth, right in read_results(folder / f"{test}.json").get("closings", ()):
                classes[class_of(distance, depth)].append(100 * right)
            for number, values in classes.items():
                panels[test][model][number].append(fmean(values))
    if not panels:  # causal models alone, and brackets of one kind
        return
    write_figure(plot_curves(panels, name, log=log), Path(args.output_dir, f"{name}.svg"))


def main() -> None:
    args, options = parse_arguments(build_parser())
    for seed, model in product(args.seeds, args.models):
        folder = seed_folder(args.output_dir, model, seed)
        train(model, folder, seed, args, options)
        evaluate(folder, args)
        write_text(table(args), Path(args.output_dir, "table.md"))
    draw(args, "distance", lambda distance, depth: 1 << distance.bit_length() - 1, log=True)  # 1, 2 to 3, 4 to 7, ...
    draw(args, "depth", lambda distance, depth: depth, log=False)
    print(table(args), end="")


if __name__ == "__main__":
    run(main, "compare_dyck.py")
