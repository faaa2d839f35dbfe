"""The benchmark of text as people type it, and its sentences."""

import subprocess
import sys
from pathlib import Path

import pytest

from hf_structure.algorithms.trees import is_tree
from hf_structure.text.conllu import read_conllu
from hf_structure.text.normalization import UNIVERSAL_RELATIONS, UPOS_WORD_TAGS
from hf_structure.text.words import tokenize

ROOT = Path(__file__).parents[1]
TYPED = ROOT / "tests" / "data" / "typed.conllu"
SENTENCES = list(read_conllu(TYPED))


def test_sixty_trees():
    assert len(SENTENCES) == 60
    for sentence in SENTENCES:
        assert is_tree(sentence.heads), sentence.metadata["sent_id"]
        assert {deprel.partition(":")[0] for deprel in sentence.deprels} <= UNIVERSAL_RELATIONS
        assert {word.upos for word in sentence.words} <= UPOS_WORD_TAGS | {"PUNCT"}


@pytest.mark.parametrize("sentence", SENTENCES, ids=lambda sentence: sentence.metadata["sent_id"])
def test_words_of_text_as_people_type_it(sentence):
    tokens = [tuple(sentence.forms[first - 1 : last]) for first, last, _ in sentence.surface_tokens()]
    assert tokenize(sentence.metadata["text"]) == tokens


@pytest.mark.slow
def test_table():
    script = ROOT / "benchmarks" / "typed_text.py"
    options = ["--models", "rngt-en-fast", "--styles", "as it is", "lower case", "--errors"]
    command = [sys.executable, str(script), str(TYPED), *options]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = printed.splitlines()
    assert lines[0] == "| rngt-en-fast | LAS | UPOS | starts | inner starts | wrong Xxx | wrong XXX |"
    assert [line.split(" | ")[0] for line in lines[2:4]] == ["| as it is", "| lower case"]
    assert 50 < float(lines[2].split(" | ")[1]) < 100
    assert any(line.startswith("as it is: ") and " not " in line for line in lines)
