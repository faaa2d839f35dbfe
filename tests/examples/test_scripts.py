"""What scripts do alike: their help, and the published configurations as options of the scripts that train."""

import json
import re
import sys
from pathlib import Path

import pytest
from running import EXAMPLES, load_script
from transformers import AutoConfig

SCRIPTS = sorted(
    path.stem
    for pattern in ("*.py", "papers/*.py")
    for path in EXAMPLES.glob(pattern)
    if "ArgumentParser" in path.read_text() or "parse_command_line" in path.read_text()
)
TRAINING = {  # names of some options in the order of the help
    "run_clm": ("config", "model_type", "train_file", "base_learning_rate"),
    "run_glue": ("config", "parser", "train_file", "task", "max_examples", "seed"),
    "run_mlm": ("config", "model_type", "train_file", "mask_rate", "seed"),
    "run_parsing": ("config", "encoder", "train_file", "seed", "new_learning_rate"),
}
# That of `train_segmenter.py` has a test of its own.
CONFIGS = sorted(set(EXAMPLES.glob("configs/*.json")) - {EXAMPLES / "configs" / "segmenter.json"})


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_begins_with_our_options(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
    with pytest.raises(SystemExit) as ended:
        load_script(name).main()
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert f"{name}.py " in text.partition("\n\n")[2]  # the command in the docstring, as it stands there
    places = [re.search(rf"^  --{option}[ ,]", text, re.MULTILINE).start() for option in TRAINING.get(name, ())]
    assert places == sorted(places)
    assert name not in TRAINING or "(default: " in text


def script_of(config: Path) -> str:
    families = {"gilt": "run_clm", "pushdown": "run_clm", "g2g": "run_parsing", "g2gt": "run_parsing"}
    return {**families, "rngt": "run_parsing", "constituency": "run_parsing"}.get(
        config.stem.partition("-")[0], "run_mlm"
    )


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_options_of_published_configurations(monkeypatch, config):
    script = load_script(script_of(config))
    files = ["--train_file", "x.conllu", "--validation_file", "y.conllu", "--output_dir", "z", "--use_cpu"]
    monkeypatch.setattr(sys, "argv", ["run.py", "--config", str(config), *files, "--max_tokens", "77"])
    *parsed, settings = script.parse_arguments()
    values = {name: value for part in parsed for name, value in vars(part).items()}
    content = json.loads(config.read_text())
    assert values["max_tokens"] == 77  # the command line is stronger than the file
    for name, value in content["options"].items():
        assert name == "max_tokens" or values[name] == value
    for name, value in content["model"].items():
        assert {**values, **settings}[name] == value
    of_a_paper = config.stem.endswith(("-ptb", "-bllip", "-gpt2"))
    if of_a_paper and script.__name__ == "run_clm":  # sentences of a step
        assert values["max_sentences"] * values["gradient_accumulation_steps"] == 64
    elif of_a_paper and script.__name__ == "run_mlm":  # whose code stops after no fewer epochs
        assert AutoConfig.for_model(**settings).hidden_size == settings["hidden_size"]
        assert values["num_train_epochs"] == 100
        assert not script.callbacks(parsed[-1])
        assert values["lr_scheduler_kwargs"] == {"factor": 0.5, "patience": 2, "threshold": 0.0}
        assert settings.get("root_score") == ("uniform" if settings["model_type"] == "udgn" else None)
