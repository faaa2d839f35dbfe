"""Where models come from, and where they go."""
