"""
Pause tokens: tokens after each word that a language model reads, but that are neither predicted nor counted.

They give a model without structures the extra steps that a model with structures has. The configuration of the model
has their ids as `pause_token_ids`; models of transformers keep and save this setting as it is.
"""

from collections.abc import Sequence
from typing import Any


def pause_token_ids(config: Any) -> list[int]:
    """Returns the ids of the pause tokens after each word, in order; none for most models."""
    return list(getattr(config, "pause_token_ids", None) or [])


def refuse_pauses(config: Any, use: str) -> None:
    """Raises `ValueError` for a model with pauses, which cannot be put to a `use`: "gives no attention of words"."""
    if pause_token_ids(config):
        raise ValueError(f"a model with pauses (config.pause_token_ids) {use}: take one without, or score with it")


def insert_pauses(
    input_ids: Sequence[int], word_ids: Sequence[int], pauses: Sequence[int]
) -> tuple[list[int], list[int]]:
    """
    Inserts pauses after the last token of each word.

    Args:
        input_ids, word_ids: Tokens, and the word of each, from 1; 0 for tokens of no word.
        pauses: Ids of the pause tokens.

    Returns:
        The ids, and the indices in them of the tokens that were given.
    """
    ids: list[int] = []
    indices = []
    for token, word, following in zip(input_ids, word_ids, [*word_ids[1:], 0], strict=True):
        indices.append(len(ids))
        ids.append(token)
        if word and word != following:
            ids += pauses
    return ids, indices
