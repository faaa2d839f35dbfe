"""
Pseudo-log-likelihoods of sentences by masked language models (Salazar et al. 2020).

Each token is masked in its own copy of the sentence to read its log-probability. In a word of several pieces, the
later pieces are masked with it (Kauf and Ivanova 2023, "within-word left-to-right"): otherwise a piece is predictable
from the rest of its word, and long rare words become too likely.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import Any, cast

import torch
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.corpora.batching import token_budget_batches
from hf_structure.corpora.collators import pad_words
from hf_structure.parsing.encoding import seen_mask
from hf_structure.parsing.loading import compute_device
from hf_structure.text.sentences import EmptySentenceError
from hf_structure.text.tokenization import check_words, encode_words, is_word_level, pieces_of_words
from hf_structure.text.words import find_words


def split_sentence(sentence: str | Sequence[str], split: Callable[[str], list[str]]) -> tuple[str, list[str]]:
    """
    Returns the text and the words of a sentence that is given as a string or as words. Raises `EmptySentenceError` if
    it has no words.
    """
    words = split(sentence) if isinstance(sentence, str) else list(sentence)
    if not words:
        raise EmptySentenceError("a sentence without words")
    return sentence if isinstance(sentence, str) else " ".join(words), words


def encode_masked(
    sentence: str | Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    split: Callable[[str], list[str]],
    ends: tuple[list[int], list[int]],
) -> dict[str, Any]:
    """
    Returns the `text` of a sentence, its `words` and their `word_spans`, `input_ids` with the tokenizer's special
    tokens, and `word_ids`, the word of each token from 1, 0 for special tokens. Punctuation is left out if the model
    was trained without it. `split` splits a string into words; `ends` are the tokenizer's [`special_ends`].

    Raises `EmptySentenceError` for a sentence without words, and `ValueError` for an empty word or a tokenizer that is
    not fast.
    """
    text, words = split_sentence(sentence, split)
    check_words(words)
    spans = find_words(text, words)
    keep = seen_mask(words, tokenizer)
    words = list(compress(words, keep))
    spans = spans and list(compress(spans, keep))
    pieces = _pieces(words, tokenizer)
    before, after = ends
    numbers = [number for number, ids in enumerate(pieces, start=1) for _ in ids]
    return {
        "text": text,
        "words": words,
        "word_spans": spans,
        "input_ids": [*before, *(piece for ids in pieces for piece in ids), *after],
        "word_ids": [*(0 for _ in before), *numbers, *(0 for _ in after)],
    }


def _pieces(words: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """Returns the token ids of each word."""
    # A word-level vocabulary has one id a word, whatever the tokenizer would do with raw text.
    if is_word_level(tokenizer):
        return [[number] for number in encode_words(words, tokenizer)]
    return pieces_of_words(words, tokenizer)


def special_ends(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """Special tokens that a tokenizer adds before and after a text, such as [CLS] and [SEP]."""
    encoding = tokenizer("a", return_special_tokens_mask=True)
    ids = encoding["input_ids"]
    mask = encoding["special_tokens_mask"]
    # The mask hides the ends then; they are found by comparing lengths, with the odd token in front.
    if all(mask):  # the probe "a" itself is unknown
        plain = len(tokenizer("a", add_special_tokens=False)["input_ids"])
        begin = (len(ids) - plain + 1) // 2
        return ids[:begin], ids[begin + plain :]
    begin = mask.index(0)
    return ids[:begin], ids[len(ids) - mask[::-1].index(0) :]


@torch.no_grad()
def pseudo_log_probs(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[Mapping[str, Any]],
    masking: str,
    max_tokens: int,
    progress: bool = False,
) -> list[list[float]]:
    """
    Returns for each sentence (see [`encode_masked`]) the log-probabilities in nats of the tokens of words, each
    masked, given the others. With the `masking` `"within_word"`, the later pieces of a word are masked with each of
    its pieces; with `"original"`, they are not. A batch has `max_tokens`, including padding; a copy of a sentence is
    never split.
    """
    copies = []
    for number, sentence in enumerate(sentences):
        copies += [(number, position) for position, word in enumerate(sentence["word_ids"]) if word]
    # Copies of all sentences are batched together, so that lengths in a batch are similar.
    lengths = [len(sentences[number]["input_ids"]) for number, _ in copies]
    log_probs = [0.0] * len(copies)
    with tqdm(total=len(copies), unit=" tokens", disable=not progress) as bar:
        for batch in token_budget_batches(lengths, max_tokens):
            items = [(sentences[copies[index][0]], copies[index][1]) for index in batch]
            values = _log_probs(model, tokenizer, items, masking)
            for index, value in zip(batch, values.tolist(), strict=True):
                log_probs[index] = value
            bar.update(len(batch))
    results: list[list[float]] = [[] for _ in sentences]
    for (number, _), value in zip(copies, log_probs, strict=True):
        results[number].append(value)
    return results


def _log_probs(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, items: Sequence[tuple[Mapping, int]], masking: str
) -> torch.Tensor:
    """Log-probabilities `(items,)` of the token at a position of each sentence."""
    mask = cast(int, tokenizer.mask_token_id)
    # Padding is masked out, so the mask token will do if there is no padding token.
    pad = mask if tokenizer.pad_token_id is None else cast(int, tokenizer.pad_token_id)
    masked = [_mask(sentence, position, masking, mask) for sentence, position in items]
    inputs = {"input_ids": pad_words(masked, pad), "attention_mask": pad_words([[1] * len(row) for row in masked], 0)}
    device = compute_device(model)
    logits = model(**{name: value.to(device) for name, value in inputs.items()}).logits
    rows = range(len(items))
    positions = [position for _, position in items]
    targets = [sentence["input_ids"][position] for sentence, position in items]
    # Select the positions before the softmax, which is expensive over a vocabulary.
    logits = logits[rows, positions].float()  # (items, vocab_size)
    return logits[rows, targets] - logits.logsumexp(1)  # (items,)


def _mask(sentence: Mapping[str, Any], position: int, masking: str, mask_token_id: int) -> list[int]:
    """Masks one token of a sentence, or also the rest of its word."""
    ids = list(sentence["input_ids"])
    words = sentence["word_ids"]
    end = position + 1
    # Within a word, only the later pieces: the earlier ones are context, as in left-to-right generation.
    while masking == "within_word" and end < len(ids) and words[end] == words[position]:
        end += 1
    ids[position:end] = [mask_token_id] * (end - position)
    return ids
