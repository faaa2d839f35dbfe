"""Subclasses of `Trainer`, a file each."""
