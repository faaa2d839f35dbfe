"""
Converts a checkpoint of the authors' code to a model folder of this library.

    python examples/convert_checkpoint.py --checkpoint udgn.pt --dictionary ptb-dict.pkl --output runs/udgn
    hf-structure parse --model runs/udgn

No code in the checkpoint is run, even if it is a whole pickled model. Its kind (`--kind`) is guessed from the names of
its parameters. Settings that it does not contain, such as the number of heads of a Transformer, are given with
`--config_overrides`, named as in the configuration of this library. `--check FOLDER` imports the original code from a
folder, which runs it, and compares prediction scores. See docs/converting.md.
"""

import argparse
from pathlib import Path

from transformers.utils import logging

from hf_structure.cli.common import check_empty, run_with_options
from hf_structure.hub.user_code import import_code
from hf_structure.text.files import writing_to
from hf_structure.text.json_text import parse_json

# The folder is not a package: its modules are imported by path.
CONVERSION = import_code(str(Path(__file__).with_name("convert") / "conversion.py"))
MODULES = {"udgn": "models", "structformer": "structformer.structformer"}


def run(args: argparse.Namespace) -> None:
    check_empty(args.output)
    settings = parse_json(args.config_overrides, "--config_overrides")
    if not isinstance(settings, dict):
        raise ValueError(f"--config_overrides: not a JSON object: {settings}")
    model, tokenizer = CONVERSION.convert(
        args.checkpoint, kind=args.kind, dictionary=args.dictionary, tokenizer=args.tokenizer, settings=settings
    )
    if args.check:
        module = args.check_module or MODULES.get(model.config.model_type, "models")
        difference = CONVERSION.check(model, args.checkpoint, args.check, module)
        print(f"largest difference to the original: {difference:.2g}")
    with writing_to(args.output):
        model.save_pretrained(args.output)
        tokenizer.save_pretrained(args.output)
    print(f"{args.output}: {type(model).__name__}, {model.num_parameters():,} parameters, {len(tokenizer):,} tokens")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", required=True, help="file, or folder with config.json")
    parser.add_argument("--kind", choices=CONVERSION.KINDS, help="origin of the checkpoint; default: guessed")
    parser.add_argument("--dictionary", metavar="FILE", help="vocabulary that was saved in training")
    parser.add_argument("--tokenizer", metavar="FOLDER", help="folder of a tokenizer; default: the checkpoint's")
    parser.add_argument("--config_overrides", default="{}", metavar="JSON", help="fields of the configuration")
    parser.add_argument("--check", metavar="FOLDER", help="import the original code from here (it is run) and compare")
    parser.add_argument("--check_module", metavar="NAME", help="module of the original code; default: as released")
    parser.add_argument("--output", required=True, metavar="FOLDER", help="where model and tokenizer go")
    logging.disable_progress_bar()
    run_with_options(parser, run, arguments)


if __name__ == "__main__":
    main()
