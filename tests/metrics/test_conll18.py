"""Scores of words and sentences that differ from the gold, against the evaluator of the shared task."""

import re
from collections.abc import Iterable
from dataclasses import astuple, replace
from itertools import islice, pairwise
from pathlib import Path
from random import Random

import pytest

from hf_structure.metrics.attachment import left_chain
from hf_structure.metrics.conll18 import conll18_scores
from hf_structure.text.conllu import ConlluSentence, ConlluToken, read_conllu, write_conllu

NAMES = ["Tokens", "Sentences", "Words", "UPOS", "XPOS", "UFeats", "AllTags", "Lemmas"]
NAMES += ["UAS", "LAS", "CLAS", "MLAS", "BLEX"]
VALUES = {
    "lemma": ["_", "be", "x"],
    "upos": ["NOUN", "AUX", "_"],
    "xpos": ["NN", "_"],
    "feats": ["_", "Number=Sing|Case=Nom", "Case=Nom|Number=Sing|Typo=Yes", "Foreign=Yes"],
    "deprel": ["nsubj", "nsubj:pass", "case", "aux:pass", "det", "punct", "ROOT", "conj"],
}
FORMS = [
    "aux",
    "le",
    "Les",
    "straße",
    "ß",
    "İx",
    "e\u0301",
    "𝒳𝒴",
    "x",
    "xx",
    "xXx",
    "le le",
    "a\u00a0b",
    "10 000",
    ".",
]
Unit = tuple[str, list[ConlluToken]]  # a token: its characters and its words


def check_scores(system: Path, gold: Path) -> None:
    """Every number of the evaluator."""
    udeval = pytest.importorskip("udtools.udeval")
    sides = [udeval.load_conllu_file(str(path), {"multiple_roots_okay": True}) for path in (gold, system)]
    theirs = udeval.evaluate(*sides)
    ours = conll18_scores(read_conllu(system), read_conllu(gold))
    assert list(ours) == NAMES
    for name, score in ours.items():
        other = theirs[name]
        shares = (other.precision, other.recall, other.f1, other.aligned_accuracy)
        counts = (other.correct, other.system_total, other.gold_total, other.aligned_total)
        assert astuple(score) == (*shares, *counts), name


def random_sentence(random: Random) -> list[Unit]:
    """Tokens of few forms, so that words which do not belong together often have the same."""
    units = []
    for _ in range(random.randint(1, 12)):
        forms = [random.choice(FORMS) for _ in range(random.choice((1, 1, 1, 2, 3)))]
        surface = random.choice(FORMS) if random.random() < 0.5 else "".join(forms)
        units.append((forms[0] if len(forms) == 1 else surface, [ConlluToken("", form) for form in forms]))
    return units


def units_of(sentences: Iterable[ConlluSentence]) -> list[list[Unit]]:
    """The tokens of sentences; their words are known by `id`, which also stand in `head`, through the whole corpus."""
    corpus = []
    for number, sentence in enumerate(sentences):
        units = []
        last = 0
        for token in sentence.tokens:
            first, _, second = token.id.partition("-")
            if second:
                units.append((token.form, []))
                last = int(second)
            elif "." not in first:
                word = replace(token, id=f"{number}.{first}", head=f"{number}.{token.head}", deps="_")
                if int(first) > last:
                    units.append((token.form, []))
                units[-1][1].append(word)
        corpus.append(units)
    return corpus


def cut(random: Random, surface: str) -> list[str]:
    """One to three pieces, none of them spaces alone."""
    places = random.sample(range(1, len(surface)), min(random.randint(1, 2), len(surface) - 1))
    pieces = [surface[start:end] for start, end in pairwise([0, *sorted(places), len(surface)])]
    return pieces if all(map(str.strip, pieces)) else [surface]


def retokenized(random: Random, units: list[Unit], rate: float) -> list[Unit]:
    """The same characters: some tokens are cut, joined, or made multi-word tokens or plain ones."""
    result = []
    for surface, words in units:
        kind = random.random() / rate
        if kind < 1:
            result += [(piece, [replace(random.choice(words), form=piece)]) for piece in cut(random, surface)]
        elif kind < 2 and result:
            before, others = result.pop()
            joined = [*others, *words] if random.random() < 0.5 else others[:1]
            result.append((before + random.choice(["", " ", "\u00a0"]) + surface, joined))
        elif kind < 3:
            forms = cut(random, surface) if random.random() < 0.5 else [words[-1].form.upper(), surface, "x"]
            result.append((surface, [replace(random.choice(words), form=form) for form in forms]))
        elif kind < 4:
            result.append((surface, words[:1]))
        else:
            result.append((surface, words))
    return result


def sentence_of(random: Random, units: list[Unit], rate: float) -> ConlluSentence:
    """Numbered tokens, some empty nodes among them; a tree of the heads that there were, and some others."""
    tokens = []
    words = []
    for surface, parts in units:
        first = len(words) + 1
        if len(parts) > 1 or (parts[0].form != surface and random.random() < 0.5):
            tokens.append(ConlluToken(f"{first}-{first + len(parts) - 1}", surface))
            forms = [part.form for part in parts]
        else:
            forms = [surface]
        for number, (part, form) in enumerate(zip(parts, forms, strict=True), start=first):
            changed = {name: random.choice(values) for name, values in VALUES.items() if random.random() < rate}
            tokens.append(replace(part, id=str(number), form=form, **changed))
            words.append((part, tokens[-1]))
        if random.random() < rate:
            tokens.append(ConlluToken(f"{len(words)}.1", "empty"))
    position = {part.id: number for number, (part, _) in enumerate(words, start=1)}
    heads = {}
    for number, (part, _) in enumerate(words, start=1):
        wanted = position.get(part.head, 0) if random.random() > rate else random.randint(0, len(words))
        above = wanted
        while above and above != number:
            above = heads.get(above, 0)
        heads[number] = 0 if above == number else wanted
    for number, (_, word) in enumerate(words, start=1):
        word.head = str(heads[number])
    return ConlluSentence(["# text"], tokens)


def perturbed(random: Random, corpus: list[list[Unit]], rate: float) -> list[ConlluSentence]:
    """Sentences, some of them cut or joined, of other tokens."""
    sentences = [[]]
    for units in corpus:
        for unit in retokenized(random, units, rate):
            if sentences[-1] and random.random() < rate / 5:
                sentences.append([])
            sentences[-1].append(unit)
        if random.random() > rate:
            sentences.append([])
    return [sentence_of(random, units, rate) for units in sentences if units]


@pytest.mark.parametrize(
    "seed", [*range(25), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(25, 100))]
)
def test_random_corpora_have_the_scores_of_the_evaluator(seed, tmp_path):
    random = Random(seed)
    rate = random.choice((0.02, 0.1, 0.2))
    units = [random_sentence(random) for _ in range(20)]
    write_conllu([sentence_of(random, row, 0.5) for row in units], tmp_path / "gold")
    write_conllu(perturbed(random, units_of(read_conllu(tmp_path / "gold")), rate), tmp_path / "system")
    check_scores(tmp_path / "system", tmp_path / "gold")
    check_scores(tmp_path / "gold", tmp_path / "system")


@pytest.mark.parametrize(
    "pattern", ["ud_other/*dev.conllu", "ud_other/ar_pud.conllu", "ud_many/fr_gsd/dev*", "ud_many/he_iahltwiki/dev*"]
)
def test_treebanks_have_the_scores_of_the_evaluator(pattern, data_dir, tmp_path):
    """With multi-word tokens, words that contain spaces, and scripts without letter case."""
    for path in sorted(data_dir.glob(pattern)):
        sentences = list(islice(read_conllu(path), 200))
        corpus = units_of(sentences)
        write_conllu(sentences, tmp_path / "gold")
        for rate in (0.001, 0.05):
            write_conllu(perturbed(Random(1), corpus, rate), tmp_path / "system")
            check_scores(tmp_path / "system", tmp_path / "gold")


def sentence(lines: str) -> ConlluSentence:
    """ID, FORM, LEMMA, UPOS, FEATS, HEAD and DEPREL; one line each."""
    tokens = []
    for columns in map(str.split, lines.strip().splitlines()):
        names = ("id", "form", "lemma", "upos", "feats", "head", "deprel")
        tokens.append(ConlluToken(**dict(zip(names, columns, strict=False))))
    return ConlluSentence([], tokens)


GOLD = """
1-2 du
1   de      de     ADP  _                       3 case
2   le      le     DET  Definite=Def            3 det
3   chat    chat   NOUN Number=Sing|Typo=Yes    4 obl:arg
4   dort    dormir VERB VerbForm=Fin            0 root
5   .       .      PUNCT _                      4 punct
"""
SYSTEM = """
1   du      du     ADP  _                       3 case
2   ch      ch     NOUN _                       3 flat
3   at      at     NOUN _                       4 obl
4-5 dort.
4   DORT    dort   VERB VerbForm=Fin            0 root
5   .       .      PUNCT _                      3 punct
"""


def test_by_hand(tmp_path):
    """`dort` and `.` are the words that both have; `chat` is cut in two, `du` is one word."""
    for name, lines in (("gold", GOLD), ("system", SYSTEM)):
        write_conllu([sentence(lines)], tmp_path / name)
    check_scores(tmp_path / "system", tmp_path / "gold")
    scores = conll18_scores([sentence(SYSTEM)], [sentence(GOLD)])
    counts = {name: (score.matched, score.predicted, score.gold, score.aligned) for name, score in scores.items()}
    assert counts == {
        "Tokens": (1, 4, 4, None),  # du
        "Sentences": (1, 1, 1, None),
        "Words": (2, 5, 5, None),
        **dict.fromkeys(["UPOS", "XPOS", "UFeats", "AllTags"], (2, 5, 5, 2)),
        "Lemmas": (1, 5, 5, 2),
        **dict.fromkeys(["UAS", "LAS"], (1, 5, 5, 2)),  # the mark hangs on a word that is not aligned
        **dict.fromkeys(["CLAS", "MLAS"], (1, 3, 2, 1)),
        "BLEX": (0, 3, 2, 1),
    }
    assert astuple(scores["CLAS"])[:4] == (1 / 3, 1 / 2, 2 / 5, 1.0)


def test_function_words_count_for_mlas_only():
    other = GOLD.replace("DET", "PRON").replace("|Typo=Yes", "").replace("obl:arg", "obl")
    scores = conll18_scores([sentence(other)], [sentence(GOLD)])
    wrong = {name: score.aligned - score.matched for name, score in scores.items() if score.aligned is not None}
    assert {name: number for name, number in wrong.items() if number} == {"UPOS": 1, "AllTags": 1, "MLAS": 1}


def test_lemmas_that_the_gold_lacks_are_right():
    scores = conll18_scores([sentence(GOLD)], [sentence(GOLD.replace("dormir", "_"))])
    assert scores["Lemmas"].matched == 5
    assert conll18_scores([sentence(GOLD.replace("dormir", "_"))], [sentence(GOLD)])["Lemmas"].matched == 4


def test_trees_that_are_none():
    """Two words that hang on each other, and no root."""
    other = GOLD.replace("4 obl:arg", "4 obl").replace("0 root", "3 root")
    scores = conll18_scores([sentence(other)], [sentence(GOLD)])
    assert scores["UAS"].matched == scores["LAS"].matched == 4


def test_words_without_heads():
    headless = sentence(GOLD).with_column("head", ["_"] * 5)
    for sides in (([headless], [sentence(GOLD)]), ([sentence(GOLD)], [headless])):
        assert list(conll18_scores(*sides)) == NAMES[:8]
    with pytest.raises(ValueError, match="sentence 2 of the gold sentences has words without a head"):
        conll18_scores([sentence(GOLD)] * 2, [sentence(GOLD), headless])


@pytest.mark.parametrize(
    ("forms", "found"),
    [
        (
            "du Chat dort .",
            "'Chat dort .' (sentence 2, line 8) in the prediction, 'chat dort .' (sentence 2) in the gold",
        ),
        (
            "dü chat dort .",
            "'dü chat dort' (sentence 2, line 7) in the prediction, 'du chat dort' (sentence 2) in the gold",
        ),
        ("du chat dort ..", "'..' (sentence 2, line 10) in the prediction, the end in the gold"),
    ],
)
def test_other_characters_are_refused(forms, found):
    words = forms.split()
    predicted = ConlluSentence.from_words(words, left_chain(len(words)))
    predicted.line = 7
    with pytest.raises(ValueError, match=re.escape(f"the characters differ: {found}")):
        conll18_scores([sentence(GOLD), predicted], [sentence(GOLD)] * 2)


def test_tokens_of_spaces_alone_are_refused():
    with pytest.raises(ValueError, match=re.escape("a token of spaces alone (sentence 1)")):
        conll18_scores([ConlluSentence.from_words(["a", "\u00a0 "])], [ConlluSentence.from_words(["a"])])
