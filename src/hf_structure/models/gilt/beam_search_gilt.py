"""
Graph beam search (section 3.5): the probability of given sentences, summed over the likeliest graphs of each.

A hypothesis is the graph of the words so far. The first token of a word opens it: the number of arcs c that come with
the word is then chosen, and the c best arcs are added, so that

    p(x, y) = prod_t p(x_t | x_<t, y) prod_i pi_i(c_i),    p(x) >= sum over the beam of p(x, y)               (7)

A graph tells its numbers of arcs: no two hypotheses have the same graph, and what is not pruned is counted once.
"""

import torch

from hf_structure.algorithms.beam import Beam
from hf_structure.algorithms.graph import DependencyGraphs, best_new_arcs
from hf_structure.models.gilt.cache_gilt import GraphLM, insert_words
from hf_structure.models.gilt.outputs_gilt import GraphBeamOutput
from hf_structure.modules.structured_lm.hypotheses import Hypotheses
from hf_structure.modules.structured_lm.search_cache import SharedRows
from hf_structure.modules.structured_lm.tape_attention import TapeLookup


class GraphHypotheses(Hypotheses):
    """Hypotheses with their graphs; sentences begin with a token of no word."""

    model: GraphLM
    output_class = GraphBeamOutput
    reads_words = True

    def __init__(self, model: GraphLM, ids: torch.Tensor, words: torch.Tensor, most: int):
        super().__init__(model, ids, most)
        self.words = words
        opened = words.cummax(1).values
        before = torch.nn.functional.pad(opened, (1, 0))[:, :-1]
        self.new = opened.masked_fill(opened == before, 0)  # words that tokens open
        self.graphs = DependencyGraphs.empty(len(ids), model.config.tape_features, ids.device)
        self.tape = self.graphs.tape(words[:, 0])  # (rows, features, words + 1): as seen from the newest words
        number = int(words.max()) + 1
        indices = torch.zeros(len(ids), number, dtype=torch.long, device=ids.device)
        self.first_vectors = SharedRows(indices, number * most)  # of root and words, as "parents" and "children"
        self._keep_first_vectors(model.scorer.root_vectors())  # at index 0
        self.terms = model.scorer.terms(number, ids.device)
        self.embeddings = model.model.feature_embeddings(ids.device)
        self.states = ids.new_empty(len(ids), 0)  # (rows, 2 * hidden_size): of the last token, for the scorer

    @classmethod
    def empty_structures(cls, k: int, ids: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        if words[:, 0].any():
            raise ValueError("graphs are predicted of sentences that begin with a token that belongs to no word")
        size = int(words.max()) + 1
        return torch.zeros(len(ids), k, size, size, dtype=torch.bool, device=ids.device)

    def structures(self) -> torch.Tensor:
        return self.graphs.arcs

    def branch(self, beam: Beam, position: int, beam_size: int) -> Beam:
        """Chooses the arcs of the words that tokens open."""
        new = self.new[beam.sentences, position]  # (rows,)
        rows = new.nonzero().squeeze(1)
        if not len(rows):
            return beam
        arcs, counts = self.score_words(rows, new[rows], self.ids[beam.sentences[rows], position])
        log_probs = counts.new_full((len(beam), counts.shape[1]), -torch.inf)
        log_probs[:, 0] = 0.0  # nothing to choose in the other sentences
        log_probs[rows] = counts.log_softmax(-1)
        candidates = arcs.new_full((len(beam), *arcs.shape[1:]), -torch.inf)
        candidates[rows] = arcs
        beam, origins, choices = beam.branch(log_probs, beam_size)
        self.select(origins)
        self.add_words(self.new[beam.sentences, position], best_new_arcs(candidates[origins], choices))
        return beam

    def lookup(self, position: int, sentences: torch.Tensor) -> TapeLookup:
        words = self.words[:, None, : position + 1].index_select(0, sentences)  # (rows, 1, keys)
        index = self.tape.long().gather(2, words.expand(-1, self.tape.shape[1], -1))  # (rows, features, keys)
        index = index * ((words > 0) & (words[..., -1:] > 0))
        return TapeLookup.of_some(index.unsqueeze(2), self.embeddings.shape[1], self.tables, self.embeddings)

    def read(self, position: int, sentences: torch.Tensor) -> list[torch.Tensor]:
        states = super().read(position, sentences)
        read = [states[layer] for layer in self.model.config.scorer_layers]
        self.states = torch.cat(read, dim=-1).squeeze(1)  # (rows, 2 * hidden_size)
        return states

    def score_words(
        self, rows: torch.Tensor, numbers: torch.Tensor, tokens: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits of arcs and counts for the words that come next in some rows, as [`DependencyScorer.step`] gives."""
        scorer = self.model.scorer
        first = self.first_vectors
        count = int(numbers.max())
        states = self.states.index_select(0, rows)  # (number, 2 * hidden_size)
        new = scorer.represent(self.model.represent_words(states, tokens))
        tape = self.tape.index_select(0, rows)  # (rows, F, words + 1)
        tape = torch.nn.functional.pad(tape, (0, max(count - tape.shape[-1], 0)))[..., :count]  # (rows, F, count)
        older = (first.tables["parents"], first.tables["children"])
        scores = scorer.step(new, numbers, older, first.indices[rows, :count], tape, self.terms)
        first.indices[rows, numbers] = self._keep_first_vectors(new)
        return scores

    def _keep_first_vectors(self, vectors: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        indices = self.first_vectors.new_indices(len(vectors[0]))
        for role, new in zip(("parents", "children"), vectors, strict=True):
            self.first_vectors.keep(role, new)
        return indices

    def select(self, rows: torch.Tensor) -> None:
        super().select(rows)
        self.graphs = self.graphs.select(rows)
        self.first_vectors.select(rows)
        self.tape = self.tape.index_select(0, rows)  # (rows, F, words + 1)
        self.states = self.states.index_select(0, rows)  # (rows, 2 * hidden_size)

    def add_words(self, words: torch.Tensor, arcs: torch.Tensor) -> None:
        """New words `(rows,)`, 0 for none, with their heads and dependents `(rows, 2, n + 1)` among the others."""
        self.graphs = insert_words(self.graphs.with_room(int(words.max())), words, arcs)
        tape = self.graphs.tape(words)
        old = torch.nn.functional.pad(self.tape, (0, tape.shape[-1] - self.tape.shape[-1]))  # (rows, F, n + 1)
        self.tape = torch.where((words > 0).view(-1, 1, 1), tape, old)  # (rows, features, n + 1)
