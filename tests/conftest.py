"""Settings of the whole suite: offline, one thread, the same numbers in every run; deprecations are errors."""

import logging
import os
from tempfile import mkdtemp

os.environ |= {
    "HF_HOME": mkdtemp(prefix="hf_home-"),  # caches of data sets and metrics, which no other process writes
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_EVALUATE_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "MKL_CBWR": "COMPATIBLE",  # what is rounded does not depend on where in memory it lies
}
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # what is tested here holds on a CPU

import gc
import random
import shutil
from itertools import pairwise
from pathlib import Path
from random import Random

import hypothesis
import matplotlib.font_manager  # noqa: F401 - makes its cache of fonts now, not in a test of what is printed
import numpy
import pytest
import torch
from tiny_models import SIZES, new_g2g_transformer, new_rng_transformer, new_structformer, randomise, save
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast
from transformers.utils.import_utils import is_torch_greater_or_equal

from hf_structure import GiLTConfig, GiLTForCausalLM, build_word_tokenizer, train_subword_tokenizer

torch.set_num_threads(1)
pytest.register_assert_rewrite("modeling_common", "running")
# The inputs of each run: `--hypothesis-profile` chooses. A busy machine is slow.
for name, options in (("same", {"derandomize": True, "max_examples": 25}), ("new", {"derandomize": False})):
    slow = [hypothesis.HealthCheck.too_slow]
    hypothesis.settings.register_profile(name, deadline=None, suppress_health_check=slow, **options)
hypothesis.settings.load_profile("same")


def pytest_configure(config):
    """`_seed` seeds: of pytest-randomly, only the order is wanted. It would take milliseconds to seed torch thrice."""
    config.option.randomly_reset_seed = False


def pytest_collection_finish():
    """All modules are there, and stay: what collects garbage, such as each training, need not go through them."""
    gc.freeze()


def pytest_runtest_setup(item):
    for marker in item.iter_markers("torch"):
        if not is_torch_greater_or_equal(*marker.args, accept_dev=True):
            pytest.skip(f"needs torch {marker.args[0]}")


def pytest_unconfigure():
    shutil.rmtree(os.environ["HF_HOME"])


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


# fmt: off
WORDS = [
    "the", "a", "old", "cat", "cats", "dog", "dogs", "man", "she", "that", "saw", "chased", "slept", "sleep", "bark",
    "do", "ca", "n't", "near", "and", "even", "more", "loudly", ".", ",", '"', "(", "...",
]
# fmt: on


def _bpe_tokenizer(**options) -> PreTrainedTokenizerBase:
    """Byte-level BPE that splits most words."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=len(alphabet) + 12,
        special_tokens=["<pad>", "<mask>"],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    backend.train_from_iterator([" ".join(WORDS)], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", mask_token="<mask>", **options)


@pytest.fixture(scope="session")
def g2g_transformer(tmp_path_factory) -> Path:
    """Folder of a tiny random Graph-to-Graph Transformer over words, trained without punctuation, as it says."""
    return new_g2g_transformer(tmp_path_factory.mktemp("g2g"), build_word_tokenizer(WORDS))


@pytest.fixture(scope="session")
def subword_g2g_transformer(tmp_path_factory) -> Path:
    """The same over subwords, and with SWAP."""
    tokenizer = _bpe_tokenizer(skip_punctuation=True)
    return new_g2g_transformer(tmp_path_factory.mktemp("subword_g2g"), tokenizer, use_swap=True)


TAGS = ["DT", "NN", "VB", "IN", "."]


@pytest.fixture(scope="session")
def tagged_g2g_transformer(tmp_path_factory) -> Path:
    """A Graph-to-Graph Transformer over words that reads tags too."""
    folder = tmp_path_factory.mktemp("tagged_g2g")
    return new_g2g_transformer(folder, build_word_tokenizer(WORDS), num_tags=len(TAGS), tags=TAGS)


@pytest.fixture(scope="session")
def tagged_subword_g2g_transformer(tmp_path_factory) -> Path:
    """The same over subwords."""
    folder, tokenizer = tmp_path_factory.mktemp("tagged_subword_g2g"), _bpe_tokenizer(skip_punctuation=True)
    return new_g2g_transformer(folder, tokenizer, num_tags=len(TAGS), tags=TAGS)


@pytest.fixture(scope="session")
def rng_transformer(tmp_path_factory) -> Path:
    """Folder of a tiny random RNG Transformer over words, trained without punctuation, as it says."""
    folder = tmp_path_factory.mktemp("rng")
    return new_rng_transformer(folder, build_word_tokenizer(WORDS), max_position_embeddings=62)


@pytest.fixture(scope="session")
def tagger(tmp_path_factory) -> Path:
    """Folder of a tiny random one over subwords that finds sentences and gives tags, features and lemmas."""
    columns = {
        "upos": ["NOUN", "VERB", "PUNCT"],
        "xpos": ["NN", "VB", "."],
        "feats": ["NOUN _", "NOUN Number=Plur", "VERB Mood=Ind|VerbForm=Fin", "PUNCT _"],
        "lemma": ["lower-0+", "keep-0+", "lower-1+", "lower-3+y"],
    }
    settings = {"columns": columns, "column_size": 8, "id2label": {0: "root", 1: "nsubj", 2: "punct"}}
    return new_rng_transformer(
        tmp_path_factory.mktemp("tagger"), _bpe_tokenizer(), num_segmentation_layers=1, **settings
    )


@pytest.fixture(scope="session")
def subword_rng_transformer(tmp_path_factory) -> Path:
    """The same over subwords, a word being its first one, and with tags."""
    folder, tokenizer = tmp_path_factory.mktemp("subword_rng"), _bpe_tokenizer(skip_punctuation=True)
    return new_rng_transformer(folder, tokenizer, num_tags=len(TAGS), tags=TAGS)


@pytest.fixture(scope="session")
def structformer(tmp_path_factory) -> Path:
    """Folder of a tiny random StructFormer over words, trained without punctuation, as it says."""
    return new_structformer(tmp_path_factory.mktemp("structformer"), build_word_tokenizer(WORDS))


@pytest.fixture(scope="session")
def subword_structformer(tmp_path_factory) -> Path:
    """The same over the subwords of a byte-level BPE: most words have several."""
    return new_structformer(tmp_path_factory.mktemp("subwords"), _bpe_tokenizer(skip_punctuation=True))


@pytest.fixture(scope="session")
def graph_parser(tmp_path_factory) -> Path:
    """
    Folder of a tiny random GiLT over subwords, some words having several. Every word comes with one to three arcs, so
    that graphs of sentences of different lengths differ, and none of these numbers is much likelier than another.
    """
    tokenizer = train_subword_tokenizer([WORDS, WORDS[::-1]], vocab_size=280, kind="bpe")
    model = randomise(GiLTForCausalLM(GiLTConfig(**{"vocab_size": len(tokenizer), **SIZES, "max_new_arcs": 3})))
    torch.nn.init.normal_(model.scorer.counts.weight, std=0.01)
    model.scorer.counts.bias.data = torch.tensor([-20.0, 0.4, 0.2, 0.0])
    return save(model, tokenizer, tmp_path_factory.mktemp("gilt"))


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef):
    """A shared fixture draws the same whichever test is the first to ask for it, and takes no draws from that test."""
    if fixturedef.scope == "function":
        return (yield)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return (yield)


@pytest.fixture(autouse=True)
def _seed():
    random.seed(0)
    numpy.random.seed(0)  # noqa: NPY002 - what libraries draw from
    torch.default_generator.manual_seed(0)  # `torch.manual_seed` writes its stack down for every kind of device


@pytest.fixture(
    params=[pytest.param(torch.float64, marks=pytest.mark.slow), torch.bfloat16], ids=["float64", "bfloat16"]
)
def with_other_default(request):
    """`with_other_default(function)`: what a function gives while new tensors have another dtype than float32."""

    def call(function):
        before = torch.get_default_dtype()
        torch.set_default_dtype(request.param)
        try:
            return function()
        finally:
            torch.set_default_dtype(before)

    return call


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
    if logger.level != logging.WARNING:  # other tests, or the import of minicons, have set it
        logger.setLevel(logging.WARNING)  # for which logging looks at all its loggers
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)
    assert not handler.messages, f"deprecated use: {handler.messages}"
