from hf_structure.corpora.collators import MaskedWordCollator as MaskedWordCollator
from hf_structure.corpora.collators import ParsingCollator as ParsingCollator
from hf_structure.corpora.collators import WordCollator as WordCollator
from hf_structure.corpora.graph_batches import GraphCollator as GraphCollator
from hf_structure.exporting.folder import export as export
from hf_structure.hub.locating import resolve_model as resolve_model
from hf_structure.models.families import Family as Family
from hf_structure.models.families import register_family as register_family
from hf_structure.models.g2g_transformer.configuration_g2g_transformer import (
    G2GTransformerConfig as G2GTransformerConfig,
)
from hf_structure.models.g2g_transformer.modeling_g2g_transformer import (
    G2GTransformerForParsing as G2GTransformerForParsing,
)
from hf_structure.models.gilt.classification_gilt import GiLTForSequenceClassification as GiLTForSequenceClassification
from hf_structure.models.gilt.configuration_gilt import GiLTConfig as GiLTConfig
from hf_structure.models.gilt.modeling_gilt import GiLTForCausalLM as GiLTForCausalLM
from hf_structure.models.pushdown.configuration_pushdown import PushdownLMConfig as PushdownLMConfig
from hf_structure.models.pushdown.modeling_pushdown import PushdownLMForCausalLM as PushdownLMForCausalLM
from hf_structure.models.rng_transformer.configuration_rng_transformer import (
    RNGTransformerConfig as RNGTransformerConfig,
)
from hf_structure.models.rng_transformer.modeling_rng_transformer import (
    RNGTransformerForParsing as RNGTransformerForParsing,
)
from hf_structure.models.structformer.classification_structformer import (
    StructFormerForSequenceClassification as StructFormerForSequenceClassification,
)
from hf_structure.models.structformer.configuration_structformer import StructFormerConfig as StructFormerConfig
from hf_structure.models.structformer.modeling_structformer import StructFormerForMaskedLM as StructFormerForMaskedLM
from hf_structure.models.transformer_grammar.configuration_transformer_grammar import (
    TransformerGrammarConfig as TransformerGrammarConfig,
)
from hf_structure.models.transformer_grammar.modeling_transformer_grammar import (
    TransformerGrammarForCausalLM as TransformerGrammarForCausalLM,
)
from hf_structure.models.udgn.classification_udgn import UDGNForSequenceClassification as UDGNForSequenceClassification
from hf_structure.models.udgn.configuration_udgn import UDGNConfig as UDGNConfig
from hf_structure.models.udgn.modeling_udgn import UDGNForMaskedLM as UDGNForMaskedLM
from hf_structure.parsing.annotator import Annotator as Annotator
from hf_structure.parsing.loaded import release_models as release_models
from hf_structure.parsing.options import ParseOptions as ParseOptions
from hf_structure.parsing.parse import parse as parse
from hf_structure.parsing.parser import Parser as Parser
from hf_structure.probing.word_arrays import word_arrays as word_arrays
from hf_structure.registration.auto import AutoModelForConstituencyParsing as AutoModelForConstituencyParsing
from hf_structure.registration.auto import AutoModelForDependencyParsing as AutoModelForDependencyParsing
from hf_structure.scoring.score_table import score_table as score_table
from hf_structure.scoring.scoring import SentenceScore as SentenceScore
from hf_structure.scoring.scoring import score as score
from hf_structure.structures.constituency_tree import ConstituencyTree as ConstituencyTree
from hf_structure.structures.dependency_graph import DependencyGraph as DependencyGraph
from hf_structure.structures.dependency_tree import DependencyTree as DependencyTree
from hf_structure.structures.parse import Parse as Parse
from hf_structure.structures.parses import Parses as Parses
from hf_structure.text.tokenization import build_word_tokenizer as build_word_tokenizer
from hf_structure.text.tokenization import encode_subwords as encode_subwords
from hf_structure.text.tokenization import encode_words as encode_words
from hf_structure.text.tokenization import train_subword_tokenizer as train_subword_tokenizer
from hf_structure.text.tokenization import train_word_tokenizer as train_word_tokenizer
from hf_structure.version import __version__ as __version__
