"""Attachment scores for `evaluate.load`."""
