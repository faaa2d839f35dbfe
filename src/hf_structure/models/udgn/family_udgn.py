"""Registry entry for the Unsupervised Dependency Graph Network."""

from hf_structure.models.families import Family

FAMILY = Family(
    model_type="udgn",
    package="hf_structure.models.udgn",
    config_class="configuration_udgn.UDGNConfig",
    classes={
        "modeling_udgn.UDGNModel": ("AutoModel",),
        "classification_udgn.UDGNForSequenceClassification": ("AutoModelForSequenceClassification",),
        "classification_udgn.UDGNForTokenClassification": ("AutoModelForTokenClassification",),
        "modeling_udgn.UDGNForMaskedLM": ("AutoModelForMaskedLM", "AutoModelForDependencyParsing"),
    },
    title="Unsupervised Dependency Graph Network: a masked language model that induces dependency trees",
    citation="Shen, Tan, Sordoni, Li, Zhou, Courville (2022): Unsupervised Dependency Graph Network. ACL.",
    uses="studying induced structure; a starting point for training",
    limits="work that needs correct trees: they were induced from text, and differ from seed to seed",
    tags=("dependency-parsing", "grammar-induction"),
    objective="masked_lm",
    learning_rate=1e-3,
)
