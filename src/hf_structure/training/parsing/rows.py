"""Encoded sentences: the inputs of parsers and the labels they learn from."""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, cast

import pyarrow.compute
from datasets import Dataset, List, Value
from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from hf_structure.algorithms.trees import is_tree
from hf_structure.corpora.collators import IGNORE_INDEX
from hf_structure.corpora.corpus import column_numbers
from hf_structure.models.abilities import Abilities
from hf_structure.models.families import family_of
from hf_structure.models.rng_transformer.configuration_rng_transformer import CHAIN
from hf_structure.parsing.encoding import encode_beside
from hf_structure.text.normalization import keep_mask
from hf_structure.text.tokenization import encode, is_word_level
from hf_structure.training.corpora import NUMBER, NUMBERS, PAIRS, Corpora

logger = logging.getLogger(__name__)

# What each scorer learns from, a column of sentences. All other modules learn from every sentence.
LESSONS = {"decoder": "heads", "tagger": "heads", "constituents": "spans", "segmenter": "sentence_starts"}


def to_rows(
    sentences: Dataset, tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig, corpora: Corpora, **options
) -> Dataset:
    """Encodes sentences with [`encode_sentences`], which takes the options."""
    features = input_features(tokenizer, config) | {"heads": NUMBERS, "length": NUMBER, "labels": NUMBERS}
    features |= {"punctuation": List(Value("bool")), "left_out": Value("string")}
    if config.num_tags:
        features["tag_ids"] = NUMBERS
    if "initial_heads" in sentences.column_names:
        features |= {"initial_heads": NUMBERS, "initial_deprels": NUMBERS}
    # The trainer scores treebanks separately if there is such a column.
    if sentences.unique("treebank") != [None]:
        features["treebank"] = Value("string")
    # Values of further columns are ids in the vocabularies of the parser.
    features |= dict.fromkeys(predicted_columns(config), NUMBERS)
    if config.abilities.segments:
        features["sentence_starts"] = NUMBERS
    if chains_of(config):
        features["constituents"] = PAIRS
    return corpora.encode(sentences, partial(encode_sentences, config=config, **options), tokenizer, features)


def input_features(tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig) -> dict:
    """Names and types of the columns that a parser reads."""
    features: dict = {"input_ids": NUMBERS}
    if not is_word_level(tokenizer):
        features["word_ids"] = NUMBERS
    if config.abilities.read_beside is not None:
        features["form_ids"] = List(NUMBERS)
    if config.abilities.treebanks:
        features["treebank_ids"] = NUMBERS
    return features


def predicted_columns(config: PreTrainedConfig) -> dict[str, list[str]]:
    """Names and values of the columns that a parser predicts in addition to heads and labels."""
    family = family_of(config)
    if family is None or "columns" not in family.options:
        return {}
    return config.columns or {}


def chains_of(config: PreTrainedConfig) -> list[str]:
    """The labels of constituents, unary chains, that a parser predicts."""
    family = family_of(config)
    if family is None or "constituents" not in family.options:
        return []
    return config.constituents or []


def encode_sentences(
    sentences: list[dict],
    tokenizer: PreTrainedTokenizerBase,
    config: PreTrainedConfig,
    punctuation_by: str,
    max_length: int | None,
    tell_treebank: bool,
    train_only: Sequence[str] = (),
) -> list[dict]:
    """
    Rows for [`ParsingTrainer`]. A row that cannot be used holds only the reason, as `left_out`.

    Args:
        punctuation_by (`str`): How punctuation is recognised, see [`keep_mask`].
        max_length (`int`, *optional*): Maximum number of words of a training sentence; None in evaluation.
        tell_treebank (`bool`): If True, the parser reads the treebank of each sentence.
        train_only (`Sequence[str]`): The modules that learn; all by default. Sentences that teach them nothing are
            left out.
    """
    # One for all sentences: its vocabularies are indexed once.
    encoder = RowEncoder(tokenizer, config)
    rows = []
    for sentence in sentences:
        # Evaluation leaves out only what the parser cannot read; training also trees that cannot be learned.
        reason = encoder.why_left_out(sentence, max_length)
        if not teaches(sentence, train_only):
            row = {"left_out": f"nothing to learn for {', '.join(train_only)}"}
        elif "sentence_starts" in sentence:
            row = encoder.encode_paragraph(sentence)
        elif reason is None:
            row = encoder.encode_sentence(sentence)
            kept = keep_mask(sentence["words"], sentence["tags"], sentence["deprels"], by=punctuation_by)
            row["punctuation"] = [not word for word in kept]
        else:
            row = {"left_out": reason}
        if row.get("left_out") is None:
            treebank = sentence["treebank"]
            row |= extra_inputs(sentence["words"], encoder.abilities, treebank if tell_treebank else None)
            row["treebank"] = treebank
        rows.append(row)
    return rows


def teaches(sentence: Mapping, modules: Sequence[str]) -> bool:
    """Returns whether one of these modules can learn from a sentence. If none is named, all learn."""
    lessons = {LESSONS.get(module.partition(".")[0]) for module in modules}
    return not modules or any(lesson is None or sentence.get(lesson) for lesson in lessons)


class RowEncoder:
    """
    Encodes sentences and running text for a parser. Unknown labels are -100; all labels of a parser without labels
    are 0.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig):
        self.tokenizer = tokenizer
        self.config: Any = config
        self.abilities: Abilities = self.config.abilities

    @cached_property
    def labels(self) -> dict[str, int] | None:
        return {label: index for index, label in self.config.id2label.items()} if self.config.labelled else None

    @cached_property
    def tags(self) -> dict[str, int] | None:
        return _indices(self.config.tags) if self.config.num_tags else None

    @cached_property
    def columns(self) -> dict[str, dict[str, int]]:
        return {name: _indices(values) for name, values in predicted_columns(self.config).items()}

    @cached_property
    def chains(self) -> dict[str, int]:
        return _indices(chains_of(self.config))

    def encode_sentence(self, sentence: Mapping) -> dict:
        heads = sentence["heads"]
        if heads is None:  # constituents alone
            heads = [-1] * len(sentence["words"])
        row: dict[str, Any] = {**encode(sentence["words"], self.tokenizer), "heads": heads}
        # The encoders of some parsers read one vector for each word, not the pieces.
        row["length"] = len(row["input_ids"] if self.abilities.max_tokens else heads)
        row["labels"] = _ids_of(sentence["deprels"], self.labels, heads, IGNORE_INDEX)
        for name, ids in self.columns.items():
            row[name] = _ids_of(sentence[name], ids, heads, IGNORE_INDEX)
        if self.tags is not None:
            row["tag_ids"] = _ids_of(sentence["tags"], self.tags, heads, -1)
        if "initial_heads" in sentence:
            row["initial_heads"] = sentence["initial_heads"]
            row["initial_deprels"] = _ids_of(sentence["initial_deprels"], self.labels, heads, IGNORE_INDEX)
        if self.chains and sentence.get("spans") is not None:
            row["constituents"] = self._constituents(sentence["spans"], sentence["span_labels"])
            if sentence["heads"] is None:
                # `Trainer` normalises by the number of labels: these words are words to learn from, too.
                row["labels"] = [0] * len(heads)
        return row

    def _constituents(self, spans: Sequence[Sequence[int]], labels: Sequence[str]) -> list[list[int]]:
        """Start, end and label of each constituent. Of an unknown chain, its first labels that are known are taken."""
        constituents = []
        for (start, end), label in zip(spans, labels, strict=True):
            while label not in self.chains and CHAIN in label:
                label = label.rpartition(CHAIN)[0]
            if label in self.chains:
                constituents.append([start, end, self.chains[label]])
        return constituents

    def encode_paragraph(self, paragraph: Mapping) -> dict:
        """Encodes running text, which has no heads to learn from."""
        words = paragraph["words"]
        row: dict[str, Any] = {**encode(words, self.tokenizer), "heads": [-1] * len(words)}
        row["length"] = len(row["input_ids"])
        if row["length"] > longest_input(self.abilities):
            return {"left_out": f"running text of more than {longest_input(self.abilities)} word pieces"}
        # `Trainer` normalises by the number of labels: words of running text are words to learn from, too.
        row["labels"] = _ids_of(paragraph["deprels"], self.labels, words, IGNORE_INDEX)
        row["sentence_starts"] = paragraph["sentence_starts"]
        return row | {"punctuation": [False] * len(words), "left_out": None}

    def why_left_out(self, sentence: Mapping, max_length: int | None) -> str | None:
        """The reason why a sentence is left out, or None. A tree that cannot be learned is left out in training."""
        longest = min(max_length or self.config.max_words, self.config.max_words)
        has_constituents = bool(self.chains) and sentence.get("spans") is not None
        if sentence["heads"] is None and not has_constituents:
            return "words without a head"
        if len(sentence["words"]) > longest:
            return f"more than {longest} words"
        longest = self.abilities.max_tokens
        if longest and len(encode(sentence["words"], self.tokenizer)["input_ids"]) > longest:
            return f"more than {longest} word pieces"
        if max_length is None or sentence["heads"] is None:
            return None
        return self._why_unusable(sentence["heads"])

    def _why_unusable(self, heads: Sequence[int]) -> str | None:
        family = family_of(self.config)
        if family is not None and family.why_unusable:
            return family.load(family.why_unusable)(heads, self.config)
        return None if is_tree(heads) else "no tree with one root"


def _indices(values: Sequence[str]) -> dict[str, int]:
    return {value: index for index, value in enumerate(values)}


def _ids_of(names: Sequence[str] | None, ids: Mapping[str, int] | None, words: Sequence, unknown: int) -> list[int]:
    """The id of each word's name; 0 without ids, `unknown` without a name."""
    if ids is None:
        return [0] * len(words)
    return [unknown] * len(words) if names is None else [ids.get(name, unknown) for name in names]


def longest_input(abilities: Abilities) -> int:
    """Maximum number of words, or of pieces, that a parser reads at once."""
    longest = abilities.max_tokens or abilities.max_words
    assert longest is not None, "parsers that are trained have positions"
    return longest


def extra_inputs(words: Sequence[str], abilities: Abilities, treebank: str | None) -> dict[str, list]:
    """The inputs of a parser in addition to pieces. An unknown treebank is read as the first one."""
    treebanks = abilities.treebanks
    treebank_id = 0 if treebanks else None
    if treebank in treebanks:
        treebank_id = treebanks.index(treebank)
    return encode_beside(words, abilities.read_beside, treebank_id)


def without_unusable(rows: Dataset, purpose: str) -> Dataset:
    """Drops the rows that are left out, and logs their reasons. Raises `ValueError` if none remains."""
    reasons = Counter()
    column = rows.select_columns("left_out").with_format("arrow")
    for table in cast(Iterator["pyarrow.Table"], column.iter(1000)):
        reasons.update(table["left_out"].drop_null().to_pylist())
    is_null = pyarrow.compute.is_null  # pyright: ignore[reportAttributeAccessIssue]
    kept = column_numbers(column, "left_out", is_null).nonzero()[0]
    # One line for all sentences: a warning for each would fill the screen.
    counted = f"{len(rows) - len(kept)} of {len(rows)} sentences left out"
    counted += "".join(f"; {count}: {reason}" for reason, count in reasons.most_common())
    if not len(kept):
        raise ValueError(f"{purpose}: {counted}")
    if reasons:
        logger.warning("%s: %s", purpose, counted)
        rows = rows.select(kept)
    return rows.remove_columns("left_out")
