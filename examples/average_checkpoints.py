"""
Averages the weights of several models, such as checkpoints of one run, into one model.

    python examples/average_checkpoints.py runs/parser/checkpoint-500 runs/parser/checkpoint-1000 --output_dir mean

The mean of several checkpoints is often better than each of them ("model soups", Wortsman et al. 2022), and just as
fast. All must have the same architecture, vocabulary and labels, and be trained from a common model; settings and
tokenizer are taken from the first, and so are weights that others lack. Choose the checkpoints on a development set,
for parsers with `hf-structure parse` and `hf-structure evaluate`.

    python examples/average_checkpoints.py runs/tuned runs/parser --shares 0.7 0.3 --output_dir mean

A model that was trained further keeps more of what it could do before if it is averaged with what it was trained from.
"""

import argparse

import torch
import transformers
from tqdm import tqdm
from transformers import PreTrainedConfig, PreTrainedModel

import hf_structure
from hf_structure.cli.common import check_empty, run_with_options
from hf_structure.exporting.families import model_classes
from hf_structure.hub.compact import save_compact
from hf_structure.hub.user_code import add_import
from hf_structure.parsing.loading import load_weights, read_config, read_tokenizer
from hf_structure.text.files import writing_to
from hf_structure.training.scripts import differences

VOCABULARIES = ("vocab_size", "id2label", "tags")  # settings that give the weights their meaning


def load(folder: str) -> PreTrainedModel:
    """Loads the model in a folder in float32, as the class that was saved. Raises `ValueError` if there is none."""
    config = read_config(folder, "model")
    name = (config.architectures or ["?"])[0]
    # A family of the user may have a class of the same name as one of transformers.
    of_family = {each.__name__: each for each in model_classes(type(config)).values()}
    model_class = of_family.get(name) or getattr(hf_structure, name, None) or getattr(transformers, name, None)
    if model_class is None:
        raise ValueError(f"{folder}: no class {name} in this library or in transformers")
    return load_weights(folder, model_class, "model", dtype=torch.float32)


def check_alike(first: str, config: PreTrainedConfig, vocabulary: dict[str, int], other: str) -> None:
    """Raises `ValueError` if two models cannot be averaged; prints the other settings that differ."""
    found = differences(read_config(other, "model"), config)
    if wrong := [name for name in found if name == "model_type" or name in VOCABULARIES]:
        raise ValueError(f"{other} is another model than {first}: {', '.join(wrong)} differ")
    # The same number of tokens does not mean the same tokens.
    if read_tokenizer(other).get_vocab() != vocabulary:
        raise ValueError(f"{other} has another vocabulary than {first}")
    if found:
        print(f"{other}: {', '.join(found)} differ; those of {first} are taken")


@torch.no_grad()
def average(folders: list[str], shares: list[float] | None = None, keep: tuple[str, ...] = ()) -> PreTrainedModel:
    """
    Averages the floating-point weights of the models; other tensors are taken from the first, and so are weights that
    another model lacks.

    Args:
        shares (`list[float]`, *optional*): The share of each model in the mean; equal by default.
        keep (`tuple[str, ...]`): Beginnings of the names of weights that are the first model's.

    Raises:
        ValueError: a folder holds no model, or a different one from the first.
    """
    shares = shares or [1.0] * len(folders)
    mean = load(folders[0])
    vocabulary = read_tokenizer(folders[0]).get_vocab()
    state = weights(mean)
    if unused := [prefix for prefix in keep if not any(name.startswith(prefix) for name in state)]:
        raise ValueError(f"--keep: no weight of {folders[0]} begins with {unused[0]!r}")
    totals = dict.fromkeys(state, shares[0])
    for folder, share in zip(tqdm(folders[1:], desc="averaging", unit=" models"), shares[1:], strict=True):
        check_alike(folders[0], mean.config, vocabulary, folder)
        other = weights(load(folder))
        if wrong := [name for name in other if shape(state, name) != shape(other, name)]:
            raise ValueError(f"{folder}: {len(wrong)} weights are others than in {folders[0]}, such as {min(wrong)}")
        if lacking := state.keys() - other.keys():
            print(f"{folder} lacks {len(lacking)} weights, such as {min(lacking)}; those of {folders[0]} are taken")
        for name, values in other.items():
            if values.is_floating_point() and not name.startswith(keep):
                totals[name] += share
                # A running mean in float32: half precision would lose digits with every model.
                state[name].lerp_(values, share / totals[name])
    return mean


def weights(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Returns parameters and buffers by name, tied ones once."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def shape(state: dict[str, torch.Tensor], name: str) -> torch.Size | None:
    return state[name].shape if name in state else None


def write(args: argparse.Namespace) -> None:
    check_empty(args.output_dir)
    if len(args.models) < 2:
        raise ValueError("give at least two models")
    if args.shares and (len(args.shares) != len(args.models) or min(args.shares) <= 0):
        raise ValueError(f"--shares needs a number above 0 for each of the {len(args.models)} models")
    model = average(args.models, args.shares, tuple(args.keep))
    tokenizer = read_tokenizer(args.models[0])
    with writing_to(args.output_dir):
        if args.compact:
            save_compact(model, tokenizer, args.output_dir, args.compact)
        else:
            model.save_pretrained(args.output_dir)
            tokenizer.save_pretrained(args.output_dir)
    print(f"{args.output_dir}: the mean of {len(args.models)} models")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="FOLDER", help="trained models, such as checkpoints of one run")
    parser.add_argument("--output_dir", required=True, metavar="FOLDER", help="folder for the averaged model")
    parser.add_argument(
        "--compact",
        nargs="?",
        const="float16",
        choices=("float16", "int8"),
        help="save it as float16 (the default), at half the size, or as int8, at a quarter",
    )
    parser.add_argument(
        "--shares", nargs="+", type=float, metavar="SHARE", help="of each model in the mean; default: equal"
    )
    parser.add_argument(
        "--keep",
        nargs="+",
        default=[],
        metavar="PREFIX",
        help="weights of the first model that stay as they are, by the beginnings of their names, such as tagger.",
    )
    add_import(parser)
    run_with_options(parser, write, arguments)


if __name__ == "__main__":
    main()
