"""The choices of the pipelines, for modules that name them without computing anything."""

DEFAULT_PARSER = "rngt-en"
DEFAULT_SCORER = "gilt-en"
DTYPES = ("float32", "bfloat16", "float16", "float64", "int8")
CORRECTIONS = ("oh-schuler", "pimentel-meister")
LINE_BREAKS = ("end", "space")  # of a sentence, or white space like any other
MASKINGS = ("within_word", "original")
MAX_WORDS = 1000
POOLING = ("mean", "first", "last")  # of the pieces of a word
PUNCTUATION = ("attach", "drop", "parse")
SENTENCES = ("line", "split", "model")
STRUCTURES = ("dependency", "constituency", "both", "graph")
NAMES = {"dependency": "dependency trees", "constituency": "constituency trees", "graph": "dependency graphs"}
WORD_ARRAYS = ("vectors", "attention", "arcs", "tapes")
