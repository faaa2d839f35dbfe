"""
A component of spaCy that sets heads and relations:

    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("hf_structure", config={"model": "rngt-en-ewt"})
    doc = nlp("The cat that chased the mouse slept.")
    [(token.text, token.dep_, token.head.text) for token in doc]

Words are spaCy's. Sentences are those that the components before it found, else those of
[`~hf_structure.data.text.split_sentences`]. A model that reads tags is given `token.tag_`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby
from typing import Any

import numpy as np

from hf_structure.data.text import sentence_spans
from hf_structure.pipelines.parsing import load_parser, parse
from hf_structure.structures.dependency_tree import DependencyTree

try:
    from spacy.attrs import DEP, HEAD
    from spacy.language import Language
    from spacy.tokens import Doc, Token
    from spacy.util import minibatch
except ImportError as error:
    raise ImportError("this needs spaCy: pip install spacy") from error

UNLABELLED = "dep"


class StructureParser:
    """
    The component.

    Args:
        model (`str`): Short name, folder or Hub name of a model that gives dependency trees.
        batch_size (`int`): Sentences that the model reads at once.

    Raises:
        ValueError: there is no such model.
    """

    def __init__(self, model: str, batch_size: int):
        self.model, self.tokenizer = load_parser(model, None, None)
        self.batch_size = batch_size

    def __call__(self, doc: Doc) -> Doc:
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], batch_size: int = 64) -> Iterator[Doc]:
        """Parses the sentences of `batch_size` documents together."""
        for docs in minibatch(stream, batch_size):
            sentences = [_sentences(doc) for doc in docs]
            given = [_as_dictionary(tokens) for each in sentences for tokens in each]
            options = {"structure": "dependency", "batch_size": self.batch_size}
            trees = (parsed.dependency for parsed in parse(given, self.model, tokenizer=self.tokenizer, **options))
            for doc, each in zip(docs, sentences, strict=True):
                yield _annotate(doc, [(tokens, next(trees)) for tokens in each])


@Language.factory(
    "hf_structure",
    default_config={"model": "rngt-en-ewt-fast", "batch_size": 64},
    assigns=["token.dep", "token.head", "token.is_sent_start", "doc.sents"],
)
def make_parser(nlp: Language, name: str, model: str, batch_size: int) -> StructureParser:
    """What `nlp.add_pipe("hf_structure", config={"model": ..., "batch_size": ...})` adds."""
    return StructureParser(model, batch_size)


def _sentences(doc: Doc) -> list[list[Token]]:
    """The words of each sentence, without white space."""
    words = [token for token in doc if not token.is_space]
    if doc.has_annotation("SENT_START"):
        number = list(accumulate(token.is_sent_start is True for token in doc))
        return [list(group) for _, group in groupby(words, lambda token: number[token.i])]
    ends = [end for _, end in sentence_spans(doc.text)]
    return [list(group) for _, group in groupby(words, lambda token: bisect_right(ends, token.idx))]


def _as_dictionary(tokens: Sequence[Token]) -> dict[str, Any]:
    """What [`~hf_structure.parse`] is given of a sentence."""
    tags = [token.tag_ for token in tokens]
    return {"words": [token.text for token in tokens], "tags": tags if any(tags) else None}


def _annotate(doc: Doc, parsed: Iterable[tuple[Sequence[Token], DependencyTree]]) -> Doc:
    """Sets heads and relations. White space hangs on the word before it, at the beginning on the one after it."""
    heads, relations = list(range(len(doc))), [doc.vocab.strings.add(UNLABELLED)] * len(doc)
    for tokens, tree in parsed:
        for token, word in zip(tokens, tree, strict=True):
            heads[token.i] = tokens[word.head - 1].i if word.head else token.i
            relations[token.i] = doc.vocab.strings.add((word.relation or UNLABELLED) if word.head else "ROOT")
    words = [token.i for token in doc if not token.is_space]
    for token in doc:
        if token.is_space and words:
            heads[token.i] = words[max(bisect_right(words, token.i) - 1, 0)]
    offsets = np.array(heads, dtype=np.int64) - np.arange(len(doc))
    columns = np.stack([offsets.astype(np.uint64), np.array(relations, dtype=np.uint64)], axis=1)
    return doc.from_array([HEAD, DEP], columns)
