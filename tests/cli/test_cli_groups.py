"""Trees by groups: `hf-structure evaluate --by` and `--per_sentence`, and `hf-structure compare` of trees."""

import csv
import io
import json
from pathlib import Path

import pytest

from hf_structure.metrics.attachment import score_sentences
from hf_structure.text.conllu import read_conllu

DOCUMENTS = [
    "# newdoc id = GUM_news_a\n# meta::source = web",
    "# speaker = A",
    "# newdoc id = GUM_bio_b\n# speaker = B",
]
WORDS = [
    "Dogs/2/nsubj/Topic=animals bark/0/root/_ ./2/punct/_",
    "Cats/2/nsubj/_ sleep/0/root/_ quietly/2/advmod/_",
    "She/2/nsubj/Topic=people sings/0/root/_ old/4/amod/_ songs/2/obj:x/_",
]


def conllu(words=WORDS, documents=DOCUMENTS):
    text = ""
    for number, (sentence, comments) in enumerate(zip(words, documents, strict=False), start=1):
        text += f"{comments}\n# sent_id = s{number}\n"
        for place, word in enumerate(sentence.split(), start=1):
            form, head, label, misc = word.split("/")
            text += "\t".join([str(place), form, "_", "X", "_", "_", head, label, "_", misc]) + "\n"
        text += "\n"
    return text


# Of ten words the first has one wrong head, "old"; the second two, "Dogs" and "Cats", and a wrong label, "quietly".
FIRST = conllu([*WORDS[:2], WORDS[2].replace("old/4", "old/2")])
SECOND = conllu(
    [WORDS[0].replace("Dogs/2", "Dogs/3"), WORDS[1].replace("Cats/2", "Cats/3").replace("advmod", "obl"), WORDS[2]]
)
GOLD_BRACKETS = """\
( (S (NP (DT The) (NN cat)) (VP (VBD saw) (NP (DT the) (NN mouse))) (. .)) )
( (S (NP (PRP She)) (VP (VBD gave) (NP (PRP$ her) (NN brother)) (NP (DT a) (NN book))) (. .)) )
"""
# The first tree is right; of the second's three constituents one is.
FOUND_BRACKETS = GOLD_BRACKETS.replace("(VBD gave) (NP (PRP$ her) (NN brother)) (NP (DT a) (NN book))", "{}").format(
    "(X (VBD gave) (PRP$ her)) (X (NN brother) (DT a) (NN book))"
)
FILES = {
    "gold.conllu": conllu(),
    "a.conllu": FIRST,
    "b.conllu": SECOND,
    "gold.mrg": GOLD_BRACKETS,
    "found.mrg": FOUND_BRACKETS,
}


def table(output):
    """The cells of each row, by the first."""
    return {cells[0]: cells[1:] for cells in (line.split() for line in output.splitlines())}


# evaluate


def test_evaluate_by_genre(run):
    assert table(run("evaluate", "gold.conllu", "b.conllu", "--by", "genre")) == {
        "by": ["genre", "sentences", "words", "UAS", "LAS", "UUAS", "ULAS"],
        "all": ["3", "10", "80.00", "70.00", "80.00", "70.00"],
        "news": ["2", "6", "66.67", "50.00", "66.67", "50.00"],
        "bio": ["1", "4", "100.00", "100.00", "100.00", "100.00"],
    }


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("relation", {"nsubj": (3, 1 / 3), "root": (3, 1), "advmod": (1, 0), "amod": (1, 1), "obj:x": (1, 1)}),
        ("upos", {"X": (10, 0.7)}),
        ("length", {"1-9": (10, 0.7)}),
        ("dependency_length", {"ROOT": (3, 1), "1": (6, 1 / 2), "2": (1, 1)}),
        ("root_distance", {"1": (3, 1), "2": (6, 1 / 2), "3": (1, 1)}),
        ("source", {"web": (6, 0.5), "-": (4, 1)}),  # of the first document alone
        ("speaker", {"A": (3, 1 / 3), "B": (4, 1), "-": (3, 2 / 3)}),
        ("Topic", {"animals": (1, 0), "people": (1, 1), "-": (8, 6 / 8)}),
    ],
)
def test_evaluate_by(run, key, expected):
    found = json.loads(run("evaluate", "gold.conllu", "b.conllu", "--by", key, "--json"))
    assert {group: (found[group]["words"], found[group]["las"]) for group in expected} == {
        group: (words, pytest.approx(las)) for group, (words, las) in expected.items()
    }
    whole = json.loads(run("evaluate", "gold.conllu", "b.conllu", "--json"))
    assert {name: whole[name] for name in found["all"]} == found["all"]


def test_evaluate_by_keeps_conventions(run):
    options = ["--ignore", "punct", "--universal"]
    found = json.loads(run("evaluate", "gold.conllu", "a.conllu", "--by", "relation", "--json", *options))
    assert list(found) == ["all", "nsubj", "root", "advmod", "amod", "obj"]
    assert found["all"]["uas"] == pytest.approx(8 / 9)
    expected = score_sentences(
        read_conllu("a.conllu"), read_conllu("gold.conllu"), ignore_labels={"punct"}, universal_labels=True
    )
    assert found["all"]["las"] == expected.las


def test_evaluate_brackets_by_length(run):
    found = json.loads(run("evaluate", "gold.mrg", "found.mrg", "--by", "length", "--json"))
    whole = json.loads(run("evaluate", "gold.mrg", "found.mrg", "--json"))
    assert list(found) == ["all", "1-9"]
    assert found["1-9"] == found["all"]
    assert found["all"] == {name: whole[name] for name in ("uf1", "precision", "recall", "f1")} | {
        "sentences": 2,
        "words": 11,
    }


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
def test_per_sentence(run, suffix):
    assert "UAS" in run("evaluate", "gold.conllu", "b.conllu", "--per_sentence", f"counts.{suffix}")
    text = Path(f"counts.{suffix}").read_text(encoding="utf-8")
    if suffix == "jsonl":
        rows = [list(json.loads(line).values()) for line in text.splitlines()]
    else:
        header, *rows = csv.reader(io.StringIO(text), delimiter="," if suffix == "csv" else "\t")
        assert header == ["sentence", "sent_id", "words", "uas", "las", "uuas", "ulas", "pairs"]
    assert [[str(cell) for cell in row] for row in rows] == [
        ["1", "s1", "3", "2", "2", "2", "2", "3"],
        ["2", "s2", "3", "2", "1", "2", "1", "3"],
        ["3", "s3", "4", "4", "4", "4", "4", "4"],
    ]


def test_per_sentence_with_groups(run):
    run("evaluate", "gold.conllu", "b.conllu", "--by", "relation", "--per_sentence", "counts.jsonl")
    rows = list(map(json.loads, Path("counts.jsonl").read_text(encoding="utf-8").splitlines()))
    assert [(row["sentence"], row["relation"], row["uas"], row["words"]) for row in rows[:3]] == [
        (1, "nsubj", 0, 1),
        (1, "root", 1, 1),
        (1, "punct", 1, 1),
    ]


def test_per_sentence_of_brackets(run):
    run("evaluate", "gold.mrg", "found.mrg", "--per_sentence", "counts.csv")
    rows = list(csv.DictReader(io.StringIO(Path("counts.csv").read_text(encoding="utf-8"))))
    assert [list(row.values()) for row in rows] == [
        ["1", "5", "1.0000", "3", "3", "3"],
        ["2", "6", "0.3333", "1", "3", "3"],
    ]
    assert list(rows[0]) == ["sentence", "words", "f1", "matched", "predicted", "gold"]


# compare


def test_compare(run):
    """The second loses one word in the first sentence and two in the second; the first loses one in the third."""
    lines = run("compare", "gold.conllu", "a.conllu", "b.conllu", "--group", "genre").splitlines()
    assert lines[0].split()[:8] == ["LAS", "by", "genre", "sentences", "words", "a", "b", "difference"]
    rows = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert rows["all"][:5] == ["3", "10", "90.00", "70.00", "+20.00"]
    assert rows["all"][-2:] == ["0.7500", "-"]  # 6 of 8 permutations
    assert rows["news"][:5] == ["2", "6", "100.00", "50.00", "+50.00"]
    assert rows["news"][-2:] == ["0.5000", "1.0000"]  # 2 of 4, and twice that
    assert rows["bio"] == ["1", "4", "75.00", "100.00", "-25.00", "-", "-", "-", "1.0000", "1.0000"]


def test_compare_as_csv_and_json(run):
    command = ["compare", "gold.conllu", "a.conllu", "b.conllu", "--metric", "uas", "--group", "relation"]
    found = json.loads(run(*command, "--format", "json", "--seed", "3", "--resamples", "500"))
    assert {name: value for name, value in found.items() if name != "rows"} == {
        "metric": "uas",
        "systems": ["a", "b"],
        "group": "relation",
        "resamples": 500,
        "seed": 3,
    }
    rows = list(csv.DictReader(io.StringIO(run(*command, "--format", "csv", "--seed", "3", "--resamples", "500"))))
    assert [row["group"] for row in rows] == ["all", "nsubj", "root", "advmod", "amod", "obj:x", "punct"]
    for row, expected in zip(rows, found["rows"], strict=True):
        for name, value in expected.items():
            assert row[name] == ("NA" if value is None else str(value))
    nsubj = found["rows"][1]
    assert (nsubj["first"], nsubj["second"], nsubj["sentences"]) == (1, pytest.approx(1 / 3), 3)
    assert nsubj["permutation_p"] == 0.5  # +1, +1 and 0: 2 of 4
    assert nsubj["holm_p"] == 1


def test_compare_several_runs(run):
    """The runs of the first system have 9 and 7 of 10 words right, the second one's 7 and 9."""
    files = ["A=a.conllu", "A=b.conllu", "B=b2.conllu", "B=a2.conllu"]
    Path("a2.conllu").write_text(FIRST, encoding="utf-8")
    Path("b2.conllu").write_text(SECOND, encoding="utf-8")
    output = run("compare", "gold.conllu", *files)
    assert output.split()[:5] == ["LAS", "sentences", "words", "A", "B"]
    assert "80.00 ± 14.14  80.00 ± 14.14       +0.00" in output.splitlines()[1]
    fixed, drawn = (
        json.loads(run("compare", "gold.conllu", *files, "--format", "json", *more))["rows"][0]
        for more in ([], ["--draw_runs"])
    )
    assert fixed["low"] == fixed["high"] == 0
    assert drawn["low"] < 0 < drawn["high"]
    assert fixed["first_deviation"] == pytest.approx(0.02**0.5)


def test_compare_brackets(run):
    Path("right.mrg").write_text(GOLD_BRACKETS, encoding="utf-8")
    for metric, scores in {"uf1": ("66.67", "100.00", "-33.33"), "f1": ("66.67", "100.00", "-33.33")}.items():
        cells = run("compare", "gold.mrg", "found.mrg", "right.mrg", "--metric", metric).splitlines()[1].split()
        assert cells[:6] == ["all", "2", "11", *scores]
        assert cells[-1] == "1.0000"
    assert run("compare", "gold.mrg", "found.mrg", "right.mrg").startswith("UF1 ")
    assert "UF1 by length" in run("compare", "gold.mrg", "found.mrg", "right.mrg", "--group", "length")


def test_unlabelled_trees_are_compared_by_heads(run):
    for name in ("a", "b"):
        sentences = list(read_conllu(f"{name}.conllu"))
        bare = "".join(str(sentence.with_column("deprel", ["_"] * len(sentence.words))) for sentence in sentences)
        Path(f"{name}.conllu").write_text(bare, encoding="utf-8")
    assert run("compare", "gold.conllu", "a.conllu", "b.conllu").startswith("UAS ")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "compare gold.conllu a.conllu b.conllu --group nope",
            "gold.conllu: there is no 'nope' to group by: there are length, relation, upos, xpos, dependency_length, "
            "root_distance; comments have genre, newdoc id, sent_id, source, speaker; MISC has Topic",
        ),
        ("evaluate gold.mrg found.mrg --by genre", "'genre' is for trees in CoNLL-U"),
        ("compare gold.conllu a.conllu short.conllu", "short.conllu: 2 predicted sentences, but 3 gold sentences"),
        ("compare gold.conllu a.conllu other.conllu", "other.conllu: sentence 1: word 1 is 'Rats' in the prediction"),
        ("compare gold.conllu a.conllu found.mrg", "found.mrg holds brackets, but gold.conllu CoNLL-U"),
        ("compare gold.conllu a.conllu notes.txt", "notes.txt is neither CoNLL-U nor brackets"),
        ("compare gold.conllu a.conllu", "1 systems beside the gold file: two are compared"),
        (
            "compare gold.conllu a.conllu b.conllu --metric uf1",
            "--metric uf1 is not for CoNLL-U: las, uas, uuas, ulas",
        ),
        ("compare gold.conllu a.conllu b.conllu --min_length 2", "--min_length is not for CoNLL-U"),
        ("compare gold.mrg found.mrg gold.mrg --ignore punct", "--ignore is not for brackets"),
        ("compare gold.conllu a.conllu b.conllu --draw_runs", "--draw_runs is for systems with several runs"),
        ("compare gold.conllu a.conllu bare.conllu --metric las", "bare.conllu or the gold file has no labels"),
        ("compare notes.txt notes.txt --group genre", "--group is for trees: notes.txt is neither CoNLL-U nor"),
        ("evaluate gold.conllu a.conllu --structure graph --by genre", "--by is for trees, in CoNLL-U or brackets"),
    ],
)
def test_refuses(fail, here, command, message):
    Path("short.conllu").write_text(conllu(WORDS[:2]), encoding="utf-8")
    Path("other.conllu").write_text(FIRST.replace("Dogs", "Rats"), encoding="utf-8")
    bare = FIRST
    for label in ("nsubj", "root", "punct", "advmod", "amod", "obj:x"):
        bare = bare.replace(f"\t{label}\t", "\t_\t")
    Path("bare.conllu").write_text(bare, encoding="utf-8")
    Path("notes.txt").write_text("Hello.\n", encoding="utf-8")
    assert message in fail(*command.split())[0]
