"""Models as folders that work with transformers alone."""
