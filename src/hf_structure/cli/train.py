"""`hf-structure train`."""

import argparse
import runpy
import sys

from hf_structure.training.examples import EXAMPLES

SCRIPTS = ("mlm", "parsing", "clm")
DESCRIPTION = """
Trains a model: runs examples/run_mlm.py, run_parsing.py or run_clm.py, with their options.

  mlm       a masked language model that induces structure: UDGN, StructFormer, or a Transformer baseline
  parsing   a supervised parser on a treebank: the Graph-to-Graph Transformers
  clm       a causal language model that reads and predicts structure: GiLT, Pushdown-LM, Transformer grammars

`hf-structure train mlm --help` lists the options of one. On several GPUs, and in two processes on a CPU:
  accelerate launch -m hf_structure train mlm ...
  torchrun --nproc_per_node 2 -m hf_structure train mlm ...
"""


def add_train(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "train",
        help="train a model on text or trees",
        usage="hf-structure train {mlm,parsing,clm} [option ...]",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run_train)
    parser.add_argument("script", choices=SCRIPTS, help="kind of model to train")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="options of the script")


def run_train(options: argparse.Namespace) -> None:
    """Runs a training script as if started directly."""
    # Scripts read `sys.argv` themselves, as under torchrun and accelerate.
    script = EXAMPLES / f"run_{options.script}.py"
    sys.argv = [str(script), *options.options]
    runpy.run_path(str(script), run_name="__main__")
