"""
minicons over all language models of this library: a causal scorer with GiLT's probabilities summed over graphs, and
one of pseudo-log-likelihoods.

    from hf_structure.integrations.minicons import StructureLMScorer, StructureMaskedLMScorer

    scorer = StructureLMScorer("gilt-en", beam_size=20, split_words=True)
    scorer.token_score(["The cats don't sleep."], surprisal=True)
    scorer.conditional_score(["The cats"] * 2, ["sleep.", "sleeps."])
    StructureMaskedLMScorer("structformer-en").token_score("The cats sleep.", PLL_metric="within_word_l2r")

Conventions are those of minicons: text is tokenized as it is, and the first token has no score. GiLT needs a beginning
token for that. Tokenizers trained with this library add it; with others, those of grafts, pass `bos_token=True`.
`split_words=True` splits text into words first, as the models of this library were trained on it. Masked models of
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
from hf_structure.text.pre_tokenization import prepare_for_pipelines

_verbosity = logging.get_verbosity()
try:
    from minicons.scorer import IncrementalLMScorer, MaskedLMScorer
except ImportError as error:
    raise ImportError("this needs minicons: pip install 'hf_structure[eval]'") from error
finally:
    logging.set_verbosity(_verbosity)  # minicons silences transformers, for everybody


class StructureLMScorer(IncrementalLMScorer):
    """
    minicons' `IncrementalLMScorer` for models of this library, and others.

    Args:
        model (`str`, `Path` or `PreTrainedModel`): Short name, folder or Hub name of a model, or a loaded one.
        device (`str`): Where to compute.
        tokenizer (`PreTrainedTokenizerBase`, *optional*): By default the one saved beside the model.
        beam_size (`int`, *optional*): For models that read graphs: how many of a text are followed, 20 by default.
        max_tokens (`int`, *optional*): For these, a bound on the memory; see [`hf_structure.score`].
        split_words (`bool`):
            Whether text is split into words, with single spaces between them, by the rule stored in the checkpoint,
            like the text that the models of this library are trained on. By default it is tokenized as it is.
        trust_remote_code (`bool`): Whether code that comes with a model may run.
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
        """As in minicons, of the words of the texts if these are to be split."""
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
        """As in minicons, which counts the tokens of preambles that are not split."""
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
            ValueError: of a model that reads graphs, ranks or a correction for the beginnings of words: these need
                the distribution over tokens, which is not known; a text without a beginning token.
        """
        if self.beam_size is None:
            return cast(Any, super()).compute_stats(batch, rank, prob, base_two, return_tensors, bow_correction)
        if rank or bow_correction:
            raise ValueError("sums over graphs give no ranks and no correction for the beginnings of words")
        if prob and base_two:
            raise ValueError("probabilities have no base: choose prob or base_two")
        encoded, offsets = batch
        mask = encoded["attention_mask"].bool()
        rows = running_text_log_probs(
            cast(PreTrainedModel, self.model),
            self.tokenizer,
            [ids[kept].tolist() for ids, kept in zip(encoded["input_ids"], mask, strict=True)],
            beam_size=self.beam_size,
            max_tokens=self.max_tokens,
        )
        scores = [torch.tensor(row[offset:], dtype=torch.float32) for row, offset in zip(rows, offsets, strict=True)]
        if base_two:
            scores = [score / math.log(2) for score in scores]
        elif prob:
            scores = [score.exp() for score in scores]
        return scores if return_tensors else [score.tolist() for score in scores]


class StructureMaskedLMScorer(MaskedLMScorer):
    """
    minicons' `MaskedLMScorer` for models of this library, and others. Its tokenizer splits raw text into words, see
    [`prepare_for_pipelines`].

    Args:
        model (`str`, `Path` or `PreTrainedModel`): Short name, folder or Hub name of a model, or a loaded one.
        device (`str`): Where to compute.
        tokenizer (`PreTrainedTokenizerBase`, *optional*): By default the one saved beside the model.
        trust_remote_code (`bool`): Whether code that comes with a model may run.

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
        tokenizer = copy.deepcopy(tokenizer)  # others may use it for words that are given
        prepare_for_pipelines(tokenizer)
        super().__init__(model, device=device, tokenizer=tokenizer)

    def encode(
        self, text: str | list[str], manual_special: bool = True, return_tensors: str | None = "pt"
    ) -> BatchEncoding:
        """As in minicons 0.3, which calls `tokenizer.batch_encode_plus`; transformers 5 has dropped that."""
        texts = [text] if isinstance(text, str) else text
        if not manual_special:
            return self.tokenizer(texts, padding="longest")
        texts = self.add_special_tokens(texts)
        return self.tokenizer(texts, add_special_tokens=False, padding="longest", return_tensors=return_tensors)
