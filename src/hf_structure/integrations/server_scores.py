"""Scores as servers give them: as dictionaries, of sentences that are not too long."""

from collections.abc import Callable, Sequence
from typing import Any


def score_bounded(scorer: Callable[[Any], Any], max_words: int, sentences: Sequence[str]) -> list[dict[str, Any]]:
    """
    Scores sentences, and returns the `to_dict` of each score. Raises `ValueError` for a sentence of more than
    `max_words` words between spaces: `score` itself has no bound, and a search over structures takes long.
    """
    for number, sentence in enumerate(sentences, start=1):
        count = len(sentence.split())
        if count > max_words:
            raise ValueError(f"sentence {number}: {count} words, of which there may be {max_words}")
    return [found.to_dict() for found in scorer(sentences)]
