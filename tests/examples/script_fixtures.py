"""Fixtures of the tests of scripts: made corpora, tiny models, and `run`."""

import random
from functools import partial
from pathlib import Path

import pytest
from running import LEXICON, made_sentence, run_main
from tiny_models import new_gilt, new_gpt2, new_pushdown
from transformers import AutoTokenizer

from hf_structure import train_subword_tokenizer
from hf_structure.text.conllu import ConlluSentence, write_conllu


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A folder with `train` and `dev`, each as .conllu, .mrg and .txt."""
    folder, rng = tmp_path_factory.mktemp("corpus"), random.Random(0)
    for name, count in (("train", 60), ("dev", 20)):
        sentences = [made_sentence(rng) for _ in range(count)]
        trees = (ConlluSentence.from_words(words, heads, tags=tags) for words, tags, heads in sentences)
        write_conllu(trees, folder / f"{name}.conllu")
        leaves = (" ".join(f"({t} {w})" for w, t in zip(words, tags, strict=True)) for words, tags, _ in sentences)
        (folder / f"{name}.mrg").write_text("".join(f"( (S {line}) )\n\n" for line in leaves))
        (folder / f"{name}.txt").write_text("".join(" ".join(words) + "\n" for words, _, _ in sentences))
    return folder


@pytest.fixture
def run(script):
    """Runs `main` of a script with a command line."""
    return partial(run_main, script)


@pytest.fixture(scope="session")
def gilt(tmp_path_factory) -> Path:
    """Folder of a tiny random GiLT."""
    words = [["The", noun, "does", "n't", "care", ",", "the", "end", "."] for noun in LEXICON["NN"]]
    return new_gilt(tmp_path_factory.mktemp("gilt"), train_subword_tokenizer(words, vocab_size=290, kind="bpe"))


@pytest.fixture(scope="session")
def pushdown(gilt, tmp_path_factory) -> Path:
    """Folder of a tiny random Pushdown-LM with the tokenizer of the GiLT."""
    return new_pushdown(tmp_path_factory.mktemp("pushdown"), AutoTokenizer.from_pretrained(gilt))


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory) -> Path:
    """Folder of a tiny random GPT-2."""
    return new_gpt2(tmp_path_factory.mktemp("gpt2"), [f"The {noun} sees the end." for noun in LEXICON["NN"]])
