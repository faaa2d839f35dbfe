import torch
from torch import nn
from transformers import PreTrainedModel

from hf_structure.models.modeling_outputs import DecoderOutput
from toy_family.configuration_toy import ToyConfig


class ToyForParsing(PreTrainedModel):
    config_class = ToyConfig
    base_model_prefix = "toy"

    def __init__(self, config: ToyConfig):
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.tones = nn.Linear(config.hidden_size, 2)
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embeddings

    @torch.no_grad()
    def decode(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        *,
        decoder: str = "tree",
        k: int = 1,
        marginals: bool = False,
    ) -> DecoderOutput:
        """Every word hangs on the one before it."""
        is_word = attention_mask.bool().unsqueeze(1)  # (B, 1, L)
        heads = torch.arange(input_ids.shape[1]).expand(len(input_ids), 1, -1).masked_fill(~is_word, -1)
        tones = self.tones(self.embeddings(input_ids)).argmax(-1).unsqueeze(1)
        columns = {"probabilities": is_word / 2.0, "tone": tones, "word_length": input_ids.unsqueeze(1) / 2.0}
        return DecoderOutput(heads=heads, columns=columns)
