"""Text and tree written together: when a token has been chosen, the model decides what it is reduced with."""

import torch
from transformers.cache_utils import Cache
from transformers.generation.utils import GenerateOutput

from hf_structure.models.pushdown.cache_pushdown import StackCache, StackLM
from hf_structure.models.pushdown.outputs_pushdown import StackGenerateOutput
from hf_structure.modules.structured_lm.generation import StructureWriter


class StackWriter(StructureWriter):
    """Builds the trees of texts while their tokens are read; the trees of prompts greedily."""

    structures = "trees"
    refused = (*StructureWriter.refused, "cache", "attachments")

    def cache_for(self, model: StackLM, cache: Cache | None) -> StackCache:
        return StackCache.of(cache)

    def read(self, model: StackLM, inputs: dict, is_prompt: bool) -> dict:
        ids = inputs["input_ids"]
        cache = inputs["cache"]
        if cache.holds_structure:
            attachments = self.attach(model, ids[:, -1], cache).unsqueeze(1)
        else:
            attachments = model.predict_structures(ids, attention_mask=inputs.get("attention_mask"))
        return {**inputs, "attachments": attachments}

    def attach(self, model: StackLM, tokens: torch.Tensor, cache: StackCache) -> torch.Tensor:
        """Attachments of the tokens `(batch_size,)` that come next."""
        logits = model.score_attachments(tokens, cache)
        chosen = torch.multinomial(logits.softmax(-1), 1).squeeze(1) if self.sample else logits.argmax(-1)
        return logits.shape[1] - 1 - chosen

    def finish(self, model: StackLM, result: GenerateOutput) -> StackGenerateOutput:
        cache = self.cache_for(model, result.cache)
        last = self.attach(model, result.sequences[:, -1], cache).unsqueeze(1)
        attachments = torch.cat([cache.attachments, last], dim=1)  # (B, sequence_length)
        return StackGenerateOutput(**result, attachments=attachments)
