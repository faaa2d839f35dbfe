"""From checkpoints that research left behind to folders of this library."""
