"""Noun chunks of trees in Universal Dependencies."""

import pytest
import spacy
from spacy.tokens import Doc

import hf_structure
from hf_structure.drawing.noun_chunks import add_noun_chunks, vocab_of

# Each word with its part of speech, head and relation; its chunks.
SENTENCES = {
    "arguments": (
        "She/PRON/2/nsubj gave/VERB/0/root her/PRON/5/nmod:poss younger/ADJ/5/amod brother/NOUN/2/iobj "
        "two/NUM/8/nummod old/ADJ/8/amod books/NOUN/2/obj in/ADP/11/case the/DET/11/det park/NOUN/2/obl",
        ["She", "her younger brother", "two old books", "the park"],
    ),
    "modifiers": (
        "The/DET/2/det mayor/NOUN/10/nsubj:pass of/ADP/5/case New/ADJ/5/amod York/PROPN/2/nmod ,/PUNCT/8/punct "
        "Ed/PROPN/8/compound Koch/PROPN/2/appos was/AUX/10/aux:pass seen/VERB/0/root by/ADP/12/case "
        "people/NOUN/10/obl:agent",
        ["The mayor", "New York", "Ed Koch", "people"],
    ),
    "coordination": (
        "Both/CCONJ/3/cc:preconj black/ADJ/3/amod cats/NOUN/8/nsubj and/CCONJ/7/cc my/PRON/6/nmod:poss "
        "sister/NOUN/7/compound dogs/NOUN/3/conj bark/VERB/0/root",
        ["black cats", "my sister dogs"],
    ),
    "possessors": (
        "My/PRON/2/nmod:poss brother/NOUN/5/nmod:poss 's/PART/2/case new/ADJ/5/amod car/NOUN/6/nsubj "
        "broke/VERB/0/root",
        ["My brother 's new car"],
    ),
    "predicates": (
        "I/PRON/2/nsubj know/VERB/0/root that/SCONJ/7/mark she/PRON/7/nsubj is/AUX/7/cop a/DET/7/det "
        "doctor/NOUN/2/ccomp",
        ["I", "she", "a doctor"],
    ),
    "names": (
        "President/NOUN/2/nmod:desc Barack/PROPN/4/nsubj Obama/PROPN/2/flat read/VERB/0/root page/NOUN/4/obj "
        "5/NUM/5/nummod",
        ["President Barack Obama", "page 5"],
    ),
    "hyphens": (
        "A/DET/5/det well/ADV/4/advmod -/PUNCT/4/punct known/ADJ/5/amod fact/NOUN/0/root ,/PUNCT/8/punct "
        "twenty/NUM/8/nummod years/NOUN/5/parataxis",
        ["A well - known fact", "twenty years"],
    ),
    "relative": (
        "People/NOUN/0/root who/PRON/3/nsubj sing/VERB/1/acl:relcl there/PRON/3/expl",
        ["People", "who"],
    ),
}  # fmt: skip


def document(sentence: str, vocab) -> Doc:
    words, tags, heads, relations = zip(*(word.rsplit("/", 3) for word in sentence.split()), strict=True)
    tree = hf_structure.DependencyTree(words, list(map(int, heads)), relations, columns={"upos": tags})
    return tree.to_spacy(vocab=vocab)


@pytest.mark.parametrize("name", SENTENCES)
@pytest.mark.parametrize("language", ["en", "xx"])
def test_chunks(name, language):
    sentence, expected = SENTENCES[name]
    doc = document(sentence, language)
    assert [chunk.text for chunk in doc.noun_chunks] == expected
    assert {chunk.label_ for chunk in doc.noun_chunks} == {"NP"}
    [whole] = doc.sents
    assert [chunk.text for chunk in whole.noun_chunks] == expected


def test_documents_without_relations():
    doc = Doc(vocab_of("en"), words=["cats", "sleep"])
    with pytest.raises(ValueError, match="E029"):
        list(doc.noun_chunks)


def test_languages_of_which_spacy_knows_these_relations():
    own = {language: spacy.blank(language).vocab.get_noun_chunks for language in ("fr", "en", "xx")}
    found = {language: vocab_of(language).get_noun_chunks for language in own}
    assert found["fr"] is own["fr"]
    assert own["xx"] is None
    assert found["xx"] is found["en"] is not own["en"]
    vocab = spacy.blank("de").vocab
    add_noun_chunks(vocab)
    assert vocab.get_noun_chunks is found["xx"]


def test_language_of_documents():
    tree = hf_structure.DependencyTree(["Ten", "cats"], [2, 0], ["nummod", "root"], columns={"upos": ["NUM", "NOUN"]})
    parse = hf_structure.Parse(tree.words, tree)
    for doc in (tree.to_spacy(), parse.to_spacy()):
        assert doc.lang_ == "en"
        assert [token.like_num for token in doc] == [True, False]
        assert [chunk.text for chunk in doc.noun_chunks] == ["Ten cats"]
    assert tree.to_spacy().vocab is parse.to_spacy().vocab
    assert tree.to_spacy(vocab="de").lang_ == "de"
    vocab = spacy.Vocab()
    assert len(vocab) == 0
    assert tree.to_spacy(vocab=vocab).vocab is vocab  # empty as it is
    with pytest.raises(ImportError, match="qq"):
        tree.to_spacy(vocab="qq")
