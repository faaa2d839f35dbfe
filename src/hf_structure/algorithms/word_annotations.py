"""
What words look like, as numbers that a model can read; lemmas and features, as labels that a classifier can learn.

A lemma is an edit rule: write the word in lower case (or as it is, capitalised, in capitals), take characters from its
end, and add others. `lower-1+` makes `cat` of `Cats`, `lower-3+y` `try` of `tries`. Features (FEATS of CoNLL-U)
stand behind their part of speech, `NOUN Number=Plur`, so that a choice of the latter leaves those that go with it.
"""

import zlib
from functools import lru_cache
from itertools import groupby, takewhile

CASINGS = {"lower": str.lower, "keep": str, "title": str.capitalize, "upper": str.upper}


@lru_cache(maxsize=1 << 16)
def form_ids(word: str, num_buckets: int) -> tuple[int, ...]:
    """
    Hashes, each below `num_buckets`, of what a word looks like: as it is written, in lower case, its first three
    letters, its last two, three and four, and its shape (`Xxxx`, `dd-dd`; of a run of one kind, four signs at most).
    """
    lower = word.lower()
    shape = "".join(kind * min(len(list(run)), 4) for kind, run in groupby(map(_kind, word)))
    looks = (word, lower, lower[:3], lower[-2:], lower[-3:], lower[-4:], shape)
    return tuple(zlib.crc32(f"{number} {look}".encode()) % num_buckets for number, look in enumerate(looks))


def _kind(character: str) -> str:
    """What stands for a character in the shape of a word."""
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


def features_label(upos: str, feats: str) -> str:
    """The label of the features of a word with this part of speech."""
    return f"{upos} {feats}"


def features_of(label: str, form: str = "") -> str:
    """The features of a label, as FEATS of CoNLL-U."""
    return label.partition(" ")[2]


# What the names of a column mean for a word, if not themselves.
SPELLED = {"lemma": lemma_of, "feats": features_of}
