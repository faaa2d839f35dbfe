"""
Unsupervised Dependency Graph Network (Shen et al. 2022, "Unsupervised Dependency Graph Network", ACL).

A parser reads the words and gives every word a distribution over heads; a dependency graph network (DGN) passes
messages along the arcs so predicted to restore masked words. The gradient of the masked language model is all the
supervision the parser gets. Equation numbers are the paper's.

Shapes: B sentences, L words, padding included, D the width of word vectors, H heads. In `(B, L, L + 1)` of heads the
first column is the root; in `(B, L, L)` of edges there is none.
"""

import math
from typing import cast

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils import can_return_tuple
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from hf_structure.algorithms.spanning_tree import (
    arc_marginals,
    argmax_heads,
    check_decoder,
    chosen_scores,
    find_heads,
    tree_log_probs,
)
from hf_structure.models.modeling_outputs import DecoderOutput
from hf_structure.models.udgn.configuration_udgn import UDGNConfig
from hf_structure.models.udgn.outputs_udgn import DependencyMaskedLMOutput, DependencyModelOutput
from hf_structure.modules.attention import AttentionMixin
from hf_structure.modules.dropout import Dropout
from hf_structure.modules.lstm import BiLSTM
from hf_structure.modules.masked_lm import masked_cross_entropy
from hf_structure.modules.padding import check_one_input, left_align, ones_mask, undo_left_align
from hf_structure.modules.positions import LearnedPositions
from hf_structure.modules.publishing import PublishingMixin

ACTIVATIONS = {"tanh": torch.tanh, "identity": lambda x: x, "relu": torch.relu, "elu": nn.functional.elu}


class UDGNParser(nn.Module):
    """Head-selective parser (section 3.1): a distribution over heads for every word."""

    def __init__(self, config: UDGNConfig):
        super().__init__()
        self.head_normalization = config.head_normalization
        size = cast(int, config.parser_hidden_size)  # set by the configuration
        self.embeddings = nn.Embedding(config.vocab_size, size)
        self.dropout = Dropout(config.parser_dropout)
        self.lstm = BiLSTM(size, size, config.parser_num_layers, config.parser_dropout)
        self.arcs = nn.Linear(2 * size, 2 * size)

    def forward(self, words: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """
        Args:
            words (`torch.Tensor` of shape `(batch_size, seq_len)` or `(batch_size, seq_len, parser_hidden_size)`):
                Word ids, or their vectors.
            attention_mask (`torch.Tensor` of shape `(batch_size, seq_len)`): 1 for words, 0 for padding.

        Returns:
            `torch.FloatTensor` of shape `(batch_size, seq_len, seq_len + 1)`: head log-probabilities, as in
            [`DependencyModelOutput`].
        """
        log_probs = self.normalize(self.score(words, attention_mask))
        back = undo_left_align(attention_mask)  # undoes the alignment of `score`, for dependents and heads
        columns = torch.cat([torch.zeros_like(back[:, :1]), back + 1], dim=1)
        log_probs = log_probs.gather(1, back.unsqueeze(2).expand_as(log_probs))  # (B, L, L + 1)
        return log_probs.gather(2, columns.unsqueeze(1).expand_as(log_probs))  # (B, L, L + 1)

    def score(self, words: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """
        Arc scores `(batch_size, seq_len, seq_len + 1)`, the words of each sentence first; -inf for a word's own column
        and for padding. The root has a word's score for itself.
        """
        # Padding goes to the right: from the left, an LSTM would carry it into the sentence.
        order = left_align(attention_mask)
        is_word = attention_mask.bool().gather(1, order)  # (B, L)
        vectors = self.embeddings(words) if words.dim() == 2 else words
        embedded = self.dropout(vectors.gather(1, order.unsqueeze(2).expand_as(vectors)))  # (B, L, D)
        states = self.lstm(embedded, is_word.sum(1))  # (B, L, 2D), eq. 1
        parent, child = self.arcs(self.dropout(states)).chunk(2, dim=-1)  # eq. 2 and 3
        scores = (child @ parent.transpose(1, 2)).float() / math.sqrt(child.shape[-1])  # (B, L, L), eq. 4
        scores = torch.cat([scores.diagonal(dim1=1, dim2=2).unsqueeze(-1), scores], dim=-1)
        return scores.masked_fill(~arc_mask(is_word), -torch.inf)

    def normalize(self, scores: torch.Tensor) -> torch.Tensor:
        """Head log-probabilities of arc scores, both `(B, L, L + 1)`."""
        impossible = scores == -torch.inf
        if self.head_normalization == "kirchhoff":  # marginals over all trees, appendix A.3
            probs = arc_marginals(scores, (~impossible[..., 0]).sum(1))
            return probs.clamp(min=torch.finfo(probs.dtype).tiny).log().masked_fill(impossible, -torch.inf)
        # Rows of padding hold -inf alone, whose softmax would be NaN.
        finite = scores.masked_fill(impossible, torch.finfo(scores.dtype).min)
        return finite.log_softmax(dim=-1).masked_fill(impossible, -torch.inf)  # eq. 5


def arc_mask(words: torch.Tensor) -> torch.Tensor:
    """`(B, L, L + 1)`: True for arcs that join two different words, or a word and the root, and no padding."""
    root = words.unsqueeze(-1)
    different = ~torch.eye(words.shape[1], dtype=torch.bool, device=words.device)
    return torch.cat([root, root & words.unsqueeze(1) & different], dim=-1)


def score_roots(log_probs: torch.Tensor, root_score: str) -> torch.Tensor:
    """Arc scores from head log-probabilities, both `(B, L, L + 1)`: `"uniform"` or plus expected `"dependents"`."""
    root = torch.zeros_like(log_probs[..., 0])
    if root_score == "dependents":
        root = log_probs[..., 0] + log_probs[..., 1:].exp().sum(1)
    return torch.cat([root.unsqueeze(-1), log_probs[..., 1:]], dim=-1)


class UDGNGatedHeads(nn.Module):
    """Competitive gated heads (section 3.3)."""

    def __init__(self, config: UDGNConfig):
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.head_dim = cast(int, config.head_dim)  # set by the configuration
        self.use_gate = config.use_gate
        self.competition = config.competition
        self.activation = ACTIVATIONS[config.head_activation]
        inner_size = self.num_heads * self.head_dim
        self.projection = nn.Linear(config.hidden_size, (4 if config.use_gate else 3) * inner_size)
        self.output = nn.Linear(inner_size, config.hidden_size)
        self.position_bias = (
            nn.Parameter(torch.empty(2, self.num_heads)) if config.use_relative_position_bias else None
        )
        self.head_dropout = Dropout(config.head_dropout)
        self.dropout = Dropout(config.hidden_dropout)

    def forward(self, hidden_states: torch.Tensor, dependency_mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Args:
            hidden_states (`torch.FloatTensor` of shape `(batch_size, seq_len, hidden_size)`): Word vectors.
            dependency_mask (`torch.FloatTensor` of shape `(batch_size, seq_len, seq_len)`): Edge probabilities.

        Returns:
            The update of the word vectors and the weights of the heads, `(batch_size, num_heads, seq_len, seq_len)`.
        """
        batch, length, _ = hidden_states.shape
        projected = self.projection(hidden_states).view(batch, length, -1, self.num_heads, self.head_dim)  # eq. 7
        query, key, value, *gate = projected.permute(2, 0, 3, 1, 4)  # each (B, H, L, head_dim)
        scores = (query @ key.transpose(-1, -2)).float() / math.sqrt(self.head_dim)  # eq. 9
        if self.position_bias is not None:
            scores = scores + self.position_scores(length)  # eq. 12
        weights = self.head_dropout(self.compete(scores) * dependency_mask.unsqueeze(1))  # eq. 11
        # eq. 8 and 14: the gate depends on the receiving word only, so it multiplies the sum.
        messages = weights.to(value.dtype) @ self.activation(value)  # (B, H, L, head_dim)
        if self.use_gate:
            messages = messages * gate[0].sigmoid()
        messages = messages.transpose(1, 2).reshape(batch, length, -1)  # (B, L, H * head_dim)
        return self.dropout(self.output(self.dropout(messages))), weights

    def compete(self, scores: torch.Tensor) -> torch.Tensor:
        """The share that each head has of an edge, eq. 10, from the scores of the heads; both `(B, H, L, L)`."""
        return scores.softmax(dim=1) if self.competition == "softmax" else scores.sigmoid()

    def position_scores(self, length: int) -> torch.Tensor:
        """`(H, L, L)`: a head's bias for words on the left and for words on the right of the receiver, eq. 13."""
        assert self.position_bias is not None  # config.use_relative_position_bias
        position = torch.arange(length, device=self.position_bias.device)
        distance = position.unsqueeze(0) - position.unsqueeze(1)
        left, right = self.position_bias.float().view(2, -1, 1, 1)  # (H, 1, 1) each
        return torch.where(distance > 0, right, left).masked_fill(distance == 0, 0.0)


class UDGNLayer(GradientCheckpointingLayer):
    """One dependency graph layer with its residual connection, eq. 15."""

    def __init__(self, config: UDGNConfig):
        super().__init__()
        self.heads = UDGNGatedHeads(config)

    def forward(self, hidden_states: torch.Tensor, dependency_mask: torch.Tensor) -> torch.Tensor:
        update, _ = self.heads(hidden_states, dependency_mask)
        return hidden_states + update


class UDGNPreTrainedModel(AttentionMixin, PublishingMixin, PreTrainedModel):
    """Initialisation, and the way from word ids to trees that all UDGN models share."""

    config: UDGNConfig
    config_class = UDGNConfig
    base_model_prefix = "udgn"
    _input_embed_layer = "embeddings"
    supports_gradient_checkpointing = True
    attention_reads = "a dependency mask, and heads compete for each word"
    _no_split_modules = ["UDGNLayer", "UDGNParser"]
    _can_record_outputs = {"hidden_states": UDGNLayer, "attentions": OutputRecorder(UDGNGatedHeads, index=1)}

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        super()._init_weights(module)
        bound = self.config.initializer_range
        if isinstance(module, nn.Embedding):
            init.uniform_(module.weight, -bound, bound)
        elif isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
        elif isinstance(module, nn.LSTM):
            for parameter in module.parameters():  # as torch does it
                init.uniform_(parameter, -(module.hidden_size**-0.5), module.hidden_size**-0.5)
        elif isinstance(module, UDGNGatedHeads) and module.position_bias is not None:
            init.uniform_(module.position_bias, -bound, bound)

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *args, **kwargs) -> nn.Embedding:
        """As in transformers, for the graph network's and the parser's word embeddings."""
        embeddings = super().resize_token_embeddings(new_num_tokens, *args, **kwargs)
        parser = cast(UDGNParser, self.base_model.parser)
        parser.embeddings = self._get_resized_embeddings(parser.embeddings, embeddings.num_embeddings)
        return embeddings

    @torch.no_grad()
    def decode(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        *,
        parser_inputs_embeds: torch.Tensor | None = None,
        decoder: str = "tree",
        k: int = 1,
        marginals: bool = False,
    ) -> DecoderOutput:
        """
        Dependency structure of a batch of sentences. Only the parser runs.

        Args:
            input_ids, attention_mask, parser_inputs_embeds: As in [`UDGNModel`]. The output holds the words of each
                sentence first, wherever the padding is.
            decoder (`"tree"`, `"projective"` or `"argmax"`): Best tree with one root, best tree without crossing arcs
                (both by `config.tree_objective`), or each word's best head (the root excluded, as in the paper: there
                is always a cycle).
            k (`int`): Number of trees, best first.
            marginals (`bool`): Add arc marginals over all single-root trees.

        Raises:
            ValueError: if `decoder` is unknown or `k` does not fit it, or there are not either ids or vectors.
        """
        check_decoder(decoder, k)
        words = check_one_input(input_ids, parser_inputs_embeds)
        if attention_mask is None:
            attention_mask = ones_mask(words)
        lengths = attention_mask.long().sum(1)
        parser = cast(UDGNParser, self.base_model.parser)
        scores = parser.score(words, attention_mask)  # (B, L, L + 1)
        log_probs = parser.normalize(scores)
        if self.config.root_score != "parser":
            scores = score_roots(log_probs, self.config.root_score)
        output = DecoderOutput()
        expected_heads = self.config.tree_objective == "expected_heads" and decoder != "argmax"
        if marginals or expected_heads:
            arc_probs = arc_marginals(scores, lengths)
            output.marginals = arc_probs if marginals else None
        objective = arc_probs if expected_heads else scores
        if decoder == "argmax":
            output.heads = heads = argmax_heads(log_probs, lengths, root=False).unsqueeze(1)
        else:
            output.heads = heads = find_heads(objective, lengths, decoder, k)
            output.log_probs = tree_log_probs(scores, heads, lengths)
        head_probs = chosen_scores(log_probs, heads).exp().masked_fill(heads < 0, 0.0)
        output.columns = {"probabilities": head_probs}
        return output


class UDGNModel(UDGNPreTrainedModel):
    """Parser and dependency graph network without a head on top."""

    def __init__(self, config: UDGNConfig):
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position_embeddings = (
            LearnedPositions(config.max_position_embeddings, config.hidden_size)
            if config.use_position_embeddings
            else None
        )
        self.parser = UDGNParser(config)
        self.layers = nn.ModuleList(UDGNLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout)
        self.gradient_checkpointing = False
        self.post_init()

    @capture_outputs
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        parser_inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> DependencyModelOutput:
        """
        Args:
            input_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): Word ids.
            attention_mask (`torch.Tensor` of shape `(batch_size, seq_len)`, *optional*): 1 for words, 0 for padding.
            inputs_embeds (`torch.FloatTensor` of shape `(batch_size, seq_len, hidden_size)`, *optional*): Vectors of
                words, instead of `input_ids`, and with them
            parser_inputs_embeds (`torch.Tensor` of shape `(batch_size, seq_len, parser_hidden_size)`, *optional*):
                vectors for the parser, which has a table of its own.

        Raises:
            ValueError: if there are not either ids or vectors of both kinds, or a sentence is longer than learned
                positions reach.
        """
        check_one_input(input_ids, inputs_embeds)
        if (inputs_embeds is None) != (parser_inputs_embeds is None):
            raise ValueError("UDGN has two tables of words: inputs_embeds and parser_inputs_embeds are given together")
        embedded = self.embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        if attention_mask is None:
            attention_mask = ones_mask(embedded)
        head_log_probs = self.parser(input_ids if inputs_embeds is None else parser_inputs_embeds, attention_mask)
        head_probs = head_log_probs[..., 1:].exp()  # the root's share is dropped, not spread over the rest
        mask = self.connect(head_probs.detach() if self.config.detach_parser else head_probs)
        if self.position_embeddings is not None:
            embedded = embedded + self.position_embeddings(attention_mask)
        hidden_states = self.dropout(embedded)
        edges = mask
        if self.config.edge_floor:
            # Not at padding, which nothing else keeps words from attending to.
            edges = mask + self.config.edge_floor * attention_mask.unsqueeze(1).to(mask.dtype)
        for layer in self.layers:
            hidden_states = layer(hidden_states, edges)
        return DependencyModelOutput(
            last_hidden_state=self.norm(hidden_states), head_log_probs=head_log_probs, dependency_mask=mask
        )

    def connect(self, head_probs: torch.Tensor) -> torch.Tensor:
        """Probability of an undirected edge, the union of two independent directed ones, eq. 6. Both `(B, L, L)`."""
        reverse = head_probs.transpose(1, 2)  # (B, L, L)
        return head_probs + reverse - head_probs * reverse


class UDGNForMaskedLM(UDGNPreTrainedModel):
    """UDGN with a masked language modelling head, tied to the input embeddings."""

    _tied_weights_keys = {"lm_head.weight": "udgn.embeddings.weight"}

    def __init__(self, config: UDGNConfig):
        super().__init__(config)
        self.udgn = UDGNModel(config)
        self.dropout = Dropout(config.hidden_dropout)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        heads: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        inputs_embeds: torch.Tensor | None = None,
        parser_inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> DependencyMaskedLMOutput:
        """
        Args:
            input_ids, attention_mask, inputs_embeds, parser_inputs_embeds: As in [`UDGNModel`], with some words
                masked.
            heads (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): Target of the head loss: positions
                from 1, 0 for the root, negative for none. Ignored unless `config.head_loss_weight` is positive.
            labels (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*):
                Ids of the masked words, -100 elsewhere.
            num_items_in_batch (`int`, *optional*):
                Divisor of the sum of the losses; the number of masked words in this batch by default.

        The loss is the sum of the masked words' cross-entropies plus `config.head_loss_weight` times the sum of the
        words' head cross-entropies, divided by the number of masked words (without `labels`, by the number
        of words with a head).
        """
        outputs = self.udgn(input_ids, attention_mask, inputs_embeds, parser_inputs_embeds, **kwargs)
        hidden_states = self.dropout(outputs.last_hidden_state)
        total = None
        count = None
        logits = None
        if labels is not None:
            total, count = masked_cross_entropy(self.lm_head, hidden_states, labels)
        if self.config.head_loss_weight > 0 and heads is not None:
            has_head = heads >= 0
            head_log_probs = outputs.head_log_probs.gather(-1, heads.clamp(min=0).unsqueeze(-1)).squeeze(-1)  # (B, L)
            head_loss = -self.config.head_loss_weight * head_log_probs[has_head].sum()
            total = head_loss if total is None else total + head_loss
            count = has_head.sum() if count is None else count
        if labels is None or not self.training:
            logits = self.lm_head(hidden_states)
        if num_items_in_batch is None:
            num_items_in_batch = count
        return DependencyMaskedLMOutput(
            loss=None if total is None else total / torch.as_tensor(num_items_in_batch).clamp(min=1),
            logits=logits,
            head_log_probs=outputs.head_log_probs,
            dependency_mask=outputs.dependency_mask,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )
