"""Untrained baselines from transformers, of the same size as models of this library."""

from typing import cast

from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerBase, set_seed

LONGEST = 512  # maximum number of tokens of a new GPT-2


def new_gpt2(shape: dict, tokenizer: PreTrainedTokenizerBase, seed: int) -> GPT2LMHeadModel:
    """
    Makes a randomly initialized GPT-2 of the shape of a [`GiLTConfig`]: its `hidden_size`, `num_hidden_layers`,
    `num_attention_heads`, `intermediate_size`, `hidden_dropout` and `attention_dropout`.
    """
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=LONGEST,
        n_embd=shape["hidden_size"],
        n_layer=shape["num_hidden_layers"],
        n_head=shape["num_attention_heads"],
        n_inner=shape["intermediate_size"],
        resid_pdrop=shape["hidden_dropout"],
        embd_pdrop=shape["hidden_dropout"],
        attn_pdrop=shape["attention_dropout"],
        bos_token_id=cast(int | None, tokenizer.bos_token_id),
        eos_token_id=cast(int | None, tokenizer.eos_token_id),
    )
    set_seed(seed)
    return GPT2LMHeadModel(config)
