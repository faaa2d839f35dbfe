"""Recursive non-autoregressive Graph-to-Graph Transformer configuration."""

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal, cast

from huggingface_hub.dataclasses import strict
from transformers.utils.hub import cached_file

from hf_structure.algorithms.word_annotations import Lexicon, form_ids, read_lexicons, spell_features, spell_lemmas
from hf_structure.models.abilities import PROBABILITIES, Abilities, Column, label_columns
from hf_structure.modules.configuration import EncoderConfig, chosen_layers, require_positive

LEXICON = "lexicon.json"  # files beside config.json
SEGMENTER = "segmenter.json"
CHAIN = "+"  # between the labels of a unary chain


@strict
class RNGTransformerConfig(EncoderConfig):
    r"""
    Configuration of the Recursive Non-autoregressive Graph-to-Graph Transformer (Mohammadshahi & Henderson 2021). The
    defaults are the paper's sizes over the vocabulary of BERT (cased). The relation labels are listed in `id2label`.
    The paper's model without refinement, SynTr, has `use_graph_input=False`.

    Args:
        vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, hidden_act, hidden_dropout,
        attention_dropout, num_tags, tags, labelled, initializer_range, layer_norm_eps, unk_token_id, encoder_config:
            As in [`~hf_structure.modules.configuration.EncoderConfig`].
        max_position_embeddings (`int`, defaults to 512):
            Longest sequence: the start symbol, the pieces (or words), the end symbol.
        num_position_buckets (`int`, defaults to 0): Classes of distances between two positions, each of which adds a
            number to the scores of each attention head; 0 for none. MPNet, as an encoder to start from, has 32.
            Absolute positions are read in any case.
        word_vectors (`"first_piece"` or `"mean"`, defaults to `"first_piece"`): The encoder reads all pieces, and the
            first one stands for the word, as in the paper; or it reads one vector a word, the mean of its pieces'
            embeddings, which makes sequences shorter: the bundled `rngt-en-fast` does so.
        columns (`dict[str, list[str]]`, *optional*): Further predictions for each word, as the bundled models make
            them: a name, such as `"upos"`, and its values in the order of their ids. Lemmas are edit rules, and
            features follow their part of speech, see [`~hf_structure.algorithms.word_annotations`].
        known_words (`dict[str, str]`, *optional*), known_lemmas (`str`, *optional*):
            A [`~hf_structure.algorithms.word_annotations.Lexicon`], which corrects predicted lemmas. Or a lexicon for
            each language, as dictionaries by language: the one that lists the most words of a sentence corrects its
            lemmas. Needs the columns `"lemma"` and `"upos"`. Saved to `lexicon.json` beside `config.json`.
        column_size (`int`, defaults to 256): Width of the perceptron that precedes their scores.
        num_form_buckets (`int`, defaults to 0): Vectors for the spelling of words, which lower-case pieces do not
            show, with these columns: hashes of a word as it is written, of its beginning, ends and shape (see
            [`~hf_structure.algorithms.word_annotations.form_ids`]); 0 for none.
        form_size (`int`, defaults to 64): Width of these vectors.
        treebanks (`list[str]`, *optional*): Names of the treebanks whose annotation it has learned, the default first;
            their vectors are added to words. For models of several treebanks.
        treebank_dropout (`float`, defaults to 0.0): Probability that a training sentence is read as one of the first
            treebank, so that this one stands for any.
        num_segmentation_layers (`int`, defaults to 0): First layers that are read to find where sentences begin in
            running text, as the bundled models do; 0 for a model that finds none.
        segmenter (`dict`, *optional*): Settings of a network over characters that finds words and sentences in raw
            text, see [`~hf_structure.modules.character_segmenter.CharacterSegmenter`], as
            `examples/train_segmenter.py` makes them. Saved to `segmenter.json` beside `config.json`.
        constituents (`list[str]`, *optional*): Labels of constituents to predict; a unary chain is one label, written
            from the top, as in `"S+VP"`. For parsers that give both kinds of trees.
        constituent_size (`int`, defaults to 256): Width of the hidden layer of their scores.
        constituent_loss (`"tree"` or `"margin"`, defaults to `"tree"`): Maximise the probability of the constituency
            tree, or its margin over all others, after which probabilities are far too low without `calibration`.
        constituent_objective (`"probability"` or `"expected_constituents"`, defaults to `"probability"`): Return the
            most probable constituency tree, or the one with the fewest expected errors, constituents too many or
            missing (minimum Bayes risk), as the bundled `rngt-en` does. The latter needs calibrated probabilities.
        use_graph_input (`bool`, defaults to `True`): Let self-attention read a graph: the last round's or a given one.
        num_graph_layers (`int` or `list[int]`, *optional*): Number of last layers that read the graph, or a list of
            layers, counted from 0; all of them by default, as in the paper. The layers below are the same in all
            rounds and computed once, which makes the bundled `rngt-en` faster.
        scale_relations (`bool`, defaults to `False`): Divide the scores of relations in attention by the square root
            of the width of a head, like the others. The paper's equation does, its authors' code does not.
        num_rounds (`int`, defaults to 3): Rounds T, each of which predicts a graph from the one before.
        arc_size (`int`, defaults to 500): Width of the perceptrons that precede the biaffine scores of arcs.
        label_size (`int`, defaults to 100): The same of labels.
        decoder_dropout (`float`, defaults to 0.33): Dropout in these perceptrons.
        arc_loss (`"cross_entropy"` or `"tree"`, defaults to `"cross_entropy"`): Maximise, besides the probabilities of
            labels, the probability of each word's head by itself (the paper's), or of the whole tree among all trees
            with one root, as `examples/papers/compare_rngt.py` compares them.
        calibration (`dict[str, list[float]]`, *optional*): A temperature T and a share e for `"heads"`, `"labels"` and
            each of `columns`. With them, `decode` turns scores s into probabilities (1 - e) softmax(s / T) + e /
            number of choices, of whole trees, too. For `"constituents"` e is 0. They change no prediction,
            except constituents if `constituent_objective` is `"expected_constituents"`.

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

    num_position_buckets: int = 0
    word_vectors: Literal["first_piece", "mean"] = "first_piece"
    columns: dict[str, list[str]] | None = None
    known_words: dict[str, str] | dict[str, dict[str, str]] | None = None
    known_lemmas: str | dict[str, str] | None = None
    column_size: int = 256
    num_form_buckets: int = 0
    form_size: int = 64
    treebanks: list[str] | None = None
    treebank_dropout: float | int = 0.0
    num_segmentation_layers: int = 0
    segmenter: dict[str, Any] | None = None
    constituents: list[str] | None = None
    constituent_size: int = 256
    constituent_loss: Literal["tree", "margin"] = "tree"
    constituent_objective: Literal["probability", "expected_constituents"] = "probability"
    num_graph_layers: int | list[int] | None = None
    scale_relations: bool = False
    num_rounds: int = 3
    arc_size: int = 500
    label_size: int = 100
    decoder_dropout: float | int = 0.33
    arc_loss: Literal["cross_entropy", "tree"] = "cross_entropy"
    calibration: dict[str, list[float | int]] | None = None

    def __post_init__(self, **kwargs):
        for name in _FILES:
            if name in kwargs:
                kind = name.removesuffix("_file")
                raise ValueError(f"the {kind} is in {kwargs[name]}: load the folder with from_pretrained")
        if not self.use_graph_input:
            self.num_rounds = 1  # nothing changes from round to round
        super().__post_init__(**kwargs)

    @classmethod
    def get_config_dict(cls, pretrained_model_name_or_path, **kwargs):
        """As in transformers, with the settings in other files."""
        settings, rest = super().get_config_dict(pretrained_model_name_or_path, **kwargs)
        return with_files(settings, pretrained_model_name_or_path, kwargs.get("revision")), rest

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs):
        """As in transformers, whose `AutoConfig` passes settings without other files, and says where they are from."""
        return super().from_dict(with_files(config_dict, kwargs.get("name_or_path")), **kwargs)

    def to_json_string(self, use_diff: bool = True) -> str:
        """As in transformers, with the names of files in place of what they hold."""
        values = json.loads(super().to_json_string(use_diff))
        for name, (file, settings) in _FILES.items():
            if any(getattr(self, setting) is not None for setting in settings):
                values = {key: value for key, value in values.items() if key not in settings} | {name: file}
        return json.dumps(values, indent=2) + "\n"

    def to_json_file(self, json_file_path, use_diff: bool = True):
        """As in transformers, with the other files beside it."""
        super().to_json_file(json_file_path, use_diff)
        for file, names in _FILES.values():
            settings = {name: getattr(self, name) for name in names}
            if any(value is not None for value in settings.values()):
                text = json.dumps(settings, indent=1, ensure_ascii=False) + "\n"
                Path(json_file_path).with_name(file).write_text(text, encoding="utf-8")

    @property
    def graph_layers(self) -> Sequence[int]:
        """The layers that read the graph, counted from 0."""
        if not self.use_graph_input:
            return []
        layers = self.num_hidden_layers if self.num_graph_layers is None else self.num_graph_layers
        return chosen_layers("num_graph_layers", layers, self.num_hidden_layers)

    @property
    def num_lower_layers(self) -> int:
        """Number of first layers without a graph, up to where starts are read; not the last, which skips positions."""
        starts = [self.num_segmentation_layers] if self.num_segmentation_layers else []
        return min([*self.graph_layers, *starts, self.num_hidden_layers - 1])

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
        """Outputs and inputs of the models."""
        labels = label_columns(cast(dict[int, str], self.id2label)) if self.labelled else ()
        return Abilities(
            structures=("dependency", "constituency") if self.constituents else ("dependency",),
            optional_constituents=bool(self.constituents),
            span_labels=self.span_labels if self.constituents else None,
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
            read_texts=raw_text_reader if self.segmenter else None,
            reads="pieces",
            max_words=self.max_words,
            max_tokens=self.max_pieces,
            column_probabilities=tuple(Column(f"{name}_probability") for name in self.columns or {}),
        )

    @property
    def span_labels(self) -> tuple[str, ...]:
        """The labels of single constituents, without chains."""
        return tuple(sorted({label for chain in self.constituents or () for label in chain.split(CHAIN)}))

    def read_forms(self, words: Sequence[str]) -> dict[str, list]:
        """The hashes of the spelling of words."""
        num_buckets = self.num_form_buckets
        return {"form_ids": [form_ids(word, num_buckets) for word in words]}

    def calibration_of(self, name: str) -> tuple[float, float]:
        """The temperature, and the share of the uniform distribution, in probabilities of this name."""
        temperature, share = (self.calibration or {}).get(name, (1.0, 0.0))
        return temperature, share

    @property
    def _predicted(self) -> tuple[Column, ...]:
        """The columns besides head and label."""
        spelled = {"feats": spell_features, "lemma": partial(spell_lemmas, lexicons=self.lexicons)}
        columns = (self.columns or {}).items()
        return tuple(Column(name, numbered(tuple(values)), spelled=spelled.get(name)) for name, values in columns)

    @property
    def lexicons(self) -> tuple[Lexicon, ...]:
        """The lexicons that correct predicted lemmas: none, one, or one for each of several languages."""
        return read_lexicons(self.known_words or {}, self.known_lemmas or "") if self._has_lexicon else ()

    @property
    def _has_lexicon(self) -> bool:
        return self.known_words is not None or self.known_lemmas is not None

    @property
    def _initial_labels(self) -> tuple[str, ...] | None:
        if not self.use_graph_input:
            return None
        labels = cast(dict[int, str], self.id2label)
        return tuple(labels[number] for number in sorted(labels)) if self.labelled else ()

    def validate_sizes(self):
        """Raises `ValueError` where a size makes no model."""
        super().validate_sizes()
        require_positive(self, "num_rounds", "arc_size", "label_size", "constituent_size")
        if self.constituents == []:
            raise ValueError("constituents has no labels")
        if self.num_position_buckets and (self.num_position_buckets < 4 or self.num_position_buckets % 2):
            raise ValueError(
                f"num_position_buckets must be 0 or an even number from 4 on, not {self.num_position_buckets}"
            )
        if not 0 <= self.treebank_dropout <= 1:
            raise ValueError(f"treebank_dropout must be between 0 and 1, not {self.treebank_dropout}")

    def validate_layers(self):
        """Raises `ValueError` for no layers that read the graph, and for layers that do not exist or fit."""
        layers = self.num_graph_layers
        if layers == [] or (isinstance(layers, int) and not 1 <= layers <= self.num_hidden_layers):
            raise ValueError(
                f"num_graph_layers must be between 1 and num_hidden_layers {self.num_hidden_layers}, not "
                f"{self.num_graph_layers}"
            )
        _ = self.graph_layers  # raises, too
        if not 0 <= self.num_segmentation_layers <= self.num_hidden_layers:
            raise ValueError(
                f"num_segmentation_layers must be between 0 (no sentence starts) and num_hidden_layers "
                f"{self.num_hidden_layers}, not {self.num_segmentation_layers}"
            )

    def validate_columns(self):
        """Raises `ValueError` for a column without values, and for a lexicon without the columns that it corrects."""
        for name, values in (self.columns or {}).items():
            if not values:
                raise ValueError(f"columns: {name} has no values")
        if self._has_lexicon and not {"lemma", "upos"} <= (self.columns or {}).keys():
            raise ValueError("known_words and known_lemmas need the columns lemma and upos")
        languages = self.known_lemmas if isinstance(self.known_lemmas, dict) else {}
        by_language = {name for name, words in (self.known_words or {}).items() if isinstance(words, dict)}
        if by_language != languages.keys():
            raise ValueError("known_words and known_lemmas must be of the same languages")

    def validate_calibration(self):
        """Raises `ValueError` for an unknown name, and for a temperature or share that is out of range."""
        for name, values in (self.calibration or {}).items():
            if name not in ("heads", "labels", "constituents", *(self.columns or {})):
                raise ValueError(f"calibration: {name} is neither heads, labels, constituents nor one of the columns")
            if len(values) != 2 or not (0 < values[0] < math.inf and 0 <= values[1] < 1):
                raise ValueError(f"calibration: {name} needs a temperature above 0 and a share below 1, not {values}")
            if name == "constituents" and values[1]:
                raise ValueError(f"calibration: constituents have a temperature, and a share of 0, not {values[1]}")


@lru_cache(maxsize=64)
def numbered(values: tuple[str, ...]) -> Mapping[int, str]:
    """Names by their ids, made once: a parse asks for them several times."""
    return dict(enumerate(values))


def raw_text_reader(model: Any, treebank: str | None, language: str | None) -> Any:
    """
    Makes the reader of raw text of a parser with a segmenter. It follows a treebank, all treebanks of a language, or
    by default none; `auto` finds languages. Raises `ValueError` for an unknown language, and if it cannot find them.
    """
    from hf_structure.text.raw_text import RawTextReader

    settings = model.config.segmenter
    codes = [name.partition("_")[0] for name in settings["treebanks"]]
    numbers = []
    if language == "auto":
        if "languages" not in settings:
            raise ValueError("this model tells no languages apart: add them by train_segmenter.py --languages_only")
    elif treebank is not None:
        # The parser may have learned others since.
        numbers = [number for number, name in enumerate(settings["treebanks"]) if name == treebank]
    elif language is not None:
        numbers = [number for number, code in enumerate(codes) if code == language and number]
        if not numbers:
            raise ValueError(f"language must be one of {', '.join(sorted(set(codes[1:])))}, not {language!r}")
    return RawTextReader(model.character_segmenter, settings, numbers or [0], language == "auto")


def with_files(settings: dict[str, Any], folder: Any, revision: str | None = None) -> dict[str, Any]:
    """Settings with what is in the files that they name, if it is known which folder or repository they are from."""
    for name in _FILES.keys() & settings.keys() if folder else ():
        file: Any = cached_file(folder, settings[name], revision=revision)
        held = json.loads(Path(file).read_text("utf-8"))
        settings = {key: value for key, value in settings.items() if key != name} | held
    return settings


# Files by the setting that names them, and the settings that they hold.
_FILES = {
    "lexicon_file": (LEXICON, ("known_words", "known_lemmas")),
    "segmenter_file": (SEGMENTER, ("segmenter",)),
}
