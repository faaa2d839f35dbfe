"""Transformer grammars: language models that write a tree between their tokens (Sartran et al., Zhao et al.)."""
