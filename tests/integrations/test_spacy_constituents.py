"""The attributes of spans that hold constituents."""

import pytest
import spacy
from spacy.tokens import Doc
from tiny_models import new_rng_transformer

import hf_structure
from hf_structure.text.tokenization import build_word_tokenizer

TEXT = "The old cat  slept. It barked!"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    words = ["The", "old", "cat", "slept", ".", "It", "barked", "!"]
    chains = ["NP", "S+VP", "VP"]
    folder = tmp_path_factory.mktemp("constituents")
    return new_rng_transformer(folder, build_word_tokenizer(words), constituents=chains, constituent_size=8)


@pytest.fixture(scope="module")
def doc(model):
    nlp = spacy.blank("en")
    nlp.add_pipe("hf_structure", config={"model": str(model), "structure": "both", "sentences": "split"})
    return nlp(TEXT)


def test_trees_are_those_of_parse(doc, model):
    for sentence, words in zip(doc.sents, [["The", "old", "cat", "slept", "."], ["It", "barked", "!"]], strict=True):
        tree = hf_structure.parse({"words": words}, model, structure="constituency").constituency
        assert sentence._.parse_string == tree.to_brackets()
        tokens = [token for token in sentence if not token.is_space]
        found = [(span.start, span.end) for span in sentence._.constituents]
        assert found == list(dict.fromkeys((tokens[start].i, tokens[end - 1].i + 1) for start, end in tree.spans))
        for start, end in tree.spans:
            span = doc[tokens[start].i : tokens[end - 1].i + 1]
            expected = [label for each, label in zip(tree.spans, tree.labels, strict=True) if each == (start, end)]
            assert list(span._.labels) == expected


def test_parents_and_children(doc):
    sentence = next(doc.sents)
    assert sentence._.parent is None
    for span in sentence._.constituents:
        for child in span._.children:
            assert (child._.parent.start, child._.parent.end) == (span.start, span.end)
    whole = next(iter(sentence._.constituents))
    reached = [span for span in sentence._.constituents if (span.start, span.end) != (whole.start, whole.end)]
    pending = list(whole._.children)
    for span in pending:
        pending += span._.children
    assert {(span.start, span.end) for span in pending} == {(span.start, span.end) for span in reached}


def test_documents_are_saved_with_their_constituents(doc):
    again = Doc(doc.vocab).from_bytes(doc.to_bytes())
    assert [span._.labels for span in next(again.sents)._.constituents] == [
        span._.labels for span in next(doc.sents)._.constituents
    ]


def test_errors(doc, model):
    nlp = spacy.blank("en")
    with pytest.raises(ValueError, match="no constituents: give the component the structure 'both'"):
        _ = nlp(TEXT)[:2]._.labels
    with pytest.raises(ValueError, match="structure must be 'dependency' or 'both'"):
        nlp.add_pipe("hf_structure", config={"model": str(model), "structure": "graph"})
    constituents = {(span.start, span.end) for span in next(doc.sents)._.constituents}
    other = next(
        doc[start:end] for start in range(3) for end in (start + 2, start + 3) if (start, end) not in constituents
    )
    with pytest.raises(ValueError, match="no constituent"):
        _ = other._.parse_string
