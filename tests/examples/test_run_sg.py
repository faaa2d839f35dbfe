"""`examples/run_sg.py`: in process where that is enough, as a command where a process is the point."""

import json
from functools import partial
from pathlib import Path

import pytest
import running
import torch
from running import load_script
from transformers import AutoModelForCausalLM, AutoTokenizer

from hf_structure import score

command = partial(running.command, "run_sg.py")
NOUNS, VERBS = ("dog", "cat", "bird", "senator"), ("sees", "sleeps", "doesn't care")
SIX = ("number_orc", "npi_src_any", "mvrr", "subordination", "center_embed", "fgd_pp")
FIRST, SECOND = "(3;%match%) < (3;%mismatch%)", "(3;%match%) + (4;%match%) < (3;%mismatch%) + (4;%mismatch%)"


@pytest.fixture(scope="module")
def script():
    """The script as a module."""
    return load_script("run_sg")


def made_suite(name: str, items: int = 4, formulas: tuple[str, ...] = (FIRST,)) -> dict:
    """Regions with empty text, clitics, and punctuation apart and attached; the last two sentences are the same."""
    made = []
    for number in range(items):
        noun, verb = NOUNS[number % 4], VERBS[number % 3]
        texts = {
            "match": ["The", noun, f"{verb} ", "", ", the end ."],
            "mismatch": [" The", f"{noun}s", verb, "", "the end."],
            "again": ["The", f"{noun}s {verb}", "the", "", "end."],
        }
        regions = {
            condition: [{"region_number": i, "content": text} for i, text in enumerate(row, start=1)]
            for condition, row in texts.items()
        }
        conditions = [{"condition_name": condition, "regions": row} for condition, row in regions.items()]
        made.append({"item_number": number + 1, "conditions": conditions})
    predictions = [{"type": "formula", "formula": text} for text in formulas]
    return {"meta": {"name": name, "metric": "sum"}, "predictions": predictions, "items": made}


def write_suites(folder: Path, *suites: dict) -> Path:
    folder.mkdir(exist_ok=True)
    for suite in suites:
        (folder / f"{suite['meta']['name']}.json").write_text(json.dumps(suite))
    return folder


@pytest.fixture
def suites(tmp_path) -> Path:
    """A folder with a suite of every circuit, and one of none."""
    made = [made_suite(name) for name in (*SIX, "mine")]
    return write_suites(tmp_path / "made", *made, made_suite("nn-nv-rpl", 1, (FIRST, SECOND)))


MODELS = pytest.mark.parametrize(
    ("model", "options"),
    [
        ("gilt", ["--beam_size", "3"]),
        ("gilt", ["--beam_size", "2", "--raw"]),
        pytest.param("pushdown", ["--beam_size", "3"], marks=pytest.mark.slow),
        ("gpt2", []),
        pytest.param("gpt2", ["--raw"], marks=pytest.mark.slow),
    ],
    ids=["gilt", "gilt-raw", "pushdown", "gpt2", "gpt2-raw"],
)


def sentences_of(suite: dict) -> list[tuple[str, str, list[str]]]:
    """`(item, condition, texts of its regions)`."""
    return [
        (item["item_number"], condition["condition_name"], [region["content"] for region in condition["regions"]])
        for item in suite["items"]
        for condition in item["conditions"]
    ]


def line(model: Path, suites: Path, output: Path, *options: str) -> list[str]:
    return ["--model", str(model), "--suites", str(suites), "--output_dir", str(output), *options]


def read(path: Path):
    return json.loads(path.read_text())


@MODELS
def test_results(run, suites, tmp_path, capsys, request, model, options):
    folder, output = request.getfixturevalue(model), tmp_path / "new" / "sg"
    run(*line(folder, suites, output, *options))
    results = read(output / "results.json")
    assert sorted(results["suites"]) == sorted((*SIX, "mine", "nn-nv-rpl"))
    for name, value in results["suites"].items():
        items = read(output / "suites" / f"{name}.json")
        right = [row["surprisals"]["match"]["3"] < row["surprisals"]["mismatch"]["3"] for row in items]
        assert [row["holds"][0] for row in items] == right
        assert value == sum(right) / len(right)
    assert len(results["circuits"]) == 7
    assert results["circuits"]["Licensing"] == results["suites"]["npi_src_any"]
    assert results["overall"]["without_other"] == pytest.approx(sum(results["suites"][name] for name in SIX) / 6)
    assert results["overall"]["with_other"] == pytest.approx(sum(results["circuits"].values()) / 7)
    assert results["beam_size"] == (None if model == "gpt2" else int(options[1]))
    printed = capsys.readouterr()
    assert "58/58" in printed.err  # the progress bar; of 3 sentences of an item, 2 are different
    assert printed.out == (output / "results.md").read_text() + "\n"
    assert "| **overall**, without Other | | " in printed.out.replace("|  |", "| |")
    assert "| mine | - | 4 | " in printed.out


@MODELS
def test_surprisals_of_regions_add_up_to_those_of_sentences(run, tmp_path, request, model, options):
    folder, suite = request.getfixturevalue(model), made_suite("number_orc")
    run(*line(folder, write_suites(tmp_path / "made", suite), tmp_path / "sg", *options))
    items = {row["item"]: row["surprisals"] for row in read(tmp_path / "sg" / "suites" / "number_orc.json")}
    settings = {"raw": "--raw" in options, "beam_size": None if model == "gpt2" else int(options[1])}
    for item, condition, texts in sentences_of(suite):
        scored = score(" ".join(" ".join(texts).split()), folder, **settings)
        end = sum(s for word, s in zip(scored.word_ids, scored.token_surprisals, strict=True) if word == 0)
        regions = items[item][condition]
        assert sum(regions.values()) == pytest.approx(-scored.log_prob - end)
        assert list(regions) == ["1", "2", "3", "4", "5"]
        assert [value == 0 for value in regions.values()] == [False, False, False, True, False]


def test_surprisals_by_character_offsets(run, gpt2, tmp_path):
    """Of the raw text, with nothing of this library."""
    suite = made_suite("number_orc")
    run(*line(gpt2, write_suites(tmp_path / "made", suite), tmp_path / "sg", "--raw"))
    items = {row["item"]: row["surprisals"] for row in read(tmp_path / "sg" / "suites" / "number_orc.json")}
    model, tokenizer = AutoModelForCausalLM.from_pretrained(gpt2), AutoTokenizer.from_pretrained(gpt2)
    for item, condition, texts in sentences_of(suite):
        text, ends = "", []
        for part in texts:
            text = f"{text} {part.strip()}".strip()
            ends.append(len(text))
        encoding = tokenizer(text, return_offsets_mapping=True)
        ids = torch.tensor([[0, *encoding["input_ids"]]])
        surprisals = -model(ids).logits.log_softmax(-1)[0, :-1].gather(1, ids[0, 1:, None]).squeeze(1)
        expected = [0.0] * len(texts)
        for (_, end), surprisal in zip(encoding["offset_mapping"], surprisals.tolist(), strict=True):
            expected[next(region for region, last in enumerate(ends) if end <= last)] += surprisal
        assert list(items[item][condition].values()) == pytest.approx(expected, abs=1e-4)


def test_sentences_are_scored_once(script, run, gpt2, suites, tmp_path, monkeypatch):
    scored = []

    def counted(sentences, **settings):
        scored.append(sentences)
        return score(sentences, **settings)

    monkeypatch.setattr(script, "score", counted)
    run(*line(gpt2, suites, tmp_path / "sg"))
    assert sorted(map(len, scored)) == [1, 2, *[8] * 7]  # the first tells whether the model can score
    assert all(len(set(sentences)) == len(sentences) for sentences in scored)


@pytest.mark.parametrize("predictions", ["first", "mean", "all"])
def test_several_predictions(run, gpt2, tmp_path, predictions):
    folder = write_suites(tmp_path / "made", made_suite("nn-nv-rpl", 4, (FIRST, "(1;%match%) < 0")))
    run(*line(gpt2, folder, tmp_path / "sg", "--predictions", predictions))
    rows = [row["holds"] for row in read(tmp_path / "sg" / "suites" / "nn-nv-rpl.json")]
    first = sum(row[0] for row in rows) / 4
    assert first > 0
    expected = {"first": first, "mean": first / 2, "all": 0.0}[predictions]
    assert read(tmp_path / "sg" / "results.json")["suites"] == {"nn-nv-rpl": expected}


def test_a_part_of_the_suites(run, gpt2, suites, tmp_path, capsys):
    files = [suites / "npi_src_any.json", suites / "mvrr.json"]
    run("--model", gpt2, "--output_dir", tmp_path / "sg", "--suites", *files, "--only", "mvrr")
    results = read(tmp_path / "sg" / "results.json")
    assert list(results["circuits"]) == ["Garden-Path Effects"]
    assert results["overall"] == {"without_other": None, "with_other": None}
    assert "| **overall**, with Other |  | - |" in capsys.readouterr().out


# Going on


@pytest.fixture
def broken(script, run, gpt2, suites, tmp_path, monkeypatch):
    """Command line and output of a run that broke off in its third suite."""
    arguments = line(gpt2, suites, tmp_path / "sg")
    done = []

    def breaking(sentences, **settings):
        done.append(sentences)
        if len(done) == 4:  # the first tells whether the model can score
            raise OSError("killed")
        return score(sentences, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(script, "score", breaking)
        with pytest.raises(OSError, match="killed"):
            run(*arguments)
    return arguments, tmp_path / "sg"


def test_suites_that_are_done_are_not_scored_again(script, run, gpt2, suites, broken, tmp_path, monkeypatch):
    arguments, output = broken
    assert len(list((output / "suites").iterdir())) == 2
    scored = []
    monkeypatch.setattr(script, "score", lambda texts, **settings: scored.append(texts) or score(texts, **settings))
    run(*arguments, "--max_tokens", "30", "--predictions", "mean", "--device", "cpu")
    assert len(scored) == 1 + 6
    run(*arguments)
    assert len(scored) == 1 + 6 + 1
    run(*line(gpt2, suites, tmp_path / "whole"))
    assert read(output / "results.json") == read(tmp_path / "whole" / "results.json")


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        (["--raw"], "raw"),
        (["--word_tokenizer", "english"], "word_tokenizer"),
        (["--only", "mvrr"], "suites"),
        (["--model", "gilt"], "beam_size, model"),
        (["changed"], "suites"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_refuses_to_go_on_with_other_options(run, gilt, suites, broken, change, differs):
    arguments, output = broken
    if change == ["changed"]:
        write_suites(suites, made_suite("mvrr", 3))
        change = []
    with pytest.raises(ValueError, match="of a run with other options") as error:
        run(*arguments, *(gilt if part == "gilt" else part for part in change))
    assert f"({differs})" in str(error.value)
    assert not (output / "results.json").exists()


# Errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--suites", "nowhere"], "nowhere"),
        (["--suites", "empty"], r"empty: no test suites \(\*.json\) in this folder"),
        (["--suites", "made", "copy"], "two suites have the name 'mine'"),
        (["--suites", "wrong.json"], "wrong.json: item 1 has no region 9 in condition 'match', at character 1 of"),
        (["--only", "npi_none", "mvrr"], "there is no suite npi_none: there are center_embed, fgd_pp, mine"),
        (["--beam_size", "2"], "leave beam_size out"),
    ],
    ids=lambda value: "-".join(value[:2]) if isinstance(value, list) else "",
)
def test_errors(run, gpt2, suites, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    write_suites(Path("copy"), made_suite("mine"))
    Path("wrong.json").write_text(json.dumps(made_suite("wrong", formulas=("(9;%match%) > 0",))))
    with pytest.raises((ValueError, OSError), match=message) as error:
        run(*line(gpt2, suites, tmp_path / "sg"), *options)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "sg").exists()  # so that it is no obstacle to another try


def test_a_sentence_that_is_too_long(run, gpt2, tmp_path):
    suite = made_suite("mine", 2)
    suite["items"][1]["conditions"][1]["regions"][2]["content"] = "end " * 2000
    with pytest.raises(ValueError, match=r"suite mine, 'The cats end end .* are too many for the model"):
        run(*line(gpt2, write_suites(tmp_path / "made", suite), tmp_path / "sg"))
    assert not (tmp_path / "sg" / "results.json").exists()


def test_results_are_written_after_their_table(script, run, gpt2, suites, tmp_path, monkeypatch):
    """They say that a run has ended."""

    def kill(*arguments):
        raise OSError("killed")

    monkeypatch.setattr(script, "write_text", kill)
    with pytest.raises(OSError, match="killed"):
        run(*line(gpt2, suites, tmp_path / "sg"))
    assert not (tmp_path / "sg" / "results.json").exists()
