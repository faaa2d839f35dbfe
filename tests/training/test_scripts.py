"""What scripts say when something goes wrong."""

import logging
from importlib.metadata import PackageNotFoundError

import pytest
import transformers
from huggingface_hub.errors import HTTPError
from safetensors import SafetensorError

from hf_structure.training.arguments import RunArguments
from hf_structure.training.scripts import begin, run

UPLOAD = RuntimeError("Error while uploading 'model.safetensors' to the Hub.")
UPLOAD.__cause__ = HTTPError("Server disconnected")
TORCH = "[enforce fail at inline_container.cc:672] . unexpected pos 1484864 vs 1484756"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("two\n  lines"), "two lines"),
        (FileNotFoundError(2, "No such file or directory", "a.txt"), "a.txt: No such file or directory"),
        (ImportError("You need to install `bitsandbytes`"), "You need to install `bitsandbytes`"),
        (PackageNotFoundError("deepspeed"), "No package metadata was found for deepspeed"),
        (HTTPError("Name or service not known"), "the Hub: Name or service not known"),
        (UPLOAD, "the Hub: Error while uploading 'model.safetensors' to the Hub. Server disconnected"),
        (OSError(28, "No space left on device", "runs/udgn"), "runs/udgn: No space left on device"),
        (OSError(122, "Disk quota exceeded"), "Disk quota exceeded"),
        (SafetensorError("Error while serializing: I/O error: ... (os error 28)"), "No space left on device"),
        (RuntimeError(TORCH), "No space left on device"),
        (KeyboardInterrupt(), "stopped; the same command goes on from the last checkpoint"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_errors_are_one_line(error, message):
    def main():
        raise error

    with pytest.raises(SystemExit) as end:
        run(main, "run_mlm.py")
    assert end.value.code == f"run_mlm.py: {message}"


@pytest.mark.parametrize("error", [KeyError("missing"), RuntimeError("shapes"), SyntaxError("a", ("b.py", 1, 1, ""))])
def test_mistakes_of_the_code_are_no_errors_of_the_user(error):
    def main():
        raise error

    with pytest.raises(type(error)):
        run(main, "run_mlm.py")


@pytest.mark.parametrize(
    ("settings", "level"), [({}, logging.INFO), ({"log_level": "error"}, logging.ERROR), ({"log_level": "debug"}, 10)]
)
def test_what_is_logged(tmp_path, monkeypatch, settings, level):
    levels = []
    monkeypatch.setattr(logging, "basicConfig", lambda **options: levels.append(options["level"]))
    monkeypatch.setattr(transformers.utils.logging, "set_verbosity_error", lambda: None)
    monkeypatch.setattr(transformers.utils.logging, "disable_progress_bar", lambda: None)
    begin(RunArguments(output_dir=str(tmp_path), use_cpu=True, **settings))
    assert levels == [level]
