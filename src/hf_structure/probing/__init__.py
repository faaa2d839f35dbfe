"""Inside of models: vectors, attention, head types."""
