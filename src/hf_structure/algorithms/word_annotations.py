"""
The form of words as numbers that a model can read; lemmas and features as labels that a classifier can learn.

A lemma is an edit rule: write the word in lower case (or as it is, capitalised, in capitals), take characters from its
end, and add others. `lower-1+` makes `cat` of `Cats`, `lower-3+y` `try` of `tries`. Features (FEATS of CoNLL-U)
are prefixed with their part of speech, `NOUN Number=Plur`, so that a choice of the latter selects the labels that go
with it.
"""

import zlib
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, groupby, starmap, takewhile
from typing import Any

CANDIDATES = 4  # best rules among which a lexicon chooses
OPEN_CLASSES = {"ADJ", "ADV", "NOUN", "VERB"}  # parts of speech whose words are inflected, without names
CASINGS = {"lower": str.lower, "keep": str, "title": str.capitalize, "upper": str.upper}


@lru_cache(maxsize=1 << 16)
def form_ids(word: str, num_buckets: int) -> tuple[int, ...]:
    """
    Hashes, each below `num_buckets`, of a word's form: as it is written, in lower case, its first three
    letters, its last two, three and four, and its shape (`Xxxx`, `dd-dd`; of a run of one kind, four signs at most).
    """
    lower = word.lower()
    shape = "".join(kind * min(len(list(run)), 4) for kind, run in groupby(map(_kind, word)))
    looks = (word, lower, lower[:3], lower[-2:], lower[-3:], lower[-4:], shape)
    return tuple(zlib.crc32(f"{number} {look}".encode()) % num_buckets for number, look in enumerate(looks))


def _kind(character: str) -> str:
    """The symbol of a character in the shape of a word."""
    if character.isdigit():
        return "d"
    if character.isalpha():
        return "x" if character == character.lower() else "X"
    return character


def lemma_rule(form: str, lemma: str) -> str:
    """The shortest rule that makes a lemma of a word; of several, the first casing."""
    rules = []
    for casing, change in CASINGS.items():
        cased = change(form)
        kept = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(cased, lemma, strict=False))))
        rules.append((len(cased) + len(lemma) - 2 * kept, f"{casing}-{len(cased) - kept}+{lemma[kept:]}"))
    return min(rules, key=lambda rule: rule[0])[1]


@lru_cache(maxsize=1 << 16)
def lemma_of(rule: str, form: str) -> str:
    """The lemma that a rule makes of a word; the word itself if the rule takes too much, or leaves nothing."""
    casing, _, edit = rule.partition("-")
    cut, _, added = edit.partition("+")
    cased = CASINGS[casing](form)
    kept = len(cased) - int(cut)
    return form if kept < 0 else cased[:kept] + added or form


@dataclass(frozen=True)
class Lexicon:
    """Known words and lemmas, which correct predicted rules."""

    rules: Mapping[tuple[str, str], Sequence[str]]  # of words as they are written, and their XPOS (without it, UPOS)
    known_lemmas: AbstractSet[str]  # in lower case, of other words

    @cached_property
    def lemmas(self) -> AbstractSet[str]:
        """Returns all known lemmas in lower case, including the lemmas of the known words."""
        return self.known_lemmas | {lemma_of(rule, key[0]).lower() for key in self.rules for rule in self.rules[key]}

    @cached_property
    def endings(self) -> AbstractSet[tuple[str, str, str]]:
        """The edits of the known words, each with what it was made of, as [`_endings`] has it."""
        known = ((rule, *word) for word, rules in self.rules.items() for rule in rules)
        return set(chain.from_iterable(starmap(_endings, known)))

    @classmethod
    def read(cls, known_words: Mapping[str, str], known_lemmas: str) -> "Lexicon":
        """Reads what [`~hf_structure.text.lexicons`] has collected."""
        rules = defaultdict(list)
        for key, forms in known_words.items():
            xpos, _, rule = key.partition(" ")
            for form in forms.split():
                rules[form, xpos].append(rule)
        return cls(rules, frozenset(known_lemmas.split()))

    def count(self, words: Sequence[str], xpos: Sequence[str]) -> int:
        """Number of words of a sentence that the lexicon lists with these XPOS."""
        return sum(map(self.rules.__contains__, zip(words, xpos, strict=True)))

    def lemma(self, rules: Sequence[str], form: str, upos: str, xpos: str) -> str:
        """
        Returns the lemma of a word, given its best rules, best first. If the lexicon lists the word with this XPOS,
        its rule there decides, the best one of several. For any other word, the best plausible rule decides. In an
        open class, if its lemma is unknown, a later plausible rule with a known lemma wins: `depict`, not `depicte`,
        for `depicting`. Without a plausible rule, the word is its own lemma, in the case that the best rule gives it.
        """
        if known := self.rules.get((form, xpos)):
            return lemma_of(next((rule for rule in rules if rule in known), known[0]), form)
        unchanged = f"{rules[0].partition('-')[0]}-0+"
        plausible = (rule for rule in rules if self._is_plausible(rule, form, upos, xpos))
        best = lemma_of(next(plausible, unchanged), form)
        if upos not in OPEN_CLASSES or best.lower() == form.lower() or best.lower() in self.lemmas:
            return best
        others = (lemma_of(rule, form) for rule in plausible)
        return next((lemma for lemma in others if lemma.lower() in self.lemmas), best)

    def _is_plausible(self, rule: str, form: str, upos: str, xpos: str) -> bool:
        """
        Returns True if a rule keeps the letters of a word, has been seen with this XPOS and ending, or finds a known
        lemma. In an open class, a known lemma is not enough: the rule must have been seen with nearly this ending (so
        `mediated` does not become `media`), or keep the first two letters (`people` becomes `person`, but `thx` does
        not become `that`). Any rule is plausible without known words, and for numbers, signs and words of a script
        without capitals, whose endings say less.
        """
        if not self.rules or rule.endswith("-0+") or form.lower() == form.upper():
            return True
        nearly, same = _endings(rule, form, xpos)
        lemma = lemma_of(rule, form).lower()
        if same in self.endings:
            return True
        if lemma not in self.lemmas:
            return False
        is_irregular = not rule.endswith("+") and lemma[:2] == form[:2].lower() and len(lemma) <= len(form)
        return upos not in OPEN_CLASSES or is_irregular or nearly in self.endings


NO_LEXICON = Lexicon({}, frozenset())  # the best rule decides
_LEXICONS: deque[tuple[Any, Any, tuple[Lexicon, ...]]] = deque(maxlen=4)  # the last ones that were read


def read_lexicons(known_words: Mapping[str, Any], known_lemmas: str | Mapping[str, str]) -> tuple[Lexicon, ...]:
    """Makes a [`Lexicon`] of known words and lemmas, or one for each language if both are by language."""
    # Configurations ask again and again. Equality of the same strings costs a tenth of their hash as a whole.
    for words, lemmas, lexicons in _LEXICONS:
        if words == known_words and lemmas == known_lemmas:
            return lexicons
    if isinstance(known_lemmas, str):
        lexicons = (Lexicon.read(known_words, known_lemmas),)
    else:
        lexicons = tuple(Lexicon.read(known_words[language], known_lemmas[language]) for language in known_words)
    _LEXICONS.append((deepcopy(known_words), deepcopy(known_lemmas), lexicons))
    return lexicons


def choose_lexicon(lexicons: Sequence[Lexicon], words: Sequence[str], xpos: Sequence[str]) -> Lexicon:
    """Returns the lexicon that lists the most words of a sentence; of several, `NO_LEXICON` if none lists any."""
    if len(lexicons) == 1:
        return lexicons[0]
    return max((NO_LEXICON, *lexicons), key=lambda lexicon: lexicon.count(words, xpos))


def _endings(rule: str, form: str, xpos: str) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
    """A rule's edit with what it takes from a word and the letter before; with two letters before, and the XPOS."""
    edit = rule.partition("-")[2]
    cut = int(edit.partition("+")[0])
    lower = form.lower()
    return ("", edit, lower[-cut - 1 :]), (xpos, edit, lower[-cut - 2 :])


def features_label(upos: str, feats: str) -> str:
    """The label of the features of a word with this part of speech."""
    return f"{upos} {feats}"


def features_of(label: str) -> str:
    """The features of a label, as FEATS of CoNLL-U."""
    return label.partition(" ")[2]


def spell_lemmas(
    rules: Sequence[Any], words: Sequence[str], columns: Mapping[str, Sequence[str]], lexicons: Sequence[Lexicon] = ()
) -> list[str]:
    """Returns the lemmas of the words of a sentence: by the best rule of each, or by lexicons from its best rules."""
    if not lexicons:
        return list(map(lemma_of, rules, words))
    xpos = columns.get("xpos", columns["upos"])
    return list(map(choose_lexicon(lexicons, words, xpos).lemma, rules, words, columns["upos"], xpos))


def spell_features(labels: Sequence[str], words: Sequence[str], columns: Mapping[str, Sequence[str]]) -> list[str]:
    """The features of labels."""
    return list(map(features_of, labels))
