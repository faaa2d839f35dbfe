"""`hf-structure export`."""

import argparse

from hf_structure.cli.common import add_command
from hf_structure.hub.locating import short_names
from hf_structure.hub.user_code import add_import
from hf_structure.text.files import writing_to


def add_export(commands: argparse._SubParsersAction) -> None:
    parser = add_command(commands, "export", "write a model that needs no hf_structure", run_export)
    parser.add_argument("model", metavar="MODEL", help=f"{', '.join(short_names())}, a folder or a Hub name")
    parser.add_argument("output", metavar="OUTPUT", help="the folder to write")
    parser.add_argument("--force", action="store_true", help="replace files of a folder that is not empty")
    add_import(parser)


def run_export(options: argparse.Namespace) -> None:
    """
    Writes a folder with a model, its tokenizer and their code. With trust_remote_code=True, transformers alone loads
    it: models, generation, and parsing pipelines.
    """
    # Late: it imports torch, which takes seconds.
    from hf_structure.exporting.folder import export

    with writing_to(options.output):
        export(options.model, options.output, force=options.force)
