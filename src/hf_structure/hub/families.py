"""What model cards say of the families and of what their models do."""

from dataclasses import dataclass

PARSE = """import hf_structure

print(hf_structure.parse("The cat that chased the mouse slept.", model="{name}"))"""
SCORE = """import hf_structure

scored = hf_structure.score("The cat that chased the mouse slept.", "{name}")
print(scored.log_prob, scored.word_surprisals)"""
LOAD = """from transformers import AutoModel, AutoTokenizer

tokenizer, model = AutoTokenizer.from_pretrained("{name}"), AutoModel.from_pretrained("{name}")
print(model(**tokenizer("The cat that chased the mouse slept.", return_tensors="pt")))"""
FILL = """from transformers import pipeline

fill = pipeline("fill-mask", model="{name}")
print(fill(f"The cat {{fill.tokenizer.mask_token}} ."))"""
CLASSIFY = """from transformers import pipeline

print(pipeline("text-classification", model="{name}")("The cat that chased the mouse slept."))"""
PAIR = """{{"text": "The cat slept.", "text_pair": "No cat was awake."}}"""
COMPARE = CLASSIFY.replace('"The cat that chased the mouse slept."', PAIR)

PARSING = """hf-structure parse --model {name} --format conllu test.conllu > system.conllu
hf-structure evaluate test.conllu system.conllu"""
SCORING = "hf-structure score --model {name} --summary test.txt"


@dataclass(frozen=True)
class Family:
    """A family of models: its name, its paper, what its models are for and what not."""

    title: str
    cite: str
    uses: str
    limits: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kind:
    """What models of a kind do: their tag on the Hub, code that uses one, a command that evaluates one."""

    pipeline_tag: str | None
    sample: str
    evaluation: str | None = None


UNSUPERVISED = "work that needs correct trees: they were induced from text, and differ from seed to seed"
SUPERVISED = "part-of-speech tags or lemmas, which it does not give; text far from its training text, without a look"

FAMILIES = {
    "udgn": Family(
        "Unsupervised Dependency Graph Network: a masked language model that induces dependency trees",
        "Shen, Tan, Sordoni, Li, Zhou, Courville (2022): Unsupervised Dependency Graph Network. ACL.",
        "studying induced structure; a starting point for training",
        UNSUPERVISED,
        ("dependency-parsing", "grammar-induction"),
    ),
    "structformer": Family(
        "StructFormer: a masked language model that induces constituency and dependency trees",
        "Shen, Tay, Zheng, Bahri, Metzler, Courville (2021): StructFormer. ACL.",
        "studying induced structure; a starting point for training",
        UNSUPERVISED,
        ("constituency-parsing", "dependency-parsing", "grammar-induction"),
    ),
    "g2g_transformer": Family(
        "Graph-to-Graph Transformer: a transition-based dependency parser",
        "Mohammadshahi, Henderson (2020): Graph-to-Graph Transformer for Transition-based Dependency Parsing. "
        "Findings of EMNLP.",
        "dependency trees of text like that of its treebank",
        SUPERVISED,
        ("dependency-parsing",),
    ),
    "rng_transformer": Family(
        "Recursive Non-autoregressive Graph-to-Graph Transformer: a dependency parser that refines its trees",
        "Mohammadshahi, Henderson (2021): Recursive Non-Autoregressive Graph-to-Graph Transformer for Dependency "
        "Parsing with Iterative Refinement. TACL.",
        "dependency trees of text like that of its treebank",
        SUPERVISED,
        ("dependency-parsing",),
    ),
    "gilt": Family(
        "GiLT: a causal language model that builds a dependency graph over what it reads and attends through it",
        "Huang et al.: GiLT: Augmenting Transformer Language Models with Dependency Graphs.",
        "probabilities and surprisals of text; studying what a graph does in a language model",
        "facts, advice, or text that nobody reads before it is used",
        ("dependency-graphs", "causal-lm"),
    ),
    "pushdown": Family(
        "Pushdown-LM: a causal language model that builds a constituency tree and attends through it",
        "Murty, Sharma, Andreas, Manning (2023): Pushdown Layers: Encoding Recursive Structure in Transformer "
        "Language Models. EMNLP.",
        "probabilities and surprisals of text; studying what a tree does in a language model",
        "facts, advice, or text that nobody reads before it is used",
        ("constituency-parsing", "causal-lm"),
    ),
}

KINDS = {
    "ForParsing": Kind("token-classification", PARSE, PARSING),
    "ForMaskedLM": Kind("fill-mask", FILL),
    "ForCausalLM": Kind("text-generation", SCORE, SCORING),
    "ForSequenceClassification": Kind("text-classification", CLASSIFY),
    "ForTokenClassification": Kind("token-classification", CLASSIFY.replace("text-", "token-")),
}
INDUCTION = Kind("fill-mask", PARSE, PARSING)  # of masked language models that parse
PAIRS = Kind("text-classification", COMPARE)  # of classifiers of pairs of sentences
OTHER = Kind(None, LOAD)


def family_of(config: dict) -> Family | None:
    """The family of a configuration, if it is known."""
    return FAMILIES.get(config.get("model_type", ""))


def kind_of(config: dict) -> Kind:
    """What a model with this configuration does."""
    architecture = (config.get("architectures") or [""])[0]
    if architecture.endswith("ForMaskedLM") and family_of(config) and config.get("attention") != "softmax":
        return INDUCTION
    if architecture.endswith("ForSequenceClassification") and config.get("pair_features"):
        return PAIRS
    return next((kind for suffix, kind in KINDS.items() if architecture.endswith(suffix)), OTHER)


__all__ = ["PAIR", "PAIRS", "Family", "Kind", "family_of", "kind_of"]
