"""Probabilities and surprisals of text."""
