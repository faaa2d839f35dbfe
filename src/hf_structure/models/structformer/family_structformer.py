"""Registry entry for StructFormer."""

from hf_structure.models.families import Family

FAMILY = Family(
    model_type="structformer",
    package="hf_structure.models.structformer",
    config_class="configuration_structformer.StructFormerConfig",
    classes={
        "modeling_structformer.StructFormerModel": ("AutoModel",),
        "classification_structformer.StructFormerForSequenceClassification": ("AutoModelForSequenceClassification",),
        "classification_structformer.StructFormerForTokenClassification": ("AutoModelForTokenClassification",),
        "modeling_structformer.StructFormerForMaskedLM": (
            "AutoModelForMaskedLM",
            "AutoModelForDependencyParsing",
            "AutoModelForConstituencyParsing",
        ),
    },
    title="StructFormer: a masked language model that induces constituency and dependency trees",
    citation="Shen, Tay, Zheng, Bahri, Metzler, Courville (2021): StructFormer. ACL.",
    uses="studying induced structure; a starting point for training",
    limits="work that needs correct trees: they were induced from text, and differ from seed to seed",
    tags=("constituency-parsing", "dependency-parsing", "grammar-induction"),
    objective="masked_lm",
    learning_rate=3e-4,
    baselines={"transformer": {"attention": "softmax"}},
)
