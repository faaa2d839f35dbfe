import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from hf_structure.corpora.graph_batches import GraphCollator, add_tapes
from hf_structure.corpora.tasks import TASKS, SentenceCollator, TaskCollator, read_table, task_examples
from hf_structure.text.files import DataError
from hf_structure.text.json_text import parse_array
from hf_structure.text.words import tokenize_words

PAIR = {"sentence1": "It's (very) cold.", "sentence2": "He left", "sentence": "It's (very) cold."}
FIRST = "It 's ( very ) cold ."


def prompts(task, rows, split=tokenize_words, **options):
    return list(task_examples(enumerate(rows, start=1), TASKS[task], split, **options))


# Prompts


@pytest.mark.parametrize(
    ("task", "label", "prompt", "words"),
    [
        ("rte", 1, f"Sentence1 : {FIRST} ; Sentence2 : He left ; Label :", ("0", "1")),
        ("sst2", 1, f"Sentence1 : {FIRST} ; Sentiment :", ("0", "1")),
        ("mrpc", 0, f"Sentence1 : {FIRST} ; Sentence2 : He left ; Label :", ("inequivalent", "equivalent")),
        ("stsb", 3.8, f"Sentence1 : {FIRST} ; Sentence2 : He left ; Score :", ()),
    ],
)
def test_prompts_of_appendix_a(task, label, prompt, words):
    assert prompts(task, [PAIR | {"label": label}]) == [{"words": prompt.split(), "label": label}]
    assert TASKS[task].labels == words


def test_words_are_split_by_the_given_rule_alone():
    (found,) = prompts("sst2", [{"sentence": " It's  (very) cold.", "label": 0}], split=str.split)
    assert found["words"] == ["Sentence1", ":", "It's", "(very)", "cold.", ";", "Sentiment", ":"]


@pytest.mark.parametrize(
    ("task", "value", "expected"),
    [
        ("rte", "entailment", 0),
        ("rte", "not_entailment", 1),
        ("mrpc", "equivalent", 1),
        ("mrpc", "0", 0),
        ("sst2", "positive", 1),
        ("sst2", 1, 1),
        ("stsb", "3.800", 3.8),
        ("stsb", 0, 0.0),
        ("stsb", 5.0, 5.0),
    ],
)
def test_labels(task, value, expected):
    assert TASKS[task].read_label(value) == expected


@pytest.mark.parametrize(
    ("task", "value", "message"),
    [
        ("rte", -1, "the label -1 is none of entailment, not_entailment, 0, 1"),
        ("rte", "2", "none of"),
        ("sst2", 1.5, "none of"),
        ("sst2", None, "none of"),
        ("stsb", 5.1, "5.1 is no number from 0 to 5"),
        ("stsb", -0.1, "no number"),
        ("stsb", "nan", "no number"),
        ("stsb", "high", "no number"),
        ("stsb", None, "no number"),
    ],
)
def test_labels_outside(task, value, message):
    with pytest.raises(DataError, match=f"^<input>:1: .*{message}"):
        prompts(task, [PAIR | {"label": value}])


# Sentences


def test_sentences_without_a_prompt():
    found = prompts("rte", [PAIR | {"label": 1}], str.split, prompts=False)
    words = ["It's", "(very)", "cold.", "He", "left"]
    assert found == [{"words": words, "sentence_ids": [0, 0, 0, 1, 1], "label": 1}]
    (found,) = prompts("sst2", [PAIR | {"label": 0}], str.split, prompts=False)
    assert found == {"words": words[:3], "sentence_ids": [0, 0, 0], "label": 0}


def test_what_is_read_of_pairs():
    features = {name: task.pair_features for name, task in TASKS.items()}
    assert features == {"rte": "ordered", "sst2": None, "mrpc": "symmetric", "stsb": "symmetric"}


@pytest.mark.parametrize(("labels", "dtype"), [((1, 0), torch.long), ((2.7, 4.0), torch.float)])
def test_batches_of_sentences(labels, dtype, with_other_default):
    rows = [([4, 5, 6], [0, 1, 1]), ([7], [0])]
    examples = [
        {"input_ids": ids, "token_type_ids": kinds, "label": label}
        for (ids, kinds), label in zip(rows, labels, strict=True)
    ]
    batch = SentenceCollator(9)(examples)
    assert batch["input_ids"].tolist() == [[4, 5, 6], [7, 9, 9]]
    assert batch["token_type_ids"].tolist() == [[0, 1, 1], [0, 0, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert batch["labels"].tolist() == pytest.approx(list(labels))
    assert batch["labels"].dtype == dtype
    assert_close(with_other_default(lambda: SentenceCollator(9)(examples)), batch)


# Tables


@pytest.mark.parametrize(
    ("row", "columns"),
    [
        ({"sentence1": "a", "sentence2": "b", "label": "1"}, {}),
        ({"sentence1": "a", "sentence2": "b", "score": "1", "subset": "x"}, {}),
        ({"Quality": "1", "#1 ID": "7", "#2 ID": "8", "#1 String": "a", "#2 String": "b"}, {}),
        ({"x": "a", "y": "b", "z": "1"}, {"sentence1": "x", "sentence2": "y", "label": "z"}),
        ({"sentence1": "no", "x": "a", "sentence2": "b", "label": "1"}, {"sentence1": "x", "sentence2": None}),
    ],
    ids=["glue", "similarity", "old_mrpc", "named", "one_named"],
)
def test_columns(row, columns):
    (found,) = prompts("mrpc", [row], columns=columns)
    assert found == {"words": ["Sentence1", ":", "a", ";", "Sentence2", ":", "b", ";", "Label", ":"], "label": 1}


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        ([{"sentence1": "a", "label": 1}], {}, "^x.tsv: no column sentence2 or #2 String: there are sentence1, label"),
        ([{"a\nb": "a"}], {}, r"^x.tsv: no column sentence1 or .*: there are a\\nb$"),
        ([PAIR], {}, "no column label or score or Quality"),
        ([PAIR | {"label": 1}], {"label": "gold"}, "no column gold"),
        ([PAIR | {"label": 1}, {"sentence1": "a", "sentence2": "b"}], {}, "x.tsv:2: there is no 'label'"),
        ([PAIR | {"label": 1, "sentence2": " "}], {}, "x.tsv:1: sentence2 has no words"),
        ([PAIR | {"label": 1, "sentence1": None}], {}, "x.tsv:1: sentence1 is no text, but None"),
    ],
)
def test_wrong_rows(rows, columns, message):
    with pytest.raises(DataError, match=message):
        prompts("rte", rows, columns=columns, name="x.tsv")


@pytest.mark.parametrize(
    ("name", "text", "numbers"),
    [
        ("x.tsv", 'sentence\tlabel\na "b\t1\r\nNA\t0\n', [2, 3]),
        ("x.jsonl", '{"sentence": "a \\"b", "label": "1"}\n\n{"sentence": "NA", "label": "0"}\n', [1, 3]),
        ("x.json", '[{"sentence": "a \\"b", "label": "1"},\n {"sentence": "NA", "label": "0"}]', [1, 2]),
        (
            "x.json",
            '\n[\n{"sentence": "a \\"b",\n "label": "1"},\n\n\t{"sentence": "NA", "label": "0"}\n]\n\n',
            [3, 6],
        ),
    ],
)
def test_tables(tmp_path, name, text, numbers):
    (tmp_path / name).write_text(text, newline="")
    rows = [{"sentence": 'a "b', "label": "1"}, {"sentence": "NA", "label": "0"}]
    assert list(read_table(tmp_path / name)) == list(zip(numbers, rows, strict=True))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.tsv", "sentence\tlabel\na\t1\nb\n", "x.tsv:3: 1 columns instead of 2"),
        ("x.jsonl", '{"a": 1}\n{"a"\n', "x.jsonl:2: not JSON"),
        ("x.json", '[{"a": 1}', "x.json:1: not JSON: Expecting ',' delimiter, column 10"),
        ("x.json", '\n[{"a": 1},\n\nb]', "x.json:4: not JSON: Expecting value, column 1"),
        ("x.json", '[{"a": 1},\n{"a":\n1 "b"}]', "x.json:3: not JSON: Expecting ',' delimiter, column 3"),
        ("x.json", '[{"a": 1},\n]', "x.json:2: not JSON: Expecting value, column 1"),
        ("x.json", '[{"a": 1}]\n[', "x.json:2: not JSON: Extra data, column 1"),
        ("x.jsonl", "[\n", "x.jsonl:1: not JSON: Expecting value, column 2"),
        ("x.json", '[{"a": 1},\n' + "[" * 100_000, "x.json:2: JSON that is nested too deeply"),
        ("x.json", '[\n\n{"a": ' + "9" * 5000 + "}]", "x.json:3: JSON with a number of thousands of digits"),
        ("x.json", '[{"a": 1},\n3]', "x.json:2: not a JSON object"),
        ("x.jsonl", '{"a": 1}\n' + '{"a":' * 100_000, "x.jsonl:2: JSON that is nested too deeply"),
        ("x.jsonl", '{"a": 1}\n{"a": ' + "9" * 5000 + "}", "x.jsonl:2: JSON with a number of thousands of digits"),
        ("x.json", "[3]", "x.json:1: not a JSON object"),
        ("x.csv", "", "a table is a .tsv, .jsonl or .json file"),
    ],
)
def test_wrong_tables(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        list(read_table(tmp_path / name))


def test_empty_arrays(tmp_path):
    (tmp_path / "x.json").write_text("\n[ ]\n")
    assert list(read_table(tmp_path / "x.json")) == []


@settings(deadline=None)
@given(st.lists(st.dictionaries(st.text(), st.text() | st.lists(st.integers()))), st.sampled_from([None, 0, 2]))
def test_any_arrays(rows, indent):
    """The same values as the library's reader gives, and the lines where they begin."""
    text = json.dumps(rows, indent=indent)
    found = list(parse_array(text, "x.json"))
    assert [value for _, value in found] == rows
    lines = text.split("\n")
    assert all(lines[line - 1].lstrip(" [").startswith("{") for line, _ in found)
    assert indent is None or len({line for line, _ in found}) == len(rows)


# Batches

EXAMPLES = [
    {"input_ids": [2, 8, 9, 7], "word_ids": [0, 1, 2, 3], "arcs": [[0, 2], [2, 1]], "label": 1},
    {"input_ids": [2, 6, 7], "word_ids": [0, 1, 2], "arcs": [[1, 2]], "label": 0},
]


def test_class_words_follow_the_prompts():
    batch = TaskCollator(GraphCollator(1), [[20], [21, 22]])(EXAMPLES)
    assert batch["input_ids"].tolist() == [[2, 8, 9, 7, 21, 22], [2, 6, 7, 20, 1, 1]]
    assert batch["attention_mask"].tolist() == [[1] * 6, [1] * 4 + [0] * 2]
    assert batch["word_ids"].tolist() == [[0, 1, 2, 3, 4, 4], [0, 1, 2, 3, 0, 0]]
    assert [graph.nonzero().tolist() for graph in batch["graph"]] == [example["arcs"] for example in EXAMPLES]
    assert batch["logits_to_keep"].tolist() == [2, 3, 4]
    assert batch["labels"].tolist() == [[-100, -100, 21, 22], [-100, 20, -100, -100]]


@pytest.mark.parametrize("with_graphs", [True, False], ids=["graphs", "plain"])
def test_one_class_for_all(with_graphs):
    names = ("input_ids", "label", *("word_ids", "arcs") * with_graphs)
    examples = [{name: example[name] for name in names} for example in EXAMPLES]
    batch = TaskCollator(GraphCollator(1), [[20], [21, 22]])(examples, label=0)
    assert batch["input_ids"].tolist() == [[2, 8, 9, 7, 20], [2, 6, 7, 20, 1]]
    assert batch["labels"].tolist() == [[-100, -100, 20], [-100, 20, -100]]
    assert ("graph" in batch) == with_graphs
    assert EXAMPLES[0]["input_ids"] == [2, 8, 9, 7]  # left as they were


@pytest.mark.parametrize("label_ids", [[], [[20], [21, 22]]], ids=["regression", "classification"])
def test_stored_tapes_are_those_of_the_batch(label_ids):
    words = [range(len(example["input_ids"]) - 1 + bool(label_ids)) for example in EXAMPLES]
    columns = add_tapes({"words": words, "arcs": [example["arcs"] for example in EXAMPLES]})
    stored = [example | {"tapes": tapes} for example, tapes in zip(EXAMPLES, columns["tapes"], strict=True)]
    collate = TaskCollator(GraphCollator(1), label_ids)
    # What stands beyond a sentence's own words is never read.
    for row, size in enumerate(map(len, words)):
        one, other = (collate(examples)["tapes"][row, :, : size + 1, : size + 1] for examples in (stored, EXAMPLES))
        assert torch.equal(one, other)
        assert one.any()


def test_scores_of_a_regression():
    batch = TaskCollator(GraphCollator(1))([example | {"label": 2.5} for example in EXAMPLES])
    assert batch["labels"].dtype == torch.float32
    assert batch["labels"].tolist() == [2.5, 2.5]
    assert batch["input_ids"].tolist() == [[2, 8, 9, 7], [2, 6, 7, 1]]
    assert "logits_to_keep" not in batch
