"""Pairs of sentences: in training both rules give the same, in generalization they do not, and trees fit."""

import re
import runpy
from itertools import pairwise

import pytest
from running import EXAMPLES

from hf_structure.corpora.binary_trees import load_binary_trees
from hf_structure.text.formats import load_sentences

EXAMPLE = runpy.run_path(str(EXAMPLES / "papers" / "prepare_transformations.py"))
OPTIONS = ["--train", "400", "--test", "60"]
SETS = ("train", "dev", "test", "generalization")
TASKS = ("question", "tense")
MARKERS = {"question": ("decl", "quest"), "tense": ("past", "present")}
# A grammar of words alone, which knows nothing of trees: nouns follow determiners, and other words have own lists.
NOUN = r"(?:the|my|your|our|some) (\w+)"
VERB = {"question": r"(?:do|does|don't|doesn't) (?!not)\w+", "tense": r"\w+ed"}
MODIFIER = r"(?: (?:near|behind|beside|above) {noun}| (?:that|who) (?:{verb}(?: {noun})?|{noun} {verb}))?"


def subject_pattern(task):
    phrase = f"{NOUN}{MODIFIER}".format(noun=NOUN, verb=VERB[task])
    return re.compile(f"{phrase} (?={VERB[task]})")


def main_verb(task, words):
    """Index of the first word after the subject."""
    match = subject_pattern(task).match(" ".join(words))
    return len(match[0].split())


def is_auxiliary(word):
    return word in ("do", "does", "don't", "doesn't")


def is_noun(words, index):
    return index > 0 and words[index - 1] in ("the", "my", "your", "our", "some")


def question(words, index):
    return [words[index], *words[:index], *words[index + 1 : -1], "?"]


def present(word, noun):
    return word.removesuffix("ed") + ("" if noun.endswith("s") else "s")


def by_linear_rule(task, words):
    if task == "question":
        return question(words, next(index for index, word in enumerate(words) if is_auxiliary(word)))
    result = []
    noun = ""
    for index, word in enumerate(words):
        noun = word if is_noun(words, index) else noun
        result.append(present(word, noun) if word.endswith("ed") else word)
    return result


def by_hierarchical_rule(task, words):
    main = main_verb(task, words)
    if task == "question":
        return question(words, main)
    # No other verb has a noun between it and its subject.
    result = by_linear_rule(task, words)
    result[main] = present(words[main], words[1])
    return result


def run(*arguments):
    EXAMPLE["main"]([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("transformations")
    for task in TASKS:
        run("--task", task, "--output", folder / task, *OPTIONS)
    return folder


def items(folder, name, task):
    """Sentences, markers and results."""
    found = []
    for line in (folder / task / f"{name}.txt").read_text().splitlines():
        words = line.split()
        (marker,) = (index for index, word in enumerate(words) if word in MARKERS[task])
        found.append((words[:marker], words[marker], words[marker + 1 :]))
    return found


@pytest.mark.parametrize(
    ("task", "sentence", "linear", "hierarchical"),
    [
        (
            "question",
            "the otter who the foxes don't help does laugh .",
            "don't the otter who the foxes help does laugh ?",
            "does the otter who the foxes don't help laugh ?",
        ),
        (
            "tense",
            "the otters near my fox helped the poet .",
            "the otters near my fox helps the poet .",
            "the otters near my fox help the poet .",
        ),
    ],
)
def test_rules(task, sentence, linear, hierarchical):
    assert " ".join(by_linear_rule(task, sentence.split())) == linear
    assert " ".join(by_hierarchical_rule(task, sentence.split())) == hierarchical


@pytest.mark.smoke
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ["train", "dev", "test"])
def test_training_does_not_decide(data, name, task):
    repeated, changed = MARKERS[task]
    found = items(data, name, task)
    markers = [marker for _, marker, _ in found]
    assert markers.count(repeated) + markers.count(changed) == len(found)
    assert markers.count(repeated) == pytest.approx(len(found) / 2, rel=0.1)
    for words, marker, result in found:
        if marker == repeated:
            assert result == words
        else:
            assert result == by_linear_rule(task, words) == by_hierarchical_rule(task, words)


@pytest.mark.parametrize("task", TASKS)
def test_sentences_that_would_decide_are_repeated(data, task):
    repeated, _ = MARKERS[task]
    sentences = [words for words, marker, _ in items(data, "train", task) if marker == repeated]
    deciding = [by_linear_rule(task, words) != by_hierarchical_rule(task, words) for words in sentences]
    assert 0.2 < sum(deciding) / len(deciding) < 0.5


@pytest.mark.smoke
@pytest.mark.parametrize("task", TASKS)
def test_generalization_decides(data, task):
    right = items(data, "generalization", task)
    linear = items(data, "generalization-linear", task)
    assert len(right) == len(linear) == 60
    for (words, marker, result), (same, _, other) in zip(right, linear, strict=True):
        assert marker == MARKERS[task][1]
        assert words == same
        assert result == by_hierarchical_rule(task, words)
        assert other == by_linear_rule(task, words)
        differing = [index for index, (one, two) in enumerate(zip(result, other, strict=True)) if one != two]
        assert differing[0] == (0 if task == "question" else main_verb(task, words))
        assert task == "question" or len(differing) == 1


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", SETS)
def test_trees(data, name, task):
    """They have the words of the sentence; the subject is a constituent, and so is what follows it but the mark."""
    sentences = list(load_sentences(data / task / f"{name}.mrg"))
    assert [sentence["words"] for sentence in sentences] == [words for words, *_ in items(data, name, task)]
    for sentence in sentences:
        words = sentence["words"]
        main = main_verb(task, words)
        assert {(0, main, "NP"), (main, len(words) - 1, "VP"), (0, len(words), "S")} <= set(sentence["spans"])
    for tree in load_binary_trees(data / task / f"{name}.mrg"):
        assert len(tree["spans"]) == len(tree["words"]) - 1


@pytest.mark.parametrize("task", TASKS)
def test_relative_clauses_are_constituents(data, task):
    for sentence in load_sentences(data / task / "generalization.mrg"):
        spans = {(start, end) for start, end, label in sentence["spans"] if label == "SBAR"}
        words = sentence["words"]
        assert {start for start, _ in spans} == {index for index, word in enumerate(words) if word in ("that", "who")}
        assert all(one[1] <= other[0] for one, other in pairwise(sorted(spans)))
        assert all(end in (main_verb(task, words), len(words) - 1) for _, end in spans)


@pytest.mark.parametrize("task", TASKS)
def test_no_sentence_of_another_set_is_in_train(data, task):
    others = {tuple(words) for name in SETS[1:] for words, *_ in items(data, name, task)}
    assert not others & {tuple(words) for words, *_ in items(data, "train", task)}


@pytest.mark.parametrize("task", TASKS)
def test_sizes(data, task):
    texts = {name: (data / task / f"{name}.txt").read_text() for name in SETS}
    assert {name: text.count("\n") for name, text in texts.items()} == dict(zip(SETS, (400, 60, 60, 60), strict=True))
    assert len(set(" ".join(texts.values()).split())) < 100


def test_the_same_seed_gives_the_same_texts(data, tmp_path):
    run("--task", "tense", "--output", tmp_path / "again", *OPTIONS)
    run("--task", "tense", "--output", tmp_path / "other", *OPTIONS, "--seed", "2")
    text, again, other = ((path / "train.txt").read_text() for path in (data / "tense", *sorted(tmp_path.iterdir())))
    assert text == again != other


def test_files_are_kept(data, capsys):
    with pytest.raises(SystemExit):
        run("--task", "tense", "--output", data / "tense", *OPTIONS)
    assert "exists already" in capsys.readouterr().err
