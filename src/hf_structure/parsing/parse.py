"""`parse(...)`: parses sentences in one call."""

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
    Parses sentences, like `Parser(model, **options)(inputs)`. Models stay loaded for the next call.

    Args:
        inputs (`str`, `list[str]`, `list[list[str]]`, an array, series or column of either, or an iterator):
            Raw text, which is split into words (and with `sentences` into sentences), or sentences as lists of words,
            which are kept as they are. Also sentences of [`~hf_structure.text.conllu.read_conllu`],
            [`~hf_structure.text.sdp.read_sdp`] and the package `conllu`, whose comments, multiword tokens, MISC and
            other columns the parse keeps; a spaCy `Span` or `Doc`; and dictionaries with `words` or `text`, and
            optionally `tags` (ignored by a model that reads none) and `initial`. Other keys are ignored.
        model (`str`, `Path` or `PreTrainedModel`, defaults to `"rngt-en"`):
            Short name, folder or Hub name of a model, or a loaded model (which is set to evaluation mode).
        tokenizer (`PreTrainedTokenizerBase`, *optional*):
            The model's tokenizer; required for a loaded model that does not come from a folder.
        tags (`list[list[str]]` or an iterator of lists, *optional*):
            For a model that reads part-of-speech tags: the tags of every sentence, or of the single sentence. Tags
            outside its vocabulary, and None instead of a list, are read as unknown.
        initial (`list` or an iterator of trees, *optional*):
            For a model that refines given trees (`RNGTransformerForParsing`): the tree of every sentence, or None, or
            the tree of the single sentence, as a `DependencyTree`, a `Parse`, a sentence of `read_conllu`, heads, or a
            pair of heads and labels. A model with labels requires labels, and drops arcs with labels outside its
            vocabulary. The heads may contain cycles and several roots.
        options: See [`ParseOptions`].

    Returns:
        `Parse` for one sentence, [`Parses`], a list of them, for inputs with a length, else an iterator of `Parse`;
            in input order, with None for a skipped sentence. If text is split into `sentences`, each `Parse` is
            replaced by a list of parses, which may be empty.

    Raises:
        TypeError: an unknown option.
        ValueError: an unknown model or device, an invalid value of an option, a model that does not predict this
            structure or cannot use this tokenizer, these tags or initial trees; tags or initial trees for text to
            split.
        SentenceError: a sentence that cannot be read, is empty or too long, or has another number of tags or heads.
            The message gives the number of the sentence. An iterator first yields the parses before it. The error is a
            `ValueError`.

    Warns:
        UserWarning: a sentence has no tag that the model knows, or an initial tree no label. A string holds several
            sentences, and `sentences` is not given.
    """
    return Parser(model, tokenizer=tokenizer, **options)(inputs, tags=tags, initial=initial)


show_options(parse)
