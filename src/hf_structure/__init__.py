"""hf_structure: language models that know, show and use sentence structure."""

from transformers.pipelines import PIPELINE_REGISTRY

from hf_structure.auto import AutoModelForConstituencyParsing, AutoModelForDependencyParsing, register
from hf_structure.data.collators import MaskedWordCollator, ParsingCollator, WordCollator
from hf_structure.data.graphs import GraphCollator, add_tapes, load_graphs, to_graph_dataset
from hf_structure.exporting.folder import export
from hf_structure.hub.locating import CHECKPOINTS, resolve_model, short_names
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
from hf_structure.models.rng_transformer.configuration_rng_transformer import RNGTransformerConfig
from hf_structure.models.rng_transformer.modeling_rng_transformer import (
    RNGTransformerForParsing,
    RNGTransformerModel,
    RNGTransformerPreTrainedModel,
)
from hf_structure.models.structformer.configuration_structformer import StructFormerConfig
from hf_structure.models.structformer.modeling_structformer import (
    StructFormerForMaskedLM,
    StructFormerModel,
    StructFormerPreTrainedModel,
)
from hf_structure.models.udgn.configuration_udgn import UDGNConfig
from hf_structure.models.udgn.modeling_udgn import UDGNForMaskedLM, UDGNModel, UDGNPreTrainedModel
from hf_structure.pipelines.parsing import (
    ConstituencyParsingPipeline,
    DependencyParsingPipeline,
    GraphParsingPipeline,
    parse,
)
from hf_structure.pipelines.scoring import SentenceScore, corpus_scores, score
from hf_structure.structures.constituency_tree import ConstituencyTree
from hf_structure.structures.dependency_graph import DependencyGraph
from hf_structure.structures.dependency_tree import DependencyTree
from hf_structure.structures.distances import SyntacticDistances
from hf_structure.structures.parse import Parse
from hf_structure.tokenization import (
    build_word_tokenizer,
    encode_subwords,
    encode_words,
    number_words,
    train_subword_tokenizer,
    train_word_tokenizer,
    word_start_mask,
)
from hf_structure.version import __version__

register()
PIPELINE_REGISTRY.register_pipeline(
    "dependency-parsing",
    pipeline_class=DependencyParsingPipeline,
    pt_model=AutoModelForDependencyParsing,
    default={"model": (str(CHECKPOINTS / "udgn-en"), "main")},
    type="text",
)
PIPELINE_REGISTRY.register_pipeline(
    "constituency-parsing",
    pipeline_class=ConstituencyParsingPipeline,
    pt_model=AutoModelForConstituencyParsing,
    default={"model": (str(CHECKPOINTS / "structformer-en"), "main")},
    type="text",
)
PIPELINE_REGISTRY.register_pipeline(
    "graph-parsing",
    pipeline_class=GraphParsingPipeline,
    pt_model=AutoModelForDependencyParsing,
    default={"model": (str(CHECKPOINTS / "gilt-en"), "main")},
    type="text",
)

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
    "ParsingCollator",
    "RNGTransformerConfig",
    "RNGTransformerForParsing",
    "RNGTransformerModel",
    "RNGTransformerPreTrainedModel",
    "SentenceScore",
    "StructFormerConfig",
    "StructFormerForMaskedLM",
    "StructFormerModel",
    "StructFormerPreTrainedModel",
    "SyntacticDistances",
    "UDGNConfig",
    "UDGNForMaskedLM",
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
    "resolve_model",
    "score",
    "short_names",
    "to_graph_dataset",
    "train_subword_tokenizer",
    "train_word_tokenizer",
    "word_start_mask",
]
