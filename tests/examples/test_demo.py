import runpy
from pathlib import Path

import pytest
from tiny_models import new_udgn

from hf_structure import build_word_tokenizer, parse

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "demo.py"))


@pytest.fixture
def folder(tmp_path) -> Path:
    tokenizer = build_word_tokenizer(["the", "old", "man", "walked", "she", "gave", "what", "did"])
    return new_udgn(tmp_path / "model", tokenizer)


def test_prints_trees_and_draws_them(folder, tmp_path, capsys):
    page = tmp_path / "page.html"
    EXAMPLE["main"](["--models", str(folder), "--output", str(page), "-k", "1"])
    printed = capsys.readouterr().out
    sentences = EXAMPLE["SENTENCES"]
    assert len(sentences) == 3
    for parsed in parse(sentences, folder):
        assert f"{' '.join(parsed.words)}\n{parsed}\n" in printed
    assert printed.endswith(f"Pictures: {page}\n")
    html = page.read_text(encoding="utf-8")
    assert html.count("<svg") == 3
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")  # the page needs nothing from outside


def test_the_page_names_models_and_shows_the_k_best(folder, tmp_path, capsys):
    page = tmp_path / "page.html"
    other = folder.rename(tmp_path / "<other>")
    arguments = [*f"--models {other} {other} -k 2 --output {page} --sentences".split(), "The man walked."]
    EXAMPLE["main"](arguments)
    html = page.read_text(encoding="utf-8")
    assert html.count("<svg") == 4
    assert html.count("&lt;other&gt;</code>") == 2
    assert html.count("2. probability") == 2


def test_other_sentences(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    EXAMPLE["main"](["--models", str(folder), "-k", "1", "--sentences", "The man walked.", "She <b>did</b>"])
    assert "She < b > did < / b >" in capsys.readouterr().out
    html = Path("demo.html").read_text(encoding="utf-8")
    assert html.count("<svg") == 2
    assert "<b>did" not in html


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--models", "nonsense"], "no model 'nonsense'"),
        (["--output", "nowhere/demo.html"], "nowhere/demo.html: there is no folder "),
        (["--sentences", ""], "sentence 1: the sentence is empty"),
    ],
)
def test_wrong_arguments(folder, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as error:
        EXAMPLE["main"](["--models", str(folder), *arguments])
    assert error.value.code == 1
    assert message in capsys.readouterr().err
