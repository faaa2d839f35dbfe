"""Tiny encoders that differ from BERT."""

import torch
from transformers import AutoModel, DebertaV2Config, ElectraConfig, ModernBertConfig, PreTrainedModel

WITH_THEIR_OWN_ATTENTION = ("modernbert", "deberta-v2", "electra")  # the last has embeddings narrower than its layers


def encoder_of_its_own(kind: str) -> PreTrainedModel:
    """An encoder that parsers stand on top of, all of whose weights matter."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 40, "hidden_size": 12, "num_hidden_layers": 3, "num_attention_heads": 3}
    sizes |= {"intermediate_size": 20, "max_position_embeddings": 30}
    relative = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}
    relative |= {"position_buckets": 8, "norm_rel_ebd": "layer_norm", "share_att_key": True, "type_vocab_size": 0}
    local = {"local_attention": 4, "global_attn_every_n_layers": 2, "pad_token_id": 0}
    configs = {
        "modernbert": lambda: ModernBertConfig(**sizes, **local),
        "deberta-v2": lambda: DebertaV2Config(**sizes, **relative),
        "electra": lambda: ElectraConfig(**sizes, embedding_size=6),
    }
    encoder = AutoModel.from_config(configs[kind]()).eval()
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return encoder
