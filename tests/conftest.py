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
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from hf_structure import (
    G2GTransformerConfig,
    G2GTransformerForParsing,
    GiLTConfig,
    GiLTForCausalLM,
    RNGTransformerConfig,
    RNGTransformerForParsing,
    StructFormerConfig,
    StructFormerForMaskedLM,
    build_word_tokenizer,
    train_subword_tokenizer,
)

torch.set_num_threads(1)
pytest.register_assert_rewrite("modeling_common", "running")
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


# fmt: off
WORDS = [
    "the", "a", "old", "cat", "cats", "dog", "dogs", "man", "she", "that", "saw", "chased", "slept", "sleep", "bark",
    "do", "ca", "n't", "near", "and", "even", "more", "loudly", ".", ",", '"', "(", "...",
]
# fmt: on


def _save_structformer(folder: Path, tokenizer: PreTrainedTokenizerBase) -> Path:
    """A random StructFormer that has made up its mind: freshly initialised, its trees would all be about equal."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "parser_num_layers": 1}
    model = StructFormerForMaskedLM(StructFormerConfig(vocab_size=len(tokenizer), **sizes))
    parser = model.structformer.parser
    for module, std in (
        (model.structformer.embeddings, 1.0),
        (parser.distance_score, 0.3),
        (parser.height_score, 0.3),
    ):
        torch.nn.init.normal_(module.weight, std=std)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


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


SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def _save_g2g_transformer(folder: Path, tokenizer: PreTrainedTokenizerBase, **settings) -> Path:
    """A random Graph-to-Graph Transformer with three labels that has made up its mind."""
    sizes = SIZES | {"classifier_hidden_size": 16, "history_size": 8, "max_position_embeddings": 64}
    return _save_parser(folder, tokenizer, G2GTransformerConfig, G2GTransformerForParsing, **sizes, **settings)


def _save_rng_transformer(folder: Path, tokenizer: PreTrainedTokenizerBase, **settings) -> Path:
    """The same of its recursive non-autoregressive kind."""
    sizes = SIZES | {"arc_size": 8, "label_size": 8}
    return _save_parser(folder, tokenizer, RNGTransformerConfig, RNGTransformerForParsing, **sizes, **settings)


def _save_parser(
    folder: Path, tokenizer: PreTrainedTokenizerBase, config_class: type, model_class: type, **settings
) -> Path:
    torch.manual_seed(0)
    labels = {"id2label": {0: "nsubj", 1: "obj", 2: "det"}, "vocab_size": len(tokenizer)}
    special = {"pad_token_id": tokenizer.pad_token_id, "unk_token_id": tokenizer.unk_token_id}
    model = model_class(config_class(**labels, **special, **settings))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.5)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def g2g_transformer(tmp_path_factory) -> Path:
    """Folder of a tiny random Graph-to-Graph Transformer over words, trained without punctuation, as it says."""
    return _save_g2g_transformer(tmp_path_factory.mktemp("g2g"), build_word_tokenizer(WORDS))


@pytest.fixture(scope="session")
def subword_g2g_transformer(tmp_path_factory) -> Path:
    """The same over subwords, and with SWAP."""
    tokenizer = _bpe_tokenizer(skip_punctuation=True)
    return _save_g2g_transformer(tmp_path_factory.mktemp("subword_g2g"), tokenizer, use_swap=True)


TAGS = ["DT", "NN", "VB", "IN", "."]


@pytest.fixture(scope="session")
def tagged_g2g_transformer(tmp_path_factory) -> Path:
    """A Graph-to-Graph Transformer over words that reads tags too."""
    folder = tmp_path_factory.mktemp("tagged_g2g")
    return _save_g2g_transformer(folder, build_word_tokenizer(WORDS), num_tags=len(TAGS), tags=TAGS)


@pytest.fixture(scope="session")
def tagged_subword_g2g_transformer(tmp_path_factory) -> Path:
    """The same over subwords."""
    folder, tokenizer = tmp_path_factory.mktemp("tagged_subword_g2g"), _bpe_tokenizer(skip_punctuation=True)
    return _save_g2g_transformer(folder, tokenizer, num_tags=len(TAGS), tags=TAGS)


@pytest.fixture(scope="session")
def rng_transformer(tmp_path_factory) -> Path:
    """Folder of a tiny random RNG Transformer over words, trained without punctuation, as it says."""
    folder = tmp_path_factory.mktemp("rng")
    return _save_rng_transformer(folder, build_word_tokenizer(WORDS), max_position_embeddings=62)


@pytest.fixture(scope="session")
def subword_rng_transformer(tmp_path_factory) -> Path:
    """The same over subwords, a word being its first one, and with tags."""
    folder, tokenizer = tmp_path_factory.mktemp("subword_rng"), _bpe_tokenizer(skip_punctuation=True)
    return _save_rng_transformer(folder, tokenizer, num_tags=len(TAGS), tags=TAGS)


@pytest.fixture(scope="session")
def structformer(tmp_path_factory) -> Path:
    """Folder of a tiny random StructFormer over words, trained without punctuation, as it says."""
    return _save_structformer(tmp_path_factory.mktemp("structformer"), build_word_tokenizer(WORDS))


@pytest.fixture(scope="session")
def subword_structformer(tmp_path_factory) -> Path:
    """The same over the subwords of a byte-level BPE: most words have several."""
    return _save_structformer(tmp_path_factory.mktemp("subwords"), _bpe_tokenizer(skip_punctuation=True))


@pytest.fixture(scope="session")
def graph_parser(tmp_path_factory) -> Path:
    """Folder of a tiny random GiLT with opinions about graphs, over subwords, some words having several."""
    folder = tmp_path_factory.mktemp("gilt")
    tokenizer = train_subword_tokenizer([WORDS, WORDS[::-1]], vocab_size=60)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "graph_embedding_size": 4}
    sizes |= {"scorer_hidden_size": 16, "scorer_size": 8, "max_new_arcs": 3}
    model = GiLTForCausalLM(GiLTConfig(vocab_size=len(tokenizer), **sizes))
    for parameter in (model.scorer.arc_matrix, model.scorer.counts.weight):
        torch.nn.init.normal_(parameter, std=1.0)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


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
    logger.setLevel(logging.WARNING)  # whatever other tests, or the import of minicons, have set
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)
    assert not handler.messages, f"deprecated use: {handler.messages}"
