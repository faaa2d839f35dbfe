"""
Graph beam search (section 3.5): the probability of given sentences, summed over the likeliest graphs of each.

A hypothesis is the graph of the words so far. The first token of a word opens it: the number of arcs c that come with
the word is then chosen, and the c best arcs are added, so that

    p(x, y) = prod_t p(x_t | x_<t, y) prod_i pi_i(c_i),    p(x) >= sum over the beam of p(x, y)               (7)

A graph tells its numbers of arcs: no two hypotheses have the same graph, and what is not pruned is counted once.

Sentences that begin alike have the same hypotheses until they differ: these are kept once, as those of the first.
"""

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from hf_structure.algorithms.beam import Beam, settle
from hf_structure.algorithms.graph import DependencyGraphs, best_new_arcs
from hf_structure.modeling_outputs import GraphBeamOutput
from hf_structure.models.gilt.dense_gilt import FastLinear
from hf_structure.models.gilt.infusion_gilt import GraphLookup, embed, last_norm, layer_inputs, layers_of
from hf_structure.models.gilt.search_cache_gilt import RowCache, SharedCache
from hf_structure.models.gilt.transformer_xl_gilt import TransformerXLModel, causal_mask

if TYPE_CHECKING:
    from hf_structure.models.gilt.modeling_gilt import GiLTForCausalLM

_LOGIT_ROWS = 256  # hypotheses whose logits are computed at a time


@torch.no_grad()
@torch.compiler.disable
def beam_search(
    model: "GiLTForCausalLM",
    input_ids: torch.LongTensor,
    word_ids: torch.LongTensor,
    attention_mask: torch.Tensor | None = None,
    *,
    beam_size: int = 1,
    k: int = 1,
    max_tokens: int = 16384,
) -> GraphBeamOutput:
    """See [`GiLTForCausalLM.beam_search`]."""
    if not model.config.graph_layers:
        raise ValueError("this model has no graph layers (config.graph_layers): there is no graph to search for")
    for name, value in (("beam_size", beam_size), ("k", k), ("max_tokens", max_tokens)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}")
    batch, length = input_ids.shape
    mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask.long()
    lengths = mask.sum(1)
    if not lengths.all():
        raise ValueError("a sentence without tokens")
    order = mask.argsort(dim=1, descending=True, stable=True)  # padding to the right
    ids, words = (values.gather(1, order) for values in (input_ids, word_ids * mask))
    if words[:, 0].any():
        raise ValueError("graphs are predicted of sentences that begin with a token that belongs to no word")
    size = int(words.max()) + 1
    output = GraphBeamOutput(
        log_prob=torch.zeros(batch, device=ids.device),
        token_log_probs=torch.zeros(batch, length, device=ids.device),
        graphs=torch.zeros(batch, k, size, size, dtype=torch.bool, device=ids.device),
        graph_log_probs=torch.full((batch, k), -torch.inf, device=ids.device),
    )
    for group in _groups(lengths, max_tokens // beam_size):
        longest = int(lengths[group].max())
        _search_group(
            model, ids[group, :longest], words[group, :longest], lengths[group], beam_size, _Part(output, group)
        )
    output.token_log_probs = torch.zeros_like(output.token_log_probs).scatter(1, order, output.token_log_probs)
    return output


def _groups(lengths: torch.LongTensor, max_tokens: int) -> list[torch.LongTensor]:
    """Sentences of similar length, at least one and at most `max_tokens` tokens with padding together."""
    order = lengths.argsort(descending=True, stable=True)
    groups = []
    while len(order):
        count = max(max_tokens // int(lengths[order[0]]), 1)
        groups.append(order[:count])
        order = order[count:]
    return groups


class _Part:
    """The output for the sentences of a group."""

    def __init__(self, output: GraphBeamOutput, group: torch.LongTensor):
        self.output, self.group = output, group

    def end(self, beam: Beam, graphs: torch.BoolTensor, first: torch.LongTensor, ended: torch.BoolTensor) -> None:
        """Keeps the best graphs, `(rows, n + 1, n + 1)`, of sentences that have ended; theirs are those of `first`."""
        output, size = self.output, graphs.shape[-1]
        best = beam.best(output.graph_log_probs.shape[1], len(ended))[first]
        sentence, rank = ((best >= 0) & ended.unsqueeze(1)).nonzero(as_tuple=True)
        rows, place = best[sentence, rank], (self.group[sentence], rank)
        output.graph_log_probs[place] = beam.log_probs[rows]
        output.graphs[(*place, slice(size), slice(size))] = graphs[rows]


def _search_group(model, ids, words, lengths, beam_size: int, part: _Part) -> None:
    """Sentences `(batch_size, seq_len)`, token by token."""
    batch, length = ids.shape
    opened = words.cummax(1).values
    new = opened.masked_fill(opened == torch.nn.functional.pad(opened, (1, 0))[:, :-1], 0)  # words that tokens open
    first = _first_alike(ids, words)
    beam, hypotheses = Beam.start(batch, ids.device), Hypotheses(model, ids, words, batch * beam_size)
    masses = torch.zeros(batch, length, device=ids.device)
    for place in range(length):
        if not place or not torch.equal(first[:, place], first[:, place - 1]):
            rows, sentences = _split(beam.sentences, first, place, lengths)
            beam = replace(beam.select(rows), sentences=sentences)
            hypotheses.select(rows)
        if place:
            beam = beam.add(hypotheses.log_probs(ids[beam.sentences, place]))
            masses[:, place] = beam.masses(batch)[first[:, place]]
        if new[beam.sentences, place].any():
            beam = _branch(beam, hypotheses, new[:, place], ids[:, place], beam_size)
        ended = lengths == place + 1
        if ended.any():
            masses[ended, place] = beam.masses(batch)[first[ended, place]]
            part.end(beam, hypotheses.graphs.arcs, first[:, place], ended)
            if place + 1 == length:
                break
            rows = torch.isin(beam.sentences, first[lengths > place + 1, place]).nonzero().squeeze(1)
            rows = rows[settle(rows)]
            beam = beam.select(rows)
            hypotheses.select(rows)
        hypotheses.read(place, beam.sentences)
    padding = torch.arange(length, device=ids.device) >= lengths.unsqueeze(1)
    log_probs = masses.diff(dim=1, prepend=masses[:, :1]).masked_fill(padding, 0.0)
    part.output.token_log_probs[part.group, :length] = log_probs
    part.output.log_prob[part.group] = masses.gather(1, lengths.unsqueeze(1) - 1).squeeze(1)


def _first_alike(ids: torch.LongTensor, words: torch.LongTensor) -> torch.LongTensor:
    """`(batch_size, seq_len)`: for each place, the first sentence that is the same up to there."""
    alike = (ids[:, None] == ids) & (words[:, None] == words)
    return alike.cummin(2).values.byte().argmax(1)


def _split(
    sentences: torch.LongTensor, first: torch.LongTensor, place: int, lengths: torch.LongTensor
) -> tuple[torch.LongTensor, torch.LongTensor]:
    """
    The hypotheses of `sentences`, `(rows,)`, before a place where some that they stand for may begin to differ:
    rows, some of them several times, and the sentences that those are about from then on.
    """
    going = first[lengths > place, place].unique()
    which, rows = (first[going, max(place - 1, 0), None] == sentences).nonzero(as_tuple=True)
    order = settle(rows)
    return rows[order], going[which[order]]


def _branch(beam: Beam, hypotheses: "Hypotheses", new, tokens, beam_size: int) -> Beam:
    """Words `new` of the sentences, 0 where there is none, come with `tokens`; both `(batch_size,)`."""
    rows = new[beam.sentences].nonzero().squeeze(1)
    arcs, counts = hypotheses.score_words(rows, new[beam.sentences[rows]], tokens[beam.sentences[rows]])
    log_probs = counts.new_full((len(beam), counts.shape[1]), -torch.inf)
    log_probs[:, 0] = 0.0  # nothing to choose in the other sentences
    log_probs[rows] = counts.log_softmax(-1)
    candidates = arcs.new_full((len(beam), *arcs.shape[1:]), -torch.inf)
    candidates[rows] = arcs
    beam, (origins, choices) = beam.branch(log_probs, beam_size)
    hypotheses.select(origins)
    hypotheses.add_words(new[beam.sentences], best_new_arcs(candidates[origins], choices))
    return beam


class Hypotheses:
    """
    What the model keeps of the hypotheses of some sentences, a row for each.

    Args:
        model ([`GiLTForCausalLM`]): The model.
        ids, words (`torch.LongTensor` of shape `(batch_size, seq_len)`): The sentences, padded on the right.
        most (`int`): Most hypotheses at a time.

    Attributes:
        graphs ([`DependencyGraphs`]): Their graphs.
        places (`torch.LongTensor` of shape `(rows, words + 1)`):
            Where the first vectors of their words are; hypotheses that have a word from the same origin share them.
        older (pair of `torch.FloatTensor` of shape `(places, 2 * scorer_hidden_size)`):
            First vectors, as parents and as children; the root's at 0.
        states (`torch.FloatTensor` of shape `(rows, 2 * hidden_size)`): What the scorer reads of the last token.
        last (`torch.FloatTensor` of shape `(rows, hidden_size)`): What the head reads of it.
    """

    def __init__(self, model: "GiLTForCausalLM", ids: torch.LongTensor, words: torch.LongTensor, most: int):
        self.model, self.ids, self.words = model, ids, words
        batch, number = len(ids), int(words.max())
        shares = isinstance(model.model.backbone, TransformerXLModel)
        tokens = ids.shape[1]
        self.fast = FastLinear()
        if shares:
            self.keys_values = SharedCache(batch, tokens, most, ids.device, self.fast.apply)
        else:
            self.keys_values = RowCache(tokens, most)
        self.graphs = DependencyGraphs.empty(batch, model.config.tape_features, device=ids.device)
        self.tape = self.graphs.tape(words[:, 0])
        self.places = torch.zeros(batch, number + 1, dtype=torch.long, device=ids.device)
        self.older = list(model.scorer.root_vectors())
        self.used = 1
        self.terms = model.scorer.terms(number + 1, ids.device)
        self.tables: dict[int, torch.Tensor] = {}
        self.embeddings = model.model.feature_embeddings(ids.device)
        self.positions = torch.arange(ids.shape[1], device=ids.device).unsqueeze(0)
        self.layers = layers_of(model.model.backbone)
        self.first = len(self.layers) - model.config.graph_layers
        self.lower = self._lower_layers()
        self.states = self.last = ids.new_empty(batch, 0)  # nothing is read yet

    def _lower_layers(self) -> list[torch.Tensor]:
        """What layers up to the first infused one read: the same in all hypotheses of a sentence."""
        backbone = self.model.model.backbone
        states = [embed(backbone, self.ids, self.positions)]
        inputs = layer_inputs(backbone, states[0], self.positions)
        inputs["attention_mask"] = causal_mask(None, states[0], 0)
        for layer in self.layers[: self.first]:
            states.append(layer(states[-1], **inputs))
        return states

    def read(self, place: int, sentences: torch.LongTensor) -> None:
        """Processes the tokens at a place of the hypotheses' sentences, `(rows,)`."""
        known = self.words[sentences, None, : place + 1]  # (rows, 1, keys)
        index = self.tape.long().gather(2, known.expand(-1, self.tape.shape[1], -1))
        index = index * ((known > 0) & (known[..., -1:] > 0))
        lookup = GraphLookup.of_some(index.unsqueeze(2), self.embeddings, self.tables)
        states = [layer[sentences, place].unsqueeze(1) for layer in self.lower]
        inputs = layer_inputs(self.model.model.backbone, states[-1], self.positions[:, place : place + 1])
        inputs["attention_mask"] = None  # the newest token sees all
        self.keys_values.begin(len(sentences))
        with nullcontext() if isinstance(self.keys_values, SharedCache) else self.fast:
            for layer in self.layers[self.first :]:
                states.append(layer(states[-1], past_key_values=self.keys_values, graph_lookup=lookup, **inputs))
        self.states = torch.cat([states[layer] for layer in self.model.config.scorer_layers], dim=-1).squeeze(1)
        self.last = last_norm(self.model.model.backbone, states[-1].squeeze(1))

    def log_probs(self, tokens: torch.LongTensor) -> torch.FloatTensor:
        """`(rows,)`: log-probabilities of tokens `(rows,)` that come next."""
        parts = []
        for states, some in zip(self.last.split(_LOGIT_ROWS), tokens.split(_LOGIT_ROWS), strict=True):
            logits = self.fast.apply(self.model.lm_head, states).float()
            parts.append(-torch.nn.functional.cross_entropy(logits, some, reduction="none"))
        return torch.cat(parts)

    def score_words(
        self, rows: torch.LongTensor, numbers: torch.LongTensor, tokens: torch.LongTensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits of arcs and counts for the words that come next in some rows, as [`DependencyScorer.step`] gives."""
        scorer, known = self.model.scorer, int(numbers.max())
        with self.fast:
            terms = scorer.represent(self.model._words(self.states[rows], tokens))
            self._make_room(len(rows))
            tape = torch.nn.functional.pad(self.tape[rows], (0, max(known - self.tape.shape[-1], 0)))[..., :known]
            scores = scorer.step(terms, numbers, self.older, self.places[rows, :known], tape, self.terms)
        new = slice(self.used, self.used + len(rows))
        for kept, vectors in zip(self.older, terms, strict=True):
            kept[new] = vectors
        self.places[rows, numbers] = torch.arange(new.start, new.stop, device=rows.device)
        self.used = new.stop
        return scores

    def _make_room(self, count: int) -> None:
        """Room for the first vectors of more words, made by leaving out those that no hypothesis has any more."""
        if self.used + count <= len(self.older[0]):
            return
        kept, self.places = self.places.unique(return_inverse=True)
        self.used = len(kept)
        room = self.used + 2 * count
        self.older = [torch.nn.functional.pad(terms[kept], (0, 0, 0, room)) for terms in self.older]

    def select(self, rows: torch.LongTensor) -> None:
        """Goes on with some rows, which may come more than once, in this order."""
        self.keys_values.select(rows)
        self.graphs = self.graphs.select(rows)
        self.tape, self.places, self.states = self.tape[rows], self.places[rows], self.states[rows]
        self.last = self.last[rows]

    def add_words(self, words: torch.LongTensor, arcs: torch.BoolTensor) -> None:
        """New words `(rows,)`, 0 for none, with their heads and dependents `(rows, 2, n + 1)` among the others."""
        self.graphs = self.graphs.with_room(int(words.max()))
        missing = self.graphs.arcs.shape[-1] - arcs.shape[-1]
        heads, dependents = torch.nn.functional.pad(arcs, (0, missing)).unbind(1)
        self.graphs = self.graphs.insert(words, heads, dependents)
        tape = self.graphs.tape(words)
        old = torch.nn.functional.pad(self.tape, (0, tape.shape[-1] - self.tape.shape[-1]))
        self.tape = torch.where((words > 0).view(-1, 1, 1), tape, old)


__all__ = ["beam_search"]
