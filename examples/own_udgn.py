"""
A variant of UDGN, as an example of a family of your own: heads compete for an edge with nobody, too.

    python examples/run_mlm.py --import examples/own_udgn.py --model_type own_udgn \\
        --train_file train.conllu --validation_file dev.conllu --output_dir runs/own
    hf-structure parse --import examples/own_udgn.py --model runs/own test.txt
"""

import torch
from transformers import AutoConfig, AutoModelForMaskedLM

from hf_structure import AutoModelForDependencyParsing, UDGNConfig, UDGNForMaskedLM
from hf_structure.models.udgn.modeling_udgn import UDGNGatedHeads


class OwnHeads(UDGNGatedHeads):
    def compete(self, scores: torch.Tensor) -> torch.Tensor:
        nobody = torch.zeros_like(scores[:, :1])
        return torch.cat([scores, nobody], dim=1).softmax(dim=1)[:, :-1]  # instead of eq. 10


class OwnConfig(UDGNConfig):
    model_type = "own_udgn"


class OwnForMaskedLM(UDGNForMaskedLM):
    config_class = OwnConfig

    def __init__(self, config: OwnConfig):
        super().__init__(config)
        for layer in self.udgn.layers:
            layer.heads = OwnHeads(config)
        self.post_init()


AutoConfig.register("own_udgn", OwnConfig, exist_ok=True)
for auto_class in (AutoModelForMaskedLM, AutoModelForDependencyParsing):
    auto_class.register(OwnConfig, OwnForMaskedLM, exist_ok=True)
