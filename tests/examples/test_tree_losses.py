"""`examples/run_clm.py` on models of transformers alone, with losses of trees."""

import json
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
import torch
from running import ENVIRONMENT, TORCHRUN, command, load_script, losses, results, step_of
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from hf_structure.metrics.constituency import left_branching
from hf_structure.training.tree_losses import TreeCollator

SHAPE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64}
WIDE = {**SHAPE, "intermediate_size": 32}
GROUPED = {**WIDE, "num_key_value_heads": 2}
SETTINGS = {  # of tiny models
    "gpt2": {**SHAPE, "n_inner": 32},
    "llama": GROUPED,
    "qwen3": {**GROUPED, "head_dim": 4},
    "gpt_neox": WIDE,
}
LOSSES = {
    "treereg": ["--tree_loss", "treereg", "--tree_layer", "1", "--tree_every", "2"],
    "planting": ["--tree_loss", "planting", "--tree_heads", "0.1", "1.3", "--attn_implementation", "eager"],
}
OPTIONS = ["--use_cpu", "--tokenizer_type", "bpe", "--vocab_size", "270", "--max_tokens", "192"]
OPTIONS += ["--logging_steps", "1", "--learning_rate", "0.01"]
LOADING = """
import sys
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
for folder in sys.argv[1:]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        torch.save(model(**tokenizer("the dog sees a cat", return_tensors="pt")).logits, folder + "/logits.pt")
assert not any("hf_structure" in name for name in sys.modules)
"""


@pytest.fixture(scope="module")
def script():
    """The script as a module."""
    return load_script("run_clm")


def arguments(corpus: Path, output_dir: Path, kind: str, epochs: int = 4) -> list[str]:
    """Trees of another file than the text, or of the text."""
    suffix = "txt" if kind == "treereg" else "conllu"
    trees = ["--tree_file", str(corpus / "dev.mrg")] if kind == "treereg" else []
    files = ["--train_file", str(corpus / f"train.{suffix}"), "--validation_file", str(corpus / "dev.txt")]
    return [
        *(*files, *trees, "--output_dir", str(output_dir), "--num_train_epochs", str(epochs)),
        *(*OPTIONS, *LOSSES[kind]),
    ]


def new(model_type: str) -> list[str]:
    return ["--model_type", model_type, "--config_overrides", json.dumps(SETTINGS[model_type])]


def load_elsewhere(*folders: Path) -> list[torch.Tensor]:
    """Logits of models in a process that knows transformers alone."""
    done = subprocess.run(
        [sys.executable, "-c", LOADING, *map(str, folders)],
        env={name: value for name, value in ENVIRONMENT.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [torch.load(folder / "logits.pt") for folder in folders]


def assert_plain(folder: Path, model_type: str) -> None:
    """The checkpoint is one of transformers, with no trace of this package or of the loss."""
    text = (folder / "config.json").read_text()
    config = json.loads(text)
    assert config["model_type"] == model_type
    assert not any(word in text for word in ("hf_structure", "tree_", "auto_map", "eager"))
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert type(model).__module__.startswith("transformers.")
    assert model.state_dict().keys() == AutoModelForCausalLM.from_config(model.config).state_dict().keys()


@pytest.mark.parametrize(
    ("model_type", "kind"),
    [
        ("llama", "treereg"),
        ("gpt2", "planting"),
        *(
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in (
                ("gpt2", "treereg"),
                ("llama", "planting"),
                *((name, kind) for name in ("qwen3", "gpt_neox") for kind in LOSSES),
            )
        ),
    ],
)
def test_new_models_learn_text_and_trees(corpus, run, tmp_path, model_type, kind):
    run(*new(model_type), *arguments(corpus, tmp_path, kind))
    trees = losses(tmp_path, "tree_loss")
    assert len(trees) == len(losses(tmp_path)) // (2 if kind == "treereg" else 1)
    third = len(trees) // 3
    assert sum(trees[-third:]) < 0.95 * sum(trees[:third])
    assert losses(tmp_path, "eval_loss")[-1] < 0.9 * losses(tmp_path, "eval_loss")[0]
    assert losses(tmp_path, "learning_rate")[0] == 0.01  # not that of pretrained parameters
    assert 1 < results(tmp_path)["eval_perplexity"] < results(tmp_path)["eval_word_perplexity"]
    assert_plain(tmp_path, model_type)


@pytest.mark.parametrize(
    "names", [["llama"], pytest.param(list(SETTINGS), marks=pytest.mark.slow)], ids=["one", "all"]
)
def test_checkpoints_load_with_transformers_alone(corpus, run, tmp_path, names):
    """In a process of its own, which takes a few seconds to import transformers."""
    folders = []
    for model_type, kind in product(names, LOSSES):
        folders.append(tmp_path / f"{model_type}-{kind}")
        run(*new(model_type), *arguments(corpus, folders[-1], kind, epochs=1))
    for folder, logits in zip(folders, load_elsewhere(*folders), strict=True):
        inputs = AutoTokenizer.from_pretrained(folder)("the dog sees a cat", return_tensors="pt")
        with torch.no_grad():
            expected = AutoModelForCausalLM.from_pretrained(folder).eval()(**inputs).logits
        assert torch.equal(logits, expected)


@pytest.mark.parametrize("kind", LOSSES)
def test_stopped_runs_go_on_with_the_same_losses(corpus, run, tmp_path, kind):
    whole = tmp_path / "whole"
    stopped = tmp_path / "stopped"
    options = ["--max_steps", "9", "--save_strategy", "steps", "--save_steps", "5", "--eval_strategy", "no"]
    # Dropout is drawn as in the whole run.
    dropout = json.dumps({**SETTINGS["gpt2"], "resid_pdrop": 0.1, "attn_pdrop": 0.1})
    given = ["--model_type", "gpt2", "--config_overrides", dropout]
    run(*given, *arguments(corpus, whole, kind), *options)
    shutil.copytree(whole, stopped)
    shutil.rmtree(max(stopped.glob("checkpoint-*"), key=step_of))
    for file in filter(Path.is_file, stopped.iterdir()):
        file.unlink()
    run(*given, *arguments(corpus, stopped, kind), *options)
    assert [step_of(path) for path in stopped.glob("checkpoint-*")]
    for key in ("loss", "tree_loss"):
        assert len(losses(whole, key)) == (9 if key == "loss" or kind == "planting" else 4)
        assert losses(stopped, key) == pytest.approx(losses(whole, key), rel=1e-5)


def test_a_trained_model_goes_on_with_trees(corpus, run, tmp_path):
    """Without a loss of trees, then with one, at the learning rate of pretrained parameters."""
    first = tmp_path / "first"
    files = ["--train_file", corpus / "train.txt", "--validation_file", corpus / "dev.txt"]
    run(*new("qwen3"), *files, *OPTIONS, "--num_train_epochs", "1", "--output_dir", first)
    assert not losses(first, "tree_loss")
    assert_plain(first, "qwen3")
    second = tmp_path / "second"
    given = arguments(corpus, second, "treereg", epochs=2)
    run("--model_name_or_path", first, *given, "--base_learning_rate", "0.005", "--tree_fraction", "0.5")
    assert losses(second, "learning_rate")[0] == 0.005
    assert losses(second, "tree_loss")
    assert_plain(second, "qwen3")
    assert AutoConfig.from_pretrained(second).hidden_size == 16


def test_the_token_that_begins_and_pads_is_trained(corpus, run, tmp_path, gpt2):
    """The tokenizer has no padding token of its own; models of transformers leave out the embedding of theirs."""
    run(*new("llama"), *arguments(corpus, tmp_path, "treereg", epochs=1), "--tokenizer_name", gpt2)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.pad_token_id == tokenizer.eos_token_id
    embeddings = AutoModelForCausalLM.from_pretrained(tmp_path).get_input_embeddings().weight
    assert embeddings[tokenizer.eos_token_id].abs().max() > 0


def test_accumulated_batches_weigh_about_as_one(corpus, run, tmp_path):
    """Batches count by their tokens, the words of one batch by their number."""
    options = ["--gradient_accumulation_steps", "500", "--num_train_epochs", "1", "--lr_scheduler_type", "constant"]
    options += ["--tree_loss_weight", "20", "--eval_strategy", "no"]
    for name, budget in (("few", 9000), ("many", 100)):
        run(*new("gpt_neox"), *arguments(corpus, tmp_path / name, "planting"), *options, "--max_tokens", budget)
    for key in ("loss", "grad_norm"):
        assert len(losses(tmp_path / "few", key)) == 1
        assert losses(tmp_path / "many", key) == pytest.approx(losses(tmp_path / "few", key), rel=0.02)


def test_trees_of_the_training_text_and_of_a_stream(corpus, run, tmp_path):
    given = arguments(corpus, tmp_path / "run", "planting")
    options = ["--streaming", "--max_steps", "6", "--buffer_size", "40", "--vocabulary_file", corpus / "train.txt"]
    run(*new("gpt2"), *given, *options)
    assert len(losses(tmp_path / "run", "tree_loss")) == 6


ALIKE = """
( (S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat)))) )
( (S (NP (NP (DT a) (NN cat)) (PP (IN of) (NNS dogs))) (VP (VBZ sees))) )
"""  # of the same length


def seen_trees(run, monkeypatch, corpus: Path, output_dir: Path, trees: str) -> dict[tuple, list]:
    """Trees by their sentences."""
    seen = {}
    collate = TreeCollator.__call__

    def recording(self, examples):
        seen.update({tuple(example["input_ids"]): example["spans"] for example in examples})
        return collate(self, examples)

    output_dir.mkdir()
    file = output_dir / "trees.mrg"
    file.write_text(ALIKE)
    options = ["--tree_file", str(file), "--tree_every", "1", "--max_steps", "2", "--trees", trees]
    with monkeypatch.context() as patch:
        patch.setattr(TreeCollator, "__call__", recording)
        run(*new("llama"), *arguments(corpus, output_dir, "treereg"), *options)
    return seen


def test_controls(corpus, run, tmp_path, monkeypatch):
    """The sentences stay, and have other trees; the text has none that could be replaced."""
    kinds = ("gold", "left", "random", "shuffled")
    found = {kind: seen_trees(run, monkeypatch, corpus, tmp_path / kind, kind) for kind in kinds}
    (first, second) = found["gold"]
    one, other = found["gold"].values()
    assert (one, other) != (other, one)
    assert found["shuffled"] == {first: other, second: one}
    assert all(spans == [list(span) for span in left_branching(5)] for spans in found["left"].values())
    assert found["random"].keys() == found["gold"].keys()
    assert found["random"] not in (found["gold"], found["left"])
    assert len({losses(tmp_path / kind)[0] for kind in kinds}) == 1


@pytest.mark.parametrize("kind", LOSSES)
def test_computes_in_half_precision(corpus, run, tmp_path, kind):
    run(*new("llama"), *arguments(corpus, tmp_path, kind, epochs=2), "--bf16")
    trees = losses(tmp_path, "tree_loss")
    assert all(0 < value < 10 for value in trees)
    assert losses(tmp_path, "eval_loss")[-1] < losses(tmp_path, "eval_loss")[0]


TEXT = ["--train_file", "a.txt", "--validation_file", "a.txt"]
TREES = ["--train_file", "a.mrg", "--validation_file", "a.txt"]
LLAMA = ["--model_type", "llama", "--config_overrides", json.dumps(SETTINGS["llama"]), *TREES]
TREEREG = ["--tree_loss", "treereg"]
PLANTING = ["--tree_loss", "planting", "--attn_implementation", "eager"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([*LLAMA, "--tree_layer", "1"], "--tree_layer has no effect without --tree_loss"),
        ([*LLAMA, "--tree_heads", "0.0"], "--tree_heads has no effect without --tree_loss"),
        ([*LLAMA, *PLANTING, "--tree_layer", "1"], "--tree_layer has no effect with --tree_loss planting: it is for"),
        ([*LLAMA, *TREEREG, "--tree_loss_weight", "1"], "--tree_loss_weight has no effect with --tree_loss treereg"),
        ([*LLAMA, *TREEREG, "--tree_layer", "3"], "there is no layer 3: the model has the layers 1 to 2"),
        ([*LLAMA, *TREEREG, "--tree_layer", "0"], "there is no layer 0: the model has the layers 1 to 2"),
        ([*LLAMA, *TREEREG, "--tree_fraction", "0.2"], "a fraction of 0.2 is 0 of 4 heads: give 0.25 to 1"),
        ([*LLAMA, *TREEREG, "--tree_fraction", "1.5"], "a fraction of 1.5 is 6 of 4 heads: give 0.25 to 1"),
        ([*LLAMA, *TREEREG, "--tree_every", "0"], "--tree_every must be at least 1, not 0"),
        ([*LLAMA, *TREEREG, "--train_file", "a.txt"], "a.txt: text files hold no trees; brackets and CoNLL-U do"),
        ([*LLAMA, *PLANTING, "--train_file", "a.txt"], "a.txt: text files hold no trees; brackets and CoNLL-U do"),
        ([*LLAMA, *PLANTING, "--tree_heads", "2.0"], r"--tree_heads 2.0: give heads as LAYER.HEAD, from 0.0 to 1.3"),
        ([*LLAMA, *PLANTING, "--tree_heads", "first"], "--tree_heads first: give heads as LAYER.HEAD"),
        ([*LLAMA, *PLANTING, "--tree_loss_weight", "0"], "--tree_loss_weight must be positive, not 0"),
        ([*LLAMA, *TREEREG, "--pause_tokens", "1"], "--tree_loss needs the states .*: leave out --pause_tokens"),
        (
            [*LLAMA, *TEXT, "--trees", "shuffled"],
            "--trees shuffled: this model reads no structures",
        ),
        ([*LLAMA, *PLANTING[:2]], "sdpa attention gives none: add --attn_implementation eager"),
        (
            ["--model_type", "pushdown", *TREES, *TREEREG],
            "--tree_loss is for models without structures: this one reads trees",
        ),
        ([*LLAMA, "--trees", "random"], "--trees random: this model reads no structures"),
        ([*LLAMA, *PLANTING, "--trees", "left"], "--trees left: --tree_loss planting has no such control"),
        (["--model_type", "llama", "--base_model", "x", *TEXT], "--base_model is grafted on: give --model_type gilt"),
        (["--model_type", "lama", *TEXT], r"no model family 'lama'.*or one of transformers.*llama"),
    ],
)
def test_wrong_commands(run, tmp_path, monkeypatch, given, message):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("a dog\nthe dog\n")
    Path("a.mrg").write_text("( (S (NP (DT a) (NN dog)) (VP (VBZ barks)) (. .)) )\n" * 3)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    settings = [] if "--config_overrides" in given else ["--config_overrides", json.dumps(sizes)]
    with pytest.raises(ValueError, match=message) as error:
        run(*given, *settings, "--output_dir", "out", *OPTIONS)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.glob("out/checkpoint-*"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOSSES)
def test_two_processes_train_together(corpus, tmp_path, kind):
    """Each has a share of the trees; gradients of layers without any are no reason to wait."""
    given = [*new("llama"), *arguments(corpus, tmp_path, kind, epochs=3)]
    given.remove("--use_cpu")
    done = subprocess.run(
        command("run_clm.py", *given, launcher=TORCHRUN), env=ENVIRONMENT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    trees = losses(tmp_path, "tree_loss")
    assert len(trees) == len(losses(tmp_path)) // (2 if kind == "treereg" else 1)
    assert sum(trees[-3:]) < sum(trees[:3])
    assert losses(tmp_path, "eval_loss")[-1] < losses(tmp_path, "eval_loss")[0]
