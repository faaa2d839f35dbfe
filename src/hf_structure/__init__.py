"""
hf_structure: language models that know, show and use sentence structure.

Names are imported lazily: those listed here, and what transformers is told of the models.
"""

import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hf_structure.import_hooks import import_after
from hf_structure.version import __version__

if TYPE_CHECKING:
    from hf_structure.auto import AutoModelForConstituencyParsing, AutoModelForDependencyParsing
    from hf_structure.data.collators import MaskedWordCollator, ParsingCollator, WordCollator
    from hf_structure.data.graph_batches import GraphCollator, add_tapes
    from hf_structure.data.graphs import load_graphs, to_graph_dataset
    from hf_structure.data.pre_tokenization import prepare_for_pipelines
    from hf_structure.exporting.folder import export
    from hf_structure.hub.locating import resolve_model, short_names
    from hf_structure.models.g2g_transformer.configuration_g2g_transformer import G2GTransformerConfig
    from hf_structure.models.g2g_transformer.modeling_g2g_transformer import (
        G2GTransformerForParsing,
        G2GTransformerModel,
        G2GTransformerPreTrainedModel,
    )
    from hf_structure.models.gilt.cache_gilt import GraphCache
    from hf_structure.models.gilt.classification_gilt import GiLTForSequenceClassification
    from hf_structure.models.gilt.configuration_gilt import GiLTConfig
    from hf_structure.models.gilt.modeling_gilt import GiLTForCausalLM, GiLTModel, GiLTPreTrainedModel
    from hf_structure.models.pushdown.cache_pushdown import StackCache
    from hf_structure.models.pushdown.configuration_pushdown import PushdownLMConfig
    from hf_structure.models.pushdown.modeling_pushdown import (
        PushdownLMForCausalLM,
        PushdownLMModel,
        PushdownLMPreTrainedModel,
    )
    from hf_structure.models.rng_transformer.configuration_rng_transformer import RNGTransformerConfig
    from hf_structure.models.rng_transformer.modeling_rng_transformer import (
        RNGTransformerForParsing,
        RNGTransformerModel,
        RNGTransformerPreTrainedModel,
    )
    from hf_structure.models.structformer.classification_structformer import (
        StructFormerForSequenceClassification,
        StructFormerForTokenClassification,
    )
    from hf_structure.models.structformer.configuration_structformer import StructFormerConfig
    from hf_structure.models.structformer.modeling_structformer import (
        StructFormerForMaskedLM,
        StructFormerModel,
        StructFormerPreTrainedModel,
    )
    from hf_structure.models.udgn.classification_udgn import (
        UDGNForSequenceClassification,
        UDGNForTokenClassification,
    )
    from hf_structure.models.udgn.configuration_udgn import UDGNConfig
    from hf_structure.models.udgn.modeling_udgn import UDGNForMaskedLM, UDGNModel, UDGNPreTrainedModel
    from hf_structure.pipelines.loaded import release_models
    from hf_structure.pipelines.parsing import parse
    from hf_structure.pipelines.scoring import SentenceScore, corpus_scores, score
    from hf_structure.pipelines.tasks import (
        ConstituencyParsingPipeline,
        DependencyParsingPipeline,
        GraphParsingPipeline,
    )
    from hf_structure.structures.constituency_tree import ConstituencyTree
    from hf_structure.structures.dependency_graph import DependencyGraph
    from hf_structure.structures.dependency_tree import DependencyTree
    from hf_structure.structures.distances import SyntacticDistances
    from hf_structure.structures.parse import Parse
    from hf_structure.structures.parses import Parses
    from hf_structure.tokenization import (
        build_word_tokenizer,
        encode_subwords,
        encode_words,
        number_words,
        train_subword_tokenizer,
        train_word_tokenizer,
        word_start_mask,
    )

# The same for Python itself; a test compares the three lists.
_EXPORTS = {
    "auto": ["AutoModelForConstituencyParsing", "AutoModelForDependencyParsing"],
    "data.collators": ["MaskedWordCollator", "ParsingCollator", "WordCollator"],
    "data.graph_batches": ["GraphCollator", "add_tapes"],
    "data.graphs": ["load_graphs", "to_graph_dataset"],
    "data.pre_tokenization": ["prepare_for_pipelines"],
    "exporting.folder": ["export"],
    "hub.locating": ["resolve_model", "short_names"],
    "models.g2g_transformer.configuration_g2g_transformer": ["G2GTransformerConfig"],
    "models.g2g_transformer.modeling_g2g_transformer": [
        "G2GTransformerForParsing",
        "G2GTransformerModel",
        "G2GTransformerPreTrainedModel",
    ],
    "models.gilt.cache_gilt": ["GraphCache"],
    "models.gilt.classification_gilt": ["GiLTForSequenceClassification"],
    "models.gilt.configuration_gilt": ["GiLTConfig"],
    "models.gilt.modeling_gilt": ["GiLTForCausalLM", "GiLTModel", "GiLTPreTrainedModel"],
    "models.pushdown.cache_pushdown": ["StackCache"],
    "models.pushdown.configuration_pushdown": ["PushdownLMConfig"],
    "models.pushdown.modeling_pushdown": [
        "PushdownLMForCausalLM",
        "PushdownLMModel",
        "PushdownLMPreTrainedModel",
    ],
    "models.rng_transformer.configuration_rng_transformer": ["RNGTransformerConfig"],
    "models.rng_transformer.modeling_rng_transformer": [
        "RNGTransformerForParsing",
        "RNGTransformerModel",
        "RNGTransformerPreTrainedModel",
    ],
    "models.structformer.classification_structformer": [
        "StructFormerForSequenceClassification",
        "StructFormerForTokenClassification",
    ],
    "models.structformer.configuration_structformer": ["StructFormerConfig"],
    "models.structformer.modeling_structformer": [
        "StructFormerForMaskedLM",
        "StructFormerModel",
        "StructFormerPreTrainedModel",
    ],
    "models.udgn.classification_udgn": ["UDGNForSequenceClassification", "UDGNForTokenClassification"],
    "models.udgn.configuration_udgn": ["UDGNConfig"],
    "models.udgn.modeling_udgn": ["UDGNForMaskedLM", "UDGNModel", "UDGNPreTrainedModel"],
    "pipelines.loaded": ["release_models"],
    "pipelines.parsing": ["parse"],
    "pipelines.scoring": ["SentenceScore", "corpus_scores", "score"],
    "pipelines.tasks": ["ConstituencyParsingPipeline", "DependencyParsingPipeline", "GraphParsingPipeline"],
    "structures.constituency_tree": ["ConstituencyTree"],
    "structures.dependency_graph": ["DependencyGraph"],
    "structures.dependency_tree": ["DependencyTree"],
    "structures.distances": ["SyntacticDistances"],
    "structures.parse": ["Parse"],
    "structures.parses": ["Parses"],
    "tokenization": [
        "build_word_tokenizer",
        "encode_subwords",
        "encode_words",
        "number_words",
        "train_subword_tokenizer",
        "train_word_tokenizer",
        "word_start_mask",
    ],
}
_MODULES = {name: f"{__name__}.{module}" for module, names in _EXPORTS.items() for name in names}
_IMPORTING = threading.RLock()  # two threads cannot import transformers at once: one finds the other's unfinished

__all__ = [
    "AutoModelForConstituencyParsing",
    "AutoModelForDependencyParsing",
    "ConstituencyParsingPipeline",
    "ConstituencyTree",
    "DependencyGraph",
    "DependencyParsingPipeline",
    "DependencyTree",
    "G2GTransformerConfig",
    "G2GTransformerForParsing",
    "G2GTransformerModel",
    "G2GTransformerPreTrainedModel",
    "GiLTConfig",
    "GiLTForCausalLM",
    "GiLTForSequenceClassification",
    "GiLTModel",
    "GiLTPreTrainedModel",
    "GraphCache",
    "GraphCollator",
    "GraphParsingPipeline",
    "MaskedWordCollator",
    "Parse",
    "Parses",
    "ParsingCollator",
    "PushdownLMConfig",
    "PushdownLMForCausalLM",
    "PushdownLMModel",
    "PushdownLMPreTrainedModel",
    "RNGTransformerConfig",
    "RNGTransformerForParsing",
    "RNGTransformerModel",
    "RNGTransformerPreTrainedModel",
    "SentenceScore",
    "StackCache",
    "StructFormerConfig",
    "StructFormerForMaskedLM",
    "StructFormerForSequenceClassification",
    "StructFormerForTokenClassification",
    "StructFormerModel",
    "StructFormerPreTrainedModel",
    "SyntacticDistances",
    "UDGNConfig",
    "UDGNForMaskedLM",
    "UDGNForSequenceClassification",
    "UDGNForTokenClassification",
    "UDGNModel",
    "UDGNPreTrainedModel",
    "WordCollator",
    "__version__",
    "add_tapes",
    "build_word_tokenizer",
    "corpus_scores",
    "encode_subwords",
    "encode_words",
    "export",
    "load_graphs",
    "number_words",
    "parse",
    "prepare_for_pipelines",
    "release_models",
    "resolve_model",
    "score",
    "short_names",
    "to_graph_dataset",
    "train_subword_tokenizer",
    "train_word_tokenizer",
    "word_start_mask",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _IMPORTING:
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


import_after("transformers.models.auto.configuration_auto", "hf_structure.auto_configurations")
import_after("transformers.models.auto.modeling_auto", "hf_structure.auto")
import_after("transformers.pipelines", "hf_structure.pipelines.tasks")
