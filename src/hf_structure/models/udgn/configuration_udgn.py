"""UDGN configuration."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from hf_structure.models.abilities import PROBABILITIES, Abilities
from hf_structure.modules.configuration import StructureConfig, require_not_negative, require_positive


@strict
class UDGNConfig(StructureConfig):
    r"""
    Configuration of the Unsupervised Dependency Graph Network (Shen et al. 2022). The defaults are the paper's model
    for the Penn Treebank (table 6).

    Args:
        vocab_size (`int`, defaults to 10798): Number of words, special tokens included.
        hidden_size (`int`, defaults to 512): Width of the word vectors in the dependency graph network.
        num_hidden_layers (`int`, defaults to 8): Number of dependency graph layers.
        num_attention_heads (`int`, defaults to 8): Number of gated heads that compete for every edge.
        head_dim (`int`, *optional*): Width of a gated head. By default `2 * hidden_size / num_attention_heads`, so
            that the number of parameters does not depend on the number of heads (figure 4).
        parser_hidden_size (`int`, *optional*, defaults to `hidden_size`):
            Width of the parser's word vectors and of each direction of its LSTM.
        parser_num_layers (`int`, defaults to 3): Number of bidirectional LSTM layers in the parser.
        hidden_dropout (`float`, defaults to 0.2):
            Dropout on embeddings, on concatenated heads and on the output of each layer.
        parser_dropout (`float`, defaults to 0.2):
            Dropout on the parser's embeddings and on the output of each LSTM layer.
        head_dropout (`float`, defaults to 0.1): Dropout on the weights of the gated heads ("drop-head").
        use_gate (`bool`, defaults to `True`): Let receiving words gate their messages (eq. 8; table 4, "- Gates").
        competition (`"softmax"` or `"sigmoid"`, defaults to `"softmax"`):
            Let heads compete for an edge (eq. 10) or be independent of each other (table 4, "- Competition").
        head_activation (`"tanh"`, `"identity"`, `"relu"` or `"elu"`, defaults to `"tanh"`):
            Nonlinearity on values (eq. 8; table 8, "- Nonlinear").
        use_relative_position_bias (`bool`, defaults to `True`):
            Give each head a bias for words to the left and to the right (eq. 12 and 13; table 4).
        use_position_embeddings (`bool`, defaults to `False`):
            Learn absolute positions and add them to the word embeddings (table 8, "+ pos encoding").
        max_position_embeddings (`int`, defaults to 512):
            Longest sentence for `use_position_embeddings`; no limit otherwise.
        head_normalization (`"softmax"` or `"kirchhoff"`, defaults to `"softmax"`):
            Head probabilities by softmax (eq. 5) or as marginals over all single-root trees (table 8, "+ Kirchhoff").
        detach_parser (`bool`, defaults to `False`):
            Keep the language modelling gradient out of the parser; it then learns from the head loss alone.
        head_loss_weight (`float`, defaults to 0.0):
            Weight of the supervised head loss; above 0, `heads` must be given in training.
        root_score (`"parser"`, `"uniform"` or `"dependents"`, defaults to `"parser"`):
            Score of the root arcs in trees: the log-probability that a word chooses itself; the same for all words
            (as the paper's authors evaluate); or that log-probability plus the expected number of words that choose
            the word as their head (roots have many dependents).
        tree_objective (`"probability"` or `"expected_heads"`, defaults to `"probability"`):
            Objective of the best tree: its probability, or its expected number of right heads, which is the sum of its
            arcs' marginals (minimum Bayes risk), as in the bundled model.
        edge_floor (`float`, defaults to 0.0): Added to the probability of every edge that the graph network reads, and
            of a word with itself. Checkpoints of the authors' code need 1e-6: an edge may be improbable everywhere,
            and then the heads that compete for it see nothing but this.
        pair_features (`"symmetric"` or `"ordered"`, *optional*):
            Turns sequence classification into sentence-pair classification. The classifier reads `|u - v|` and
            `u * v` of the means `u` and `v` of both sentences' word vectors, and for ordered pairs `u` and `v` too, as
            `examples/papers/run_glue.py` does for tasks of pairs.
        initializer_range (`float`, defaults to 0.1):
            Embeddings and position biases start uniform in `[-initializer_range, initializer_range]`.
        layer_norm_eps (`float`, defaults to 1e-5): Epsilon of the final layer norm.

    Example:

    ```python
    >>> from hf_structure import UDGNConfig, UDGNForMaskedLM
    >>> model = UDGNForMaskedLM(UDGNConfig(vocab_size=5000, hidden_size=128, num_hidden_layers=4))
    ```
    """

    model_type = "udgn"
    keys_to_ignore_at_inference = ["head_log_probs", "dependency_mask", "hidden_states", "attentions"]

    vocab_size: int = 10798
    hidden_size: int = 512
    num_hidden_layers: int = 8
    num_attention_heads: int = 8
    head_dim: int | None = None
    parser_hidden_size: int | None = None
    parser_num_layers: int = 3
    hidden_dropout: float | int = 0.2
    parser_dropout: float | int = 0.2
    head_dropout: float | int = 0.1
    use_gate: bool = True
    competition: Literal["softmax", "sigmoid"] = "softmax"
    head_activation: Literal["tanh", "identity", "relu", "elu"] = "tanh"
    use_relative_position_bias: bool = True
    use_position_embeddings: bool = False
    max_position_embeddings: int = 512
    head_normalization: Literal["softmax", "kirchhoff"] = "softmax"
    detach_parser: bool = False
    head_loss_weight: float | int = 0.0
    root_score: Literal["parser", "uniform", "dependents"] = "parser"
    tree_objective: Literal["probability", "expected_heads"] = "probability"
    edge_floor: float | int = 0.0
    pair_features: Literal["symmetric", "ordered"] | None = None
    initializer_range: float = 0.1
    layer_norm_eps: float = 1e-5
    tie_word_embeddings: bool = True
    unk_token_id: int | None = 0
    pad_token_id: int | None = 1
    mask_token_id: int | None = 2

    def __post_init__(self, **kwargs):
        if self.head_dim is None:
            self.head_dim = 2 * self.hidden_size // max(self.num_attention_heads, 1)
        if self.parser_hidden_size is None:
            self.parser_hidden_size = self.hidden_size
        super().__post_init__(**kwargs)

    @property
    def abilities(self) -> Abilities:
        """Outputs and inputs of the models."""
        longest = self.max_position_embeddings if self.use_position_embeddings else None
        return Abilities(
            structures=("dependency",),
            columns=(PROBABILITIES,),
            decoders=("tree", "projective", "argmax"),
            k_best=True,
            marginals=True,
            reads="words",
            max_words=longest,
            max_tokens=longest,
        )

    def validate_sizes(self):
        """Raises `ValueError` for impossible sizes."""
        require_positive(self, "parser_hidden_size", "parser_num_layers", "max_position_embeddings")
        if self.head_dim is not None and self.head_dim < 1:
            raise ValueError(
                f"head_dim is {self.head_dim}: {self.num_attention_heads} heads are too many for hidden_size "
                f"{self.hidden_size}; give head_dim or fewer heads"
            )
        require_not_negative(self, "head_loss_weight", "edge_floor")
