"""Training data: collators, batches, streams, tasks."""
