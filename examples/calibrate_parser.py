"""
Makes the probabilities of a refinement parser (RNGTransformer) reliable.

    python examples/calibrate_parser.py rngt-en --gold ewt-dev.conllu gum-dev.conllu --output_dir calibrated

Of the words whose head has a probability of 80%, 80% should have the right head; trained parsers are surer than that.
Two numbers each for heads, labels, tags, features and lemmas are fitted to development sets, a temperature and the
share of a uniform distribution, and written to `config.json` (`calibration`). They change no tree, label or tag, only
`probabilities`, `marginals`, `log_probability` and their like. Give development sets of several genres, none that the
parser has learned from, and measure on other ones: `hf-structure evaluate --calibration`. Training leaves the numbers
as they are: calibrate again after it.

Treebanks differ in conventions. Features of GUM, say, are no measure of a parser that follows EWT: calibrate features
on EWT alone, and all others (`--only`) on both.
"""

import argparse
import shutil
from pathlib import Path

from hf_structure.cli.common import add_device, check_empty, print_table, run_with_options
from hf_structure.cli.gold import read_gold
from hf_structure.hub.locating import resolve_model
from hf_structure.metrics.calibration import reliability
from hf_structure.models.rng_transformer.configuration_rng_transformer import RNGTransformerConfig
from hf_structure.parsing.loading import read_config
from hf_structure.parsing.parser import Parser
from hf_structure.text.conllu import read_conllu
from hf_structure.text.files import writing_to
from hf_structure.training.calibration import Calibration, Choices, collect, fit, join, probabilities

AS_TRAINED = Calibration(1.0, 0.0)


def error(choices: Choices, calibration: Calibration) -> str:
    """The expected calibration error in percent."""
    values = probabilities(choices, calibration).clamp(0, 1)
    return f"{100 * reliability(values.tolist(), choices.right.tolist()).ece:.2f}"


def calibrate(args: argparse.Namespace) -> None:
    check_empty(args.output_dir)
    if args.treebanks and len(args.treebanks) != len(args.gold):
        raise ValueError(f"--treebanks must name one of each of the {len(args.gold)} files of --gold")
    folder = Path(resolve_model(args.model, trust_remote_code=args.trust_remote_code))
    config = read_config(folder, "parser", args.trust_remote_code)
    if not isinstance(config, RNGTransformerConfig):
        raise ValueError(f"{args.model} is no RNGTransformer, the only parser that can be calibrated")
    # All files are read before the first is parsed, which takes minutes.
    gold = [read_gold(read_conllu(file), file) for file in args.gold]
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
    rounded = {name: [round(value, 4) for value in values] for name, values in fitted.items()}
    config.calibration = {**(config.calibration or {}), **rounded}
    with writing_to(args.output_dir):
        shutil.copytree(folder, args.output_dir, dirs_exist_ok=True)
        config.save_pretrained(args.output_dir)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL", help="bundled model, folder, or name on the Hub")
    parser.add_argument("--gold", nargs="+", required=True, metavar="FILE", help="development sets in CoNLL-U")
    parser.add_argument("--treebanks", nargs="+", metavar="NAME", help="the treebank to follow in each of them")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        help="calibrate these: heads, labels or columns such as feats; default: all",
    )
    parser.add_argument("--output_dir", required=True, metavar="FOLDER", help="folder for the calibrated model")
    add_device(parser)
    run_with_options(parser, calibrate, arguments)


if __name__ == "__main__":
    main()
