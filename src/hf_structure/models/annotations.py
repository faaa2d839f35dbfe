"""Structures that a family's language models read, for training, metrics and probing: [`StructureAnnotation`]."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from transformers import PreTrainedConfig

from hf_structure.models.abilities import abilities_of
from hf_structure.models.families import family_of

# Given sentences and their encoded tokens, returns the columns of each sentence.
Annotate = Callable[[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]], list[dict[str, Any]]]


class StructureReading(NamedTuple):
    """The states of a model that reads structures."""

    outputs: Any  # with `hidden_states` and `attentions` of all positions
    word_ids: torch.Tensor  # (B, L): the word of each position, from 1; 0 for none
    tapes: dict[str, torch.Tensor] | None = None  # (B, L, L), see `WordArrays`


@dataclass(frozen=True)
class StructureAnnotation:
    """
    How the structures of a family's language models are taken from annotated sentences, batched, scored and shown.
    A family's subclass is named in its record; training, metrics and probing know nothing else of the structures.

    Args:
        config (`PreTrainedConfig`): A configuration of the family.

    A subclass sets:
        structures: Plural noun in the names of metrics, such as `"graphs"` in `perplexity_gold_graphs`.
        setting: Name of the configuration's setting that says how structures are read.
        column: Column of encoded sentences that holds the structures.
        columns: All columns that it adds to encoded sentences, with their Python types.
        padding: Columns with one value (or list) for each token, and the number that pads them.
        computed_inputs: Inputs of the model that are computed from the structures in advance.
        sums: Names of the counts in `statistics`.
        is_text: Structures are written between the tokens, so that their probability is part of the text's.
    """

    config: Any

    structures: ClassVar[str]
    setting: ClassVar[str]
    column: ClassVar[str]
    columns: ClassVar[dict[str, Any]]
    padding: ClassVar[dict[str, int]] = {}
    computed_inputs: ClassVar[tuple[str, ...]] = ()
    sums: ClassVar[tuple[str, ...]] = ()
    is_text: ClassVar[bool] = False

    @classmethod
    def source(cls, value: Any) -> str | None:
        """
        The kind of structures in the training text, `"graphs"`, binary `"trees"`, `"constituency"` or `"dependency"`
        trees, given the value of the `setting`; None if no structures are read.
        """
        return None if value in (0, []) else cls.structures

    @classmethod
    def new_settings(cls, tokenizer: Any) -> dict[str, Any]:
        """Settings of a new model that depend on its tokenizer."""
        return {}

    def annotate(self, in_advance: bool = False) -> Annotate:
        """
        Returns the function that makes the `columns` of sentences, which can be pickled. `in_advance` includes columns
        that the collator could also compute for each batch.
        """
        raise NotImplementedError

    def collator(self, pad_token_id: int) -> Any:
        """The collator of encoded sentences."""
        from hf_structure.corpora.collators import CausalCollator

        return CausalCollator(pad_token_id, columns=dict(self.padding))

    def statistics(self, outputs: Any, gold: torch.Tensor, attention_mask: torch.Tensor) -> dict[str, float]:
        """Counts that compare predicted structures with the annotated ones, to be summed over batches."""
        return {}

    def scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Scores of predicted structures, given the sums of `statistics` and the number of `words`."""
        return {}

    def read(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        word_ids: torch.Tensor,
        structures: torch.Tensor,
        **options: Any,
    ) -> StructureReading:
        """Reads tokens with given structures; `options` are passed to the model."""
        inputs = structure_inputs(model, structures, word_ids)
        outputs = model.model(input_ids, attention_mask, **inputs, use_cache=False, **options)
        return StructureReading(outputs, word_ids, self.tapes(model, input_ids, attention_mask, word_ids, structures))

    def tapes(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        word_ids: torch.Tensor,
        structures: torch.Tensor,
    ) -> dict[str, torch.Tensor] | None:
        """The relations of each token to every other in the structures, by name, each of shape `(B, L, L)`."""
        return None


def structure_inputs(model: Any, structures: torch.Tensor, word_ids: torch.Tensor) -> dict[str, torch.Tensor]:
    """The arguments of `forward` that give a model its structures."""
    inputs = {model.structure_input: structures}
    return inputs | {"word_ids": word_ids} if model.hypotheses_class.reads_words else inputs


def annotation_class(config: PreTrainedConfig | type[PreTrainedConfig]) -> type[StructureAnnotation] | None:
    """The annotation that a family's record names; None in a family without structures."""
    family = family_of(config)
    return None if family is None or family.annotation is None else family.load(family.annotation)


def annotation_of(config: PreTrainedConfig) -> StructureAnnotation | None:
    """The annotation of a model's structures; None if the model reads none."""
    kind = annotation_class(config)
    return kind(config) if kind is not None and abilities_of(config).incremental else None
