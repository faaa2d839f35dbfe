"""`examples/papers/compare_constituents.py`: what is trained, and the scores of its table."""

import json

import pytest
from running import load_script
from tiny_models import new_rng_transformer

from hf_structure.text.conllu import ConlluSentence, read_conllu, write_conllu
from hf_structure.text.tokenization import build_word_tokenizer

WORDS = (["the", "cat", "slept", "."], ["the", "dog", "saw", "the", "cat"])
HEADS = ([2, 3, 0, 3], [2, 3, 0, 5, 3])
BRACKETS = (
    "(S (NP-SBJ (DT the) (NN cat)) (VP (VBD slept)) (. .))",
    "(S (NP-SBJ (DT the) (NN dog)) (VP (VBD saw) (NP (DT the) (NN cat))))",
)


@pytest.fixture
def compare(monkeypatch, tmp_path):
    """Runs the script with trainings that save a new model; returns their options."""
    calls = []
    files = []
    for part in ("train", "validation", "test"):
        sentences = [ConlluSentence.from_words(*each) for each in zip(WORDS, HEADS, strict=True)]
        write_conllu(sentences, tmp_path / f"{part}.conllu")
        (tmp_path / f"{part}.mrg").write_text("\n".join(BRACKETS) + "\n")
        files += [f"--{part}_file", tmp_path / f"{part}.conllu", f"--{part}_brackets", tmp_path / f"{part}.mrg"]

    def run_script(name, *options, output_dir, **named):
        calls.append((output_dir.name, options, named))
        labels = ["NP-SBJ", "S", "VP"] if named.get("functions") else ["NP", "S", "VP"]
        tokenizer = build_word_tokenizer(["the", "cat", "dog", "slept", "saw", "."])
        new_rng_transformer(output_dir, tokenizer, constituents=labels, columns={"xpos": ["DT", "NN", "VBD"]})
        (output_dir / "test_results.json").write_text('{"test_las": 0.5}')

    def compare(*arguments):
        script = load_script("compare_constituents")
        monkeypatch.setattr(script, "run_script", run_script)
        options = ["--model_name_or_path", "parser", "--output_dir", tmp_path / "runs", *files, *arguments]
        monkeypatch.setattr("sys.argv", ["compare_constituents.py", *map(str, options)])
        script.main()
        return calls

    return compare


@pytest.mark.smoke
def test_every_run_is_trained_and_scored_once(compare, tmp_path, capsys):
    calls = compare("--", "--bf16")
    assert [name for name, _, _ in calls] == ["tree-seed1", "margin-seed1", "functions-seed1", "alone-seed1"]
    assert all(options == ("--bf16",) for _, options, _ in calls)
    named = {name: options for name, _, options in calls}
    assert named["margin-seed1"]["config_overrides"] == {"constituent_loss": "margin"}
    assert named["functions-seed1"]["functions"] is True
    assert named["tree-seed1"]["train_file"] == str(tmp_path / "train.conllu")
    assert len(list(read_conllu(named["alone-seed1"]["train_file"]))) == 1
    scores = json.loads((tmp_path / "runs" / "tree-seed1" / "evalb.json").read_text())
    assert scores["test_evalb_sentences"] == 2
    assert scores["test_evalb_gold"] == 7
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "| run | seeds | labelled F1 | exact trees | LAS |"
    expected = f"{100 * scores['test_evalb_f1']:.1f} | {100 * scores['test_evalb_exact']:.1f} | 50.0 |"
    assert rows[2] == f"| tree | 1 | {expected}"
    assert len(compare("--seeds", "1", "2", "--runs", "tree")) == 5
    assert capsys.readouterr().out.splitlines()[2].startswith("| tree | 2 | ")


@pytest.mark.smoke
def test_missing_files_are_said_first(compare, tmp_path):
    (tmp_path / "test.mrg").unlink()
    with pytest.raises(FileNotFoundError, match=r"test\.mrg"):
        compare()
