"""Transformer grammar configuration."""

from collections.abc import Sequence
from typing import ClassVar, Literal

from huggingface_hub.dataclasses import strict

from hf_structure.models.abilities import Abilities
from hf_structure.modules.structured_lm.configuration import StructuredLMConfig

UNLABELLED = "X"


@strict
class TransformerGrammarConfig(StructuredLMConfig):
    r"""
    Configuration of language models that write the actions of a tree between their tokens, on the Transformer-XL that
    GiLT and Pushdown-LM have: PLM and PLM-Mask (Qian et al. 2021), Transformer Grammars (TG, Sartran et al. 2022) and
    Dependency Transformer Grammars (DTG, Zhao et al. 2024). The defaults are a TG of 16 layers. With
    `composition="none"` it may be on a pretrained model, too.

    | | `formalism` | `composition` |
    |---|---|---|
    | PLM | `"constituency"` | `"none"` |
    | PLM-Mask | `"constituency"` | `"heads"` |
    | TG | `"constituency"` | `"compose"` |
    | DTG | `"dependency"` | `"compose"` |

    Args:
        vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, hidden_dropout,
        attention_dropout, layer_norm_eps, base_config, scale_embeddings, lm_head_bias, use_cache:
            As in [`~hf_structure.modules.structured_lm.configuration.StructuredLMConfig`]. Tokens alone are counted:
            actions have embeddings of their own, which are also what they are predicted with.
        formalism (`"constituency"` or `"dependency"`):
            The kind of trees: constituents are opened and closed, or words on a stack get arcs. Separates DTG and its
            baseline from the other models.
        composition (`"none"`, `"heads"` or `"compose"`):
            The view of each token: all before it; all, but one head sees the innermost open constituent alone and one
            only what is before it; or the stack, where a closed constituent or a head with its dependent is a single
            vector. Separates the models of each formalism. With `"compose"`, attention reads how much deeper in the
            tree (with dependencies: on the stack) a token is than another, else how far away; each label has a closing
            action, else there is one for all; and an arc is read with the embedding of its head's last token.
        openings (`bool`, defaults to `True`):
            If False, constituents have closings alone, each with its label: how many words and constituents it joins
            is not said. Only with `composition="none"`.
        closings (`1`, `2` or `3`, defaults to 1):
            Number of times a closing or an arc is read; it is predicted once. With `"compose"`, it is always read
            twice, else more than once only with `"none"`.
        compress_closings (`bool`, defaults to `False`):
            If True, closings in a row are a single one, which does not say how many constituents it closes. Only with
            openings and `composition="none"`.
        labels (`list[str]`, *optional*):
            Labels of constituents, as the papers have them; by default none, for trees made from dependencies.
        max_depth (`int`, defaults to 62):
            Greater differences of depth are read as this one, as in TG's release.
        max_open (`int`, defaults to 64):
            Most constituents that may be open; where the actions do not say how many are, most that may be closed
            (without openings) or opened (with compressed closings) between two words. Without a bound, there would be
            infinitely many trees, and the probabilities of texts would not sum to 1.
        inner_pieces (`list[int]`, *optional*):
            Ids of the tokens that go on with a word, as from [`inner_pieces`]: none of them comes after
            an action, but in front of the first word. By default any token may come there; where some are never read
            as the beginning of a word, their probability is lost, and the probabilities of all texts sum to less than
            1.

    Example:

    ```python
    >>> from hf_structure import TransformerGrammarConfig, TransformerGrammarForCausalLM
    >>> config = TransformerGrammarConfig(vocab_size=5000, hidden_size=128, num_hidden_layers=4, labels=["S", "NP"])
    >>> model = TransformerGrammarForCausalLM(config)
    ```
    """

    model_type = "transformer_grammar"
    grafted: ClassVar[str] = "actions"
    keys_to_ignore_at_inference = ["cache", "hidden_states", "attentions", "lm_loss", "action_loss"]

    formalism: Literal["constituency", "dependency"] = "constituency"
    composition: Literal["none", "heads", "compose"] = "compose"
    openings: bool = True
    closings: Literal[1, 2, 3] = 1
    compress_closings: bool = False
    labels: list[str] | None = None
    max_depth: int = 62
    max_open: int = 64
    inner_pieces: list[int] | None = None

    @property
    def label_names(self) -> list[str]:
        """The labels of constituents, by their numbers; without labels there is one for all."""
        return self.labels or [UNLABELLED]

    @property
    def action_names(self) -> list[str]:
        """The actions, by their numbers: openings and closings, or arcs."""
        if self.formalism == "dependency":
            return ["<left-arc>", "<right-arc>"]
        openings = [f"<{label}>" for label in self.label_names][: self.num_openings]
        return openings + ([f"</{label}>" for label in self.label_names] if self.labels_closings else ["</>"])

    @property
    def num_openings(self) -> int:
        """Number of actions that open a constituent; they come first."""
        return len(self.label_names) if self.openings and self.formalism == "constituency" else 0

    @property
    def labels_closings(self) -> bool:
        """True if each label has a closing of its own."""
        return self.composition == "compose" or not self.openings

    @property
    def num_copies(self) -> int:
        """Number of copies of a closing or an arc that are read after it."""
        return 1 if self.composition == "compose" else self.closings - 1

    @property
    def structure_layers(self) -> Sequence[int]:
        """The layers that read structures, counted from 0."""
        return range(self.num_hidden_layers)

    @property
    def abilities(self) -> Abilities:
        """The structures, inputs and options of the models."""
        has_labels = self.labels and self.formalism == "constituency"
        span_labels = tuple(self.label_names) if has_labels else None
        return Abilities(
            structures=(self.formalism,),
            span_labels=span_labels,
            decoders=("tree",),
            k_best=self.formalism == "dependency",
            beam=True,
            reads="pieces",
            incremental=True,
            reads_sentences=True,
            max_tokens=self.max_tokens,
        )

    def validate_sizes(self):
        """Raises `ValueError` where a setting makes no model."""
        self._check_sizes("max_depth", "max_open")
        if self.base_config is not None and self.composition != "none":
            raise ValueError('on a pretrained model, a transformer grammar is a PLM: give composition="none"')
        if self.composition == "heads" and self.formalism == "dependency":
            raise ValueError('composition="heads" is about constituents: there are none with formalism="dependency"')
        if self.composition == "heads" and self.num_attention_heads < 2:
            raise ValueError('composition="heads" restricts two attention heads: num_attention_heads is 1')
        if self.composition != "none" and self.closings > 1:
            raise ValueError('closings is for composition="none": with "compose" a closing is read twice in any case')
        if not self.openings and (self.composition != "none" or self.formalism == "dependency"):
            raise ValueError('openings=False is for constituents and composition="none"')
        is_plain = self.openings and self.composition == "none" and self.formalism == "constituency"
        if self.compress_closings and not is_plain:
            raise ValueError('compress_closings is for constituents with openings and composition="none"')
        if self.labels is not None and len({*self.labels}) < max(len(self.labels), 1):
            raise ValueError("labels must be distinct, and at least one")
