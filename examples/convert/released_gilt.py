"""
The GiLT of the code that its authors released (cookie-pie-oops/GiLT-LM).

Graph keys join the content keys. The scorer reads the layer after the middle one, maps the sinusoids of distances once
for each role, and counts a word and itself among the pairs of eq. 3. Embeddings are not scaled, and the head has a
bias. Its matrices are diagonal, which the converter says with zeros.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from huggingface_hub.dataclasses import strict
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification

from hf_structure.models.gilt.classification_gilt import GiLTForSequenceClassification
from hf_structure.models.gilt.configuration_gilt import GiLTConfig
from hf_structure.models.gilt.modeling_gilt import GiLTForCausalLM, GiLTModel
from hf_structure.models.gilt.scorer_gilt import DependencyScorer, Terms
from hf_structure.modules.structured_lm.transformer_xl import sinusoids


@strict
class ReleasedGiLTConfig(GiLTConfig):
    r"""Configuration of [`ReleasedGiLTForCausalLM`], see there. It takes the arguments of [`GiLTConfig`]."""

    model_type = "gilt_release"

    scale_embeddings: bool = False
    lm_head_bias: bool = True
    graph_key: Literal["relative", "content"] = "content"

    @property
    def scorer_layers(self) -> tuple[int, int]:
        """The layers whose outputs represent words, L/2 + 1 and L - 1."""
        return self.num_hidden_layers // 2 + 1, self.num_hidden_layers - 1


class ReleasedDependencyScorer(DependencyScorer):
    """[`DependencyScorer`] with maps of distances, and with the pair of a new word and itself in eq. 3."""

    def __init__(self, config: ReleasedGiLTConfig):
        super().__init__(config)
        maps = (nn.Linear(config.hidden_size, self.hidden_size, bias=False) for _ in range(2))
        self.position_maps = nn.ModuleList(maps)

    def encode_distances(self, role: int, distances: torch.Tensor) -> torch.Tensor:
        """Sinusoids of the model's width, mapped."""
        weight = self.position_maps[role].weight
        return sinusoids(distances, weight.shape[1]).to(weight.dtype) @ weight.T

    def _summary(
        self, new: Sequence[torch.Tensor], sums: Sequence[torch.Tensor], number: torch.Tensor, terms: Terms
    ) -> torch.Tensor:
        own = new[0] * (new[1] @ self.count_matrix.T)
        summary = super()._summary(new, sums, number, terms) + own
        # The sum is then divided by sqrt(2i - 1), here by sqrt(2i).
        return summary * ((2 * number - 1) / (2 * number)).sqrt().to(summary.dtype)


class ReleasedGiLTModel(GiLTModel):
    """The backbone, [`GiLTModel`]."""

    config_class = ReleasedGiLTConfig


class ReleasedGiLTForCausalLM(GiLTForCausalLM):
    """The language model of the released code."""

    config_class = ReleasedGiLTConfig

    def __init__(self, config: ReleasedGiLTConfig):
        super().__init__(config)
        if config.graph_layers:
            self.scorer = ReleasedDependencyScorer(config)
        self.post_init()


class ReleasedGiLTForSequenceClassification(GiLTForSequenceClassification):
    """[`GiLTForSequenceClassification`] of the released language model."""

    config_class = ReleasedGiLTConfig


AutoConfig.register(ReleasedGiLTConfig.model_type, ReleasedGiLTConfig, exist_ok=True)
AutoModel.register(ReleasedGiLTConfig, ReleasedGiLTModel, exist_ok=True)
AutoModelForCausalLM.register(ReleasedGiLTConfig, ReleasedGiLTForCausalLM, exist_ok=True)
AutoModelForSequenceClassification.register(ReleasedGiLTConfig, ReleasedGiLTForSequenceClassification, exist_ok=True)
