"""Graph-to-Graph Transformer parser (Mohammadshahi & Henderson 2019)."""
