"""What [`~hf_structure.algorithms.word_annotations.Lexicon`] knows, from annotated text."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from hf_structure.algorithms.word_annotations import OPEN_CLASSES, lemma_rule

Annotated = tuple[str, str, str, str]  # form, lemma, UPOS and XPOS of a word


def known_words(words: Iterable[Annotated]) -> dict[str, str]:
    """
    The most frequent rule of each word with its XPOS, for a lexicon: words, parted by spaces, by `"XPOS rule"`.
    Words in lower case that are their own lemmas are left out, and those without letters or with `@`.
    """
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for form, lemma, _, xpos in words:
        if lemma != "_" and form.lower() != form.upper() and not re.search(r"[@\s]", form):
            counts[form, xpos][lemma] += 1
    known = defaultdict(list)
    for (form, xpos), lemmas in counts.items():
        lemma = lemmas.most_common(1)[0][0]
        if not form.islower() or lemma != form:
            known[f"{xpos} {lemma_rule(form, lemma)}"].append(form)
    return {key: " ".join(sorted(forms)) for key, forms in sorted(known.items())}


def known_lemmas(words: Iterable[Annotated], min_frequency: int = 2) -> str:
    """
    Lemmas in lower case, parted by spaces, for a lexicon: words of open classes, of letters and hyphens, that are
    their own lemmas so often at least. Lemmas that only inflected words have do not count: a tagger's may be wrong.
    """
    own = Counter(
        lemma.lower() for form, lemma, upos, _ in words if upos in OPEN_CLASSES and form.lower() == lemma.lower()
    )
    frequent = (lemma for lemma, count in own.items() if count >= min_frequency)
    return " ".join(sorted(lemma for lemma in frequent if lemma.replace("-", "").isalpha()))
