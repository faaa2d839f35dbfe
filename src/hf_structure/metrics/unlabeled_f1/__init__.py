"""Unlabelled F1 of constituency trees for `evaluate.load`."""
