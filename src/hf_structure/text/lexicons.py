"""Collects the entries of a [`~hf_structure.algorithms.word_annotations.Lexicon`] from annotated text."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import chain

from hf_structure.algorithms.word_annotations import OPEN_CLASSES, lemma_rule
from hf_structure.text.conllu import ConlluSentence


def known_words(sentences: Iterable[ConlluSentence], tag: str = "xpos", several: bool = False) -> dict[str, str]:
    """
    Maps each `"XPOS rule"`, or `"UPOS rule"` if `tag` is `"upos"`, to the words, separated by spaces, for which this
    is the most frequent lemma rule. Lower-case words that are their own lemmas, words without letters and words with
    `@` are left out. With `several`, a word is listed under all of its rules, as it may belong to several languages,
    and words that are their own lemmas are kept.
    """
    forms_of_rule = defaultdict(list)
    for (form, value), lemmas in _count_lemmas(sentences, tag).items():
        for lemma, _ in lemmas.most_common(None if several else 1):
            if several or not form.islower() or lemma != form:
                forms_of_rule[f"{value} {lemma_rule(form, lemma)}"].append(form)
    return {key: " ".join(sorted(forms)) for key, forms in sorted(forms_of_rule.items())}


def _count_lemmas(sentences: Iterable[ConlluSentence], tag: str) -> dict[tuple[str, str], Counter[str]]:
    """Counts the lemmas of each form and tag, of the words that a lexicon can hold."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for word in chain.from_iterable(sentence.words for sentence in sentences):
        has_letters = any(map(str.isalpha, word.form))  # of any script: most have no capitals
        # The words of an entry are separated by spaces, so a form must not hold any.
        if word.lemma != "_" and has_letters and not re.search(r"[@\s]", word.form):
            counts[word.form, getattr(word, tag)][word.lemma] += 1
    return counts


def known_lemmas(sentences: Iterable[ConlluSentence], min_frequency: int = 2) -> str:
    """
    Lower-case lemmas, separated by spaces: words of open classes, of letters and hyphens, that are their own lemmas at
    least `min_frequency` times. Lemmas of inflected words alone do not count, because a tagger may get them wrong.
    """
    own = Counter(
        word.lemma.lower()
        for sentence in sentences
        for word in sentence.words
        if word.upos in OPEN_CLASSES and word.form.lower() == word.lemma.lower()
    )
    frequent = (lemma for lemma, count in own.items() if count >= min_frequency)
    return " ".join(sorted(lemma for lemma in frequent if lemma.replace("-", "").isalpha()))
