"""Registry entry of the Recursive Non-autoregressive Graph-to-Graph Transformer."""

from hf_structure.models.families import Family

FAMILY = Family(
    model_type="rng_transformer",
    package="hf_structure.models.rng_transformer",
    config_class="configuration_rng_transformer.RNGTransformerConfig",
    classes={
        "modeling_rng_transformer.RNGTransformerModel": ("AutoModel",),
        "modeling_rng_transformer.RNGTransformerForParsing": (
            "AutoModelForDependencyParsing",
            "AutoModelForConstituencyParsing",
        ),
    },
    title="Recursive Non-autoregressive Graph-to-Graph Transformer: a dependency parser that refines its trees",
    citation=(
        "Mohammadshahi, Henderson (2021): Recursive Non-Autoregressive Graph-to-Graph Transformer for "
        "Dependency Parsing with Iterative Refinement. TACL."
    ),
    uses=(
        "dependency trees of text like that of its treebanks, with the tags, features, lemmas and sentences that it "
        "has learned from them"
    ),
    limits="out-of-domain text without manual checks",
    tags=("dependency-parsing",),
    has_encoder_inputs=True,
    options=("columns", "treebanks", "constituents", "initial_train_file", "teacher"),
)
