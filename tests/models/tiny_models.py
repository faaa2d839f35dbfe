"""Folders of tiny random language models, for tests of what is done with such models."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import GPT2Config, GPT2LMHeadModel, GPT2Tokenizer, PreTrainedModel, PreTrainedTokenizerBase

from hf_structure import GiLTConfig, GiLTForCausalLM, train_subword_tokenizer

GRAPHS = {"graph_embedding_size": 4, "scorer_hidden_size": 8, "scorer_size": 6, "max_new_arcs": 2}
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16, **GRAPHS}


def save_random(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> Path:
    """With weights that matter: freshly initialised, all tokens would be about equally likely."""
    torch.manual_seed(1)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.5)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def new_gilt(
    folder: Path, sentences: Iterable[Sequence[str]], vocab_size: int = 290, kind: str = "bpe", **settings
) -> Path:
    """A GiLT with subwords learned from sentences of words."""
    tokenizer = train_subword_tokenizer(sentences, vocab_size=vocab_size, kind=kind)
    return save_random(GiLTForCausalLM(GiLTConfig(vocab_size=len(tokenizer), **SIZES, **settings)), tokenizer, folder)


def new_gpt2(folder: Path, texts: Iterable[str], vocab_size: int = 280) -> Path:
    """A GPT-2 with the tokenizer of its family, learned from texts."""
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(texts, vocab_size=vocab_size, special_tokens=["<|endoftext|>"])
    merges = [tuple(pair) for pair in json.loads(trained.to_str())["model"]["merges"]]
    tokenizer = GPT2Tokenizer(vocab=trained.get_vocab(), merges=merges)
    config = GPT2Config(vocab_size=300, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    return save_random(GPT2LMHeadModel(config), tokenizer, folder)
