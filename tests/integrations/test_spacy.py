import pytest
import spacy
from spacy.tokens import Doc

import hf_structure
from hf_structure.integrations.spacy import StructureParser

TEXT = " The old cat slept.  Dr. No barked at it!\n"


@pytest.fixture(scope="module")
def nlp(g2g_transformer):
    nlp = spacy.blank("en")
    nlp.add_pipe("hf_structure", config={"model": str(g2g_transformer)})
    return nlp


def assert_parsed(doc: Doc, sentences: list[list[str]], model) -> None:
    """Whether the words hang as `parse` says."""
    found = [[token for token in sentence if not token.is_space] for sentence in doc.sents]
    assert [[token.text for token in tokens] for tokens in found] == sentences
    for tokens, parsed in zip(found, hf_structure.parse(sentences, model), strict=True):
        tree = parsed.dependency
        places = {token.i: number for number, token in enumerate(tokens, start=1)}
        assert [0 if token.head is token or token.head == token else places[token.head.i] for token in tokens] == list(
            tree.heads
        )
        assert [token.dep_ for token in tokens if token.head != token] == [
            label for head, label in zip(tree.heads, tree.labels, strict=True) if head
        ]


SENTENCES = [["The", "old", "cat", "slept", "."], ["Dr.", "No", "barked", "at", "it", "!"]]


def test_component(nlp, g2g_transformer):
    doc = nlp(TEXT)
    assert doc.text == TEXT
    assert_parsed(doc, SENTENCES, g2g_transformer)
    assert [token.head.text for token in doc if token.is_space] == ["The", ".", "!"]
    assert all(token.head == token for token in doc if token.dep_ == "ROOT")


def test_several_documents_at_once(nlp, g2g_transformer):
    docs = list(nlp.pipe([TEXT, "", "  ", "A cat."], batch_size=2))
    assert [len(list(doc.sents)) for doc in docs] == [2, 0, 1, 1]
    assert_parsed(docs[0], SENTENCES, g2g_transformer)
    assert_parsed(docs[3], [["A", "cat", "."]], g2g_transformer)


def test_sentences_of_components_before_it(g2g_transformer):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer", config={"punct_chars": [","]})
    nlp.add_pipe("hf_structure", config={"model": str(g2g_transformer)})
    words = [["The", "cat", ","], ["it", "slept", ".", "It", "sleeps", "."]]
    assert_parsed(nlp("The cat, it slept. It sleeps."), words, g2g_transformer)


def test_words_that_spacy_split(g2g_transformer):
    doc = Doc(spacy.blank("en").vocab, words=["New York", "sleeps"])
    assert_parsed(StructureParser(str(g2g_transformer), 64)(doc), [["New York", "sleeps"]], g2g_transformer)


def test_no_such_model():
    with pytest.raises(ValueError, match="no model 'nonsense'"):
        spacy.blank("en").add_pipe("hf_structure", config={"model": "nonsense"})


def test_to_spacy():
    tree = hf_structure.DependencyTree(["The", "cat", "slept", "."], [2, 3, 0, 3], ["det", "nsubj", "root", "punct"])
    doc = tree.to_spacy([True, True, False, False])
    assert doc.text == "The cat slept."
    assert [(token.dep_, token.head.i) for token in doc] == [("det", 1), ("nsubj", 2), ("ROOT", 2), ("punct", 2)]
    assert [sentence.text for sentence in doc.sents] == ["The cat slept."]
    assert [token.dep_ for token in hf_structure.DependencyTree(["a", "b"], [2, 0]).to_spacy()] == ["dep", "ROOT"]
    with pytest.raises(ValueError, match="needs a tree"):
        hf_structure.DependencyTree(["a", "b"], [2, 1]).to_spacy()
