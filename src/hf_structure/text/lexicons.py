"""What [`~hf_structure.algorithms.word_annotations.Lexicon`] knows, from annotated text."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from hf_structure.algorithms.word_annotations import OPEN_CLASSES, lemma_rule
from hf_structure.text.conllu import ConlluSentence


def known_words(sentences: Iterable[ConlluSentence]) -> dict[str, str]:
    """
    The most frequent rule of each word with its XPOS, for a lexicon: words, parted by spaces, by `"XPOS rule"`.
    Words in lower case that are their own lemmas are left out, and those without letters or with `@`.
    """
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for word in (word for sentence in sentences for word in sentence.words):
        has_letters = word.form.lower() != word.form.upper()
        if word.lemma != "_" and has_letters and not re.search(r"[@\s]", word.form):
            counts[word.form, word.xpos][word.lemma] += 1
    known = defaultdict(list)
    for (form, xpos), lemmas in counts.items():
        lemma = lemmas.most_common(1)[0][0]
        if not form.islower() or lemma != form:
            known[f"{xpos} {lemma_rule(form, lemma)}"].append(form)
    return {key: " ".join(sorted(forms)) for key, forms in sorted(known.items())}


def known_lemmas(sentences: Iterable[ConlluSentence], min_frequency: int = 2) -> str:
    """
    Lemmas in lower case, parted by spaces, for a lexicon: words of open classes, of letters and hyphens, that are
    their own lemmas so often at least. Lemmas that only inflected words have do not count: a tagger's may be wrong.
    """
    own = Counter(
        word.lemma.lower()
        for sentence in sentences
        for word in sentence.words
        if word.upos in OPEN_CLASSES and word.form.lower() == word.lemma.lower()
    )
    frequent = (lemma for lemma, count in own.items() if count >= min_frequency)
    return " ".join(sorted(lemma for lemma in frequent if lemma.replace("-", "").isalpha()))
