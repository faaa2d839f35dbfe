"""Tiny random models and their tokenizers, for tests of what is done with such models: the same in every process."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from tokenizers import ByteLevelBPETokenizer, models
from transformers import GPT2Config, GPT2LMHeadModel, GPT2Tokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.cache_utils import Cache

from hf_structure import (
    G2GTransformerConfig,
    G2GTransformerForParsing,
    GiLTConfig,
    GiLTForCausalLM,
    PushdownLMConfig,
    PushdownLMForCausalLM,
    RNGTransformerConfig,
    RNGTransformerForParsing,
    StructFormerConfig,
    StructFormerForMaskedLM,
    TransformerGrammarConfig,
    TransformerGrammarForCausalLM,
    UDGNConfig,
    UDGNForMaskedLM,
    train_subword_tokenizer,
)
from hf_structure.text.tokenization import SUBWORD_SPECIAL_TOKENS

TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
GRAPHS = {"graph_embedding_size": 4, "scorer_hidden_size": 8, "scorer_size": 6, "max_new_arcs": 2}
SIZES = {**TINY, "num_hidden_layers": 2, "intermediate_size": 16, **GRAPHS}


def next_word_scores(model: GiLTForCausalLM, token: torch.Tensor, cache: Cache) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of the arcs and of their number for the words that begin with tokens `(batch_size,)` after a cache."""
    return model.score_word(token, cache)[1:]


def randomise(model: PreTrainedModel, std: float = 0.5) -> PreTrainedModel:
    """Weights that matter: freshly initialised, all tokens, heads and trees would be about equally likely."""
    torch.manual_seed(1)
    for parameter in model.parameters():
        if parameter.dim() > 1:  # what is added whatever the input would make all of them alike
            torch.nn.init.normal_(parameter, std=std)
    return model.eval()


@torch.no_grad()
def randomise_biases(model: torch.nn.Module, std: float = 0.1) -> torch.nn.Module:
    """Biases and layer norms far enough from their start, 0 and 1: none of them can be lost unnoticed."""
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter += std * torch.randn(parameter.shape, generator=generator)
    return model


def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def unigram_tokenizer(sentences: Sequence[Sequence[str]], **options) -> PreTrainedTokenizerBase:
    """
    As trained on the sentences, but its pieces are their characters and the first three of every word.

    Training numbers pieces of the same probability by chance, so that the same weights would be of other pieces.
    """
    tokenizer = train_subword_tokenizer(sentences, vocab_size=100, **options)
    words = {word for sentence in sentences for word in sentence}
    pieces = sorted({"▁", *"".join(words), *(f"▁{word[:3]}" for word in words)})
    vocabulary = [(token, 0.0) for token in SUBWORD_SPECIAL_TOKENS.values()]
    vocabulary += [(piece, len(piece) - 10.0) for piece in pieces]
    tokenizer.backend_tokenizer.model = models.Unigram(vocabulary, unk_id=0)
    return tokenizer


def new_udgn(folder: Path, tokenizer: PreTrainedTokenizerBase, std: float = 0.5, **settings) -> Path:
    config = UDGNConfig(vocab_size=len(tokenizer), parser_num_layers=1, **TINY, **settings)
    return save(randomise(UDGNForMaskedLM(config), std), tokenizer, folder)


def new_structformer(folder: Path, tokenizer: PreTrainedTokenizerBase, **settings) -> Path:
    config = StructFormerConfig(vocab_size=len(tokenizer), parser_num_layers=1, **TINY, **settings)
    return save(randomise(StructFormerForMaskedLM(config)), tokenizer, folder)


def new_g2g_transformer(folder: Path, tokenizer: PreTrainedTokenizerBase, **settings) -> Path:
    """A Graph-to-Graph Transformer with three labels."""
    sizes = {"classifier_hidden_size": 16, "history_size": 8, "max_position_embeddings": 64}
    config = G2GTransformerConfig(**_of_parsers(tokenizer), **sizes, **settings)
    return save(randomise(G2GTransformerForParsing(config)), tokenizer, folder)


def new_rng_transformer(folder: Path, tokenizer: PreTrainedTokenizerBase, **settings) -> Path:
    """The recursive non-autoregressive kind; from larger weights, probabilities of trees would be rounded too much."""
    config = RNGTransformerConfig(**{**_of_parsers(tokenizer), "arc_size": 8, "label_size": 8, **settings})
    return save(randomise(RNGTransformerForParsing(config), std=0.3), tokenizer, folder)


def _of_parsers(tokenizer: PreTrainedTokenizerBase) -> dict:
    labels = {"id2label": {0: "nsubj", 1: "obj", 2: "det"}, "vocab_size": len(tokenizer)}
    special = {"pad_token_id": tokenizer.pad_token_id, "unk_token_id": tokenizer.unk_token_id}
    return {**TINY, "intermediate_size": 16, **labels, **special}


def new_gilt(folder: Path, tokenizer: PreTrainedTokenizerBase, **settings) -> Path:
    config = GiLTConfig(**{"vocab_size": len(tokenizer), **SIZES, **settings})
    return save(randomise(GiLTForCausalLM(config)), tokenizer, folder)


def new_pushdown(folder: Path, tokenizer: PreTrainedTokenizerBase, **settings) -> Path:
    sizes = {**TINY, "num_hidden_layers": 2, "intermediate_size": 16, "attachment_size": 8}
    config = PushdownLMConfig(**{"vocab_size": len(tokenizer), **sizes, **settings})
    return save(randomise(PushdownLMForCausalLM(config), std=0.3), tokenizer, folder)


def new_transformer_grammar(folder: Path, tokenizer: PreTrainedTokenizerBase, **settings) -> Path:
    sizes = {**TINY, "num_hidden_layers": 2, "intermediate_size": 16, "max_open": 6}
    config = TransformerGrammarConfig(**{"vocab_size": len(tokenizer), **sizes, **settings})
    return save(randomise(TransformerGrammarForCausalLM(config), std=0.3), tokenizer, folder)


def new_gpt2(folder: Path, texts: Iterable[str], vocab_size: int = 280) -> Path:
    """A GPT-2 with the tokenizer of its family, learned from texts."""
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(texts, vocab_size=vocab_size, special_tokens=["<|endoftext|>"])
    merges = [tuple(pair) for pair in json.loads(trained.to_str())["model"]["merges"]]
    tokenizer = GPT2Tokenizer(vocab=trained.get_vocab(), merges=merges)
    config = GPT2Config(vocab_size=300, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    return save(randomise(GPT2LMHeadModel(config)), tokenizer, folder)
