"""Collates encoded sentences into batches of tensors."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

IGNORE_INDEX = -100
TEACHER = "teacher_"  # prefix of columns that a teacher reads
# Additional inputs of models for each word, with the value for words that lack it.
WORD_COLUMNS = {"tag_ids": -1, "form_ids": -1, "treebank_ids": 0, "initial_heads": -1, "initial_deprels": -1}


def pad_words(sentences: Sequence[Sequence[Any]], value: int, side: str = "right") -> torch.Tensor:
    """Pads lists of numbers (or of lists of numbers) with `value` on a side, to `(batch_size, longest)`."""
    tensors = [torch.as_tensor(sentence, dtype=torch.long) for sentence in sentences]
    return pad_sequence(tensors, True, padding_value=value, padding_side=side)


@dataclass
class WordCollator:
    """
    Pads encoded sentences.

    Args:
        pad_token_id (`int`): Id for padding. Models mask it, so any id will do.
        columns (`dict[str, int]`):
            Names of further columns with one number for each word, with the number for padding and for the words of
            sentences without the column; by default `WORD_COLUMNS`.

    Called with dictionaries that hold `input_ids` and, all or none, `heads` and `word_ids`; returns `input_ids`,
    `attention_mask`, `heads` and `word_ids` (padded with -1), each of shape `(batch_size, seq_len)`, and the `columns`
    present in some sentence, of shape `(batch_size, num_words)`. With one id a word, `num_words` is `seq_len`.
    """

    pad_token_id: int = 0
    columns: dict[str, int] = field(default_factory=WORD_COLUMNS.copy, kw_only=True)

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        input_ids = pad_words([example["input_ids"] for example in examples], self.pad_token_id)
        lengths = torch.tensor([len(example["input_ids"]) for example in examples])
        # Not `input_ids != pad`: any id may be used for padding.
        attention_mask = (torch.arange(input_ids.shape[1]) < lengths.unsqueeze(1)).long()  # (B, L)
        batch = {"input_ids": input_ids, "attention_mask": attention_mask}
        for name in ("heads", "word_ids"):
            if examples[0].get(name) is not None:
                batch[name] = pad_words([example[name] for example in examples], -1)
        for name, fill in self.columns.items():
            if any(example.get(name) is not None for example in examples):
                batch[name] = pad_words([_values(example, name, fill) for example in examples], fill)
        return batch


def _values(example: Mapping[str, Any], name: str, fill: int) -> Sequence[int]:
    """The numbers of a column; if the example lacks it, `fill` for each word."""
    if example.get(name) is not None:
        return example[name]
    word_ids = example.get("word_ids")
    return [fill] * (len(example["input_ids"]) if word_ids is None else max(word_ids, default=-1) + 1)


@dataclass
class CausalCollator:
    """
    Pads sentences for a causal language model, on the `padding_side`, `"right"` or `"left"`.

    Args:
        columns (`dict[str, int]`): Names of further columns with a number, or a list of numbers, for each token, and
            the number that pads them.
        compute (`Callable`, *optional*): Given the batch, returns further inputs of the model, which are added to it.
            Runs on the CPU, in the workers of a data loader.
        unpredicted (`Sequence[int]`): Ids of tokens that are no labels, such as pauses.

    Called with dictionaries that hold `input_ids` and, all or none, the `columns`; returns `input_ids`,
    `attention_mask`, `labels` and the columns, each of shape `(batch_size, seq_len)`, or `(batch_size, seq_len,
    longest)` for a column of lists.
    """

    pad_token_id: int
    padding_side: str = "right"
    columns: dict[str, int] = field(default_factory=dict, kw_only=True)
    compute: Callable[[dict[str, Any]], dict[str, Any]] | None = field(default=None, kw_only=True)
    unpredicted: Sequence[int] = field(default=(), kw_only=True)

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        batch: dict[str, Any] = {
            "input_ids": self._pad([example["input_ids"] for example in examples], self.pad_token_id)
        }
        batch["attention_mask"] = self._pad([[1] * len(example["input_ids"]) for example in examples], 0)
        # Nothing predicts the first token: `Trainer` would count a label for it, but it would never get a loss.
        is_target = (batch["attention_mask"] == 1) & (batch["attention_mask"].cumsum(1) > 1)
        is_target &= ~torch.isin(batch["input_ids"], torch.tensor(self.unpredicted, dtype=torch.long))
        batch["labels"] = batch["input_ids"].masked_fill(~is_target, IGNORE_INDEX)
        for name, fill in self.columns.items():
            if examples[0].get(name) is not None:
                batch[name] = self._pad(_of_equal_length([example[name] for example in examples], fill), fill)
        if self.compute is not None:
            batch |= self.compute(batch)
        return batch

    def _pad(self, sequences: Sequence[Sequence[Any]], value: int) -> torch.Tensor:
        return pad_words(sequences, value, self.padding_side)


def _of_equal_length(sequences: Sequence[Sequence[Any]], fill: int) -> Sequence[Sequence[Any]]:
    """Pads the lists of all tokens to the longest one; sequences of numbers are returned as they are."""
    if not isinstance(sequences[0][0], Sequence):
        return sequences
    longest = max(len(values) for sequence in sequences for values in sequence)
    return [[[*values, *[fill] * (longest - len(values))] for values in sequence] for sequence in sequences]


@dataclass
class ParsingCollator(WordCollator):
    """
    A [`WordCollator`] for sentences with trees: by default `labels`, ids of relation labels, and `sentence_starts` are
    columns, too, -100 if unknown, and `heads` have the shape `(batch_size, num_words)`.

    Args:
        predicted (`Sequence[str]`):
            Names of further predicted columns of words: their ids are collected in `columns`, -100 if unknown.

    Columns with the prefix `TEACHER` are batched as `teacher`, without the prefix, together with the `heads` to learn.
    Running text, which has `sentence_starts`, is left out of it.
    """

    columns: dict[str, int] = field(
        default_factory=lambda: WORD_COLUMNS | {"labels": IGNORE_INDEX, "sentence_starts": IGNORE_INDEX}, kw_only=True
    )
    predicted: Sequence[str] = field(default=(), kw_only=True)

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        batch: dict[str, Any] = super().__call__(examples)
        if self.predicted:
            batch["columns"] = {
                name: pad_words([_values(example, name, IGNORE_INDEX) for example in examples], IGNORE_INDEX)
                for name in self.predicted
            }
        if any(example.get("constituents") is not None for example in examples):
            batch["constituents"] = _constituents(examples)
        trees = [example for example in examples if example.get("sentence_starts") is None]
        # Running text has no tree for the teacher to score.
        if trees and f"{TEACHER}input_ids" in trees[0]:
            batch["teacher"] = WordCollator(self.pad_token_id)(list(map(_for_teacher, trees)))
        return batch


def _constituents(examples: Sequence[Mapping[str, Any]]) -> torch.Tensor:
    """Pads constituents, lists of start, end and label, to `(batch_size, most, 3)`, with -1."""
    trees = [torch.tensor(example.get("constituents") or [], dtype=torch.long) for example in examples]
    # A sentence without constituents is of shape (0,).
    return pad_sequence([tree.view(-1, 3) for tree in trees], batch_first=True, padding_value=-1)  # (B, most, 3)


def _for_teacher(example: Mapping[str, Any]) -> dict[str, Any]:
    """Collects a teacher's inputs for an example, and the heads to learn."""
    read = {name.removeprefix(TEACHER): value for name, value in example.items() if name.startswith(TEACHER)}
    return read | {"heads": example["heads"]}


@dataclass
class MaskedWordCollator(WordCollator):
    """
    Pads encoded sentences and masks words as in the UDGN and StructFormer papers: every word that is not special or
    unknown is replaced by the mask token with probability `mask_rate` (never by another word), and becomes a label.

    The masked words depend only on `seed`, the current epoch and the batch, not on a global random state, so that a
    resumed run masks the same words as an uninterrupted one.

    Args:
        special_token_ids (`Sequence[int]`): Ids that are never masked, including the unknown word's.
        mask_rate (`float`): Share of masked words.
        seed (`int`): Seed of the masking.

    Raises:
        ValueError: if `mask_rate` is not between 0 and 1.
    """

    mask_token_id: int = 0
    special_token_ids: Sequence[int] = ()
    mask_rate: float = 0.3
    seed: int = 0
    epoch: int = 0

    def __post_init__(self):
        if not 0 < self.mask_rate < 1:
            raise ValueError(f"mask_rate must be between 0 and 1, not {self.mask_rate}")

    @classmethod
    def from_tokenizer(cls, tokenizer, **kwargs) -> "MaskedWordCollator":
        """Makes a collator for a tokenizer's special tokens; `kwargs` are the remaining arguments."""
        return cls(tokenizer.pad_token_id, tokenizer.mask_token_id, tuple(tokenizer.all_special_ids), **kwargs)

    def set_epoch(self, epoch: int) -> None:
        """Selects the masking of an epoch."""
        self.epoch = epoch

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        batch = super().__call__(examples)
        input_ids = batch["input_ids"]
        special = torch.isin(input_ids, torch.tensor(self.special_token_ids, dtype=torch.long))
        maskable = batch["attention_mask"].bool() & ~special
        draws = torch.rand(input_ids.shape, generator=self._generator(input_ids), dtype=torch.float32)
        masked = maskable & (draws < self.mask_rate)
        # Every batch with a word to predict needs a label, or it would have no loss.
        if not masked.any():
            # The word with the smallest draw would be masked first if the rate were higher.
            masked = maskable & (draws == draws.masked_fill(~maskable, torch.inf).min())
        batch["labels"] = input_ids.masked_fill(~masked, IGNORE_INDEX)
        batch["input_ids"] = input_ids.masked_fill(masked, self.mask_token_id)
        return batch

    def _generator(self, input_ids: torch.Tensor) -> torch.Generator:
        # The checksum of the ids makes the masking a function of the batch.
        state = zlib.crc32(input_ids.numpy().tobytes(), zlib.crc32(f"{self.seed} {self.epoch}".encode()))
        return torch.Generator().manual_seed(state)
