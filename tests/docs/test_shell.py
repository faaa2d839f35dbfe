"""What reads and checks the commands of documents: it sees what is wrong with them."""

import pytest
from documents import Block
from execution import check, run
from shell import commands

TEXT = """\
# a comment
echo "Hi there." | hf-structure parse --model udgn-en > out.conllu   # and another one
for n in 1 2; do grep -c "x" a-$n.txt \\
    > $n.txt; done
accelerate launch examples/run_mlm.py ... --config_overrides '{"hidden_size": 8,
    "num_hidden_layers": 1}'
python - one <<'END'
print("two")  # no command
END
"""


def read(text: str) -> list:
    return list(commands(Block("made.md", 1, "", text)))


def test_commands():
    found = read(TEXT)
    assert [command.program for command in found] == [
        "echo",
        "hf-structure",
        "grep",
        "grep",
        "examples/run_mlm.py",
        "python",
    ]
    assert [command.piped for command in found] == [False, True, False, False, False, False]
    assert [command.output for command in found] == [None, "out.conllu", "1.txt", "2.txt", None, None]
    assert found[0].words == ["echo", "Hi there."]
    assert found[3].words == ["grep", "-c", "x", "a-2.txt"]
    assert found[4].elided
    assert found[4].arguments == ["--config_overrides", '{"hidden_size": 8,\n    "num_hidden_layers": 1}']
    assert (found[5].arguments, found[5].text) == (["-", "one"], 'print("two")  # no command')
    assert [command.place for command in found] == [f"made.md:{line}" for line in (2, 2, 3, 3, 5, 7)]


@pytest.mark.parametrize(
    "line",
    [
        "hf-structure parse --no_such",
        "hf-structure parse --format no_such",
        "hf-structure no_such",
        "hf-structure train mlm --no_such 1",
        "accelerate launch -m hf_structure train mlm --max_length many",
        "hf-structure train mlm --config no_such.json",
        "python examples/run_mlm.py --no_such 1",
        "python examples/run_mlm.py --max_length many",
        "python examples/run_mlm.py --config no_such.json",
        """python examples/run_mlm.py --config_overrides '{"no_such": 1}'""",
        "python examples/papers/compare_g2gt.py --output_dir x",
        "python examples/papers/compare_g2gt.py ... -- --no_such",
        "make no_such",
        "pip install '.[no_such]'",
        "no_such --option",
    ],
)
def test_check_refuses(line, monkeypatch):
    with pytest.raises((AssertionError, SystemExit)):
        check(read(line)[0], monkeypatch)


def test_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gold.conllu").write_text("1\tHi\t_\t_\t_\t_\t0\troot\t_\t_\n\n")
    [evaluate] = read("hf-structure evaluate gold.conllu gold.conllu")
    assert b"UAS" in run(evaluate, b"", monkeypatch)
    [fails] = read("hf-structure evaluate gold.conllu none.conllu")
    with pytest.raises(AssertionError, match=r"none\.conllu"):
        run(fails, b"", monkeypatch)
    [code] = read("python - a b <<'END'\nimport sys\nprint(sys.argv[1:])\nEND")
    assert run(code, b"", monkeypatch) == b"['a', 'b']\n"
