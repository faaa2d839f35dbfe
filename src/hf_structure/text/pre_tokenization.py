"""The rules of [`tokenize_words`] as a pre-tokenizer, for the pipelines of transformers."""

from typing import Any

from tokenizers import Regex, models, pre_tokenizers
from transformers import PreTrainedTokenizerBase

from hf_structure.text.words import CLITIC, RUN_TOGETHER, TOKEN

_LETTER = r"[^\W\d_]"
_DIGIT = r"(?-i:[\dN])"  # normalisation runs first and turns digits into `N`
_PUNCTUATION = r"(?:(?![%&#@])[\p{P}^`~|=+<>_])"  # as `is_punctuation` has it


def prepare_for_pipelines(tokenizer: PreTrainedTokenizerBase, pairs: bool = False) -> None:
    """
    Prepares a model's tokenizer in place for the pipelines of transformers: a word-level tokenizer splits raw text
    into words itself, unless its saved `word_tokenizer` is another than `"english"`. It then splits given words
    further, `tokenizer(words, is_split_into_words=True)`; [`encode_words`] does not. With `pairs`, `token_type_ids`
    distinguish the two sentences of a pair.
    """
    backend: Any = tokenizer.backend_tokenizer
    settings = tokenizer.init_kwargs
    if isinstance(backend.model, models.WordLevel) and settings.get("word_tokenizer", "english") == "english":
        backend.pre_tokenizer = word_pre_tokenizer(bool(settings.get("skip_punctuation")))
    if pairs:
        tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
        settings["model_input_names"] = tokenizer.model_input_names


def word_pre_tokenizer(skip_punctuation: bool) -> pre_tokenizers.PreTokenizer:
    """
    Splits normalised text into words as [`tokenize_words`] splits it before normalisation, except for tokens
    recognised by the length of numbers, such as phone numbers, and for clitics at the end of web addresses.
    """
    first, second = RUN_TOGETHER
    # Each step splits the pieces of the one before it: first tokens, then clitics off them, then words run together.
    steps = [
        pre_tokenizers.Split(Regex(_token_pattern()), "removed", invert=True),
        pre_tokenizers.Split(Regex(rf"(?i)(?<=.)(?:{CLITIC})(?=(?:{CLITIC}){{0,2}}\z)"), "isolated"),
        pre_tokenizers.Split(Regex(rf"(?i)\A(?:{first})(?=(?:{second})\z)"), "isolated"),
    ]
    if skip_punctuation:
        steps.append(pre_tokenizers.Split(Regex(rf"\A{_PUNCTUATION}+\z"), "removed"))
    return pre_tokenizers.Sequence(steps)


def _token_pattern() -> str:
    """Translates the pattern of words into the regular expressions of `tokenizers`."""
    # Oniguruma, the engine of `tokenizers`, writes named groups without `P`.
    pattern = TOKEN.pattern.replace("(?P<", "(?<").replace("(?P=same)", r"\k<same>")
    # Letters must not match the `N` of normalised numbers, which stands for any number of digits.
    parts = pattern.replace(rf"(?<plain> {_LETTER}+", rf"(?<plain> (?:(?!{_DIGIT}){_LETTER})+").split(_LETTER)
    return "(?ix)" + _LETTER.join(part.replace(r"\d\d", r"\d+").replace(r"\d", _DIGIT) for part in parts)
