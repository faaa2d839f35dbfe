"""Pushdown-LM: a language model with a stack of constituents (Murty et al.)."""
