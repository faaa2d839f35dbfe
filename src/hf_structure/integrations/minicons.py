"""
minicons for all language models of this library: a scorer of causal models, which sums GiLT's probabilities over
graphs, and a scorer of pseudo-log-likelihoods.

    from hf_structure.integrations.minicons import StructureLMScorer, StructureMaskedLMScorer

    scorer = StructureLMScorer("gilt-en", beam_size=20, split_words=True)
    scorer.token_score(["The cats don't sleep."], surprisal=True)
    scorer.conditional_score(["The cats"] * 2, ["sleep.", "sleeps."])
    StructureMaskedLMScorer("structformer-en").token_score("The cats sleep.", PLL_metric="within_word_l2r")

As always in minicons, text is tokenized as it is, and the first token has no score. GiLT needs a beginning token for
this. Tokenizers trained with this library add it; with other tokenizers, as in grafts, pass `bos_token=True`.
`split_words=True` splits text into words first, as in the training text of this library's models. Masked models of
words always get words.
"""

import copy
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from transformers import BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from hf_structure.parsing.loading import CAUSAL, MASKED, load_model
from hf_structure.scoring.scoring import choose_beam, running_text_log_probs, spaced_words, word_splitter
from hf_structure.text.pauses import pause_token_ids
from hf_structure.text.pre_tokenization import prepare_for_pipelines

_verbosity = logging.get_verbosity()
try:
    from minicons.scorer import IncrementalLMScorer, MaskedLMScorer
except ImportError as error:
    raise ImportError("this needs minicons: pip install 'hf_structure[eval]'") from error
finally:
    # minicons silences transformers for the whole process.
    logging.set_verbosity(_verbosity)


class StructureLMScorer(IncrementalLMScorer):
    """
    minicons' `IncrementalLMScorer` for models of this library, and others.

    Args:
        model (`str`, `Path` or `PreTrainedModel`): Short name, folder or Hub name of a model, or a loaded one.
        device (`str`): The device that computes.
        tokenizer (`PreTrainedTokenizerBase`, *optional*): By default the one saved beside the model.
        beam_size (`int`, *optional*): Number of graphs in the beam, for models that read graphs; by default 20.
        max_tokens (`int`, *optional*): For these models, a bound on the memory; see [`hf_structure.score`].
        split_words (`bool`):
            Splits text into words, with single spaces between them, by the rule stored in the checkpoint, like the
            training text of this library's models. By default, text is tokenized as it is.
        trust_remote_code (`bool`): Allows code that comes with a model to run.
    """

    def __init__(
        self,
        model: str | Path | PreTrainedModel,
        device: str = "cpu",
        tokenizer: PreTrainedTokenizerBase | None = None,
        *,
        beam_size: int | None = None,
        max_tokens: int | None = None,
        split_words: bool = False,
        trust_remote_code: bool = False,
    ):
        model, tokenizer = load_model(model, tokenizer, device, *CAUSAL, trust_remote_code=trust_remote_code)
        super().__init__(model, device=device, tokenizer=tokenizer)
        self.beam_size = choose_beam(model, beam_size)
        self.max_tokens = max_tokens
        self.split = word_splitter(model, tokenizer) if split_words else None

    def encode(self, text: str | list[str], *args, **kwargs) -> BatchEncoding:
        """Encodes texts as minicons does, after splitting them into words if `split_words` is set."""
        texts = [text] if isinstance(text, str) else text
        if self.split is not None:
            texts = [spaced_words(each, self.split) for each in texts]
        return super().encode(texts, *args, **kwargs)

    def prime_text(
        self,
        preamble: str | list[str],
        stimuli: str | list[str],
        separator: str | list[str] = " ",
        bos_token: bool = False,
        eos_token: bool = False,
        chat: bool = False,
    ) -> tuple[BatchEncoding, list[int]]:
        """Encodes preambles and stimuli as minicons does. Lengths are recounted if texts are split into words."""
        # minicons counts the tokens of the preamble as it was before the split.
        encoded, lengths = super().prime_text(preamble, stimuli, separator, bos_token, eos_token, chat)
        if self.split is not None:
            mask = self.encode(preamble, bos_token=bos_token, chat=chat)["attention_mask"]
            lengths = (mask.sum(1) - 1).tolist()
        return encoded, lengths

    def compute_stats(
        self,
        batch: tuple[BatchEncoding, Sequence[int]],
        rank: bool = False,
        prob: bool = False,
        base_two: bool = False,
        return_tensors: bool = False,
        bow_correction: bool = False,
    ) -> list[list[float]] | list[torch.Tensor]:
        """
        As in minicons.

        Raises:
            ValueError: for a model that reads graphs, ranks or a correction for the beginnings of words: these need
                the distribution over tokens, which is unknown. The same for a model with pauses. A text without a
                beginning token.
        """
        if self.beam_size is None and not pause_token_ids(self.model.config):
            return cast(Any, super()).compute_stats(batch, rank, prob, base_two, return_tensors, bow_correction)
        if rank or bow_correction:
            raise ValueError(
                "sums over graphs, and models with pauses, give no ranks and no correction for the beginnings of words"
            )
        if prob and base_two:
            raise ValueError("probabilities have no base: choose prob or base_two")
        scores = [_converted(log_probs, prob, base_two) for log_probs in self._log_probs(*batch)]
        return scores if return_tensors else [score.tolist() for score in scores]

    def _log_probs(self, encoded: BatchEncoding, offsets: Sequence[int]) -> list[torch.Tensor]:
        """Log-probabilities of the tokens of each text, in nats, summed over graphs, without the first `offset`."""
        mask = encoded["attention_mask"].bool()
        rows = running_text_log_probs(
            cast(PreTrainedModel, self.model),
            self.tokenizer,
            [ids[kept].tolist() for ids, kept in zip(encoded["input_ids"], mask, strict=True)],
            beam_size=self.beam_size,
            max_tokens=self.max_tokens,
        )
        return [torch.tensor(row[offset:], dtype=torch.float32) for row, offset in zip(rows, offsets, strict=True)]


def _converted(log_probs: torch.Tensor, prob: bool, base_two: bool) -> torch.Tensor:
    """Converts log-probabilities in nats to probabilities, or to logarithms to base 2, or returns them as they are."""
    if prob:
        return log_probs.exp()
    return log_probs / math.log(2) if base_two else log_probs


class StructureMaskedLMScorer(MaskedLMScorer):
    """
    minicons' `MaskedLMScorer` for models of this library, and others. Its tokenizer splits raw text into words; see
    [`prepare_for_pipelines`].

    Args:
        model (`str`, `Path` or `PreTrainedModel`): Short name, folder or Hub name of a model, or a loaded one.
        device (`str`): The device that computes.
        tokenizer (`PreTrainedTokenizerBase`, *optional*): By default the one saved beside the model.
        trust_remote_code (`bool`): Allows code that comes with a model to run.

    Raises:
        ValueError: a model that is no masked language model.
    """

    def __init__(
        self,
        model: str | Path | PreTrainedModel,
        device: str = "cpu",
        tokenizer: PreTrainedTokenizerBase | None = None,
        *,
        trust_remote_code: bool = False,
    ):
        model, tokenizer = load_model(model, tokenizer, device, *MASKED, trust_remote_code=trust_remote_code)
        # A copy: the caller may use the tokenizer for text that is already split into words.
        tokenizer = copy.deepcopy(tokenizer)
        prepare_for_pipelines(tokenizer)
        super().__init__(model, device=device, tokenizer=tokenizer)

    def encode(
        self, text: str | list[str], manual_special: bool = True, return_tensors: str | None = "pt"
    ) -> BatchEncoding:
        """Encodes texts as minicons 0.3 does by `tokenizer.batch_encode_plus`, which transformers 5 has dropped."""
        texts = [text] if isinstance(text, str) else text
        if not manual_special:
            return self.tokenizer(texts, padding="longest")
        texts = self.add_special_tokens(texts)
        return self.tokenizer(texts, add_special_tokens=False, padding="longest", return_tensors=return_tensors)
