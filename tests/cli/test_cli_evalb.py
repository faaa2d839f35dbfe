"""`hf-structure evaluate --evalb`."""

import json

import pytest

from hf_structure.cli.main import main

GOLD = """(S (NP (DT The) (NN dog)) (VP (VBZ barks) (PRT (RP up))) (. .))
(S (NP (PRP It)) (VP (VBD rained)) (. .))
"""
SYSTEM = """(S (NP (NP (DT The)) (NN dog)) (VP (VBZ barks) (ADVP (RP up))) (. .))
(S (NP-SBJ (PRP It)) (NP (VBD rained) (. .)))
"""


@pytest.fixture
def files(tmp_path):
    for name, text in (("gold", GOLD), ("system", SYSTEM)):
        (tmp_path / f"{name}.mrg").write_text(text)
    return [str(tmp_path / "gold.mrg"), str(tmp_path / "system.mrg")]


def test_scores_of_evalb(files, capsys):
    main(["evaluate", *files, "--evalb", "--json"])
    scores = json.loads(capsys.readouterr().out)
    # The first sentence: 4 of 5; the second: S and NP of 3.
    assert (scores["matched"], scores["predicted"], scores["gold"]) == (6, 8, 7)
    assert (scores["exact"], scores["crossing"], scores["sentences"]) == (0, 0, 2)
    assert scores["f1"] == pytest.approx(12 / 15)
    main(["evaluate", *files, "--evalb", "--punctuation", "keep", "--json"])
    # NP of "rained." is now another span than VP's, and crosses none.
    kept = json.loads(capsys.readouterr().out)
    assert (kept["matched"], kept["predicted"], kept["gold"]) == (6, 8, 7)


def test_scores_are_printed(files, capsys):
    main(["evaluate", files[0], files[0], "--evalb"])
    printed = capsys.readouterr().out
    assert printed.split("\n\n")[1] == "2 sentences, 7 gold constituents, 7 predicted, 7 of them right\n"
    assert printed.splitlines()[1].split() == ["100.00", "100.00", "100.00", "100.00", "0.00"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--count_duplicates"], "--count_duplicates cannot be used with --evalb"),
        (["--by", "length"], "--by cannot be used with --evalb"),
        (["--punctuation", "drop_by_form"], "--evalb tells punctuation by the gold tags"),
    ],
)
def test_options_that_do_not_fit(files, options, message):
    with pytest.raises(SystemExit, match=message):
        main(["evaluate", *files, "--evalb", *options])


def test_gold_without_tags(tmp_path, files):
    (tmp_path / "bare.mrg").write_text("(S (NP The dog) (VP barks) .)\n")
    with pytest.raises(SystemExit, match="sentence 1 has no tags"):
        main(["evaluate", str(tmp_path / "bare.mrg"), str(tmp_path / "bare.mrg"), "--evalb"])


def test_trees_in_conllu(tmp_path):
    (tmp_path / "a.conllu").write_text("1\tYes\t_\t_\t_\t_\t0\troot\t_\t_\n\n")
    with pytest.raises(SystemExit, match="--evalb is for brackets"):
        main(["evaluate", str(tmp_path / "a.conllu"), str(tmp_path / "a.conllu"), "--evalb"])
