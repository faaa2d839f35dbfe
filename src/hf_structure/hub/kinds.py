"""What model cards say of what models do."""

from dataclasses import dataclass

from hf_structure.families import FAMILIES, Family

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
class Kind:
    """What models of a kind do: their tag on the Hub, code that uses one, a command that evaluates one."""

    pipeline_tag: str | None
    sample: str
    evaluation: str | None = None


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
