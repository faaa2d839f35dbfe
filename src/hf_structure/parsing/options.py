"""The options of parsing and of the pipelines, for modules that name them without importing torch."""

import collections.abc
import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

DEFAULT_PARSER = "rngt-en"
DEFAULT_SCORER = "gilt-en"
CORRECTIONS = ("oh-schuler", "pimentel-meister")
MASKINGS = ("within_word", "original")
MAX_WORDS = 1000
POOLING = ("mean", "first", "last")  # of the pieces of a word
NAMES = {"dependency": "dependency trees", "constituency": "constituency trees", "graph": "dependency graphs"}
WORD_ARRAYS = ("vectors", "attention", "arcs", "tapes")

Splitter = Literal["line", "split", "model", "auto"] | Callable[[str], list[str]]
LineBreaks = Literal["end", "space"]
Structure = Literal["dependency", "constituency", "both", "graph"]
Decoder = Literal["tree", "projective", "argmax"]
Punctuation = Literal["attach", "drop", "parse"]
# A function returns words, and tuples of words for a token of several words: ("do", "n't").
WordTokenizer = Literal["english", "spaces", "unicode"] | Callable[[str], Sequence[str | tuple[str, ...]]]
Precision = Literal["float32", "bfloat16", "float16", "float64", "int8"]

DTYPES: tuple[str, ...] = get_args(Precision)


@dataclass(frozen=True)
class Option:
    """
    One field of [`ParseOptions`], derived from its annotation and docstring.

    Args:
        name (`str`): Its name.
        default (`Any`): Its default.
        annotation (`Any`): Its annotation.
        kind (`type`): The type of its values: `bool`, `int` (at least 1) or `str`.
        choices (`tuple[str, ...]`): Its named values, if any.
        is_optional (`bool`): True if it may be None.
        takes_function (`bool`): True if it may be a function.
        is_open (`bool`): True if it may be another library's value, which is checked only in use.
        help (`str`): Its description, without markup.
    """

    name: str
    default: Any
    annotation: Any
    kind: type
    choices: tuple[str, ...]
    is_optional: bool
    takes_function: bool
    is_open: bool
    help: str

    def check(self, value: Any) -> None:
        """Raises `ValueError` for an invalid value."""
        if self.is_open or (self.is_optional and value is None) or (self.takes_function and callable(value)):
            return
        if not self.choices:
            _CHECKS[self.kind](self.name, value)
        elif not isinstance(value, str) or value not in self.choices:
            function = ", or a function" if self.takes_function else ""
            raise ValueError(f"{self.name} must be one of {', '.join(self.choices)}{function}, not {value!r}")


def check_number(name: str, value: Any) -> None:
    """Raises `ValueError` unless a value is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, not {value}")


def _check_flag(name: str, value: Any) -> None:
    # Sequences first: arrays with several values cannot be compared with True and False.
    if isinstance(value, str | Sequence) or value not in (True, False):
        raise ValueError(f"{name} must be True or False, not {value!r}")


def _check_string(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string, not {value!r}")


_CHECKS = {int: check_number, bool: _check_flag, str: _check_string}  # by kind of option


@dataclass(frozen=True, kw_only=True)
class ParseOptions:
    """
    The options of [`parse`], [`Parser`], the pipelines, the command `hf-structure parse`, spaCy's component and
    `annotate_corpus.py`, which all read them here.

    Args:
        sentences (`"line"`, `"split"`, `"model"`, `"auto"` or `Callable[[str], list[str]]`, *optional*):
            How raw text is split into sentences: not at all, a string or a line of a file is one (`line`), by rules
            (`split`; with the word tokenizer `unicode`, the rules for any language), by the model (`model`), or by the
            model if it can, else by rules (`auto`). In Python also a function that splits a text. By default a string
            is one sentence, with a warning if the rules find several.
        line_breaks (`"end"` or `"space"`, defaults to `"end"`):
            When sentences are split, a line break ends a sentence (`end`), or is white space like any other (`space`).
            An empty line always ends one.
        structure (`"dependency"`, `"constituency"`, `"both"` or `"graph"`, *optional*):
            The kind of structure; by default all that the model predicts, but of a parser that learned constituents
            beside dependencies, dependencies alone. `constituency` also lets causal language models of transformers
            parse.
        decoder (`"tree"`, `"projective"` or `"argmax"`, defaults to `"tree"`):
            The best tree with one root (`tree`), the best such tree without crossing arcs (`projective`), or the best
            head of each word, in general no tree (`argmax`). Models differ in the decoders they offer.
        k (`int`, defaults to 1):
            Number of trees or graphs of each sentence, best first; with structure `both`, of dependency trees.
        beam_size (`int`, *optional*):
            For models that build a structure step by step: number of derivations, graphs or trees explored; 1 is
            greedy. By default 1, or `4 * k` if `k` is more than 1; at least 16 for language models.
        rounds (`int`, *optional*):
            For models that refine their trees: maximum number of rounds.
        marginals (`bool`, defaults to `False`):
            Adds the probabilities of all arcs over all trees (for models with a beam, over the beam's trees or
            graphs).
        probabilities (`bool`, defaults to `False`):
            Adds the probabilities of predicted tags, features and lemmas: columns such as `upos_probability`.
        punctuation (`"attach"`, `"drop"` or `"parse"`, defaults to `"attach"`):
            For a model trained without punctuation: put marks into its tree by rule (`attach`), leave them out of the
            tree (`drop`), or show them to the model as words (`parse`). Marks alone are always parsed as words.
        word_tokenizer (`"english"`, `"spaces"`, `"unicode"` or `Callable`, *optional*):
            How raw text is split into words: by rules for English, at spaces, or by Unicode for any language. In
            Python also a function that returns words, and tuples of words for a token of several. By default by the
            model if it can, else by the rules that it was trained with.
        treebank (`str`, *optional*):
            For a model trained on several treebanks: the one whose annotation it follows; by default the first.
        language (`str`, *optional*):
            For a model that finds words in raw text of several languages: the language of the text, as in the names of
            its treebanks (`fr` for `fr_gsd`). By default words and sentences are found without it. With `auto`, each
            sentence gets the language that the model believes in, as comments of CoNLL-U (`# language = fr`).
        max_words (`int`, defaults to 1000):
            Refuses longer sentences: memory grows with the square of the length.
        skip_long (`bool`, defaults to `False`):
            Skips sentences of more words than `max_words` or than the model has positions for, instead of raising an
            error.
        skip_empty (`bool`, defaults to `False`):
            Skips sentences without words, such as missing values of a column, instead of raising an error.
        batch_size (`int`, defaults to 64):
            Maximum number of sentences in a batch; batches are smaller if lengths differ much.
        device (`str`, `int` or `torch.device`, *optional*):
            Device to compute on: `cpu`, `cuda`, ... By default a loaded model's device, else a GPU if there is one.
        dtype (`"float32"`, `"bfloat16"`, `"float16"`, `"float64"`, `"int8"` or `torch.dtype`, *optional*):
            Precision to compute in: by default a loaded model's own, else float32. `bfloat16` is faster on processors
            and GPUs with instructions for it, and changes a few heads in a thousand. `int8` is for CPUs: the linear
            layers multiply 8-bit integers.
        revision (`str`, *optional*):
            Branch, tag or commit of a model on the Hub; can also be part of its name, `org/model@revision`.
        trust_remote_code (`bool`, defaults to `False`):
            Runs code that comes with the model.
        progress (`bool`, defaults to `False`):
            Shows a progress bar.

    Raises:
        ValueError: an invalid value of an option.
        TypeError: an unknown option.
    """

    sentences: Splitter | None = None
    line_breaks: LineBreaks = "end"
    structure: Structure | None = None
    decoder: Decoder = "tree"
    k: int = 1
    beam_size: int | None = None
    rounds: int | None = None
    marginals: bool = False
    probabilities: bool = False
    punctuation: Punctuation = "attach"
    word_tokenizer: WordTokenizer | None = None
    treebank: str | None = None
    language: str | None = None
    max_words: int = MAX_WORDS
    skip_long: bool = False
    skip_empty: bool = False
    batch_size: int = 64
    device: str | Any = None  # torch's values are checked when a model is loaded, as this module does not import torch
    dtype: Precision | Any = None
    revision: str | None = None
    trust_remote_code: bool = False
    progress: bool = False

    def __post_init__(self) -> None:
        for option in OPTIONS.values():
            option.check(getattr(self, option.name))


def _described(annotated: type) -> dict[str, str]:
    """Maps names to descriptions in the `Args` of a docstring, without backticks. Empty under `python -OO`."""
    # From the docstring, so that the help of commands and the documentation of Python cannot differ.
    found = re.findall(r"^ {4}(\w+) \(.*\):\n((?: {8}.*\n)+)", inspect.cleandoc(annotated.__doc__ or ""), re.MULTILINE)
    return {name: " ".join(text.replace("`", "").split()) for name, text in found}


def _options() -> dict[str, Option]:
    descriptions = _described(ParseOptions)
    hints = get_type_hints(ParseOptions)
    found = {}
    for field in fields(ParseOptions):
        parts = get_args(hints[field.name]) or (hints[field.name],)
        literals = [part for part in parts if get_origin(part) is Literal]
        if get_origin(hints[field.name]) is Literal:
            literals = [hints[field.name]]
        choices = tuple(name for literal in literals for name in get_args(literal))
        found[field.name] = Option(
            field.name,
            field.default,
            hints[field.name],
            kind=str if choices else parts[0],
            choices=choices,
            is_optional=NoneType in parts,
            takes_function=any(get_origin(part) is collections.abc.Callable for part in parts),
            is_open=Any in parts,
            help=descriptions.get(field.name, ""),
        )
    return found


OPTIONS: Mapping[str, Option] = _options()


def check_names(options: Mapping[str, Any]) -> None:
    """Raises `TypeError` for an unknown option; the message names the nearest one."""
    for name in options:
        if name not in OPTIONS:
            nearest = difflib.get_close_matches(name, OPTIONS, n=1)
            hint = f": did you mean {nearest[0]!r}?" if nearest else f"; there are {', '.join(OPTIONS)}"
            raise TypeError(f"there is no option {name!r}{hint}")


def show_options(function: Callable, names: Iterable[str] = OPTIONS) -> None:
    """Lists options in the signature of a function that takes `**options`, because shells and spaCy read it."""
    signature = inspect.signature(function)
    *parameters, _ = signature.parameters.values()
    for name in names:
        option = OPTIONS[name]
        details = {"default": option.default, "annotation": option.annotation}
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, **details))
    function.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportFunctionMemberAccess]
