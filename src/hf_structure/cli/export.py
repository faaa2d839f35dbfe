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
    add_sentence_transformers(parser)
    add_import(parser)


def add_sentence_transformers(parser: argparse.ArgumentParser) -> None:
    """Adds the option of the files for sentence-transformers."""
    parser.add_argument(
        "--sentence_transformers",
        action="store_true",
        help="add the files by which sentence-transformers loads an encoder",
    )


def run_export(options: argparse.Namespace) -> None:
    """
    Writes a folder with a model, its tokenizer and their code. With trust_remote_code=True, transformers alone loads
    it: models, generation, and parsing pipelines.
    """
    with writing_to(options.output):
        export_model(options.model, options.output, options.force, options.sentence_transformers)


def export_model(model: str, output: str, force: bool, sentence_transformers: bool) -> None:
    """Exports a model, with the files for sentence-transformers if they are wanted."""
    # Late: they import torch, which takes seconds.
    from hf_structure.exporting.folder import export
    from hf_structure.integrations.sentence_transformers import check_encoder, write_modules

    if sentence_transformers:
        # A model that is no encoder must not leave a folder.
        check_encoder(model)
    export(model, output, force=force)
    if sentence_transformers:
        write_modules(output)
