"""The rules of [`tokenize_words`] as a step of a tokenizer, for raw text that comes to it in pipelines."""

from typing import Any

from tokenizers import Regex, models, pre_tokenizers
from transformers import PreTrainedTokenizerBase

from hf_structure.text.words import CLITIC, RUN_TOGETHER, TOKEN

_LETTER = r"[^\W\d_]"
_DIGIT = r"(?-i:[\dN])"  # the normalisation comes first, and has made `N` of digits
_PUNCTUATION = r"(?:(?![%&#@])[\p{P}^`~|=+<>_])"  # as `is_punctuation` has it


def prepare_for_pipelines(tokenizer: PreTrainedTokenizerBase, pairs: bool = False) -> None:
    """
    Makes a model's tokenizer one that the pipelines of transformers can use: with a vocabulary of words, it splits raw
    text into words itself, unless it is saved with it that spaces do. Words that are given one by one,
    `tokenizer(words, is_split_into_words=True)`, are split further then; [`encode_words`] does not. The tokenizer is
    changed; with `pairs` it tells the two sentences of a pair apart by `token_type_ids`.
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
    Splits normalised text into words, as [`tokenize_words`] splits it before it is normalised; but for what is told by
    the length of numbers, such as phone numbers, and for clitics at the end of web addresses.
    """
    first, second = RUN_TOGETHER
    steps = [
        pre_tokenizers.Split(Regex(_token_pattern()), "removed", invert=True),
        pre_tokenizers.Split(Regex(rf"(?i)(?<=.)(?:{CLITIC})(?=(?:{CLITIC}){{0,2}}\z)"), "isolated"),
        pre_tokenizers.Split(Regex(rf"(?i)\A(?:{first})(?=(?:{second})\z)"), "isolated"),
    ]
    if skip_punctuation:
        steps.append(pre_tokenizers.Split(Regex(rf"\A{_PUNCTUATION}+\z"), "removed"))
    return pre_tokenizers.Sequence(steps)


def _token_pattern() -> str:
    """The pattern of words, in the regular expressions of `tokenizers`."""
    pattern = TOKEN.pattern.replace("(?P<", "(?<").replace("(?P=same)", r"\k<same>")
    parts = pattern.replace(rf"(?<plain> {_LETTER}+", rf"(?<plain> (?:(?!{_DIGIT}){_LETTER})+").split(_LETTER)
    return "(?ix)" + _LETTER.join(part.replace(r"\d\d", r"\d+").replace(r"\d", _DIGIT) for part in parts)
