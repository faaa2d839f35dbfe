"""Model cards, generated from the files in a model's folder."""

import json
import math
import re
import shlex
from dataclasses import asdict, dataclass, field
from pathlib import Path

from huggingface_hub import EvalResult, ModelCard, ModelCardData
from safetensors import safe_open

from hf_structure.hub.eval_results import make_entry, to_files
from hf_structure.hub.int8_storage import is_scale
from hf_structure.models.families import FAMILIES, Family

MARK = "<!-- Made by hf_structure from what it knows. Take this line out, and the card stays as you write it. -->"
# Saved beside a trained model. `Trainer` does not upload names that begin with an underscore.
FACTS = "_card_facts.json"
RESULTS = "all_results.json"  # of transformers' `Trainer`
SPLITS = {"eval": "validation", "test": "test"}  # of data, by the prefix of names of results
SHARES = {  # words in the names of metrics between 0 and 1
    *("accuracy", "f1", "feats", "las", "lemma", "precision", "recall", "uas", "uf1", "upos", "uuas", "xpos")
}
SCRIPT = re.compile(r"run_(mlm|parsing|clm)\.py")  # scripts that `hf-structure train` runs
SHORT = {"f1": "F1", "las": "LAS", "uas": "UAS", "uf1": "unlabelled F1", "uuas": "UUAS"}
NO_SCORES = ("runtime", "per_second", "epoch", "total_flos", "samples", "train_loss")

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
    """A kind of model: its tag on the Hub, code that uses one, and a command that evaluates one."""

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
INDUCTION = Kind("fill-mask", PARSE, f"{PARSING} --ignore punct")  # of masked language models that parse
PAIRS = Kind("text-classification", COMPARE)  # of classifiers of pairs of sentences
OTHER = Kind(None, LOAD)


def family_of(config: dict) -> Family | None:
    """Returns the family of a configuration, if known."""
    return FAMILIES.get(config.get("model_type", ""))


def kind_of(config: dict) -> Kind:
    """Returns the kind of model with this configuration."""
    architecture = (config.get("architectures") or [""])[0]
    # With softmax attention, the families are the Transformer baselines of their papers, which induce no trees.
    if architecture.endswith("ForMaskedLM") and family_of(config) and config.get("attention") != "softmax":
        return INDUCTION
    if architecture.endswith("ForSequenceClassification") and config.get("pair_features"):
        return PAIRS
    return next((kind for suffix, kind in KINDS.items() if architecture.endswith(suffix)), OTHER)


@dataclass
class CardFacts:
    """The parts of a card that are in neither configuration nor weights."""

    license: str | None = None
    language: str | None = None
    base_model: str | None = None
    datasets: list[str] = field(default_factory=list)  # on the Hub
    files: dict[str, list[str]] = field(default_factory=dict)  # of "train", "eval" and "test"
    settings: dict[str, str] = field(default_factory=dict)  # of training
    evaluations: dict[str, list[str]] = field(default_factory=dict)  # of "eval" and "test": a script and its options
    benchmarks: dict[str, str | None] = field(default_factory=dict)  # of "eval" and "test": a data set of the Hub
    dates: dict[str, str] = field(default_factory=dict)  # when "eval" and "test" ended, in ISO 8601

    @classmethod
    def of_folder(cls, folder: Path) -> "CardFacts":
        """Reads the facts that training has saved beside a model, if any."""
        file = folder / FACTS
        return cls(**json.loads(file.read_text("utf-8"))) if file.is_file() else cls()

    def save(self, folder: Path) -> None:
        (folder / FACTS).write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", "utf-8")


def make_card(folder: str | Path, name: str, facts: CardFacts | None = None) -> ModelCard:
    """
    Generates the card of the model in a folder.

    Args:
        folder (`str` or `Path`): The model and the files of its training.
        name (`str`): Its name on the Hub, or a folder.
        facts ([`CardFacts`], *optional*): By default the facts saved by training.
    """
    folder = Path(folder)
    facts = facts or CardFacts.of_folder(folder)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    family = family_of(config)
    kind = kind_of(config)
    results = read_results(folder, kind, facts)
    packages = "torch transformers" if _is_self_contained(config) else "hf_structure"
    parts = [
        f"---\n{_metadata(config, name, facts, results).to_yaml()}\n---\n{MARK}",
        f"# {Path(name).name}",
        *_introduction(family, config, facts),
        _facts_table(folder, config, facts),
        f"## Use\n\n```\npip install {packages}\n```\n\n```python\n{_sample(config, kind, name)}\n```",
        _training(facts),
        _results(results, kind, name, facts),
        f"## Cite\n\n{family.citation}" if family else "",
    ]
    return ModelCard("\n\n".join(part for part in parts if part) + "\n")


def make_eval_results(folder: str | Path, repo_id: str | None, facts: CardFacts) -> dict[str, str]:
    """
    Generates the files of `.eval_results/` from the results saved beside a model, by their paths. There is one for
    each data set of the Hub in `facts.benchmarks`, with the results of the test if both parts are from the same one.
    """
    if not any(facts.benchmarks.values()):
        return {}
    config = json.loads(Path(folder, "config.json").read_text("utf-8"))
    # The loss depends on the tokenizer and the objective: it cannot be compared.
    results = [result for result in read_results(Path(folder), kind_of(config), facts) if result.metric_type != "loss"]
    found = {part: [result for result in results if result.dataset_split == split] for part, split in SPLITS.items()}
    # The test comes last, and replaces the validation on the same data set.
    chosen = {facts.benchmarks.get(part): part for part in SPLITS if found[part]}
    entries = [
        make_entry(benchmark, result.metric_type, result.metric_value, _notes(result), facts.dates.get(part), repo_id)
        for benchmark, part in chosen.items()
        if benchmark
        for result in found[part]
    ]
    return to_files(entries)


def _notes(result: EvalResult) -> str:
    percent = "" if SHARES.isdisjoint(result.metric_type.split("_")) else " in percent"
    return f"{result.metric_name}{percent}, {result.dataset_split} split"


def read_card(folder: str | Path) -> ModelCard | None:
    """Reads the card in a folder, if there is one."""
    file = Path(folder) / "README.md"
    return ModelCard(file.read_text("utf-8"), ignore_metadata_errors=True) if file.is_file() else None


def is_handwritten(card: ModelCard) -> bool:
    """Returns True for a card that was written or changed by hand, which must be kept."""
    return MARK not in card.content


def read_results(folder: Path, kind: Kind, facts: CardFacts) -> list[EvalResult]:
    """Reads the evaluation results that training has saved beside a model."""
    file = folder / RESULTS
    scores = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    return [_result(key, value, kind, facts) for key, value in scores.items() if _is_score(key, value)]


def _is_score(key: str, value: float) -> bool:
    # Times, speeds and the like are saved among the scores.
    is_score = key.partition("_")[0] in SPLITS and not any(word in key for word in NO_SCORES)
    # Results of an empty data set may be nan or infinite, which cards must not hold.
    return is_score and math.isfinite(value)


def _result(key: str, value: float, kind: Kind, facts: CardFacts) -> EvalResult:
    """Makes the entry of a score, whose key begins with its part of the data: `eval_uas`."""
    part, _, metric = key.partition("_")
    data = ", ".join(facts.files.get(part, [])) or part
    return EvalResult(
        task_type=kind.pipeline_tag or "other",
        dataset_type=data,
        dataset_name=data,
        dataset_split=SPLITS[part],
        metric_type=metric,
        metric_name=" ".join(SHORT.get(word, word) for word in metric.split("_")),
        metric_value=round(in_percent(metric, value), 4),
    )


def in_percent(metric: str, value: float) -> float:
    """Converts a metric to percent, rounded to two decimals, if it is a share; other metrics are unchanged."""
    return value if SHARES.isdisjoint(metric.split("_")) else round(100 * value, 2)


def _metadata(config: dict, name: str, facts: CardFacts, results: list[EvalResult]) -> ModelCardData:
    family = family_of(config)
    tags = ["hf_structure", config.get("model_type", ""), *(family.tags if family else ())]
    return ModelCardData(
        language=facts.language,
        license=facts.license,
        base_model=facts.base_model,
        datasets=facts.datasets or None,
        library_name="transformers" if _is_self_contained(config) else "hf_structure",
        pipeline_tag=kind_of(config).pipeline_tag,
        tags=[tag for tag in tags if tag],
        model_name=Path(name).name,
        eval_results=results or None,
    )


def _is_self_contained(config: dict) -> bool:
    """Returns True if transformers alone can load the model: its own family, or code beside the weights."""
    return "auto_map" in config or family_of(config) is None


def _sample(config: dict, kind: Kind, name: str) -> str:
    tasks = list(config.get("custom_pipelines") or {})
    if "auto_map" not in config:
        return kind.sample.format(name=name)
    trusted = f'"{tasks[0] if tasks else kind.pipeline_tag}", model="{name}", trust_remote_code=True'
    text = "The cat <mask> ." if not tasks and kind.pipeline_tag == "fill-mask" else "The cat slept."
    given = PAIR.format() if kind is PAIRS and not tasks else f'"{text}"'
    return f"from transformers import pipeline\n\nprint(pipeline({trusted})({given}))"


def _introduction(family: Family | None, config: dict, facts: CardFacts) -> list[str]:
    origin = f"It was trained further from {facts.base_model}." if facts.base_model else ""
    if family is None:
        return [f"A model of the family `{config.get('model_type')}`. {origin}".strip()]
    return [f"{family.title}. {origin}".strip(), f"**For**: {family.uses}. **Not for**: {family.limits}."]


def _facts_table(folder: Path, config: dict, facts: CardFacts) -> str:
    number = count_parameters(folder)
    shape = [config.get(key) for key in ("num_hidden_layers", "num_attention_heads", "hidden_size")]
    rows = {
        "parameters": f"{number:,}" if number else None,
        "shape": "{} layers of {} heads, width {}".format(*shape) if None not in shape else None,
        "vocabulary": f"{config['vocab_size']:,} tokens" if "vocab_size" in config else None,
        "base model": facts.base_model,
        "licence": facts.license,
    }
    return _table(["", ""], [[key, value] for key, value in rows.items() if value])


def count_parameters(folder: Path) -> int:
    """Counts the parameters in the weights of a folder."""
    # From the headers of the files alone: a card must not need the memory of the model.
    total = 0
    for file in folder.glob("*.safetensors"):
        with safe_open(file, framework="numpy") as weights:
            names = weights.keys()
            counted = (name for name in names if not is_scale(name, names))
            total += sum(math.prod(weights.get_slice(name).get_shape()) for name in counted)
    return total


def _training(facts: CardFacts) -> str:
    data = ", ".join([*facts.datasets, *facts.files.get("train", [])])
    rows = [[name.replace("_", " "), str(value)] for name, value in facts.settings.items()]
    parts = [f"Trained on {data}." if data else "", _table(["setting", "value"], rows) if rows else ""]
    return "\n\n".join(["## Training", *filter(None, parts)]) if any(parts) else ""


def _results(results: list[EvalResult], kind: Kind, name: str, facts: CardFacts) -> str:
    parts = []
    splits = {result.dataset_split for result in results}
    commands = [_evaluation(words, name) for part, words in facts.evaluations.items() if SPLITS[part] in splits]
    if results:
        rows = [[str(r.metric_name), r.dataset_name, f"{r.metric_value:g}"] for r in results]
        parts += [_table(["metric", "data", "value"], rows), "Accuracy, attachment scores and F1 are in percent."]
    if commands:
        parts.append(f"These are the results of\n\n```bash\n{chr(10).join(commands)}\n```")
    elif kind.evaluation:
        parts.append(f"It is evaluated by\n\n```bash\n{kind.evaluation.format(name=name)}\n```")
    return "\n\n".join(["## Results", *parts]) if parts else ""


def _evaluation(words: list[str], name: str) -> str:
    """Formats the command of a training script that evaluates a model."""
    script, *options = words
    named = SCRIPT.fullmatch(script)
    program = ["hf-structure", "train", named[1]] if named else ["python", f"examples/{script}"]
    return shlex.join([*program, "--model_name_or_path", name, *options, "--output_dir", "evaluation"])


def _table(columns: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (columns, ["---"] * len(columns), *rows))
