"""The model families, one folder each."""
