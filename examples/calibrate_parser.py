"""
Makes the probabilities of a refinement parser (RNGTransformer) reliable.

    python examples/calibrate_parser.py rngt-en --gold ewt-dev.conllu gum-dev.conllu --output_dir calibrated

Of the words whose head has a probability of 80%, 80% should have the right head; trained parsers are surer than that.
Two numbers each for heads, labels, tags, features and lemmas are fitted to development sets, a temperature and the
share of a uniform distribution, and written to `config.json` (`calibration`). They change no tree, label or tag, only
`probabilities`, `marginals`, `log_probability` and their like. Give development sets of several genres, none that the
parser has learned from, and measure on other ones: `hf-structure evaluate --calibration`. Training leaves the numbers
as they are: calibrate again after it.

    python examples/calibrate_parser.py rngt-en --constituents gum-dev.mrg --test_constituents gum-test.mrg \\
        --output_dir calibrated

Constituents have a temperature alone, fitted to brackets. The errors on other brackets are printed beside it.

Treebanks differ in conventions. Features of GUM, say, are no measure of a parser that follows EWT: calibrate features
on EWT alone, and all others (`--only`) on both.
"""

import argparse
import shutil
from pathlib import Path

import torch

from hf_structure.cli.common import add_device, check_empty, print_table, run_with_options
from hf_structure.cli.gold import read_gold
from hf_structure.hub.locating import resolve_model
from hf_structure.metrics.calibration import reliability
from hf_structure.models.rng_transformer.configuration_rng_transformer import RNGTransformerConfig
from hf_structure.parsing.loading import read_config
from hf_structure.parsing.parser import Parser
from hf_structure.text.conllu import ConlluSentence, read_conllu
from hf_structure.text.files import writing_to
from hf_structure.text.formats import guess_format, load_sentences
from hf_structure.training.calibration import (
    Calibration,
    Choices,
    collect,
    collect_constituents,
    fit,
    fit_temperature,
    join,
    probabilities,
    span_probabilities,
)

AS_TRAINED = Calibration(1.0, 0.0)


def error(choices: Choices, calibration: Calibration) -> str:
    """The expected calibration error in percent."""
    values = probabilities(choices, calibration).clamp(0, 1)
    return f"{100 * reliability(values.tolist(), choices.right.tolist()).ece:.2f}"


def check_arguments(args: argparse.Namespace) -> None:
    """Raises `ValueError` for development sets that are missing, and for options that have no effect or do not fit."""
    if not (args.gold or args.constituents):
        raise ValueError("give development sets: --gold in CoNLL-U, --constituents in brackets, or both")
    for name, needed in (("only", "gold"), ("test_constituents", "constituents")):
        if getattr(args, name) and not getattr(args, needed):
            raise ValueError(f"--{name} has no effect without --{needed}")
    if args.treebanks and len(args.treebanks) != len(args.gold):
        raise ValueError(f"--treebanks must name one of each of the {len(args.gold)} files of --gold")


def read_settings(folder: Path, args: argparse.Namespace) -> RNGTransformerConfig:
    """Reads the configuration of a parser. Raises `ValueError` if the parser cannot be calibrated."""
    config = read_config(folder, "parser", args.trust_remote_code)
    if not isinstance(config, RNGTransformerConfig):
        raise ValueError(f"{args.model} is no RNGTransformer, the only parser that can be calibrated")
    if args.constituents and not config.constituents:
        raise ValueError(f"--constituents: {args.model} predicts no constituents")
    return config


def calibrate(args: argparse.Namespace) -> None:
    check_empty(args.output_dir)
    check_arguments(args)
    folder = Path(resolve_model(args.model, trust_remote_code=args.trust_remote_code))
    config = read_settings(folder, args)
    # All files are read before the first is parsed, which takes minutes.
    gold = [read_gold(read_conllu(file), file) for file in args.gold]
    brackets = {file: read_trees(file) for file in (*args.constituents, *args.test_constituents)}
    fitted: dict[str, Calibration] = {}
    if gold:
        fitted |= calibrate_words(folder, gold, args)
    if args.constituents:
        fitted["constituents"] = calibrate_constituents(folder, brackets, args)
    rounded = {name: [round(value, 4) for value in values] for name, values in fitted.items()}
    config.calibration = {**(config.calibration or {}), **rounded}
    with writing_to(args.output_dir):
        shutil.copytree(folder, args.output_dir, dirs_exist_ok=True)
        config.save_pretrained(args.output_dir)


def read_trees(file: str) -> list[dict]:
    """Reads sentences with labelled constituents. Raises `ValueError` for another format than brackets."""
    if (form := guess_format(file)) != "brackets":
        raise ValueError(f"{file}: constituents are read from brackets, not from {form}")
    return list(load_sentences(file))


def calibrate_words(
    folder: Path, gold: list[list[ConlluSentence]], args: argparse.Namespace
) -> dict[str, Calibration]:
    """Calibrates heads, labels and columns on sentences with gold trees, and prints the errors before and after."""
    found = []
    for sentences, treebank in zip(gold, args.treebanks or [None] * len(gold), strict=True):
        parser = Parser(str(folder), device=args.device, treebank=treebank)
        found.append(collect(parser, sentences))
    if unknown := {*(args.only or ())} - found[0].keys():
        raise ValueError(f"--only {min(unknown)}: the model predicts {', '.join(sorted(found[0]))}")
    fitted = {
        name: fit(join([choices[name] for choices in found]))
        for name in sorted(found[0])
        if name in (args.only or found[0])
    }
    rows = [["", "temperature", "share", *(f"{file}: before, after" for file in map(Path, args.gold))]]
    for name, calibration in fitted.items():
        errors = (f"{error(each[name], AS_TRAINED)}, {error(each[name], calibration)}" for each in found)
        rows.append([name, f"{calibration.temperature:.3f}", f"{calibration.share:.4f}", *errors])
    print("Expected calibration error in 15 bins:\n")
    print_table(rows)
    return fitted


def calibrate_constituents(folder: Path, brackets: dict[str, list[dict]], args: argparse.Namespace) -> Calibration:
    """Calibrates constituents on sentences with gold trees, and prints the errors before and after."""
    parser = Parser(str(folder), device=args.device)
    found = {file: collect_constituents(parser, sentences) for file, sentences in brackets.items()}
    temperature = fit_temperature([batch for file in args.constituents for batch in found[file]])
    rows = [["", "temperature", "before", "after"]]
    for file, batches in found.items():
        right = torch.cat([batch.right for batch in batches]).tolist()
        errors = (reliability(span_probabilities(batches, each).tolist(), right).ece for each in (1.0, temperature))
        rows.append([Path(file).name, f"{temperature:.3f}", *(f"{100 * ece:.2f}" for ece in errors)])
    print("\nExpected calibration error of constituents in 15 bins:\n")
    print_table(rows)
    return Calibration(temperature, 0.0)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL", help="bundled model, folder, or name on the Hub")
    parser.add_argument("--gold", nargs="+", default=[], metavar="FILE", help="development sets in CoNLL-U")
    parser.add_argument("--treebanks", nargs="+", metavar="NAME", help="the treebank to follow in each of them")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        help="calibrate these: heads, labels or columns such as feats; default: all",
    )
    parser.add_argument(
        "--constituents", nargs="+", default=[], metavar="FILE", help="development sets in brackets, for constituents"
    )
    parser.add_argument(
        "--test_constituents", nargs="+", default=[], metavar="FILE", help="brackets to measure constituents on, too"
    )
    parser.add_argument("--output_dir", required=True, metavar="FOLDER", help="folder for the calibrated model")
    add_device(parser)
    run_with_options(parser, calibrate, arguments)


if __name__ == "__main__":
    main()
