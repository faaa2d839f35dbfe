"""
Graph beam search (section 3.5): the probability of given sentences, summed over the likeliest graphs of each.

A hypothesis is the graph of the words so far. The first token of a word opens it: the number of arcs c that come with
the word is then chosen, and the c best arcs are added, so that

    p(x, y) = prod_t p(x_t | x_<t, y) prod_i pi_i(c_i),    p(x) >= sum over the beam of p(x, y)               (7)

A graph tells its numbers of arcs: no two hypotheses have the same graph, and what is not pruned is counted once.
"""

from typing import TYPE_CHECKING

import torch

from hf_structure.algorithms.beam import Beam
from hf_structure.algorithms.graph import DependencyGraphs, best_new_arcs
from hf_structure.modeling_outputs import GraphBeamOutput
from hf_structure.modules.structured_lm.hypotheses import Hypotheses
from hf_structure.modules.structured_lm.tape_attention import TapeLookup

if TYPE_CHECKING:
    from hf_structure.models.gilt.modeling_gilt import GiLTForCausalLM


class GraphHypotheses(Hypotheses):
    """
    Hypotheses with their graphs; sentences begin with a token of no word.

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
    """

    output_class = GraphBeamOutput
    reads_words = True

    def __init__(self, model: "GiLTForCausalLM", ids: torch.Tensor, words: torch.Tensor, most: int):
        super().__init__(model, ids, most)
        self.words = words
        opened = words.cummax(1).values
        before = torch.nn.functional.pad(opened, (1, 0))[:, :-1]
        self.new = opened.masked_fill(opened == before, 0)  # words that tokens open
        self.graphs = DependencyGraphs.empty(len(ids), model.config.tape_features, device=ids.device)
        self.tape = self.graphs.tape(words[:, 0])
        number = int(words.max()) + 1
        self.places = torch.zeros(len(ids), number, dtype=torch.long, device=ids.device)
        self.older = list(model.scorer.root_vectors())
        self.used = 1
        self.terms = model.scorer.terms(number, ids.device)
        self.embeddings = model.model.feature_embeddings(ids.device)
        self.states = ids.new_empty(len(ids), 0)  # nothing is read yet

    @classmethod
    def room_for(cls, k: int, ids: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        if words[:, 0].any():
            raise ValueError("graphs are predicted of sentences that begin with a token that belongs to no word")
        size = int(words.max()) + 1
        return torch.zeros(len(ids), k, size, size, dtype=torch.bool, device=ids.device)

    def structures(self) -> torch.Tensor:
        return self.graphs.arcs

    def branch(self, beam: Beam, place: int, beam_size: int) -> Beam:
        """Words that tokens open come with their arcs."""
        new = self.new[beam.sentences, place]
        rows = new.nonzero().squeeze(1)
        if not len(rows):
            return beam
        arcs, counts = self.score_words(rows, new[rows], self.ids[beam.sentences[rows], place])
        log_probs = counts.new_full((len(beam), counts.shape[1]), -torch.inf)
        log_probs[:, 0] = 0.0  # nothing to choose in the other sentences
        log_probs[rows] = counts.log_softmax(-1)
        candidates = arcs.new_full((len(beam), *arcs.shape[1:]), -torch.inf)
        candidates[rows] = arcs
        beam, (origins, choices) = beam.branch(log_probs, beam_size)
        self.select(origins)
        self.add_words(self.new[beam.sentences, place], best_new_arcs(candidates[origins], choices))
        return beam

    def lookup(self, place: int, sentences: torch.Tensor) -> TapeLookup:
        known = self.words[:, None, : place + 1].index_select(0, sentences)  # (rows, 1, keys)
        index = self.tape.long().gather(2, known.expand(-1, self.tape.shape[1], -1))
        index = index * ((known > 0) & (known[..., -1:] > 0))
        return TapeLookup.of_some(index.unsqueeze(2), self.embeddings.shape[1], self.tables, self.embeddings)

    def read(self, place: int, sentences: torch.Tensor) -> list[torch.Tensor]:
        states = super().read(place, sentences)
        self.states = torch.cat([states[layer] for layer in self.model.config.scorer_layers], dim=-1).squeeze(1)
        return states

    def score_words(
        self, rows: torch.Tensor, numbers: torch.Tensor, tokens: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits of arcs and counts for the words that come next in some rows, as [`DependencyScorer.step`] gives."""
        scorer, known = self.model.scorer, int(numbers.max())
        with self.fast:
            terms = scorer.represent(self.model._words(self.states.index_select(0, rows), tokens))
            self._make_room(len(rows))
            tape = self.tape.index_select(0, rows)
            tape = torch.nn.functional.pad(tape, (0, max(known - tape.shape[-1], 0)))[..., :known]
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
        self.older = [torch.nn.functional.pad(terms.index_select(0, kept), (0, 0, 0, room)) for terms in self.older]

    def select(self, rows: torch.Tensor) -> None:
        super().select(rows)
        self.graphs = self.graphs.select(rows)
        self.tape, self.places, self.states = (
            kept.index_select(0, rows) for kept in (self.tape, self.places, self.states)
        )

    def add_words(self, words: torch.Tensor, arcs: torch.Tensor) -> None:
        """New words `(rows,)`, 0 for none, with their heads and dependents `(rows, 2, n + 1)` among the others."""
        self.graphs = self.graphs.with_room(int(words.max()))
        missing = self.graphs.arcs.shape[-1] - arcs.shape[-1]
        heads, dependents = torch.nn.functional.pad(arcs, (0, missing)).unbind(1)
        self.graphs = self.graphs.insert(words, heads, dependents)
        tape = self.graphs.tape(words)
        old = torch.nn.functional.pad(self.tape, (0, tape.shape[-1] - self.tape.shape[-1]))
        self.tape = torch.where((words > 0).view(-1, 1, 1), tape, old)


__all__ = ["GraphHypotheses"]
