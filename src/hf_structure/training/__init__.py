"""What training scripts are made of: trainers, options and checkpoints of a run, comparisons of several runs."""
