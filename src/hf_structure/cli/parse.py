"""`hf-structure parse`."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import tee

from hf_structure.cli.common import (
    Item,
    add_dtype,
    add_input_format,
    add_model,
    check_files,
    output_file,
    positive,
    read_items,
)
from hf_structure.data.conllu import ConlluSentence
from hf_structure.data.normalization import is_punctuation
from hf_structure.data.sdp import HEADER, SdpSentence
from hf_structure.data.sentences import SentenceError
from hf_structure.pipelines.options import MAX_WORDS, NAMES, PUNCTUATION, STRUCTURES
from hf_structure.structures.parse import Parse

Source = ConlluSentence | SdpSentence | None  # what the sentence was read from, if that has other columns


def add_parse(commands: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = commands.add_parser("parse", help="parse sentences", description=run_parse.__doc__)
    parser.set_defaults(run=run_parse)
    parser.add_argument(
        "files", nargs="*", metavar="FILE", default=["-"], help="text, CoNLL-U, SDP or brackets; default: stdin"
    )
    add_model(parser)
    add_dtype(parser)
    parser.add_argument(
        "--structure", choices=STRUCTURES, help="the kind of structure; default: all that the model gives"
    )
    parser.add_argument("--format", choices=sorted(WRITERS), default="text", help="form of the output; default: text")
    parser.add_argument(
        "--output", metavar="FILE", help="where to write (FILE.partial until it is whole); default: stdout"
    )
    add_input_format(parser)
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
        help="with --format json: the N best trees or graphs of each sentence",
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
    parser.add_argument(
        "--skip_long", action="store_true", help="leave out sentences that are too long, and say how many they were"
    )


def run_parse(options: argparse.Namespace) -> None:
    """Parses sentences of text, CoNLL-U, SDP or brackets and writes their trees or graphs."""
    _check_parse(options)
    from hf_structure.pipelines.parsing import parse

    if "-" in options.files and sys.stdin.isatty():
        print("hf-structure: one sentence a line, end with Ctrl-D", file=sys.stderr)
    items, trees, sources = tee(read_items(options.files, options.input_format), 3)
    parses = parse(
        (item.sentence for item in items),
        model=options.model,
        initial=map(_initial_tree, trees) if options.refine else None,
        structure=options.structure or DEFAULTS.get(options.format),
        decoder=options.decoder,
        k=options.k,
        beam_size=options.beam_size,
        rounds=options.rounds,
        marginals=options.marginals,
        punctuation=options.punctuation,
        batch_size=options.batch_size,
        max_words=options.max_words,
        skip_long=options.skip_long,
        device=options.device,
        dtype=options.dtype,
        progress=options.output is not None and sys.stderr.isatty(),
    )
    write = WRITERS[options.format]
    skipped = []
    with output_file(options.output) as file:
        file.write(HEADERS.get(options.format, ""))
        for number, (parsed, item) in enumerate(_with_sources(parses, sources), start=1):
            if parsed is None:
                skipped.append(item.place)
                continue
            file.write(write(parsed, item.source, number))
            file.flush()
    if skipped:
        message = f"{len(skipped)} sentences left out that are too long, the first one {skipped[0]}"
        print(f"hf-structure: {message}", file=sys.stderr)


def _with_sources(parses: Iterator[Parse | None], sources: Iterator[Item]) -> Iterator[tuple[Parse | None, Item]]:
    """Each with what it was read from. Raises `ValueError` with the place of a sentence that cannot be parsed."""
    try:
        yield from zip(parses, sources, strict=False)  # reading a source first would block a pipe
    except SentenceError as error:
        raise ValueError(f"{next(sources).place}: {error.reason}") from error


def _initial_tree(item: Item) -> ConlluSentence:
    if not isinstance(item.source, ConlluSentence):
        raise ValueError(f"--refine needs CoNLL-U, which has trees, but {item.place} is none")
    return item.source


def _check_parse(options: argparse.Namespace) -> None:
    """What can be known to be wrong before a model is loaded and a file is overwritten."""
    if options.format != "json" and (options.k > 1 or options.marginals):
        raise ValueError("-k and --marginals need --format json: no other format can hold them")
    if options.k > 1 and options.decoder != "tree":
        raise ValueError("-k needs --decoder tree")
    held = HELD.get(options.format)
    wanted = ("dependency", "constituency") if options.structure == "both" else (options.structure,)
    if options.structure and held and not set(wanted) & set(held):
        raise ValueError(f"--format {options.format} holds {' and '.join(map(NAMES.get, held))} only")
    if options.marginals and options.structure == "constituency":
        raise ValueError("--marginals are about dependencies: they need --structure dependency, both or graph")
    check_files(options.files, options.output)


def _write_conllu(parsed: Parse, source: Source, number: int = 1) -> str:
    if not isinstance(source, ConlluSentence):
        names = {"sent_id": source.id} if source else {}
        return parsed.to_conllu(names | {"text": " ".join(parsed.words)})
    source = _without_probabilities(source)
    if parsed.graph is not None:
        return str(source.with_deps(parsed.graph.deps()))
    tree = parsed.dependency
    if len(tree.words) < len(parsed.words):  # --punctuation drop
        source = source.keep_words([not is_punctuation(word) for word in parsed.words])
    return str(source.with_heads(tree.heads, tree.labels or ["_"] * len(tree.heads)))


def _without_probabilities(sentence: ConlluSentence) -> ConlluSentence:
    """What was noted beside the trees of an earlier parse is not true of others."""
    comments = [comment for comment in sentence.comments if not comment.startswith("# log_probability = ")]
    notes = ([note for note in word.misc.split("|") if not note.startswith(NOTES)] for word in sentence.words)
    return replace(sentence, comments=comments).with_column("misc", ["|".join(kept) or "_" for kept in notes])


def _write_sdp(parsed: Parse, source: Source, number: int = 1) -> str:
    if source is None:
        return parsed.to_sdp(str(number))
    if isinstance(source, SdpSentence):
        return parsed.to_sdp(source.id, source.lemmas, source.pos)
    lemmas, tags = ([getattr(token, column) for token in source.words] for column in ("lemma", "xpos"))
    return parsed.to_sdp(source.metadata.get("sent_id", str(number)), lemmas, tags)


NOTES = ("HeadProb=", "LabelProb=")  # of `DependencyTree.to_conllu`, in MISC
HELD = {"brackets": ("constituency",), "conllu": ("dependency", "graph"), "sdp": ("graph",)}  # structures of formats
DEFAULTS = {"brackets": "constituency", "sdp": "graph"}
HEADERS = {"sdp": f"{HEADER}\n"}
WRITERS: dict[str, Callable[..., str]] = {
    "brackets": lambda parsed, *_: parsed.to_brackets() + "\n",
    "conllu": _write_conllu,
    "json": lambda parsed, *_: json.dumps(parsed.to_dict(), ensure_ascii=False) + "\n",
    "sdp": _write_sdp,
    "text": lambda parsed, *_: f"{' '.join(parsed.words)}\n{parsed}\n\n",
    "svg": lambda parsed, *_: parsed.to_svg() + "\n",
    "tikz": lambda parsed, *_: parsed.to_tikz() + "\n",
}
