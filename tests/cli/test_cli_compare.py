"""`hf-structure compare`: results of BLiMP, of SyntaxGym's suites, and of scored sentences."""

import json

import pytest


def write(folder, **contents):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return str(folder.parent)


def paradigm(phenomenon, *pairs):
    return {"phenomenon": phenomenon, "field": "syntax", "log_probs": pairs, "unknown_words": [0] * len(pairs)}


def rows(output):
    """Title and numbers of each row."""
    lines = [line.split() for line in output.splitlines()[1:]]
    return {" ".join(cells[:-5]): cells[-5:] for cells in lines}


@pytest.fixture
def blimp(tmp_path):
    first = {
        "p": paradigm("npi", [-1, -2], [-1, -2], [-2, -1], [-1, -1]),
        "q": paradigm("islands", [-1, -2], [-1, -2]),
    }
    second = {
        "p": paradigm("npi", [-1, -2], [-2, -1], [-2, -1], [-1, -2]),
        "q": paradigm("islands", [-1, -2], [-2, -1]),
    }
    return [write(tmp_path / name / "paradigms", **side) for name, side in (("a", first), ("b", second))]


def test_blimp(run, blimp):
    """Gains: 0, 100, 0, -50 and 0, 100."""
    assert rows(run("compare", *blimp)) == {
        "npi": ["4", "62.50", "50.00", "12.50", "31.46"],
        "islands": ["2", "100.00", "50.00", "50.00", "50.00"],
        "overall, mean of paradigms": ["6", "81.25", "50.00", "31.25", "29.54"],
        "overall, share of pairs": ["6", "75.00", "50.00", "25.00", "25.00"],
    }


def test_more_pairs_are_more_seeds(run, blimp):
    """With the models of the second pair the other way round every item is as good with one as with the other."""
    assert run("compare", *blimp, *blimp) == run("compare", *blimp)
    assert rows(run("compare", *blimp, *reversed(blimp))) == {
        "npi": ["4", "56.25", "56.25", "0.00", "0.00"],
        "islands": ["2", "75.00", "75.00", "0.00", "0.00"],
        "overall, mean of paradigms": ["6", "65.62", "65.62", "0.00", "0.00"],
        "overall, share of pairs": ["6", "62.50", "62.50", "0.00", "0.00"],
    }


def test_suites(run, tmp_path):
    def suite(*holds):
        return [{"item": number, "holds": [hold, False], "surprisals": {}} for number, hold in enumerate(holds)]

    one = write(
        tmp_path / "a" / "suites",
        npi_orc_any=suite(True, True),
        cleft=suite(True, False),
        **{"nn-nv-rpl": suite(True)},
    )
    other = write(
        tmp_path / "b" / "suites",
        npi_orc_any=suite(True, False),
        cleft=suite(True, False),
        **{"nn-nv-rpl": suite(False)},
    )
    assert rows(run("compare", one, other)) == {
        "overall, without Other": ["4", "75.00", "50.00", "25.00", "25.00"],
        "Long-Distance Dependencies": ["2", "50.00", "50.00", "0.00", "0.00"],
        "Licensing": ["2", "100.00", "50.00", "50.00", "50.00"],
        "Other": ["1", "100.00", "0.00", "100.00", "-"],
    }


def test_suites_of_your_own(run, tmp_path):
    """They are a group of their own, and no part of the overall score, whatever their names begin with."""
    holds = [[True, True], [False, False]]
    own, papers = ([{"item": 1, "holds": each, "surprisals": {}}] for each in holds)
    one, other = (write(tmp_path / side / "suites", npz_mine=own, cleft2=own, cleft=papers) for side in "ab")
    assert rows(run("compare", one, other)) == {
        "overall, without Other": ["1", "0.00", "0.00", "0.00", "-"],
        "Long-Distance Dependencies": ["1", "0.00", "0.00", "0.00", "-"],
        "-": ["2", "100.00", "100.00", "0.00", "-"],
    }
    one, other = (write(tmp_path / side / "suites", mine=own) for side in "cd")
    assert list(rows(run("compare", one, other))) == ["-"]


def scored(path, **log_probs):
    path.write_text("".join(json.dumps({"words": [word], "log_prob": p}) + "\n" for word, p in log_probs.items()))
    return str(path)


def test_scored_sentences(run, tmp_path):
    files = scored(tmp_path / "a.jsonl", a=-1.0, b=-2.0), scored(tmp_path / "b.jsonl", a=-2.0, b=-5.0)
    numbers = ["2", "-1.50", "-3.50", "2.00", "1.00"]
    assert rows(run("compare", *files)) == {"log-probability of a sentence": numbers}


def test_results_that_do_not_fit(fail, blimp, tmp_path):
    file = scored(tmp_path / "a.jsonl", a=-1.0)
    cases = [
        ([blimp[0], file], "not results of the same sentences"),
        ([file, scored(tmp_path / "b.jsonl", b=-1.0)], "not results of the same sentences"),
        ([str(tmp_path), file], "no folder of results of run_pairs.py"),
        ([file], "there is no second model to"),
        ([*blimp, *blimp[:1]], "there is no second model to"),
        ([*blimp, file, file], "not results of the same sentences"),
    ]
    (tmp_path / "broken.jsonl").write_text('{"words": []}\n')
    cases.append(([file, str(tmp_path / "broken.jsonl")], "broken.jsonl:1: no sentence as"))
    write(tmp_path / "c" / "paradigms", p=paradigm("npi", [-1, -2]), q=paradigm("islands", [-1, -2]))
    cases.append(([blimp[0], str(tmp_path / "c")], "overall, mean of paradigms: p: 4 items, and 1"))
    cases.append(([*blimp, str(tmp_path / "c"), blimp[1]], "overall, mean of paradigms: they have not the same items"))
    write(tmp_path / "d" / "paradigms", p={"phenomenon": "npi"})
    cases.append(([blimp[0], str(tmp_path / "d")], "p.json: no result of run_pairs.py or run_sg.py: KeyError"))
    for arguments, message in cases:
        assert message in fail("compare", *arguments)[0]
