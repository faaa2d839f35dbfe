"""Registration with transformers, and lazy imports."""
