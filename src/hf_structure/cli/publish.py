"""`hf-structure publish`."""

import argparse
import sys

from hf_structure.hub.locating import resolve_model, short_names


def add_publish(commands: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = commands.add_parser("publish", help="put a model on the Hub", description=run_publish.__doc__)
    parser.set_defaults(run=run_publish)
    parser.add_argument("folder", metavar="FOLDER", help="a model that is saved, or the short name of a bundled one")
    parser.add_argument("repository", metavar="ORG/NAME", help="where it goes, made if need be")
    parser.add_argument("--license", metavar="NAME", help="licence of the model: apache-2.0, mit, cc-by-sa-4.0, ...")
    parser.add_argument("--language", metavar="CODE", help="language of its text: en, de, ...")
    parser.add_argument("--private", action="store_true", default=None, help="make a new repository private")
    parser.add_argument("--revision", metavar="BRANCH", help="branch, made if need be; default: main")
    parser.add_argument("--message", default="Upload model", help="message of the commit; default: %(default)s")
    parser.add_argument("--dry_run", action="store_true", help="show what would go up: files, sizes and the card")


def run_publish(options: argparse.Namespace) -> None:
    """
    Puts a model on the Hub in one commit: weights, tokenizer and a model card, which is made of what is known where
    the folder has none.
    """
    from hf_structure.hub.publishing import UnknownLicenseError, prepare, publish  # late: it takes a while

    name = options.folder
    folder = resolve_model(name) if name in short_names() else name
    try:
        publication = prepare(folder, options.repository, options.license, options.language)
    except UnknownLicenseError:
        if not sys.stdin.isatty():
            raise
        license = input("Licence of the model (apache-2.0, mit, cc-by-sa-4.0, ...): ").strip()
        publication = prepare(folder, options.repository, license, options.language)
    if options.dry_run:
        print(publication)
        return
    print(publish(publication, options.private, options.revision, options.message))
