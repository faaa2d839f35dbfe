import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

import hf_structure
from hf_structure.integrations.spacy import StructureParser
from hf_structure.modules.int8 import is_quantized
from hf_structure.parsing.parser import Parser

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
    assert_parsed(
        StructureParser(Parser(g2g_transformer, sentences="line"))(doc), [["New York", "sleeps"]], g2g_transformer
    )


LONG = "The cat saw " * 30  # more words than the parser has positions for


def left_out(sentence) -> bool:
    """Whether only the first word has a head, itself."""
    first, *others = sentence
    return first.head == first and not any(token.has_head() or token.has_dep() for token in others)


def test_long_sentences_are_left_without_heads(nlp, g2g_transformer):
    texts = [TEXT, f"A cat. {LONG}. It slept.", "A dog."]
    with pytest.warns(UserWarning, match="1 sentences have no heads, since they are too long, the first of 91 words"):
        docs = list(nlp.pipe(texts))
    assert_parsed(docs[0], SENTENCES, g2g_transformer)
    assert_parsed(docs[2], [["A", "dog", "."]], g2g_transformer)
    for doc in (docs[1], Doc(nlp.vocab).from_bytes(docs[1].to_bytes())):
        first, second, third = doc.sents
        assert (len(first), len(second), len(third)) == (3, 91, 3)
        assert left_out(second)
        assert not left_out(first)
        assert not left_out(third)
    assert_parsed(first.as_doc(), [["A", "cat", "."]], g2g_transformer)
    assert_parsed(third.as_doc(), [["It", "slept", "."]], g2g_transformer)


def test_long_sentences_at_the_ends_of_a_text(nlp):
    with pytest.warns(UserWarning, match="2 sentences have no heads, since they are too long, the first of 91"):
        doc = nlp(f" {LONG}.  {LONG}! ")
    sentences = [[token for token in sentence if not token.is_space] for sentence in doc.sents]
    assert list(map(len, sentences)) == [91, 91]
    assert all(map(left_out, sentences))


def component(model, **config):
    nlp = spacy.blank("en")
    nlp.add_pipe("hf_structure", config={"model": str(model), **config})
    return nlp


def test_long_sentences_may_be_errors(g2g_transformer):
    nlp = component(g2g_transformer, skip_long=False)
    docs = nlp.pipe([TEXT, LONG, "A dog."])
    assert_parsed(next(docs), SENTENCES, g2g_transformer)
    with pytest.raises(ValueError, match="sentence 1: the sentence has 90 words, more than the 60 that this model"):
        next(docs)


@pytest.mark.parametrize("batch_size", [1, 2, 8])
def test_an_error_handler_is_told_which_document_is_wrong(g2g_transformer, batch_size):
    nlp, failed = component(g2g_transformer, skip_long=False), []
    nlp.set_error_handler(
        lambda name, proc, docs, error: failed.append((name, [doc.text for doc in docs], str(error)))
    )
    docs = list(nlp.pipe([TEXT, LONG, "A dog.", f"{LONG}."], batch_size=batch_size))
    assert_parsed(docs[0], SENTENCES, g2g_transformer)
    assert_parsed(docs[1], [["A", "dog", "."]], g2g_transformer)
    assert len(docs) == 2
    assert [(name, text) for name, [text], _ in failed] == [("hf_structure", LONG), ("hf_structure", f"{LONG}.")]
    assert all("the sentence has 90 words, more than the 60" in error for _, _, error in failed)  # marks are not seen


def test_several_processes(g2g_transformer):
    docs = list(component(g2g_transformer).pipe([TEXT, "A dog."] * 2, n_process=2, batch_size=1))
    for doc in docs[::2]:
        assert_parsed(doc, SENTENCES, g2g_transformer)


def test_no_such_treebank(tagger):
    with pytest.raises(ValueError, match="follows the habits of one treebank alone"):
        component(tagger, treebank="gum")


def test_to_spacy():
    tree = hf_structure.DependencyTree(["The", "cat", "slept", "."], [2, 3, 0, 3], ["det", "nsubj", "root", "punct"])
    doc = tree.to_spacy([True, True, False, False])
    assert doc.text == "The cat slept."
    assert [(token.dep_, token.head.i) for token in doc] == [("det", 1), ("nsubj", 2), ("ROOT", 2), ("punct", 2)]
    assert [sentence.text for sentence in doc.sents] == ["The cat slept."]
    assert [token.dep_ for token in hf_structure.DependencyTree(["a", "b"], [2, 0]).to_spacy()] == ["dep", "ROOT"]
    with pytest.raises(ValueError, match="needs a tree"):
        hf_structure.DependencyTree(["a", "b"], [2, 1]).to_spacy()


def test_tags_lemmas_features_and_sentences_of_the_model(tagger):
    nlp = component(tagger)
    text = " Cats aren't dogs,they slept!\n\nTries  it "
    docs = list(nlp.pipe([text, "", "Cats sleep", "A dog."]))
    doc = docs[0]
    assert doc.text == text
    assert len(list(doc.sents)) > 2
    starts = [sentence[0].i for sentence in doc.sents]
    assert any(token.text == "Tries" and token.i in starts for token in doc)
    words = [[token.text for token in sentence if not token.is_space] for sentence in doc.sents]
    assert_parsed(doc, words, tagger)
    for sentence, parsed in zip(doc.sents, hf_structure.parse(words, tagger), strict=True):
        tokens = [token for token in sentence if not token.is_space]
        for token, word in zip(tokens, parsed, strict=True):
            assert (token.pos_, token.tag_, token.lemma_) == (word.upos, word.xpos, word.lemma)
            assert token.morph.to_dict() == word.feats
    assert doc.has_annotation("MORPH")
    read = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert [token.lemma_ for token in read] == [token.lemma_ for token in doc]
    known = Doc(nlp.vocab, words=["It", "slept", ".", "A", "dog"], sent_starts=[True, False, False, True, False])
    first, second = nlp.pipe([known, nlp.make_doc(text)])  # one with sentences, one without
    assert [sentence.text for sentence in first.sents] == ["It slept .", "A dog"]
    assert [sentence.text for sentence in second.sents] == [sentence.text for sentence in doc.sents]
    given = spacy.blank("en")
    given.add_pipe("sentencizer")
    given.add_pipe("hf_structure", config={"model": str(tagger)})
    assert [sentence.text for sentence in given("It slept. A dog").sents] == ["It slept.", "A dog"]


def test_columns_of_a_tree(tagger):
    [parsed] = hf_structure.parse([["Cats", "slept"]], tagger)
    for token, word in zip(parsed.to_spacy(), parsed, strict=True):
        assert (token.pos_, token.tag_, token.lemma_) == (word.upos, word.xpos, word.lemma)
        assert token.morph.to_dict() == word.feats
    columns = {"upos": ["NOUN", None], "tone": ["low", None], "feats": ["Number=Plur", None]}
    cats, slept = hf_structure.DependencyTree(["Cats", "slept"], [2, 0], columns=columns).to_spacy()
    assert (cats.pos_, cats._.tone, str(cats.morph)) == ("NOUN", "low", "Number=Plur")
    assert (slept.pos_, slept._.tone, str(slept.morph)) == ("", None, "")


def test_int8(g2g_transformer):
    nlp = spacy.blank("en")
    nlp.add_pipe("hf_structure", config={"model": str(g2g_transformer), "dtype": "int8"})
    [name] = nlp.pipe_names
    expected = hf_structure.parse(SENTENCES, g2g_transformer, dtype="int8", device="cpu")
    found = [token.dep_ for sentence in nlp(TEXT).sents for token in sentence if not token.is_space]
    labels = [
        label if head else "ROOT"
        for parsed in expected
        for head, label in zip(parsed.dependency.heads, parsed.dependency.labels, strict=True)
    ]
    assert found == labels
    assert is_quantized(nlp.get_pipe(name).parser.model)


def test_noun_chunks_of_the_component():
    nlp = component("rngt-en-fast")
    text = "Two old cats on the mat liked the mice of New York City, and Mary Smith saw my brother's car."
    chunks = ["Two old cats", "the mat", "the mice", "New York City", "Mary Smith", "my brother's car"]
    for doc in (nlp(text), Doc(nlp.vocab).from_bytes(nlp(text).to_bytes())):
        assert [chunk.text for chunk in doc.noun_chunks] == chunks


def examples_of(doc: Doc, **changes) -> list[Example]:
    """The words of a parsed document, and its own annotation with these changes as the correct one."""
    words = [token.text for token in doc]
    annotation = {"words": words, "heads": [token.head.i for token in doc], "deps": [token.dep_ for token in doc]}
    annotation |= {"tags": [token.tag_ for token in doc], "pos": [token.pos_ for token in doc]}
    annotation |= {"morphs": [str(token.morph) for token in doc], "lemmas": [token.lemma_ for token in doc]}
    return [Example.from_dict(Doc(doc.vocab, words=words), {**annotation, **changes})]


NAMES = ("dep_uas", "dep_las", "tag_acc", "pos_acc", "morph_acc", "lemma_acc", "sents_f")


def test_scores_of_the_component():
    nlp = component("rngt-en-fast")
    doc = nlp(Doc(nlp.vocab, words=["The", "cat", "saw", "it", "."]))
    scores = nlp.evaluate(examples_of(doc))
    assert [scores[name] for name in NAMES] == [1.0] * len(NAMES)
    changes = {"heads": [2, 2, 2, 2, 0], "deps": ["det", "obj", "ROOT", "obj", "punct"]}  # marks do not count
    changes |= {"lemmas": ["the", "dog", "see", "it", "."], "tags": ["X"] * 5}
    scores = nlp.evaluate(examples_of(doc, **changes))
    assert [scores[name] for name in NAMES] == pytest.approx([0.75, 0.5, 0.0, 1.0, 1.0, 0.8, 1.0])
    assert scores["dep_las_per_type"]["nsubj"]["p"] == 0.0
    assert scores["morph_per_feat"]["Number"]["f"] == 1.0


def test_scores_of_what_a_parser_gives(nlp):
    doc = nlp(Doc(nlp.vocab, words=["The", "cat", "slept"]))
    scores = nlp.evaluate(examples_of(doc))
    assert scores["dep_uas"] == scores["dep_las"] == 1.0
    assert not {"tag_acc", "pos_acc", "morph_acc", "lemma_acc"} & set(scores)


def test_weights_of_scores(nlp):
    weights = nlp.config["training"]["score_weights"]
    assert {name: weight for name, weight in weights.items() if weight} == {"dep_uas": 0.5, "dep_las": 0.5}
    assert set(NAMES) <= set(weights)
