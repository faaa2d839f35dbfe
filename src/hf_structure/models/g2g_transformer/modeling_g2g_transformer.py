"""
Graph-to-Graph Transformer (Mohammadshahi & Henderson, "Graph-to-Graph Transformer for Transition-based Dependency
Parsing", arXiv:1911.03561v1; with the SWAP action of the version in Findings of EMNLP 2020).

A transition-based parser whose every decision is made by a Transformer that reads the parser's whole state: stack,
buffer and deleted words as a sequence, and the arcs made so far through its self-attention. Equation numbers refer
to the paper's first version.

Shapes: B sentences, n words, L positions of a state's sequence, D the width of vectors. A sentence's table of n + 4
vectors holds the root, the words, [CLS], [SEP] and [NULL]; `decisions` are the states of a batch with a choice.
"""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import can_return_tuple
from transformers.utils.output_capturing import capture_outputs

from hf_structure.algorithms.transitions import NO_ACTION, SHIFT, TransitionStates
from hf_structure.models.g2g_transformer.configuration_g2g_transformer import G2GTransformerConfig
from hf_structure.models.g2g_transformer.decoding_g2g_transformer import beam_search
from hf_structure.models.g2g_transformer.outputs_g2g_transformer import TransitionParserOutput
from hf_structure.models.g2g_transformer.states_g2g_transformer import (
    CPU_PADDING,
    DELETED,
    GPU_PADDING,
    Compositions,
    Derivations,
    StateSequences,
    compositions,
    is_arc,
    length_groups,
    oracle_derivations,
    sequence_lengths,
    state_sequences,
)
from hf_structure.models.modeling_outputs import DecoderOutput
from hf_structure.modules.affine import all_rows
from hf_structure.modules.calls import no_compile
from hf_structure.modules.dropout import Dropout
from hf_structure.modules.encoder_start import PretrainedEncoderMixin
from hf_structure.modules.graph_encoder import GraphEncoderModel, GraphPreTrainedModel, refuse_states
from hf_structure.modules.graph_transformer import Arcs, take
from hf_structure.modules.lstm import LSTM
from hf_structure.modules.padding import check_one_input, ones_mask
from hf_structure.modules.words import WordPlaces, average_pieces, place_words

SEGMENTS = 3  # stack (or all of a plain sentence), buffer, deleted words


class G2GTransformerPreTrainedModel(GraphPreTrainedModel):
    """Base of the Graph-to-Graph Transformer models."""

    config: G2GTransformerConfig
    config_class = G2GTransformerConfig
    base_model_prefix = "g2g_transformer"


class G2GTransformerModel(GraphEncoderModel, G2GTransformerPreTrainedModel):
    """A Transformer encoder that reads a sequence and a forest of arcs over it."""

    def __init__(self, config: G2GTransformerConfig):
        super().__init__(config, SEGMENTS)  # eq. 5
        num_labels = int(config.use_graph_input)  # labels are read from the deleted words
        self.layers = self.new_layers([num_labels] * config.num_hidden_layers)  # eq. 9 and 10
        self.post_init()

    @capture_outputs
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        parents: torch.Tensor | None = None,
        segment_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        query_positions: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        **kwargs,
    ) -> BaseModelOutput:
        """
        Args:
            input_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): Ids of words or word pieces.
            attention_mask (`torch.Tensor` of shape `(batch_size, seq_len)`, *optional*): 1 for input, 0 for padding.
            parents (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*):
                The graph: the position of each position's head, -1 for none.
            segment_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*):
                0 (stack, or all of a plain sentence), 1 (buffer) or 2 (deleted words).
            inputs_embeds (`torch.FloatTensor` of shape `(batch_size, seq_len, hidden_size)`, *optional*):
                Vectors, instead of `input_ids`.
            query_positions (`torch.LongTensor` of shape `(batch_size, num_queries)`, *optional*):
                Different positions; the last layer computes the vectors of these only.
            position_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*):
                Numbers of the positions for the embeddings; 0, 1, ... by default, padding not counted.

        Raises:
            ValueError: if there are not either ids or vectors, a sequence is longer than the positions reach, or there
                is a graph but no graph input.
        """
        check_one_input(input_ids, inputs_embeds)
        embedded = self.get_input_embeddings()(input_ids) if inputs_embeds is None else inputs_embeds
        if parents is not None and not self.config.use_graph_input:
            raise ValueError("this model reads no graph (config.use_graph_input)")
        hidden_states, mask = self.embed(embedded, attention_mask, position_ids, segment_ids)
        arcs = None if parents is None else Arcs(parents)
        for layer in self.layers[:-1]:
            hidden_states = layer(hidden_states, mask, arcs)
        hidden_states = self.layers[-1](hidden_states, mask, arcs, query_positions)
        return BaseModelOutput(last_hidden_state=hidden_states.to(embedded.device))  # wherever the layers are


class G2GTransformerComposition(nn.Module):
    """Update of a word on the stack by a dependent, eq. 3; the caller adds the word's own vector."""

    def __init__(self, config: G2GTransformerConfig):
        super().__init__()
        self.hidden = nn.Linear(3 * config.embedding_size, config.embedding_size)
        self.output = nn.Linear(config.embedding_size, config.embedding_size)

    def forward(self, word: torch.Tensor, dependent: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return self.output(torch.tanh(self.hidden(torch.cat([word, dependent, label], dim=-1))))


class G2GTransformerHistory(nn.Module):
    """LSTM over the actions taken so far (section 3.3); a start symbol comes before the first."""

    def __init__(self, config: G2GTransformerConfig):
        super().__init__()
        size = config.history_size
        self.embeddings = nn.Embedding(config.num_actions + 1, size)
        self.lstm = LSTM(size, size, config.history_num_layers, batch_first=True)

    def forward(
        self, actions: torch.Tensor, memory: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """
        Args:
            actions (`torch.LongTensor` of shape `(batch_size, steps)`): Actions; -1 before the first one.
            memory (pair of `torch.FloatTensor` of shape `(num_layers, batch_size, size)`, *optional*): To go on from.

        Returns:
            The history after each action `(batch_size, steps, size)`, and the memory after the last one.
        """
        return self.lstm(self.embeddings(actions + 1), memory)


class G2GTransformerClassifier(nn.Module):
    """Perceptron with one hidden layer, eq. 12."""

    def __init__(self, config: G2GTransformerConfig, num_classes: int):
        super().__init__()
        size = (2 if config.use_graph_output else 1) * config.hidden_size
        size += config.history_size if config.use_history else 0
        self.hidden = nn.Linear(size, config.classifier_hidden_size)
        self.dropout = Dropout(config.classifier_dropout)
        self.output = nn.Linear(config.classifier_hidden_size, num_classes)

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        return self.output(self.dropout(torch.relu(self.hidden(state))))


class G2GTransformerForParsing(PretrainedEncoderMixin, G2GTransformerPreTrainedModel):
    """The parser: a Graph-to-Graph Transformer over parser states that predicts the next action and its label."""

    encoder_layers = 6  # section 3.5
    encoder_segments = SEGMENTS

    def __init__(self, config: G2GTransformerConfig):
        super().__init__(config)
        size = config.embedding_size
        has_composition = config.composition != "none"
        self.g2g_transformer = G2GTransformerModel(config)
        # [CLS], [SEP], the root, and [NULL] where words are composed.
        self.special_embeddings = nn.Embedding(4 if has_composition else 3, size)
        self.tag_embeddings = nn.Embedding(config.num_tags, size) if config.num_tags else None
        self.composition = G2GTransformerComposition(config) if has_composition else None
        self.label_embeddings = None
        if has_composition or config.use_graph_input:  # labels of left arcs, labels of right arcs, [L-NULL]
            self.label_embeddings = nn.Embedding(2 * config.num_relations + 1, size)
        self.history = G2GTransformerHistory(config) if config.use_history else None
        self.exist_classifier = G2GTransformerClassifier(config, config.num_actions)
        self.relation_classifier = None
        if config.labelled:
            self.relation_classifier = G2GTransformerClassifier(config, 2 * config.num_relations)
        self.post_init()

    # The paper's equations, for any states of any sentences.

    @no_compile
    def embed_words(
        self,
        pieces: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        word_ids: torch.Tensor | None = None,
        tag_ids: torch.Tensor | None = None,
        num_words: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, WordPlaces]:
        """
        Vectors of the root, the words (eq. 2), [CLS], [SEP] and, where words are composed, [NULL], `(batch_size,
        n + 4, hidden_size)`; and the words that the pieces belong to.
        """
        if attention_mask is None:
            attention_mask = ones_mask(pieces)
        places = place_words(attention_mask, word_ids, num_words)
        n = max(int(places.lengths.max()), 1)
        if n > self.config.max_words:
            raise ValueError(
                f"a sentence has {n} words, more than the {self.config.max_words} that this model has positions for"
            )
        words = average_pieces(self.get_input_embeddings(), pieces, places.word_ids, n, self.config.unk_token_id)
        if self.tag_embeddings is not None and tag_ids is not None:
            tags = places.left_align(tag_ids, n)
            words = words + self.tag_embeddings(tags.clamp(min=0)).masked_fill(tags.unsqueeze(2) < 0, 0.0)
        # Appended to the words, so that a state names any of its vectors by one index.
        special = all_rows(self.special_embeddings, words.device).to(words.dtype)
        cls, sep, root, *null = special.expand(len(words), *special.shape).unsqueeze(2).unbind(1)  # (B, 1, D) each
        return torch.cat([root, words, cls, sep, *null], dim=1), places

    def compositions(self, before: TransitionStates, after: TransitionStates, actions: torch.Tensor) -> Compositions:
        """The words that are composed after transitions, each with its dependent."""
        return compositions(before, after, actions)

    def compose(self, vectors: torch.Tensor, plan: Compositions) -> torch.Tensor:
        """New vectors of composed words, eq. 3 and 4; `vectors` `(batch, n + 4, D)` has the rows of the plan."""
        assert self.composition is not None  # config.composition
        word = vectors[plan.rows, plan.words]
        return word + self.composition(word, vectors[plan.rows, plan.dependents], self.embed_labels(plan.labels))

    def embed_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """Vectors of labels, [L-NULL] for -1."""
        assert self.label_embeddings is not None  # where words are composed
        return self.label_embeddings(torch.where(labels < 0, 2 * self.config.num_relations, labels))

    def read_history(
        self, actions: torch.Tensor, labels: torch.Tensor, memory: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """[`G2GTransformerHistory`] of actions `(batch, steps)`; the labels of their arcs are not read."""
        assert self.history is not None  # config.use_history
        return self.history(actions, memory)

    def sequence_lengths(self, states: TransitionStates) -> torch.Tensor:
        """`(batch,)`: lengths of [`sequences`]."""
        return sequence_lengths(states, self.config.use_graph_input)

    def sequences(self, states: TransitionStates) -> StateSequences:
        """Stack and buffer as a sequence, eq. 5, with deleted words if the encoder reads a graph."""
        return state_sequences(states, self.config.use_graph_input, self.config.top_position)

    def deciding_positions(self, top: torch.Tensor) -> torch.Tensor:
        """Positions of s2 and s1, eq. 11, or of the start symbol, from positions of s1 `(batch, 1)`."""
        return torch.cat([top - 1, top], dim=1) if self.config.use_graph_output else torch.zeros_like(top)

    def score_sequences(
        self, sequences: StateSequences, table: torch.Tensor, versions: torch.Tensor, history: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Scores of actions and labels in the states that the sequences are; the rest as for [`score_states`]."""
        vectors = nn.functional.embedding(versions.gather(1, sequences.words), table)  # (B, L, D)
        if self.config.use_graph_input:
            vectors = vectors + self._deleted_labels(sequences)
        state = self.g2g_transformer(
            inputs_embeds=vectors,
            attention_mask=sequences.mask,
            parents=sequences.parents if self.config.use_graph_input else None,
            segment_ids=sequences.segments,
            query_positions=self.deciding_positions(sequences.top.unsqueeze(1)),
            position_ids=sequences.positions,
        ).last_hidden_state  # eq. 11
        return self.classify(state, history)

    def _deleted_labels(self, sequences: StateSequences) -> torch.Tensor:
        """`(B, L, D)`: vectors of the labels of deleted words, zero elsewhere."""
        assert self.label_embeddings is not None  # config.use_graph_input
        null = 2 * self.config.num_relations
        labels = torch.where(sequences.labels < 0, null, sequences.labels)
        labels = torch.where(sequences.segments == DELETED, labels, null + 1)
        # A row of zeros for positions that are not deleted words: one lookup instead of a mask.
        table = all_rows(self.label_embeddings, labels.device)
        return nn.functional.embedding(labels, torch.cat([table, torch.zeros_like(table[:1])]))

    def classify(self, state: torch.Tensor, history: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Scores of actions and labels, eq. 12, from the vectors that decide `(batch, 2, D)` and the history."""
        state = state.flatten(1)  # (batch, 2 * D)
        if history is not None:
            state = torch.cat([state, history.to(state.dtype)], dim=1)
        label_scores = None if self.relation_classifier is None else self.relation_classifier(state)
        return self.exist_classifier(state), label_scores

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        word_ids: torch.Tensor | None = None,
        tag_ids: torch.Tensor | None = None,
        num_words: torch.Tensor | None = None,
        heads: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> TransitionParserOutput:
        """
        Scores all decisions on the way to given trees, under the static oracle. As all states are known beforehand,
        they go through the encoder as independent rows, many at a time; words are composed, and the history is read,
        once for a sentence.

        Args:
            input_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): Ids of words or word pieces.
            attention_mask (`torch.Tensor` of shape `(batch_size, seq_len)`, *optional*): 1 for input, 0 for padding.
            word_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): Number of the word, from 0,
                that each word piece belongs to, -1 for none (special tokens). The pieces' vectors are averaged. A word
                without pieces has the vector of `config.unk_token_id`, or zero. By default every id is a word.
            tag_ids (`torch.LongTensor` of shape `(batch_size, num_words)`, *optional*):
                Part-of-speech tags, -1 for none; read if `config.num_tags`.
            num_words (`torch.LongTensor` of shape `(batch_size,)`, *optional*): Length of each sentence, needed only
                where its last words have no pieces. By default the number of heads, or of words in the input.
            heads (`torch.LongTensor` of shape `(batch_size, num_words)`, *optional*):
                Heads (words from 1, 0 is the root, negative for padding). By default the model's own greedy parse.
            labels (`torch.LongTensor` of shape `(batch_size, num_words)`, *optional*):
                Relation labels; -100 for padding, and for words whose label is not known.
            num_items_in_batch (`int`, *optional*):
                Divisor of the sum of losses; the number of words with a label (or head) by default.
            inputs_embeds (`torch.FloatTensor` of shape `(batch_size, seq_len, hidden_size)`, *optional*):
                Vectors of words or word pieces, instead of `input_ids`.

        `tag_ids`, `heads` and `labels` hold the words of each sentence first if there are `word_ids`, and else are
        padded as `input_ids`.

        The loss, returned when `heads` and, in a model with labels, `labels` are given, is the sum of the
        cross-entropies of all actions (among the legal ones) and labels (given the direction).

        Raises:
            ValueError: if hidden states or attentions are asked for, if there are not either ids or vectors, or if a
                sentence is too long, has not as many heads as words, or cannot be learned from (see `why_unusable` of
                `states_g2g_transformer`).
        """
        refuse_states(kwargs, "many states of a sentence")
        if heads is not None and num_words is None:
            num_words = (heads >= 0).sum(1)
        pieces = check_one_input(input_ids, inputs_embeds)
        vectors, words = self.embed_words(pieces, attention_mask, word_ids, tag_ids, num_words)
        with_loss = heads is not None and (labels is not None or not self.config.labelled)
        if heads is None:
            # The tree is an input like a given one: no gradient flows through the search.
            heads, labels = self._greedy_tree(vectors.detach(), words.lengths)
        else:
            labels = words.left_align(labels, heads.shape[1])
            heads = words.left_align(heads, heads.shape[1])
        path = oracle_derivations(heads, labels, words.lengths, self.config)
        table, versions = self._compose_path(vectors, path)
        history = self._history_on_path(path, vectors.device)
        scores, label_scores = self.score_states(path.before.select(path.decisions), table, versions, history)
        return TransitionParserOutput(
            loss=self._loss(path, scores, label_scores, num_items_in_batch) if with_loss else None,
            logits=path.by_sentence(scores),
            label_logits=None if label_scores is None else path.by_sentence(label_scores),
            actions=path.actions.to(vectors.device),
        )

    def _greedy_tree(self, vectors: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Heads and labels, `(batch, n)`, that greedy search predicts."""
        parse = beam_search(self, vectors, lengths)
        assert parse.heads is not None
        assert parse.columns is not None
        return parse.heads[:, 0], parse.columns["labels"][:, 0] if self.config.labelled else None

    @torch.no_grad()
    def decode(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        *,
        inputs_embeds: torch.Tensor | None = None,
        word_ids: torch.Tensor | None = None,
        tag_ids: torch.Tensor | None = None,
        num_words: torch.Tensor | None = None,
        decoder: str = "tree",
        beam_size: int | None = None,
        k: int = 1,
        marginals: bool = False,
    ) -> DecoderOutput:
        """
        Parses a batch of sentences, all of them one action at a time; those that are finished are left out. Fastest if
        the sentences have similar lengths.

        The probability of a tree is the sum over its derivations, of which only those in the beam are counted. The
        greedy parse always stays in the beam, so the best tree is never less probable. The
        probability of a head is the probability of the action that attached the word, in the state it was taken in.

        Args:
            input_ids, attention_mask, inputs_embeds, word_ids, tag_ids, num_words:
                As in `forward`. The output holds the words of each sentence first, wherever the padding is.
            decoder (`"tree"` or `"projective"`): With or without SWAP, if the model has it.
            beam_size (`int`, *optional*):
                Number of derivations followed; 1 is greedy. By default 1, or `4 * k` if `k` is more than 1.
            k (`int`): Number of trees, best first; trees that differ in labels are different.
            marginals (`bool`): Add the probability of each arc among the trees in the beam.

        Raises:
            ValueError: if `decoder` is unknown, `k` does not fit `beam_size`, a sentence is too long, or a score NaN.
        """
        if decoder not in ("tree", "projective"):
            raise ValueError(f"decoder must be 'tree' or 'projective', not {decoder!r}")
        if beam_size is None:
            beam_size = 1 if k == 1 else 4 * k
        if not 1 <= k <= beam_size:
            raise ValueError(f"k={k} is not possible with beam_size={beam_size}: it must be between 1 and beam_size")
        pieces = check_one_input(input_ids, inputs_embeds)
        vectors, words = self.embed_words(pieces, attention_mask, word_ids, tag_ids, num_words)
        swap = self.config.use_swap and decoder == "tree"
        return beam_search(self, vectors, words.lengths, beam_size=beam_size, k=k, swap=swap, marginals=marginals)

    @torch.no_grad()
    def encoder_inputs(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        *,
        word_ids: torch.Tensor | None = None,
        tag_ids: torch.Tensor | None = None,
    ) -> tuple[dict[str, torch.Tensor | None], torch.Tensor]:
        """
        Inputs of the base model in the first state with a choice of actions, with two words on the stack and the
        others in the buffer; and the word of each position, from 1, 0 for none, `(batch_size, seq_len)`. Arguments as
        for `forward`.
        """
        vectors, places = self.embed_words(input_ids, attention_mask, word_ids, tag_ids)
        states = TransitionStates.initial(places.lengths)
        for _ in range(2):
            actions = torch.where(states.legal_actions()[:, SHIFT], SHIFT, NO_ACTION)
            before = states
            states = before.step(actions)
            if self.composition is not None:
                plan = self.compositions(before, states, actions)
                vectors = vectors.index_put((plan.rows, plan.words), self.compose(vectors, plan))  # (B, n + 4, D)
        sequences = self.sequences(states)
        embedded = take(vectors, sequences.words)  # (B, L, D)
        inputs = {"attention_mask": sequences.mask, "segment_ids": sequences.segments}
        if self.config.use_graph_input:
            embedded = embedded + self._deleted_labels(sequences)
            inputs["parents"] = sequences.parents
        is_word = sequences.mask & (sequences.words <= places.lengths.unsqueeze(1))
        words = sequences.words.masked_fill(~is_word, 0)
        return {"inputs_embeds": embedded, "position_ids": sequences.positions, **inputs}, words

    @no_compile
    def _loss(
        self,
        path: Derivations,
        scores: torch.Tensor,
        label_scores: torch.Tensor | None,
        num_items: torch.Tensor | int | None,
    ) -> torch.Tensor:
        """Sum of the cross-entropies of actions and labels, divided by the number of words with a label (or head)."""
        device = scores.device
        legal = path.before.select(path.decisions).legal_actions(self.config.use_swap).to(device)
        scores = scores.float().masked_fill(~legal, torch.finfo(torch.float32).min)
        total = nn.functional.cross_entropy(scores, path.decided(path.actions).to(device), reduction="sum")
        count = is_arc(path.actions).sum()
        if label_scores is not None:
            classes = path.decided(path.labels)
            known = (classes >= 0).nonzero().flatten()
            count = len(known)
            classes = classes[known].to(device)
            relations = self.config.num_relations
            by_direction = label_scores.float()[known.to(device)].view(-1, 2, relations)  # (known, 2, num_relations)
            chosen = by_direction[torch.arange(count, device=device), classes // relations]
            total = total + nn.functional.cross_entropy(chosen, classes % relations, reduction="sum")
        return total / torch.as_tensor(count if num_items is None else num_items).clamp(min=1)

    # All decisions of a batch, many states at a time.

    @no_compile
    def _compose_path(self, vectors: torch.Tensor, path: Derivations) -> tuple[torch.Tensor, torch.Tensor]:
        """
        All vectors that words have along the derivations `(number, D)`, and the words' rows among them in the states
        with a decision `(decisions, n + 4)`.
        """
        batch, size = vectors.shape[:2]
        steps = path.actions.shape[1]
        table = [vectors.flatten(0, 1)]  # (B * (n + 4), D)
        # Composition changes few vectors a step: each state refers to rows of one table, none is copied.
        versions = torch.arange(batch * size).view(batch, size).repeat(steps + 1, 1, 1)  # (steps + 1, B, n + 4)
        if self.composition is not None:
            plan = self.compositions(path.before, path.after, path.actions.T.flatten())  # (steps * B,)
            step = plan.rows // batch
            plan = plan._replace(rows=plan.rows % batch)
            versions[step + 1, plan.rows, plan.words] = batch * size + torch.arange(len(step))
            versions = versions.cummax(0).values  # a vector stays until there is a newer one
            counts = torch.bincount(step, minlength=steps).tolist()
            # A composed word is an input of later compositions, so the steps follow each other, all sentences at once.
            for parts in zip(*(part.to(vectors.device).split(counts) for part in plan), strict=True):
                now = Compositions(*parts)
                new = self.compose(vectors, now)
                table.append(new)
                # Not in place: the gradient of earlier compositions reads the old vectors.
                vectors = vectors.index_put((now.rows, now.words), new.to(vectors.dtype))  # (B, n + 4, D)
        versions = versions[:-1].flatten(0, 1)[path.decisions]  # (decisions, n + 4)
        return torch.cat(table), versions.to(vectors.device)

    @no_compile
    def _history_on_path(self, path: Derivations, device: torch.device) -> torch.Tensor | None:
        """Output of the LSTM in the states with a decision, `(decisions, history_size)`."""
        if self.history is None:
            return None
        actions = nn.functional.pad(path.actions[:, :-1], (1, 0), value=NO_ACTION)  # the one before
        labels = nn.functional.pad(path.labels[:, :-1], (1, 0), value=-1)
        history, _ = self.read_history(actions.to(device), labels.to(device))
        return path.decided(history)

    @torch.compiler.disable(recursive=False)
    def score_states(
        self, states: TransitionStates, table: torch.Tensor, versions: torch.Tensor, history: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """
        Scores of the actions `(batch, num_actions)` and of the labels of left and of right arcs
        `(batch, 2 * num_relations)` in any states.

        Args:
            states ([`TransitionStates`]): The states.
            table (`torch.FloatTensor` of shape `(number, hidden_size)`): Vectors.
            versions (`torch.LongTensor` of shape `(batch, n + 4)`): Rows of the table for the words of each state.
            history (`torch.FloatTensor` of shape `(batch, history_size)`, *optional*): Output of the LSTM.
        """
        device = table.device
        lengths = self.sequence_lengths(states).cpu()
        budget = self.config.chunk_positions
        # On a GPU, one more pass costs more than much padding; on a CPU, every position costs time.
        groups = length_groups(lengths, budget, CPU_PADDING if device.type == "cpu" else GPU_PADDING)
        if not groups:  # there is nothing to decide
            return table[:0, :1].expand(-1, self.config.num_actions), None
        # A batch within the budget keeps its activations, which is faster.
        recompute = torch.is_grad_enabled() and sum(len(g) * int(lengths[g[0]]) for g in groups) > budget
        scores = []
        for group in groups:
            sequences = self.sequences(states.select(group.to(states.device))).to(device)
            rows = group.to(device)
            inputs = (sequences, table, versions[rows], None if history is None else history[rows])
            if recompute:
                scores.append(checkpoint(self.score_sequences, *inputs, use_reentrant=False))
            else:
                scores.append(self.score_sequences(*inputs))
        # Groups are sorted by length: puts the states in their order again.
        back = torch.cat(groups).argsort().to(device)
        actions, labels = zip(*scores, strict=True)
        return torch.cat(actions)[back], None if self.relation_classifier is None else torch.cat(labels)[back]
