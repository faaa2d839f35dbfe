"""
Graph-Infused Layers Transformer (Huang et al., "GiLT: Augmenting Transformer Language Models with Dependency Graphs").

A causal language model that builds a dependency graph over its words, and lets the graph bias its attention. The
backbone is a Transformer-XL of its own or a pretrained model of transformers on which the graphs are grafted. Equation
numbers are the paper's.

Dimensions: B texts, n words (n + 1 with the root), Q new tokens, keys all tokens, F features of graphs, k graphs.
"""

import math

import torch
from torch import nn
from transformers import initialization as init
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.utils import can_return_tuple
from transformers.utils.deprecation import deprecate_kwarg
from transformers.utils.output_capturing import selected_hidden_states

from hf_structure.algorithms.float64 import double, move
from hf_structure.algorithms.graph import expand_tapes, new_arcs, prefix_tapes
from hf_structure.models.gilt.beam_search_gilt import GraphHypotheses
from hf_structure.models.gilt.cache_gilt import GraphCache
from hf_structure.models.gilt.configuration_gilt import GiLTConfig
from hf_structure.models.gilt.generation_gilt import GraphWriter
from hf_structure.models.gilt.outputs_gilt import GiLTCausalLMOutput
from hf_structure.models.gilt.scorer_gilt import DependencyScorer
from hf_structure.models.modeling_outputs import DecoderOutput
from hf_structure.modules.affine import all_rows
from hf_structure.modules.calls import no_compile
from hf_structure.modules.padding import check_one_input, mask_padding
from hf_structure.modules.structured_lm.generation import StructureGenerationMixin
from hf_structure.modules.structured_lm.modeling import (
    StructuredLMMixin,
    StructuredModelMixin,
    StructuredPreTrainedModel,
    next_tokens,
)
from hf_structure.modules.structured_lm.tape_attention import TapeKeys, TapeLookup, read_tapes


class GraphKeys(TapeKeys):
    """
    The graph keys of one layer (sections 3.3 and 3.4): the key of token `j` seen from token `k` gets

        e_kj = sum_f f_l(Emb_f[G_f(k, j)])

    where G are the features of the graph, a tape.
    """

    def __init__(self, config: GiLTConfig, layer_idx: int):
        super().__init__(layer_idx, relative=config.graph_key == "relative")
        # f_l, one map from all features together: its part for each. A bias would be the same for all tokens.
        self.fusion = nn.Parameter(
            torch.empty(len(config.graph_features), config.graph_embedding_size, config.hidden_size)
        )

    def forward(self, lookup: TapeLookup) -> torch.Tensor:
        """f_l of the embeddings of all values, `(features, values, hidden_size)`."""
        assert lookup.embeddings is not None
        return lookup.embeddings.to(self.fusion.device) @ self.fusion  # (F, values, hidden_size)


class GiLTPreTrainedModel(StructuredPreTrainedModel):
    """Base of the GiLT models."""

    config: GiLTConfig
    config_class = GiLTConfig

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        super()._init_weights(module)
        if isinstance(module, GraphKeys):
            # When grafted, zero the fusion but not the embeddings, so that gradients flow.
            fan = self.config.num_hidden_layers * module.fusion.shape[:2].numel()
            std = math.sqrt(2 / fan) if self.config.base_config is None else 0.0
            init.normal_(module.fusion, std=std)
        elif isinstance(module, DependencyScorer):
            module.init_weights()


class GiLTModel(StructuredModelMixin, GiLTPreTrainedModel):
    """The backbone with graph-infused layers, without a head on top."""

    def __init__(self, config: GiLTConfig):
        super().__init__(config)
        if config.graph_layers:
            values = len(config.graph_features) * (config.max_feature_value + 1)
            self.graph_embeddings = nn.Embedding(values, config.graph_embedding_size)  # Emb_f, shared by all layers
        self.graph_keys = read_tapes(self.backbone, [GraphKeys(config, layer) for layer in config.structure_layers])
        self.post_init()

    def feature_embeddings(self, device: torch.device) -> torch.Tensor:
        """`(features, values, graph_embedding_size)`: Emb_f."""
        rows = all_rows(self.graph_embeddings, device)
        return rows.unflatten(0, (len(self.config.graph_features), -1))  # (F, values, graph_embedding_size)

    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        word_ids: torch.Tensor | None = None,
        graph: torch.Tensor | None = None,
        tapes: torch.Tensor | None = None,
        cache: Cache | None = None,
        use_cache: bool | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> BaseModelOutputWithPast:
        """
        Beside the arguments of [`StructuredModelMixin`]; with a graph, a cache is a [`GraphCache`] or empty.

        Args:
            word_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*):
                Word of each token, from 1; 0 for tokens of no word. Needed with a graph.
            graph (`torch.BoolTensor` of shape `(batch_size, words + 1, words + 1)`, *optional*):
                `graph[b, h, d]` says that word `h` (0 is the root) is a head of word `d`. A token knows the arcs among
                the words up to its own. Without a graph, the model is the backbone.
            tapes (`torch.ByteTensor` of shape `(batch_size, features, words + 1, words + 1)`, *optional*):
                The result of [`prefix_tapes`] for the graph, if it has been computed already.

        Raises:
            ValueError: not one of `input_ids` and `inputs_embeds`; a graph without a word for each token, in a model
                without graph layers, or after tokens without one; tapes of other features or another size; positions
                with gaps for a backbone that knows distances only.
        """
        length = check_one_input(input_ids, inputs_embeds).shape[1]
        if graph is not None and word_ids is not None and word_ids.shape[1] != length:
            raise ValueError(f"word_ids of shape {tuple(word_ids.shape)} do not fit texts of {length} tokens")
        use_cache = self.wants_cache(use_cache, cache)
        if graph is not None:
            kwargs["tape_lookup"], cache = self._lookup(word_ids, graph, tapes, attention_mask, cache, use_cache)
        return self.run_backbone(
            input_ids, inputs_embeds, attention_mask, position_ids, cache=cache, use_cache=use_cache, **kwargs
        )

    def _lookup(self, word_ids, graph, tapes, attention_mask, cache, use_cache) -> tuple[TapeLookup, Cache | None]:
        self.config.require_structure_layers("do not give it a graph")
        if word_ids is None:
            raise ValueError("a graph needs the word of each token: pass `word_ids` of shape (batch_size, seq_len)")
        features = self.config.tape_features
        if tapes is not None and tapes.shape[1:] != (len(features.names), *graph.shape[1:]):
            raise ValueError(
                f"tapes of shape {tuple(tapes.shape)} do not fit a graph of shape {tuple(graph.shape)} "
                f"and the features {', '.join(features.names)}"
            )
        word_ids = mask_padding(word_ids, attention_mask)
        embeddings = self.feature_embeddings(word_ids.device)
        if not use_cache:
            tapes = prefix_tapes(graph.bool(), features) if tapes is None else tapes
            return TapeLookup(expand_tapes(tapes, word_ids, word_ids).long(), embeddings), cache
        cache = GraphCache.of(cache, features)
        return TapeLookup(cache.update_graphs(word_ids, graph), embeddings, cache.kept_tables), cache


class GiLTForCausalLM(StructuredLMMixin, GiLTPreTrainedModel, StructureGenerationMixin):
    """
    GiLT with a language modelling head and a dependency scorer.

    `generate` with `use_structure=True`, or given the `graph` and `word_ids` of the prompts, writes text and graph
    together; what is not given is found from the tokens, and built word by word. It then gives a
    [`GraphGenerateOutput`], or with `num_beams` a [`GraphGenerateBeamOutput`]. Further options:

    - `word_starts` (`torch.BoolTensor` of shape `(vocab_size,)`): mask of tokens that begin a word, see
      [`word_start_mask`]; needed without a `tokenizer`. Tokens that belong to no word are the tokenizer's (or else the
      model's) beginning, end and padding.
    - `num_graph_beams` (`int`, 1 by default): number of graphs kept for each text; a token is then predicted by the
      mean over them, weighted by their probabilities.
    """

    hypotheses_class = GraphHypotheses
    writer_class = GraphWriter
    structure_input = "graph"

    def __init__(self, config: GiLTConfig):
        super().__init__(config)
        self.model = GiLTModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=config.lm_head_bias)
        if config.graph_layers:
            self.scorer = DependencyScorer(config)
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
        cache: Cache | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        position_ids: torch.Tensor | None = None,  # by name: `generate` looks for it
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> GiLTCausalLMOutput:
        """
        Takes the arguments of [`GiLTModel.forward`] and [`StructuredLMMixin`].

        The loss is eq. 6 for every sentence, weighted by its number of tokens: the sum of the tokens' cross-entropies,
        plus for each sentence that number times the weighted means of the arcs' and the counts' losses (arcs: those
        that can come with a word, the root's included; counts above `config.max_new_arcs` count as that many). Without
        a graph it is the language model's alone.
        """
        targets = next_tokens(labels, kwargs.pop("shift_labels", None), attention_mask)
        if graph is not None and tapes is None and targets is not None:
            tapes = prefix_tapes(graph.bool(), self.config.tape_features)
        wanted_states = kwargs.pop("output_hidden_states", self.config.output_hidden_states)
        kept_states = self._kept_states(wanted_states, reads_graph=graph is not None)
        use_cache = self.model.wants_cache(use_cache, cache, targets is not None)
        tokens = {"input_ids": input_ids, "inputs_embeds": inputs_embeds, "position_ids": position_ids}
        reading = {"word_ids": word_ids, "graph": graph, "tapes": tapes, "output_hidden_states": kept_states}
        outputs = self.model(
            **tokens, **reading, attention_mask=attention_mask, cache=cache, use_cache=use_cache, **kwargs
        )
        states = _selected(outputs.hidden_states, wanted_states)
        result = self.predict_tokens(GiLTCausalLMOutput, outputs, logits_to_keep, hidden_states=states)
        graph_sum = None
        if graph is not None and (targets is not None or isinstance(outputs.cache, GraphCache)):
            tokens = check_one_input(input_ids, inputs_embeds)
            scores = self._read_words(outputs, tokens, attention_mask, word_ids, tapes)
            if scores is not None:
                result.arc_logits, result.count_logits = scores
                graph_sum = None if targets is None else self._graph_loss(*scores, targets, graph)
        if targets is not None:
            self.add_losses(result, targets, num_items_in_batch, graph_loss=graph_sum)
        return result

    def _kept_states(self, wanted: bool | int | list[int], reads_graph: bool) -> bool | int | list[int]:
        """The hidden states to keep: the wanted ones and, with a graph, the two that the scorer reads."""
        if wanted is True or not reads_graph:
            return wanted
        return [*(selected_hidden_states(wanted) or ()), *self.config.scorer_layers]

    def score_word(
        self, input_ids: torch.Tensor, cache: GraphCache
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor, torch.Tensor]:
        """
        The dependencies of words that come next, whose first tokens `(batch_size,)` have not been processed yet
        (section 3.1): the words' first vectors, as parents and children, and what [`DependencyScorer.step`] gives.
        """
        first_vectors = self.scorer.represent(self.represent_words(cache.states[:, -1], input_ids))
        batch, size = cache.parents.shape[:2]
        older = (cache.parents.flatten(0, 1), cache.children.flatten(0, 1))  # (B * (n + 1), 2 * scorer_hidden_size)
        indices = torch.arange(batch * size, device=cache.words.device).view(batch, size)  # (B, n + 1)
        tape = cache.graphs.tape(cache.words)[..., :size]
        distances = size + 1
        if torch.is_grad_enabled():  # the cached terms would cut the gradient
            terms = self.scorer.terms(distances, cache.words.device)
        else:
            if cache.terms is None or cache.terms.distances < distances:
                cache.terms = self.scorer.terms(max(2 * distances, 128), cache.words.device)
            terms = cache.terms
        return first_vectors, *self.scorer.step(first_vectors, cache.words + 1, older, indices, tape, terms)

    def decode(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        *,
        word_ids: torch.Tensor,
        decoder: str = "tree",
        k: int = 1,
        beam_size: int | None = None,
        marginals: bool = False,
    ) -> DecoderOutput:
        """
        The likeliest graphs of sentences that a beam finds. The probability of a graph is its share of the beam,
        p(x, y) / sum over y' of p(x, y'); the probability of an arc is summed over the graphs that have it.

        Args:
            input_ids, attention_mask, word_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`):
                As in [`beam_search`].
            decoder (`str`): `"tree"`, what every model understands; graphs have no other.
            k (`int`): Number of graphs.
            beam_size (`int`, *optional*): Graphs followed; by default 16, or `4 * k` if that is more.
            marginals (`bool`): Add the probabilities of all arcs.

        Returns:
            [`DecoderOutput`] with `graphs`, `structures` (the same), `log_probs` and, if more than one graph is
            followed, `arc_probs`.

        Raises:
            ValueError: another decoder, `k` that is not between 1 and `beam_size`, marginals of one graph; as in
                [`beam_search`].
        """
        beam_size = self.decoding_beam_size(decoder, k, beam_size)
        if marginals and beam_size == 1:
            raise ValueError("marginals are over the graphs of a beam: they need a beam_size above 1")
        found = self.beam_search(input_ids, word_ids, attention_mask, beam_size=beam_size, k=beam_size)
        _, _, graphs, log_probs = found.to_tuple()
        log_probs = double(log_probs).log_softmax(1)
        output = DecoderOutput(graphs=graphs[:, :k], structures=graphs[:, :k])
        output.log_probs = move(log_probs[:, :k], graphs.device)
        if beam_size > 1:
            shares = torch.einsum("bk,bkhd->bhd", log_probs.exp(), double(graphs))  # (B, n + 1, n + 1)
            output.arc_probs = move(shares.clamp(max=1.0), graphs.device)
            if marginals:
                output.marginals = output.arc_probs.transpose(1, 2)[:, 1:]  # (B, n, n + 1)
        return output

    @no_compile  # which tokens begin words, and which pairs there are, is found in the data
    def _read_words(self, outputs, tokens, mask, word_ids, tapes) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Keeps the words in a cache of graphs; scores of the arcs of whole sentences whose tapes are given."""
        cache = outputs.cache if isinstance(outputs.cache, GraphCache) else None
        past = None if cache is None or cache.states is None else cache
        words = self._first_vectors(outputs.hidden_states, tokens, word_ids, mask, past)
        if cache is not None:
            cache.update_words(**words)
        if tapes is None or past is not None:
            return None
        indices = (words["rows"], words["words"])
        nothing = words["parents"].new_zeros(len(tapes), tapes.shape[-1], words["parents"].shape[-1])
        parents = torch.index_put(nothing, indices, words["parents"])  # (B, n + 1, 2 * scorer_hidden_size)
        children = torch.index_put(nothing, indices, words["children"])  # the same
        return self.scorer(parents, children, tapes, mask_padding(word_ids, mask).amax(1))

    def represent_words(self, states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """
        Words `(..., 3 * hidden_size)`: states of the token before, embedding of the first token (section 3.1), which
        is given or looked up.
        """
        if not tokens.is_floating_point():  # in one sequence: hooks of embeddings, such as NEFTune's, expect sequences
            tokens = self.get_input_embeddings()(tokens.unsqueeze(0)).squeeze(0)
        return torch.cat([states, tokens.to(states.dtype)], dim=-1)

    def _first_vectors(self, hidden_states, tokens, word_ids, attention_mask, cache) -> dict[str, torch.Tensor]:
        """The states that the scorer reads, and the first vectors of the words that begin here; see `update_words`."""
        states = [hidden_states[layer].to(tokens.device) for layer in self.config.scorer_layers]
        states = torch.cat(states, dim=-1)  # (B, Q, 2 * hidden_size)
        states = mask_padding(states, attention_mask)
        # In generation, words are represented before their first tokens are read: there is nothing to do.
        if cache is not None and torch.equal(cache.represented, cache.words):
            none = cache.words[:0]
            nothing = cache.parents[:0, 0]  # (0, 2 * scorer_hidden_size)
            return {"states": states, "rows": none, "words": none, "parents": nothing, "children": nothing}
        word_ids = mask_padding(word_ids, attention_mask)
        before = torch.zeros_like(states[:, :1]) if cache is None else cache.states[:, -1:]
        starts = (word_ids > 0) & (word_ids != nn.functional.pad(word_ids, (1, 0))[:, :-1])
        if cache is not None:
            starts &= word_ids > cache.represented.unsqueeze(1)
        rows, indices = starts.nonzero(as_tuple=True)
        words = word_ids[starts]
        before = torch.cat([before, states], dim=1)[rows, indices]  # (words, 2 * hidden_size)
        parents, children = self.scorer.represent(self.represent_words(before, tokens[starts]))
        if cache is None:  # the roots, too, in front
            root_parent, root_child = (vector.expand(len(states), -1) for vector in self.scorer.root_vectors())
            parents = torch.cat([root_parent.to(parents.dtype), parents])  # (B + words, 2 * scorer_hidden_size)
            children = torch.cat([root_child.to(children.dtype), children])
            rows = torch.cat([torch.arange(len(states), device=rows.device), rows])
            words = nn.functional.pad(words, (len(states), 0))
        return {"states": states, "rows": rows, "words": words, "parents": parents, "children": children}

    def _graph_loss(
        self, arc_logits: torch.Tensor, count_logits: torch.Tensor, targets: torch.Tensor, graph: torch.Tensor
    ) -> torch.Tensor:
        """
        The graphs' part of eq. 6, summed over the batch: means over a sentence's candidate arcs, 2i - 1 of word i, and
        over its words, weighted, times its number of tokens.
        """
        possible = arc_logits > -torch.inf
        scores = arc_logits.masked_fill(~possible, 0.0)
        arcs = nn.functional.binary_cross_entropy_with_logits(scores, graph.to(scores.dtype), reduction="none")
        arcs = arcs.masked_fill(~possible, 0.0)
        gold = new_arcs(graph.bool()).flatten(2).sum(2)[:, 1:].clamp(max=self.config.max_new_arcs)  # (B, n)
        # Any word can be attached to the root, so that the root's row tells words from padding.
        is_word = possible[:, 0, 1:]  # (B, n)
        counts = nn.functional.cross_entropy(count_logits.transpose(1, 2), gold, reduction="none")  # (B, n)
        arc_means = arcs.sum((1, 2)) / possible.sum((1, 2)).clamp(min=1)
        count_means = counts.masked_fill(~is_word, 0.0).sum(1) / is_word.sum(1).clamp(min=1)
        losses = self.config.arc_loss_weight * arc_means + self.config.count_loss_weight * count_means  # (B,)
        return ((targets != -100).sum(1) * losses).sum()


def _selected(
    states: tuple[torch.Tensor | None, ...] | None, wanted: bool | int | list[int]
) -> tuple[torch.Tensor | None, ...] | None:
    """Hidden states as transformers gives them: all, or some layers' and None for the others."""
    if states is None or wanted is True:
        return states
    chosen = selected_hidden_states(wanted)
    if not chosen:
        return None
    layers = {layer % len(states) for layer in chosen if -len(states) <= layer < len(states)}
    return tuple(state if layer in layers else None for layer, state in enumerate(states))
