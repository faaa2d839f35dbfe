"""
Recursive Non-autoregressive Graph-to-Graph Transformer (Mohammadshahi & Henderson 2021, "Recursive Non-Autoregressive
Graph-to-Graph Transformer for Dependency Parsing with Iterative Refinement").

A parser that predicts all arcs at once, reads the graph that it predicted in its self-attention, and predicts again:

    H^t = Encoder(words, G^(t-1))      G^t = Decoder(H^t)      t = 1 .. T

until the graph does not change any more. G^0 is empty, or what any other parser gave.

Shapes: B sentences, n words of the longest, L positions of the encoder (the root, pieces, the end), m of these that
are queried, D hidden_size, A label_size.
"""

from typing import Any

import torch
from torch.utils._pytree import tree_map_only
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import can_return_tuple
from transformers.utils.output_capturing import capture_outputs

from hf_structure.algorithms.spanning_tree import (
    check_decoder,
    chosen_scores,
    find_heads,
    tree_log_prob,
)
from hf_structure.models.modeling_outputs import DecoderOutput, GraphParserOutput
from hf_structure.models.rng_transformer.configuration_rng_transformer import RNGTransformerConfig
from hf_structure.models.rng_transformer.scoring_rng_transformer import (
    Gold,
    Scores,
    ScoringMixin,
    best_heads,
    sum_of_losses,
)
from hf_structure.models.rng_transformer.words_rng_transformer import Sentences, WordsMixin, differ, select, write
from hf_structure.modules.character_segmenter import CharacterSegmenter
from hf_structure.modules.encoder_start import MODEL_TYPES, PretrainedEncoderMixin
from hf_structure.modules.graph_encoder import GraphEncoderModel, GraphPreTrainedModel, refuse_states
from hf_structure.modules.graph_transformer import Arcs, RelativePositionBias
from hf_structure.modules.padding import check_one_input


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
        num_labels = [
            config.num_relations * (layer in config.graph_layers) for layer in range(config.num_hidden_layers)
        ]
        self.layers = self.new_layers(num_labels, config.scale_relations)
        self.post_init()

    @capture_outputs
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        parents: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> BaseModelOutput:
        """
        Args:
            input_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): Ids of words or word pieces.
            attention_mask (`torch.Tensor` of shape `(batch_size, seq_len)`, *optional*): 1 for input, 0 for padding.
            parents (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*):
                The graph: the position of each position's head, -1 for none.
            labels (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): The labels of these arcs.
            inputs_embeds (`torch.FloatTensor` of shape `(batch_size, seq_len, hidden_size)`, *optional*):
                Vectors, instead of `input_ids`.

        Raises:
            ValueError: if there are not either ids or vectors, a sequence is longer than the positions reach, or there
                is a graph but no graph input.
        """
        if parents is not None and not self.config.use_graph_input:
            raise ValueError("this model reads no graph (config.use_graph_input)")
        check_one_input(input_ids, inputs_embeds)
        embedded = self.get_input_embeddings()(input_ids) if inputs_embeds is None else inputs_embeds
        hidden_states, mask = self.read(embedded, attention_mask)
        arcs = None if parents is None else Arcs(parents, labels)
        return BaseModelOutput(last_hidden_state=self.read_graph(hidden_states, mask, arcs))

    def read(
        self, inputs_embeds: torch.Tensor, attention_mask: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Runs the layers below the first one that reads the graph: vectors `(B, L, D)`, and the attention mask."""
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
        """Final vectors of all positions, or of `query_positions` `(B, m)`, from the output of [`read`]."""
        for layer in self.layers[self.config.num_lower_layers : -1]:
            hidden_states = layer(hidden_states, mask, arcs)
        return self.layers[-1](hidden_states, mask, arcs, query_positions).to(mask.device)

    def read_upwards(self, hidden_states: torch.Tensor, mask: torch.Tensor, num_layers: int) -> torch.Tensor:
        """Vectors `(B, L, D)` above the first `num_layers` layers, without a graph, from the output of [`read`]."""
        for layer in self.layers[self.config.num_lower_layers : num_layers]:
            hidden_states = layer(hidden_states, mask)
        return hidden_states.to(mask.device)


class RNGTransformerForParsing(WordsMixin, ScoringMixin, PretrainedEncoderMixin, RNGTransformerPreTrainedModel):
    """The parser: it predicts a graph, reads it, and predicts again."""

    encoder_types = (*MODEL_TYPES, "mpnet")

    def __init__(self, config: RNGTransformerConfig):
        super().__init__(config)
        self.rng_transformer = RNGTransformerModel(config)
        self.add_embeddings(config)
        self.add_scorers(config)
        if config.segmenter is not None:
            # It reads text before there are words: `forward` does not run or train it.
            self.character_segmenter = CharacterSegmenter(config.segmenter)
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
        # Not `initial_labels`: transformers' Trainer evaluates only batches with all arguments named after labels.
        initial_deprels: torch.Tensor | None = None,
        heads: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        columns: dict[str, torch.Tensor] | None = None,
        constituents: torch.Tensor | None = None,
        sentence_starts: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> GraphParserOutput:
        """
        Scores all arcs in each of `config.num_rounds` rounds. Between rounds every word takes its best head, without
        gradient.

        Args:
            input_ids, attention_mask, word_ids, tag_ids, form_ids, treebank_ids, inputs_embeds:
                As in [`embed_words`]; vectors (`inputs_embeds`) replace `input_ids`.
            initial_heads (`torch.LongTensor` of shape `(batch_size, num_words)`, *optional*): The graph that the first
                round reads: heads (words from 1, 0 is the root, negative for none). By default it is empty.
            initial_deprels (`torch.LongTensor` of shape `(batch_size, num_words)`, *optional*):
                The labels of these arcs, negative where they are not known: a model with labels leaves out these arcs.
            heads (`torch.LongTensor` of shape `(batch_size, num_words)`, *optional*):
                The heads to learn, negative for padding and for words that have none.
            labels (`torch.LongTensor` of shape `(batch_size, num_words)`, *optional*):
                The relation labels to learn; -100 for padding, and for words whose label is not known.
            columns (`dict[str, torch.LongTensor]`, tensors of shape `(batch_size, num_words)`, *optional*):
                Values to learn of `config.columns`, by name; -100 for padding, and where they are not known.
            constituents (`torch.LongTensor` of shape `(batch_size, num_constituents, 3)`, *optional*):
                The constituents to learn: start and end, half-open in words from 0, and label, an index of
                `config.constituents`; -1 for padding. Sentences may have these, heads, or both.
            sentence_starts (`torch.LongTensor` of shape `(batch_size, num_words)`, *optional*):
                1 for words of running text that begin a sentence, else 0; -100 for padding, and if it is
                not known. Running text has no heads to learn (all negative) and is not parsed.
            num_items_in_batch (`int`, *optional*):
                Divisor of the sum of losses; the number of words with a label (or head) by default.

        The loss, returned when `heads` and, in a model with labels, `labels` are given, is the sum over all rounds of
        the losses of arcs (`config.arc_loss`), of the cross-entropies of the labels of the arcs to learn and of the
        values of columns, and of -log p of the constituency trees; and of the cross-entropy of sentence starts. With
        `sentence_starts`, `logits` are those of the sentences with trees to learn, None if there are none.

        Raises:
            ValueError: if hidden states or attentions are asked for, there are not either ids or vectors, or no
                `form_ids` for a model that reads them, a sentence is too long, a word has no head in the loss of whole
                trees, or there is an initial graph in a model that reads none, or without labels that it reads.
        """
        refuse_states(kwargs, "a sentence several times")
        read = (attention_mask, word_ids, tag_ids, form_ids, treebank_ids)
        sentences, left_align = self.read_words(check_one_input(input_ids, inputs_embeds), *read)
        arcs = self.initial_arcs(left_align(initial_heads), left_align(initial_deprels), sentences)
        of_words = tree_map_only(torch.Tensor, left_align, Gold(heads, labels, columns or {}, None))
        gold = of_words._replace(constituents=constituents)
        if heads is None or (labels is None and self.config.labelled):
            return self._all_rounds(sentences, arcs, gold)[0]
        if num_items_in_batch is None:
            num_items_in_batch = ((gold.heads if gold.labels is None else gold.labels) >= 0).sum()
        divisor = torch.as_tensor(num_items_in_batch).clamp(min=1)
        segmentation_loss: Any = 0.0
        if sentence_starts is not None:
            segmentation_loss = self.segmentation_loss(sentences, left_align(sentence_starts))
            # Running text is read to find sentences alone: it has no heads, and may be longer than any sentence.
            is_parsed = gold.has_tree
            if not is_parsed.any():
                return GraphParserOutput(loss=segmentation_loss / divisor)
            sentences, arcs, gold = select((sentences, arcs, gold), is_parsed)
        output, loss = self._all_rounds(sentences, arcs, gold, learns=True)
        output.loss = (segmentation_loss + loss) / divisor
        return output

    def _all_rounds(
        self, sentences: Sentences, arcs: Arcs | None, gold: Gold, learns: bool = False
    ) -> tuple[GraphParserOutput, Any]:
        """Scores of the last round, and the sum of the losses of all rounds, from the graph that the first reads."""
        loss: Any = 0.0
        for number in range(self.config.num_rounds):
            scores = self.score(self.encode(sentences, arcs), sentences.lengths)
            column_scores = self.score_columns(sentences, scores.vectors)
            if learns:
                loss = loss + self.loss(scores, column_scores, sentences.lengths, gold)
            if number < self.config.num_rounds - 1:
                arcs, _ = self._predict(scores, best_heads(scores.arcs, sentences.lengths))
        output = GraphParserOutput(logits=scores.arcs, column_logits=column_scores or None)
        if scores.label_vectors is not None:
            heads = best_heads(scores.arcs, sentences.lengths) if gold.heads is None else gold.heads
            output.label_logits = self.decoder.score_labels(*scores.label_vectors, heads)
        return output, loss

    def encode(self, sentences: Sentences, arcs: Arcs | None) -> torch.Tensor:
        """Encoder(words, G): vectors of the root and the words, `(B, n + 1, D)`, with a graph over words."""
        if arcs is not None:
            arcs = self.arcs_of_positions(sentences, arcs)
        return self.rng_transformer.read_graph(sentences.hidden_states, sentences.mask, arcs, sentences.positions)

    def score(self, vectors: torch.Tensor, lengths: torch.Tensor) -> Scores:
        """Scores of arcs and labels, from vectors of the root and the words."""
        arcs = self.decoder.score_arcs(vectors, lengths)
        return Scores(vectors, arcs, self.decoder.label_vectors(vectors) if self.config.labelled else None)

    def loss(
        self, scores: Scores, column_scores: dict[str, torch.Tensor], lengths: torch.Tensor, gold: Gold
    ) -> torch.Tensor:
        """Sum of the losses of arcs, labels, columns and constituents in one round."""
        heads, labels, columns, constituents = gold
        if self.config.arc_loss == "tree":
            # Sentences may have constituents alone, and no heads.
            rows = (heads >= 0).any(1) if constituents is not None else lengths > 0
            if ((heads >= 0).sum(1) != lengths)[rows].any():
                raise ValueError("the loss of whole trees needs a head for every word (config.arc_loss)")
            loss = -tree_log_prob(scores.arcs, heads, lengths)[rows].sum()
        else:
            loss = sum_of_losses(scores.arcs, heads)
        if scores.label_vectors is not None and labels is not None:
            labels = labels.masked_fill(heads < 0, -100)
            loss = loss + sum_of_losses(self.decoder.score_labels(*scores.label_vectors, heads), labels)
        if self.constituents is not None and constituents is not None:
            loss = loss + self.constituents.loss(scores.vectors, constituents, lengths)
        return loss + sum(sum_of_losses(column_scores[name], values) for name, values in columns.items())

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
        initial_deprels: torch.Tensor | None = None,
        decoder: str = "tree",
        k: int = 1,
        marginals: bool = False,
        num_rounds: int | None = None,
        constituents: int = 1,
        column_probabilities: bool = False,
    ) -> DecoderOutput:
        """
        Parses a batch of sentences. Those whose graph does not change any more take no part in further rounds.
        Other arguments are as in `forward`; the output is left-aligned, wherever the padding is.

        Args:
            decoder (`"tree"`, `"projective"` or `"argmax"`): Every round predicts the best tree with one root, the
                best such tree without crossing arcs, or each word's best head.
            k (`int`): Number of trees, best first. The last round gives them; each has its best labels.
            marginals (`bool`): Add arc marginals over all trees with one root, from the last round.
            num_rounds (`int`, *optional*): Largest number of rounds, by default `config.num_rounds`.
            constituents (`int`): Number of constituency trees, best first, if the model predicts them; 0 for none.
            column_probabilities (`bool`): Add the probabilities of the columns' values.

        Raises:
            ValueError: if `decoder` is unknown, `k` does not fit it, a sentence is too long or a score NaN, if there
                are several rounds or an initial graph in a model that reads none, or one without labels that it reads.
        """
        check_decoder(decoder, k)
        read = (attention_mask, word_ids, tag_ids, form_ids, treebank_ids)
        sentences, left_align = self.read_words(check_one_input(input_ids, inputs_embeds), *read)
        arcs = self.initial_arcs(left_align(initial_heads), left_align(initial_deprels), sentences)
        scores, *tree = self.refine(sentences, arcs, decoder, num_rounds)
        trees: list[Any] = [tree]
        if k > 1:
            best = find_heads(scores.arcs, sentences.lengths, decoder, k)  # (B, k, n)
            trees = [self._predict(scores, heads) for heads in best.unbind(1)]
        output = self._with_labels(scores, trees)
        if decoder != "argmax":
            output.log_probs = self.tree_log_probs(scores.arcs, output.heads, sentences.lengths)
        if marginals:
            output.marginals = self.arc_marginals(scores.arcs, sentences.lengths)
        output.columns |= self.best_columns(sentences, scores.vectors, output.heads >= 0, column_probabilities)
        if self.constituents is not None and constituents:
            best = self.constituents.decode(scores.vectors, sentences.lengths, int(constituents))
            output = DecoderOutput(**output, **best)
        return output

    def _with_labels(self, scores: Scores, trees: list[Any]) -> Any:
        """The heads of `k` trees with their probabilities; in a model with labels, also the labels with theirs."""
        heads = torch.stack([tree.heads for tree, _ in trees], dim=1)  # (B, k, n)
        head_probs = chosen_scores(self.probabilities("heads", scores.arcs), heads)
        columns: dict[str, Any] = {"probabilities": head_probs.masked_fill(heads < 0, 0.0)}
        if self.config.labelled:
            columns["labels"] = torch.stack([tree.labels for tree, _ in trees], dim=1)  # (B, k, n)
            columns["label_probabilities"] = torch.stack([probs for _, probs in trees], dim=1)  # (B, k, n)
        return DecoderOutput(heads=heads, columns=columns)

    def refine(
        self, sentences: Sentences, arcs: Arcs | None, decoder: str, num_rounds: int | None
    ) -> tuple[Scores, Arcs, torch.Tensor | None]:
        """Scores, arcs and probabilities of labels in the last round of each sentence."""
        num_rounds = self.config.num_rounds if num_rounds is None else num_rounds
        if num_rounds < 1 or (num_rounds > 1 and not self.config.use_graph_input):
            raise ValueError(f"num_rounds={num_rounds} is not possible: at least 1, and only 1 without graph input")
        active = torch.arange(len(sentences.lengths), device=sentences.lengths.device)
        result: Any = None
        for _ in range(num_rounds):
            rest = select(sentences, active)
            scores = self.score(self.encode(rest, arcs), rest.lengths)
            latest = scores, *self._predict(scores, find_heads(scores.arcs, rest.lengths, decoder)[:, 0])
            result = latest if result is None else write(result, active, latest)
            if arcs is not None:
                # A sentence that gives the graph that it has read would do so in all further rounds.
                changed = differ(latest[1], arcs)
                active = active[changed]
                latest = select(latest, changed)
            if not len(active):
                break
            arcs = latest[1]
        return result

    @torch.no_grad()
    def _predict(self, scores: Scores, heads: torch.Tensor) -> tuple[Arcs, torch.Tensor | None]:
        """The arcs from these heads `(B, n)` with their best labels, -1 for none, and the probabilities of these."""
        if scores.label_vectors is None:
            return Arcs(heads), None
        label_scores = self.decoder.score_labels(*scores.label_vectors, heads)
        labels = label_scores.argmax(-1)
        probs = self.probabilities("labels", label_scores).gather(2, labels.unsqueeze(2)).squeeze(2)  # (B, n)
        return Arcs(heads, labels.masked_fill(heads < 0, -1)), probs.masked_fill(heads < 0, 0.0)
