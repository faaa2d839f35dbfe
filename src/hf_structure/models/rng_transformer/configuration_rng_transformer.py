"""Recursive non-autoregressive Graph-to-Graph Transformer configuration."""

from collections.abc import Sequence
from typing import Literal, cast

from huggingface_hub.dataclasses import strict

from hf_structure.abilities import PROBABILITIES, Abilities, Column, label_columns
from hf_structure.algorithms.word_annotations import SPELLED, form_ids
from hf_structure.modules.configuration import EncoderConfig, chosen_layers, refuse_layout


@strict
class RNGTransformerConfig(EncoderConfig):
    r"""
    Configuration of the Recursive Non-autoregressive Graph-to-Graph Transformer (Mohammadshahi & Henderson 2021). The
    defaults are the paper's sizes over the vocabulary of BERT (cased). The relation labels are those of `id2label`.
    The paper's model without refinement, SynTr, has `use_graph_input=False`.

    Args:
        vocab_size (`int`, defaults to 28996): Number of words or word pieces, special tokens included.
        hidden_size (`int`, defaults to 768): Width of the word vectors.
        num_hidden_layers (`int`, defaults to 12): Number of self-attention layers.
        num_attention_heads (`int`, defaults to 12): Number of attention heads.
        intermediate_size (`int`, defaults to 3072): Width of the feed-forward layers.
        hidden_act (`str`, defaults to `"gelu"`): Activation of the feed-forward layers, a name known to transformers.
        hidden_dropout (`float`, defaults to 0.1): Dropout on embeddings and on the output of each sublayer.
        attention_dropout (`float`, defaults to 0.1): Dropout on attention weights.
        max_position_embeddings (`int`, defaults to 512):
            Longest sequence: the start symbol, the pieces (or words), the end symbol.
        num_position_buckets (`int`, defaults to 0):
            Number of classes of distances between two positions, each of which adds a number to the scores of each
            attention head, in all layers; 0 for none. MPNet has 32. Absolute positions are read in any case.
        word_vectors (`"first_piece"` or `"mean"`, defaults to `"first_piece"`): How words of several pieces are read.
            Either the encoder reads all pieces, and a word is its first one, as in the paper; or it reads one vector a
            word, the mean of its pieces' embeddings, which makes sequences shorter.
        num_tags (`int`, defaults to 0): Number of part-of-speech tags; 0 for a model that reads words only.
        tags (`list[str]`, *optional*): Their names, in the order of their ids.
        labelled (`bool`, defaults to `True`): Whether arcs have labels.
        columns (`dict[str, list[str]]`, *optional*): What else is predicted of each word: a name, such as `"upos"`,
            and its values in the order of their ids. Lemmas are edit rules, and features follow their part of speech,
            see [`~hf_structure.algorithms.word_annotations`].
        column_size (`int`, defaults to 256): Width of the perceptron that precedes their scores.
        num_form_buckets (`int`, defaults to 0): Number of vectors for what words look like, which lower-case pieces do
            not show: hashes of a word as it is written, of its beginning, ends and shape (see
            [`~hf_structure.algorithms.word_annotations.form_ids`]); 0 for none.
        form_size (`int`, defaults to 64): Width of these vectors.
        treebanks (`list[str]`, *optional*):
            Names of the treebanks whose habits it has learned, the default first; their vectors are added to words.
        treebank_dropout (`float`, defaults to 0.0):
            Probability that a training sentence is read as one of the first of these treebanks, whichever it is of:
            so that this one stands for any.
        num_segmentation_layers (`int`, defaults to 0):
            How many layers, the first ones, are read to find where sentences begin in running text; 0 for a model that
            finds none.
        use_graph_input (`bool`, defaults to `True`):
            Whether self-attention reads a graph: that of the round before, or the one given.
        num_graph_layers (`int` or `list[int]`, *optional*):
            How many layers, the last ones, read the graph, or which, counted from 0; all of them by default, as in the
            paper. The layers below are the same in all rounds and computed once.
        scale_relations (`bool`, defaults to `False`):
            Whether the scores of relations in attention are divided by the square root of the width of a head, like
            the others. They are not in the code that the authors released.
        num_rounds (`int`, defaults to 3):
            Number of rounds T: passes that each give a graph, from the graph of the one before.
        arc_size (`int`, defaults to 500): Width of the perceptrons that precede the biaffine scores of arcs.
        label_size (`int`, defaults to 100): Width of those that precede the biaffine scores of labels.
        decoder_dropout (`float`, defaults to 0.33): Dropout in these perceptrons.
        arc_loss (`"cross_entropy"` or `"tree"`, defaults to `"cross_entropy"`):
            What is maximised beside the probabilities of labels: the probability of each word's head by itself, or
            that of the whole tree among all trees with one root.
        initializer_range (`float`, defaults to 0.02):
            Standard deviation of initial weights.
        layer_norm_eps (`float`, defaults to 1e-12):
            Epsilon of the layer norms.
        unk_token_id (`int`, *optional*, defaults to 100):
            Stands for words without any word piece.
        encoder_config (`PreTrainedConfig` or `dict`, *optional*):
            Configuration of an encoder of transformers that reads the sentence first; the layers here, which read the
            graph, are on top of it, and begin as the identity. By default there is none.

    Example:

    ```python
    >>> from hf_structure import RNGTransformerConfig, RNGTransformerForParsing
    >>> labels = {0: "nsubj", 1: "obj", 2: "root"}
    >>> config = RNGTransformerConfig(vocab_size=5000, hidden_size=384, num_hidden_layers=6, id2label=labels)
    >>> model = RNGTransformerForParsing(config)
    ```
    """

    model_type = "rng_transformer"
    keys_to_ignore_at_inference = ["label_logits", "hidden_states", "attentions"]

    vocab_size: int = 28996
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout: float | int = 0.1
    attention_dropout: float | int = 0.1
    max_position_embeddings: int = 512
    num_position_buckets: int = 0
    word_vectors: Literal["first_piece", "mean"] = "first_piece"
    num_tags: int = 0
    tags: list[str] | None = None
    labelled: bool = True
    columns: dict[str, list[str]] | None = None
    column_size: int = 256
    num_form_buckets: int = 0
    form_size: int = 64
    treebanks: list[str] | None = None
    treebank_dropout: float | int = 0.0
    num_segmentation_layers: int = 0
    use_graph_input: bool = True
    num_graph_layers: int | list[int] | None = None
    scale_relations: bool = False
    num_rounds: int = 3
    arc_size: int = 500
    label_size: int = 100
    decoder_dropout: float | int = 0.33
    arc_loss: Literal["cross_entropy", "tree"] = "cross_entropy"
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    unk_token_id: int | None = 100
    tie_word_embeddings: bool = False

    def __post_init__(self, **kwargs):
        refuse_layout(kwargs)
        if not self.use_graph_input:
            self.num_rounds = 1  # nothing changes from round to round
        super().__post_init__(**kwargs)

    @property
    def num_relations(self) -> int:
        """Number of labels; one that stands for none if arcs have no labels."""
        return cast(int, self.num_labels) if self.labelled else 1

    @property
    def graph_layers(self) -> Sequence[int]:
        """The layers that read the graph, counted from 0."""
        if not self.use_graph_input:
            return []
        layers = self.num_hidden_layers if self.num_graph_layers is None else self.num_graph_layers
        return chosen_layers("num_graph_layers", layers, self.num_hidden_layers)

    @property
    def num_plain_layers(self) -> int:
        """Number of layers, the first ones, that read no graph."""
        return min(self.graph_layers, default=self.num_hidden_layers)

    @property
    def num_lower_layers(self) -> int:
        """Layers that read no graph, but for the last one, which computes only what is wanted."""
        return min(self.num_plain_layers, self.num_hidden_layers - 1)

    @property
    def max_pieces(self) -> int | None:
        """Pieces of the longest sentence that the positions suffice for; None if the encoder reads words."""
        return self.max_words if self.word_vectors == "first_piece" else None

    @property
    def max_words(self) -> int:
        """Words of the longest sentence that the positions suffice for, if every word is a single piece."""
        return self.max_position_embeddings - 2

    @property
    def abilities(self) -> Abilities:
        """What the models give and read."""
        labels = label_columns(cast(dict[int, str], self.id2label)) if self.labelled else ()
        return Abilities(
            structures=("dependency",),
            columns=(PROBABILITIES, *labels, *self._predicted),
            decoders=("tree", "projective", "argmax"),
            k_best=True,
            marginals=True,
            rounds=True,
            tags=tuple(self.tags or ()) if self.num_tags else None,
            initial_labels=self._initial_labels,
            treebanks=tuple(self.treebanks or ()),
            read_beside=self.read_forms if self.num_form_buckets else None,
            segments=self.num_segmentation_layers > 0,
            reads="pieces",
            max_words=self.max_words,
            max_tokens=self.max_pieces,
        )

    def read_forms(self, words: Sequence[str]) -> dict[str, list]:
        """The hashes of what words look like."""
        return {"form_ids": [form_ids(word, self.num_form_buckets) for word in words]}

    @property
    def _predicted(self) -> tuple[Column, ...]:
        """What is predicted of each word beside its head and label."""
        columns = (self.columns or {}).items()
        return tuple(Column(name, dict(enumerate(values)), spelled=SPELLED.get(name)) for name, values in columns)

    @property
    def _initial_labels(self) -> tuple[str, ...] | None:
        if not self.use_graph_input:
            return None
        return tuple(cast(dict[int, str], self.id2label).values()) if self.labelled else ()

    def validate_sizes(self):
        """Raises `ValueError` where a size makes no model."""
        names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
        for name in (*names, "num_rounds", "arc_size", "label_size", "max_words"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is no multiple of num_attention_heads {self.num_attention_heads}"
            )
        layers = self.num_graph_layers
        if layers == [] or (isinstance(layers, int) and not 1 <= layers <= self.num_hidden_layers):
            raise ValueError(
                f"num_graph_layers must be between 1 and num_hidden_layers {self.num_hidden_layers}, not "
                f"{self.num_graph_layers}"
            )
        _ = self.graph_layers  # raises, too
        if self.num_position_buckets and (self.num_position_buckets < 4 or self.num_position_buckets % 2):
            raise ValueError(
                f"num_position_buckets must be 0 or an even number from 4 on, not {self.num_position_buckets}"
            )
        if self.unk_token_id is not None and self.unk_token_id >= self.vocab_size:
            raise ValueError(f"unk_token_id is {self.unk_token_id}, but there are only {self.vocab_size} words")
        if self.tags is not None and len(self.tags) != self.num_tags:
            raise ValueError(f"num_tags is {self.num_tags}, but there are {len(self.tags)} tags")
        for name, values in (self.columns or {}).items():
            if not values:
                raise ValueError(f"columns: {name} has no values")
        layers = self.num_segmentation_layers
        if layers and not self.num_lower_layers <= layers <= self.num_hidden_layers:
            raise ValueError(
                f"num_segmentation_layers must be 0, or between {self.num_lower_layers} (the layers that read no "
                f"graph) and num_hidden_layers {self.num_hidden_layers}, not {layers}"
            )
        if not 0 <= self.treebank_dropout <= 1:
            raise ValueError(f"treebank_dropout must be between 0 and 1, not {self.treebank_dropout}")
        if self.labelled and not self.num_labels:
            raise ValueError("id2label is empty: give the relation labels, or labelled=False")
