"""`examples/papers/compare_sts.py`: the tables, and that what is done is not done again."""

import json
from pathlib import Path

import pytest
from running import load_script
from scipy.stats import spearmanr

from hf_structure import StructFormerConfig

ROWS = [("A dog!", "a cat", 1), ("a bird", "no bird", 2), ("one", "two", 3), ("red", "blue", 4), ("x", "y", 5)]
SEEN = [("A CAT", "a dog", 5), ("Two.", "one", 0)]  # the first and the third pair


def write(file: Path, rows: list[tuple]) -> None:
    lines = ["sentence1\tsentence2\tscore", *("\t".join(map(str, row)) for row in rows)]
    file.write_text("\n".join(lines) + "\n")


@pytest.fixture
def calls():
    return []


@pytest.fixture
def compare(calls, monkeypatch, tmp_path):
    """Runs the script with fake trainings, whose predictions depend on seed, model and set."""
    script = load_script("compare_sts")
    (tmp_path / "data").mkdir()
    write(tmp_path / "data" / "stsb-train.tsv", SEEN)
    for name in script.TESTS.values():
        write(tmp_path / "data" / f"{name}.tsv", ROWS)
    StructFormerConfig(attention="softmax").save_pretrained(tmp_path / "plain")

    def run_script(path, *options, **named):
        calls.append((named["output_dir"].name, options, named))
        named["output_dir"].mkdir(parents=True)
        lines = [
            json.dumps({"file": Path(file).stem, "label": row[2], "prediction": predicted(named, number, place)})
            for place, file in enumerate(named["test_file"])
            for number, row in enumerate(ROWS)
        ]
        (named["output_dir"] / "test_predictions.jsonl").write_text("\n".join(lines) + "\n")

    monkeypatch.setattr(script, "run_script", run_script)

    def compare(*arguments):
        folders = ["--data", str(tmp_path / "data"), "--output_dir", str(tmp_path / "out")]
        models = ["--models", "udgn-en", str(tmp_path / "plain")]
        monkeypatch.setattr("sys.argv", ["compare_sts.py", *models, *folders, *arguments])
        script.main()

    return compare


def predicted(named: dict, row: int, place: int) -> int:
    return (row * (named["seed"] + 2) + place + len(named["output_dir"].name)) % 7


def test_every_run_is_done_once(compare, calls, tmp_path):
    compare("--seeds", "1", "2", "--", "--use_cpu")
    names = ["udgn-en-frozen", "udgn-en", "plain"]
    assert [name for name, *_ in calls] == [f"{name}-seed{seed}" for seed in (1, 2) for name in names]
    assert [options for _, options, _ in calls[:2]] == [("--freeze_parser", "--use_cpu"), ("--use_cpu",)]
    (tmp_path / "out" / "udgn-en-seed1" / "test_predictions.jsonl").unlink()
    (tmp_path / "out" / "udgn-en-seed1").rmdir()
    compare("--seeds", "1", "2")
    assert [name for name, *_ in calls[6:]] == ["udgn-en-seed1"]


@pytest.mark.smoke
def test_tables_are_of_all_pairs_and_of_unseen_ones(compare, calls, tmp_path, capsys):
    compare("--seeds", "3")
    lines = capsys.readouterr().out.splitlines()
    assert (tmp_path / "out" / "table.md").read_text().splitlines() == lines
    assert lines[2].startswith("| model | seeds | STS12 | STS13 | STS14 | STS15 | STS16 | STS-B | SICK-R | Avg. |")
    assert "Pairs that were not trained on: STS12 3 of 5, STS13 3 of 5" in "\n".join(lines)
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith(("| udgn", "| plain"))]
    assert [row[0] for row in rows] == 2 * ["udgn-en (freeze parser)", "udgn-en", "plain"]
    for kept, row in ((range(5), rows[1]), ((1, 3, 4), rows[4])):
        expected = [
            100 * spearmanr([predicted(calls[1][2], n, place) for n in kept], [ROWS[n][2] for n in kept]).statistic
            for place in range(7)
        ]
        assert row[2:] == [f"{value:.1f}" for value in [*expected, sum(expected) / 7]]


def test_a_set_that_was_trained_on_as_a_whole_is_left_out(compare, tmp_path, capsys):
    write(tmp_path / "data" / "stsb-test.tsv", [SEEN[0]] * len(ROWS))
    compare("--seeds", "3")
    rows = [
        line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| plain")
    ]
    assert "-" not in rows[0]
    assert [place for place, cell in enumerate(rows[1]) if cell == "-"] == [7, 9]  # it, and the mean


def test_the_data_has_the_tables_that_are_read(data_dir):
    script = load_script("compare_sts")
    for name in ("stsb-train", "stsb-dev", *script.TESTS.values()):
        assert (data_dir / "sts" / f"{name}.tsv").read_text().split("\n")[0].startswith("sentence1\tsentence2\tscore")
