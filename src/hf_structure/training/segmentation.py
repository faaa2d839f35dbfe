"""Text of treebanks, in which a network learns where tokens and sentences end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import Trainer

from hf_structure.algorithms.characters import NUM_MATCHES, CharacterReader
from hf_structure.text.running import TextSentence
from hf_structure.training.token_splits import split_number

HARDER = 5  # weight of treebanks whose tokens are all hard to find, besides 1
MERGED = 0.25  # share of the training texts that ignore the marks of paragraphs
LOWER = 0.05  # share of them in lower case
UNKNOWN = 0.03  # share of the characters that are hidden
UNNAMED = 0.5  # share of the texts that are read without the name of their treebank
MARGIN = 24  # characters at a cut that nothing is learned of


@dataclass
class Treebank:
    """The sentences of a treebank, one after the other, as numbers."""

    ids: np.ndarray  # (n, 3)
    lower: np.ndarray  # (n, 3)
    matches: np.ndarray  # (n, M)
    labels: np.ndarray  # (n,): 0 inside a token, 1 + the way to split the token that ends, -100 white space
    starts: np.ndarray  # of the sentences
    spaces: np.ndarray  # number of spaces after each
    paragraphs: np.ndarray  # sentences that begin a paragraph
    words: int  # tokens, of one word or several
    hard: int  # tokens that are not what is between spaces and marks


def encode_treebank(sentences: Sequence[TextSentence], read: CharacterReader, rules: Sequence[str]) -> Treebank:
    """Reads the sentences as numbers; `rules` are the ways to split a token."""
    numbers = {rule: number for number, rule in enumerate(rules, start=1)}
    text = "".join(sentence.text for sentence in sentences)
    ids, _ = read(text)
    lowered = text.lower()
    lower = read(lowered)[0] if len(lowered) == len(text) else ids
    matches = np.concatenate([read(sentence.text)[1] for sentence in sentences])
    labels = np.zeros(len(text), dtype=np.int16)
    labels[[number for number, character in enumerate(text) if character.isspace()]] = -100
    starts = np.cumsum([0, *(len(sentence.text) for sentence in sentences)])
    for start, sentence in zip(starts, sentences, strict=False):
        before = 0
        for end, words in zip(sentence.ends, sentence.words, strict=True):
            token = sentence.text[before : end + 1].strip()
            labels[start + end] = 1 + split_number(token, words, numbers)
            before = end + 1
    return Treebank(
        ids.astype(np.int16),
        lower.astype(np.int16),
        matches,
        labels,
        starts,
        np.array([len(sentence.space) for sentence in sentences]),
        np.array([sentence.begins_paragraph for sentence in sentences]),
        sum(len(sentence.words) for sentence in sentences),
        sum(map(count_hard_tokens, sentences)),
    )


def count_hard_tokens(sentence: TextSentence) -> int:
    """Number of tokens that have several words, hold white space, or meet the next one within letters."""
    text = sentence.text
    count = 0
    start = 0
    for end, words in zip(sentence.ends, sentence.words, strict=True):
        has_space = any(map(str.isspace, text[start : end + 1].strip()))
        runs_on = text[end].isalnum() and text[end + 1 : end + 2].isalnum()
        count += len(words) > 1 or has_space or runs_on
        start = end + 1
    return count


class SegmentationData(Dataset):
    """
    Texts of `length` characters, drawn from treebanks by a power of their numbers of words, up to six times as often
    where spaces and marks tell little. Each is determined by the seed and its index. Sentences follow each other as in
    the treebank, paragraphs apart or joined.
    """

    def __init__(
        self,
        treebanks: Sequence[Treebank],
        space: np.ndarray,
        size: int,
        length: int,
        power: float,
        gap: int,
        seed: int,
    ):
        self.treebanks = treebanks
        self.space = space.astype(np.int16)
        self.size = size
        self.length = length
        self.gap = gap
        self.seed = seed
        words = np.array([treebank.words for treebank in treebanks], dtype=float)
        hard = np.array([treebank.hard for treebank in treebanks])
        weights = words**power * (1 + HARDER * hard / words)
        self.chances = weights / weights.sum()

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        random = np.random.default_rng((self.seed, index))
        number = int(random.choice(len(self.treebanks), p=self.chances))
        treebank = self.treebanks[number]
        ids = treebank.lower if random.random() < LOWER else treebank.ids
        respects = random.random() >= MERGED
        sentence = int(random.integers(len(treebank.spaces)))
        row = _Row(self.space, self.gap)
        # Begin inside a long sentence now and then, so that all parts of it are seen.
        start, end = treebank.starts[sentence : sentence + 2]
        if end - start > self.length:
            start = int(random.integers(start, end - self.length // 2))
        is_cut = start > treebank.starts[sentence]
        while row.size < self.length:
            end = treebank.starts[sentence + 1]
            row.add(ids, treebank, start, end, margin=MARGIN if is_cut else 0)
            is_cut = False
            last = sentence
            sentence = (sentence + 1) % len(treebank.spaces)
            start = treebank.starts[sentence]
            if sentence == 0 or (respects and treebank.paragraphs[sentence]):
                row.separate()
            elif treebank.spaces[last]:
                row.add_space()
        made = row.cut(self.length)
        hidden = random.random(len(made["ids"])) < UNKNOWN
        made["ids"][hidden, 0] = 0
        named = number + 1 if random.random() >= UNNAMED else 0
        return made | {"treebank_ids": np.full(1, named)}


class _Row:
    """Texts in one row."""

    def __init__(self, space: np.ndarray, gap: int):
        self.space = space
        self.gap = gap
        self.size = 0
        self.parts: list[tuple[np.ndarray, ...]] = []

    def _append(self, ids: np.ndarray, matches: np.ndarray, labels: np.ndarray, ends: np.ndarray, mask: bool) -> None:
        self.parts.append((ids, matches, labels, ends, np.full(len(ids), mask)))
        self.size += len(ids)

    def add(self, ids: np.ndarray, treebank: Treebank, start: int, end: int, margin: int) -> None:
        labels = treebank.labels[start:end].copy()
        labels[:margin] = -100
        ends = np.where(labels > 0, 0, -100)
        ends[-1] = 1
        self._append(ids[start:end], treebank.matches[start:end], labels, ends, True)

    def add_space(self) -> None:
        nothing = np.full(1, -100)
        self._append(self.space, np.zeros((1, NUM_MATCHES), dtype=np.uint8), nothing, nothing, True)

    def separate(self) -> None:
        nothing = np.full(self.gap, -100)
        ids = np.zeros((self.gap, 3), dtype=np.int16)
        self._append(ids, np.zeros((self.gap, NUM_MATCHES), dtype=np.uint8), nothing, nothing, False)

    def cut(self, length: int) -> dict[str, np.ndarray]:
        columns = zip(*self.parts, strict=True)
        names: list[str] = ["ids", "matches", "labels", "sentence_ends", "mask"]
        row = {name: np.concatenate(parts)[:length] for name, parts in zip(names, columns, strict=True)}
        # What follows is cut off, and no text ends here.
        row["labels"][length - MARGIN :] = -100
        row["sentence_ends"][length - MARGIN :] = -100
        return row


def collate(rows: Sequence[Mapping[str, np.ndarray]]) -> dict[str, torch.Tensor]:
    """Stacks rows of one length."""
    batch = {name: torch.from_numpy(np.stack([row[name] for row in rows])) for name in rows[0]}
    for name in ("ids", "labels", "sentence_ends", "treebank_ids"):
        batch[name] = batch[name].long()
    return batch


class SegmentationTrainer(Trainer):
    """Trains a [`~hf_structure.modules.character_segmenter.CharacterSegmenter`]."""

    def compute_loss(self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, **kwargs) -> Any:
        labels = inputs.pop("labels")
        sentence_ends = inputs.pop("sentence_ends")
        loss = segmentation_loss(model, labels, sentence_ends, **inputs)
        return (loss, {}) if return_outputs else loss


def segmentation_loss(
    model: Any, labels: torch.Tensor, sentence_ends: torch.Tensor, **inputs: torch.Tensor
) -> torch.Tensor:
    """Mean loss of a character: does it end a token, which is split how, and a sentence."""
    scores = model(**inputs)
    known = labels >= 0
    ends_loss = torch.nn.functional.binary_cross_entropy_with_logits(
        scores.ends[known].float(), (labels[known] > 0).float(), reduction="sum"
    )
    is_end = labels > 0
    splits = model.splits(scores.hidden_states[is_end]).float()
    split_loss = torch.nn.functional.cross_entropy(splits, labels[is_end] - 1, reduction="sum")
    judged = sentence_ends >= 0
    sentence_loss = torch.nn.functional.binary_cross_entropy_with_logits(
        scores.sentences[judged].float(), sentence_ends[judged].float(), reduction="sum"
    )
    return (ends_loss + split_loss + sentence_loss) / known.sum().clamp(min=1)
