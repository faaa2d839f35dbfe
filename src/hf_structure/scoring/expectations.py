"""
What a causal language model expects before each token, beyond the probability of the one that comes.

In the vocabulary of GPT-2 and many others a space is part of the token after it. The tokens of a word then say that it
has begun, not that it has ended: "a cat" is all that "a category" begins with. What tells that a word w after a
context c has ended is the next token, which begins with a space. With B, the tokens that do, and P_B(x), their
probability after x, the surprisal of the word becomes

    s'(w | c) = s(w | c) + log P_B(c) - log P_B(c w)

The corrections of neighbouring words cancel out, so that a sentence's surprisal changes at its ends only.

- Oh and Schuler 2024 ("oh-schuler"): a first word without a space has no term for c, the end of the sentence none.
- Pimentel and Meister 2024 ("pimentel-meister"): the end token is in B, and a first word without a space has the
  probability of tokens that begin with none in the place of P_B(c).

A search predicts by several structures z, with weights p(z | x): a token has the probability sum_z p(z | x) p(token |
x, z), and P_B and the entropy are those of this mixture.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from transformers import PreTrainedTokenizerBase

from hf_structure.algorithms.beam import Beam
from hf_structure.modules.structured_lm.hypotheses import Hypotheses
from hf_structure.parsing.options import CORRECTIONS
from hf_structure.text.tokenization import word_start_mask

BEGINS, OPENS, ENTROPY, STRUCTURE_ENTROPY = range(4)  # the columns of expectations
_ROWS = 256  # hypotheses of which the distributions over tokens are computed at a time


def boundary_sets(
    tokenizer: PreTrainedTokenizerBase, vocab_size: int, correction: str | None, end: int
) -> torch.Tensor:
    """
    `(2, vocab_size)`: the tokens that are B in a correction, and those by whose probability a word that begins with
    none of them is divided. `end` is the end token. Raises `ValueError` for no such correction, or a tokenizer of
    which no token begins with a space.
    """
    starts = torch.zeros(vocab_size, dtype=torch.bool)
    spaces = word_start_mask(tokenizer)[:vocab_size]
    starts[: len(spaces)] = spaces
    if correction is None:
        return torch.stack([starts, ~starts])
    if correction not in CORRECTIONS:
        raise ValueError(f"correction must be one of {', '.join(CORRECTIONS)}, not {correction!r}")
    if not starts.any():
        raise ValueError("no token of this model begins with a space: there is nothing to correct")
    if correction == "oh-schuler":
        return torch.stack([starts, torch.ones_like(starts)])
    begins = starts.clone()
    begins[end] = True
    return torch.stack([begins, ~starts])


def expectations(log_probs: torch.Tensor, sets: torch.Tensor) -> torch.Tensor:
    """
    `(..., 3)`: of log-probabilities of tokens `(..., vocab_size)` the logarithms of the probabilities of both `sets`,
    and the entropy in nats.
    """
    columns = [log_probs.masked_fill(~tokens, -torch.inf).logsumexp(-1) for tokens in sets.to(log_probs.device)]
    columns.append(torch.special.entr(log_probs.exp()).sum(-1))
    return torch.stack(columns, -1)


class SearchWatch:
    """
    Watches a beam search in a batch, and keeps what it expects before each token: the `values` `(batch_size, seq_len,
    4)` are [`expectations`] with `sets`, see [`boundary_sets`], and the entropy of the structures that predict the
    token.
    """

    def __init__(self, sets: torch.Tensor, batch_size: int, seq_len: int):
        self.sets = sets
        self.values = torch.zeros(batch_size, seq_len, 4, dtype=torch.float32)

    def __call__(
        self, group: torch.Tensor, place: int, alike: torch.Tensor, beam: Beam, hypotheses: Hypotheses
    ) -> None:
        if _predict_of(type(hypotheses)) is not _predict_of(Hypotheses):  # it makes choices before a token comes
            raise ValueError("this model has no single distribution over next tokens: no correction and no entropy")
        batch = len(group)
        weights = (beam.log_probs - beam.masses(batch)[beam.sentences]).exp()  # (rows,)
        head = cast(Any, hypotheses.model).lm_head
        mixture = weights.new_zeros(batch, self.sets.shape[1])
        for rows in torch.arange(len(beam), device=weights.device).split(_ROWS):
            probs = head(hypotheses.last[rows]).float().softmax(-1)  # (rows, vocab_size)
            mixture.index_add_(0, beam.sentences[rows], weights[rows, None] * probs)  # (batch, vocab_size)
        structures = weights.new_zeros(batch).index_add(0, beam.sentences, torch.special.entr(weights))  # (batch,)
        values = torch.cat([expectations(mixture.log(), self.sets), structures[:, None]], -1)  # (batch, 4)
        self.values[group.cpu(), place] = values[alike].cpu()  # (group, 4)


def _predict_of(kind: type[Hypotheses]) -> Any:
    return getattr(kind, "predict", None)


def word_starts(word_ids: Sequence[int]) -> list[int]:
    """The places of the first token of each word, and that of the end token."""
    return [place for place in range(1, len(word_ids)) if word_ids[place] != word_ids[place - 1]]


def corrected(
    encoded: Mapping[str, Any], log_probs: Sequence[float], expected: Sequence[Sequence[float]], sets: torch.Tensor
) -> list[float]:
    """
    Log-probabilities of all tokens but the first of a sentence, of which the first token of each word is divided by
    the probability that a word begins, and the last one multiplied by the probability that the next one does.
    """
    found = list(log_probs)
    for place in word_starts(encoded["word_ids"]):
        before = BEGINS if sets[0, encoded["input_ids"][place]] else OPENS
        found[place - 1] -= expected[place - 1][before]
        if place > 1:
            found[place - 2] += expected[place - 1][BEGINS]
    return found
