"""
Expectations of a causal language model before each token, beyond the probability of the actual next token.

In the vocabulary of GPT-2 and many others a space is part of the token after it. The tokens of a word then show that
it has begun, not that it has ended: "a cat" is also the beginning of "a category". The next token shows that a word w
after a context c has ended, because it begins with a space. Let B be the tokens that begin with a space, and P_B(x)
their probability after x. Then the surprisal of the word becomes

    s'(w | c) = s(w | c) + log P_B(c) - log P_B(c w)

The corrections of adjacent words cancel out, so that a sentence's surprisal changes only at its ends.

- Oh and Schuler 2024 ("oh-schuler"): a first word without a space has no term for c, and the end of the sentence has
  no correction.
- Pimentel and Meister 2024 ("pimentel-meister"): the end token is in B. For a first word without a space, the
  probability of tokens without a leading space replaces P_B(c).

A search predicts with several structures z, with weights p(z | x): a token has the probability sum_z p(z | x) p(token
| x, z). P_B and the entropy are computed from this mixture.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from transformers import PreTrainedTokenizerBase

from hf_structure.algorithms.beam import Beam
from hf_structure.modules.structured_lm.hypotheses import Hypotheses
from hf_structure.parsing.options import CORRECTIONS
from hf_structure.text.tokenization import word_start_mask

BEGINS, OPENS, ENTROPY, STRUCTURE_ENTROPY = range(4)  # columns of the expectations
_ROWS = 256  # hypotheses whose distributions over tokens are computed at a time


def boundary_sets(
    tokenizer: PreTrainedTokenizerBase, vocab_size: int, correction: str | None, end: int
) -> torch.Tensor:
    """
    Returns two masks of tokens, `(2, vocab_size)`, for a correction: B, and the tokens whose probability replaces
    P_B(c) before a word that does not begin with one of B. `end` is the end token. Raises `ValueError` for an unknown
    correction, or a tokenizer without tokens that begin with a space.
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
    Reduces log-probabilities of tokens `(..., vocab_size)` to `(..., 3)`: the log-probabilities of both `sets`, and
    the entropy in nats.
    """
    columns = [log_probs.masked_fill(~tokens, -torch.inf).logsumexp(-1) for tokens in sets.to(log_probs.device)]
    columns.append(torch.special.entr(log_probs.exp()).sum(-1))
    return torch.stack(columns, -1)


class SearchWatch:
    """
    Observes the beam search of a batch, and records its expectations before each token: `values`, of shape
    `(batch_size, seq_len, 4)`, are the [`expectations`] with `sets`, see [`boundary_sets`], and the entropy of the
    structures that predict the token.
    """

    def __init__(self, sets: torch.Tensor, batch_size: int, seq_len: int):
        self.sets = sets
        self.values = torch.zeros(batch_size, seq_len, 4, dtype=torch.float32)

    def __call__(
        self, group: torch.Tensor, position: int, alike: torch.Tensor, beam: Beam, hypotheses: Hypotheses
    ) -> None:
        # A search that makes choices before each token has no distribution over tokens.
        if _predict_of(type(hypotheses)) is not _predict_of(Hypotheses):
            raise ValueError("this model has no single distribution over next tokens: no correction and no entropy")
        batch = len(group)
        weights = (beam.log_probs - beam.masses(batch)[beam.sentences]).exp()  # (rows,)
        head = cast(Any, hypotheses.model).lm_head
        mixture = weights.new_zeros(batch, self.sets.shape[1])
        for rows in torch.arange(len(beam), device=weights.device).split(_ROWS):
            probs = head(hypotheses.last[rows]).float().softmax(-1)  # (rows, vocab_size)
            mixture.index_add_(0, beam.sentences[rows], weights[rows, None] * probs)  # (batch, vocab_size)
        # Entropy of the structures is over all hypotheses of a sentence, not over their tokens.
        structures = weights.new_zeros(batch).index_add(0, beam.sentences, torch.special.entr(weights))  # (batch,)
        values = torch.cat([expectations(mixture.log(), self.sets), structures[:, None]], -1)  # (batch, 4)
        self.values[group.cpu(), position] = values[alike].cpu()  # (group, 4)


def _predict_of(kind: type[Hypotheses]) -> Any:
    return getattr(kind, "predict", None)


def word_starts(word_ids: Sequence[int]) -> list[int]:
    """Positions of the first token of each word, and of the end token."""
    return [position for position in range(1, len(word_ids)) if word_ids[position] != word_ids[position - 1]]


def corrected(
    encoded: Mapping[str, Any], log_probs: Sequence[float], expected: Sequence[Sequence[float]], sets: torch.Tensor
) -> list[float]:
    """
    Corrects the log-probabilities of all tokens but the first of a sentence: the probability of the first token of
    each word is divided by the probability that a word begins, and the last token's multiplied by the probability that
    the next word begins.
    """
    found = list(log_probs)
    for position in word_starts(encoded["word_ids"]):
        # A first word without a space follows no boundary: another probability replaces P_B.
        before = BEGINS if sets[0, encoded["input_ids"][position]] else OPENS
        found[position - 1] -= expected[position - 1][before]
        if position > 1:
            found[position - 2] += expected[position - 1][BEGINS]
    return found
