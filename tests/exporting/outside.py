"""
What models give through transformers. As a script, of exported ones, where nobody can import `hf_structure`:

    python outside.py {answer,evaluate} FOLDER

FOLDER holds a folder for every model and `questions.json`; `answer.pt` or `evaluate.pt` is written beside them.
"""

import sys

if __name__ == "__main__":

    class Nowhere:
        """A finder before all others, which says that there is no such package."""

        @staticmethod
        def find_spec(name, path=None, target=None):
            if name.split(".")[0] == "hf_structure":
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Nowhere)

import json
from pathlib import Path
from typing import Any
from unittest.mock import call, patch

import torch
import transformers
from transformers import (
    AutoConfig,
    AutoProcessor,
    AutoTokenizer,
    PreTrainedModel,
    Trainer,
    TrainingArguments,
    pipeline,
)

TEXT = "the old cat saw the dogs"
TRUST = {"trust_remote_code": True}


def answers(folder: Path, autos: list[str], tasks: list[str], **options) -> dict[str, Any]:
    """First outputs of model classes, what is written with a graph, and results of pipelines."""
    found: dict[str, Any] = {}
    tokenizer = AutoTokenizer.from_pretrained(folder, **options)
    inputs = tokenizer(TEXT, return_tensors="pt", return_token_type_ids=False)
    for auto in autos:
        torch.manual_seed(0)  # a classifier of texts gets a new head
        model = getattr(transformers, auto).from_pretrained(folder, **options).eval()
        with torch.no_grad():
            found[auto] = model(**inputs)[0]
        if auto == "AutoModelForCausalLM":
            lacks_start = inputs["input_ids"][0, 0] != tokenizer.bos_token_id
            prompt = tokenizer(lacks_start * tokenizer.bos_token + TEXT, return_tensors="pt")
            graphs = {"use_structure": True, "tokenizer": tokenizer, "return_dict_in_generate": True}
            written = model.generate(**prompt, max_new_tokens=4, **graphs)
            found |= {"sequences": written.sequences, "graphs": written.graphs}
    for task in tasks:
        parse = pipeline(task, model=str(folder), device="cpu", **options)
        parses = parse([TEXT, {"words": TEXT.split()[:3]}], marginals=task != "constituency-parsing")
        found[task] = json.loads(json.dumps(parses))
    return found


def is_published(model: PreTrainedModel) -> bool:
    """Whether it is transformers that publishes it, as it is told."""
    with patch.object(PreTrainedModel, "push_to_hub", autospec=True) as pushed:
        model.push_to_hub("org/name", private=True)
    return pushed.mock_calls == [call(model, "org/name", private=True)]


def save_again(model: PreTrainedModel, folder: Path, copy: Path) -> None:
    """What is done at the end of a training run with any model."""
    model.save_pretrained(copy)
    AutoTokenizer.from_pretrained(folder, **TRUST).save_pretrained(copy)


def resume(folder: Path, auto: str, output: Path) -> list[list[float]]:
    """Losses of the last two steps of a run, and of one that goes on from its checkpoint before these."""
    ids = AutoTokenizer.from_pretrained(folder, **TRUST)(TEXT)["input_ids"]
    rows = [{"input_ids": ids[start:], "labels": ids[start:]} for start in range(3)]
    steps = {"max_steps": 3, "save_steps": 1, "logging_steps": 1, "per_device_train_batch_size": 1}
    quiet = {"report_to": [], "disable_tqdm": True, "use_cpu": True}
    checkpoint, losses = output / "checkpoint-1", []
    for start, resumed in ((folder, None), (checkpoint, str(checkpoint))):
        model = getattr(transformers, auto).from_pretrained(start, **TRUST)
        trainer = Trainer(model, TrainingArguments(str(output), **steps, **quiet), train_dataset=rows)
        trainer.train(resume_from_checkpoint=resumed)
        losses.append([entry["loss"] for entry in trainer.state.log_history if "loss" in entry][-2:])
    return losses


def refusal(folder: Path) -> str:
    """What is said to those who do not trust the code."""
    try:
        AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except ValueError as error:
        return str(error)
    return ""


def answer(folder: Path, name: str, question: dict[str, Any]) -> dict[str, Any]:
    """What a model gives, and after it was saved again; what is said to those who do not trust it; a training run."""
    model, copy = folder / name, folder / f"{name}-again"
    asked = {"autos": question["autos"], "tasks": question["tasks"], **TRUST}
    found = {"first": answers(model, **asked), "refusal": refusal(model)}
    loaded = getattr(transformers, question["main"]).from_pretrained(model, **TRUST)
    found["published"] = is_published(loaded)
    save_again(loaded, model, copy)
    found["again"] = answers(copy, **asked)
    if question["train"]:
        found["losses"] = resume(copy, question["main"], folder / f"{name}-run")
    return found


def evaluate(folder: Path, name: str, question: dict[str, Any]) -> dict[str, list[float]]:
    """Scores by what others evaluate language models with."""
    return evaluations(folder / name, question["main"], **TRUST)


def evaluations(folder: Path, auto: str, **options) -> dict[str, list[float]]:
    """Log-probabilities of texts by BabyLM's rules, and if the model is causal by lm_eval and minicons."""
    found = {"babylm": [babylm_score(folder, auto, text, **options) for text in (TEXT, TEXT[8:])]}
    if auto == "AutoModelForCausalLM":
        from lm_eval.api.instance import Instance
        from lm_eval.models.huggingface import HFLM
        from minicons.scorer import IncrementalLMScorer

        model = HFLM(str(folder), device="cpu", batch_size=2, **options)
        asked = [Instance("loglikelihood", {}, pair, 0) for pair in (("the old", " cat saw"), ("", TEXT))]
        found["lm_eval"] = [value for value, _ in model.loglikelihood(asked, disable_tqdm=True)]
        found["minicons"] = IncrementalLMScorer(str(folder), "cpu", **options).sequence_score([TEXT, TEXT[8:]])
    return found


def babylm_score(folder: Path, auto: str, text: str, **options) -> float:
    """As its evaluation pipeline of 2025 has it: every token from those before it, or masked from all others."""
    processor = AutoProcessor.from_pretrained(folder, padding_side="right", **options)
    tokenizer = processor.tokenizer if hasattr(processor, "tokenizer") else processor
    encoded = processor(text=text, return_offsets_mapping=True)
    ids, mask = (torch.tensor([encoded[name]]) for name in ("input_ids", "attention_mask"))
    places = torch.tensor([place for place, (_, end) in enumerate(encoded["offset_mapping"]) if end and place])
    model = getattr(transformers, auto).from_pretrained(folder, **options).eval()
    rows = ids.repeat(len(places), 1)
    at = places - 1
    if auto == "AutoModelForMaskedLM":
        at = places
        rows[torch.arange(len(rows)), at] = tokenizer.mask_token_id
    with torch.no_grad():
        logits = model(input_ids=rows, attention_mask=mask.repeat(len(rows), 1))["logits"]
    log_probs = logits[torch.arange(len(rows)), at].log_softmax(-1)
    return log_probs.gather(1, ids[0, places].unsqueeze(1)).sum().item()


def main(task: str, folder: Path) -> None:
    do = {"answer": answer, "evaluate": evaluate}[task]
    questions = json.loads((folder / "questions.json").read_text("utf-8"))
    torch.save({name: do(folder, name, asked) for name, asked in questions.items()}, folder / f"{task}.pt")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
