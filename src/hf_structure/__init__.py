"""hf_structure: language models that know, show and use sentence structure."""

from transformers.pipelines import PIPELINE_REGISTRY

from hf_structure.auto import AutoModelForDependencyParsing, register
from hf_structure.data.collators import MaskedWordCollator, WordCollator
from hf_structure.hub import CHECKPOINTS, resolve_model, short_names
from hf_structure.models.udgn.configuration_udgn import UDGNConfig
from hf_structure.models.udgn.modeling_udgn import UDGNForMaskedLM, UDGNModel, UDGNPreTrainedModel
from hf_structure.pipelines.parsing import DependencyParsingPipeline, parse
from hf_structure.structures import DependencyTree, Parse
from hf_structure.tokenization import build_word_tokenizer, encode_words, train_word_tokenizer
from hf_structure.version import __version__

register()
PIPELINE_REGISTRY.register_pipeline(
    "dependency-parsing",
    pipeline_class=DependencyParsingPipeline,
    pt_model=AutoModelForDependencyParsing,
    default={"model": (str(CHECKPOINTS / "udgn-en"), "main")},
    type="text",
)

__all__ = [
    "AutoModelForDependencyParsing",
    "DependencyParsingPipeline",
    "DependencyTree",
    "MaskedWordCollator",
    "Parse",
    "UDGNConfig",
    "UDGNForMaskedLM",
    "UDGNModel",
    "UDGNPreTrainedModel",
    "WordCollator",
    "__version__",
    "build_word_tokenizer",
    "encode_words",
    "parse",
    "resolve_model",
    "short_names",
    "train_word_tokenizer",
]
