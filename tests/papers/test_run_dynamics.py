"""`run_dynamics.py`: what is measured of checkpoints, and that nothing is measured twice."""

import json
import math
import shutil

import pytest
from running import EXAMPLES, load_script
from tiny_models import new_structformer, new_udgn

from hf_structure import build_word_tokenizer, parse
from hf_structure.metrics.attachment import attachment_scores
from hf_structure.metrics.constituency import unlabeled_f1
from hf_structure.metrics.head_positions import commonest_head
from hf_structure.text.formats import load_sentences

WORDS = ["the", "a", "dog", "cat", "bird", "mouse", "sees", "hears", "near", "under"]


@pytest.fixture(scope="module")
def script():
    return load_script("run_dynamics")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two runs: three checkpoints of a UDGN, of other weights each, and one of a StructFormer."""
    folder, tokenizer = tmp_path_factory.mktemp("runs"), build_word_tokenizer(WORDS)
    for step, std in ((5, 0.2), (10, 0.7), (100, 2.0)):
        new_udgn(folder / "udgn" / f"checkpoint-{step}", tokenizer, std)
    new_structformer(folder / "sf" / "checkpoint-7", tokenizer)
    (folder / "udgn" / "checkpoint-200").mkdir()  # begun when the run was killed
    return folder


@pytest.fixture
def arguments(trained, corpus, tmp_path):
    files = ["--test_file", corpus / "dev.conllu", "--test_brackets", corpus / "dev.mrg"]
    return [trained / "udgn", f"small={trained / 'sf'}", *files, "--output_dir", tmp_path / "out"]


@pytest.mark.smoke
def test_scores_are_those_of_the_checkpoints(run, arguments, trained, corpus, tmp_path, capsys):
    run(*arguments)
    rows = list(load_sentences(corpus / "dev.conllu", punctuation="drop"))
    words, gold = [row["words"] for row in rows], [row["heads"] for row in rows]
    heads = {}
    for step in (5, 10, 100):
        found = json.loads((tmp_path / "out" / "checkpoints" / "udgn" / f"{step}.json").read_text())
        model = trained / "udgn" / f"checkpoint-{step}"
        trees = parse(words, model)
        heads[step] = [list(tree.dependency.heads) for tree in trees]
        scores = attachment_scores(heads[step], gold)
        assert (found["scores"]["uas"], found["scores"]["uuas"]) == (scores.uas, scores.uuas)
        assert found["scores"]["perplexity"] > 1
        assert math.isfinite(found["scores"]["perplexity"])
        argmax = [list(tree.dependency.heads) for tree in parse(words, model, decoder="argmax")]
        assert found["scores"]["commonest_head"] == commonest_head(argmax)[1] > 0
    agreement = attachment_scores(heads[5], heads[100]).uuas
    assert 0 < agreement < 1
    table = [[cell.strip() for cell in row.strip("|").split("|")] for row in capsys.readouterr().out.splitlines()]
    columns = {name: [row[number] for row in table[2:]] for number, name in enumerate(table[0])}
    assert columns["run"] == ["udgn", "udgn", "udgn", "small"]
    assert columns["updates"] == ["5", "10", "100", "7"]
    assert columns["agreement with the last"][::2] == [f"{100 * agreement:.1f}", "100.0"]
    spans = [tree.constituency.spans for tree in parse(words, trained / "sf" / "checkpoint-7")]
    brackets = [row["spans"] for row in load_sentences(corpus / "dev.mrg", punctuation="drop")]
    expected = unlabeled_f1(spans, brackets, list(map(len, words))).uf1
    assert columns["UF1"] == ["-", "-", "-", f"{100 * expected:.1f}"]
    assert (tmp_path / "out" / "table.md").read_text().startswith("| run | updates | perplexity | UAS |")
    assert (tmp_path / "out" / "dynamics.svg").read_text().count("<svg") == 1


def test_only_new_checkpoints_are_measured(run, script, arguments, trained, tmp_path, monkeypatch):
    copy = shutil.copytree(trained, tmp_path / "copy")
    arguments = [copy / "udgn", *arguments[2:]]
    measured = []
    monkeypatch.setattr(
        script,
        "measure",
        lambda checkpoint, args: measured.append(checkpoint.name) or {"scores": {"perplexity": 3.0}, "heads": []},
    )
    run(*arguments)
    assert measured == ["checkpoint-5", "checkpoint-10", "checkpoint-100"]
    measured.clear()
    run(*arguments)
    assert measured == []
    shutil.copytree(copy / "udgn" / "checkpoint-100", copy / "udgn" / "checkpoint-300")
    run(*arguments)
    assert measured == ["checkpoint-300"]
    measured.clear()
    run(copy / "sf", *arguments)
    assert measured == ["checkpoint-7"]
    measured.clear()
    for path in (copy / "udgn" / "checkpoint-5").iterdir():
        shutil.copy(path, copy / "udgn" / "checkpoint-10")  # trained again
    run(*arguments)
    assert measured == ["checkpoint-10"]


def test_blimp_is_asked_of_every_checkpoint(run, script, arguments, monkeypatch, tmp_path):
    asked = []

    def answer(path, *imports, model, data, every, output_dir):
        asked.append((path.name, *imports, model.name, data, every))
        output_dir.mkdir(parents=True)
        (output_dir / "results.json").write_text('{"overall": {"paradigms": 0.625}}')

    monkeypatch.setattr(script, "run_script", answer)
    (tmp_path / "pairs.jsonl").touch()
    own = EXAMPLES / "own_udgn.py"
    run(*arguments[1:], "--blimp", tmp_path, "--import", own)
    assert asked == [("run_pairs.py", f"--import={own}", "checkpoint-7", str(tmp_path), 10)]
    assert "| 62.5 |" in (tmp_path / "out" / "table.md").read_text()


def test_pairs_are_looked_for_before_anything_is_measured(run, script, arguments, monkeypatch):
    monkeypatch.setattr(script, "measure", lambda *_: pytest.fail("measured"))
    with pytest.raises(ValueError, match="none is no folder"):
        run(*arguments, "--blimp", "./none")


def test_runs_are_called_by_their_whole_folder(run, script, arguments, trained, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(script, "measure", lambda *_: {"scores": {"perplexity": 3.0}, "heads": []})
    runs = [shutil.copytree(trained / "sf", tmp_path / f"mask-0.{tenths}") for tenths in (1, 5)]
    run(*runs, *arguments[2:])
    assert [row.split()[1] for row in capsys.readouterr().out.splitlines()[2:]] == ["mask-0.1", "mask-0.5"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder, rest: [folder / "sf" / "checkpoint-7", *rest], "checkpoint-7 has no checkpoints: train with"),
        (lambda folder, rest: [folder / "sf", folder / "sf", *rest], "two systems are called 'sf'"),
    ],
)
def test_folders_without_checkpoints(run, arguments, trained, change, message):
    with pytest.raises(ValueError, match=message):
        run(*change(trained, arguments[2:]))


def test_other_files_in_the_same_folder_are_refused(run, arguments, corpus):
    run(*arguments[1:])
    other = [corpus / "train.conllu" if value == corpus / "dev.conllu" else value for value in arguments[1:]]
    with pytest.raises(ValueError, match=r"is of a run with other options \(files\)"):
        run(*other)


def test_a_collapsed_parser_is_warned_of(run, script, arguments, monkeypatch, caplog):
    monkeypatch.setattr(script, "COLLAPSED", 0.0)
    run(*arguments)
    warnings = [record.getMessage() for record in caplog.records if "the parser has collapsed" in record.getMessage()]
    assert len(warnings) == 4
    assert "% of argmax heads are word " in warnings[0]
