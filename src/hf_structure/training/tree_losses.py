"""
Losses that fit the hidden states or the attention of any causal language model to trees. They add nothing to the
model: it is saved, loaded and used as any other.

`treereg`, tree regularization, takes a step of its own now and then, on sentences with trees, which need not be of the
training text: see [`~hf_structure.algorithms.tree_regularization`]. `planting` adds to the loss of each batch of the
training text, which has trees: see [`~hf_structure.algorithms.tree_planting`].
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from datasets import Dataset
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback

from hf_structure.algorithms.tree_planting import planting_loss, planting_target
from hf_structure.algorithms.tree_regularization import (
    state_layer,
    state_size,
    tree_regularization_loss,
    tree_splits,
)
from hf_structure.corpora.batching import TokenBudgetBatchSampler
from hf_structure.corpora.binary_trees import load_binary_trees, load_tree_parents
from hf_structure.corpora.collators import CausalCollator
from hf_structure.corpora.corpus import column_numbers
from hf_structure.text.tokenization import encode_subwords
from hf_structure.training.arguments import option
from hf_structure.training.controls import SHUFFLED, control_reading, shuffle_trees
from hf_structure.training.corpora import NUMBER, NUMBERS, PAIRS, STRINGS, Corpora, Reading, without_long
from hf_structure.training.scripts import check_lengths

TREE_LOSSES = {  # the options of each
    "treereg": ("tree_file", "tree_layer", "tree_fraction", "tree_every"),
    "planting": ("tree_heads", "tree_loss_weight"),
}
REGULARIZED = Reading(load_binary_trees, {"words": STRINGS, "spans": PAIRS})
REGULARIZED_COLUMNS = {"input_ids": NUMBERS, "length": NUMBER, "word_starts": NUMBERS, "spans": PAIRS}
PLANTED = Reading(load_tree_parents, {"words": STRINGS, "parents": NUMBERS})
PLANTED_COLUMNS = {"word_ids": NUMBERS, "parents": NUMBERS}
PADDING = -1


@dataclass
class TreeLossArguments:
    """Options of the losses of trees."""

    tree_loss_needs: ClassVar[dict[str, str]] = {name: "tree_loss" for names in TREE_LOSSES.values() for name in names}

    tree_loss: str | None = option(
        None,
        "Loss of trees of a model without structures: treereg, of its hidden states, or planting, of its attention.",
        choices=list(TREE_LOSSES),
    )
    tree_file: list[str] | None = option(
        None, "treereg: sentences with trees, CoNLL-U or brackets; by default the training text."
    )
    tree_layer: int | None = option(
        None, "treereg: states after so many layers are fitted; by default three quarters of the layers."
    )
    tree_fraction: float = option(0.25, "treereg: share of the heads whose part of the states, the first, is fitted.")
    tree_every: int = option(10, "treereg: take a step on trees after every N steps on text.")
    tree_heads: list[str] | None = option(
        None, "planting: heads as LAYER.HEAD, both counted from 0; by default the first of the last layer."
    )
    tree_loss_weight: float = option(0.5, "planting: weight of the loss of trees; the loss of the text has weight 1.")


def check_tree_loss(args: Any, data_args: Any, structure: str | None, pause_tokens: int) -> None:
    """
    Raises `ValueError` for a model that reads structures or pauses, options of another loss, a weight or interval that
    is not positive, and missing trees.
    """
    if args.tree_loss is None:
        return
    if structure is not None:
        raise ValueError(f"--tree_loss is for models without structures: this one reads {structure}")
    for loss, names in TREE_LOSSES.items():
        if loss != args.tree_loss and (given := [name for name in names if name in args.given]):
            raise ValueError(f"--{given[0]} has no effect with --tree_loss {args.tree_loss}: it is for {loss}")
    if args.tree_every < 1:
        raise ValueError(f"--tree_every must be at least 1, not {args.tree_every}")
    if args.tree_loss_weight <= 0:
        raise ValueError(f"--tree_loss_weight must be positive, not {args.tree_loss_weight}")
    if args.tree_loss == "planting" and data_args.dataset_name:
        raise ValueError("--tree_loss planting: --dataset_name has no trees: parse it, and give the file")
    if args.tree_loss == "treereg" and data_args.trains and not (args.tree_file or data_args.train_file):
        raise ValueError("--tree_loss treereg needs trees: give --tree_file, CoNLL-U or brackets")
    if pause_tokens:
        raise ValueError("--tree_loss needs the states and the attention of words alone: leave out --pause_tokens")


class TreeRegularization:
    """
    Tree regularization of the states after one layer.

    Args:
        config (`PreTrainedConfig`): The model's configuration.
        layer (`int`, *optional*): Number of layers before the states, at least 1; by default three quarters of all.
        fraction (`float`): Share of the attention heads, of which whole ones count; as many of the first dimensions
            of the states are fitted as these heads have.
        every (`int`): A step on trees follows every so many steps on text.

    Raises:
        ValueError: if the model has no such layer, or the fraction is no share of at least one head.
    """

    def __init__(
        self, config: PreTrainedConfig, layer: int | None = None, fraction: float = 0.25, every: int = 10
    ) -> None:
        shape: Any = config.get_text_config()
        self.layer = state_layer(shape.num_hidden_layers, layer)
        self.size = state_size(shape.hidden_size, shape.num_attention_heads, fraction)
        self.every = every
        self.dataset: Any = None

    def set_trees(self, dataset: Dataset, collator: "TreeCollator", sampler: TokenBudgetBatchSampler) -> None:
        """Sets the sentences with trees, encoded by [`encode_trees`], that the steps are taken on."""
        self.dataset = dataset
        self.collator = collator
        self.sampler = sampler
        self._epoch = -1
        self._batches: list[list[int]] = []

    def batch(self, number: int) -> dict[str, torch.Tensor]:
        """Returns the batch of a step on trees, counted from 0; it depends on nothing else, also in a resumed run."""
        epoch, index = divmod(number, len(self.sampler))
        if epoch != self._epoch:
            self.sampler.set_epoch(epoch)
            self._batches = list(self.sampler)
            self._epoch = epoch
        return self.collator(self.dataset.__getitems__(self._batches[index]))

    def loss(self, model: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Computes the loss of a batch of [`TreeCollator`]."""
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
        outputs = model(**inputs, output_hidden_states=True, use_cache=False)
        states = outputs.hidden_states[self.layer][:, 1:, : self.size]  # (B, n, size): without the beginning
        return tree_regularization_loss(states, batch["word_starts"], batch["splits"])


class TreePlanting:
    """
    Tree-planting in chosen attention heads.

    Args:
        model (`PreTrainedModel`): The model, with eager attention, which alone gives its weights.
        heads (`Sequence[str]`, *optional*): Heads as `"LAYER.HEAD"`, both counted from 0; by default the first of the
            last layer.
        weight (`float`): Weight of this loss; the loss of the text has weight 1.

    Raises:
        ValueError: if a head is malformed or does not exist, or the attention is not eager.
    """

    def __init__(self, model: PreTrainedModel, heads: Sequence[str] | None = None, weight: float = 0.5) -> None:
        config: Any = model.config
        kind = config._attn_implementation
        if kind != "eager":
            raise ValueError(
                f"--tree_loss planting needs attention weights, and {kind} attention gives none: "
                "add --attn_implementation eager"
            )
        shape = config.get_text_config()
        layers = shape.num_hidden_layers
        names = heads or [f"{layers - 1}.0"]
        self.heads = [_parse_head(name, layers, shape.num_attention_heads) for name in names]
        self.weight = weight

    def loss(self, outputs: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Computes the loss of a batch with the columns of [`planting_collator`], without its weight."""
        attentions = [outputs.attentions[layer][:, head] for layer, head in self.heads]
        return planting_loss(torch.stack(attentions, 1), batch["word_ids"], batch["tree_targets"])


def _parse_head(name: str, layers: int, heads: int) -> tuple[int, int]:
    layer, _, head = name.partition(".")
    if not (layer.isdecimal() and head.isdecimal() and int(layer) < layers and int(head) < heads):
        raise ValueError(
            f"--tree_heads {name}: give heads as LAYER.HEAD, from 0.0 to {layers - 1}.{heads - 1} for this model"
        )
    return int(layer), int(head)


TreeLoss = TreeRegularization | TreePlanting


def make_tree_loss(args: Any, model: PreTrainedModel) -> TreeLoss | None:
    """Makes the loss of trees that options ask for. Raises `ValueError` if it does not suit the model."""
    if args.tree_loss == "treereg":
        return TreeRegularization(model.config, args.tree_layer, args.tree_fraction, args.tree_every)
    if args.tree_loss == "planting":
        return TreePlanting(model, args.tree_heads, args.tree_loss_weight)
    return None


class TreeStep(TrainerCallback):
    """Takes the steps on trees after steps on text, before anything is logged, evaluated or saved."""

    def __init__(self, trainer: Any):
        self.trainer = trainer

    def on_step_end(self, args, state, control, **kwargs):
        number, rest = divmod(state.global_step, self.trainer.tree_loss.every)
        if rest == 0:
            self.trainer.tree_step(number - 1)


# Data


def read_trees(
    loss: TreeRegularization, corpora: Corpora, data_args: Any, args: Any, tokenizer: Any, longest: int | None
) -> None:
    """
    Reads the sentences with trees of tree regularization, without long ones, from `--tree_file` or the training text;
    with other trees if `--trees` says so.
    Raises `ValueError` for text without trees, and for a sentence of more than `longest` tokens.
    """
    files = args.tree_file or data_args.train_file
    sentences = corpora.read(files, control_reading(REGULARIZED, data_args, args.seed))
    if data_args.trees == SHUFFLED:
        sentences = shuffle_trees(sentences, args.seed)
    sentences = without_long(sentences, data_args.max_length)
    dataset = corpora.encode(sentences, encode_trees, tokenizer, REGULARIZED_COLUMNS)
    lengths: Any = column_numbers(dataset, "length")
    check_lengths(lengths, longest)
    sampler = TokenBudgetBatchSampler(
        lengths,
        data_args.max_tokens,
        max_sentences=data_args.max_sentences,
        seed=args.seed if args.data_seed is None else args.data_seed,
        num_replicas=args.world_size,
        rank=args.process_index,
    )
    loss.set_trees(dataset, TreeCollator(tokenizer.pad_token_id), sampler)


def encode_trees(sentences: list[dict], tokenizer: PreTrainedTokenizerBase) -> list[dict]:
    """Encodes sentences with binary trees: adds `word_starts`, first tokens of words and the number of tokens."""
    rows = []
    for sentence in sentences:
        tokens = encode_subwords(sentence["words"], tokenizer)
        words = tokens["word_ids"][1:-1]
        starts = [index for index, word in enumerate(words) if index == 0 or words[index - 1] != word]
        row = {"input_ids": tokens["input_ids"], "length": len(tokens["input_ids"])}
        rows.append(row | {"word_starts": [*starts, len(words)], "spans": sentence["spans"]})
    return rows


@dataclass
class TreeCollator:
    """
    Pads sentences of [`encode_trees`]. Returns `input_ids` and `attention_mask`, of shape `(batch, tokens)`, and the
    `word_starts` and `splits` of [`~hf_structure.algorithms.tree_regularization.tree_regularization_loss`], which do
    not count the first token.
    """

    pad_token_id: int

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        batch = CausalCollator(self.pad_token_id)(examples)
        input_ids = batch["input_ids"]
        word_starts = torch.zeros(len(input_ids), input_ids.shape[1] - 1, dtype=torch.bool)
        splits = []
        for row, example in enumerate(examples):
            word_starts[row, example["word_starts"][:-1]] = True
            splits += [(row, *split) for split in tree_splits(example["spans"], example["word_starts"])]
        return {
            "input_ids": input_ids,
            "attention_mask": batch["attention_mask"],
            "word_starts": word_starts,
            "splits": torch.tensor(splits, dtype=torch.long).view(-1, 4),  # (spans, 4)
        }


def annotate_parents(sentences: Sequence[Mapping[str, Any]], encoded: Sequence[Mapping[str, Any]]) -> list[dict]:
    """Columns of encoded sentences for tree-planting: `parents`, and `word_ids`, which number the end as a word."""
    rows = []
    for sentence, tokens in zip(sentences, encoded, strict=True):
        word_ids = [*tokens["word_ids"][:-1], len(sentence["words"]) + 1]
        rows.append({"word_ids": word_ids, "parents": sentence["parents"]})
    return rows


def planting_collator(pad_token_id: int) -> CausalCollator:
    """The collator of text with the columns of [`annotate_parents`], and of text without them."""
    return CausalCollator(pad_token_id, columns=dict.fromkeys(PLANTED_COLUMNS, PADDING), compute=_tree_targets)


def _tree_targets(batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Returns `tree_targets`, of shape `(batch, longest + 1, longest + 1)`; nothing for a batch without trees."""
    if "parents" not in batch:
        return {}
    lengths = (batch["word_ids"].amax(1) - 1).tolist()
    trees = [[parent for parent in parents if parent != PADDING] for parents in batch["parents"].tolist()]
    targets = [planting_target(tree, length) for tree, length in zip(trees, lengths, strict=True)]
    padded = torch.zeros(len(targets), max(lengths) + 1, max(lengths) + 1, dtype=torch.float32)
    for row, target in enumerate(targets):
        padded[row, : len(target), : len(target)] = target
    return {"tree_targets": padded}


def without_trees(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the inputs of a model in a batch of [`planting_collator`]."""
    return {name: value for name, value in batch.items() if name not in (*PLANTED_COLUMNS, "tree_targets")}
