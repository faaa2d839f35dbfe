"""`hf-structure parse` with a model that finds sentences."""

import io
import json
from pathlib import Path

import pytest
from udtools.validator import Validator

from hf_structure import parse
from hf_structure.text.conllu import read_conllu, write_conllu

TEXT = "Hi all,I don't know it's me  Yes!\n\n#wow http://x.org/ it\nisn't :-) he left\n"
LINES = [line for line in TEXT.split("\n") if line]
JSON = ("--format", "json")


@pytest.fixture(scope="module")
def expected(tagger) -> list[dict]:
    """What is written of the lines, each sentence with its place in the file."""
    found = []
    for line, parses in zip(LINES, parse(LINES, tagger, sentences="model"), strict=True):
        values = [parsed.to_dict() for parsed in parses]
        found += [value | {"start": value["start"] + TEXT.index(line)} for value in values]
        found[-1]["spaces_after"] = "\n"
        if TEXT[: TEXT.index(line)].endswith("\n\n"):
            found[-len(values)]["metadata"] = {"newpar": ""}
    found[0]["metadata"] = {"newdoc": "", "newpar": ""}
    assert len(found) > len(LINES)
    return found


def read(output: str) -> list[dict]:
    return [json.loads(line) for line in output.splitlines()]


def test_the_model_finds_the_sentences_of_a_line(run, tagger, expected):
    assert read(run("parse", "--model", tagger, *JSON, stdin=TEXT)) == expected
    assert read(run("parse", "--model", tagger, *JSON, "--sentences", "model", stdin=TEXT)) == expected
    lines = read(run("parse", "--model", tagger, *JSON, "--sentences", "line", stdin=TEXT))
    assert [parsed["text"] for parsed in lines] == LINES
    split = read(run("parse", "--model", tagger, *JSON, "--sentences", "split", stdin=TEXT))
    assert "Hi all,I don't know it's me  Yes!" in [parsed["text"] for parsed in split]


def test_complete_conllu(run, tagger):
    output = run("parse", "--model", tagger, "--format", "conllu", stdin=TEXT)
    state = Validator(lang="ud", level=2, output=None).validate_file_handle(io.StringIO(output))
    assert state.passed()
    Path("system.conllu").write_text(output)
    sentences = list(read_conllu("system.conllu"))
    assert {"don't", "it's"} <= {token.form for sentence in sentences for token in sentence.tokens if "-" in token.id}
    again = run("parse", "--model", tagger, "--format", "conllu", "system.conllu")  # sentences and tokens stay
    columns = [[(word.upos, word.lemma, word.feats) for word in sentence.words] for sentence in sentences]
    other = [sentence.with_column("upos", ["X"] * len(sentence.words)) for sentence in sentences]
    write_conllu(other, "other.conllu")  # what the model predicts is written anew
    filled = read_conllu(run("parse", "--model", tagger, "--format", "conllu", "other.conllu").splitlines())
    assert [[(word.upos, word.lemma, word.feats) for word in sentence.words] for sentence in filled] == columns
    ids = [[(token.id, token.form) for token in sentence.tokens] for sentence in sentences]
    assert [[(token.id, token.form) for token in s.tokens] for s in read_conllu(again.splitlines())] == ids
    refined = run("parse", "--model", tagger, "--format", "conllu", "--refine", "system.conllu")
    assert [[(token.id, token.form) for token in s.tokens] for s in read_conllu(refined.splitlines())] == ids


def test_long_sentences_are_named_by_their_line(fail, call, tagger, expected):
    longest = max(len(parsed["words"]) for parsed in expected)
    [line] = {1 + TEXT[: parsed["start"]].count("\n") for parsed in expected if len(parsed["words"]) == longest}
    options = ("parse", "--model", tagger, *JSON, "--max_words", longest - 1)
    message, output = fail(*options, stdin=TEXT)
    assert f">:{line}: the sentence has {longest} words" in message
    assert read(output) == [parsed for parsed in expected if 1 + TEXT[: parsed["start"]].count("\n") < line]
    output, complaints = call(*options, "--skip_long", stdin=TEXT)
    assert read(output) == [parsed for parsed in expected if len(parsed["words"]) < longest]
    assert f"that are too long, the first one <input>:{line}" in complaints


def test_lines_that_come_one_by_one(talk, tagger, expected):
    with talk("parse", "--model", tagger, *JSON) as (stdin, stdout):
        for line in LINES:
            stdin.write(f"{line}\n".encode())
            words = []
            while "".join(words) != "".join(line.split()):
                words += json.loads(stdout.readline())["words"]
