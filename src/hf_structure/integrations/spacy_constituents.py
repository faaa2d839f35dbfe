"""
The constituents of a document in spaCy, by the names that users of benepar know:

    nlp.add_pipe("hf_structure", config={"model": ..., "structure": "both"})
    sentence = next(nlp("The cat slept.").sents)
    sentence._.parse_string  # (S (NP (DT The) (NN cat)) (VP (VBD slept)) (. .))
    [(span.text, span._.labels) for span in sentence._.constituents]

Positions are those of tokens; white space between the words of a constituent belongs to it.
"""

from collections.abc import Iterator, Sequence

from spacy.tokens import Doc, Span, Token

from hf_structure.structures.constituency_tree import ConstituencyTree
from hf_structure.structures.parse import Parse

CONSTITUENTS = "hf_structure_constituents"  # the key of `doc.user_data`: lists of start, end and label, in pre-order


def add_extensions() -> None:
    """Adds the attributes to spans: `labels`, `constituents`, `parse_string`, `parent` and `children`."""
    getters = {
        "labels": span_labels,
        "constituents": span_constituents,
        "parse_string": parse_string,
        "parent": parent,
        "children": children,
    }
    for name, getter in getters.items():
        Span.set_extension(name, getter=getter, force=True)


def set_constituents(doc: Doc, sentences: Sequence[tuple[Sequence[Token], Parse | None]]) -> None:
    """Stores the constituents of parsed sentences with their document."""
    found: list[tuple[int, int, str]] = []
    for tokens, parsed in sentences:
        tree = None if parsed is None else parsed.constituency
        if tree is not None:
            labels = tree.labels or [""] * len(tree.spans)
            for (start, end), label in zip(tree.spans, labels, strict=True):
                found.append((tokens[start].i, tokens[end - 1].i + 1, label))
    doc.user_data[CONSTITUENTS] = found


def _inside(span: Span) -> list[tuple[int, int, str]]:
    """The constituents within a span. Raises `ValueError` for a document without any."""
    if CONSTITUENTS not in span.doc.user_data:
        raise ValueError("this document has no constituents: give the component the structure 'both'")
    start, end = _words_of(span)
    return [each for each in span.doc.user_data[CONSTITUENTS] if start <= each[0] and each[1] <= end]


def _words_of(span: Span) -> tuple[int, int]:
    """A span without the white space at its ends."""
    words = [token.i for token in span if not token.is_space]
    return (words[0], words[-1] + 1) if words else (span.start, span.end)


def span_labels(span: Span) -> tuple[str, ...]:
    """The labels of the constituents of exactly these words, outer ones first; none if there is no such."""
    words = _words_of(span)
    return tuple(label for start, end, label in _inside(span) if (start, end) == words)


def span_constituents(span: Span) -> Iterator[Span]:
    """The constituents within a span, outer ones first, each of a unary chain once."""
    for start, end in dict.fromkeys((start, end) for start, end, _ in _inside(span)):
        yield span.doc[start:end]


def parse_string(span: Span) -> str:
    """
    The brackets of a sentence or constituent, with the tags of its words. Raises `ValueError` for words that are no
    constituent.
    """
    words = [token for token in span if not token.is_space]
    positions = {token.i: number for number, token in enumerate(words)}
    inside = _inside(span)
    spans = [(positions[start], positions[end - 1] + 1) for start, end, _ in inside]
    if len(words) > 1 and (0, len(words)) not in spans:
        raise ValueError(f"these words are no constituent: {span.text!r}")
    tags = [token.tag_ or token.pos_ for token in words]
    labels = [label for _, _, label in inside]
    return ConstituencyTree([token.text for token in words], spans, labels, tags).to_brackets()


def parent(span: Span) -> Span | None:
    """The smallest larger constituent around a span."""
    start, end = _words_of(span)
    sentence = span.sent
    around = [each for each in _inside(sentence) if each[0] <= start and end <= each[1] and each[:2] != (start, end)]
    # In pre-order, the last one is the innermost.
    return span.doc[around[-1][0] : around[-1][1]] if around else None


def children(span: Span) -> Iterator[Span]:
    """The constituents directly within a span."""
    reached = span.start
    own = _words_of(span)
    for inner in span_constituents(span):
        if (inner.start, inner.end) != own and inner.start >= reached:
            yield inner
            reached = inner.end
