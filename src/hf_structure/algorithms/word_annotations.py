"""
Lemmas and features as labels that a classifier can learn.

A lemma is an edit rule: write the word in lower case (or as it is, capitalised, in capitals), take characters from its
end, and add others. `lower-1+` makes `cat` of `Cats`, `lower-3+y` `try` of `tries`. Features (FEATS of CoNLL-U)
stand behind their part of speech, `NOUN Number=Plur`, so that a choice of the latter leaves those that go with it.
"""

from itertools import takewhile

CASINGS = {"lower": str.lower, "keep": str, "title": str.capitalize, "upper": str.upper}


def lemma_rule(form: str, lemma: str) -> str:
    """The shortest rule that makes a lemma of a word; of several, the first casing."""
    rules = []
    for casing, change in CASINGS.items():
        cased = change(form)
        kept = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(cased, lemma, strict=False))))
        rules.append((len(cased) + len(lemma) - 2 * kept, f"{casing}-{len(cased) - kept}+{lemma[kept:]}"))
    return min(rules, key=lambda rule: rule[0])[1]


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
