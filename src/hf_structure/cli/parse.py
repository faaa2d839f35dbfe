"""`hf-structure parse`."""

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import IO, TYPE_CHECKING

from hf_structure.cli.common import (
    add_command,
    add_input_format,
    add_output,
    add_parsing,
    check_inputs,
    options_of,
    output_file,
    output_form,
    refuse_options,
    share,
)
from hf_structure.cli.results import BadInputError, ask_for_lines, read_sentences, report, results_of
from hf_structure.drawing.html import render_html
from hf_structure.parsing.options import NAMES
from hf_structure.structures.constituency_tree import ConstituencyTree
from hf_structure.structures.dependency_graph import DependencyGraph
from hf_structure.structures.dependency_tree import DependencyTree
from hf_structure.structures.parse import Parse
from hf_structure.structures.parses import Parses
from hf_structure.text.conllu import ConlluSentence
from hf_structure.text.formats import SUFFIXES
from hf_structure.text.sdp import HEADER
from hf_structure.text.sentences import SentenceError, SourceSentence

if TYPE_CHECKING:
    from hf_structure.parsing.parser import Parser

Result = tuple[Parse | None, SourceSentence]


def add_parse(commands: argparse._SubParsersAction) -> None:
    parser = add_command(commands, "parse", "parse sentences", run_parse)
    parser.add_argument(
        "files", nargs="*", metavar="FILE", default=["-"], help="text, CoNLL-U, SDP or brackets; default: stdin"
    )
    parser.add_argument(
        "--format",
        choices=sorted([*WRITERS, "html"]),
        help="form of the output; default: from the suffix of --output, else text",
    )
    add_output(parser)
    add_input_format(parser)
    several = {"help": "the N best trees or graphs of each sentence; not with --format conllu, sdp and brackets"}
    arcs = {"help": "with --format json: the probabilities of all arcs"}
    tags = {
        "help": "with --format conllu or json: the probabilities of tags, features and lemmas, too; CoNLL-U that was "
        "read gets all of them, in MISC"
    }
    add_parsing(parser, k=several, marginals=arcs, probabilities=tags)
    parser.add_argument(
        "--flag",
        type=share,
        metavar="P",
        help="with --format conllu, json or text: mark the words whose head has a probability below P: Flag=Yes in "
        "MISC, the column flag in JSON, a line below a tree in text",
    )
    parser.add_argument(
        "--refine", action="store_true", help="start from the trees of the CoNLL-U that is read, if the model can"
    )
    parser.add_argument(
        "--spaces_after",
        action="store_true",
        help="with --format conllu: add SpacesAfter to MISC, from which the text can be restored",
    )
    parser.add_argument(
        "--ptb_words",
        action="store_true",
        help="with --format brackets: spell words as the Penn Treebank does (-LSB-, two backticks for a quote)",
    )


def run_parse(options: argparse.Namespace) -> None:
    """
    Parses sentences of text, CoNLL-U, SDP or brackets and writes their trees or graphs. Errors are printed after the
    other files.
    """
    options.format = output_form(options.format, options.output, SUFFIX_FORMATS, "text")
    if options.input_format == "paragraphs":
        options.line_breaks = "space"
    _check_parse(options)
    # Late: it imports torch, which takes seconds. Bad options are reported at once.
    from hf_structure.parsing.parser import WINDOW, Parser

    structure = options.structure or DEFAULTS.get(options.format)
    # Initial trees belong to the sentences as they are read: these must not be split again.
    sentences = "line" if options.refine else options.sentences
    parser = Parser(options.model, **options_of(options, structure=structure, sentences=sentences))
    # Parsing nothing raises errors of options before a file is opened, and overwritten.
    parser((), initial=() if options.refine else None)
    if options.flag is not None and "dependency" not in parser.structures:
        raise ValueError("--flag marks words of dependency trees, but there are none")
    ask_for_lines(options.files)
    failures: list[BadInputError] = []
    with output_file(options.output) as file:
        read = partial(read_sentences, input_format=options.input_format, line_breaks=options.line_breaks)
        process = partial(_parse_chunk, parser=parser, refine=options.refine)
        sizes = options.batch_size, options.batch_size * WINDOW
        results = results_of(options.files, read, process, sizes, options.output is not None, failures)
        report(_write(results, options, file), failures)


def parse_sources(parser: "Parser", sources: Iterable[SourceSentence]) -> Iterator[list[Parse | None]]:
    """Yields, for each sentence or text, the parses of its sentences."""
    for found in parser.pipe(sources):
        yield found if isinstance(found, Parses) else [found]


def _parse_chunk(sources: Sequence[SourceSentence], parser: "Parser", refine: bool) -> Iterator[Result]:
    """Yields each parse with its source. Raises `BadInputError` for a sentence that cannot be parsed."""
    if refine:
        for source in sources:
            source.initial = _initial_tree(source)
    try:
        for source, parses in zip(sources, parse_sources(parser, sources), strict=True):
            yield from ((parsed, source) for parsed in parses)
    except SentenceError as error:
        raise BadInputError(str(error)) from error


def _write(results: Iterator[Result], options: argparse.Namespace, file: IO[str]) -> list[str]:
    """Writes parses as they come (HTML in the end). Returns the locations of skipped sentences."""
    skipped: list[str] = []
    numbered = _numbered(results, skipped)
    if options.format == "html":
        # A page has one head and one title, so it is written at once.
        file.write(render_html([parsed for _, parsed in numbered]))
        return skipped
    write = WRITERS[options.format]
    if options.format == "conllu":
        probabilities = options.probabilities or options.flag is not None
        write = partial(write_conllu, spaces_after=options.spaces_after, probabilities=probabilities)
    if options.format == "brackets":
        write = partial(_write_brackets, ptb_words=options.ptb_words)
    file.write(HEADERS.get(options.format, ""))
    for number, parsed in numbered:
        file.write(write(parsed if options.flag is None else flagged(parsed, options.flag), number))
        # Whoever types sentences, or sends them through a pipe, waits for each tree.
        file.flush()
    return skipped


def _numbered(results: Iterator[Result], skipped: list[str]) -> Iterator[tuple[int, Parse]]:
    """Yields parses with their numbers, from 1. The locations of skipped sentences go to `skipped`."""
    # Skipped sentences are counted, so that numbers are the same as in the input.
    for number, (parsed, source) in enumerate(results, start=1):
        if parsed is None:
            skipped.append(source.place)
        else:
            yield number, parsed


def _initial_tree(source: SourceSentence) -> ConlluSentence:
    if source.source is None or source.source.heads is None:
        raise ValueError(f"--refine needs CoNLL-U with trees, but {source.place} has none")
    return source.source


def _check_parse(options: argparse.Namespace) -> None:
    """Raises `ValueError` for bad options, before a model is loaded or a file overwritten."""
    if options.k > 1 and options.format not in SEVERAL:
        raise ValueError(f"-k needs --format {', '.join(SEVERAL)}: {options.format} holds one tree or graph")
    if options.format != "json":
        refuse_options(options, ["marginals"], "need --format json: no other format can hold them")
    if options.k > 1 and options.decoder != "tree":
        raise ValueError("-k needs --decoder tree")
    if options.format != "conllu":
        refuse_options(options, ["spaces_after"], "needs --format conllu: no other format has MISC")
    if options.format != "brackets":
        refuse_options(options, ["ptb_words"], "needs --format brackets")
    if options.format not in ("conllu", "json"):
        refuse_options(options, ["probabilities"], "needs --format conllu or json: no other format can hold them")
    if options.format not in ("conllu", "json", "text"):
        refuse_options(options, ["flag"], "needs --format conllu, json or text")
    if options.structure:
        _check_structure(options)
    check_inputs(options.files, options.output)


def _check_structure(options: argparse.Namespace) -> None:
    """Raises `ValueError` for a structure that the format cannot hold, or that has no marginals."""
    held = HELD.get(options.format)
    requested = ("dependency", "constituency") if options.structure == "both" else (options.structure,)
    if held and set(held).isdisjoint(requested):
        raise ValueError(f"--format {options.format} holds {' and '.join(map(NAMES.__getitem__, held))} only")
    if options.structure == "constituency":
        reason = "are about dependencies: they need --structure dependency, both or graph"
        refuse_options(options, ["marginals"], reason)


def flagged(parsed: Parse, threshold: float) -> Parse:
    """Adds the column `flag` to a tree: "Yes" for each word whose head's probability is below the threshold."""
    tree = parsed.dependency
    if tree is None or tree.probabilities is None:
        return parsed
    marks = ["Yes" if value is not None and value < threshold else None for value in tree.probabilities]
    return replace(parsed, dependency=replace(tree, columns={**tree.columns, "flag": marks}))


def write_conllu(parsed: Parse, number: int, spaces_after: bool = False, probabilities: bool = False) -> str:
    """Writes a sentence as CoNLL-U; a sentence without `sent_id` gets this number."""
    return parsed.to_conllu(parsed.numbered(number), spaces_after, probabilities)


def _write_brackets(parsed: Parse, number: int, ptb_words: bool = False) -> str:
    return parsed.to_brackets(ptb_words) + "\n"


def _write_text(parsed: Parse, number: int) -> str:
    marks = () if parsed.dependency is None else parsed.dependency.columns.get("flag", ())
    words = [f"{word.number} {word.form}" for word, mark in zip(parsed, marks, strict=False) if mark]
    line = f"flagged: {', '.join(words)}\n" if words else ""
    return f"{' '.join(parsed.words)}\n{parsed}\n{line}\n"


def _write_sdp(parsed: Parse, number: int) -> str:
    if parsed.source is None:
        return parsed.to_sdp(str(number))
    # SDP has columns for lemmas and tags, which graphs lack: they come from the source.
    lemmas = [word.lemma for word in parsed.source.words]
    tags = [word.xpos for word in parsed.source.words]
    return parsed.to_sdp(parsed.metadata.get("sent_id", str(number)), lemmas, tags)


def _best(parsed: Parse) -> Sequence[Parse | DependencyTree | ConstituencyTree | DependencyGraph]:
    """Returns the parse with both of its trees, followed by the second best tree or graph and the rest of the k."""
    return [parsed, *parsed.alternatives[1:]]


SEVERAL = ("html", "json", "svg", "text", "tikz")  # formats of the k best
HELD = {"brackets": ("constituency",), "conllu": ("dependency", "graph"), "sdp": ("graph",)}  # structures of formats
DEFAULTS = {"brackets": "constituency", "sdp": "graph"}
HEADERS = {"sdp": f"{HEADER}\n"}
SUFFIX_FORMATS = {
    **{suffix: form for form in ("conllu", "brackets", "sdp", "text") for suffix in SUFFIXES[form]},
    **{".html": "html", ".json": "json", ".jsonl": "json", ".svg": "svg", ".tex": "tikz"},
}
WRITERS: dict[str, Callable[..., str]] = {
    "brackets": _write_brackets,
    "conllu": write_conllu,
    "json": lambda parsed, *_: json.dumps(parsed.to_dict(), ensure_ascii=False) + "\n",
    "sdp": _write_sdp,
    "text": _write_text,
    "svg": lambda parsed, *_: "".join(each.to_svg() + "\n" for each in _best(parsed)),
    "tikz": lambda parsed, *_: "".join(each.to_tikz() + "\n" for each in _best(parsed)),
}
