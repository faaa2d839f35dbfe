"""StructFormer: constituency and dependency structure from one masked language model."""
