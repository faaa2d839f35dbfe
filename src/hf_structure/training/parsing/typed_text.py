"""Copies of training text as people type it: in lower case, in capitals, without punctuation."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, compress
from random import Random
from typing import Any

from datasets import Dataset, concatenate_datasets

from hf_structure.algorithms.trees import remove_words
from hf_structure.algorithms.word_annotations import lemma_of, lemma_rule
from hf_structure.models.rng_transformer.configuration_rng_transformer import CHAIN
from hf_structure.text.normalization import is_punctuation, keep_mask
from hf_structure.training.corpora import Corpora


@dataclass(frozen=True)
class Style:
    """A way of typing: the change of each word, and a mark if punctuation is left out."""

    change: Callable[[str], str] = str
    drops_punctuation: bool = False


STYLES = {
    "lower": Style(str.lower),
    "upper": Style(str.upper),
    "unpunctuated": Style(drops_punctuation=True),
    "bare": Style(str.lower, drops_punctuation=True),
}
AS_IS = Style()
MIXED = "mixed"  # each sentence in a style drawn from all, or as it is


def read_shares(options: Sequence[str]) -> dict[str, float]:
    """Reads options like `bare=0.2`: a style, and the share of the text that is copied in it. Raises `ValueError`."""
    shares = {}
    for option in options:
        name, _, number = option.partition("=")
        try:
            shares[name] = float(number)
        except ValueError:
            raise ValueError(f"--typed_copies {option}: a style and a share are needed, as in bare=0.2") from None
        if name not in STYLES and name != MIXED:
            raise ValueError(f"--typed_copies {option}: the styles are {', '.join(STYLES)} and {MIXED}")
        if not 0 < shares[name] <= 1:
            raise ValueError(f"--typed_copies {option}: a share of the text is above 0 and at most 1")
    return shares


def with_typed_copies(sentences: Dataset, shares: Mapping[str, float], seed: int, corpora: Corpora) -> Dataset:
    """Adds copies of a share of the sentences in each style, with the trees and columns of the words that are left."""
    if not shares:
        return sentences
    copy = partial(copy_sentences, shares=dict(shares), seed=seed)
    return concatenate_datasets([sentences, corpora.rewrite(sentences, copy, sentences.features, "copying")])


def copy_sentences(sentences: Sequence[Mapping], shares: Mapping[str, float], seed: int) -> list[dict]:
    """The copies of some sentences. A copy of the same words is left out."""
    copies = []
    for sentence in sentences:
        for style, rng in draw_styles([sentence], shares, seed):
            copy = retype(sentence, style, rng)
            if copy["words"] != sentence["words"]:
                copies.append(copy)
    return copies


def draw_styles(sentences: Sequence[Mapping], shares: Mapping[str, float], seed: int) -> Iterator[tuple[str, Random]]:
    """Draws the styles in which a text is copied, each with a generator for the choices of this copy."""
    # Seeded by the words, so that neither order nor the number of processes matters.
    words = " ".join(word for sentence in sentences for word in sentence["words"])
    for style, share in shares.items():
        rng = Random(f"{seed} {style} {words}")
        if rng.random() < share:
            yield style, rng


def retype(sentence: Mapping[str, Any], name: str, rng: Random | None = None) -> dict[str, Any]:
    """
    Copies a sentence in a style of `STYLES`, or in one drawn from all (`MIXED`).

    The dependents of removed punctuation go to its nearest ancestor that is left; constituents without words vanish,
    and unary ones become one chain. A sentence of punctuation alone keeps its words. Tags, features and lemmas stay as
    they are.
    """
    style = (rng or Random()).choice([*STYLES.values(), AS_IS]) if name == MIXED else STYLES[name]
    keep = _kept_words(sentence) if style.drops_punctuation else [True] * len(sentence["words"])
    copy = {column: _kept_values(column, values, keep) for column, values in sentence.items()}
    words = copy["words"]
    copy["words"] = [style.change(word) for word in words]
    if copy.get("lemma") is not None:
        copy["lemma"] = list(map(_typed_rule, copy["lemma"], words, copy["words"]))
    if sentence.get("spans") is not None:
        chains = _kept_chains(sentence["spans"], sentence["span_labels"], keep)
        copy |= {"spans": [list(span) for span in chains], "span_labels": list(chains.values())}
    return copy


def _kept_words(sentence: Mapping) -> list[bool]:
    words = sentence["words"]
    keep = keep_mask(words, sentence.get("tags"), sentence.get("deprels"))
    is_text = any(kept and not is_punctuation(word) for word, kept in zip(words, keep, strict=True))
    return keep if is_text else [True] * len(words)


def _kept_values(column: str, values: Any, keep: list[bool]) -> Any:
    """The values of the words that are left. Columns that are not about words stay as they are."""
    if not isinstance(values, list) or column in ("spans", "span_labels"):
        return values
    if column in ("heads", "initial_heads"):
        return remove_words(values, keep)
    return list(compress(values, keep))


def _typed_rule(rule: str | None, word: str, typed: str) -> str | None:
    """The rule that makes the lemma of a word from its typed form."""
    return None if rule is None else lemma_rule(typed, lemma_of(rule, word))


def _kept_chains(
    spans: Sequence[Sequence[int]], labels: Sequence[str], keep: Sequence[bool]
) -> dict[tuple[int, int], str]:
    """The labels of spans, outer ones first, over the words that are left."""
    before = list(accumulate(keep, initial=0))
    chains: dict[tuple[int, int], str] = {}
    for (start, end), label in zip(spans, labels, strict=True):
        span = (before[start], before[end])
        outer = chains.get(span)
        if outer is None:
            chains[span] = label
        # (NP (NP the dog) (, ,)) is a noun phrase, not two of them.
        elif outer.rpartition(CHAIN)[2] != label.partition(CHAIN)[0]:
            chains[span] = f"{outer}{CHAIN}{label}"
        elif CHAIN in label:
            chains[span] = f"{outer}{CHAIN}{label.partition(CHAIN)[2]}"
    return {(start, end): label for (start, end), label in chains.items() if start < end}
