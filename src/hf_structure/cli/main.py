# PYTHON_ARGCOMPLETE_OK
"""Entry point of `hf-structure`: parses the command line, runs a command and reports its errors."""

import argparse
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from io import TextIOWrapper
from typing import NoReturn, cast

from hf_structure.cli.agree import add_agree, add_consensus
from hf_structure.cli.analyze import add_analyze
from hf_structure.cli.arriving import open_closed_streams
from hf_structure.cli.compare import add_compare
from hf_structure.cli.count import add_count
from hf_structure.cli.evaluate import add_evaluate
from hf_structure.cli.export import add_export
from hf_structure.cli.models import add_models
from hf_structure.cli.parse import add_parse
from hf_structure.cli.publish import add_publish
from hf_structure.cli.render import add_render
from hf_structure.cli.score import add_score
from hf_structure.cli.servers import add_mcp, add_serve
from hf_structure.cli.train import add_train
from hf_structure.text.files import FULL, error_line
from hf_structure.version import __version__

ALONE = ("mcp", "models", "parse", "score", "serve")  # commands that need no argument
BOUNDS = ("batch_size", "max_words", "max_tokens", "beam_size")  # options that bound the memory
EXAMPLES = """
examples:
  echo "The cat that chased the mouse slept." | hf-structure parse
  hf-structure parse --format conllu notes.txt > notes.conllu
  hf-structure parse --model structformer-en --structure constituency --format brackets notes.txt > notes.mrg
  hf-structure parse --model runs/udgn --format conllu gold.conllu > system.conllu
  hf-structure parse --model rngt-en --refine --format conllu system.conllu > refined.conllu
  echo "The cat that chased the mouse slept." | hf-structure score --words
  hf-structure score --summary --beam_size 1,20,100 gold.conllu
  hf-structure compare runs/gilt/blimp runs/gpt2/blimp
  hf-structure compare gold.conllu first.conllu second.conllu --group genre
  hf-structure evaluate gold.conllu system.conllu --ignore punct
  hf-structure evaluate gold.conllu system.conllu --conll18
  hf-structure evaluate gold.conllu system.conllu --by relation --per_sentence counts.csv
  hf-structure evaluate gold.mrg system.mrg --baselines
  hf-structure parse --model gilt-en --format sdp gold.sdp > system.sdp
  hf-structure evaluate gold.sdp system.sdp
  hf-structure analyze gold.conllu g2g=first.conllu deptr=second.conllu --ignore punct --output_dir figures
  hf-structure agree seed1.conllu seed2.conllu seed3.conllu
  hf-structure consensus seed1.conllu seed2.conllu seed3.conllu > consensus.conllu
  hf-structure count --annotation enhanced gold.conllu
  hf-structure render system.conllu --output trees.html
  hf-structure render --kind distances --model structformer-en notes.txt --output distances.png
  hf-structure export udgn-en udgn-en-for-transformers
  hf-structure train mlm --model_type udgn --train_file train.txt --validation_file dev.conllu --output_dir runs/udgn
  hf-structure mcp --model structformer-en
  hf-structure serve --model rngt-en --port 8000
  hf-structure models
"""


def main(arguments: list[str] | None = None) -> None:
    """Runs a command. Warnings are lines on standard error; an expected error is one line and exit status 1."""
    options = _parse(sys.argv[1:] if arguments is None else arguments)
    open_closed_streams()
    # As in files: the same bytes on every system, whatever its locale and line ends.
    cast(TextIOWrapper, sys.stdout).reconfigure(encoding="utf-8", newline="")
    with _reported_errors(options):
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: print(f"hf-structure: {message}", file=sys.stderr)
            options.run(options)
        # Here, so that a full disk is reported like other errors; at exit Python would print a traceback.
        sys.stdout.flush()


def _parse(given: list[str]) -> argparse.Namespace:
    """Parses a command line. Ends the program with the usage of the command for wrong arguments."""
    parser = build_parser()
    if "_ARGCOMPLETE" in os.environ:  # set by the completion of a shell
        import argcomplete

        argcomplete.autocomplete(parser)
    # Most commands need an argument. Without any, their help says more than an error about it.
    if not given or (len(given) == 1 and given[0] not in ALONE and not given[0].startswith("-")):
        _show_help(parser, given)
    # The options of `train` belong to other programs, which may tell hyphens from underscores.
    if given[0] != "train":
        given = list(map(_underscored, given))
    # Not `parse_args`: its error would show the usage of `hf-structure`, not of the command.
    options, unknown = parser.parse_known_args(given)
    if unknown:
        options.command.error(f"unrecognized arguments: {' '.join(unknown)}")
    return options


@contextmanager
def _reported_errors(options: argparse.Namespace) -> Iterator[None]:
    """Ends the program with one line and exit status 1 for expected errors. Others keep their traceback."""
    try:
        yield
    # Before `OSError`, of which it is a kind: the reader, such as `head`, has enough, and that is no error.
    except BrokenPipeError:
        _discard_output()
    except KeyboardInterrupt:
        # 128 + SIGINT, as shells expect of a program that Ctrl-C has ended.
        sys.exit(130)
    except (ValueError, OSError, ImportError) as error:
        fails = _output_fails() or getattr(error, "errno", None) in FULL
        # Errors of files name them; an error without a name is about standard output.
        if fails and isinstance(error, OSError) and error.filename is None:
            error.filename = "<stdout>"
        sys.exit(f"hf-structure: {error_line(error)}")
    except (RuntimeError, MemoryError) as error:
        # Other runtime errors are bugs: their traceback helps whoever reports them.
        if not _is_out_of_memory(error):
            raise
        sys.exit(f"hf-structure: there is not enough memory{_memory_advice(options)}")


def _memory_advice(options: argparse.Namespace) -> str:
    """Names the options of this command that bound the memory; an empty string if it has none."""
    bounds = [f"--{name}" for name in BOUNDS if name in vars(options)]
    return f": choose a smaller {' or '.join(bounds)}" if bounds else ""


def _show_help(parser: argparse.ArgumentParser, given: Sequence[str]) -> NoReturn:
    """Prints help on standard error and exits with status 2, so that no script takes the help for output."""
    with suppress(SystemExit), redirect_stdout(sys.stderr):
        parser.parse_args([*given, "--help"])
    sys.exit(2)


def _is_out_of_memory(error: Exception) -> bool:
    """Returns True for each of the several errors that Python and torch raise when memory runs out."""
    return isinstance(error, MemoryError) or "out of memory" in str(error) or "allocate memory" in str(error)


def _underscored(argument: str) -> str:
    """`--beam-size` -> `--beam_size`: both spellings are accepted."""
    option = re.fullmatch(r"--(no[-_](?=.))?([^=]+)(=.*)?", argument, re.DOTALL)
    if option is None:
        return argument
    # argparse's boolean options keep their hyphen: `--no-eos`.
    negation = "no-" if option[1] else ""
    return f"--{negation}{option[2].replace('-', '_')}{option[3] or ''}"


def _output_fails() -> bool:
    """Returns True if standard output cannot be written (a full disk, say), and discards what is left to write."""
    try:
        sys.stdout.flush()
    except OSError:
        _discard_output()
        return True
    return False


def _discard_output() -> None:
    """Sends further output to `/dev/null`, so that Python's own flush at exit succeeds."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def build_parser() -> argparse.ArgumentParser:
    """Builds the parser of the `hf-structure` command line."""
    parser = argparse.ArgumentParser(
        prog="hf-structure",
        description="Parse and score text, compare trees and graphs, draw them, train and export models.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", required=True)
    # In the order of the help.
    parts = (add_parse, add_score, add_compare, add_evaluate, add_analyze, add_agree, add_consensus, add_count)
    for add in (*parts, add_render, add_train, add_export, add_publish, add_mcp, add_serve, add_models):
        add(commands)
    for command in commands.choices.values():
        command.set_defaults(command=command)
    return parser
