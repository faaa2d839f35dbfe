"""
lm_eval (EleutherAI's harness) for all causal language models of this library:

    python -m hf_structure.integrations.lm_eval \\
        --model hf_structure --model_args pretrained=gilt-en,beam_size=20 --tasks blimp

All other options are lm_eval's own. The model `hf_structure` extends lm_eval's `hf` and gives the same numbers for
models that read no graphs. The probabilities of GiLT are summed over the graphs of a beam. `hf` works, too, and scores
GiLT without graphs.
"""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from hf_structure.hub.locating import resolve_model
from hf_structure.models.abilities import abilities_of
from hf_structure.scoring.scoring import (
    choose_beam,
    is_masked,
    loads_masked,
    running_text_log_probs,
    spaced_words,
    word_splitter,
)
from hf_structure.text.pauses import pause_token_ids, refuse_pauses
from hf_structure.text.tokenization import word_start_mask

try:
    from lm_eval.__main__ import cli_evaluate
    from lm_eval.api.registry import register_model
    from lm_eval.models.huggingface import HFLM
except ImportError as error:
    raise ImportError("this needs lm_eval: pip install 'hf_structure[eval]'") from error

# Its decorator hides the class from type checkers.
Base: Any = HFLM
Request = tuple[tuple[str, str] | None, list[int], list[int]]


@register_model("hf_structure")
class StructureLM(Base):
    """
    lm_eval's `hf` for models of this library.

    Args:
        pretrained (`str` or `PreTrainedModel`): Short name, folder or Hub name of a model, or a loaded one.
        beam_size (`int`, *optional*): Number of graphs in the beam, for models that read graphs; by default 20.
        max_tokens (`int`, *optional*): For these models, a bound on the memory; see [`hf_structure.score`].
        split_words (`bool`):
            Splits text into words, with single spaces between them, by the rule stored in the checkpoint, like the
            training text of this library's models. By default, text is tokenized as it is.
        kwargs: Arguments of lm_eval's `hf`.

    Raises:
        ValueError: a masked language model.

    lm_eval also asks if the continuation is the likeliest one, which tasks such as LAMBADA count as accuracy. For sums
    over graphs this is unknown, and the answer is always no, also for models with pauses, which generate no text here.
    """

    def __init__(
        self,
        pretrained: str | PreTrainedModel,
        beam_size: int | None = None,
        max_tokens: int | None = None,
        split_words: bool = False,
        **kwargs,
    ):
        trust = kwargs.get("trust_remote_code") or False
        if isinstance(pretrained, str):
            # lm_eval itself does not know short names.
            pretrained = resolve_model(pretrained, trust_remote_code=trust)
        if loads_masked(pretrained, trust) if isinstance(pretrained, str) else is_masked(pretrained):
            raise ValueError(
                "lm_eval has no masked language models: it asks for probabilities of continuations, which they do not "
                "give. hf_structure.score, run_pairs.py and StructureMaskedLMScorer (minicons) take them"
            )
        super().__init__(pretrained, **kwargs)
        self.beam_size = choose_beam(self.model, beam_size)
        self.max_tokens = max_tokens
        self.split = word_splitter(self.model, self.tokenizer) if split_words else None
        longest = abilities_of(self.model.config).max_tokens
        if self.beam_size is not None and longest is not None and not self._max_length:
            self._max_length = longest - 2  # between beginning and end token

    def tok_encode(self, string: str, *args, **kwargs) -> list[int]:
        if self.split is not None:
            string = spaced_words(string, self.split)
        return super().tok_encode(string, *args, **kwargs)

    def _loglikelihood_tokens(
        self, requests: Sequence[Request], disable_tqdm: bool = False, **kwargs
    ) -> list[tuple[float, bool]]:
        """
        Returns log-probabilities of continuations given contexts; for models without graphs and pauses, lm_eval's own.
        """
        if self.beam_size is None and not pause_token_ids(self.model.config):
            return super()._loglikelihood_tokens(requests, disable_tqdm=disable_tqdm, **kwargs)
        # Of several processes, only the first shows progress.
        rows = running_text_log_probs(
            self.model,
            self.tokenizer,
            [self._with_beginning([*context, *continuation]) for _, context, continuation in requests],
            beam_size=self.beam_size,
            max_tokens=self.max_tokens,
            progress=not disable_tqdm and self.rank == 0,
        )
        answers = []
        for (texts, _, continuation), log_probs in zip(requests, rows, strict=True):
            # False: see the class about the likeliest continuation.
            answers.append((sum(log_probs[-len(continuation) :]), False))
            if texts is not None:
                self.cache_hook.add_partial("loglikelihood", texts, answers[-1])
        return answers

    def _model_generate(self, context: torch.Tensor, max_length: int, stop: list[str], **kwargs) -> torch.Tensor:
        """Generates with structures, if the model builds them. Prompts begin with the beginning token, left-padded."""
        refuse_pauses(self.model.config, "generates no text")
        if self.beam_size is None:
            return super()._model_generate(context, max_length, stop, **kwargs)
        # One more column, so that the beginning token fits in front of prompts that lack it.
        mask = torch.nn.functional.pad(kwargs.pop("attention_mask"), (1, 0))
        context = torch.nn.functional.pad(context, (1, 0), value=self.tokenizer.pad_token_id)
        begin = mask.argmax(1)  # (batch_size,)
        lacks = (context[torch.arange(len(context)), begin] != self.prefix_token_id).nonzero().squeeze(1)
        context[lacks, begin[lacks] - 1] = self.prefix_token_id
        mask[lacks, begin[lacks] - 1] = 1
        building: dict[str, Any] = {"use_structure": True}
        if "graph" in abilities_of(self.model.config).structures:
            building["word_starts"] = word_start_mask(self.tokenizer)
        return super()._model_generate(context, max_length + 1, stop, attention_mask=mask, **building, **kwargs)[:, 1:]

    def _with_beginning(self, ids: list[int]) -> list[int]:
        """Prepends the beginning token, and truncates the text on the left to the positions of the model."""
        rest = ids[1:] if ids[0] in (self.prefix_token_id, self.eot_token_id) else ids
        return [self.prefix_token_id, *rest[-self.max_length :]]


if __name__ == "__main__":
    cli_evaluate()
