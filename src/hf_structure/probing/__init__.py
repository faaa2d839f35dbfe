"""Model internals: vectors, attention, head types."""
