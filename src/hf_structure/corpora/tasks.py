"""
Tasks of GLUE: their words, tables and batches, as prompts of a language model (GiLT, section 4.3 and appendix A) or as
sentences and sentence pairs (UDGN, section 4.5).
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import pad

from hf_structure.corpora.collators import IGNORE_INDEX, WordCollator, pad_words
from hf_structure.corpora.graph_batches import GraphCollator
from hf_structure.text.files import DataError, plain_path
from hf_structure.text.json_text import parse_array, parse_json
from hf_structure.text.words import numbered_lines

_PAIR = "Sentence1 : {sentence1} ; Sentence2 : {sentence2} ;"
_HIGHEST_SCORE = 5.0
# Names of columns in GLUE, in its old files, and in tables of other similarity tasks.
COLUMNS = {
    "sentence1": ("sentence1", "sentence", "#1 String"),
    "sentence2": ("sentence2", "#2 String"),
    "label": ("label", "score", "Quality"),
}


@dataclass(frozen=True)
class Task:
    """A classification of sentences, with a word for each class after the prompt, or a regression of a score."""

    prompt: str  # words, and names in braces for the words of sentences
    classes: tuple[str, ...] = ()  # in GLUE's order; empty for a regression
    labels: tuple[str, ...] = ()  # the word of each class
    reported: tuple[str, ...] = ("f1",)  # the metrics in table 2
    is_ordered: bool = False  # the two sentences have different roles

    @property
    def sentences(self) -> list[str]:
        """Names of the sentences in the prompt."""
        return [part[1:-1] for part in self.prompt.split() if part.startswith("{")]

    @property
    def pair_features(self) -> str | None:
        """Features of pairs for a classifier of sentences, see [`UDGNConfig`]; None for single sentences."""
        if len(self.sentences) == 1:
            return None
        return "ordered" if self.is_ordered else "symmetric"

    def words(self, sentences: Mapping[str, Sequence[str]]) -> list[str]:
        """Fills the prompt with the words of its sentences, given by name."""
        parts = (sentences[part[1:-1]] if part.startswith("{") else [part] for part in self.prompt.split())
        return [word for part in parts for word in part]

    def read_label(self, value: Any) -> int | float:
        """Reads a class, by name or number, or a score. Raises `ValueError` if it is neither."""
        if self.classes:
            names = {name: number for number, name in enumerate(self.classes)}
            names |= {str(number): number for number in names.values()}
            if str(value) not in names:
                raise ValueError(f"the label {value!r} is none of {', '.join(names)}")
            return names[str(value)]
        try:
            score = float(value)
        except (TypeError, ValueError):
            score = math.nan
        if not 0 <= score <= _HIGHEST_SCORE:
            raise ValueError(f"the score {value!r} is no number from 0 to {_HIGHEST_SCORE:g}")
        return score


TASKS = {
    "rte": Task(f"{_PAIR} Label :", ("entailment", "not_entailment"), ("0", "1"), is_ordered=True),
    "sst2": Task("Sentence1 : {sentence1} ; Sentiment :", ("negative", "positive"), ("0", "1")),
    "mrpc": Task(
        f"{_PAIR} Label :", ("not_equivalent", "equivalent"), ("inequivalent", "equivalent"), ("accuracy", "f1")
    ),
    "stsb": Task(f"{_PAIR} Score :", reported=("pearson", "spearman")),
}


def read_table(path: str | os.PathLike) -> Iterator[tuple[int, dict[str, Any]]]:
    """
    Streams the rows of a table with the numbers of their first lines. A `.tsv` file has tab-separated, unquoted
    columns, with their names in the first line; a `.jsonl` or `.json` file has one object a line, or an array of
    objects.

    Raises `OSError` if the file cannot be opened, `DataError` if it is malformed (the message names file and line),
    and `ValueError` for another suffix.
    """
    suffix = plain_path(path).suffix.lower()
    if suffix not in (".tsv", ".json", ".jsonl"):
        raise ValueError(f"{path}: a table is a .tsv, .jsonl or .json file")
    lines = ((number, line.removesuffix("\r")) for number, line in numbered_lines(path))
    return _read_tsv(lines, str(path)) if suffix == ".tsv" else _read_json(lines, str(path))


def _read_tsv(lines: Iterator[tuple[int, str]], name: str) -> Iterator[tuple[int, dict[str, str]]]:
    columns = next(lines, (1, ""))[1].split("\t")
    for number, line in lines:
        values = line.split("\t")
        if len(values) != len(columns):
            raise DataError(f"{len(values)} columns instead of {len(columns)}", name, number)
        yield number, dict(zip(columns, values, strict=True))


def _read_json(lines: Iterator[tuple[int, str]], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    numbered = list(lines)
    text = "\n".join(line for _, line in numbered)
    if text.lstrip().startswith("["):
        rows = parse_array(text, name)
    else:
        rows = ((number, parse_json(line, name, number)) for number, line in numbered if line.strip())
    for number, row in rows:
        if not isinstance(row, dict):
            raise DataError("not a JSON object", name, number)
        yield number, row


def task_examples(
    rows: Iterable[tuple[int, Mapping[str, Any]]],
    task: Task,
    split: Callable[[str], list[str]],
    columns: Mapping[str, str | None] | None = None,
    name: str = "<input>",
    prompts: bool = True,
) -> Iterator[dict[str, Any]]:
    """
    Streams the prompts of a table, `words` (`list[str]`), with their `label` (a class's number, or a score). Without
    `prompts`, `words` are only the words of the sentences, and `sentence_ids` (`list[int]`) number the sentence of
    each word, from 0.

    Args:
        rows (`Iterable[tuple[int, Mapping]]`): Numbered rows, see [`read_table`]; `name` is their name in messages.
        split (`Callable[[str], list[str]]`): Function that splits a sentence into words.
        columns (`Mapping[str, str | None]`, *optional*):
            Columns of `sentence1`, `sentence2` and `label`, if their names are not in `COLUMNS`.

    Raises `DataError` for a missing column, an empty sentence, or a label outside the task.
    """
    found = None
    for number, row in rows:
        found = found or _find_columns(row, task, columns or {}, name)
        try:
            sentences = {part: _split(part, row[found[part]], split) for part in task.sentences}
            label = {"label": task.read_label(row[found["label"]])}
            yield ({"words": task.words(sentences)} if prompts else _apart(sentences)) | label
        except KeyError as error:
            raise DataError(f"there is no {error.args[0]!r}", name, number) from error
        except ValueError as error:
            raise DataError(str(error), name, number) from error


def _split(name: str, text: Any, split: Callable[[str], list[str]]) -> list[str]:
    if not isinstance(text, str):
        raise ValueError(f"{name} is no text, but {text!r}")
    words = split(text)
    if not words:
        raise ValueError(f"{name} has no words")
    return words


def _apart(sentences: Mapping[str, list[str]]) -> dict[str, list]:
    """Concatenates the words of several sentences, and numbers the sentence of each word."""
    numbered = [(word, number) for number, words in enumerate(sentences.values()) for word in words]
    words, numbers = zip(*numbered, strict=True)
    return {"words": list(words), "sentence_ids": list(numbers)}


def _find_columns(row: Mapping[str, Any], task: Task, given: Mapping[str, str | None], name: str) -> dict[str, str]:
    found = {}
    for part in (*task.sentences, "label"):
        own = given.get(part)
        names = (own,) if own else COLUMNS[part]
        found[part] = next((column for column in names if column in row), None)
        if found[part] is None:
            raise DataError(f"no column {' or '.join(names)}: there are {', '.join(row)}", name)
    return found


@dataclass
class TaskCollator:
    """
    Collates prompts: for a classification with the word of a class after each, for a regression with their scores.

    Called with dictionaries that hold the columns for `collator`, of the prompt alone, and `label`; stored `tapes`
    include the class's word, which no arc reaches. Returns the output of `collator` with other `labels`. For a
    regression, these are the scores, `(batch_size,)`. For a classification, `logits_to_keep`, `(kept,)`, are the
    positions that predict some class's token, and `labels`, `(batch_size, 1 + kept)`, these tokens, -100 if a row has
    none, after a column of -100, because causal language models never predict the first label. With `label`, all
    prompts get the word of that class.
    """

    collator: GraphCollator  # pads on the right
    label_ids: Sequence[Sequence[int]] = ()  # tokens of each class's word; empty for a regression

    def __call__(self, examples: Sequence[dict[str, Any]], label: int | None = None) -> dict[str, torch.Tensor]:
        classes = [example["label"] if label is None else label for example in examples]
        if not self.label_ids:
            return self.collator(examples) | {"labels": torch.tensor(classes, dtype=torch.float)}
        words = [list(self.label_ids[number]) for number in classes]
        batch = self.collator([_append(*pair) for pair in zip(examples, words, strict=True)])
        ends = batch["attention_mask"].sum(1, keepdim=True)
        positions = torch.arange(int(ends.max()))
        # The word of the class follows the prompt: it is the last one of a row.
        starts = ends - torch.tensor([[len(word)] for word in words])  # (B, 1)
        is_label = (positions < ends) & (positions >= starts)  # (B, seq_len)
        # Logits are computed only at positions where some row has a label.
        kept = is_label.any(0)  # (seq_len,)
        batch["logits_to_keep"] = kept.nonzero().squeeze(1) - 1
        labels = batch["input_ids"].masked_fill(~is_label, IGNORE_INDEX)[:, kept]  # (B, kept)
        batch["labels"] = pad(labels, (1, 0), value=IGNORE_INDEX)
        return batch


@dataclass
class SentenceCollator(WordCollator):
    """
    Collates sentences, or pairs, for classifiers.

    Called with dictionaries that hold `input_ids`, `token_type_ids` (0 for the words of the first sentence, 1 for the
    second) and `label`; returns these, padded, `attention_mask` and `labels`, the classes or scores, `(batch_size,)`.
    """

    def __call__(self, examples: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        batch = super().__call__(examples)
        batch["token_type_ids"] = pad_words([example["token_type_ids"] for example in examples], 0)
        labels = [example["label"] for example in examples]
        # Scores are floats in all rows, classes are integers.
        dtype = torch.float32 if isinstance(labels[0], float) else torch.long
        return batch | {"labels": torch.tensor(labels, dtype=dtype)}


def _append(example: dict[str, Any], word: list[int]) -> dict[str, Any]:
    """Appends a word to an example."""
    longer = example | {"input_ids": [*example["input_ids"], *word]}
    if "word_ids" in example:
        longer["word_ids"] = [*example["word_ids"], *[max(example["word_ids"]) + 1] * len(word)]
    return longer
