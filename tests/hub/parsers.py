"""Tiny parsers to publish."""

from pathlib import Path

from tiny_models import save

from hf_structure import UDGNConfig, UDGNForMaskedLM, build_word_tokenizer

WORDS = ["the", "cat", "sleeps", "chased", "mouse", "that"]
SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}


def new_parser(folder: Path) -> Path:
    """A folder with a UDGN of random weights and its tokenizer."""
    tokenizer = build_word_tokenizer(WORDS)
    return save(UDGNForMaskedLM(UDGNConfig(vocab_size=len(tokenizer), **SIZES)), tokenizer, folder)
