"""`hf-structure publish`."""

import argparse
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hf_structure.cli.common import add_command
from hf_structure.cli.export import add_sentence_transformers, export_model
from hf_structure.hub.locating import installed_models, resolve_model, short_names
from hf_structure.text.files import writing_to

if TYPE_CHECKING:
    from hf_structure.hub.publishing import Publication


def add_publish(commands: argparse._SubParsersAction) -> None:
    parser = add_command(commands, "publish", "put a model on the Hub", run_publish)
    parser.add_argument("folder", metavar="FOLDER", help="a saved model, or the name of a bundled or installed one")
    parser.add_argument("repository", metavar="ORG/NAME", help="the repository, created if it does not exist")
    parser.add_argument("--license", metavar="NAME", help="licence of the model: apache-2.0, mit, cc-by-sa-4.0, ...")
    parser.add_argument("--language", metavar="CODE", help="language of its text: en, de, ...")
    parser.add_argument(
        "--eval_dataset",
        metavar="ORG/NAME[/TASK][@REVISION]",
        help="the data set of the Hub that the results of training are of, for its leaderboard",
    )
    parser.add_argument(
        "--code", action="store_true", help="add its code: transformers alone will load it, if trusted"
    )
    add_sentence_transformers(parser)
    parser.add_argument(
        "--handler", action="store_true", help="add a handler.py, by which Inference Endpoints parse and score"
    )
    parser.add_argument("--private", action="store_true", default=None, help="make a new repository private")
    parser.add_argument("--revision", metavar="BRANCH", help="branch, created if it does not exist; default: main")
    parser.add_argument("--message", default="Upload model", help="message of the commit; default: %(default)s")
    parser.add_argument(
        "--dry_run", action="store_true", help="show what would be uploaded: files, sizes and the card"
    )


def run_publish(options: argparse.Namespace) -> None:
    """
    Uploads a model to the Hub in one commit: weights, tokenizer and a model card, which is generated if the folder has
    none.
    """
    # Late, as below: the other commands need no client of the Hub.
    from hf_structure.hub.publishing import publish

    is_short = options.folder in short_names() or options.folder in installed_models()
    folder = resolve_model(options.folder) if is_short else options.folder
    exports = options.code or options.sentence_transformers
    source = _exported(folder, options.sentence_transformers) if exports else nullcontext(folder)
    with TemporaryDirectory() as added, source as folder:
        publication = _prepare(folder, options)
        if options.handler:
            _add_handler(publication, added)
        if options.dry_run:
            print(publication)
        else:
            print(publish(publication, options.private, options.revision, options.message))


def _prepare(folder: str, options: argparse.Namespace) -> "Publication":
    """Collects what is published. On a terminal, asks for an unknown licence."""
    from hf_structure.hub.publishing import UnknownLicenseError, prepare

    others = {"language": options.language, "eval_dataset": options.eval_dataset}
    try:
        return prepare(folder, options.repository, options.license, **others)
    except UnknownLicenseError:
        # A script cannot be asked: there, the error says which option is missing.
        license = _ask_for_license() if sys.stdin.isatty() else None
        if not license:
            raise
    return prepare(folder, options.repository, license, **others)


def _add_handler(publication: "Publication", folder: str) -> None:
    """Adds a handler, written to a folder. Raises `ValueError` for a model that has files of these names."""
    from hf_structure.hub.endpoint import write_handler

    files = write_handler(folder)
    if taken := sorted(files.keys() & publication.files.keys()):
        raise ValueError(f"the model comes with {' and '.join(taken)} already: leave --handler out, or remove them")
    publication.files |= files


def _ask_for_license() -> str | None:
    """Asks for a licence; returns None if the user ends the input instead."""
    try:
        return input("Licence of the model (apache-2.0, mit, cc-by-sa-4.0, ...): ").strip()
    except EOFError:
        return None


@contextmanager
def _exported(folder: str, sentence_transformers: bool) -> Iterator[str]:
    """Yields a temporary copy of a model's folder that also contains the model's code."""
    from hf_structure.hub.publishing import COMPANIONS

    with TemporaryDirectory() as output:
        with writing_to(output):
            export_model(folder, output, False, sentence_transformers)
            # Export copies the model alone. The card also needs results, facts and licence.
            for file in (file for pattern in COMPANIONS for file in Path(folder).glob(pattern)):
                copy = Path(output, file.relative_to(folder))
                if not copy.exists():
                    copy.parent.mkdir(exist_ok=True)
                    shutil.copyfile(file, copy)
        yield output
