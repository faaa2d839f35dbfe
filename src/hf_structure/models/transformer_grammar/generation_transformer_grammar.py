"""Text and tree written together: before each token, the model takes actions until it decides that a token comes."""

from typing import Any

import torch
from transformers.cache_utils import Cache
from transformers.generation.utils import GenerateOutput

from hf_structure.models.transformer_grammar.cache_transformer_grammar import GrammarCache, GrammarLM
from hf_structure.models.transformer_grammar.machine_transformer_grammar import GOES_ON
from hf_structure.models.transformer_grammar.outputs_transformer_grammar import GrammarGenerateOutput
from hf_structure.modules.structured_lm.generation import StructureWriter


class GrammarWriter(StructureWriter):
    """
    Builds the trees of texts while their tokens are read; the trees of prompts greedily.

    Args:
        sample (`bool`, *optional*): If True, actions are sampled, else the likeliest taken; by default as the text.
        word_starts (`torch.BoolTensor` of shape `(vocab_size,)`, *optional*): Mask of the tokens that begin a word; by
            default from `config.inner_pieces`, else from the `tokenizer` if one is given, else all. A token after an
            action always begins a word, and so does the first token after one of no word.
    """

    has_ended: torch.Tensor  # (batch_size,): whether the end of the text has been read

    structures = "trees"
    options = ("word_starts",)
    refused = (*StructureWriter.refused, "cache", "actions")

    def __init__(self, sample: bool | None = None, word_starts: torch.Tensor | None = None):
        super().__init__(sample)
        self.word_starts = word_starts
        # (batch_size, tokens, actions) each: actions before tokens, prompts first; the last have no token yet.
        self.actions: list[torch.Tensor] = []
        self.word_ids: list[torch.Tensor] = []  # (batch_size, tokens) each: words of tokens that have been read

    @classmethod
    def of(
        cls,
        model: GrammarLM,
        sample: bool | None,
        kwargs: dict[str, Any],
        word_starts: torch.Tensor | None = None,
    ) -> "GrammarWriter":
        if word_starts is None and model.config.inner_pieces is not None:
            word_starts = model.token_kinds(torch.arange(model.config.vocab_size)) != GOES_ON
        if word_starts is None and kwargs.get("tokenizer") is not None:
            from hf_structure.text.tokenization import word_start_mask

            word_starts = word_start_mask(kwargs["tokenizer"])
        if word_starts is not None:
            missing = max(model.config.vocab_size - len(word_starts), 0)
            word_starts = torch.nn.functional.pad(word_starts.bool(), (0, missing))
        return cls(sample, word_starts)

    def cache_for(self, model: GrammarLM, cache: Cache | None) -> GrammarCache:
        return GrammarCache.of(cache)

    def read(self, model: GrammarLM, inputs: dict, is_prompt: bool) -> dict:
        ids = inputs["input_ids"]
        self.model = model
        self.cache = inputs["cache"]
        if not self.actions:
            words = self._words(ids, inputs.get("attention_mask"))
            self.has_ended = (model.is_end(ids) & (words > 0)).any(1)  # the first may be the token of the end
            self.actions.append(model.predict_structures(ids, words, inputs.get("attention_mask")))
        else:
            last = self.word_ids[-1][:, -1:]
            begins = self._begins(ids)
            begins[(self.actions[-1] >= 0).any(2) | (last == 0)] = 1
            words = (last + begins) * ~model.is_end(ids)
            self.has_ended = self.has_ended | model.is_end(ids).squeeze(1)
        self.word_ids.append(words)
        # The actions before a new token have already been read, in `act`.
        before = self.actions[-1] if len(self.actions) == 1 else torch.full_like(self.actions[-1], -1)
        return {**inputs, "word_ids": words, "actions": before}

    def _words(self, ids: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
        """Word ids of the prompt; the first token belongs to no word."""
        is_token = torch.ones_like(ids) if attention_mask is None else attention_mask.long()
        position = is_token.cumsum(1)
        begins = torch.where(position == 2, 1, self._begins(ids)) * (position > 1) * is_token
        return begins.cumsum(1) * is_token

    def _begins(self, ids: torch.Tensor) -> torch.Tensor:
        """1 for tokens that begin a word wherever they stand, else 0."""
        return torch.ones_like(ids) if self.word_starts is None else self.word_starts.to(ids.device)[ids].long()

    def mix(self, logits: torch.Tensor) -> torch.Tensor:
        """Takes the actions before the next token; the logits of that."""
        actions = self.act()
        self.actions.append(actions.unsqueeze(1))
        tokens = self.model.predict(self.cache.last, self.cache.machine.legal()).tokens
        return torch.where(self.has_ended.unsqueeze(1), logits.float(), tokens)

    def act(self) -> torch.Tensor:
        """`(batch_size, actions)`: the actions taken until every active text predicts a token."""
        is_active = ~self.has_ended
        taken = []
        while True:
            kinds = self.model.predict(self.cache.last, self.cache.machine.legal()).kinds
            # Texts that wait still need finite probabilities to sample from; their choices are ignored.
            kinds[~is_active] = 0.0
            choice = torch.multinomial(kinds.softmax(-1), 1).squeeze(1) if self.sample else kinds.argmax(-1)
            is_active = is_active & (choice > 0)
            if not is_active.any():
                return torch.stack(taken, 1) if taken else choice.new_zeros(len(choice), 0)
            taken.append(torch.where(is_active, choice - 1, -1))
            self.model.model.act(taken[-1], self.cache)

    def finish(self, model: GrammarLM, result: GenerateOutput) -> GrammarGenerateOutput:
        most = max(actions.shape[2] for actions in self.actions)
        actions = [torch.nn.functional.pad(each, (0, most - each.shape[2]), value=-1) for each in self.actions]
        last = torch.where(model.is_end(result.sequences[:, -1:]), 0, self.word_ids[-1][:, -1:] + 1)
        word_ids = torch.cat([*self.word_ids, last], dim=1)  # (B, sequence_length)
        return GrammarGenerateOutput(**result, actions=torch.cat(actions, dim=1), word_ids=word_ids)
