"""Registry entry for Pushdown-LM."""

from hf_structure.models.families import Family

FAMILY = Family(
    model_type="pushdown",
    package="hf_structure.models.pushdown",
    config_class="configuration_pushdown.PushdownLMConfig",
    classes={
        "modeling_pushdown.PushdownLMModel": ("AutoModel",),
        "modeling_pushdown.PushdownLMForCausalLM": (
            "AutoModelForCausalLM",
            "AutoModelForDependencyParsing",
            "AutoModelForConstituencyParsing",
        ),
    },
    title="Pushdown-LM: a causal language model that builds a constituency tree and attends through it",
    citation=(
        "Murty, Sharma, Andreas, Manning (2023): Pushdown Layers: Encoding Recursive Structure in Transformer"
        " Language Models. EMNLP."
    ),
    uses="probabilities and surprisals of text; studying what a tree does in a language model",
    limits="facts, advice, or text that nobody reads before it is used",
    tags=("constituency-parsing", "causal-lm"),
    objective="causal_lm",
    annotation="annotation_pushdown.AttachmentAnnotation",
)
