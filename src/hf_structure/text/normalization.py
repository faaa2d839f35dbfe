"""Preprocesses words as the papers do: no punctuation, lower case, `N` for digits.

Frequency thresholds are applied when a tokenizer is trained (`hf_structure.text.tokenization`).
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache

# fmt: off
# UDGN's list of tags of words in the Penn Treebank; punctuation, brackets and currency signs have others.
PTB_WORD_TAGS = frozenset([
    "CC", "CD", "DT", "EX", "FW", "IN", "JJ", "JJR", "JJS", "LS", "MD", "NN", "NNS", "NNP", "NNPS", "PDT", "POS",
    "PRP", "PRP$", "RB", "RBR", "RBS", "RP", "SYM", "TO", "UH", "VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "WDT", "WP",
    "WP$", "WRB", "AUX", "AUXG",
])
# Universal tags of words, which share no name with the ones above but AUX and SYM (a word in both).
UPOS_WORD_TAGS = frozenset([
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "SCONJ", "SYM", "VERB",
    "X",
])
# The other Penn Treebank tags, later ones included, and the universal one. Currency signs are among them, as in UDGN.
PUNCTUATION_TAGS = frozenset([
    ".", ",", ":", "``", "''", "-LRB-", "-RRB-", "HYPH", "NFP", "$", "#", "-NONE-", "PUNCT",
])
# The relations of Universal Dependencies, without subtypes.
UNIVERSAL_RELATIONS = frozenset([
    "acl", "advcl", "advmod", "amod", "appos", "aux", "case", "cc", "ccomp", "clf", "compound", "conj", "cop", "csubj",
    "dep", "det", "discourse", "dislocated", "expl", "fixed", "flat", "goeswith", "iobj", "list", "mark", "nmod",
    "nsubj", "nummod", "obj", "obl", "orphan", "parataxis", "punct", "reparandum", "root", "vocative", "xcomp",
])
# fmt: on

_DIGITS = re.compile("[0-9]+")
_PUNCTUATION_SYMBOLS = frozenset("^`~|=+<>_")
_WORD_SIGNS = frozenset("%&#@％＆＃＠٪")  # of a punctuation category in Unicode, but read as words
_BRACKET_ESCAPES = frozenset(["-LRB-", "-RRB-", "-LCB-", "-RCB-", "-LSB-", "-RSB-"])


def normalize_word(word: str) -> str:
    """
    Lower-cases a word and replaces every maximal run of ASCII digits by one `N`: `"1,200th"` -> `"N,Nth"`. The
    tokenizers that this library trains do the same.
    """
    # Letter by letter, as in the tokenizers: a final capital sigma becomes the same letter as any other.
    return _DIGITS.sub("N", "".join(map(str.lower, word)))


@lru_cache(maxsize=1 << 16)
def is_punctuation(word: str) -> bool:
    """
    Returns True if a word is punctuation by its form: every character is in a Unicode punctuation category or one of
    ``^`~|=+<>_``, and none is a sign that is read as a word (`% & # @`, wide ones and Arabic's `٪` too; currency signs
    are no punctuation in Unicode). The Penn Treebank's bracket names (`-LRB-`) are punctuation.
    """
    return bool(word) and (word in _BRACKET_ESCAPES or all(map(_is_punctuation_character, word)))


def _is_punctuation_character(character: str) -> bool:
    if character in _PUNCTUATION_SYMBOLS:
        return True
    return unicodedata.category(character).startswith("P") and character not in _WORD_SIGNS


def keep_mask(
    words: Sequence[str], tags: Sequence[str] | None = None, deprels: Sequence[str] | None = None, by: str = "auto"
) -> list[bool]:
    """
    Marks the words of a sentence that are not punctuation.

    Relations follow Universal Dependencies; tags follow the Penn Treebank or are universal. A word with a relation or
    tag of another scheme is judged by its form, unless its tag is a word's.

    Args:
        words (`Sequence[str]`): The words.
        tags (`Sequence[str]`, *optional*): Part-of-speech tags.
        deprels (`Sequence[str]`, *optional*): Dependency labels.
        by (`str`, defaults to `"auto"`):
            `"deprel"`: words with the label `punct` or `punct:...` are dropped; `"tags"`: words with a tag of
            `PUNCTUATION_TAGS` are dropped (currency signs too, as in the papers), words with a tag of `PTB_WORD_TAGS`
            or `UPOS_WORD_TAGS` kept; `"form"`: words are dropped by `is_punctuation`; `"auto"`: the first of these for
            which the sentence has the annotation.

    Returns:
        `list[bool]`: True for each word to keep.

    Raises:
        ValueError: `by` is unknown, or names an annotation that the sentence does not have.
    """
    # The best criterion first, for `"auto"`: relations are annotated in context, forms are ambiguous.
    given = {"deprel": deprels, "tags": tags, "form": words}
    by, values = _criterion(by, given)
    if by == "form":
        return [not is_punctuation(word) for word in words]
    if by == "tags":
        return [_keep_by_tag(*each) for each in zip(values, words, strict=True)]
    all_tags = [None] * len(words) if tags is None else tags
    return [_keep_by_relation(*each) for each in zip(values, words, all_tags, strict=True)]


def _criterion(by: str, given: Mapping[str, Sequence[str] | None]) -> tuple[str, Sequence[str]]:
    """Returns a criterion of [`keep_mask`] with the values for it. Raises its errors."""
    if by == "auto":
        by = next(name for name, values in given.items() if values is not None)
    if by not in given:
        raise ValueError(f'by="{by}" is none of "auto", "deprel", "tags", "form"')
    values = given[by]
    if values is None:
        sentence = " ".join((given["form"] or ())[:10])
        raise ValueError(f'punctuation by="{by}" (not "auto" or "form"), but the sentence has no {by}: {sentence}')
    return by, values


def _keep_by_tag(tag: str, word: str) -> bool:
    return tag not in PUNCTUATION_TAGS and _is_word(word, tag)


def _keep_by_relation(deprel: str, word: str, tag: str | None) -> bool:
    relation = deprel.partition(":")[0]
    # Other schemes, such as Stanford's or SUD's own relations, do not set punctuation apart in the same way.
    if relation in UNIVERSAL_RELATIONS:
        return relation != "punct"
    return _is_word(word, tag)


def _is_word(word: str, tag: str | None) -> bool:
    """Judges by the tag if it is a word's, or else by the form."""
    return tag in PTB_WORD_TAGS or tag in UPOS_WORD_TAGS or not is_punctuation(word)
