"""Text and text files: words, sentences, scripts, CoNLL-U, brackets, SDP, JSON, tokenization."""
