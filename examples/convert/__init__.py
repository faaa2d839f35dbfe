"""Converters of the checkpoints of papers' code, a module for each, and the parsers that have their layouts."""
