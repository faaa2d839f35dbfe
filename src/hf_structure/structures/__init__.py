"""Value types: results of parsers for one sentence, with conversions to CoNLL-U, brackets, JSON, LaTeX and pictures.

Values are immutable and hold plain Python values (words, ints, floats, tuples), so that they can be compared, hashed,
pickled and sent as JSON.
"""

from hf_structure.structures.attention import SentenceAttention
from hf_structure.structures.comparison import TreeComparison
from hf_structure.structures.constituency_tree import ConstituencyTree
from hf_structure.structures.dependency_graph import DependencyGraph
from hf_structure.structures.dependency_tree import DependencyTree
from hf_structure.structures.distances import SyntacticDistances
from hf_structure.structures.parse import Parse
from hf_structure.structures.parses import Parses
from hf_structure.structures.words import Word

__all__ = [
    "ConstituencyTree",
    "DependencyGraph",
    "DependencyTree",
    "Parse",
    "Parses",
    "SentenceAttention",
    "SyntacticDistances",
    "TreeComparison",
    "Word",
]
