"""Graph-Infused Layers Transformer language model (Huang et al.)."""
