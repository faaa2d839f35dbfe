import runpy
from itertools import pairwise
from pathlib import Path

import pytest

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "prepare_bllip.py"))
SECTIONS, SIZES = EXAMPLE["SECTIONS"], ["xs", "sm", "md", "lg"]


def names(split):
    return set(EXAMPLE["section_names"](split))


def test_sections():
    assert [len(names(size)) for size in SIZES] == [6, 30, 90, 261]
    for small, large in pairwise(SIZES):
        assert names(small) < names(large)
    assert not names("valid") & names("test")
    assert not names("lg") & (names("valid") | names("test"))
    assert sorted(names("xs")) == [
        "1987/W7_071",
        "1987/W7_122",
        "1988/W8_054",
        "1988/W8_107",
        "1989/W9_028",
        "1989/W9_037",
    ]


@pytest.fixture
def corpus(tmp_path):
    """Every section of BLLIP with three files of one tree each."""
    for split in ("lg", "valid", "test"):
        for section in EXAMPLE["section_names"](split):
            folder = tmp_path / "bllip" / section.lower()
            folder.mkdir(parents=True)
            for file in range(3):
                word = f"{section}.{file}".replace("/", "-")
                (folder / f"{file}.mrg").write_text(f"(S1 (S (NP (NNP {word})) (AUX is) (. .)))\n")
    return tmp_path


def run(*arguments):
    EXAMPLE["main"]([str(argument) for argument in arguments])


@pytest.mark.parametrize("size", SIZES)
def test_training_sets(corpus, size):
    run(corpus / "bllip", "--size", size, "--output_dir", corpus / "out", "--valid_files", 1, "--test_files", 2)
    words = [line.split()[0] for line in (corpus / "out/train.txt").read_text().splitlines()]
    assert words == [f"{s}.{f}".replace("/", "-") for s in EXAMPLE["section_names"](size) for f in range(3)]
    assert (corpus / "out/valid.txt").read_text().splitlines() == [
        "1987-W7_001.0 is",
        "1988-W8_001.0 is",
        "1989-W9_010.0 is",
    ]
    assert len((corpus / "out/test.mrg").read_text().splitlines()) == 6


def test_missing_sections(corpus, capsys):
    with pytest.raises(SystemExit) as caught:
        run(corpus / "bllip" / "1987", "--size", "xs", "--output_dir", corpus / "out")
    assert caught.value.code == 1
    assert "1988/W8_054" in capsys.readouterr().err
