"""
Graph-infused attention (sections 3.3 and 3.4): the key of token `j` seen from token `k` gets

    e_kj = sum_f f_l(Emb_f[G_f(k, j)])

where G are the features of the graph, a tape; [`~hf_structure.modules.structured_lm.tape_attention.TapeKeys`] adds them.
"""

import torch
from torch import nn

from hf_structure.models.gilt.configuration_gilt import GiLTConfig
from hf_structure.modules.structured_lm.tape_attention import TapeKeys, TapeLookup


class GraphKeys(TapeKeys):
    """
    The graph keys of one layer.

    Args:
        config ([`GiLTConfig`]): Configuration of the model.
        layer_idx (`int`): Number of the layer.
    """

    def __init__(self, config: GiLTConfig, layer_idx: int):
        super().__init__(layer_idx, relative=config.graph_key == "relative")
        # f_l, one map from all features together: its part for each. A bias would be the same for all tokens.
        self.fusion = nn.Parameter(
            torch.empty(len(config.graph_features), config.graph_embedding_size, config.hidden_size)
        )

    def forward(self, lookup: TapeLookup) -> torch.Tensor:
        """f_l of the embeddings of all values, `(features, values, hidden_size)`."""
        return lookup.embeddings.to(self.fusion.device) @ self.fusion


__all__ = ["GraphKeys"]
