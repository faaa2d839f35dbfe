"""Data for training: collators, batches, streams, tasks."""
