"""Graph-to-Graph Transformer configuration."""

from typing import Literal, cast

from huggingface_hub.dataclasses import strict

from hf_structure.models.abilities import PROBABILITIES, Abilities, label_columns
from hf_structure.modules.configuration import EncoderConfig, require_positive

# The models of table 2, as settings of the configuration.
VARIANTS = {
    "DepTr": {"use_history": False, "composition": "none", "use_graph_input": False},
    "DepTr+H": {"composition": "none", "use_graph_input": False},
    "DepTr+CH": {"use_graph_input": False},
    "G2G": {},
    "G2CLS": {"use_graph_output": False, "stack_positions": "from_top"},
}


@strict
class G2GTransformerConfig(EncoderConfig):
    r"""
    Configuration of the Graph-to-Graph Transformer (Mohammadshahi & Henderson 2019). The defaults are the paper's full
    model (G2G, appendix A) over the vocabulary of BERT (cased). The relation labels are listed in `id2label`.

    Args:
        vocab_size, hidden_size, num_attention_heads, intermediate_size, hidden_act, hidden_dropout, attention_dropout,
        num_tags, tags, labelled, initializer_range, layer_norm_eps, unk_token_id, encoder_config:
            As in [`~hf_structure.modules.configuration.EncoderConfig`].
        num_hidden_layers (`int`, defaults to 6): Number of self-attention layers.
        max_position_embeddings (`int`, defaults to 512): Longest sequence; a sentence of n words needs n + 4 positions
            with graph input, else n + 3, and n more if they are counted from the top of the stack.
        use_swap (`bool`, defaults to `False`):
            Add a SWAP action, as in the paper's second version; without it only projective trees can be learned and
            predicted.
        use_history (`bool`, defaults to `True`): Let an LSTM read the actions so far (section 3.3, table 2).
        composition (`"recursive"` or `"none"`, defaults to `"recursive"`):
            Compose words on the stack with their dependents (section 3.1.2, table 2), at every step.
        use_graph_input (`bool`, defaults to `True`):
            Let self-attention read the arcs made so far (eq. 9 and 10, table 2), and include deleted words in the
            sequence.
        use_graph_output (`bool`, defaults to `True`):
            Predict actions from the two words on top of the stack (eq. 11), or else from the start symbol (G2CLS of
            table 2).
        stack_positions (`"from_bottom"` or `"from_top"`, defaults to `"from_bottom"`): Positions are counted
            from the start symbol, so that the positions of the top of the stack and of the front of the buffer depend
            on the stack's depth; or so that these are always the same, in the middle of `max_position_embeddings`, as
            in the authors' code. A prediction from the start symbol then finds them more easily.
        classifier_hidden_size (`int`, defaults to 200): Width of the hidden layer of both classifiers.
        classifier_dropout (`float`, defaults to 0.05): Dropout in the classifiers.
        history_size (`int`, defaults to 100): Width of the history LSTM.
        history_num_layers (`int`, defaults to 2): Number of its layers.
        chunk_positions (`int`, defaults to 16384):
            Encoder positions (states times length) computed at a time in training. The activations of a batch with
            more are not kept but computed again in the backward pass: memory is bounded, time grows by a third.

    Example:

    ```python
    >>> from hf_structure import G2GTransformerConfig, G2GTransformerForParsing
    >>> labels = {0: "nsubj", 1: "obj", 2: "root"}
    >>> model = G2GTransformerForParsing(G2GTransformerConfig(vocab_size=5000, hidden_size=384, id2label=labels))
    ```
    """

    model_type = "g2g_transformer"
    keys_to_ignore_at_inference = ["label_logits", "actions", "hidden_states", "attentions"]

    num_hidden_layers: int = 6
    use_swap: bool = False
    use_history: bool = True
    composition: Literal["recursive", "none"] = "recursive"
    use_graph_output: bool = True
    stack_positions: Literal["from_bottom", "from_top"] = "from_bottom"
    classifier_hidden_size: int = 200
    classifier_dropout: float | int = 0.05
    history_size: int = 100
    history_num_layers: int = 2
    chunk_positions: int = 16384

    @property
    def num_actions(self) -> int:
        """SHIFT, LEFT-ARC, RIGHT-ARC, and perhaps SWAP."""
        return 4 if self.use_swap else 3

    @property
    def max_words(self) -> int:
        """Number of words of the longest sentence that fits into the positions."""
        words = self.max_position_embeddings - (4 if self.use_graph_input else 3)
        return words if self.stack_positions == "from_bottom" else words // 2

    @property
    def top_position(self) -> int | None:
        """Fixed position of the top of the stack, if any: all words fit below it."""
        return None if self.stack_positions == "from_bottom" else self.max_words + 1

    @property
    def abilities(self) -> Abilities:
        """Outputs and inputs of the models."""
        labels = label_columns(cast(dict[int, str], self.id2label)) if self.labelled else ()
        return Abilities(
            structures=("dependency",),
            columns=(PROBABILITIES, *labels),
            decoders=("tree", "projective"),
            k_best=True,
            marginals=True,
            beam=True,
            tags=tuple(self.tags or ()) if self.num_tags else None,
            reads="pieces",
            max_words=self.max_words,
        )

    def validate_sizes(self):
        """Raises `ValueError` for impossible sizes."""
        super().validate_sizes()
        require_positive(self, "classifier_hidden_size", "history_size", "history_num_layers", "chunk_positions")
