"""`examples/run_items.py`: effects against differences of `score`, and the items of SAP against their text."""

import json
import shutil
from pathlib import Path
from statistics import mean, stdev

import pandas
import pytest
from running import load_script

from hf_structure import score
from hf_structure.corpora.items import ItemSentence

CONDITIONS = {"ambiguous": "the {noun}", "clear": ", that the {noun}"}
ITEMS = [
    {
        "item": str(number),
        "condition": name,
        "sentence": f"The dog does care {text.format(noun=noun)} | does n't | end.",
    }
    for number, noun in enumerate(("dog", "cat", "bird", "mouse"), start=1)
    for name, text in CONDITIONS.items()
]


@pytest.fixture(scope="module")
def script():
    """The script as a module."""
    return load_script("run_items")


@pytest.fixture
def items(tmp_path) -> Path:
    pandas.DataFrame(ITEMS).to_csv(tmp_path / "items.csv", index=False)
    return tmp_path / "items.csv"


def differences(model: Path, **options) -> list[float]:
    """The surprisal of the last but one word and its neighbour in one condition minus the other, by item."""
    found = []
    for ambiguous, clear in zip(ITEMS[::2], ITEMS[1::2], strict=True):
        pair = []
        for item in (ambiguous, clear):
            scored = score(item["sentence"].replace(" |", ""), model, **options)
            place = len(scored.words) - 4
            assert scored.words[place : place + 2] == ["does", "n't"]
            pair.append(sum(scored.word_surprisals[place : place + 2]))
        found.append(pair[0] - pair[1])
    return found


def results(folder: Path, region: str, system: str) -> dict:
    rows = json.loads((folder / "results.json").read_text())["effects"]
    return next(row for row in rows if row["region"] == region and row["system"] == system)


@pytest.mark.slow
def test_effects_of_several_beams(run, gilt, items, tmp_path, capsys):
    output = tmp_path / "runs"
    command = ["--model", gilt, "--items", items, "--region_mark", "|", "--contrast", "path=ambiguous,clear"]
    run(*command, "--beam_size", "1,4", "--output_dir", output)
    expected = {size: differences(gilt, beam_size=size) for size in (1, 4)}
    for size, values in expected.items():
        row = results(output, "2", f"beam {size}")
        changes = [value - last for value, last in zip(values, expected[4], strict=True)]
        assert row["items"] == 4
        assert row["effect"] == pytest.approx(mean(values), abs=1e-3)
        assert row["effect_error"] == pytest.approx(stdev(values) / 2, abs=1e-3)
        assert row["change"] == pytest.approx(mean(changes), abs=1e-3)
        assert row["change_error"] == pytest.approx(stdev(changes) / 2, abs=1e-3)
    printed = capsys.readouterr().out
    assert printed == (output / "results.md").read_text()
    row = results(output, "2", "beam 1")
    assert f"| path | 2 | 4 | {row['effect']:.2f} ± {row['effect_error']:.2f} | " in printed
    assert "| contrast | region | items | change, beam 1 |" in printed
    ambiguous = [score(item["sentence"].replace(" |", ""), gilt, beam_size=4) for item in ITEMS[::2]]
    values = [sum(scored.word_surprisals[-4:-2]) for scored in ambiguous]
    cell = f"{mean(values):.2f} ± {stdev(values) / 2:.2f} |"
    assert next(line for line in printed.splitlines() if line.startswith("| ambiguous | 2 | 4 | ")).endswith(cell)
    assert "human" not in printed
    assert (output / "effects.svg").read_text().count("<svg") == 1


def test_the_table_of_words_is_kept(run, script, gpt2, items, tmp_path, monkeypatch):
    output = tmp_path / "runs"
    command = ["--model", gpt2, "--items", items, "--region_mark", "|", "--output_dir", output]
    run(*command, "--contrast", "path=ambiguous,clear")
    effect = results(output, "3", gpt2.name)["effect"]
    monkeypatch.delattr(script, "score_table")
    run(*command, "--contrast", "back=clear,ambiguous", "--regions", "3")
    assert results(output, "3", gpt2.name)["effect"] == pytest.approx(-effect)
    assert len(json.loads((output / "results.json").read_text())["effects"]) == 1
    with pytest.raises(ValueError, match=r"other options \(raw\)"):
        run(*command, "--contrast", "path=ambiguous,clear", "--raw")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "what is compared?"),
        (["--contrast", "path=ambiguous,other"], "path: no item has condition ambiguous and other with region 1"),
        (["--contrast", "path=ambiguous,clear", "--regions", "9"], "with region 9"),
        (["--contrast", "path=ambiguous,clear", "--sentence_column", "text"], "there is no column 'text'"),
    ],
    ids=["nothing", "condition", "region", "column"],
)
def test_errors(run, gpt2, items, tmp_path, options, message):
    with pytest.raises(ValueError, match=message) as error:
        run("--model", gpt2, "--items", items, "--region_mark", "|", "--output_dir", tmp_path / "runs", *options)
    assert "\n" not in str(error.value)


def test_region_without_human_effects(script):
    """The benchmark has those of three regions; surprisals of others have effects, too."""
    human = pandas.DataFrame({"coef": ["path"], "ROI": ["0"], "item": ["1"], "mean": 5.0, "lower": 4.0, "upper": 6.0})
    differences = pandas.DataFrame({"gpt2": [1.0, 3.0]}, index=["1", "2"])
    rows = script.summarize({("path", "0"): differences, ("path", "3"): differences}, [human, human])
    assert [row["effect"] for row in rows] == [2.0, 2.0]
    table = script.to_markdown(rows, [{"condition": "a", "region": "0", "system": "gpt2", "items": 2, "mean": 1.0}])
    assert "| path | 0 | 2 | 2.00 ± 1.00 | 5 [4, 6] |\n| path | 3 | 2 | 2.00 ± 1.00 | - |\n" in table


@pytest.fixture(scope="module")
def sap(data_dir) -> Path:
    folder = data_dir / "sap"
    if not folder.is_dir():
        pytest.skip(f"no SAP Benchmark in {folder}")
    return folder


def test_critical_words_of_sap(script, sap):
    """They are the verbs, whatever the columns with positions say."""
    rows = list(script.read_sap(sap))
    assert len(rows) == 144 + 72 + 48 + 36
    words = {(row["set"], row["item"], row["condition"]): row["sentence"].split()[row["position"] - 1] for row in rows}
    assert words["ClassicGP", "1", "MVRR_AMB"] == words["ClassicGP", "1", "MVRR_UAMB"] == "deserved"
    assert words["Agreement", "1", "UNAGREE"] == "deserves"
    assert words["AttachmentAmbiguity", "49", "AttachHigh"] == "is"
    assert words["RelativeClause", "42", "RC_Subj"] == words["RelativeClause", "42", "RC_Obj"] == "delayed"
    for name, item, _ in words:
        assert len({word for key, word in words.items() if key[:2] == (name, item)}) == 1


def test_words_are_those_of_sap(script, sap):
    """Split at spaces, as in the tables of surprisals that come with the items."""
    expected = pandas.read_csv(sap / "gpt2/items_ClassicGP.gpt2.csv").groupby(["item", "condition"]).word.agg(list)
    rows = [row for row in script.read_sap(sap) if row["set"] == "ClassicGP"]
    for row in rows:
        words = [row["sentence"][start:end] for start, end in ItemSentence(row["sentence"]).word_spans()]
        assert words == expected[int(row["item"]), row["condition"]]
    assert len(rows) == len(expected)


def test_effects_of_sap(run, script, gpt2, sap, tmp_path):
    """Of a few items: everything of the benchmark, with human effects."""
    copy = tmp_path / "sap"
    shutil.copytree(sap / "effects_ms", copy / "effects_ms")
    for name in script.SAP_CONTRASTS:
        frame = pandas.read_csv(sap / f"items_{name}.pivot.csv", dtype=str)
        frame[frame.item.isin(frame.item.unique()[:3])].to_csv(copy / f"items_{name}.pivot.csv", index=False)
    run("--model", gpt2, "--sap", copy, "--output_dir", tmp_path / "runs")
    rows = json.loads((tmp_path / "runs" / "results.json").read_text())["effects"]
    assert len(rows) == 7 * 3
    row = next(row for row in rows if (row["contrast"], row["region"]) == ("GPE_MVRR", "1"))
    assert (row["items"], round(row["human_ms"]), round(row["human_lower"])) == (3, 202, 179)
    words = pandas.read_csv(tmp_path / "runs" / "words.tsv", sep="\t")
    critical = words[words.region == 0].set_index(["item", "condition"])
    values = [critical.surprisal[item, "MVRR_AMB"] - critical.surprisal[item, "MVRR_UAMB"] for item in (1, 2, 3)]
    first = next(row for row in rows if (row["contrast"], row["region"]) == ("GPE_MVRR", "0"))
    assert first["effect"] == pytest.approx(mean(values), abs=1e-3)
    by_item = pandas.read_csv(sap / "effects_ms/by_item.csv").query(
        "source == 'human' and coef == 'GPE_MVRR' and ROI == 0"
    )
    human = by_item.set_index("item")["mean"].loc[[1, 2, 3]]
    assert first["correlation"] == pytest.approx(pandas.Series(values, human.index).corr(human), abs=1e-3)


def test_effects_of_entropies(run, gilt, items, tmp_path):
    command = ["--model", gilt, "--items", items, "--region_mark", "|", "--contrast", "path=ambiguous,clear"]
    run(*command, "--beam_size", "4", "--measure", "structure_entropy_reduction", "--output_dir", tmp_path / "runs")
    values = []
    for condition in (ITEMS[::2], ITEMS[1::2]):
        scores = [score(item["sentence"].replace(" |", ""), gilt, beam_size=4, entropy=True) for item in condition]
        values.append([scored.structure_entropies[-5] - scored.structure_entropies[-3] for scored in scores])
    expected = mean(first - second for first, second in zip(*values, strict=True))
    assert results(tmp_path / "runs", "2", "beam 4")["effect"] == pytest.approx(expected, abs=1e-3)


def test_a_single_item_has_no_error(run, gpt2, tmp_path, capsys):
    pandas.DataFrame(ITEMS[:2]).to_csv(tmp_path / "one.tsv", sep="\t", index=False)
    files = ["--items", tmp_path / "one.tsv", "--output_dir", tmp_path / "runs"]
    command = ["--model", gpt2, *files, "--region_mark", "|"]
    run(*command, "--contrast", "path=ambiguous,clear")
    row = results(tmp_path / "runs", "3", gpt2.name)
    assert row["effect_error"] is None
    assert f"| path | 3 | 1 | {row['effect']:.2f} ± - |" in capsys.readouterr().out


@pytest.mark.parametrize("effect", [2.0, -2.0])
def test_zeros_of_a_figure_are_at_one_place(script, effect):
    """Also where all effects of the model have another sign than those of humans."""
    row = {"contrast": "path", "region": "0", "system": "beam 1", "effect": effect, "effect_error": 0.1}
    figure = script.plot([row | {"human_ms": 50.0, "human_lower": 40.0, "human_upper": 60.0}])
    model, human = (panel for panel in figure.axes if panel.get_visible())
    places = [-low / (high - low) for low, high in (model.get_ylim(), human.get_ylim())]
    assert places[0] == pytest.approx(places[1])
    assert human.get_ylim()[1] >= 60
    assert model.get_ylim()[0] <= min(effect, 0)
