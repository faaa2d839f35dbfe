"""The command `hf-structure`: parse text, compare parses, draw trees."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from hf_structure.data.conllu import ConlluSentence, read_conllu
from hf_structure.data.corpus import guess_format
from hf_structure.data.text import numbered_lines, tokenize_words
from hf_structure.hub import short_names
from hf_structure.metrics.attachment import score_sentences
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


@dataclass
class Item:
    """A sentence of the input; `source` is set if it came from CoNLL-U, whose other columns are kept."""

    words: list[str]
    source: ConlluSentence | None = None


def main(arguments: list[str] | None = None) -> None:
    """Runs the command; every expected error is one line on standard error and exit status 1."""
    options = build_parser().parse_args(arguments)
    try:
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        sys.exit(130)
    except (ValueError, OSError, ImportError) as error:
        sys.exit(f"hf-structure: {error}")


def build_parser() -> argparse.ArgumentParser:
    """The command line of `hf-structure`."""
    parser = argparse.ArgumentParser(
        prog="hf-structure",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", required=True)
    _add_parse(commands.add_parser("parse", help="parse sentences", description=run_parse.__doc__))
    _add_evaluate(commands.add_parser("evaluate", help="compare trees with gold trees", description=run_evaluate.__doc__))
    _add_render(commands.add_parser("render", help="draw trees", description=run_render.__doc__))
    return parser


def _add_parse(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=run_parse)
    parser.add_argument("files", nargs="*", metavar="FILE", help="text or CoNLL-U (.conllu, .conll, .dep); default: stdin")
    parser.add_argument(
        "--model", default="udgn-en", help=f"one of {', '.join(short_names()) or 'none bundled'}, a folder or a Hub name"
    )
    parser.add_argument("--format", choices=sorted(WRITERS), default="text", help="form of the output (default: text)")
    parser.add_argument("--output", metavar="FILE", help="where to write (default: stdout)")
    parser.add_argument(
        "--input_format",
        choices=["auto", "raw", "words", "conllu"],
        default="auto",
        help="raw: a sentence a line; words: the same, already split at spaces; auto (default): by suffix, else raw",
    )
    parser.add_argument("--decoder", choices=["tree", "argmax"], default="tree", help="best tree, or best head a word")
    parser.add_argument("-k", type=int, default=1, help="number of trees a sentence (in json: all, else the best)")
    parser.add_argument("--marginals", action="store_true", help="with --format json: arc marginals")
    parser.add_argument(
        "--punctuation",
        choices=["attach", "drop", "parse"],
        default="attach",
        help="attach it by rule (default), drop it from the tree, or show it to the model",
    )
    parser.add_argument("--batch_size", type=int, default=64, help="sentences that the model reads at once")
    parser.add_argument("--max_words", type=int, default=1000, help="refuse longer sentences")
    parser.add_argument("--device", help="cpu, cuda, ... (default: a GPU if there is one)")


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=run_evaluate)
    parser.add_argument("gold", help="CoNLL-U file with the right trees")
    parser.add_argument("system", help="CoNLL-U file with the trees to judge, same sentences and words")
    parser.add_argument(
        "--ignore", nargs="+", default=[], metavar="LABEL", help="do not score words with these gold labels, e.g. punct"
    )
    parser.add_argument("--universal", action="store_true", help="compare labels without subtypes (nsubj:pass as nsubj)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_render(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=run_render)
    parser.add_argument("file", help="CoNLL-U file with trees")
    parser.add_argument("--output", metavar="FILE", help="where to write (default: stdout)")
    parser.add_argument(
        "--format", choices=["html", "svg", "text", "tikz"], default="html", help="form of the output (default: html)"
    )
    parser.add_argument("--limit", type=int, help="draw the first sentences only")


def run_parse(options: argparse.Namespace) -> None:
    """Parses sentences of text or CoNLL-U and writes a tree for each."""
    from hf_structure.pipelines.parsing import parse

    if not options.files and sys.stdin.isatty():
        print("hf-structure: one sentence a line, end with Ctrl-D", file=sys.stderr)
    items = list(read_items(options.files or ["-"], options.input_format)) if options.output else None
    items, sources = _tee(items or read_items(options.files or ["-"], options.input_format))
    parses = parse(
        items,
        model=options.model,
        decoder=options.decoder,
        k=options.k,
        marginals=options.marginals,
        punctuation=options.punctuation,
        batch_size=options.batch_size,
        max_words=options.max_words,
        device=options.device,
        progress=bool(options.output) and sys.stderr.isatty(),
    )
    write = WRITERS[options.format]
    with _output(options.output) as file:
        for parsed, source in zip(parses, sources, strict=False):
            file.write(write(parsed, source))
            file.flush()


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
    for number, sentence in enumerate(read_conllu(options.file), start=1):
        if options.limit is not None and number > options.limit:
            break
        if sentence.heads is None:
            raise ValueError(f"{options.file}: sentence {number} has words without a head: there is no tree to draw")
        labels = None if set(sentence.deprels) == {"_"} else sentence.deprels
        parses.append(Parse(sentence.forms, DependencyTree(sentence.forms, sentence.heads, labels)))
    with _output(options.output) as file:
        if options.format == "html":
            file.write(render_html(parses, title=Path(options.file).name))
        for parsed in parses if options.format != "html" else ():
            file.write(WRITERS[options.format](parsed, None))


def read_items(files: Iterable[str], input_format: str) -> Iterator[Item]:
    """Streams the sentences of files (`-` is standard input)."""
    for name in files:
        form = input_format
        if form == "auto":
            form = "conllu" if name != "-" and _is_conllu(name) else "raw"
        source = sys.stdin.buffer if name == "-" else name
        if form == "conllu":
            for sentence in read_conllu(source):
                yield Item(sentence.forms, sentence)
            continue
        for _, line in numbered_lines(source):
            if words := (line.split() if form == "words" else tokenize_words(line)):
                yield Item(words)


def _is_conllu(name: str) -> bool:
    try:
        return guess_format(name) == "conllu"
    except ValueError:
        return False


def _tee(items: Iterable[Item]) -> tuple[Iterator[list[str]], Iterator[ConlluSentence | None]]:
    """Words for the parser, and the sources of the sentences it has read so far."""
    from collections import deque

    read: deque[ConlluSentence | None] = deque()

    def words() -> Iterator[list[str]]:
        for item in items:
            read.append(item.source)
            yield item.words

    def sources() -> Iterator[ConlluSentence | None]:
        while True:
            yield read.popleft()

    return words(), sources()


@contextmanager
def _output(path: str | None) -> Iterator[IO[str]]:
    if path is None:
        yield sys.stdout
    else:
        with open(path, "w", encoding="utf-8", newline="") as file:
            yield file


def _write_conllu(parsed: Parse, source: ConlluSentence | None) -> str:
    tree = parsed.dependency
    if source is None or len(tree.heads) < len(parsed.words):
        return parsed.to_conllu({"text": " ".join(parsed.words)})
    labels = tree.labels or ["root" if head == 0 else "_" for head in tree.heads]
    return str(source.with_heads(tree.heads, labels))


WRITERS: dict[str, Callable[[Parse, ConlluSentence | None], str]] = {
    "conllu": _write_conllu,
    "json": lambda parsed, _: json.dumps(parsed.to_dict(), ensure_ascii=False) + "\n",
    "text": lambda parsed, _: f"{' '.join(parsed.words)}\n{parsed}\n\n",
    "svg": lambda parsed, _: parsed.to_svg() + "\n",
    "tikz": lambda parsed, _: parsed.to_tikz() + "\n",
}


if __name__ == "__main__":
    main()
