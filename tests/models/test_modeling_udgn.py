import pytest
import torch
from modeling_common import ModelBattery
from transformers import AutoModel, AutoModelForMaskedLM

from hf_structure import AutoModelForDependencyParsing, UDGNConfig, UDGNForMaskedLM, UDGNModel

class TestUDGN(ModelBattery):
    base_class = UDGNModel
    head_class = UDGNForMaskedLM
    auto_classes = {
        AutoModel: UDGNModel,
        AutoModelForMaskedLM: UDGNForMaskedLM,
        AutoModelForDependencyParsing: UDGNForMaskedLM,
    }
    dropout = {"hidden_dropout": 0.3, "parser_dropout": 0.3, "head_dropout": 0.3}
    lora_targets = ["projection", "output", "arcs"]

    def config(self, **settings):
        return tiny_config(**settings)

    def initial_bounds(self, config, name, shape):
        if "embeddings" in name or "position_bias" in name or name == "lm_head.weight":
            return -config.initializer_range, config.initializer_range
        if "lstm" in name:
            return -(config.parser_hidden_size**-0.5), config.parser_hidden_size**-0.5
        if "norm" in name:
            return (1, 1) if name.endswith("weight") else (0, 0)
        if name.endswith("bias"):
            return 0, 0
        bound = (6 / sum(shape)) ** 0.5  # Xavier
        return -bound, bound

    def of_words(self, name, output, words):
        if name == "head_log_probs":
            return output[words][:, torch.cat([torch.tensor([True]), words])]
        if name == "dependency_mask":
            return output[words][:, words]
        return output[words]

def tiny_config(**settings):
    sizes = {"vocab_size": 30, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "parser_hidden_size": 8, "parser_num_layers": 2}
    no_dropout = {"hidden_dropout": 0.0, "parser_dropout": 0.0, "head_dropout": 0.0}
    return UDGNConfig(**(sizes | no_dropout | settings))
