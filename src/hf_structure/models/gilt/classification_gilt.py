"""GiLT with a linear map of its final state: classes or scores of whole texts (section 4.3)."""

from typing import cast

import torch
from torch import nn
from transformers.modeling_outputs import SequenceClassifierOutputWithPast
from transformers.utils import can_return_tuple
from transformers.utils.deprecation import deprecate_kwarg

from hf_structure.models.gilt.configuration_gilt import GiLTConfig
from hf_structure.models.gilt.modeling_gilt import GiLTModel, GiLTPreTrainedModel
from hf_structure.modules.classification import sequence_loss


class GiLTForSequenceClassification(GiLTPreTrainedModel):
    """
    GiLT with a linear map, without bias as in transformers' own models, of the last token's final state.

    `config.num_labels` and `config.problem_type` say what it gives: with one label it is a regression. Loaded from a
    [`GiLTForCausalLM`], it begins with a random map and leaves out what predicts tokens and arcs.
    """

    _keys_to_ignore_on_load_unexpected = [r"^scorer\.", r"^lm_head\."]

    def __init__(self, config: GiLTConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = GiLTModel(config)
        self.score = nn.Linear(config.hidden_size, cast(int, config.num_labels), bias=False)
        self.post_init()

    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        word_ids: torch.Tensor | None = None,
        graph: torch.Tensor | None = None,
        tapes: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs,
    ) -> SequenceClassifierOutputWithPast:
        """
        Args:
            input_ids, attention_mask, word_ids, graph, tapes:
                As in [`GiLTModel.forward`]. Padding may be on either side.
            labels (`torch.LongTensor` or `torch.FloatTensor` of shape `(batch_size,)`, *optional*):
                Classes, or the scores of a regression; `(batch_size, num_labels)` for several of either.
            num_items_in_batch (`int`, *optional*):
                Divisor of the sum of losses; the number of labels in this batch by default.
        """
        kwargs.setdefault("use_cache", kwargs.get("cache") is not None)  # nothing comes after the text
        outputs = self.model(
            input_ids, attention_mask=attention_mask, word_ids=word_ids, graph=graph, tapes=tapes, **kwargs
        )
        logits = self.score(last_states(outputs.last_hidden_state, attention_mask))
        loss = None if labels is None else sequence_loss(self, logits, labels, num_items_in_batch)
        return SequenceClassifierOutputWithPast(
            loss=loss,
            logits=logits,
            cache=outputs.cache,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )


def last_states(hidden_states: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
    """States `(batch_size, hidden_size)` of the last tokens that are no padding."""
    if attention_mask is None:
        return hidden_states[:, -1]
    positions = torch.arange(hidden_states.shape[1], device=hidden_states.device)
    last = (positions * (attention_mask[:, -len(positions) :] != 0)).argmax(1)
    return hidden_states[torch.arange(len(last), device=last.device), last]
