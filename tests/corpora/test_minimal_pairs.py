"""Minimal pairs: each known set in its own form, with sentences of our own; other layouts; errors."""

import gzip
import json
from pathlib import Path

import pytest

from hf_structure.corpora.minimal_pairs import PRESETS, MinimalPair, PairLayout, Variant, measure_of, read_pairs

NOUNS = ("fox", "owl", "hen")


def jsonl(rows: list[dict]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def texts(pairs: list[MinimalPair]) -> list[tuple[str, str]]:
    return [(pair.good.text, bad.text) for pair in pairs for bad in pair.bad]


def write(folder: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return str(folder)


def blimp() -> tuple[dict[str, str], dict]:
    groups = {"UID": "noun_verb", "linguistics_term": "agreement", "field": "syntax/semantics"}
    rows = [
        {"sentence_good": f"The {n} runs.", "sentence_bad": f"The {n} run.", **groups, "pairID": "0"} for n in NOUNS
    ]
    pairs = [(f"The {n} runs.", f"The {n} run.") for n in NOUNS]
    return {"noun_verb.jsonl": jsonl(rows)}, {"noun_verb": (("noun_verb", "agreement", "syntax_semantics"), pairs)}


def supplement() -> tuple[dict[str, str], dict]:
    pairs = [(f"A: Who ran?\nB: The {n} ran.", f"A: Who ran?\nB: The {n} run.") for n in NOUNS]
    rows = [{"row": 0, "contrast": "a/b", "sentence_good": good, "sentence_bad": bad} for good, bad in pairs]
    files = {"turns.jsonl": jsonl(rows[:2]), "questions.jsonl": jsonl(rows[2:])}
    return files, {"questions": (("questions",), pairs[2:]), "turns": (("turns",), pairs[:2])}


def multiblimp() -> tuple[dict[str, str], dict]:
    names = ["sen", "head_features", "metadata", "wrong_sen", "phenomenon", "lang"]
    rows = [names]
    for noun, phenomenon in zip(NOUNS, ("SV-#", "SV-P", "SV-#"), strict=True):
        cell = f'"{{\'text\': ""The {noun}, isn\'t it?""}}"'
        rows.append([f"The {noun} runs.", "{'Number': 'Sing'}", cell, f"The {noun} run.", phenomenon, "eng"])
    pairs = [(f"The {n} runs.", f"The {n} run.") for n in NOUNS]
    german = [names, ["Sie läuft.", "{}", "{}", "Sie laufe.", "SV-P", "deu"]]
    files = {f"{lang}/data.tsv": "\n".join(map("\t".join, table)) for lang, table in (("eng", rows), ("deu", german))}
    return files, {
        "SV-P / deu": (("SV-P", "deu"), [("Sie läuft.", "Sie laufe.")]),
        "SV-# / eng": (("SV-#", "eng"), pairs[::2]),
        "SV-P / eng": (("SV-P", "eng"), pairs[1:2]),
    }


def sling() -> tuple[dict[str, str], dict]:
    """Names of columns are written in two ways."""
    pairs = [(f"一只{n}在这里。", f"一个{n}在这里。") for n in NOUNS]
    files = {}
    for name, (good, bad) in zip("abc", pairs, strict=True):
        columns = ("Paradigm", "Phenomenon") if name == "a" else ("paradigm", "phenomenon")
        row = {
            "sentence_good": good,
            "sentence_bad": bad,
            **dict(zip(columns, (f"p{name}", "Classifier"), strict=True)),
        }
        files[f"Classifier/{name}.first200.jsonl"] = jsonl([row | {"pair_ID": 0, "field": "semantics"}])
    return files, {
        f"p{name}": ((f"p{name}", "Classifier", "semantics"), [pair]) for name, pair in zip("abc", pairs, strict=True)
    }


def rublimp() -> tuple[dict[str, str], dict]:
    pairs = [(f"Вот, {n} бежит.", f"Вот, {n} бежать.") for n in NOUNS]
    lines = [
        "id,source_sentence,target_sentence,source_word,target_word,level,phenomenon,PID,subtype,domain,tree_depth"
    ]
    lines += [f'{i},"{a}","{b}",x,y,Syntax,Agreement,verb_form,verb_form,own,2' for i, (a, b) in enumerate(pairs)]
    return {"verb_form.first100.csv": "\n".join(lines)}, {"verb_form": (("verb_form", "Agreement", "Syntax"), pairs)}


def gulordava_files() -> dict[str, str]:
    """A random verb stands at the place of the forms in the sentences."""
    gold = [
        f"P!V\t1\t{sent}\t2\tVERB\tNumber=Sing\truns\trun\trun\t{sent}\tNOUN\tThe {NOUNS[0]} runs" for sent in range(3)
    ]
    text = [f"The {noun} sings near the old trees . <eos>" for noun in NOUNS]
    return {f"generated.{name}": "\n".join(rows) + "\n" for name, rows in (("gold", gold), ("text", text))}


def gulordava() -> tuple[dict[str, str], dict]:
    pair = [("runs", "run")]
    return gulordava_files(), {"original": (("original",), pair), "generated": (("generated",), pair * 2)}


def gulordava_sentences() -> tuple[dict[str, str], dict]:
    pairs = [tuple(f"The {n} {verb} near the old trees ." for verb in ("runs", "run")) for n in NOUNS]
    return gulordava_files(), {"original": (("original",), pairs[:1]), "generated": (("generated",), pairs[1:])}


MADE = {
    "blimp": blimp,
    "blimp-supplement": supplement,
    "multiblimp": multiblimp,
    "sling": sling,
    "rublimp": rublimp,
    "gulordava": gulordava,
    "gulordava-sentences": gulordava_sentences,
}


@pytest.mark.parametrize("preset", PRESETS)
def test_known_sets(tmp_path, preset):
    files, expected = MADE[preset]()
    found = read_pairs(write(tmp_path, files), PRESETS[preset])
    assert {name: (pairs[0].groups, texts(pairs)) for name, pairs in found.items()} == expected
    assert list(found) == list(expected)
    is_given = preset == "gulordava"
    prefixes = [pair.good.prefix for pairs in found.values() for pair in pairs]
    assert prefixes == ([f"The {noun}" for noun in NOUNS] if is_given else [None] * len(prefixes))
    measure = measure_of(pair for pairs in found.values() for pair in pairs)
    assert measure == ("the target given the prefix" if is_given else "the whole string")


COUNTS = {"blimp-supplement": 5218, "multiblimp": 770, "sling": 880, "rublimp": 800, "gulordava": 410}


@pytest.mark.parametrize("preset", COUNTS)
def test_given_sets(data_dir, preset):
    names = {"multiblimp": "multiblimp-eng", "gulordava": "gulordava-en"}
    folder = data_dir / "pairs" / names.get(preset, preset)
    if not folder.is_dir():
        pytest.skip(f"no pairs in {folder}")
    found = read_pairs(str(folder), PRESETS[preset])
    assert sum(map(len, found.values())) == COUNTS[preset]
    expected = {
        "blimp-supplement": {"hypernym": 842, "turn_taking": 280},
        "multiblimp": {"SV-P": 453, "SV-#": 317},
        "sling": {"temporal_guo": 200, "animacy_effect": 40},
        "rublimp": {"conj_verb_tense": 100},
        "gulordava": {"original": 41, "generated": 369},
    }[preset]
    assert {name: len(found[name]) for name in expected} == expected


def test_files_alone_compressed_and_of_one_name(tmp_path):
    rows = [{"good": "A b.", "bad": "B a."}]
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(jsonl(rows).encode()))
    layout = PairLayout("good", ("bad",))
    assert list(read_pairs(str(tmp_path / "a.jsonl.gz"), layout)) == ["a"]
    write(tmp_path, {"a.csv": "good,bad\nA c.,C a.\n", "notes.txt": "none"})
    found = read_pairs(str(tmp_path), layout)
    assert {name: texts(pairs) for name, pairs in found.items()} == {
        "a.csv": [("A c.", "C a.")],
        "a.jsonl.gz": [("A b.", "B a.")],
    }


LONG = [  # item 1 of one kind is not item 1 of another
    {"item": 1, "kind": "x", "ok": True, "sentence": "A b."},
    {"item": 1, "kind": "y", "ok": False, "sentence": "D c."},
    {"item": 1, "kind": "y", "ok": True, "sentence": "C d."},
    {"item": 1, "kind": "x", "ok": False, "sentence": "B a."},
    {"item": 1, "kind": "x", "ok": False, "sentence": "A a."},
]


def test_rows_with_a_label(tmp_path):
    path = write(tmp_path, {"long.jsonl": jsonl(LONG)})
    found = read_pairs(path, PairLayout(groups=("kind",), label=("ok", "true")))
    assert {name: texts(pairs) for name, pairs in found.items()} == {
        "x": [("A b.", "B a."), ("A b.", "A a.")],
        "y": [("C d.", "D c.")],
    }
    assert len(found["x"]) == 1
    assert found["y"][0].place.endswith("long.jsonl:2")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (LONG[:4:3], None),
        (LONG[:2], r"pairs\.jsonl:1: item '1' has 1 sentences with ok 'true' and 0 others"),
        ([LONG[3], LONG[0], LONG[0]], r"pairs\.jsonl:1: item '1' has 2 sentences with ok 'true' and 1 others"),
        (
            [LONG[0], {"item": 1, "kind": "x"}],
            r"pairs\.jsonl:2: there is no column 'ok': the columns are 'item', 'kind'",
        ),
        ([LONG[0], LONG[1] | {"sentence": ""}], r"pairs\.jsonl:2: sentence is '', not text"),
        ([], r"there are no pairs in pairs"),
    ],
    ids=["whole", "no bad one", "two good ones", "column", "empty", "nothing"],
)
def test_rows_without_a_partner(tmp_path, rows, message):
    path = write(tmp_path, {"pairs.jsonl": jsonl(rows)})
    layout = PairLayout(groups=("kind",), label=("ok", "true"))
    if message is None:
        assert texts(read_pairs(path, layout)["x"]) == [("A b.", "B a.")]
        return
    with pytest.raises(ValueError, match=message):
        read_pairs(path, layout)


@pytest.mark.parametrize(
    ("good", "bad", "measure"),
    [
        (Variant("a"), Variant("b"), "the whole string"),
        (Variant("a", "p"), Variant("b", "p"), "the target given the prefix"),
        (Variant("a", "p"), Variant("a", "q"), "the shared end given each prefix"),
        (Variant("a", "p"), Variant("b", "q"), "the end given its prefix"),
    ],
)
def test_measures(good, bad, measure):
    assert measure_of([MinimalPair(good, [bad], (), "")]) == measure


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.csv": "good,bad\nA b.,B a.\nA b.\n"}, r"a\.csv:3: 1 columns instead of 2"),
        ({"a.tsv": "good\tbad\nA b.\t\n"}, r"a\.tsv:2: bad is '', not text"),
        ({"a.gold": "P\t1\t0\t1\tV\tS\truns\trun\trun\t0\n", "a.text": ""}, r"a\.gold: 1 lines, and 0 in a\.text"),
        (
            {"a.gold": "P\t1\t0\t2\tV\tS\truns\trun\trun\t0\n", "a.text": "An owl <eos>\n"},
            r"a\.gold:1: .* number that of",
        ),
        ({"a.gold": "P\t1\t0\n", "a.text": "An owl <eos>\n"}, r"a\.gold:1: not pattern, three numbers"),
    ],
)
def test_damaged_tables(tmp_path, files, message):
    layout = PRESETS["gulordava"] if "a.gold" in files else PairLayout("good", ("bad",))
    with pytest.raises(ValueError, match=message):
        read_pairs(write(tmp_path, files), layout)


def test_other_files_are_no_pairs(tmp_path):
    write(tmp_path, {"a.txt": "A b.\n"})
    with pytest.raises(ValueError, match=r"a\.txt: pairs are in files that end in \.jsonl, \.csv"):
        read_pairs(str(tmp_path / "a.txt"), PairLayout())
