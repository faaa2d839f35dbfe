"""`examples/papers/run_glue.py`: in process where that is enough, as a command where processes are the point."""

import csv
import json
import random
import shlex
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pandas
import pytest
import running
import torch
import yaml
from running import ENVIRONMENT, LEXICON, TORCHRUN, load_script, losses, made_sentence, results, step_of
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    GPT2Config,
    GPT2ForSequenceClassification,
    GPT2LMHeadModel,
)

from hf_structure import (
    GiLTConfig,
    GiLTForCausalLM,
    GiLTForSequenceClassification,
    encode_subwords,
    train_subword_tokenizer,
)
from hf_structure.corpora.tasks import TASKS

command = partial(running.command, "run_glue.py")
PARTS = {"graph_embedding_size": 4, "scorer_hidden_size": 16, "scorer_size": 8, "max_new_arcs": 4}
BASE = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}
BASE |= dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
OPTIONS = ["--use_cpu", "--learning_rate", "0.01", "--max_examples", "8", "--beam_size", "2", "--logging_steps", "1"]
METRICS = {task: {"loss", "score", "accuracy", "f1"} for task in TASKS} | {
    "stsb": {"loss", "score", "pearson", "spearman"}
}


@pytest.fixture(scope="module")
def script():
    """The script as a module."""
    return load_script("run_glue")


def made_table(task: str, count: int, seed: int) -> list[dict]:
    """Pairs with as much in common as they have nouns in common, or sentences with or without a dog."""
    rng, rows = random.Random(seed), []
    for _ in range(count):
        one, other = (made_sentence(rng)[0] for _ in range(2))
        if task == "sst2":
            rows.append({"sentence": " ".join(one), "label": int("dog" in one)})
            continue
        common = len(set(LEXICON["NN"]) & set(one) & set(other))
        label = float(common) if task == "stsb" else int(common > 0)
        rows.append({"sentence1": " ".join(one), "sentence2": " ".join(other), "label": label})
    return rows


def write_table(path: Path, rows: list[dict]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None)
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> Path:
    """A folder with `rte-train.tsv`, `rte-dev.tsv` and so on."""
    folder = tmp_path_factory.mktemp("tables")
    for task in TASKS:
        for name, count, seed in (("train", 24, 0), ("dev", 12, 1)):
            write_table(folder / f"{task}-{name}.tsv", made_table(task, count, seed))
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """Folders with a GiLT that has made up its mind, another one, a plain model and a grafted one."""
    folder, rng = tmp_path_factory.mktemp("models"), random.Random(0)
    frames = [task.prompt.format(sentence1="a", sentence2="a").split() + list(task.labels) for task in TASKS.values()]
    tokenizer = train_subword_tokenizer(
        [made_sentence(rng)[0] for _ in range(60)] + 5 * frames, vocab_size=330, kind="bpe"
    )
    special = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")}
    plain = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **BASE, **special | {"pad_token_id": None}))
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    for number, name in enumerate(("gilt", "other", "gpt2", "graft")):
        torch.manual_seed(number)
        if name == "gpt2":
            model = plain
        elif name == "graft":
            model = GiLTForCausalLM.from_pretrained_lm(plain, graph_layers=1, **PARTS)
        else:
            model = GiLTForCausalLM(GiLTConfig(**sizes, **PARTS, **special))
        for keys in model.model.graph_keys if name != "gpt2" else ():
            torch.nn.init.normal_(keys.fusion, std=0.5)
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return folder


def evaluation(tables: Path, model: Path, output_dir: Path, task: str = "rte") -> list[str]:
    return [
        *("--task", task, "--model_name_or_path", str(model), "--output_dir", str(output_dir)),
        *("--validation_file", str(tables / f"{task}-dev.tsv"), *OPTIONS),
    ]


def training(tables: Path, model: Path, output_dir: Path, task: str = "rte", epochs: int = 2) -> list[str]:
    arguments = evaluation(tables, model, output_dir, task)
    return [*arguments, "--train_file", str(tables / f"{task}-train.tsv"), "--num_train_epochs", str(epochs)]


def literal_prompt(task: str, row: dict) -> list[str]:
    text = {"sentence1": row.get("sentence", row.get("sentence1")), "sentence2": row.get("sentence2")}
    return TASKS[task].prompt.format(**text).split()


@torch.no_grad()
def literal_likelihoods(model, tokenizer, words: list[str], labels: tuple[str, ...], parser=None) -> list[float]:
    """Log-probability of each label's tokens after the prompt, one sentence at a time."""
    graph = {}
    if parser is not None:
        prompt = encode_subwords(words, tokenizer)
        ids, word_ids = (torch.tensor([prompt[name][:-1]]) for name in ("input_ids", "word_ids"))
        best = parser.beam_search(ids, word_ids, beam_size=2).graphs[:, 0]
        graph["graph"] = torch.nn.functional.pad(best, (0, 1, 0, 1))
    found = []
    for label in labels:
        encoded = encode_subwords([*words, label], tokenizer)
        ids, word_ids = (torch.tensor([encoded[name][:-1]]) for name in ("input_ids", "word_ids"))
        inputs = graph | {"word_ids": word_ids} if graph else {}
        log_probs = model(ids, **inputs).logits[0].log_softmax(-1)
        places = (word_ids[0] == len(words) + 1).nonzero().squeeze(1).tolist()
        found.append(float(sum(log_probs[place - 1, ids[0, place]] for place in places)))
    return found


# Training and evaluation


@pytest.mark.parametrize("model", ["gilt", "gpt2"])
def test_card_has_the_command_of_its_results(tables, models, run, tmp_path, monkeypatch, model):
    """Also the parser of prompts, which is the model before this training."""
    run(*training(tables, models / model, tmp_path / "run", epochs=1))
    card = (tmp_path / "run" / "README.md").read_text()
    python, path, *options = shlex.split(card.split("```bash\n")[-1].split("```")[0])
    assert (python, path) == ("python", "examples/papers/run_glue.py")
    assert ("--parser" in options) == (model == "gilt")
    monkeypatch.chdir(tables)
    run(*options, "--use_cpu", "--output_dir", tmp_path / "evaluation")
    again, before = results(tmp_path / "evaluation"), results(tmp_path / "run")
    for name in METRICS["rte"]:
        assert again[f"eval_{name}"] == pytest.approx(before[f"eval_{name}"], rel=1e-5)


@pytest.mark.parametrize(
    ("task", "family"),
    [
        ("sst2", "gilt"),
        pytest.param("mrpc", "gpt2", marks=pytest.mark.slow),
        pytest.param("stsb", "gilt", marks=pytest.mark.slow),
        pytest.param("stsb", "gpt2", marks=pytest.mark.slow),
    ],
)
def test_trains_saves_and_evaluates(tables, models, run, tmp_path, capsys, task, family):
    dev = tables / f"{task}-dev.tsv"
    run(*training(tables, models / family, tmp_path / "run", task, epochs=5), "--test_file", dev)
    assert "eval_score" in capsys.readouterr().out
    scores = results(tmp_path / "run")
    assert {f"eval_{name}" for name in METRICS[task]} <= set(scores)
    reported = [scores[f"eval_{name}"] for name in TASKS[task].reported]
    assert scores["eval_score"] == pytest.approx(sum(reported) / len(reported))
    assert scores["eval_score"] == pytest.approx(max(losses(tmp_path / "run", "eval_score")))  # the best one was kept
    assert losses(tmp_path / "run")[-1] < losses(tmp_path / "run")[0]
    assert results(tmp_path / "run", "test")["test_loss"] == pytest.approx(scores["eval_loss"])
    auto_class = AutoModelForSequenceClassification if task == "stsb" else AutoModelForCausalLM
    model = auto_class.from_pretrained(tmp_path / "run")
    regressions = {"gilt": GiLTForSequenceClassification, "gpt2": GPT2ForSequenceClassification}
    expected = {"gilt": GiLTForCausalLM, "gpt2": GPT2LMHeadModel} if task != "stsb" else regressions
    assert type(model) is expected[family]
    assert model.config.id2label == dict(enumerate(TASKS[task].classes or ["score"]))
    parser = ["--parser", models / family] if family == "gilt" else []
    run(*evaluation(tables, tmp_path / "run", tmp_path / "again", task), *parser)
    for name in METRICS[task]:
        assert results(tmp_path / "again")[f"eval_{name}"] == pytest.approx(scores[f"eval_{name}"], rel=1e-4)


@pytest.mark.parametrize(("task", "family"), [("mrpc", "gilt"), ("mrpc", "gpt2"), ("rte", "graft")])
def test_the_likelier_word_is_predicted(tables, models, run, tmp_path, task, family):
    parser = [] if family == "gpt2" else ["--parser", models / family]
    run(*evaluation(tables, models / family, tmp_path, task), *parser)
    model = AutoModelForCausalLM.from_pretrained(models / family).eval()
    tokenizer = AutoTokenizer.from_pretrained(models / family)
    rows, labels = made_table(task, 12, 1), TASKS[task].labels
    found = [
        literal_likelihoods(model, tokenizer, literal_prompt(task, row), labels, model if parser else None)
        for row in rows
    ]
    predicted = [int(second > first) for first, second in found]
    tokens = [len(encode_subwords([":", labels[row["label"]]], tokenizer)["input_ids"]) - 3 for row in rows]
    scores = results(tmp_path)
    assert scores["eval_loss"] == pytest.approx(
        -sum(each[row["label"]] for each, row in zip(found, rows, strict=True)) / sum(tokens), rel=1e-4
    )
    right = [guess == row["label"] for guess, row in zip(predicted, rows, strict=True)]
    assert scores["eval_accuracy"] == pytest.approx(sum(right) / len(rows))


def test_loss_of_training_is_that_of_the_label_tokens(tables, models, run, tmp_path):
    """The first step's, before anything is learned, over the whole table."""
    everything = ["--train_file", tables / "mrpc-dev.tsv", "--gradient_accumulation_steps", "500"]
    run(*training(tables, models / "gilt", tmp_path, "mrpc", epochs=1), *everything)
    model = AutoModelForCausalLM.from_pretrained(models / "gilt").eval()
    tokenizer = AutoTokenizer.from_pretrained(models / "gilt")
    total = tokens = 0
    for row in made_table("mrpc", 12, 1):
        label = TASKS["mrpc"].labels[row["label"]]
        total -= literal_likelihoods(model, tokenizer, literal_prompt("mrpc", row), (label,), model)[0]
        tokens += len(encode_subwords([":", label], tokenizer)["input_ids"]) - 3
    assert losses(tmp_path)[0] == pytest.approx(total / tokens, rel=1e-3)


@pytest.mark.parametrize("task", ["mrpc", "stsb"])
def test_accumulated_batches_weigh_as_one(tables, models, run, tmp_path, task):
    arguments = ["--gradient_accumulation_steps", "500", "--lr_scheduler_type", "constant"]
    for name, examples in (("few", 40), ("many", 3)):
        run(*training(tables, models / "gpt2", tmp_path / name, task), *arguments, "--max_examples", examples)
    for key in ("loss", "grad_norm", "eval_loss"):
        assert losses(tmp_path / "many", key) == pytest.approx(losses(tmp_path / "few", key), rel=1e-3)


# Graphs


def parses(script, monkeypatch) -> list[int]:
    """How many prompts are parsed at a time, from now on."""
    counts, search = [], GiLTForCausalLM.beam_search

    def counting(self, input_ids, *args, **kwargs):
        counts.append(len(input_ids))
        return search(self, input_ids, *args, **kwargs)

    monkeypatch.setattr(GiLTForCausalLM, "beam_search", counting)
    return counts


def test_prompts_are_parsed_once(tables, models, run, tmp_path, script, monkeypatch):
    counts = parses(script, monkeypatch)
    cache = ["--parse_cache", tmp_path / "parses"]
    run(*evaluation(tables, models / "gilt", tmp_path / "one"), *cache, "--parser", models / "gilt")
    assert sum(counts) == 12
    expected = results(tmp_path / "one")["eval_loss"]
    run(*evaluation(tables, models / "gilt", tmp_path / "two"), *cache, "--parser", models / "gilt")
    assert sum(counts) == 12
    assert results(tmp_path / "two")["eval_loss"] == pytest.approx(expected, rel=1e-6)
    run(*evaluation(tables, models / "gilt", tmp_path / "two"), *cache, "--parser", models / "other")
    assert sum(counts) == 24
    assert results(tmp_path / "two")["eval_loss"] != pytest.approx(expected, rel=1e-4)  # the graphs matter
    run(*evaluation(tables, models / "gilt", tmp_path / "two"), *cache, "--parser", models / "gilt", "--beam_size", 3)
    assert sum(counts) == 36


def test_training_reads_the_parsed_graphs(tables, models, run, tmp_path):
    """The same model, seed and text; only the parser is another."""
    for name in ("gilt", "other"):
        parser = ["--parser", models / name, "--learning_rate", "0"]
        run(*training(tables, models / "gilt", tmp_path / name, "stsb", epochs=1), *parser)
    assert losses(tmp_path / "gilt") != pytest.approx(losses(tmp_path / "other"), rel=1e-4)


def test_parsing_goes_on_where_it_stopped(tables, models, run, tmp_path, script, monkeypatch):
    monkeypatch.setattr(script, "PIECE", 5)
    search, counts = GiLTForCausalLM.beam_search, []

    def breaking(self, *args, **kwargs):
        counts.append(1)
        if len(counts) == 3:
            raise KeyboardInterrupt
        return search(self, *args, **kwargs)

    monkeypatch.setattr(GiLTForCausalLM, "beam_search", breaking)
    arguments = [*evaluation(tables, models / "gilt", tmp_path / "run"), "--parser", models / "gilt"]
    with pytest.raises(KeyboardInterrupt):
        run(*arguments)
    run(*arguments)
    assert len(counts) == 4  # of three pieces, two were there
    monkeypatch.undo()


# Stopping and going on


def test_stopped_run_goes_on_with_the_same_losses(tables, models, run, tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    run(*training(tables, models / "gilt", whole, "stsb", epochs=3))
    shutil.copytree(whole, stopped)
    (max(stopped.glob("checkpoint-*"), key=step_of) / "trainer_state.json").unlink()
    for file in filter(Path.is_file, stopped.iterdir()):
        file.unlink()
    run(*training(tables, models / "gilt", stopped, "stsb", epochs=3))
    for key in ("loss", "eval_loss", "eval_score"):
        assert losses(stopped, key) == pytest.approx(losses(whole, key), rel=1e-5)
    assert results(stopped)["eval_loss"] == pytest.approx(results(whole)["eval_loss"], rel=1e-5)


def test_folder_of_another_task_is_refused(tables, models, run, tmp_path):
    run(*training(tables, models / "gpt2", tmp_path, "rte", epochs=1))
    with pytest.raises(ValueError, match=r"is of another run \(id2label differ\): choose another --output_dir"):
        run(*training(tables, models / "gpt2", tmp_path, "mrpc", epochs=1))


@pytest.mark.parametrize("task", ["mrpc", "stsb"])
def test_two_processes_learn_what_one_does(tables, models, run, tmp_path, task):
    one, two = tmp_path / "one", tmp_path / "two"
    whole = ["--gradient_accumulation_steps", "500"]
    run(*training(tables, models / "gilt", one, task), *whole)
    arguments = [*training(tables, models / "gilt", two, task), *whole]
    arguments.remove("--use_cpu")
    done = subprocess.run(command(*arguments, launcher=TORCHRUN), env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    for key in ("loss", "grad_norm", "eval_loss", "eval_score"):
        assert losses(two, key) == pytest.approx(losses(one, key), rel=1e-3)


# Data


def test_glue_of_the_hub(tables, models, run, script, tmp_path, monkeypatch):
    """A folder of the form that it has there; its columns hold numbers, and one more."""
    folder = tmp_path / "glue" / "mrpc"
    folder.mkdir(parents=True)
    for split, count, seed in (("train", 24, 0), ("validation", 12, 1)):
        rows = [row | {"idx": number} for number, row in enumerate(made_table("mrpc", count, seed))]
        pandas.DataFrame(rows).to_parquet(folder / f"{split}-00000-of-00001.parquet")
    pandas.DataFrame([row | {"label": -1, "idx": 0} for row in rows]).to_parquet(
        folder / "test-00000-of-00001.parquet"
    )
    configs = [{"config_name": "mrpc", "data_files": [{"split": s, "path": f"mrpc/{s}-*"} for s in ("train", "test")]}]
    configs[0]["data_files"].append({"split": "validation", "path": "mrpc/validation-*"})
    (tmp_path / "glue" / "README.md").write_text(f"---\nconfigs: {json.dumps(configs)}\n---\n")
    model = ["--task", "mrpc", "--model_name_or_path", models / "gpt2", "--num_train_epochs", "1", *OPTIONS]
    files = ["--dataset_name", tmp_path / "glue", "--train_file", "train", "--validation_file", "validation"]
    monkeypatch.setattr(script, "benchmark_of", lambda name, task: f"org/{Path(name).name}/{task}")
    run(*model, *files, "--output_dir", tmp_path / "hub")
    entries = yaml.safe_load((tmp_path / "hub" / ".eval_results" / "org--glue.yaml").read_text())
    tasks = {entry["dataset"]["task_id"].removeprefix("mrpc_") for entry in entries}
    assert tasks == METRICS["mrpc"] - {"loss"}
    run(*training(tables, models / "gpt2", tmp_path / "files", "mrpc", epochs=1))
    assert results(tmp_path / "hub")["eval_loss"] == pytest.approx(results(tmp_path / "files")["eval_loss"], rel=1e-5)
    with pytest.raises(ValueError, match="glue, test:1: the label -1 is none of not_equivalent, equivalent, 0, 1"):
        run(*model, *files, "--test_file", "test", "--output_dir", tmp_path / "test")
    with pytest.raises(ValueError, match="Unknown split"):
        run(*model, *files, "--test_file", "nonsense", "--output_dir", tmp_path / "test")


@pytest.mark.smoke
def test_other_tables(tables, models, run, tmp_path):
    rows = made_table("sst2", 12, 1)
    names = {"text": "sentence", "sentiment": "label"}
    lines = [json.dumps({name: row[column] for name, column in names.items()}) for row in rows]
    (tmp_path / "dev.jsonl").write_text("\n".join(lines))
    run(*evaluation(tables, models / "gpt2", tmp_path / "tsv", "sst2"))
    columns = [
        "--sentence1_column",
        "text",
        "--label_column",
        "sentiment",
        "--validation_file",
        tmp_path / "dev.jsonl",
    ]
    run(*evaluation(tables, models / "gpt2", tmp_path / "json", "sst2"), *columns)
    assert results(tmp_path / "json")["eval_loss"] == pytest.approx(results(tmp_path / "tsv")["eval_loss"])


@pytest.mark.parametrize(
    ("family", "options", "words"),
    [
        ("gilt", [], ["I", "ca", "n't", "."]),
        ("spaces", [], ["I", "can't."]),
        ("gilt", ["--word_tokenizer", "spaces"], ["I", "can't."]),
        ("spaces", ["--word_tokenizer", "english"], ["I", "ca", "n't", "."]),
    ],
)
def test_words_are_those_of_the_checkpoint(models, run, script, tmp_path, monkeypatch, family, options, words):
    shutil.copytree(models / "gilt", tmp_path / "spaces")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "spaces")
    tokenizer.init_kwargs["word_tokenizer"] = "spaces"
    tokenizer.save_pretrained(tmp_path / "spaces")
    model = tmp_path / "spaces" if family == "spaces" else models / family
    seen = []
    monkeypatch.setattr(script, "encode_examples", lambda examples, **_: seen.extend(examples) or 1 / 0)
    write_table(tmp_path / "sst2-dev.tsv", [{"sentence": "I can't.", "label": 1}])
    with pytest.raises(ZeroDivisionError):
        run(*evaluation(tmp_path, model, tmp_path / "run", "sst2"), *options)
    words = ["Sentence1", ":", *words, ";", "Sentiment", ":"]
    assert seen == [{"words": words, "label": 1, "file": "sst2-dev"}]


# Options


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "cola"], "--task is one of rte, sst2, mrpc, stsb, not cola"),
        (["--train_file", "x.csv"], "x.csv: a table is a .tsv, .jsonl or .json file"),
        (["--train_file", "empty.tsv"], "empty.tsv: no sentences"),
        (["--train_file", "unlabelled.tsv"], "unlabelled.tsv: no column label or score or Quality"),
        (["--train_file", "high.tsv"], "high.tsv:2: the label '7' is none of entailment, not_entailment, 0, 1"),
        (["--label_column", "gold"], "no column gold: there are sentence1, sentence2, label"),
        (["--word_tokenizer", "german"], "word_tokenizer must be one of english, spaces"),
        (["--max_length", "3"], "no training sentence has at most 3 words"),
        (["--parser", "{gpt2}"], "gpt2 does not parse: it reads no graphs"),
        (["--parser", "strange"], "the vocabulary of --parser strange is another than the model's"),
        (["--model_name_or_path", "nonsense"], "no model 'nonsense'"),
        (["--config", "config.json"], "--model_name_or_path is needed: a model to fine-tune"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_commands(tables, models, run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("empty.tsv").write_text("sentence1\tsentence2\tlabel\n")
    Path("unlabelled.tsv").write_text("sentence1\tsentence2\na\tb\n")
    Path("high.tsv").write_text("sentence1\tsentence2\tlabel\na\tb\t7\n")
    Path("config.json").write_text('{"model": {"hidden_size": 3}}')
    shutil.copytree(models / "gilt", "strange")
    train_subword_tokenizer([["a", "b"]], vocab_size=262, kind="bpe").save_pretrained("strange")
    arguments = [argument.format(gpt2=models / "gpt2") for argument in arguments]
    with pytest.raises(ValueError, match=message) as error:
        run(*training(tables, models / "gilt", tmp_path / "out"), *arguments)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.glob("out/checkpoint-*"))


def test_evaluation_of_a_model_that_reads_graphs_needs_its_parser(tables, models, run, tmp_path):
    with pytest.raises(ValueError, match="--parser is needed to evaluate a model that reads graphs"):
        run(*evaluation(tables, models / "gilt", tmp_path))


def test_a_regression_neither_parses_nor_predicts_words(tables, models, run, tmp_path):
    model = AutoModelForSequenceClassification.from_pretrained(models / "gilt", num_labels=1)
    model.save_pretrained(tmp_path / "model")
    AutoTokenizer.from_pretrained(models / "gilt").save_pretrained(tmp_path / "model")
    with pytest.raises(ValueError, match=r"holds no causal language model: .* weights are missing"):
        run(*evaluation(tables, tmp_path / "model", tmp_path / "run", "stsb"), "--parser", tmp_path / "model")
    with pytest.raises(ValueError, match=r"holds no model of this task: \d+ weights are missing, such as scorer"):
        run(*training(tables, tmp_path / "model", tmp_path / "run", "rte"))


def test_a_language_model_is_no_regression(tables, models, run, tmp_path):
    with pytest.raises(ValueError, match=r"holds no model of this task: .* such as score.weight"):
        run(*evaluation(tables, models / "gpt2", tmp_path, "stsb"))


def test_prompts_too_long_for_the_model(models, run, tmp_path):
    write_table(tmp_path / "sst2-dev.tsv", [{"sentence": "dog " * 60, "label": 1}])
    with pytest.raises(ValueError, match="too long for the model: it reads at most 64"):
        run(*evaluation(tmp_path, models / "gpt2", tmp_path / "run", "sst2"))


def test_classes_that_the_tokenizer_does_not_tell_apart(script):
    tokenizer = train_subword_tokenizer([["a", "b", ":"]] * 20, vocab_size=20, kind="unigram")
    with pytest.raises(ValueError, match="the tokenizer gives the same tokens for 0 and 1"):
        script.encode_labels(TASKS["rte"], tokenizer)
