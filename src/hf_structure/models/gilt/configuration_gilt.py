"""GiLT configuration."""

from dataclasses import replace
from typing import ClassVar, Literal

from huggingface_hub.dataclasses import strict

from hf_structure.algorithms.graph import TapeFeatures
from hf_structure.models.abilities import Abilities
from hf_structure.modules.configuration import require_not_negative
from hf_structure.modules.structured_lm.configuration import StructuredLMConfig


@strict
class GiLTConfig(StructuredLMConfig):
    r"""
    Configuration of the Graph-Infused Layers Transformer (Huang et al., "GiLT: Augmenting Transformer Language Models
    with Dependency Graphs"). The defaults are the paper's model from scratch, a Transformer-XL of 16 layers.

    Args:
        vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, hidden_dropout,
        attention_dropout, layer_norm_eps, base_config, scale_embeddings, lm_head_bias, use_cache:
            As in [`~hf_structure.modules.structured_lm.configuration.StructuredLMConfig`].
        graph_layers (`int` or `list[int]`, *optional*):
            Number of last layers that are infused with graphs, or a list of layers, counted from 0; all by default.
            With 0 there are no graph parameters at all: the Transformer-XL baseline.
        graph_features (`list[str]`, defaults to `["degree", "distance", "depth"]`):
            Features read from graphs (section 3.3; table 4 leaves out one each).
        degree_weights (`list[int]`, defaults to `[10, 1]`):
            Weights of an outgoing and an incoming arc in a degree, m_out and m_in (table 4: `[1, 1]`); at most 255.
        distance_weights (`list[int]`, defaults to `[10, 1]`):
            Length of an arc along and against its direction (table 4: `[1, 1]`); at most 255.
        max_feature_value (`int`, defaults to 150): Larger values are read as this one; at most 255.
        graph_embedding_size (`int`, defaults to 256): Width of the embeddings of feature values.
        graph_key (`"relative"` or `"content"`, defaults to `"relative"`):
            Graph keys join the relative positions (eq. 5), or the content keys (eq. 4), as in grafted backbones,
            which have no others, and in the authors' code.
        scorer_hidden_size (`int`, *optional*, defaults to `2 * hidden_size`):
            Width between the two perceptrons of the dependency scorer, where positions and features are added.
        scorer_size (`int`, *optional*, defaults to `hidden_size`):
            Width of the parent and child vectors that the biaffine form compares.
        scorer_chunk_size (`int`, defaults to 16384):
            Number of pairs of words scored at a time; bounds the memory of training.
        max_new_arcs (`int`, defaults to 15):
            Most dependencies that come with one word, C. Words with more count as having so many.
        arc_loss_weight (`float`, defaults to 0.2): Weight of the arcs' loss, beta of eq. 6.
        count_loss_weight (`float`, defaults to 0.2): Weight of the counts' loss, gamma of eq. 6.

    Example:

    ```python
    >>> from hf_structure import GiLTConfig, GiLTForCausalLM
    >>> model = GiLTForCausalLM(GiLTConfig(vocab_size=5000, hidden_size=128, num_hidden_layers=4))
    ```
    """

    model_type = "gilt"
    grafted: ClassVar[str] = "graphs"
    keys_to_ignore_at_inference = [
        "cache", "hidden_states", "attentions", "arc_logits", "count_logits", "lm_loss", "graph_loss",
    ]  # fmt: skip

    graph_layers: int | list[int] | None = None
    graph_features: list[str] | tuple[str, ...] = ("degree", "distance", "depth")
    degree_weights: list[int] | tuple[int, ...] = (10, 1)
    distance_weights: list[int] | tuple[int, ...] = (10, 1)
    max_feature_value: int = 150
    graph_embedding_size: int = 256
    graph_key: Literal["relative", "content"] = "relative"
    scorer_hidden_size: int | None = None
    scorer_size: int | None = None
    scorer_chunk_size: int = 16384
    max_new_arcs: int = 15
    arc_loss_weight: float | int = 0.2
    count_loss_weight: float | int = 0.2

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        if self.base_config is not None:
            self.graph_key = "content"
        if self.graph_layers is None:
            self.graph_layers = self.num_hidden_layers
        if self.scorer_hidden_size is None:
            self.scorer_hidden_size = 2 * self.hidden_size
        if self.scorer_size is None:
            self.scorer_size = self.hidden_size
        for name in ("graph_features", "degree_weights", "distance_weights"):
            setattr(self, name, list(getattr(self, name)))  # as JSON gives them back

    @property
    def tape_features(self) -> TapeFeatures:
        """The features read from graphs."""
        return TapeFeatures(self.graph_features, self.degree_weights, self.distance_weights, self.max_feature_value)

    @property
    def scorer_layers(self) -> tuple[int, int]:
        """The layers whose outputs represent words, L/2 and L - 1 (0 are the embeddings)."""
        return self.num_hidden_layers // 2, self.num_hidden_layers - 1

    @property
    def abilities(self) -> Abilities:
        """The structures, inputs and options of the models."""
        plain = Abilities(reads="pieces", reads_sentences=True, max_tokens=self.max_tokens)
        if not self.graph_layers:
            return plain
        return replace(
            plain, structures=("graph",), decoders=("tree",), k_best=True, marginals=True, beam=True, incremental=True
        )

    def validate_sizes(self):
        """Raises `ValueError` for impossible sizes."""
        self._check_sizes("max_new_arcs", "scorer_chunk_size")
        if self.graph_layers and not self.graph_features:
            raise ValueError("no graph features: leave graphs out with graph_layers=0")
        require_not_negative(self, "arc_loss_weight", "count_loss_weight")
        _ = self.tape_features  # raises, too
