"""
The backbone of language models from scratch: a Transformer decoder with the relative positions of Transformer-XL (Dai
et al. 2019), without memory across sentences. Independent of any structure and of the search.

Dimensions: B texts, Q new tokens (queries), keys all tokens, H heads, head_dim the size of a head.
"""

import math
from collections.abc import Callable

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.cache_utils import Cache, DynamicCache
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from hf_structure.modules.calls import by_call, with_calls
from hf_structure.modules.dropout import Dropout


def sinusoids(positions: torch.Tensor, size: int) -> torch.Tensor:
    """Sine and cosine encoding `(..., size)` of positions `(...)`."""
    frequencies = 10000 ** (-torch.arange(0, size, 2, device=positions.device, dtype=torch.float32) / size)
    angles = positions.unsqueeze(-1) * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=-1)[..., :size]


def causal_mask(attention_mask: torch.Tensor | None, states: torch.Tensor, past: int) -> torch.Tensor:
    """
    `(batch_size or 1, 1, queries, keys)` to add to scores: 0 where a token may look, else very small. A mask of four
    dimensions, boolean or additive, replaces all of it; it may cover more keys than a cache holds yet.
    """
    queries = states.shape[1]
    keys = states.shape[1] + past
    lowest = torch.finfo(states.dtype).min
    if attention_mask is not None and attention_mask.dim() == 4:
        visible = attention_mask[..., :keys]
        if visible.is_floating_point():
            return visible.to(states.dtype).clamp(min=lowest)
    else:
        position = torch.arange(keys, device=states.device)
        visible = (position <= position[past:].unsqueeze(1)).view(1, 1, queries, keys)  # (1, 1, Q, keys)
        if attention_mask is not None:
            visible = visible & attention_mask[:, None, None, :].bool()
    return torch.zeros_like(visible, dtype=states.dtype).masked_fill(~visible.bool(), lowest)


def add_bias(mask: torch.Tensor | None, bias: torch.Tensor) -> torch.Tensor:
    """
    A bias of attention scores, `(batch_size, num_heads, queries, keys)`, on top of a mask in one of the forms that
    transformers makes them: additive, boolean, or None for plain causal attention.
    """
    lowest = torch.finfo(bias.dtype).min
    if mask is None:
        queries, keys = bias.shape[-2:]
        mask = torch.ones(queries, keys, dtype=torch.bool, device=bias.device).tril(keys - queries)
    if mask.dtype == torch.bool:
        return bias.masked_fill(~mask, lowest)
    return torch.where(mask > torch.finfo(mask.dtype).min / 2, bias + mask.to(bias.dtype), lowest)


class RelativeAttention(nn.Module):
    """Attention by content and relative position: eq. 5 of GiLT without graphs."""

    is_causal = True

    def __init__(self, config: PreTrainedConfig, layer_idx: int):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.num_heads = config.num_attention_heads
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.scaling = self.head_dim**-0.5
        self.query = nn.Linear(config.hidden_size, config.hidden_size, bias=False)  # W_q
        self.key = nn.Linear(config.hidden_size, config.hidden_size, bias=False)  # W_k,c
        self.position_key = nn.Linear(config.hidden_size, config.hidden_size, bias=False)  # W_k,r
        self.value = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.output = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.dropout = Dropout(config.attention_dropout)

    def split_heads(self, states: torch.Tensor) -> torch.Tensor:
        """`(batch_size, length, hidden_size)` to `(batch_size, num_heads, length, head_dim)`."""
        return states.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)  # (B, H, length, head_dim)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None,
        content_bias: torch.Tensor,
        position_bias: torch.Tensor,
        cache: Cache | None = None,
        output_attentions: bool = False,
        score_bias: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None,
        position_scores: Callable[["RelativeAttention", torch.Tensor], torch.Tensor] | None = None,
        attend: Callable[..., torch.Tensor] | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """
        Args:
            hidden_states (`torch.FloatTensor` of shape `(batch_size, queries, hidden_size)`): Token vectors.
            attention_mask (`torch.FloatTensor` of shape `(batch_size, 1 or num_heads, queries, keys)`, *optional*):
                Added to scores; without it, every token sees all keys.
            content_bias, position_bias (`torch.FloatTensor` of shape `(num_heads, 1, head_dim)`): u and v.
            cache (`Cache`, *optional*): Keys and values of the tokens before.
            score_bias (`Callable`, *optional*): From the scaled queries for content and positions, a bias of scores.
            position_scores (`Callable`, *optional*): From this module and the queries for positions, scores by
                position, instead of by distance.
            attend (`Callable`, *optional*):
                Replaces attention: from this module, queries, keys, values and a bias to `(B, Q, H, head_dim)`.

        Returns:
            New token vectors, and the weights of attention if asked for.
        """
        # Queries are scaled, not scores, which are many more.
        query = self.split_heads(self.query(hidden_states)) * self.scaling
        key = self.split_heads(self.key(hidden_states))
        value = self.split_heads(self.value(hidden_states))
        content = query + content_bias * self.scaling
        position = query + position_bias * self.scaling
        if cache is not None:
            key, value = cache.update(key, value, self.layer_idx, kwargs=kwargs)
            # A static cache returns its whole capacity, not only the tokens so far.
            if attention_mask is not None:
                keys = attention_mask.shape[-1]
                key = key[:, :, :keys]
                value = value[:, :, :keys]
        if position_scores is None:
            scores = self._position_scores(position, key.shape[2])
        else:
            scores = position_scores(self, position)
        if score_bias is not None:
            scores = score_bias(content, position) + scores
        if attention_mask is not None:
            scores = add_bias(attention_mask, scores)
        weights = None
        if attend is not None:
            mixed = attend(self, content, key, value, scores)  # (B, Q, H, head_dim)
        elif output_attentions or self.config._attn_implementation == "eager":
            scores = content @ key.transpose(2, 3) + scores  # (B, H, Q, keys)
            weights = self.dropout(scores.softmax(dim=-1, dtype=torch.float32).to(value.dtype))
            mixed = (weights @ value).transpose(1, 2)  # (B, Q, H, head_dim)
        else:
            dropout = self.dropout.p if self.training else 0.0
            mask = scores.to(content.dtype)
            mixed = nn.functional.scaled_dot_product_attention(content, key, value, mask, dropout, scale=1.0)
            mixed = mixed.transpose(1, 2)  # (B, Q, H, head_dim)
        return self.output(mixed.flatten(2)), weights  # (B, Q, hidden_size)

    def _position_scores(self, query: torch.Tensor, keys: int) -> torch.Tensor:
        """
        `(batch_size, num_heads, queries, keys)`: (W_q h_k + v) . W_k,r r_kj, with r_kj of the distance k - j;
        meaningless for later tokens.
        """
        scores = torch.einsum("bhqd,hkd->bhqk", query, self.position_keys(keys, query))  # by distance, falling
        # Row k is moved to the left until distance 0 stands at token k: padded by one, read in rows of one less.
        batch, num_heads, queries, _ = scores.shape
        shifted = nn.functional.pad(scores, (1, 0)).view(batch, num_heads, keys + 1, queries)  # (B, H, keys + 1, Q)
        return shifted[:, :, 1:].reshape(batch, num_heads, queries, keys)  # (B, H, Q, keys)

    def position_keys(self, count: int, like: torch.Tensor, lowest: int = 0) -> torch.Tensor:
        """`(num_heads, count - lowest, head_dim)`: W_k,r r of positions from `count - 1` to the lowest."""
        distances = torch.arange(count - 1, lowest - 1, -1, device=like.device)
        encoded = sinusoids(distances, self.config.hidden_size).to(like.dtype)
        keys = self.position_key(encoded).unflatten(-1, (self.num_heads, self.head_dim))  # (distances, H, head_dim)
        return keys.transpose(0, 1)  # (H, distances, head_dim)


class TransformerXLLayer(GradientCheckpointingLayer):
    """Attention and feed-forward network, each with a residual connection and a layer norm after it."""

    def __init__(self, config: PreTrainedConfig, layer_idx: int):
        super().__init__()
        self.attention = RelativeAttention(config, layer_idx)
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.expand = nn.Linear(config.hidden_size, config.intermediate_size)
        self.contract = nn.Linear(config.intermediate_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout)

    def forward(self, hidden_states: torch.Tensor, **kwargs) -> torch.Tensor:
        attended, _ = self.attention(hidden_states, **kwargs)
        hidden_states = self.attention_norm(hidden_states + self.dropout(attended))
        inner = self.dropout(self.expand(hidden_states).relu())
        return self.norm(hidden_states + self.dropout(self.contract(inner)))


@with_calls
class TransformerXLModel(PreTrainedModel):
    """Transformer-XL without a head on top."""

    base_model_prefix = "model"
    _input_embed_layer = "embeddings"
    supports_gradient_checkpointing = True
    _no_split_modules = ["TransformerXLLayer"]
    _supports_sdpa = True
    _can_record_outputs = {
        "hidden_states": TransformerXLLayer,
        "attentions": OutputRecorder(RelativeAttention, index=1),
    }

    def __init__(self, config: PreTrainedConfig):
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        num_heads = config.num_attention_heads
        self.content_bias = nn.Parameter(torch.empty(num_heads, 1, config.hidden_size // num_heads))  # u
        self.position_bias = nn.Parameter(torch.empty(num_heads, 1, config.hidden_size // num_heads))  # v
        self.layers = nn.ModuleList(TransformerXLLayer(config, i) for i in range(config.num_hidden_layers))
        self.dropout = Dropout(config.hidden_dropout)
        self.gradient_checkpointing = False
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        size = self.config.hidden_size
        if isinstance(module, nn.Linear):
            init.normal_(module.weight, std=math.sqrt(2 / (self.config.num_hidden_layers * module.in_features)))
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            init.uniform_(module.weight, -math.sqrt(3 / size), math.sqrt(3 / size))
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)
        elif module is self:
            init.normal_(self.content_bias, std=size**-0.5)
            init.normal_(self.position_bias, std=size**-0.5)

    def scale(self, embeddings: torch.Tensor) -> torch.Tensor:
        """The first layer's input, from embeddings of tokens."""
        # The embeddings are tied to the output embeddings, which are small; the scale is Transformer-XL's.
        scale = math.sqrt(self.config.hidden_size) if self.config.scale_embeddings else 1
        return self.dropout(embeddings * scale)

    @by_call
    def biases(self) -> dict[str, torch.Tensor]:
        """u and v, which all layers read."""
        return {"content_bias": self.content_bias, "position_bias": self.position_bias}

    @capture_outputs
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        cache: Cache | None = None,
        use_cache: bool = False,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> BaseModelOutputWithPast:
        """See [`~hf_structure.modules.structured_lm.modeling.StructuredModelMixin`] and [`causal_mask`]."""
        if use_cache and cache is None:
            cache = DynamicCache()
        past = 0 if cache is None else int(cache.get_seq_length())
        embeddings = self.embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        hidden_states = self.scale(embeddings)
        mask = causal_mask(attention_mask, hidden_states, past)
        kwargs |= {"content_bias": self.content_bias, "position_bias": self.position_bias}
        for layer in self.layers[: self.config.num_hidden_layers]:  # fewer where text is drafted (early exit)
            hidden_states = layer(hidden_states, attention_mask=mask, cache=cache, **kwargs)
        cache = cache if use_cache else None
        return BaseModelOutputWithPast(last_hidden_state=hidden_states, cache=cache)
