"""
Makes a bracket language to train and test on: words of Dyck-k, drawn uniformly, with their trees.

    python examples/papers/prepare_dyck.py --kinds 4 --max_depth 4 --deeper 8 --min_length 10 --max_length 30 \\
        --longer 60 --output dyck-4

Training words have from `--min_length` to `--max_length` brackets, and at most `--max_depth` are open at a time. The
sets `dev` and `test` are of the same kind; words of `longer` are longer, up to `--longer`, but not deeper; words of
`deeper` are deeper, up to `--deeper`, but not longer. A length is drawn first, all alike, then one of its words, all
alike (see `hf_structure.corpora.dyck`). No word of another set is in the training set. `--kinds 1` gives one type
of brackets. With `--unbounded`, words have any depth (Dyck-u); those of `deeper` are as deep as training words, but
all of them are deeper than `--max_depth`. Each set is written as text (`.txt`), with its dependency trees (`.conllu`)
and with its constituents (`.mrg`), which all training scripts read.
"""

import argparse
import math
from collections.abc import Callable, Container, Iterator
from itertools import islice
from pathlib import Path
from random import Random

from hf_structure.cli.common import positive, run_with_options
from hf_structure.corpora.dyck import DyckLanguage, constituents, to_conllu
from hf_structure.text.files import new_file

FORMATS: dict[str, Callable[[list[str]], str]] = {
    "txt": lambda word: " ".join(word) + "\n",
    "conllu": lambda word: str(to_conllu(word)),
    "mrg": lambda word: f"{constituents(word)}\n",
}
TRIES = 1000  # words drawn in a row that are in another set: the language is too small then


def sample_words(
    language: DyckLanguage, lengths: range, rng: Random, without: Container[tuple[str, ...]] = ()
) -> Iterator[list[str]]:
    """
    Words without end, of lengths drawn uniformly from those that the language has words of. Raises `ValueError` if it
    has none of these lengths, or `without` holds nearly all of them.
    """
    pairs = sorted({length // 2 for length in lengths if length % 2 == 0 and language.count(length // 2)})
    if not pairs:
        depth = f"{language.min_depth} to {language.max_depth}"
        raise ValueError(f"no word of {lengths.start} to {lengths.stop - 1} brackets has a depth of {depth}")
    tries = 0
    while tries < TRIES:
        word = language.sample(rng.choice(pairs), rng)
        tries = tries + 1 if tuple(word) in without else 0
        if not tries:
            yield word
    raise ValueError("the language is too small: nearly all its words are in the test sets; see --max_length")


def make_sets(args: argparse.Namespace) -> dict[str, list[list[str]]]:
    """The words of all sets, those of the training set last: they are none of the others."""
    plain = DyckLanguage(args.kinds, math.inf if args.unbounded else args.max_depth)
    deep = DyckLanguage(args.kinds, args.deeper, args.max_depth + 1)
    short, long = range(args.min_length, args.max_length + 1), range(args.max_length + 1, args.longer + 1)
    rng = Random(args.seed)
    sets = {}
    for name, language, lengths in (
        ("dev", plain, short),
        ("test", plain, short),
        ("longer", plain, long),
        ("deeper", deep, short),
    ):
        sets[name] = list(islice(sample_words(language, lengths, rng), args.test))
    others = {tuple(word) for words in sets.values() for word in words}
    sets["train"] = list(islice(sample_words(plain, short, rng, others), args.train))
    return sets


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True, metavar="FOLDER", help="where the files go")
    parser.add_argument("--overwrite", action="store_true", help="replace files that exist")
    for name, default, what in (
        ("kinds", 2, "kinds of brackets; 1: brackets without type"),
        ("max_depth", 4, "most brackets that are open at a time"),
        ("deeper", 8, "the same in the set `deeper`"),
        ("min_length", 10, "fewest brackets of a word"),
        ("max_length", 30, "most brackets of a word"),
        ("longer", 60, "the same in the set `longer`"),
        ("train", 10_000, "words to train on"),
        ("test", 500, "words of each other set"),
    ):
        help_text = f"{what}; default: {default}"
        parser.add_argument(f"--{name}", type=positive, default=default, metavar="N", help=help_text)
    parser.add_argument(
        "--unbounded", action="store_true", help="words of any depth, Dyck-u; only `deeper` keeps to its bounds"
    )
    parser.add_argument("--seed", type=int, default=1, help="default: 1")
    return parser


def prepare(args: argparse.Namespace) -> None:
    for name, least in (("deeper", args.max_depth), ("longer", args.max_length)):
        if getattr(args, name) <= least:
            raise ValueError(f"--{name} {getattr(args, name)} must be more than {least}")
    for name, words in make_sets(args).items():
        for suffix, to_text in FORMATS.items():
            with new_file(Path(args.output, f"{name}.{suffix}"), args.overwrite) as file:
                file.writelines(map(to_text, words))
        print(f"{args.output}: {name}: {len(words):,} words, {sum(map(len, words)):,} brackets")


def main(arguments: list[str] | None = None) -> None:
    run_with_options(build_parser(), prepare, arguments)


if __name__ == "__main__":
    main()
