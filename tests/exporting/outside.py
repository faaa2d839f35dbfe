"""
What models give through transformers. As a script, of exported ones, where nobody can import `hf_structure`:

    python outside.py FOLDER

FOLDER holds a folder for every model and `questions.json`; `answers.pt` is written beside them.
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

import torch
import transformers
from transformers import AutoConfig, AutoTokenizer, Trainer, TrainingArguments, pipeline

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
            graphs = {"use_graph": True, "tokenizer": tokenizer, "return_dict_in_generate": True}
            written = model.generate(**prompt, max_new_tokens=4, **graphs)
            found |= {"sequences": written.sequences, "graphs": written.graphs}
    for task in tasks:
        parse = pipeline(task, model=str(folder), device="cpu", **options)
        parses = parse([TEXT, {"words": TEXT.split()[:3]}], marginals=task != "constituency-parsing")
        found[task] = json.loads(json.dumps(parses))
    return found


def save_again(folder: Path, auto: str, copy: Path) -> None:
    """What is done at the end of a training run with any model."""
    getattr(transformers, auto).from_pretrained(folder, **TRUST).save_pretrained(copy)
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


def main(folder: Path) -> None:
    found = {}
    for name, question in json.loads((folder / "questions.json").read_text("utf-8")).items():
        model, copy = folder / name, folder / f"{name}-again"
        asked = {"autos": question["autos"], "tasks": question["tasks"], **TRUST}
        mine = found[name] = {"first": answers(model, **asked), "refusal": refusal(model)}
        save_again(model, question["save"], copy)
        mine["again"] = answers(copy, **asked)
        if question["train"]:
            mine["losses"] = resume(copy, question["save"], folder / f"{name}-run")
    torch.save(found, folder / "answers.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
