"""
What models give through transformers. Run as a script, exported ones where nobody can import `hf_structure`:

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


def answers(folder: Path, text: str, autos: list[str], tasks: list[str], trust: bool = False) -> dict[str, Any]:
    """First outputs of the model classes, results of the pipelines, and what is written with a graph."""
    trusting = {"trust_remote_code": trust}
    tokenizer = AutoTokenizer.from_pretrained(folder, **trusting)
    inputs = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
    found: dict[str, Any] = {"model_type": AutoConfig.from_pretrained(folder, **trusting).model_type}
    for auto in autos:
        torch.manual_seed(0)  # a classifier of texts gets a new head
        model = getattr(transformers, auto).from_pretrained(folder, **trusting).eval()
        with torch.no_grad():
            found[auto] = model(**inputs)[0]
        if auto == "AutoModelForCausalLM" and tasks:
            written = model.generate(
                **inputs, max_new_tokens=4, use_graph=True, tokenizer=tokenizer, return_dict_in_generate=True
            )
            found |= {"sequences": written.sequences, "graphs": written.graphs}
    for task in tasks:
        parse = pipeline(task, model=str(folder), device="cpu", **trusting)
        found[task] = json.dumps(parse([text, {"words": text.split()}], marginals=task != "constituency-parsing"))
    return found


def save_again(folder: Path, auto: str, copy: Path) -> None:
    """What is done at the end of a training run with any model."""
    getattr(transformers, auto).from_pretrained(folder, trust_remote_code=True).save_pretrained(copy)
    AutoTokenizer.from_pretrained(folder, trust_remote_code=True).save_pretrained(copy)


def resume(folder: Path, auto: str, text: str, output: Path) -> tuple[list[float], list[float]]:
    """Losses of the last steps of a run, and of one that goes on from its first checkpoint."""
    ids = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)(text)["input_ids"]
    rows = [{"input_ids": ids[start:], "labels": ids[start:]} for start in (0, 1, 2, 3)]
    options = {"max_steps": 4, "save_steps": 2, "logging_steps": 1, "per_device_train_batch_size": 1}
    losses = []
    for start, checkpoint in ((folder, None), (output / "checkpoint-2", str(output / "checkpoint-2"))):
        model = getattr(transformers, auto).from_pretrained(start, trust_remote_code=True)
        options |= {"report_to": [], "disable_tqdm": True, "use_cpu": True, "remove_unused_columns": False}
        trainer = Trainer(model, TrainingArguments(str(output), **options), train_dataset=rows)
        trainer.train(resume_from_checkpoint=checkpoint)
        losses.append([entry["loss"] for entry in trainer.state.log_history if "loss" in entry][-2:])
    return tuple(losses)


def main(folder: Path) -> None:
    found = {}
    for name, question in json.loads((folder / "questions.json").read_text("utf-8")).items():
        train = question.pop("train")
        mine = found[name] = {"first": answers(folder / name, trust=True, **question)}
        save_again(folder / name, question["autos"][-1], folder / f"{name}-again")
        mine["again"] = answers(folder / f"{name}-again", trust=True, **question)
        if train:
            mine["losses"] = resume(folder / name, train, question["text"], folder / f"{name}-run")
        try:
            AutoConfig.from_pretrained(folder / name, trust_remote_code=False)
        except ValueError as error:
            mine["refusal"] = str(error)
    torch.save(found, folder / "answers.pt")


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    main(Path(sys.argv[1]))
