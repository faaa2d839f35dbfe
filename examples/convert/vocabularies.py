"""Tokenizers of the vocabularies of checkpoints."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import models
from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase, TokenizersBackend

from hf_structure.text.tokenization import (
    SPECIAL_TOKENS,
    SUBWORD_SPECIAL_TOKENS,
    build_word_tokenizer,
    subword_tokenizer,
    unigram_backend,
)

from .pickles import attributes, read_pickle

PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".bin", ".tag")


@dataclass
class Vocabulary:
    """A model's vocabulary: the file saved in training, or a folder with a tokenizer."""

    dictionary: str | Path | None = None
    folder: str | Path | None = None

    def tokenizer(self, config: PreTrainedConfig) -> PreTrainedTokenizerBase:
        """
        The tokenizer of a masked language model, which takes over its special tokens; it knows the longest sentence,
        if there is one. Raises `ValueError` without a vocabulary, or for one of another size.
        """
        if self.folder is None:
            tokenizer = word_tokenizer(self.dictionary, config.vocab_size)
        else:
            tokenizer = saved_tokenizer(self.folder, config.vocab_size)
            for name in ("unk_token_id", "pad_token_id", "mask_token_id"):
                setattr(config, name, getattr(tokenizer, name))
        if config.use_position_embeddings:
            tokenizer.model_max_length = config.max_position_embeddings
        return tokenizer


def read_words(path: str | Path) -> list[str]:
    """
    Words in the order of their ids: from a pickled dictionary (an object with `idx2word` or `word2idx`, or one that
    has such a `dictionary`; or a `dict`), or from a text file with one word a line. Raises `ValueError` for others.
    """
    if Path(path).suffix not in PICKLES:
        return Path(path).read_text("utf-8").removesuffix("\n").split("\n")
    words = _words_of(read_pickle(path))
    if words is None:
        raise ValueError(f"{path} holds no dictionary: nothing in it has idx2word or word2idx")
    return words


def _words_of(content: Any) -> list[str] | None:
    own = attributes(content)
    if "dictionary" in own:
        return _words_of(own["dictionary"])
    numbers = own.get("word2idx", content)
    words = own.get("idx2word")
    if words is None and isinstance(numbers, Mapping) and numbers:
        words = sorted(numbers, key=numbers.__getitem__)
    return None if words is None else [str(word) for word in words]


def word_tokenizer(path: str | Path | None, vocab_size: int) -> TokenizersBackend:
    """
    Word-level tokenizer of a dictionary of the UDGN and StructFormer repositories: `<unk>`, `<pad>`, `<mask>`, then
    lower-cased words in which runs of digits are `N`. Raises `ValueError` without a dictionary, and for one of another
    size or with other words at its beginning.
    """
    if path is None:
        raise ValueError(
            "the checkpoint does not say which words its numbers stand for: name the dictionary that was saved in "
            "training (dict.pkl), or the folder of a tokenizer"
        )
    words = read_words(path)
    special = list(SPECIAL_TOKENS.values())
    if words[: len(special)] != special:
        raise ValueError(f"the dictionary {path} begins with {words[:3]}, not with {special}")
    if len(words) != vocab_size or len(set(words)) != vocab_size:
        raise ValueError(f"the dictionary {path} has {len(set(words))} words, but the model {vocab_size}")
    return build_word_tokenizer(words[len(special) :])


def piece_tokenizer(path: str | Path, vocab_size: int) -> TokenizersBackend:
    """
    The tokenizer of a SentencePiece unigram vocabulary, a text file of pieces and log-probabilities (`.vocab`). Raises
    `ValueError` for other files, and for vocabularies of another size.
    """
    try:
        lines = Path(path).read_text("utf-8").split("\n")
        pieces = [(piece, float(score)) for piece, score in (line.split("\t") for line in lines if line)]
    except ValueError as error:
        raise ValueError(f"{path} is no SentencePiece vocabulary: lines of a piece, a tab and a number") from error
    names = [piece for piece, _ in pieces]
    special = SUBWORD_SPECIAL_TOKENS
    if len(pieces) != vocab_size or not set(special.values()) <= set(names):
        raise ValueError(
            f"{path} has {len(pieces)} pieces, but the model {vocab_size}, {', '.join(special.values())} among them"
        )
    return subword_tokenizer(unigram_backend(models.Unigram(pieces, unk_id=names.index(special["unk_token"]))))


def saved_tokenizer(folder: str | Path, vocab_size: int) -> PreTrainedTokenizerBase:
    """
    The tokenizer in a folder. Raises `ValueError` without one, and for one that needs custom code or has more tokens
    than the model.
    """
    # By its own file first: AutoTokenizer would read config.json too, which may be that of another model of this name.
    kind = TokenizersBackend if (Path(folder) / "tokenizer.json").is_file() else AutoTokenizer
    try:
        tokenizer = kind.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"{folder} holds no tokenizer: {str(error).strip().splitlines()[0]}") from error
    if len(tokenizer) > vocab_size:
        raise ValueError(f"the tokenizer in {folder} has {len(tokenizer)} tokens, but the model {vocab_size}")
    return tokenizer
