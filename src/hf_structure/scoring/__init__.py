"""Probabilities of text."""
