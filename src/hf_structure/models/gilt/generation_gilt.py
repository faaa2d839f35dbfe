"""
Text and graph written together (sections 3.1 and 3.2).

A token is chosen; if it begins a word, that word's arcs are predicted from the token before and the new one; then the
token is read with the enlarged graph.
"""

import copy
from typing import Any

import torch
from transformers import GenerationConfig
from transformers.cache_utils import Cache
from transformers.generation import GenerationMode
from transformers.generation.utils import GenerateOutput
from transformers.utils import ModelOutput

from hf_structure.algorithms.beam import Beam
from hf_structure.algorithms.graph import best_new_arcs
from hf_structure.models.gilt.cache_gilt import GraphCache, GraphLM
from hf_structure.models.gilt.outputs_gilt import GraphGenerateBeamOutput, GraphGenerateOutput
from hf_structure.modules.structured_lm.generation import StructureWriter

NO_WORD, GOES_ON, BEGINS = range(3)


class GraphWriter(StructureWriter):
    """
    Builds the graphs of texts while their tokens are read one by one.

    Args:
        kinds (`torch.LongTensor` of shape `(vocab_size,)`): How tokens relate to words, from [`token_kinds`].
        sample (`bool`, *optional*): Sample the number of a word's arcs, or take the likeliest; by default as the text.
        num_beams (`int`): Number of graphs kept for each text.
    """

    structures = "graphs"
    modes = {
        **StructureWriter.modes,
        GenerationMode.BEAM_SEARCH: "beam search",
        GenerationMode.BEAM_SAMPLE: "beam search",
    }
    options = ("word_starts", "num_graph_beams")
    given = "graph"

    def __init__(self, kinds: torch.Tensor, sample: bool | None = None, num_beams: int = 1):
        super().__init__(sample)
        self.kinds = kinds
        self.num_beams = num_beams
        # With several graphs for each text, the rows of the cache: their texts, and how probable text and graph are.
        self.beam: Beam | None = None
        self.log_probs: torch.Tensor | None = None  # (rows, vocab_size): then, of the next token after each
        self.prompt: dict[str, Any] = {}
        self.token_beams = 1

    @classmethod
    def of(
        cls,
        model: GraphLM,
        sample: bool | None,
        kwargs: dict[str, Any],
        word_starts: torch.Tensor | None = None,
        num_graph_beams: int = 1,
    ) -> "GraphWriter":
        if num_graph_beams < 1:
            raise ValueError(f"num_graph_beams must be at least 1, not {num_graph_beams}")
        if kwargs.get("graph") is not None and kwargs.get("word_ids") is None:
            raise ValueError("a graph needs the word of each token: pass `word_ids` of shape (batch_size, seq_len)")
        return cls(token_kinds(model.config, kwargs.get("tokenizer"), word_starts), sample, num_graph_beams)

    def cache_for(self, model: GraphLM, cache: Cache | None) -> GraphCache:
        return GraphCache.of(cache, model.config.tape_features)

    def begin(self, config: GenerationConfig, mode: GenerationMode, cache: GraphCache) -> None:
        self.token_beams = config.num_beams
        has_beams = self.num_beams * self.token_beams > 1
        if self.sample is None:
            self.sample = config.do_sample and not has_beams
        super().begin(config, mode, cache)
        if self.sample and has_beams:
            raise ValueError("sample_structure does not go together with num_graph_beams or num_beams")
        if self.num_beams > 1 and self.token_beams > 1:
            raise ValueError("num_graph_beams does not go together with num_beams")
        if has_beams and cache.get_seq_length() > 0:
            raise ValueError("beams do not go on from a cache that holds tokens: leave cache out")
        if config.pad_token_id is not None:
            self.kinds[config.pad_token_id] = NO_WORD

    def read(self, model: GraphLM, inputs: dict, is_prompt: bool) -> dict:
        inputs.pop("position_ids", None)  # of all new tokens, which are read one by one
        ids = inputs["input_ids"]
        if not self.prompt:
            self.prompt = dict(inputs)
            self.kinds = self.kinds.to(ids.device)
            if self.num_beams > 1:
                self.beam = Beam.start(len(ids), ids.device)
        return self.read_tokens(model, inputs, sample=bool(self.sample) and not is_prompt)

    def read_tokens(self, model: GraphLM, inputs: dict, sample: bool = False) -> dict:
        """
        Reads all tokens but the last; returns the arguments of `forward` for that one. `inputs` are the arguments for
        all of them; `word_ids` and `graph`, if any, cover the prompt, from its first token.
        """
        cache = inputs["cache"]
        word_ids: Any = inputs.pop("word_ids", None)
        graph = inputs.pop("graph", None)
        if graph is not None and cache.get_seq_length() < word_ids.shape[1]:
            prompt, inputs = split_given(inputs, graph, word_ids)
            if not inputs["input_ids"].shape[1]:
                return prompt
            self.mix(model(**prompt, return_dict=True).logits[:, -1])
        ids = inputs["input_ids"]
        mask = inputs.get("attention_mask")
        start = cache.get_seq_length()
        if start == 0:
            self._check_beginning(ids, mask, word_ids)
        for position, tokens in enumerate(ids.unbind(1), start):
            if position > start:
                self.mix(model(**inputs, return_dict=True).logits[:, -1])
            words = None
            if word_ids is not None and position < word_ids.shape[1]:
                words = word_ids[:, position]
            seen = None if mask is None else mask[:, : position + 1]
            inputs |= self.read_token(model, cache, tokens, seen, words, sample)
        return inputs

    def read_token(
        self,
        model: GraphLM,
        cache: GraphCache,
        tokens: torch.Tensor,
        mask: torch.Tensor | None = None,
        words: torch.Tensor | None = None,
        sample: bool = False,
    ) -> dict:
        """Adds the words that tokens `(batch_size,)` begin to the graphs; returns the arguments of `forward`."""
        rows = slice(None) if self.beam is None else self.beam.sentences
        tokens = tokens[rows]
        words = self._words(cache, tokens) if words is None else words[rows]
        if mask is not None:
            mask = mask[rows]
            words = words * mask[:, -1].long()
        self._weigh(cache, tokens, words)
        new = words.masked_fill(words <= cache.words, 0) if cache.holds_structure else words
        if new.any():
            origins = self._add_words(model, cache, tokens, new, sample)
            tokens = tokens[origins]
            words = words[origins]
            mask = None if mask is None else mask[origins]
        graph = cache.graphs.arcs if cache.holds_structure else tokens.new_zeros(len(tokens), 1, 1, dtype=torch.bool)
        new_tokens = {"input_ids": tokens.unsqueeze(1), "word_ids": words.unsqueeze(1)}
        return {**new_tokens, "attention_mask": mask, "graph": graph}

    def _weigh(self, cache: GraphCache, tokens: torch.Tensor, words: torch.Tensor) -> None:
        """Adds the log-probabilities of tokens `(rows,)` given their graphs, if there are several for a text."""
        if self.beam is None or self.log_probs is None:
            return
        log_probs = self.log_probs.gather(1, tokens.unsqueeze(1)).squeeze(1)  # (rows,)
        is_padding = (words == 0) & (cache.word_ids[:, -1] == 0)  # after the end, which tells no graphs apart
        self.beam = self.beam.add(log_probs.masked_fill(is_padding, 0.0))

    def _add_words(
        self, model: GraphLM, cache: GraphCache, tokens: torch.Tensor, new: torch.Tensor, sample: bool
    ) -> torch.Tensor | slice:
        """Adds new words `(rows,)`, 0 for none, to the graphs; returns the rows of the cache that they continue."""
        first_vectors, arcs, counts = model.score_word(tokens, cache)
        origins: torch.Tensor | slice = slice(None)
        if self.beam is not None:
            self.beam, origins, choices = self.beam.branch(new_arc_log_probs(counts, new), self.num_beams)
            cache.batch_select_indices(origins)
        elif sample:
            choices = torch.multinomial(counts.softmax(-1), 1).squeeze(1)  # (rows,)
        else:
            choices = counts.argmax(-1)
        first_vectors = [vectors[origins] for vectors in first_vectors]
        cache.insert_words(new[origins], best_new_arcs(arcs[origins], choices), first_vectors)
        return origins

    def mix(self, logits: torch.Tensor) -> torch.Tensor:
        """
        Log-probabilities of each text's next token, `(batch_size, vocab_size)`: the mean of the predictions after each
        of its graphs, from logits `(rows, vocab_size)`, weighted by the probabilities of text and graph.
        """
        if self.beam is None:
            return logits
        self.log_probs = logits.float().log_softmax(-1)
        texts = self.beam.sentences
        batch = int(texts.max()) + 1
        shares = self.log_probs + (self.beam.log_probs - self.beam.masses(batch)[texts]).unsqueeze(1)
        # The log of a sum of exponentials over the graphs of each text, the largest first subtracted.
        largest = shares.new_full((batch, shares.shape[1]), -torch.inf)
        largest = largest.scatter_reduce(0, texts.unsqueeze(1).expand_as(shares), shares, "amax")  # (B, vocab_size)
        sums = torch.zeros_like(largest).index_add(0, texts, (shares - largest[texts]).exp())  # (B, vocab_size)
        return largest + sums.log()

    def _words(self, cache: GraphCache, tokens: torch.Tensor) -> torch.Tensor:
        """The words that tokens belong to, numbered as `number_words` does it for a whole text."""
        kinds = self.kinds[tokens]
        if not cache.holds_structure:
            return (kinds != NO_WORD).long()
        begins = (kinds == BEGINS) | (cache.word_ids[:, -1] == 0)
        return (cache.words + begins).masked_fill(kinds == NO_WORD, 0)

    def _check_beginning(self, ids: torch.Tensor, mask: torch.Tensor | None, word_ids: torch.Tensor | None) -> None:
        is_word = self.kinds[ids] != NO_WORD if word_ids is None else word_ids > 0
        first = torch.zeros_like(ids[:, :1]) if mask is None else mask.long().argmax(1, keepdim=True)
        if is_word.gather(1, first).any():  # (B, 1)
            raise ValueError(
                "graphs are predicted of sentences that begin with a token that belongs to no word, such as the "
                "tokenizer's beginning token"
            )

    def finish(self, model: GraphLM, result: GenerateOutput) -> ModelOutput:
        """Adds the graphs to the output. The last token has not been read, but its word is in them."""
        sequences = result.sequences
        if self.token_beams > 1:  # what was finished before the others is no longer in the cache
            last = self._read_again(model, sequences)
            cache = last["cache"]
        else:
            cache = copy.copy(self.cache_for(model, result.cache))
            cache.layers = []  # no longer needed: reordering would copy it
            last = self.read_token(model, cache, sequences[:, -1], sample=bool(self.sample))
        word_ids = torch.cat([cache.word_ids, last["word_ids"]], dim=1)  # (rows, sequence_length)
        graphs: dict[str, Any] = {"graphs": last["graph"], "word_ids": word_ids}
        if self.beam is not None:
            rows = self.beam.best(1, len(sequences)).squeeze(1)
            shares = self.beam.log_probs - self.beam.masses(len(sequences))[self.beam.sentences]
            graphs = {"graphs": last["graph"][rows], "word_ids": word_ids[rows], "graph_probs": shares[rows].exp()}
        graphs["graphs"] = cut(graphs["graphs"], int(graphs["word_ids"].max()))
        if self.token_beams > 1:
            return GraphGenerateBeamOutput(**result, **graphs)
        return GraphGenerateOutput(**result, **graphs)

    @torch.no_grad()
    def _read_again(self, model: GraphLM, sequences: torch.Tensor) -> dict:
        """Reads whole texts but their last tokens, greedily; the prompts' mask, words and graphs are kept."""
        repeats = len(sequences) * self.token_beams // len(self.prompt["input_ids"])
        rows = torch.arange(len(sequences), device=sequences.device) // repeats * self.token_beams
        names = ("attention_mask", "word_ids", "graph")
        inputs = {name: self.prompt[name][rows] for name in names if self.prompt.get(name) is not None}
        if (mask := inputs.get("attention_mask")) is not None:
            new = sequences.shape[1] - mask.shape[1]
            inputs["attention_mask"] = torch.nn.functional.pad(mask, (0, new), value=1)  # (B, n)
        settings = {"cache": self.cache_for(model, None), "use_cache": True, "logits_to_keep": 1}
        return GraphWriter(self.kinds).read_tokens(model, {"input_ids": sequences, **inputs, **settings})


def split_given(inputs: dict, graph: torch.Tensor, word_ids: torch.Tensor) -> tuple[dict, dict]:
    """Arguments of `forward` for the tokens of a given graph, to be read at once, and for the tokens after them."""
    ids = inputs["input_ids"]
    mask = inputs.get("attention_mask")
    start = inputs["cache"].get_seq_length()
    number = min(ids.shape[1], word_ids.shape[1] - start)
    words = word_ids[:, start : start + number]
    seen = None if mask is None else mask[:, : start + number]
    prompt = {**inputs, "input_ids": ids[:, :number], "attention_mask": seen, "graph": graph, "word_ids": words}
    return prompt, {**inputs, "input_ids": ids[:, number:]}


def new_arc_log_probs(counts: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """Log-probabilities of numbers of arcs `(rows, max_new_arcs + 1)`, by logits; rows without a new word get none."""
    nothing = torch.full_like(counts, -torch.inf)
    nothing[:, 0] = 0.0
    return torch.where((new > 0).unsqueeze(1), counts.log_softmax(-1), nothing)  # (rows, max_new_arcs + 1)


def token_kinds(config, tokenizer=None, word_starts: torch.Tensor | None = None) -> torch.Tensor:
    """`(vocab_size,)`: NO_WORD, GOES_ON or BEGINS for each token."""
    if word_starts is None:
        if tokenizer is None:
            raise ValueError(
                "graphs are built over words: pass `tokenizer`, or `word_starts`, to tell where they begin"
            )
        from hf_structure.text.tokenization import word_start_mask

        word_starts = word_start_mask(tokenizer)
    kinds = torch.full((max(config.vocab_size, len(word_starts)),), GOES_ON, dtype=torch.long)
    kinds[: len(word_starts)][word_starts.cpu().bool()] = BEGINS
    special = config if tokenizer is None else tokenizer
    for ids in (special.bos_token_id, special.eos_token_id, special.pad_token_id):
        if ids is not None:
            kinds[ids] = NO_WORD
    return kinds


def cut(graph: torch.Tensor, words: int) -> torch.Tensor:
    """Cuts or pads graphs to exactly so many words."""
    missing = words + 1 - graph.shape[-1]
    return torch.nn.functional.pad(graph, (0, missing, 0, missing))  # (B, words + 1, words + 1)
