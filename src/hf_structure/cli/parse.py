"""`hf-structure parse`."""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import IO, Any, cast

from hf_structure.cli.common import (
    Item,
    add_command,
    add_dtype,
    add_input_format,
    add_model,
    add_sentences,
    add_skip_long,
    add_word_tokenizer,
    check_inputs,
    output_file,
    output_form,
    positive,
    without_probabilities,
)
from hf_structure.cli.results import BadInputError, ask_for_lines, read_sentences, report, results_of
from hf_structure.data.conllu import ConlluSentence
from hf_structure.data.corpus import SUFFIXES
from hf_structure.data.normalization import is_punctuation
from hf_structure.data.sdp import HEADER, SdpSentence
from hf_structure.data.sentences import SentenceError
from hf_structure.drawing.html import render_html
from hf_structure.pipelines.options import MAX_WORDS, NAMES, PUNCTUATION, SENTENCES, STRUCTURES
from hf_structure.structures.dependency_graph import DependencyGraph
from hf_structure.structures.dependency_tree import DependencyTree
from hf_structure.structures.parse import Parse

Source = ConlluSentence | SdpSentence | None  # what the sentence was read from, if that has other columns


def add_parse(commands: argparse._SubParsersAction) -> None:
    parser = add_command(commands, "parse", "parse sentences", run_parse)
    parser.add_argument(
        "files", nargs="*", metavar="FILE", default=["-"], help="text, CoNLL-U, SDP or brackets; default: stdin"
    )
    add_model(parser)
    add_dtype(parser)
    parser.add_argument(
        "--structure", choices=STRUCTURES, help="the kind of structure; default: all that the model gives"
    )
    parser.add_argument(
        "--format",
        choices=sorted([*WRITERS, "html"]),
        help="form of the output; default: from the suffix of --output, else text",
    )
    parser.add_argument(
        "--output", metavar="FILE", help="where to write (FILE.partial until it is whole); default: stdout"
    )
    add_input_format(parser)
    add_sentences(parser, SENTENCES, "model where the model can, else split")
    add_word_tokenizer(parser)
    parser.add_argument(
        "--decoder",
        choices=["tree", "projective", "argmax"],
        default="tree",
        help="the best tree (default), the best tree without crossing arcs, or the best head of each word",
    )
    parser.add_argument(
        "-k",
        type=positive,
        default=1,
        metavar="N",
        help="the N best trees or graphs of each sentence; not with --format conllu, sdp and brackets",
    )
    parser.add_argument(
        "--beam_size", type=positive, metavar="N", help="trees or graphs followed by a model that works step by step"
    )
    parser.add_argument(
        "--refine", action="store_true", help="start from the trees of the CoNLL-U that is read, if the model can"
    )
    parser.add_argument(
        "--rounds", type=positive, metavar="N", help="how often a model that refines its trees does so at most"
    )
    parser.add_argument(
        "--treebank", metavar="NAME", help="the treebank whose habits are followed, of a model that knows several"
    )
    parser.add_argument("--marginals", action="store_true", help="with --format json: the probabilities of all arcs")
    parser.add_argument(
        "--punctuation",
        choices=PUNCTUATION,
        default="attach",
        help="attach it by rule (default), drop it from the tree, or show it to the model",
    )
    parser.add_argument(
        "--batch_size", type=positive, default=64, metavar="N", help="sentences read at once; default: %(default)s"
    )
    parser.add_argument(
        "--max_words",
        type=positive,
        default=MAX_WORDS,
        metavar="N",
        help="refuse longer sentences; default: %(default)s",
    )
    add_skip_long(parser)


def run_parse(options: argparse.Namespace) -> None:
    """
    Parses sentences of text, CoNLL-U, SDP or brackets and writes their trees or graphs. Errors are printed after the
    other files.
    """
    options.format = output_form(options.format, options.output, SUFFIX_FORMATS, "text")
    _check_parse(options)
    from hf_structure.abilities import abilities_of
    from hf_structure.pipelines.parsing import WINDOW, load_parser, parse

    model, tokenizer = load_parser(
        options.model, None, options.device, options.dtype, trust_remote_code=options.trust_remote_code
    )
    sentences = options.sentences or ("model" if abilities_of(model.config).segments else "split")
    by_model = sentences == "model" and not options.refine
    parse_chunk = partial(cast(Any, parse), model=model, tokenizer=tokenizer, **_settings(options))
    parse_chunk([], sentences="model" if by_model else "line")  # raises errors of options before a file is opened
    ask_for_lines(options.files)
    failures: list[BadInputError] = []
    with output_file(options.output) as file:
        process = partial(_parse_chunk, parse=parse_chunk, by_model=by_model, refine=options.refine)
        sizes = options.batch_size, options.batch_size * WINDOW
        read = partial(read_sentences, input_format=options.input_format, sentences=sentences)
        pairs = results_of(options.files, read, process, sizes, options.output is not None, failures)
        report(_write(pairs, options.format, file), failures)


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """Of the command line, what [`~hf_structure.parse`] calls the same."""
    names = ("decoder", "k", "beam_size", "rounds", "marginals", "punctuation", "batch_size", "max_words")
    names += ("skip_long", "word_tokenizer", "treebank")
    settings = {name: getattr(options, name) for name in names}
    return {"structure": options.structure or DEFAULTS.get(options.format), **settings}


def parse_items(
    items: Sequence[Item], parse: Callable[..., Iterator[Any]], by_model: bool, initial: Sequence[Any] | None = None
) -> Iterator[list[Parse | None]]:
    """The parses of each item: that of its sentence, or those of the sentences of raw text that the model finds."""
    if not by_model:
        sentences = (item.sentence for item in items)
        yield from ([parsed] for parsed in parse(sentences, sentences="line", initial=initial))
        return
    texts = (item.sentence if item.text is None else item.text for item in items)
    for item, parses in zip(items, parse(texts, sentences="model"), strict=True):
        yield [None if parsed is None else replace(parsed, start=item.start + parsed.start) for parsed in parses]


def _parse_chunk(
    items: Sequence[Item], parse: Callable[..., Iterator[Any]], by_model: bool, refine: bool
) -> Iterator[tuple[Parse | None, Item]]:
    """Each with what it was read from. Raises `BadInputError` with the place of a sentence that cannot be parsed."""
    initial = list(map(_initial_tree, items)) if refine else None
    done = 0
    try:
        for parses in parse_items(items, parse, by_model, initial):
            yield from ((parsed, items[done]) for parsed in parses)
            done += 1
    except SentenceError as error:
        raise BadInputError(f"{items[done].place}: {error.reason}") from error


def _write(pairs: Iterator[tuple[Parse | None, Item]], format: str, file: IO[str]) -> list[str]:
    """Writes parses as they come, a page of HTML in the end; the places of those that are left out."""
    skipped: list[str] = []
    numbered = _numbered(pairs, skipped)
    if format == "html":
        file.write(render_html([parsed for _, parsed, _ in numbered]))
        return skipped
    file.write(HEADERS.get(format, ""))
    for number, parsed, item in numbered:
        file.write(WRITERS[format](parsed, item.source, number))
        file.flush()
    return skipped


def _numbered(pairs: Iterator[tuple[Parse | None, Item]], skipped: list[str]) -> Iterator[tuple[int, Parse, Item]]:
    """Parses with their numbers, from 1; the places of those that are left out go to `skipped`."""
    for number, (parsed, item) in enumerate(pairs, start=1):
        if parsed is None:
            skipped.append(item.place)
        else:
            yield number, parsed, item


def _initial_tree(item: Item) -> ConlluSentence:
    if not isinstance(item.source, ConlluSentence):
        raise ValueError(f"--refine needs CoNLL-U, which has trees, but {item.place} is none")
    return item.source


def _check_parse(options: argparse.Namespace) -> None:
    """What can be known to be wrong before a model is loaded and a file is overwritten."""
    if options.format not in SEVERAL and options.k > 1:
        raise ValueError(f"-k needs --format {', '.join(SEVERAL)}: {options.format} holds one tree or graph")
    if options.format != "json" and options.marginals:
        raise ValueError("--marginals need --format json: no other format can hold them")
    if options.k > 1 and options.decoder != "tree":
        raise ValueError("-k needs --decoder tree")
    held = HELD.get(options.format)
    wanted = ("dependency", "constituency") if options.structure == "both" else (options.structure,)
    if options.structure and held and not set(wanted) & set(held):
        raise ValueError(f"--format {options.format} holds {' and '.join(map(NAMES.__getitem__, held))} only")
    if options.marginals and options.structure == "constituency":
        raise ValueError("--marginals are about dependencies: they need --structure dependency, both or graph")
    check_inputs(options.files, options.output)


def _write_conllu(parsed: Parse, source: Source, number: int | None = None) -> str:
    if not isinstance(source, ConlluSentence):
        name = source.id if source else number
        names = {} if name is None else {"sent_id": str(name)}
        return parsed.to_conllu(names | {"text": " ".join(parsed.words)})
    source = without_probabilities(source)
    if parsed.graph is not None:
        return str(source.with_deps(parsed.graph.deps()))
    tree = cast(DependencyTree, parsed.dependency)
    if len(tree.words) < len(parsed.words):  # --punctuation drop
        source = source.keep_words([not is_punctuation(word) for word in parsed.words])
    return str(tree.written_into(source))


def _write_sdp(parsed: Parse, source: Source, number: int = 1) -> str:
    if source is None:
        return parsed.to_sdp(str(number))
    if isinstance(source, SdpSentence):
        return parsed.to_sdp(source.id, source.lemmas, source.pos)
    lemmas, tags = ([getattr(token, column) for token in source.words] for column in ("lemma", "xpos"))
    return parsed.to_sdp(source.metadata.get("sent_id", str(number)), lemmas, tags)


def _best(parsed: Parse) -> Sequence[Parse | DependencyTree | DependencyGraph]:
    """The parse, with both trees, and the second best tree or graph and all that follow."""
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
    "brackets": lambda parsed, *_: parsed.to_brackets() + "\n",
    "conllu": _write_conllu,
    "json": lambda parsed, *_: json.dumps(parsed.to_dict(), ensure_ascii=False) + "\n",
    "sdp": _write_sdp,
    "text": lambda parsed, *_: f"{' '.join(parsed.words)}\n{parsed}\n\n",
    "svg": lambda parsed, *_: "".join(each.to_svg() + "\n" for each in _best(parsed)),
    "tikz": lambda parsed, *_: "".join(each.to_tikz() + "\n" for each in _best(parsed)),
}
