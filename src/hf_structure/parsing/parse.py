"""`parse(...)`: sentences to parses in one call."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.parsing.annotation import Tree
from hf_structure.parsing.options import DEFAULT_PARSER, show_options
from hf_structure.parsing.parser import Parser
from hf_structure.structures.parse import Parse
from hf_structure.structures.parses import Parses
from hf_structure.text.conllu import ConlluSentence
from hf_structure.text.sentences import SourceSentence

Model = str | Path | PreTrainedModel
OneSentence = str | Mapping[str, Any] | ConlluSentence | SourceSentence
Sentence = OneSentence | Sequence[str]


@overload
def parse(
    inputs: str,
    model: Model = DEFAULT_PARSER,
    *,
    sentences: Literal["split", "model"] | Callable[[str], list[str]],
    **options: Any,
) -> Parses: ...
@overload
def parse(
    inputs: OneSentence,
    model: Model = DEFAULT_PARSER,
    *,
    sentences: Literal["line"] | None = None,
    **options: Any,
) -> Parse: ...
@overload
def parse(inputs: Iterator[Any], model: Model = DEFAULT_PARSER, **options: Any) -> Iterator[Any]: ...
@overload
def parse(inputs: Any, model: Model = DEFAULT_PARSER, **options: Any) -> Parses: ...
def parse(
    inputs: Any,
    model: Model = DEFAULT_PARSER,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    tags: Sequence[str] | Iterable[Sequence[str] | None] | None = None,
    initial: Tree | Iterable[Tree | None] | None = None,
    **options: Any,
) -> Parse | Parses | Iterator[Any] | None:
    """
    Parses sentences: `Parser(model, **options)(inputs)`. Models stay loaded for the next call.

    Args:
        inputs (`str`, `list[str]`, `list[list[str]]`, an array, series or column of either, or an iterator):
            Raw text, which is split into words (and with `sentences` into sentences), or sentences as lists of words,
            which come back as they are. Also sentences of [`~hf_structure.text.conllu.read_conllu`],
            [`~hf_structure.text.sdp.read_sdp`] and the package `conllu`, whose comments, multiword tokens, MISC and
            other columns the parse keeps; a spaCy `Span` or `Doc`; and dictionaries: `words` or `text`, and optionally
            `tags` (which a model that reads none ignores) and `initial`. Nothing else of them is read.
        model (`str`, `Path` or `PreTrainedModel`, defaults to `"rngt-en"`):
            Short name, folder or Hub name of a model, or a loaded model (which is put into evaluation mode).
        tokenizer (`PreTrainedTokenizerBase`, *optional*):
            The model's tokenizer; needed with a loaded model that does not come from a folder.
        tags (`list[list[str]]` or an iterator of lists, *optional*):
            For a model that reads part-of-speech tags: the tags of the words of every sentence, or of the one
            sentence. Tags that it does not know, and None instead of a list, are read as unknown.
        initial (`list` or an iterator of trees, *optional*):
            For a model that refines given trees (`RNGTransformerForParsing`): the tree of every sentence, or None, or
            the one tree of the one sentence, as a `DependencyTree`, a `Parse`, a sentence of `read_conllu`, heads, or
            a pair of heads and labels. A model with labels needs labels, and leaves out the arcs with labels that it
            does not know. The heads may contain cycles and several roots.
        options: Those of [`ParseOptions`].

    Returns:
        `Parse` for one sentence, [`Parses`], a list of them, for what has a length, else an iterator of `Parse`; in
            the order given, with None for a sentence that is left out. Where text is split into `sentences`, there is
            a list of their parses, which may be empty, in the place of each `Parse`.

    Raises:
        TypeError: there is no such option.
        ValueError: no such model, device or value of an option, a model that does not give this structure or cannot
            use this tokenizer, these tags or initial trees; tags or initial trees for text that is to be split.
        SentenceError: a sentence that cannot be read, is empty or too long, or has another number of tags or heads.
            The message gives the number of the sentence; from an iterator, those before it come out first. It is a
            `ValueError`.

    Warns:
        UserWarning: a model that reads tags is given a sentence without any that it knows; likewise labels of trees. A
            string holds several sentences, and `sentences` does not say what to do.
    """
    return Parser(model, tokenizer=tokenizer, **options)(inputs, tags=tags, initial=initial)


show_options(parse)
