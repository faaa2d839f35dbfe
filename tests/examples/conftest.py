import json
import random
import sys
from pathlib import Path

import pytest
import torch
import transformers
from running import LEXICON, made_sentence
from tokenizers import ByteLevelBPETokenizer
from transformers import GPT2Config, GPT2LMHeadModel, GPT2Tokenizer

from hf_structure import GiLTConfig, GiLTForCausalLM, train_subword_tokenizer
from hf_structure.data.conllu import ConlluSentence, write_conllu


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A folder with `train` and `dev`, each as .conllu, .mrg and .txt."""
    folder, rng = tmp_path_factory.mktemp("corpus"), random.Random(0)
    for name, count in (("train", 120), ("dev", 20)):
        sentences = [made_sentence(rng) for _ in range(count)]
        trees = (ConlluSentence.from_words(words, heads, tags=tags) for words, tags, heads in sentences)
        write_conllu(trees, folder / f"{name}.conllu")
        leaves = (" ".join(f"({t} {w})" for w, t in zip(words, tags, strict=True)) for words, tags, _ in sentences)
        (folder / f"{name}.mrg").write_text("".join(f"( (S {line}) )\n\n" for line in leaves))
        (folder / f"{name}.txt").write_text("".join(" ".join(words) + "\n" for words, _, _ in sentences))
    return folder


@pytest.fixture
def run(script, monkeypatch):
    """Runs `main` of a script with a command line. What transformers logs stays on, so that deprecations are seen."""
    monkeypatch.setattr(transformers.utils.logging, "set_verbosity_error", lambda: None)
    monkeypatch.setattr(transformers.utils.logging, "disable_progress_bar", lambda: None)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", [f"{script.__name__}.py", *map(str, arguments)])
        script.main()

    return run


PARTS = {"graph_embedding_size": 4, "scorer_hidden_size": 8, "scorer_size": 6, "max_new_arcs": 2}
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16, **PARTS}


def _saved(model, tokenizer, folder: Path) -> Path:
    """With weights that matter."""
    torch.manual_seed(1)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.5)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def gilt(tmp_path_factory) -> Path:
    """Folder of a tiny random GiLT."""
    words = [["The", noun, "does", "n't", "care", ",", "the", "end", "."] for noun in LEXICON["NN"]]
    tokenizer = train_subword_tokenizer(words, vocab_size=290, kind="bpe")
    model = GiLTForCausalLM(GiLTConfig(vocab_size=len(tokenizer), **SMALL))
    return _saved(model, tokenizer, tmp_path_factory.mktemp("gilt"))


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory) -> Path:
    """Folder of a tiny random GPT-2."""
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(
        [f"The {noun} sees the end." for noun in LEXICON["NN"]], 280, special_tokens=["<|endoftext|>"]
    )
    merges = [tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]
    config = GPT2Config(vocab_size=300, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    tokenizer = GPT2Tokenizer(vocab=tokenizer.get_vocab(), merges=merges)
    return _saved(GPT2LMHeadModel(config), tokenizer, tmp_path_factory.mktemp("gpt2"))
