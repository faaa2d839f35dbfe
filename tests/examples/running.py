"""What the tests of the training scripts share."""

import glob
import importlib.util
import json
import os
import random
import runpy
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import transformers
from tqdm import tqdm

from hf_structure.training.examples import EXAMPLES, script_path

ENVIRONMENT = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
LEXICON = {"DT": ["the", "a"], "NN": ["dog", "cat", "bird", "mouse"], "VB": ["sees", "hears"], "IN": ["near", "under"]}


def made_sentence(rng: random.Random) -> tuple[list[str], list[str], list[int]]:
    """Words, tags and heads: `the dog sees a cat (near the bird) .`"""
    tags, heads = ["DT", "NN", "VB", "DT", "NN"], [2, 3, 0, 5, 3]
    if rng.random() < 0.5:
        tags, heads = [*tags, "IN", "DT", "NN"], [*heads, 8, 8, 5]
    words = [rng.choice(LEXICON[tag]) for tag in tags]
    return [*words, "."], [*tags, "."], [*heads, 3]


def load_script(name: str) -> ModuleType:
    """A script of `examples/` or `examples/papers/` as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / script_path(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def command(script: str, *arguments: str, launcher: tuple[str, ...] = ()) -> list[str]:
    return [sys.executable, *launcher, str(EXAMPLES / script_path(script)), *arguments]


def config_params(configs: list[Path]) -> list:
    """Configurations as parameters of a test. Only those of the package's models are in the quick suite."""
    slow = [[] if path.stem.endswith(("-en", "-ewt")) else [pytest.mark.slow] for path in configs]
    return [pytest.param(path, id=path.stem, marks=marks) for path, marks in zip(configs, slow, strict=True)]


def fork() -> int:
    """
    `os.fork`, with a lock of its own for the child's progress bars. That of tqdm is shared by both processes: a child
    that is killed while it holds it would stop its parent for ever.
    """
    child = os.fork()
    if child == 0:
        tqdm.set_lock(threading.RLock())
    return child


def run_code(code: str, seconds: float) -> None:
    """Runs Python code in a new process, which may start others; all are killed after some seconds."""
    _run_python(seconds, "-c", code)


def run_file(file: Path, seconds: float) -> None:
    """Runs a script as [`run_code`] runs code."""
    _run_python(seconds, str(file))


def _run_python(seconds: float, *arguments: str) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    process = subprocess.Popen([sys.executable, *arguments], env=environment, start_new_session=True)
    try:
        assert process.wait(seconds) == 0
    finally:  # what hangs are its own processes
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def in_a_copy(function: Callable[[], None]) -> None:
    """Runs a function in a copy of this process, which keeps nothing of it."""
    child = fork()
    if child == 0:
        code = 1
        try:
            function()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def run_main(script: ModuleType, *arguments: object) -> None:
    """Runs `main` of a script with a command line. What transformers logs stays on, so that deprecations are seen."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transformers.utils.logging, "set_verbosity_error", lambda: None)
        patch.setattr(transformers.utils.logging, "disable_progress_bar", lambda: None)
        patch.setattr(sys, "argv", [f"{script.__name__}.py", *map(str, arguments)])
        script.main()


def start_and_kill(command: list[str], output_dir: Path, written: str = "checkpoint-*/trainer_state.json") -> None:
    """
    Ends a run, and not gently, as soon as it has written a checkpoint, or what else `written` matches. It is the run
    that ends itself, at the first thing that it opens, makes or moves then: whoever watched it might come too late on
    a busy machine. A copy of this process runs the script: it need not import what is there already.
    """

    def watch(event: str, _: tuple) -> None:
        if event in ("open", "os.mkdir", "os.rename") and glob.glob(str(output_dir / written)):
            os.kill(os.getpid(), signal.SIGKILL)

    log = output_dir.with_suffix(".log")
    child = fork()
    if child == 0:
        sys.stdout = sys.stderr = log.open("w")
        try:
            sys.addaudithook(watch)
            sys.argv = command[1:]
            runpy.run_path(sys.argv[0], run_name="__main__")
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, log.read_text()[-2000:]
    assert not (output_dir / "eval_results.json").exists()


def losses(output_dir: Path, key: str = "loss") -> list[float]:
    history = json.loads((output_dir / "trainer_state.json").read_text())["log_history"]
    return [entry[key] for entry in history if key in entry]


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("checkpoint-"))


def results(output_dir: Path, split: str = "eval") -> dict[str, float]:
    return json.loads((output_dir / f"{split}_results.json").read_text())
