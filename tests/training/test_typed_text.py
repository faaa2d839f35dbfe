from collections import Counter
from random import Random

import datasets
import pytest
from transformers import TrainingArguments

from hf_structure.algorithms.word_annotations import lemma_of
from hf_structure.training.arguments import DataArguments
from hf_structure.training.corpora import Corpora
from hf_structure.training.parsing.running_text import read_paragraphs, read_running_text
from hf_structure.training.parsing.sentences import read_trees, with_constituents
from hf_structure.training.parsing.typed_text import copy_sentences, read_shares, retype, with_typed_copies

TREEBANK = """\
# newdoc id = mail
# newpar
# text = "Hi, Ann!"
1	"	"	PUNCT	``	_	2	punct	_	SpaceAfter=No
2	Hi	hi	INTJ	UH	_	0	root	_	SpaceAfter=No
3	,	,	PUNCT	,	_	4	punct	_	_
4	Ann	Ann	PROPN	NNP	Number=Sing	2	vocative	_	SpaceAfter=No
5	!	!	PUNCT	.	_	2	punct	_	SpaceAfter=No
6	"	"	PUNCT	''	_	2	punct	_	_

# text = I did (the rest).
1	I	I	PRON	PRP	Case=Nom	2	nsubj	_	_
2	did	do	VERB	VBD	Tense=Past	0	root	_	_
3	(	(	PUNCT	-LRB-	_	5	punct	_	SpaceAfter=No
4	the	the	DET	DT	_	5	det	_	_
5	rest	rest	NOUN	NN	Number=Sing	2	obj	_	SpaceAfter=No
6	)	)	PUNCT	-RRB-	_	5	punct	_	SpaceAfter=No
7	.	.	PUNCT	.	_	2	punct	_	_

# newpar
# text = - - -
1	-	-	PUNCT	NFP	_	0	root	_	_
2	-	-	PUNCT	NFP	_	1	punct	_	_
3	-	-	PUNCT	NFP	_	1	punct	_	_

# text = A, b :)
1	A	a	NOUN	NN	_	0	root	_	SpaceAfter=No
2	,	,	PUNCT	,	_	1	punct	_	_
3	b	b	NOUN	NN	_	2	list	_	_
4	:)	:)	SYM	NFP	_	1	discourse	_	_

"""
BRACKETS = """\
(FRAG (`` ") (NP (NP (UH Hi) (, ,)) (NP (NNP Ann))) (. !) ('' "))
(S (NP (PRP I)) (VP (VBD did) (PRN (-LRB- -LRB-) (NP (DT the) (NN rest)) (-RRB- -RRB-))) (. .))
(S (NP (DT The) (NN END)) (PRN (: --)))
"""


@pytest.fixture
def corpora(tmp_path, monkeypatch) -> Corpora:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return Corpora(DataArguments(), TrainingArguments(str(tmp_path), use_cpu=True, report_to=[]))


@pytest.fixture
def sentences(tmp_path, corpora):
    (tmp_path / "mail.conllu").write_text(TREEBANK)
    (tmp_path / "mail.mrg").write_text(BRACKETS)
    trees = read_trees([str(tmp_path / "mail.conllu")], corpora)
    return with_constituents(trees, [str(tmp_path / "mail.mrg")], False, corpora)


def constituents(sentence) -> list[tuple[str, str]]:
    """The words of each constituent and its label."""
    pairs = zip(sentence["spans"], sentence["span_labels"], strict=True)
    return [(" ".join(sentence["words"][start:end]), label) for (start, end), label in pairs]


def test_words_without_case_and_punctuation_have_the_trees_of_the_sentence(sentences):
    first, second = (retype(sentences[number], "bare") for number in range(2))
    assert first["words"] == ["hi", "ann"]
    assert first["heads"] == [0, 1]
    assert first["deprels"] == ["root", "vocative"]
    assert first["upos"] == ["INTJ", "PROPN"]
    # The quotation marks leave the outer constituent with one child: a chain.
    assert constituents(first) == [("hi ann", "FRAG+NP"), ("hi", "NP"), ("ann", "NP")]
    assert second["words"] == ["i", "did", "the", "rest"]
    assert second["heads"] == [2, 0, 4, 2]
    assert second["xpos"] == ["PRP", "VBD", "DT", "NN"]
    assert second["feats"] == ["PRON Case=Nom", "VERB Tense=Past", "DET _", "NOUN Number=Sing"]
    expected = [("i did the rest", "S"), ("i", "NP"), ("did the rest", "VP"), ("the rest", "PRN+NP")]
    assert constituents(second) == expected


@pytest.mark.parametrize("style", ["lower", "upper", "unpunctuated", "bare", "mixed"])
def test_lemmas_are_those_of_the_original(sentences, style):
    for sentence in sentences.select(range(4)):
        copy = retype(sentence, style, Random(1))
        lemmas = list(map(lemma_of, sentence["lemma"], sentence["words"]))
        kept = [lemma for lemma in lemmas if len(copy["words"]) == len(lemmas) or lemma not in '"(),.!']
        assert list(map(lemma_of, copy["lemma"], copy["words"])) == kept


def test_letters_change_and_punctuation_stays(sentences):
    assert retype(sentences[1], "upper")["words"] == ["I", "DID", "(", "THE", "REST", ")", "."]
    assert retype(sentences[0], "lower")["words"] == ['"', "hi", ",", "ann", "!", '"']
    assert retype(sentences[0], "unpunctuated")["words"] == ["Hi", "Ann"]
    for name in ("heads", "deprels", "upos", "spans", "span_labels"):
        assert retype(sentences[0], "lower")[name] == sentences[0][name]


def test_dependents_of_punctuation_go_to_its_head(sentences):
    copy = retype(sentences[3], "bare")
    # The relation is not punctuation's: the emoticon stays.
    assert copy["words"] == ["a", "b", ":)"]
    assert copy["heads"] == [0, 1, 1]


def test_punctuation_alone_stays(sentences):
    assert retype(sentences[2], "bare") == sentences[2]


def test_constituency_trees_alone(sentences):
    copy = retype(sentences[4], "bare")
    assert copy["words"] == ["the", "end"]
    assert copy["heads"] is None
    assert constituents(copy) == [("the end", "S+NP")]


def test_a_share_of_the_sentences_is_copied(sentences, corpora):
    assert with_typed_copies(sentences, {}, 1, corpora) is sentences
    copied = with_typed_copies(sentences, {"bare": 1.0, "upper": 1.0}, 1, corpora)
    assert copied[: len(sentences)] == sentences[:]
    typed = [" ".join(words) for words in copied["words"][len(sentences) :]]
    # Copies of the same words, those of "- - -", are left out.
    assert typed == [
        "hi ann",
        '" HI , ANN ! "',
        "i did the rest",
        "I DID ( THE REST ) .",
        "a b :)",
        "A , B :)",
        "the end",
        "THE END --",
    ]


def test_shares_hold_for_many_sentences():
    sentences = [{"words": ["Word", str(number)], "treebank": None} for number in range(2000)]
    shares = {"lower": 0.3, "mixed": 0.1}
    copies = copy_sentences(sentences, shares, 1)
    cases = Counter(copy["words"][0] for copy in copies)
    # A fifth of the mixed ones is in capitals, two fifths in lower case, and two fifths are left out as they are.
    assert 0.3 < cases["word"] / 2000 < 0.38
    assert 0.01 < cases["WORD"] / 2000 < 0.03
    assert cases["Word"] == 0
    assert copies == copy_sentences(sentences, shares, 1)
    assert copies != copy_sentences(sentences, shares, 2)
    # Each sentence is drawn alone.
    assert copies == copy_sentences(sentences[:1000], shares, 1) + copy_sentences(sentences[1000:], shares, 1)


def test_running_text_is_copied_by_paragraph(tmp_path):
    path = tmp_path / "mail.conllu"
    path.write_text(TREEBANK)
    rows = list(read_paragraphs(str(path), "mail", {"bare": 1.0}))
    assert [" ".join(row["words"]) for row in rows] == [
        '" Hi , Ann ! " I did ( the rest ) .',
        "hi ann i did the rest",
        "- - - A , b :)",
        "- - - a b :)",
    ]
    assert rows[1]["sentence_starts"] == [-100, 0, 1, 0, 0, 0]
    assert rows[3]["sentence_starts"] == [-100, 0, 0, 1, 0, 0]
    assert rows[1]["deprels"] == ["root", "vocative", "nsubj", "root", "det", "obj"]
    assert {row["treebank"] for row in rows} == {"mail"}
    assert [row for number, row in enumerate(rows) if number % 2 == 0] == list(read_paragraphs(str(path), "mail"))


def test_each_sentence_of_a_mixed_paragraph_has_a_style_of_its_own(tmp_path):
    path = tmp_path / "mail.conllu"
    path.write_text(TREEBANK)
    typed = {" ".join(list(read_paragraphs(str(path), None, {"mixed": 1.0}, seed))[1]["words"]) for seed in range(60)}
    assert {"hi ann I did ( the rest ) .", '" HI , ANN ! " i did the rest'} <= typed
    assert len(typed) > 15


def test_running_text_is_prepared_anew_for_other_shares(tmp_path, corpora):
    path = tmp_path / "mail.conllu"
    path.write_text(TREEBANK)
    numbers = [len(read_running_text([str(path)], [], corpora, shares, 1)) for shares in ({}, {"bare": 1.0}, {})]
    assert numbers == [2, 4, 2]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("bare", "a style and a share are needed"),
        ("bare=some", "a style and a share are needed"),
        ("loud=0.1", "the styles are lower, upper, unpunctuated, bare and mixed"),
        ("bare=0", "above 0 and at most 1"),
        ("bare=1.5", "above 0 and at most 1"),
    ],
)
def test_options_that_cannot_be_read(option, message):
    assert read_shares(["lower=0.1", "mixed=1"]) == {"lower": 0.1, "mixed": 1.0}
    with pytest.raises(ValueError, match=message):
        read_shares([option])
