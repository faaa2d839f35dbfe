"""Graph-to-Graph Transformer parser (Mohammadshahi & Henderson 2020)."""
