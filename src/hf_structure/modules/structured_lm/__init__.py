"""The machine of structured language models: structures over the tokens that bias attention, grow and are searched."""
