"""Text, and files of it: words, sentences, scripts, CoNLL-U, brackets, SDP, JSON, tokenization."""
