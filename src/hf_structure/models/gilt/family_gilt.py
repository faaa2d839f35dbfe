"""Registry entry for GiLT."""

from hf_structure.models.families import Family

FAMILY = Family(
    model_type="gilt",
    package="hf_structure.models.gilt",
    config_class="configuration_gilt.GiLTConfig",
    classes={
        "modeling_gilt.GiLTModel": ("AutoModel",),
        "modeling_gilt.GiLTForCausalLM": ("AutoModelForCausalLM", "AutoModelForDependencyParsing"),
        "classification_gilt.GiLTForSequenceClassification": ("AutoModelForSequenceClassification",),
    },
    title="GiLT: a causal language model that builds a dependency graph over what it reads and attends through it",
    citation="Huang et al.: GiLT: Augmenting Transformer Language Models with Dependency Graphs.",
    uses="probabilities and surprisals of text; studying what a graph does in a language model",
    limits="facts, advice, or text that nobody reads before it is used",
    tags=("dependency-graphs", "causal-lm"),
    objective="causal_lm",
    annotation="annotation_gilt.GraphAnnotation",
    baselines={"transformer-xl": {"graph_layers": 0}, "transformer-xl-large": {"graph_layers": 0}},
)
