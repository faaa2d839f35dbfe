"""Settings of the whole suite: offline, one thread, seeded; deprecations are errors."""

import logging
import os

os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_EVALUATE_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # what is tested here holds on a CPU

from itertools import pairwise
from pathlib import Path
from random import Random

import hypothesis
import pytest
import torch

torch.set_num_threads(1)
pytest.register_assert_rewrite("modeling_common")
hypothesis.settings.register_profile("hf_structure", deadline=None)
hypothesis.settings.load_profile("hf_structure")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of treebanks: `HF_STRUCTURE_DATA`, else `shared/data` beside the repository; skips if there is none."""
    default = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("HF_STRUCTURE_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no treebanks in {folder} (set HF_STRUCTURE_DATA)")
    return folder


def _random_spans(random: Random, start: int, end: int) -> list[tuple[int, int]]:
    """In pre-order; a constituent of several words has two to four children, sometimes one."""
    if end - start == 1:
        return [(start, end)] * random.choice((0, 0, 0, 1, 2))
    cuts = sorted(random.sample(range(start + 1, end), random.randint(1, min(3, end - start - 1))))
    spans = [(start, end)] * random.choice((1, 1, 1, 2))
    for low, high in pairwise((start, *cuts, end)):
        spans += _random_spans(random, low, high)
    return spans


@pytest.fixture(scope="session")
def random_spans():
    """`random_spans(random, n)`: a constituency tree over n words, of any number of children, with unary chains."""
    return lambda random, n: _random_spans(random, 0, n) if n else []


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


class _Deprecations(logging.Handler):
    """Keeps what a library logs about deprecated use."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.messages = []

    def emit(self, record: logging.LogRecord) -> None:
        if "deprecat" in record.getMessage().lower():
            self.messages.append(record.getMessage())


@pytest.fixture(autouse=True)
def _no_logged_deprecations():
    """transformers logs many of its deprecations instead of warning."""
    handler = _Deprecations()
    logger = logging.getLogger("transformers")
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)
    assert not handler.messages, f"deprecated use: {handler.messages}"
