"""Classification of and regression over sentences, pairs of sentences, and words."""

from typing import ClassVar, cast

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput, TokenClassifierOutput
from transformers.utils.generic import can_return_tuple

from hf_structure.modules.calls import MixinBase
from hf_structure.modules.dropout import Dropout
from hf_structure.modules.padding import left_align, ones_mask

FEATURES = {None: 1, "symmetric": 2, "ordered": 4}  # number of vectors for a sentence or a pair


class SentenceClassifier(nn.Module):
    """
    A layer with ELU and a linear map. Its input is the mean `u` of a sentence's vectors; or, with
    `config.pair_features`, `|u - v|` and `u * v` of two sentences, with `u` and `v` themselves if their order matters.
    """

    def __init__(self, config: PreTrainedConfig):
        super().__init__()
        self.pair_features = config.pair_features
        self.dropout = Dropout(config.hidden_dropout)
        self.dense = nn.Linear(FEATURES[config.pair_features] * config.hidden_size, config.hidden_size)
        self.output = nn.Linear(config.hidden_size, cast(int, config.num_labels))

    def forward(self, hidden_states: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """
        Logits `(batch_size, num_labels)` of sentences, or of pairs, whose first sentences are the first half of the
        vectors `(2 * batch_size, seq_len, hidden_size)` and whose second sentences are the other half.
        """
        states = mean_of_words(hidden_states, attention_mask)
        if self.pair_features:
            one, other = states.chunk(2)
            both = [one, other] if self.pair_features == "ordered" else []
            states = torch.cat([*both, (one - other).abs(), one * other], dim=1)
        return self.output(self.dropout(nn.functional.elu(self.dense(self.dropout(states)))))


def mean_of_words(hidden_states: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
    """`(batch_size, hidden_size)`: means of vectors `(batch_size, seq_len, hidden_size)` without padding."""
    words = attention_mask.unsqueeze(2).to(hidden_states.dtype)
    return (hidden_states * words).sum(1) / words.sum(1).clamp(min=1)


def part_pairs(
    attention_mask: torch.Tensor, token_type_ids: torch.Tensor | None, inputs: dict[str, torch.Tensor]
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """
    Separates the sentences of pairs, whose words have `token_type_ids` 0 and 1: a mask `(2 * batch_size, longest)`,
    first sentences before second ones, and the inputs `(batch_size, seq_len, ...)` likewise. Raises `ValueError` if
    there are no `token_type_ids`, or a pair lacks a sentence.
    """
    if token_type_ids is None:
        raise ValueError("this model reads pairs: token_type_ids say which words are of the second sentence")
    mask = torch.cat([attention_mask.bool() & (token_type_ids == number) for number in (0, 1)])
    lengths = mask.sum(1)
    if not lengths.all():
        raise ValueError("this model reads pairs: each has words of token_type_ids 0 and of 1")
    longest = int(lengths.max())
    order = left_align(mask)[:, :longest]

    def part(values: torch.Tensor) -> torch.Tensor:
        positions = order.view(*order.shape, *[1] * (values.dim() - 2))  # (2 * batch_size, longest, 1, ...)
        positions = positions.expand(-1, -1, *values.shape[2:])  # (2 * batch_size, longest, ...)
        return torch.cat([values, values]).gather(1, positions)  # (2 * batch_size, longest, ...)

    parted = {name: part(values) for name, values in inputs.items()}
    return mask.gather(1, order), parted  # (2 * batch_size, longest)


def sequence_loss(
    model: PreTrainedModel, logits: torch.Tensor, labels: torch.Tensor, num_items_in_batch: torch.Tensor | int | None
) -> torch.Tensor:
    """
    The loss of transformers for `config.problem_type`; if `num_items_in_batch` is given, the sum of the losses divided
    by it.
    """
    loss = model.loss_function(labels=labels, pooled_logits=logits, config=model.config)
    # The loss is a mean over the batch: times the number of labels it is a sum.
    return loss if num_items_in_batch is None else loss * labels.numel() / num_items_in_batch


class SequenceClassification(MixinBase):
    """
    A base model, the `model_class`, with a classifier of the mean of a sentence's word vectors, or of two sentences'
    means.

    `config.num_labels` and `config.problem_type` determine the output: one label is a regression. With
    `config.pair_features` the input is pairs. Loaded from a masked language model, it starts with a random classifier
    and without the head that predicts words.
    """

    model_class: ClassVar[type[PreTrainedModel]]
    _keys_to_ignore_on_load_unexpected = [r"^lm_head\."]

    def __init__(self, config: PreTrainedConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        setattr(self, self.base_model_prefix, self.model_class(config))
        self.classifier = SentenceClassifier(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> SequenceClassifierOutput:
        """
        Args:
            token_type_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*):
                With `config.pair_features`, 0 for words of the first sentence and 1 for words of the second. The two
                are read separately; `hidden_states` and `attentions` have all first sentences before the second ones.
            labels (`torch.LongTensor` or `torch.FloatTensor` of shape `(batch_size,)`, *optional*):
                Classes, or the scores of a regression; `(batch_size, num_labels)` for several of either.
            num_items_in_batch (`int`, *optional*):
                Divisor of the sum of the losses; the number of labels in this batch by default.
            input_ids, attention_mask, inputs_embeds, kwargs: As for the family's model without a head.

        Raises:
            ValueError: if there are no words; as the family's model, and as [`part_pairs`].
        """
        words = {"input_ids": input_ids, "inputs_embeds": inputs_embeds, **kwargs}
        words = {name: value for name, value in words.items() if isinstance(value, torch.Tensor)}
        if words:
            if attention_mask is None:
                attention_mask = ones_mask(next(iter(words.values())))
            if not attention_mask.shape[1]:
                raise ValueError("a text without words: this model reads no punctuation, perhaps")
            if self.config.pair_features:
                attention_mask, words = part_pairs(attention_mask, token_type_ids, words)
        outputs = self.base_model(attention_mask=attention_mask, **kwargs | words)
        logits = self.classifier(outputs.last_hidden_state, attention_mask)
        loss = None
        if labels is not None:
            loss = sequence_loss(self, logits, labels, num_items_in_batch)
        return SequenceClassifierOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )


class TokenClassification(MixinBase):
    """A base model, the `model_class`, with a linear map of every word's vector to `config.num_labels` classes."""

    model_class: ClassVar[type[PreTrainedModel]]
    _keys_to_ignore_on_load_unexpected = [r"^lm_head\."]

    def __init__(self, config: PreTrainedConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        setattr(self, self.base_model_prefix, self.model_class(config))
        self.dropout = Dropout(config.hidden_dropout)
        self.classifier = nn.Linear(config.hidden_size, cast(int, config.num_labels))
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> TokenClassifierOutput:
        """
        Args:
            labels (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): Classes of words, -100 for none.
            num_items_in_batch (`int`, *optional*):
                Divisor of the sum of the losses; the number of labels in this batch by default.
            input_ids, attention_mask, inputs_embeds, kwargs: As for the family's model without a head.
        """
        outputs = self.base_model(input_ids, attention_mask, inputs_embeds=inputs_embeds, **kwargs)
        logits = self.classifier(self.dropout(outputs.last_hidden_state))
        loss = None
        if labels is not None:
            loss = self.loss_function(logits, labels, self.config, num_items_in_batch=num_items_in_batch)
        return TokenClassifierOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )
