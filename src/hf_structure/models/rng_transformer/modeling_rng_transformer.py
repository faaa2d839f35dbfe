"""
Recursive Non-autoregressive Graph-to-Graph Transformer (Mohammadshahi & Henderson 2021, "Recursive Non-Autoregressive
Graph-to-Graph Transformer for Dependency Parsing with Iterative Refinement").

A parser that predicts all arcs at once, reads the graph that it predicted in its self-attention, and predicts again:

    H^t = Encoder(words, G^(t-1))      G^t = Decoder(H^t)      t = 1 .. T

until the graph does not change any more. G^0 is empty, or what any other parser gave.
"""

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import nn
from torch.utils._pytree import tree_map, tree_map_only
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import can_return_tuple
from transformers.utils.output_capturing import capture_outputs

from hf_structure.algorithms.spanning_tree import (
    arc_marginals,
    argmax_heads,
    check_decoder,
    chosen_scores,
    find_heads,
    tree_log_prob,
    tree_log_probs,
)
from hf_structure.algorithms.word_annotations import CANDIDATES
from hf_structure.models.modeling_outputs import DecoderOutput, GraphParserOutput
from hf_structure.models.rng_transformer.configuration_rng_transformer import RNGTransformerConfig
from hf_structure.modules.affine import all_rows
from hf_structure.modules.dropout import Dropout
from hf_structure.modules.graph_encoder import GraphEncoderModel, GraphPreTrainedModel
from hf_structure.modules.graph_transformer import Arcs, RelativePositionBias, take
from hf_structure.modules.padding import check_one_input, left_align, ones_mask
from hf_structure.modules.pretrained_encoder import MODEL_TYPES, PretrainedEncoderMixin
from hf_structure.modules.words import WordPlaces, average_pieces, place_words


class RNGTransformerPreTrainedModel(GraphPreTrainedModel):
    """Base of the Recursive Non-autoregressive Graph-to-Graph Transformer models."""

    config: RNGTransformerConfig
    config_class = RNGTransformerConfig
    base_model_prefix = "rng_transformer"


class RNGTransformerModel(GraphEncoderModel, RNGTransformerPreTrainedModel):
    """A Transformer encoder that reads a sequence and a graph over it: Encoder(words, G)."""

    def __init__(self, config: RNGTransformerConfig):
        super().__init__(config)
        if config.num_position_buckets:
            self.position_bias = RelativePositionBias(config.num_position_buckets, config.num_attention_heads)
        graph_layers = config.graph_layers
        num_labels = [config.num_relations * (layer in graph_layers) for layer in range(config.num_hidden_layers)]
        self.layers = self.new_layers(num_labels, config.scale_relations)
        self.post_init()

    @capture_outputs
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        parents: torch.Tensor | None = None,
        relations: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> BaseModelOutput:
        """
        Args:
            input_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): Ids of words or word pieces.
            attention_mask (`torch.Tensor` of shape `(batch_size, seq_len)`, *optional*): 1 for input, 0 for padding.
            parents (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*):
                The graph: for each position that of its head, -1 for none.
            relations (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): The labels of these arcs.
            inputs_embeds (`torch.FloatTensor` of shape `(batch_size, seq_len, hidden_size)`, *optional*):
                Vectors in place of `input_ids`.

        Raises:
            ValueError: if there are not either ids or vectors, a sequence is longer than the positions reach, or there
                is a graph but no graph input.
        """
        if parents is not None and not self.config.use_graph_input:
            raise ValueError("this model reads no graph (config.use_graph_input)")
        check_one_input(input_ids, inputs_embeds)
        embedded = self.get_input_embeddings()(input_ids) if inputs_embeds is None else inputs_embeds
        hidden_states, mask = self.read(embedded, attention_mask)
        arcs = None if parents is None else Arcs(parents, relations)
        return BaseModelOutput(last_hidden_state=self.read_graph(hidden_states, mask, arcs))

    def read(
        self, inputs_embeds: torch.Tensor, attention_mask: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What does not depend on the graph: vectors below the layers that read it, and the mask of attention."""
        hidden_states, mask = self.embed(inputs_embeds, attention_mask)
        for layer in self.layers[: self.config.num_lower_layers]:
            hidden_states = layer(hidden_states, mask)
        return hidden_states.to(mask.device), mask  # wherever the layers are

    def read_graph(
        self,
        hidden_states: torch.Tensor,
        mask: torch.Tensor,
        arcs: Arcs | None,
        query_positions: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Final vectors of all positions, or of `query_positions` `(batch_size, m)`, from what [`read`] gives."""
        for layer in self.layers[self.config.num_lower_layers : -1]:
            hidden_states = layer(hidden_states, mask, arcs)
        return self.layers[-1](hidden_states, mask, arcs, query_positions).to(mask.device)

    def read_upwards(self, hidden_states: torch.Tensor, mask: torch.Tensor, num_layers: int) -> torch.Tensor:
        """Vectors of all positions above the first `num_layers` layers, without a graph, from what [`read`] gives."""
        for layer in self.layers[self.config.num_lower_layers : num_layers]:
            hidden_states = layer(hidden_states, mask)
        return hidden_states.to(mask.device)


class RNGTransformerDecoder(nn.Module):
    """
    Scores of arcs and labels (Dozat & Manning 2017), from vectors of the root and the words:

        s(i, j) = h_j (W d_i + b)                               word j (or the root) as the head of word i
        s(l | i, j) = h'_j (W_l d'_i + b_l) + w_l d'_i + c_l    label l of this arc

    with d and h (d' and h') what a perceptron each makes of the words as dependents and as heads.
    """

    def __init__(self, config: RNGTransformerConfig):
        super().__init__()
        self.arc_dependent = nn.Linear(config.hidden_size, config.arc_size)
        self.arc_head = nn.Linear(config.hidden_size, config.arc_size)
        self.arc = nn.Linear(config.arc_size, config.arc_size)
        if config.labelled:
            self.label_dependent = nn.Linear(config.hidden_size, config.label_size)
            self.label_head = nn.Linear(config.hidden_size, config.label_size)
            self.label = nn.Linear(config.label_size, config.num_relations * config.label_size)
            self.label_bias = nn.Linear(config.label_size, config.num_relations)
        self.activation = nn.LeakyReLU(0.1)
        self.dropout = Dropout(config.decoder_dropout)

    def score_arcs(self, vectors: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """`(B, n, n + 1)`: scores of heads, 0 the root; -inf for a word itself and for padding."""
        dependents = self.dropout(self.activation(self.arc_dependent(vectors[:, 1:])))
        heads = self.dropout(self.activation(self.arc_head(vectors)))
        scores = (self.arc(dependents) @ heads.transpose(1, 2)).float()  # (B, n, n + 1)
        columns = torch.arange(vectors.shape[1], device=vectors.device)
        return scores.masked_fill((columns[1:, None] == columns) | (columns > lengths[:, None, None]), -torch.inf)

    def label_vectors(self, vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Words as dependents `(B, n, label_size)`, and root and words as heads `(B, n + 1, label_size)`."""
        dependents = self.dropout(self.activation(self.label_dependent(vectors[:, 1:])))
        return dependents, self.dropout(self.activation(self.label_head(vectors)))

    def score_labels(self, dependents: torch.Tensor, as_heads: torch.Tensor, heads: torch.Tensor) -> torch.Tensor:
        """`(B, n, num_relations)`: scores of the labels of the arcs from given heads `(B, n)`, if they are not -1."""
        of_heads = take(as_heads, heads.clamp(min=0)).unsqueeze(3)
        by_label = self.label(dependents).unflatten(2, (-1, of_heads.shape[2]))  # (B, n, num_relations, label_size)
        return ((by_label @ of_heads).squeeze(3) + self.label_bias(dependents)).float()


class WordForms(nn.Module):
    """A vector for what each word looks like, the sum of those of its hashes (of the word, its ends and its shape)."""

    def __init__(self, config: RNGTransformerConfig):
        super().__init__()
        self.embeddings = nn.Embedding(config.num_form_buckets, config.form_size)
        self.dropout = Dropout(config.decoder_dropout)

    def forward(self, form_ids: torch.Tensor) -> torch.Tensor:
        """`(B, n, form_size)` of hashes `(B, n, f)`; zero for padding, -1."""
        vectors = self.embeddings(form_ids.clamp(min=0)).sum(2)  # (B, n, form_size)
        return self.dropout(vectors.masked_fill(form_ids[:, :, :1] < 0, 0.0))


class RNGTransformerTagger(nn.Module):
    """
    Scores of what else is predicted of each word, from its vector h below the layers that read the graph, h' above
    them, and f for what it looks like:

        t_i = LeakyReLU(U [h_i; h'_i; f_i] + u)
        s_c(v | i) = w_cv t_i + b_cv                            value v of column c

    Features stand behind their part of speech: where both are columns, those of the best part of speech are left.
    """

    def __init__(self, config: RNGTransformerConfig):
        super().__init__()
        columns = config.columns or {}
        size = 2 * config.hidden_size + (config.form_size if config.num_form_buckets else 0)
        self.hidden = nn.Linear(size, config.column_size)
        self.columns = nn.ModuleDict(
            {name: nn.Linear(config.column_size, len(values)) for name, values in columns.items()}
        )
        self.activation = nn.LeakyReLU(0.1)
        self.dropout = Dropout(config.decoder_dropout)
        self.num_rules = CANDIDATES if config.lexicon else 1
        self.speech_of_features = None
        if {"upos", "feats"} <= columns.keys():
            numbers = {upos: number for number, upos in enumerate(columns["upos"])}
            self.speech_of_features = [numbers.get(label.partition(" ")[0], -1) for label in columns["feats"]]

    def forward(self, lower: torch.Tensor, upper: torch.Tensor, forms: torch.Tensor | None) -> dict[str, torch.Tensor]:
        """Scores `(B, n, num_values)` by the names of the columns, from vectors of words `(B, n, D)`."""
        parts = [lower, upper] if forms is None else [lower, upper, forms]
        hidden = self.dropout(self.activation(self.hidden(torch.cat(parts, dim=2))))
        return {name: column(hidden).float() for name, column in self.columns.items()}

    def best(self, scores: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The best values `(B, n)`; of lemmas that a lexicon chooses among, the best rules `(B, n, CANDIDATES)`."""
        if self.speech_of_features is not None:
            speech = torch.tensor(self.speech_of_features, device=scores["feats"].device)
            others = speech != scores["upos"].argmax(-1, keepdim=True)  # (B, n, num_features)
            scores = scores | {"feats": scores["feats"].masked_fill(others, -torch.inf)}
        best = {name: values.argmax(-1) for name, values in scores.items() if name != "lemma" or self.num_rules == 1}
        if self.num_rules > 1:
            best["lemma"] = scores["lemma"].topk(min(self.num_rules, scores["lemma"].shape[-1])).indices
        return best


def sum_of_losses(scores: torch.Tensor, gold: torch.Tensor) -> torch.Tensor:
    """Sum of the cross-entropies of values `(B, n)`, negative where there is none, given scores `(B, n, values)`."""
    return nn.functional.cross_entropy(
        scores.flatten(0, 1), gold.masked_fill(gold < 0, -100).flatten(), reduction="sum"
    )


def enclose(
    vectors: torch.Tensor, lengths: torch.Tensor, cls: torch.Tensor, sep: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Vectors `(B, L, D)` between [CLS] and [SEP], `(B, L + 2, D)`, and the attention mask."""
    positions = torch.arange(int(lengths.max()) + 2, device=vectors.device)
    vectors = nn.functional.pad(vectors, (0, 0, 1, 1))[:, : len(positions)]  # (B, L + 2, D)
    vectors = torch.where((positions == 0).unsqueeze(1), cls, vectors)
    ends = lengths.unsqueeze(1) + 1
    return torch.where((positions == ends).unsqueeze(2), sep, vectors), (positions <= ends).long()


class Pieces(NamedTuple):
    """What the encoder reads, from the left."""

    vectors: torch.Tensor  # (batch_size, num_pieces, hidden_size): vectors of the pieces
    lengths: torch.Tensor  # (batch_size,): pieces of each sentence
    word_ids: torch.Tensor  # (batch_size, num_pieces): the word of each piece, -1 for none
    begins: torch.Tensor  # (batch_size, num_pieces): which pieces begin a word


class Graph(NamedTuple):
    """Graphs that are read and predicted."""

    heads: torch.Tensor  # (batch_size, n): heads, words from 1, 0 is the root; -1 for none
    labels: torch.Tensor | None  # (batch_size, n): their labels, -1 for none; in a model with labels

    def select(self, rows: torch.Tensor) -> "Graph":
        return Graph(self.heads[rows], None if self.labels is None else self.labels[rows])

    def differs(self, other: "Graph") -> torch.Tensor:
        """`(batch_size,)`: which sentences have other arcs or labels."""
        changed = (self.heads != other.heads).any(1)
        return changed if self.labels is None else changed | (self.labels != other.labels).any(1)


@dataclass
class Sentences:
    """Sentences as the encoder reads them without a graph."""

    hidden_states: torch.Tensor  # (batch_size, seq_len, hidden_size)
    mask: torch.Tensor  # (batch_size, 1, 1, seq_len), with a position bias (batch_size, num_heads, seq_len, seq_len)
    places: torch.Tensor  # (batch_size, n + 1): positions of the root and the words; that of the root for padding
    lengths: torch.Tensor  # (batch_size,): words of each sentence
    forms: torch.Tensor | None = None  # (batch_size, n, form_size)

    def select(self, rows: torch.Tensor) -> "Sentences":
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        return replace(self, **{name: part[rows] for name, part in parts.items() if part is not None})

    @property
    def num_words(self) -> int:
        """Words of the longest sentence, at least 1."""
        return self.places.shape[1] - 1

    def words(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """The vectors of the words among those of all positions, `(B, n, D)`."""
        return take(hidden_states, self.places[:, 1:])


class Round(NamedTuple):
    """What a round gives."""

    vectors: torch.Tensor  # (batch_size, n + 1, hidden_size): of the root and the words
    scores: torch.Tensor  # (batch_size, n, n + 1): of arcs
    label_vectors: tuple[torch.Tensor, torch.Tensor] | None  # what labels are scored by
    graph: Graph  # the graph
    label_probs: torch.Tensor | None  # (batch_size, n): of the labels of its arcs

    def select(self, rows: torch.Tensor) -> "Round":
        return tree_map_only(torch.Tensor, lambda part: part[rows], self)

    def replace(self, rows: torch.Tensor, newer: "Round") -> "Round":
        """With other values in some rows."""
        return tree_map(lambda part, new: part if part is None else part.index_copy(0, rows, new), self, newer)


class RNGTransformerForParsing(PretrainedEncoderMixin, RNGTransformerPreTrainedModel):
    """The parser: it predicts a graph, reads it, and predicts again."""

    encoder_types = (*MODEL_TYPES, "mpnet")

    def __init__(self, config: RNGTransformerConfig):
        super().__init__(config)
        self.rng_transformer = RNGTransformerModel(config)
        self.special_embeddings = nn.Embedding(2, config.embedding_size)  # [CLS], which stands for the root, and [SEP]
        self.tag_embeddings = nn.Embedding(config.num_tags, config.embedding_size) if config.num_tags else None
        self.treebank_embeddings = (
            nn.Embedding(len(config.treebanks), config.embedding_size) if config.treebanks else None
        )
        self.forms = WordForms(config) if config.num_form_buckets else None
        self.form_projection = nn.Linear(config.form_size, config.embedding_size, bias=False) if self.forms else None
        self.decoder = RNGTransformerDecoder(config)
        self.tagger = RNGTransformerTagger(config) if config.columns else None
        self.segmenter = None
        if config.num_segmentation_layers:
            hidden = nn.Linear(config.hidden_size, config.column_size)
            self.segmenter = nn.Sequential(hidden, nn.LeakyReLU(0.1), nn.Linear(config.column_size, 1))
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        word_ids: torch.Tensor | None = None,
        tag_ids: torch.Tensor | None = None,
        form_ids: torch.Tensor | None = None,
        treebank_ids: torch.Tensor | None = None,
        initial_heads: torch.Tensor | None = None,
        initial_relations: torch.Tensor | None = None,
        heads: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        columns: dict[str, torch.Tensor] | None = None,
        sentence_starts: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> GraphParserOutput:
        """
        Scores all arcs in each of `config.num_rounds` rounds. Between rounds every word takes its best head, without
        gradient.

        Args:
            input_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): Ids of words or word pieces.
            attention_mask (`torch.Tensor` of shape `(batch_size, seq_len)`, *optional*): 1 for input, 0 for padding.
            word_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*):
                Number of the word, from 0, that each word piece belongs to, -1 for none (special tokens, which the
                model has of its own). By default every id is a word.
            tag_ids (`torch.LongTensor` of shape `(batch_size, num_words)`, *optional*):
                Part-of-speech tags, -1 for none; read if `config.num_tags`.
            form_ids (`torch.LongTensor` of shape `(batch_size, num_words, f)`, *optional*):
                Hashes of what words look like, -1 for padding; read if `config.num_form_buckets`.
            treebank_ids (`torch.LongTensor` of shape `(batch_size, num_words)`, *optional*):
                The treebank whose habits each word follows; by default 0, if there are `config.treebanks`.
            initial_heads (`torch.LongTensor` of shape `(batch_size, num_words)`, *optional*): The graph that the first
                round reads: heads (words from 1, 0 is the root, negative for none). By default it is empty.
            initial_relations (`torch.LongTensor` of shape `(batch_size, num_words)`, *optional*):
                The labels of these arcs, negative where they are not known: a model with labels leaves out these arcs.
            heads (`torch.LongTensor` of shape `(batch_size, num_words)`, *optional*):
                The heads to learn, negative for padding and for words that have none.
            labels (`torch.LongTensor` of shape `(batch_size, num_words)`, *optional*):
                The relation labels to learn; -100 for padding, and for words whose label is not known.
            columns (`dict[str, torch.LongTensor]`, tensors of shape `(batch_size, num_words)`, *optional*):
                Values to learn of `config.columns`, by name; -100 for padding, and where they are not known.
            sentence_starts (`torch.LongTensor` of shape `(batch_size, num_words)`, *optional*):
                Whether a sentence begins with each word of running text, 1 or 0; -100 for padding, and where it is
                not known. Running text has no heads to learn (all negative) and is not parsed.
            num_items_in_batch (`int`, *optional*):
                What the sum of losses is divided by; the number of words with a label (or head) by default.
            inputs_embeds (`torch.FloatTensor` of shape `(batch_size, seq_len, hidden_size)`, *optional*):
                Vectors of words or word pieces in place of `input_ids`.

        What is about words holds the words of each sentence first if there are `word_ids`, and else is padded as
        `input_ids`.

        The loss, returned when `heads` and, in a model with labels, `labels` are given, is the sum over all rounds of
        the losses of arcs (`config.arc_loss`) and of the cross-entropies of the labels of the arcs to learn and of
        the values of columns; and of the cross-entropy of sentence starts. With `sentence_starts`, `logits` are those
        of the sentences with heads to learn, None if there are none.

        Raises:
            ValueError: if hidden states or attentions are asked for, there are not either ids or vectors, or no
                `form_ids` for a model that reads them, a sentence is too long, the loss of whole trees is wanted of
                words without a head, or there is an initial graph in a model that reads no graph, or one without
                labels in a model with labels.
        """
        if kwargs.get("output_attentions") or kwargs.get("output_hidden_states"):
            raise ValueError("this model reads a sentence several times: ask its base model for what is inside")
        pieces = check_one_input(input_ids, inputs_embeds)
        sentences, words = self._read(pieces, attention_mask, word_ids, tag_ids, form_ids, treebank_ids)
        first = partial(words.left_align, n=sentences.num_words)
        heads, labels, sentence_starts = map(first, (heads, labels, sentence_starts))
        columns = {name: first(values) for name, values in (columns or {}).items()}
        learned = heads if labels is not None or not self.config.labelled else None
        if learned is not None and num_items_in_batch is None:
            num_items_in_batch = ((learned if labels is None else labels) >= 0).sum()
        graph = self._initial_graph(first(initial_heads), first(initial_relations), sentences)
        loss = 0.0
        if learned is not None and sentence_starts is not None:
            loss = self._segmentation_loss(sentences, sentence_starts)
            parsed = (learned >= 0).any(1)
            if not parsed.any():
                return GraphParserOutput(loss=loss / torch.as_tensor(num_items_in_batch).clamp(min=1))
            sentences = sentences.select(parsed)
            graph = None if graph is None else graph.select(parsed)
            heads = learned = learned[parsed]
            labels = None if labels is None else labels[parsed]
            columns = {name: values[parsed] for name, values in columns.items()}
        column_scores: dict[str, torch.Tensor] = {}
        for number in range(self.config.num_rounds):
            vectors, scores, label_vectors = self._score(sentences, graph)
            if self.tagger is not None:
                column_scores = self._score_columns(sentences, vectors)
            if learned is not None:
                loss = loss + self._loss(scores, label_vectors, learned, labels, sentences.lengths)
            if learned is not None and columns:
                loss = loss + sum(sum_of_losses(column_scores[name], values) for name, values in columns.items())
            if number < self.config.num_rounds - 1:
                graph = self._predict(vectors, scores, label_vectors, sentences.lengths, "argmax").graph
        label_scores = None
        if label_vectors is not None:
            best = argmax_heads(scores, sentences.lengths) if heads is None else heads
            label_scores = self.decoder.score_labels(label_vectors[0], label_vectors[1], best)
        return GraphParserOutput(
            loss=None if learned is None else loss / torch.as_tensor(num_items_in_batch).clamp(min=1),
            logits=scores,
            label_logits=label_scores,
            column_logits=column_scores or None,
        )

    @torch.no_grad()
    def decode(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        *,
        inputs_embeds: torch.Tensor | None = None,
        word_ids: torch.Tensor | None = None,
        tag_ids: torch.Tensor | None = None,
        form_ids: torch.Tensor | None = None,
        treebank_ids: torch.Tensor | None = None,
        initial_heads: torch.Tensor | None = None,
        initial_relations: torch.Tensor | None = None,
        decoder: str = "tree",
        k: int = 1,
        marginals: bool = False,
        num_rounds: int | None = None,
    ) -> DecoderOutput:
        """
        Parses a batch of sentences. Those whose graph does not change any more take no part in further rounds.

        Args:
            input_ids, attention_mask, inputs_embeds, word_ids, tag_ids, form_ids, treebank_ids, initial_heads, \
            initial_relations:
                As in `forward`. The output holds the words of each sentence first, wherever the padding is.
            decoder (`"tree"`, `"projective"` or `"argmax"`): What every round predicts: the best tree with one root,
                the best such tree without crossing arcs, or each word's best head.
            k (`int`): Number of trees, best first. The last round gives them; each has its best labels.
            marginals (`bool`): Whether to add arc marginals over all trees with one root, from the last round.
            num_rounds (`int`, *optional*): Number of rounds at most, by default `config.num_rounds`.

        Raises:
            ValueError: if `decoder` is unknown, `k` does not fit it, a sentence is too long or a score NaN, if there
                are several rounds or an initial graph in a model that reads no graph, or an initial graph without
                labels in a model with labels.
        """
        check_decoder(decoder, k)
        num_rounds = self.config.num_rounds if num_rounds is None else num_rounds
        if num_rounds < 1 or (num_rounds > 1 and not self.config.use_graph_input):
            raise ValueError(f"num_rounds={num_rounds} is not possible: at least 1, and only 1 without graph input")
        pieces = check_one_input(input_ids, inputs_embeds)
        sentences, words = self._read(pieces, attention_mask, word_ids, tag_ids, form_ids, treebank_ids)
        first = partial(words.left_align, n=sentences.num_words)
        graph = self._initial_graph(first(initial_heads), first(initial_relations), sentences)
        last = self._refine(sentences, graph, decoder, num_rounds)
        heads = last.graph.heads.unsqueeze(1) if k == 1 else find_heads(last.scores, sentences.lengths, decoder, k)
        output = DecoderOutput(heads=heads)
        is_word = heads >= 0
        head_probs = chosen_scores(last.scores.log_softmax(-1), heads).exp().masked_fill(~is_word, 0.0)
        output.columns = {"probabilities": head_probs}
        if decoder != "argmax":
            output.log_probs = tree_log_probs(last.scores, heads, sentences.lengths)
        if marginals:
            output.marginals = arc_marginals(last.scores, sentences.lengths)
        if last.label_vectors is not None:
            labelled = [(last.graph.labels, last.label_probs)]  # known already, where there is but one tree
            if k > 1:
                labelled = [self._best_labels(last.label_vectors, tree) for tree in heads.unbind(1)]
            labels, label_probs = zip(*labelled, strict=True)
            output.columns["labels"] = torch.stack(labels, dim=1)
            output.columns["label_probabilities"] = torch.stack(label_probs, dim=1)
        if self.tagger is not None:
            best = self.tagger.best(self._score_columns(sentences, last.vectors))
            for name, values in best.items():
                known = is_word if values.dim() == 2 else is_word.unsqueeze(3)
                output.columns[name] = torch.where(known, values.unsqueeze(1), -1)  # (B, k, n) or (B, k, n, best)
        return output

    @torch.no_grad()
    def encoder_inputs(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        *,
        word_ids: torch.Tensor | None = None,
        tag_ids: torch.Tensor | None = None,
        form_ids: torch.Tensor | None = None,
        treebank_ids: torch.Tensor | None = None,
        heads: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
    ) -> tuple[dict[str, torch.Tensor | None], torch.Tensor]:
        """
        What the base model is given to read sentences and, if there are any, the graphs of these `heads` and `labels`
        `(batch_size, num_words)`, as they are in a [`DecoderOutput`]; and the word of each position, from 1, 0 for
        none, `(batch_size, seq_len)`. The other arguments are those of `forward`.
        """
        given = (input_ids, attention_mask, word_ids, tag_ids, form_ids, treebank_ids)
        sequence, mask, pieces, words, _ = self._embed(*given)
        inputs: dict[str, torch.Tensor | None] = {"inputs_embeds": sequence, "attention_mask": mask}
        if heads is not None:
            arcs = self._arcs(self._locate(sequence, mask, pieces, words.lengths), Graph(heads, labels))
            inputs |= {"parents": arcs.heads, "relations": arcs.labels}
        return inputs, nn.functional.pad(pieces.word_ids + 1, (1, 1))  # (B, L), [CLS] and [SEP] are no words

    @torch.no_grad()
    def sentence_starts(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        *,
        word_ids: torch.Tensor | None = None,
        form_ids: torch.Tensor | None = None,
        treebank_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """
        Probability that a sentence begins with each word of running text, `(batch_size, num_words)`; of no meaning for
        padding. The arguments are those of `forward`. Raises `ValueError` if the model finds no sentences
        (`config.num_segmentation_layers`).
        """
        if self.segmenter is None:
            raise ValueError("this model does not find where sentences begin (config.num_segmentation_layers)")
        sentences, _ = self._read(input_ids, attention_mask, word_ids, None, form_ids, treebank_ids)
        return self._score_starts(sentences).sigmoid()

    def _refine(self, sentences: Sentences, graph: Graph | None, decoder: str, num_rounds: int) -> "Round":
        """What the last round of each sentence gives."""
        busy = torch.arange(len(sentences.lengths), device=sentences.lengths.device)
        result = None
        for _ in range(num_rounds):
            going = sentences.select(busy)
            now = self._predict(*self._score(going, graph), going.lengths, decoder)
            result = now if result is None else result.replace(busy, now)
            if graph is not None:
                changed = now.graph.differs(graph)
                busy = busy[changed]
                now = now.select(changed)
            if not len(busy):
                break
            graph = now.graph
        assert result is not None  # there is a round
        return result

    def _initial_graph(
        self, heads: torch.Tensor | None, labels: torch.Tensor | None, sentences: Sentences
    ) -> Graph | None:
        if heads is None:
            return None
        if not self.config.use_graph_input:
            raise ValueError("this model reads no graph, so that it cannot start from one (config.use_graph_input)")
        if (heads > sentences.lengths.unsqueeze(1)).any():
            raise ValueError("an initial head is a word that the sentence has not")
        if not self.config.labelled:
            return Graph(heads, None)
        if labels is None:
            raise ValueError("this model reads labelled arcs only: give the initial heads their initial_relations")
        return Graph(heads, labels)

    def _read(self, pieces: torch.Tensor, *beside: torch.Tensor | None) -> tuple[Sentences, WordPlaces]:
        """The sentences between [CLS] and [SEP], as they are before the graph is read; arguments as for [`_embed`]."""
        sequence, mask, read, words, forms = self._embed(pieces, *beside)
        hidden_states, mask = self.rng_transformer.read(sequence, mask)
        sentences = self._locate(hidden_states, mask, read, words.lengths)
        return replace(sentences, forms=forms), words

    def _embed(
        self,
        pieces: torch.Tensor,
        attention_mask: torch.Tensor | None,
        word_ids: torch.Tensor | None,
        tag_ids: torch.Tensor | None,
        form_ids: torch.Tensor | None = None,
        treebank_ids: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, Pieces, WordPlaces, torch.Tensor | None]:
        """What the encoder reads, `(B, L, D)`, its mask, and what it is made of: pieces, words, and their forms."""
        if attention_mask is None:
            attention_mask = ones_mask(pieces)
        words = place_words(attention_mask, word_ids)
        n = max(int(words.lengths.max()), 1)
        tag_ids, form_ids, treebank_ids = (words.left_align(ids, n) for ids in (tag_ids, form_ids, treebank_ids))
        if treebank_ids is None:
            treebank_ids = words.lengths.new_zeros(len(words.lengths), n)
        elif self.training and self.config.treebank_dropout:
            is_told = (
                torch.rand(len(treebank_ids), 1, dtype=torch.float32, device=treebank_ids.device)
                >= self.config.treebank_dropout
            )
            treebank_ids = treebank_ids * is_told
        if self.forms is not None and form_ids is None:
            raise ValueError("this model reads what words look like: pass `form_ids` (see `config.read_forms`)")
        forms = None if self.forms is None else self.forms(form_ids)
        known = self._known_of_words(tag_ids, treebank_ids, forms)
        if self.config.word_vectors == "mean":
            read = self._average(pieces, words, n)
        else:
            read = self._pieces(pieces, attention_mask, words)
        vectors = read.vectors
        if known is not None:
            known = take(known, read.word_ids.clamp(min=0))  # (B, L, D)
            vectors = vectors + known.masked_fill(~read.begins.unsqueeze(2), 0.0)
        special = all_rows(self.special_embeddings, vectors.device).to(vectors.dtype)
        return *enclose(vectors, read.lengths, *special), read, words, forms

    def _average(self, pieces: torch.Tensor, words: WordPlaces, n: int) -> Pieces:
        """Words that are each the mean of their pieces, and so a single one."""
        vectors = average_pieces(self.get_input_embeddings(), pieces, words.word_ids, n, self.config.unk_token_id)
        number = torch.arange(n, device=pieces.device).expand(len(pieces), n)  # (B, n)
        is_word = number < words.lengths.unsqueeze(1)
        return Pieces(vectors, words.lengths, number.masked_fill(~is_word, -1), is_word)

    def _pieces(self, pieces: torch.Tensor, attention_mask: torch.Tensor, words: WordPlaces) -> Pieces:
        """All pieces of the words."""
        order = left_align(attention_mask)
        word_ids = words.word_ids.gather(1, order)  # (B, L)
        before = nn.functional.pad(word_ids, (1, 0), value=-1)[:, :-1]
        begins = (word_ids >= 0) & (word_ids != before)
        if (begins.sum(1) != words.lengths).any():
            raise ValueError("the pieces of a word must stand together, and every word have one, in the words' order")
        vectors = self.get_input_embeddings()(pieces) if pieces.dim() == 2 else pieces
        return Pieces(take(vectors, order), attention_mask.long().sum(1), word_ids, begins)

    def _locate(
        self, hidden_states: torch.Tensor, mask: torch.Tensor, pieces: Pieces, lengths: torch.Tensor
    ) -> Sentences:
        """The sentences, with the positions of the root, [CLS], and of each word's first piece."""
        n = max(int(lengths.max()), 1)
        word_ids = pieces.word_ids
        positions = torch.arange(1, 1 + word_ids.shape[1], device=word_ids.device).expand_as(word_ids)
        places = positions.new_zeros(len(word_ids), n + 2)  # the last column is cut off
        places = places.scatter(1, torch.where(pieces.begins, word_ids + 1, n + 1), positions)[:, :-1]  # (B, n + 1)
        return Sentences(hidden_states, mask, places, lengths)

    def _known_of_words(
        self, tag_ids: torch.Tensor | None, treebank_ids: torch.Tensor, forms: torch.Tensor | None
    ) -> torch.Tensor | None:
        """`(B, n, D)`: the sum of the vectors of the words' tags, treebanks and forms; None if there are none."""
        parts = []
        if self.tag_embeddings is not None and tag_ids is not None:
            tags = self.tag_embeddings(tag_ids.clamp(min=0))
            parts.append(tags.masked_fill(tag_ids.unsqueeze(2) < 0, 0.0))
        if self.treebank_embeddings is not None:
            parts.append(self.treebank_embeddings(treebank_ids.clamp(min=0)))
        if self.form_projection is not None and forms is not None:
            parts.append(self.form_projection(forms))
        return sum(parts[1:], parts[0]) if parts else None

    def _encode(self, sentences: Sentences, graph: Graph | None) -> torch.Tensor:
        """Encoder(words, G): vectors of the root and the words, `(B, n + 1, D)`."""
        arcs = None if graph is None else self._arcs(sentences, graph)
        return self.rng_transformer.read_graph(sentences.hidden_states, sentences.mask, arcs, sentences.places)

    def _arcs(self, sentences: Sentences, graph: Graph) -> Arcs:
        """The graph as arcs between positions, `(B, L)`. An arc whose label is not known is left out."""
        known = graph.heads >= 0 if graph.labels is None else (graph.heads >= 0) & (graph.labels >= 0)
        heads = sentences.places.gather(1, graph.heads.clamp(min=0)).masked_fill(~known, -1)  # (B, n)
        length = sentences.hidden_states.shape[1]
        # Words without a known arc are written to one more column, which is cut off.
        places = torch.where(known, sentences.places[:, 1:], length)  # (B, n)
        nothing = heads.new_full((len(heads), length + 1), -1)
        labels = None if graph.labels is None else nothing.scatter(1, places, graph.labels)[:, :-1]  # (B, L)
        heads = nothing.scatter(1, places, heads)[:, :-1]  # (B, L)
        return Arcs(heads, labels)

    def _score(
        self, sentences: Sentences, graph: Graph | None
    ) -> tuple[torch.Tensor, torch.Tensor, tuple[torch.Tensor, torch.Tensor] | None]:
        """Vectors of the root and the words that have read a graph, scores of arcs, and what labels are scored by."""
        vectors = self._encode(sentences, graph)
        scores = self.decoder.score_arcs(vectors, sentences.lengths)
        label_vectors = self.decoder.label_vectors(vectors) if self.config.labelled else None
        return vectors, scores, label_vectors

    @torch.no_grad()
    def _predict(
        self,
        vectors: torch.Tensor,
        scores: torch.Tensor,
        label_vectors: tuple[torch.Tensor, torch.Tensor] | None,
        lengths: torch.Tensor,
        decoder: str,
    ) -> "Round":
        """Decoder(H): the best heads, and the best label of each."""
        heads = find_heads(scores, lengths, decoder)[:, 0]
        if label_vectors is None:
            return Round(vectors, scores, None, Graph(heads, None), None)
        labels, probs = self._best_labels(label_vectors, heads)
        return Round(vectors, scores, label_vectors, Graph(heads, labels), probs)

    def _best_labels(
        self, label_vectors: tuple[torch.Tensor, torch.Tensor], heads: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The best label of each arc `(B, n)`, -1 for none, and its probability."""
        probs, labels = self.decoder.score_labels(*label_vectors, heads).softmax(-1).max(-1)
        return labels.masked_fill(heads < 0, -1), probs.masked_fill(heads < 0, 0.0)

    def _loss(
        self,
        scores: torch.Tensor,
        label_vectors: tuple[torch.Tensor, torch.Tensor] | None,
        heads: torch.Tensor,
        labels: torch.Tensor | None,
        lengths: torch.Tensor,
    ) -> torch.Tensor:
        """Sum of the losses of arcs and labels in one round."""
        if self.config.arc_loss == "tree":
            if ((heads >= 0).sum(1) != lengths).any():
                raise ValueError("the loss of whole trees needs a head for every word (config.arc_loss)")
            loss = -tree_log_prob(scores, heads, lengths).sum()
        else:
            loss = sum_of_losses(scores, heads)
        if label_vectors is not None and labels is not None:
            loss = loss + sum_of_losses(self.decoder.score_labels(*label_vectors, heads), labels)
        return loss

    def _score_columns(self, sentences: Sentences, vectors: torch.Tensor) -> dict[str, torch.Tensor]:
        """Scores of the values of all columns, given the vectors `(B, n + 1, D)` of a round."""
        assert self.tagger is not None  # config.columns
        return self.tagger(sentences.words(sentences.hidden_states), vectors[:, 1:], sentences.forms)

    def _score_starts(self, sentences: Sentences) -> torch.Tensor:
        """`(B, n)`: logits of a sentence that begins with each word."""
        assert self.segmenter is not None  # config.num_segmentation_layers
        layers = self.config.num_segmentation_layers
        hidden_states = self.rng_transformer.read_upwards(sentences.hidden_states, sentences.mask, layers)
        return self.segmenter(sentences.words(hidden_states)).squeeze(2).float()

    def _segmentation_loss(self, sentences: Sentences, sentence_starts: torch.Tensor) -> torch.Tensor:
        """Sum of the losses of the sentence starts that are known."""
        known = sentence_starts >= 0
        if not known.any():
            return sentences.hidden_states.new_zeros(())
        scores = self._score_starts(sentences.select(known.any(1)))[known[known.any(1)]]
        starts = sentence_starts[known].to(scores.dtype)
        return nn.functional.binary_cross_entropy_with_logits(scores, starts, reduction="sum")
