"""StructFormer configuration."""

from math import isfinite
from typing import Literal

from huggingface_hub.dataclasses import strict

from hf_structure.models.abilities import PROBABILITIES, Abilities
from hf_structure.modules.configuration import StructureConfig, require_positive, require_whole_heads

RELATIONS = ("parent", "dependent", "sibling")


@strict
class StructFormerConfig(StructureConfig):
    r"""
    Configuration of StructFormer (Shen et al. 2021). The defaults are the paper's model for the Penn Treebank; with
    `attention="softmax"` it is the Transformer that the paper compares with (table 1): the same encoder without a
    parser.

    Args:
        vocab_size (`int`, defaults to 10001): Number of words, special tokens included.
        hidden_size (`int`, defaults to 512): Width of the word vectors, which encoder and parsing network share.
        num_hidden_layers (`int`, defaults to 8): Number of encoder layers.
        num_attention_heads (`int`, defaults to 8): Number of attention heads; divides `hidden_size`.
        intermediate_size (`int`, *optional*, defaults to `4 * hidden_size`): Width of the feed-forward layers.
        parser_num_layers (`int`, defaults to 3): Number of convolutions in the parsing network.
        parser_kernel_size (`int`, defaults to 9): Width of a convolution in words, an odd number (`2W + 1` in eq. 1).
        hidden_dropout (`float`, defaults to 0.1): Dropout on embeddings, attention and feed-forward outputs.
        attention_dropout (`float`, defaults to 0.0): Dropout on attention weights.
        parser_dropout (`float`, defaults to 0.0): Dropout on the inputs of the parsing network's convolutions.
        num_front_layers (`int`, defaults to 0):
            Number of layers, the first ones, that come before the parsing network and have softmax attention. The
            parsing network then reads their normalised output instead of the embeddings, and so do the layers above,
            to which positions, if there are any, are added once more. For the models of Momen et al. (2023) and their
            checkpoints.
        attention (`"dependency"` or `"softmax"`, defaults to `"dependency"`):
            Dependency-constrained attention (section 4.3), or softmax attention without a parser.
        relations (`list[str]`, defaults to `["parent", "dependent"]`):
            Relations along which heads attend: `"parent"`, `"dependent"` (table 4), `"sibling"` (words with the same
            parent).
        relation_activation (`"softmax"`, `"sigmoid"` or `"ones"`, defaults to `"softmax"`):
            Weighting of a head's relations (eq. 13 and 14); `"ones"` takes each in full, as the authors' code can.
        calibration (`"all"` or `"constituents"`, defaults to `"all"`):
            Spans whose margin calibrates the distances (appendix A.2): all, including single words, so that no word is
            ever isolated, as in the authors' code and the bundled model; or the constituents of the sentence's own
            tree, as in the paper.
        tree_objective (`"heights"` or `"expected_heads"`, defaults to `"heights"`):
            Dependency trees in which the highest word of each constituent is the head (algorithm 3), or with the
            largest expected number of right heads, which is the sum of their arcs in p_D (eq. 12), as in the bundled
            model.
        branching_bias (`float`, defaults to 0.0):
            Lowers each distance by this amount for every distance to its left before constituents are read off; if
            positive, they branch more to the right. Distances themselves, heads and training do not change with it.
            Not in the paper; the constituents of the bundled model need it.
        use_position_embeddings (`bool`, *optional*): Learn absolute positions and add them to the word embeddings. By
            default only with `attention="softmax"`, which knows no order otherwise.
        max_position_embeddings (`int`, defaults to 512):
            Longest sentence for `use_position_embeddings`; no limit otherwise.
        use_relative_position_bias (`bool`, defaults to `False`):
            Learn a bias of each head for every signed distance between two words, an option of the authors' code.
        max_relative_position (`int`, defaults to 64): Longer distances share one bias.
        pair_features (`"symmetric"` or `"ordered"`, *optional*):
            Turns sequence classification into sentence-pair classification. The classifier reads `|u - v|` and
            `u * v` of the means `u` and `v` of both sentences' word vectors, and for ordered pairs `u` and `v` too, as
            `examples/papers/run_glue.py` does for tasks of pairs.
        initializer_range (`float`, defaults to 0.1):
            Embeddings start uniform in `[-initializer_range, initializer_range]`.
        relation_initializer_range (`float`, defaults to 0.1): Standard deviation that relation weights start with.
        layer_norm_eps (`float`, defaults to 1e-5): Epsilon of the layer norms.

    Example:

    ```python
    >>> from hf_structure import StructFormerConfig, StructFormerForMaskedLM
    >>> model = StructFormerForMaskedLM(StructFormerConfig(vocab_size=5000, hidden_size=256, num_hidden_layers=4))
    ```
    """

    model_type = "structformer"
    keys_to_ignore_at_inference = [
        "distances",
        "heights",
        "parent_probs",
        "root_probs",
        "left_probs",
        "right_probs",
        "relation_weights",
        "hidden_states",
        "attentions",
    ]

    vocab_size: int = 10001
    hidden_size: int = 512
    num_hidden_layers: int = 8
    num_attention_heads: int = 8
    intermediate_size: int | None = None
    parser_num_layers: int = 3
    parser_kernel_size: int = 9
    hidden_dropout: float | int = 0.1
    attention_dropout: float | int = 0.0
    parser_dropout: float | int = 0.0
    num_front_layers: int = 0
    attention: Literal["dependency", "softmax"] = "dependency"
    relations: list[str] | tuple[str, ...] = ("parent", "dependent")
    relation_activation: Literal["softmax", "sigmoid", "ones"] = "softmax"
    calibration: Literal["all", "constituents"] = "all"
    tree_objective: Literal["heights", "expected_heads"] = "heights"
    branching_bias: float | int = 0.0
    use_position_embeddings: bool | None = None
    max_position_embeddings: int = 512
    use_relative_position_bias: bool = False
    max_relative_position: int = 64
    pair_features: Literal["symmetric", "ordered"] | None = None
    initializer_range: float = 0.1
    relation_initializer_range: float = 0.1
    layer_norm_eps: float = 1e-5
    tie_word_embeddings: bool = True
    unk_token_id: int | None = 0
    pad_token_id: int | None = 1
    mask_token_id: int | None = 2

    def __post_init__(self, **kwargs):
        if self.intermediate_size is None:
            self.intermediate_size = 4 * self.hidden_size
        if self.use_position_embeddings is None:
            self.use_position_embeddings = self.attention == "softmax"
        self.relations = list(self.relations)
        super().__post_init__(**kwargs)

    @property
    def abilities(self) -> Abilities:
        """Outputs and inputs of the models."""
        longest = self.max_position_embeddings if self.use_position_embeddings else None
        if self.attention == "softmax":
            return Abilities(reads="pieces", max_tokens=longest)
        return Abilities(
            structures=("dependency", "constituency"),
            columns=(PROBABILITIES,),
            decoders=("tree", "projective", "argmax"),
            marginals=True,
            reads="pieces",
            max_tokens=longest,
        )

    def validate_sizes(self):
        """Raises `ValueError` for impossible sizes."""
        require_positive(self, "parser_num_layers")
        require_whole_heads(self)
        most = self.num_hidden_layers - 1 if self.attention == "dependency" else 0
        if not 0 <= self.num_front_layers <= most:
            raise ValueError(f"num_front_layers must be between 0 and {most}, not {self.num_front_layers}")
        if self.parser_kernel_size < 1 or self.parser_kernel_size % 2 == 0:
            raise ValueError(f"parser_kernel_size must be odd, not {self.parser_kernel_size}")

    def validate_branching_bias(self):
        """Raises `ValueError` for an infinite one, or none."""
        if not isfinite(self.branching_bias):
            raise ValueError(f"branching_bias must be finite, not {self.branching_bias}")

    def validate_relations(self):
        """Raises `ValueError` for no relation, an unknown one, or one given twice."""
        unknown = [name for name in self.relations if name not in RELATIONS]
        if unknown or not self.relations or len(set(self.relations)) < len(self.relations):
            raise ValueError(f"relations must be some of {', '.join(RELATIONS)}, not {self.relations}")
