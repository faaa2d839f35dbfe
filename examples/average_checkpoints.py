"""
Averages the weights of several models, such as checkpoints of one run, into one model.

    python examples/average_checkpoints.py runs/parser/checkpoint-500 runs/parser/checkpoint-1000 --output_dir mean

The mean of several checkpoints is often better than each of them ("model soups", Wortsman et al. 2022), and just as
fast. All must have the same architecture, vocabulary and labels, and be trained from a common model; settings and
tokenizer are taken from the first. Choose the checkpoints on a development set, for parsers with `hf-structure parse`
and `hf-structure evaluate`.
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
def average(folders: list[str]) -> PreTrainedModel:
    """
    Averages the floating-point weights of the models; other tensors are taken from the first. Raises `ValueError` if a
    folder holds no model, or a different one from the first.
    """
    mean = load(folders[0])
    vocabulary = read_tokenizer(folders[0]).get_vocab()
    state = weights(mean)
    for folder in tqdm(folders[1:], desc="averaging", unit=" models"):
        check_alike(folders[0], mean.config, vocabulary, folder)
        other = weights(load(folder))
        if wrong := [name for name in state.keys() | other.keys() if shape(state, name) != shape(other, name)]:
            raise ValueError(f"{folder}: {len(wrong)} weights are others than in {folders[0]}, such as {min(wrong)}")
        for name, weight in state.items():
            if weight.is_floating_point():
                # Summed in float32: half precision would lose digits with every model.
                weight += other[name]
    for weight in state.values():
        if weight.is_floating_point():
            weight /= len(folders)
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
    model = average(args.models)
    tokenizer = read_tokenizer(args.models[0])
    with writing_to(args.output_dir):
        if args.compact:
            save_compact(model, tokenizer, args.output_dir)
        else:
            model.save_pretrained(args.output_dir)
            tokenizer.save_pretrained(args.output_dir)
    print(f"{args.output_dir}: the mean of {len(args.models)} models")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="FOLDER", help="trained models, such as checkpoints of one run")
    parser.add_argument("--output_dir", required=True, metavar="FOLDER", help="folder for the averaged model")
    parser.add_argument("--compact", action="store_true", help="save it at half its size, in float16")
    add_import(parser)
    run_with_options(parser, write, arguments)


if __name__ == "__main__":
    main()
