"""`hf-structure agree` and `hf-structure consensus`."""

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, combinations, zip_longest
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from hf_structure.cli.common import (
    add_command,
    add_output,
    check_files,
    counted,
    named_errors,
    number_cell,
    output_file,
    print_table,
)
from hf_structure.cli.parse import DEFAULTS, WRITERS, parse_sources
from hf_structure.cli.results import read_sentences
from hf_structure.hub.locating import resolve_model
from hf_structure.metrics.attachment import attachment_scores, check_words, score_sentences
from hf_structure.metrics.constituency import unlabeled_f1
from hf_structure.structures.constituency_tree import ConstituencyTree
from hf_structure.text.brackets import read_brackets
from hf_structure.text.conllu import ConlluSentence, read_conllu, without_probabilities
from hf_structure.text.files import plain_path
from hf_structure.text.formats import SUFFIXES, load_sentences


def add_agree(commands: argparse._SubParsersAction) -> None:
    parser = add_command(commands, "agree", "measure the agreement of several parsers", run_agree)
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="the same sentences by several parsers: all CoNLL-U or all brackets"
    )
    parser.add_argument("--text", metavar="TEXT", help="parse this text first: FILEs are then models")
    parser.add_argument("--brackets", action="store_true", help="with --text: constituents instead of dependencies")
    parser.add_argument(
        "--head_rules",
        action="store_true",
        help="read dependencies off labelled constituents of English by head rules, and compare these: of files of "
        "brackets, or with --text of the models, beside their own dependencies (one model is enough)",
    )
    parser.add_argument(
        "--gold", metavar="FILE", help="CoNLL-U with the relations of the words: also the agreement on each"
    )
    parser.add_argument("--sentences", action="store_true", help="also the agreement on each sentence")


def add_consensus(commands: argparse._SubParsersAction) -> None:
    parser = add_command(commands, "consensus", "combine the trees of several parsers", run_consensus)
    parser.add_argument("files", nargs="+", metavar="FILE", help="the same sentences by several parsers, in CoNLL-U")
    add_output(parser)


def run_agree(options: argparse.Namespace) -> None:
    """
    Compares the trees of several parsers with each other. Prints the UAS and UUAS of dependency trees, or the
    unlabelled F1 of constituents, for every two files, and the mean of each file with all others. With `--gold` and
    `--sentences`, also prints the mean over all pairs of files for each relation and for each sentence. With `--text`,
    compares models instead of files; with `--head_rules`, also the two trees of one model.
    """
    form = _checked_format(options)
    # Before models parse, which may take hours.
    check_files([name for name in (options.text, options.gold) if name], None)
    agreement = AGREEMENTS[form]
    with _trees(options) as (files, titles):
        pairs = {pair: agreement.of_files(*pair) for pair in combinations(files, 2)}
        for number, measure in enumerate(agreement.measures):
            if number:
                print()
            _print_matrix(measure, files, titles, {pair: values[number] for pair, values in pairs.items()})
        if options.gold:
            _print_relations(options.gold, files)
        if options.sentences:
            _print_sentences(agreement.measures, agreement.of_sentences(files))


def _checked_format(options: argparse.Namespace) -> str:
    """Returns `"brackets"` or `"conllu"`, the format of the trees. Raises `ValueError` for bad options."""
    if not (options.head_rules and options.text):
        _check_several(options.files)
    if options.brackets and not options.text:
        raise ValueError(
            "--brackets is for models, which --text gives something to parse; of files the format says it"
        )
    if options.text == "-":
        raise ValueError("--text is read again for each model: give a file, not standard input")
    if options.brackets and options.head_rules:
        raise ValueError("--brackets compares constituents, --head_rules dependencies: give one of them")
    if options.head_rules:
        return "conllu"
    # The suffix decides, so that options are checked before a file is read.
    has_brackets = options.brackets if options.text else _are_brackets(options.files)
    if has_brackets and options.gold:
        raise ValueError("--gold is for dependency trees: constituents have no relations")
    return "brackets" if has_brackets else "conllu"


def _are_brackets(files: Sequence[str]) -> bool:
    """Returns True for files of constituents, judged by suffix. Raises `ValueError` for a mixture."""
    brackets = {plain_path(name).suffix.lower() in SUFFIXES["brackets"] for name in files}
    if len(brackets) > 1:
        raise ValueError("the files differ in format: give trees in CoNLL-U, or in brackets, but not both")
    return brackets.pop()


@contextmanager
def _trees(options: argparse.Namespace) -> Iterator[tuple[list[str], list[str]]]:
    """Yields the files to compare and their titles. The trees of models and of head rules are temporary files."""
    if not options.text and not options.head_rules:
        yield options.files, options.files
        return
    # Files, not lists: each pair is read anew, so that memory does not bound the size of a corpus.
    with TemporaryDirectory() as folder:
        if not options.text:
            files = [_read_off(name, Path(folder, f"{number}.conllu")) for number, name in enumerate(options.files)]
            yield files, options.files
            return
        # Resolve all models first: a misspelled name should not cost the time of parsing with the others.
        models = [resolve_model(name) for name in options.files]
        files = []
        titles = []
        for number, (name, model) in enumerate(zip(options.files, models, strict=True)):
            if options.head_rules:
                titles += [name, f"{name} (constituents)"]
                files += _parse_both(Path(folder, str(number)), options.text, model)
            else:
                titles.append(name)
                files.append(str(Path(folder, f"{number}.{'mrg' if options.brackets else 'conllu'}")))
                _parse_into(files[-1], "brackets" if options.brackets else "conllu", options.text, model)
        yield files, titles


def _read_off(name: str, file: Path) -> str:
    """Returns a file of CoNLL-U: this one, or what head rules read off its brackets, written to `file`."""
    if plain_path(name).suffix.lower() not in SUFFIXES["brackets"]:
        return name
    with named_errors(name), output_file(str(file)) as output:
        for number, brackets in enumerate(read_brackets(name, unescape=True), start=1):
            output.write(_by_rules(ConstituencyTree.from_brackets(brackets), number))
    return str(file)


def _by_rules(tree: ConstituencyTree, number: int) -> str:
    """The dependencies of a constituency tree as CoNLL-U."""
    with named_errors(f"sentence {number}"):
        return ConlluSentence.from_words(tree.words, tree.to_heads(), tags=tree.tags).to_string()


def _parse_both(folder: Path, text: str, model: str) -> list[str]:
    """Parses a text. Returns the file of its dependency trees, and the file of the heads of its constituents."""
    folder.mkdir()
    files = [str(folder / f"{name}.conllu") for name in ("own", "constituents")]
    with output_file(files[0]) as own, output_file(files[1]) as others:
        for number, parsed in enumerate(_parsed(text, model, "both"), start=1):
            own.write(WRITERS["conllu"](parsed, number))
            others.write(_by_rules(parsed.constituency, number))
    return files


def _parse_into(file: str, form: str, text: str, model: str) -> None:
    """Parses a text as `hf-structure parse` does by default and writes the trees to a file."""
    with output_file(file) as output:
        for number, parsed in enumerate(_parsed(text, model, DEFAULTS.get(form)), start=1):
            output.write(WRITERS[form](parsed, number))


def _parsed(text: str, model: str, structure: str | None) -> Iterable[Any]:
    """The parses of a text."""
    from hf_structure.parsing.parser import Parser  # brings torch

    parser = Parser(model, structure=structure, sentences="auto")
    return counted(chain.from_iterable(parse_sources(parser, read_sentences(text, "auto"))), model)


def _print_relations(gold: str, files: Sequence[str]) -> None:
    """Prints the UAS of each relation, averaged over pairs of files, most frequent relations first."""
    counts: Counter[str] = Counter()
    agreed: defaultdict[str, float] = defaultdict(float)
    for reference, *sentences in _together([gold, *files]):
        for label, *heads in zip(reference.deprels, *map(_heads, sentences), strict=True):
            counts[label] += 1
            agreed[label] += mean(one == other for one, other in combinations(heads, 2))
    rows = [[label, str(count), f"{100 * agreed[label] / count:.2f}"] for label, count in counts.most_common()]
    print()
    print_table([["relation", "words", "UAS"], *rows])


def _print_sentences(measures: Sequence[str], sentences: Iterator[tuple[int, list[tuple[float, ...]]]]) -> None:
    """Prints the mean over pairs of files for each sentence, given its length and the scores of all pairs."""
    rows = [["sentence", "words", *measures]]
    for number, (words, pairs) in enumerate(sentences, start=1):
        means = (f"{100 * mean(values):.2f}" for values in zip(*pairs, strict=True))
        rows.append([str(number), str(words), *means])
    print()
    print_table(rows)


def _of_conllu(files: Sequence[str]) -> Iterator[tuple[int, list[tuple[float, ...]]]]:
    for sentences in _together(files):
        pairs = (attachment_scores([_heads(one)], [_heads(other)]) for one, other in combinations(sentences, 2))
        yield len(sentences[0].words), [(scores.uas, scores.uuas) for scores in pairs]


def _of_brackets(files: Sequence[str]) -> Iterator[tuple[int, list[tuple[float, ...]]]]:
    for sentences in zip(*(load_sentences(name, "brackets") for name in files), strict=True):
        length = len(sentences[0]["words"])
        pairs = combinations([sentence["spans"] for sentence in sentences], 2)
        yield length, [(unlabeled_f1([one], [other], [length]).uf1,) for one, other in pairs]


def _check_several(files: Sequence[str]) -> None:
    if len(files) < 2 or len(set(files)) < len(files):
        raise ValueError("at least two different files are needed")


def _compare_conllu(one: str, other: str) -> tuple[float, float]:
    with named_errors(f"{one} and {other}"):
        scores = score_sentences(read_conllu(one), read_conllu(other))
    return scores.uas, scores.uuas


def _compare_brackets(one: str, other: str) -> tuple[float]:
    first, second = (list(load_sentences(name, "brackets")) for name in (one, other))
    with named_errors(f"{one} and {other}"):
        if len(first) != len(second):
            raise ValueError(f"{len(first)} sentences, and {len(second)}")
        for number, (tree, with_tree) in enumerate(zip(first, second, strict=True), start=1):
            check_words(tree["words"], with_tree["words"], number)
        one_spans, other_spans = ([sentence["spans"] for sentence in sentences] for sentences in (first, second))
        return (unlabeled_f1(one_spans, other_spans, [len(sentence["words"]) for sentence in first]).uf1,)


def _print_matrix(
    measure: str, files: Sequence[str], titles: Sequence[str], values: dict[tuple[str, str], float]
) -> None:
    rows = [[measure, *map(str, range(1, len(files) + 1)), "mean"]]
    for number, (name, title) in enumerate(zip(files, titles, strict=True), start=1):
        # Agreement is symmetric, so each pair was computed once.
        row = [None if other == name else values.get((name, other), values.get((other, name))) for other in files]
        others = mean(value for value in row if value is not None)
        cells = (number_cell(value, factor=100) for value in (*row, others))
        rows.append([f"{number}  {title}", *cells])
    print_table(rows)


def run_consensus(options: argparse.Namespace) -> None:
    """
    Combines the trees of several parsers into one tree for each sentence: the tree whose arcs get the most votes
    (reparsing, Sagae and Lavie 2006), each arc with the label that most of its voters give it. MISC holds the number
    of votes (`Votes=2`). All other columns come from the first file.
    """
    _check_several(options.files)
    check_files(options.files, options.output)
    with output_file(options.output) as file:
        for sentences in counted(_together(options.files), "voting"):
            file.write(_vote(sentences).to_string())


def _together(files: Sequence[str]) -> Iterator[tuple[ConlluSentence, ...]]:
    """Yields each sentence as all files have it. Raises `ValueError` if they differ in words or number."""
    # `zip_longest` rather than `strict=True`, to name the file that is too short.
    for number, sentences in enumerate(zip_longest(*map(read_conllu, files)), start=1):
        for name, sentence in zip(files, sentences, strict=True):
            if sentence is None:
                raise ValueError(f"{name} has {number - 1} sentences only, others have more")
            if sentence.forms != sentences[0].forms:
                raise ValueError(f"sentence {number} has other words in {name} than in {files[0]}")
            if sentence.heads is None:
                raise ValueError(f"{name}: sentence {number} has a word without a head")
        yield sentences


def _heads(sentence: ConlluSentence) -> list[int]:
    """The heads of a sentence, which [`_together`] has checked."""
    heads = sentence.heads
    assert heads is not None
    return heads


def _vote(sentences: Sequence[ConlluSentence]) -> ConlluSentence:
    from hf_structure.algorithms.consensus import vote_heads, vote_labels  # brings torch

    trees = list(map(_heads, sentences))
    # Parsers that agree on a tree need no search.
    labels = [sentence.deprels for sentence in sentences]
    agreed = all(tree == trees[0] for tree in trees)
    heads = trees[0] if agreed and trees[0].count(0) == 1 else vote_heads(trees)
    votes = [sum(tree[word] == head for tree in trees) for word, head in enumerate(heads)]
    # The probabilities of the first file describe its own tree, not the tree of all.
    kept = without_probabilities(sentences[0])
    notes = [
        f"Votes={count}" if token.misc == "_" else f"{token.misc}|Votes={count}"
        for token, count in zip(kept.words, votes, strict=True)
    ]
    return kept.with_heads(heads, vote_labels(heads, trees, labels)).with_column("misc", notes)


class Agreement(NamedTuple):
    """The agreement of trees in one format."""

    measures: tuple[str, ...]
    of_files: Callable[[str, str], tuple[float, ...]]  # each measure of two files
    of_sentences: Callable[[Sequence[str]], Iterator[tuple[int, list[tuple[float, ...]]]]]  # see `_print_sentences`


AGREEMENTS = {
    "brackets": Agreement(("UF1",), _compare_brackets, _of_brackets),
    "conllu": Agreement(("UAS", "UUAS"), _compare_conllu, _of_conllu),
}
