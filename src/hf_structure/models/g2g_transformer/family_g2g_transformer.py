"""Registry entry for the Graph-to-Graph Transformer."""

from hf_structure.models.families import Family

FAMILY = Family(
    model_type="g2g_transformer",
    package="hf_structure.models.g2g_transformer",
    config_class="configuration_g2g_transformer.G2GTransformerConfig",
    classes={
        "modeling_g2g_transformer.G2GTransformerModel": ("AutoModel",),
        "modeling_g2g_transformer.G2GTransformerForParsing": ("AutoModelForDependencyParsing",),
    },
    title="Graph-to-Graph Transformer: a transition-based dependency parser",
    citation=(
        "Mohammadshahi, Henderson (2019): Graph-to-Graph Transformer for Transition-based Dependency Parsing."
        " arXiv:1911.03561v1. Of the version in Findings of EMNLP (2020), the SWAP action is here, but neither the"
        " Sentence Transformer (SentTr) nor its results on 13 languages."
    ),
    uses="dependency trees of text like that of its treebank",
    limits="part-of-speech tags or lemmas, which it does not give; text far from its training text, without a look",
    tags=("dependency-parsing",),
    options=("use_swap",),
    has_encoder_inputs=True,
    why_unusable="states_g2g_transformer.why_unusable",
)
