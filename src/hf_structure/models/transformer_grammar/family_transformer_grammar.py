"""Registry entry for transformer grammars."""

from hf_structure.models.families import Family

FAMILY = Family(
    model_type="transformer_grammar",
    package="hf_structure.models.transformer_grammar",
    config_class="configuration_transformer_grammar.TransformerGrammarConfig",
    classes={
        "modeling_transformer_grammar.TransformerGrammarModel": ("AutoModel",),
        "modeling_transformer_grammar.TransformerGrammarForCausalLM": (
            "AutoModelForCausalLM",
            "AutoModelForDependencyParsing",
            "AutoModelForConstituencyParsing",
        ),
    },
    title="Transformer grammar: a causal language model that writes a tree between its tokens and attends along it",
    citation=(
        "Sartran, Barrett, Kuncoro, Stanojević, Blunsom, Dyer (2022): Transformer Grammars: Augmenting Transformer"
        " Language Models with Syntactic Inductive Biases at Scale. TACL."
    ),
    uses="probabilities and surprisals of text; studying what a tree does in a language model",
    limits="facts, advice, or text that nobody reads before it is used",
    tags=("constituency-parsing", "dependency-parsing", "causal-lm"),
    objective="causal_lm",
    annotation="annotation_transformer_grammar.ActionAnnotation",
)
