"""The command `hf-structure`: parse text, compare parses, draw trees."""
