"""The command `hf-structure`: parse text, compare parses, draw trees."""

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from itertools import islice, tee
from pathlib import Path
from typing import IO

from transformers.utils.logging import disable_progress_bar

from hf_structure.data.conllu import ConlluSentence, read_conllu
from hf_structure.data.corpus import SUFFIXES
from hf_structure.data.normalization import is_punctuation
from hf_structure.data.text import numbered_lines, tokenize_words
from hf_structure.hub import short_names
from hf_structure.metrics.attachment import score_sentences
from hf_structure.pipelines.parsing import DEFAULT_MODEL, MAX_WORDS, PUNCTUATION, parse
from hf_structure.structures import DependencyTree, Parse
from hf_structure.version import __version__
from hf_structure.visualization import render_html

EXAMPLES = """
examples:
  echo "The cat that chased the mouse slept." | hf-structure parse
  hf-structure parse --format conllu notes.txt > notes.conllu
  hf-structure parse --model runs/udgn --format conllu gold.conllu > system.conllu
  hf-structure evaluate gold.conllu system.conllu --ignore punct
  hf-structure render system.conllu --output trees.html
"""
_CONLLU = re.compile(rb"(#[^\n]*\n)*[0-9.-]+\t([^\t\n]*\t){8}")  # how such a file begins


@dataclass
class Item:
    """A sentence of the input; `source` is set if it came from CoNLL-U, whose other columns are kept."""

    words: list[str]
    source: ConlluSentence | None = None


def main(arguments: list[str] | None = None) -> None:
    """Runs the command; every expected error is one line on standard error and exit status 1."""
    options = build_parser().parse_args(arguments)
    sys.stdout.reconfigure(encoding="utf-8", newline="")  # as in files, on every system
    try:
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        sys.exit(130)
    except (ValueError, OSError, ImportError) as error:
        message = f"{error.filename}: {error.strerror}" if getattr(error, "filename", None) else str(error)
        sys.exit(f"hf-structure: {message}")


def build_parser() -> argparse.ArgumentParser:
    """The command line of `hf-structure`."""
    parser = argparse.ArgumentParser(
        prog="hf-structure",
        description="Parse text, compare trees with gold trees, draw trees.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", required=True)
    _add_parse(commands.add_parser("parse", help="parse sentences", description=run_parse.__doc__))
    _add_evaluate(
        commands.add_parser("evaluate", help="compare trees with gold trees", description=run_evaluate.__doc__)
    )
    _add_render(commands.add_parser("render", help="draw trees", description=run_render.__doc__))
    return parser


def _positive(text: str) -> int:
    """A number of at least 1, or what argparse makes an error message of."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a number of at least 1, not {text!r}")
    return int(text)


def _add_parse(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=run_parse)
    parser.add_argument("files", nargs="*", metavar="FILE", default=["-"], help="text or CoNLL-U; default: stdin")
    parser.add_argument(
        "--model",
        default=DEFAULT_MODEL,
        help=f"a bundled model ({', '.join(short_names()) or 'there is none'}), a folder or a Hub name; "
        "default: %(default)s",
    )
    parser.add_argument("--format", choices=sorted(WRITERS), default="text", help="form of the output; default: text")
    parser.add_argument("--output", metavar="FILE", help="where to write; default: stdout")
    parser.add_argument(
        "--input_format",
        choices=["auto", "raw", "words", "conllu"],
        default="auto",
        help="raw: a sentence a line; words: the same, already split at spaces; auto (default): CoNLL-U if suffix or "
        "first line say so, else raw",
    )
    parser.add_argument(
        "--decoder",
        choices=["tree", "projective", "argmax"],
        default="tree",
        help="the best tree (default), the best tree without crossing arcs, or the best head of each word",
    )
    parser.add_argument(
        "-k", type=_positive, default=1, metavar="N", help="with --format json: the N best trees of each sentence"
    )
    parser.add_argument("--marginals", action="store_true", help="with --format json: the probabilities of all arcs")
    parser.add_argument(
        "--punctuation",
        choices=PUNCTUATION,
        default="attach",
        help="attach it by rule (default), drop it from the tree, or show it to the model",
    )
    parser.add_argument(
        "--batch_size", type=_positive, default=64, metavar="N", help="sentences read at once; default: %(default)s"
    )
    parser.add_argument(
        "--max_words",
        type=_positive,
        default=MAX_WORDS,
        metavar="N",
        help="refuse longer sentences; default: %(default)s",
    )
    parser.add_argument("--device", help="cpu, cuda, ...; default: a GPU if there is one")


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=run_evaluate)
    parser.add_argument("gold", help="CoNLL-U file with the right trees")
    parser.add_argument("system", help="CoNLL-U file with the trees to judge, same sentences and words")
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="LABEL",
        help="do not score words with this gold label, e.g. punct; may be given several times",
    )
    parser.add_argument(
        "--universal", action="store_true", help="compare labels without subtypes (nsubj:pass as nsubj)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_render(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=run_render)
    parser.add_argument("file", help="CoNLL-U file with trees")
    parser.add_argument("--output", metavar="FILE", help="where to write; default: stdout")
    parser.add_argument(
        "--format", choices=["html", "svg", "text", "tikz"], default="html", help="form of the output; default: html"
    )
    parser.add_argument("--limit", type=_positive, metavar="N", help="draw the first N sentences only")


def run_parse(options: argparse.Namespace) -> None:
    """Parses sentences of text or CoNLL-U and writes a tree for each."""
    _check_parse(options)
    disable_progress_bar()  # that of loading
    if "-" in options.files and sys.stdin.isatty():
        print("hf-structure: one sentence a line, end with Ctrl-D", file=sys.stderr)
    items, sources = tee(read_items(options.files, options.input_format))
    parses = parse(
        (item.words for item in items),
        model=options.model,
        decoder=options.decoder,
        k=options.k,
        marginals=options.marginals,
        punctuation=options.punctuation,
        batch_size=options.batch_size,
        max_words=options.max_words,
        device=options.device,
        progress=options.output is not None and sys.stderr.isatty(),
    )
    write = WRITERS[options.format]
    with _output(options.output) as file:
        for parsed, item in zip(parses, sources, strict=False):  # reading a source first would block a pipe
            file.write(write(parsed, item.source))
            file.flush()


def _check_parse(options: argparse.Namespace) -> None:
    """What can be known to be wrong before a model is loaded and a file is overwritten."""
    if options.format != "json" and (options.k > 1 or options.marginals):
        raise ValueError("-k and --marginals need --format json: no other format can hold them")
    if options.k > 1 and options.decoder != "tree":
        raise ValueError("-k needs --decoder tree")
    for name in options.files:
        if name != "-":
            os.stat(name)  # raises OSError if it is not there
            if Path(name).is_dir():
                raise ValueError(f"{name} is a folder, not a file")
            if options.output is not None and Path(name).resolve() == Path(options.output).resolve():
                raise ValueError(f"{name} is to be read and written at once: choose another --output")


def run_evaluate(options: argparse.Namespace) -> None:
    """Compares the trees of two CoNLL-U files and prints attachment scores."""
    scores = score_sentences(
        read_conllu(options.system),
        read_conllu(options.gold),
        ignore_labels=set(options.ignore),
        universal_labels=options.universal,
    )
    values = asdict(scores)
    if options.json:
        print(json.dumps(values, indent=2))
        return
    for name, value in values.items():
        if value is not None:
            print(f"{name.upper():>9}  {100 * value:6.2f}" if isinstance(value, float) else f"{name:>9}  {value:6d}")


def run_render(options: argparse.Namespace) -> None:
    """Draws the trees of a CoNLL-U file."""
    parses = []
    for number, sentence in enumerate(islice(read_conllu(options.file), options.limit), start=1):
        if sentence.heads is None:
            raise ValueError(f"{options.file}: sentence {number} has words without a head: there is no tree to draw")
        labels = None if set(sentence.deprels) == {"_"} else sentence.deprels
        parses.append(Parse(sentence.forms, DependencyTree(sentence.forms, sentence.heads, labels)))
    with _output(options.output) as file:
        if options.format == "html":
            file.write(render_html(parses, title=Path(options.file).name))
        else:
            file.writelines(WRITERS[options.format](parsed, None) for parsed in parses)


def read_items(files: Iterable[str], input_format: str) -> Iterator[Item]:
    """Streams the sentences of files (`-` is standard input)."""
    for name in files:
        with nullcontext(sys.stdin.buffer) if name == "-" else open(name, "rb") as file:
            form = _guess_input(name, file) if input_format == "auto" else input_format
            if form == "conllu":
                for sentence in read_conllu(file):
                    yield Item(sentence.forms, sentence)
                continue
            for _, line in numbered_lines(file):
                if words := (line.split() if form == "words" else tokenize_words(line)):
                    yield Item(words)


def _guess_input(name: str, file: IO[bytes]) -> str:
    is_conllu = Path(name).suffix.lower() in SUFFIXES["conllu"] or _CONLLU.match(file.peek())
    return "conllu" if is_conllu else "raw"


def _output(path: str | None) -> AbstractContextManager[IO[str]]:
    return nullcontext(sys.stdout) if path is None else open(path, "w", encoding="utf-8", newline="")


def _write_conllu(parsed: Parse, source: ConlluSentence | None) -> str:
    tree = parsed.dependency
    if source is None:
        return parsed.to_conllu({"text": " ".join(parsed.words)})
    if len(tree.words) < len(parsed.words):  # --punctuation drop
        source = source.keep_words([not is_punctuation(word) for word in parsed.words])
    return str(source.with_heads(tree.heads, tree.labels or ["_"] * len(tree.heads)))


WRITERS: dict[str, Callable[[Parse, ConlluSentence | None], str]] = {
    "conllu": _write_conllu,
    "json": lambda parsed, _: json.dumps(parsed.to_dict(), ensure_ascii=False) + "\n",
    "text": lambda parsed, _: f"{' '.join(parsed.words)}\n{parsed}\n\n",
    "svg": lambda parsed, _: parsed.to_svg() + "\n",
    "tikz": lambda parsed, _: parsed.to_tikz() + "\n",
}


if __name__ == "__main__":
    main()
