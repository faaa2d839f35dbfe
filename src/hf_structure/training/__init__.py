"""Parts of the training scripts: trainers, options and checkpoints of a run, comparisons of several runs."""
