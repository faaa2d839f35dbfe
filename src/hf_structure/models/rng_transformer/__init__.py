"""Recursive non-autoregressive Graph-to-Graph Transformer (Mohammadshahi & Henderson 2021)."""
