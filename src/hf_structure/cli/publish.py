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
from hf_structure.hub.locating import resolve_model, short_names
from hf_structure.text.files import writing_to

if TYPE_CHECKING:
    from hf_structure.hub.publishing import Publication


def add_publish(commands: argparse._SubParsersAction) -> None:
    parser = add_command(commands, "publish", "put a model on the Hub", run_publish)
    parser.add_argument("folder", metavar="FOLDER", help="a model that is saved, or the short name of a bundled one")
    parser.add_argument("repository", metavar="ORG/NAME", help="where it goes, made if need be")
    parser.add_argument("--license", metavar="NAME", help="licence of the model: apache-2.0, mit, cc-by-sa-4.0, ...")
    parser.add_argument("--language", metavar="CODE", help="language of its text: en, de, ...")
    parser.add_argument(
        "--code", action="store_true", help="add its code: transformers alone will load it, if trusted"
    )
    parser.add_argument("--private", action="store_true", default=None, help="make a new repository private")
    parser.add_argument("--revision", metavar="BRANCH", help="branch, made if need be; default: main")
    parser.add_argument("--message", default="Upload model", help="message of the commit; default: %(default)s")
    parser.add_argument("--dry_run", action="store_true", help="show what would go up: files, sizes and the card")


def run_publish(options: argparse.Namespace) -> None:
    """
    Puts a model on the Hub in one commit: weights, tokenizer and a model card, which is made of what is known where
    the folder has none.
    """
    from hf_structure.hub.publishing import publish  # late, as below: the other commands need none of it

    folder = resolve_model(options.folder) if options.folder in short_names() else options.folder
    with _with_code(folder) if options.code else nullcontext(folder) as folder:
        publication = _prepare(folder, options)
        if options.dry_run:
            print(publication)
        else:
            print(publish(publication, options.private, options.revision, options.message))


def _prepare(folder: str, options: argparse.Namespace) -> "Publication":
    """What is published; on a terminal, an unknown licence is asked for."""
    from hf_structure.hub.publishing import UnknownLicenseError, prepare

    try:
        return prepare(folder, options.repository, options.license, options.language)
    except UnknownLicenseError:
        license = _ask_for_license() if sys.stdin.isatty() else None
        if not license:
            raise
    return prepare(folder, options.repository, license, options.language)


def _ask_for_license() -> str | None:
    """None if the user ends the input instead."""
    try:
        return input("Licence of the model (apache-2.0, mit, cc-by-sa-4.0, ...): ").strip()
    except EOFError:
        return None


@contextmanager
def _with_code(folder: str) -> Iterator[str]:
    """A copy of the folder that has the code of its model, too."""
    from hf_structure.exporting.folder import export
    from hf_structure.hub.publishing import BESIDE

    with TemporaryDirectory() as output:
        with writing_to(output):
            export(folder, output)
            for file in (file for pattern in BESIDE for file in Path(folder).glob(pattern)):
                if not Path(output, file.name).exists():
                    shutil.copyfile(file, Path(output, file.name))
        yield output
