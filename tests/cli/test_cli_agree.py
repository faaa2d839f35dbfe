"""`hf-structure agree` and `hf-structure consensus`."""

from dataclasses import replace

import pytest

from hf_structure.data.conllu import ConlluSentence, read_conllu, write_conllu

WORDS = ["the", "cat", "slept"]
TREES = {"a": [2, 3, 0], "b": [2, 3, 0], "c": [3, 0, 2]}


@pytest.fixture
def files(tmp_path):
    for name, heads in TREES.items():
        sentence = ConlluSentence.from_words(
            WORDS, heads, [name] * 3, misc=["SpaceAfter=No|HeadProb=0.5", "_", "Votes=9"]
        )
        sentence = replace(sentence, comments=["# sent_id = 1", "# log_probability = -1.5"])
        write_conllu([sentence] * 2, tmp_path / f"{name}.conllu")
    return [str(tmp_path / f"{name}.conllu") for name in TREES]


def test_agreement_of_dependency_trees(run, files):
    uas, uuas = (table.splitlines() for table in run("agree", *files).split("\n\n"))
    assert uas[0].split() == ["UAS", "1", "2", "3", "mean"]
    assert uas[1].split() == ["1", files[0], "-", "100.00", "0.00", "50.00"]
    assert uas[3].split() == ["3", files[2], "0.00", "0.00", "-", "0.00"]
    assert uuas[3].split() == ["3", files[2], "33.33", "33.33", "-", "33.33"]


def test_agreement_of_constituents(run, tmp_path):
    for name, tree in {"a": "(S (NP (D the) (N cat)) (V slept))", "b": "(S (D the) (VP (N cat) (V slept)))"}.items():
        (tmp_path / f"{name}.mrg").write_text(tree + "\n")
    files = [str(tmp_path / f"{name}.mrg") for name in "ab"]
    assert run("agree", *files).splitlines()[1].split() == ["1", files[0], "-", "0.00", "0.00"]


def test_consensus(run, files, tmp_path):
    run("consensus", *files, "--output", tmp_path / "out.conllu")
    first, second = read_conllu(tmp_path / "out.conllu")
    assert first.heads == [2, 3, 0]
    assert first.deprels == ["a"] * 3
    assert [token.misc for token in first.words] == ["SpaceAfter=No|Votes=2", "Votes=2", "Votes=2"]
    assert first.comments == ["# sent_id = 1"]
    assert second == first
    assert run("consensus", *files) == (tmp_path / "out.conllu").read_text()


def test_files_that_do_not_fit(fail, files, tmp_path):
    (tmp_path / "short.conllu").write_text((tmp_path / "a.conllu").read_text().split("\n\n")[0] + "\n\n")
    (tmp_path / "other.conllu").write_text((tmp_path / "a.conllu").read_text().replace("cat", "dog"))
    (tmp_path / "open.conllu").write_text((tmp_path / "a.conllu").read_text().replace("\t2\ta\t", "\t_\ta\t"))
    (tmp_path / "x.mrg").write_text("(S (D the))\n")
    wrong = {
        "short": ("short.conllu has 1 sentences only", "1 predicted sentences, but 2"),
        "other": ("sentence 1 has other words in", "word 2 is 'cat' in the prediction, 'dog'"),
        "open": ("sentence 1 has a word without a head", "sentence 1 of the gold sentences has words without"),
    }
    for name, messages in wrong.items():
        for command, message in zip(("consensus", "agree"), messages, strict=True):
            arguments = [files[0], str(tmp_path / f"{name}.conllu")]
            line, _ = fail(command, *(arguments if name != "short" or command == "consensus" else arguments[::-1]))
            assert message in line, (command, name)
    assert "differ in format" in fail("agree", files[0], tmp_path / "x.mrg")[0]
    for command in ("agree", "consensus"):
        assert "at least two different files" in fail(command, files[0], files[0])[0]
