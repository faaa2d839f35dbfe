import json

import pytest

from hf_structure.metrics.formulas import FormulaError
from hf_structure.metrics.syntax_suites import (
    CIRCUITS,
    SuiteError,
    circuit_of,
    circuit_scores,
    evaluate_item,
    overall_scores,
    read_suite,
    region_surprisals,
    sentence_of,
    suite_score,
)

SENTENCES = {
    "sing": {1: "The author", 2: "", 3: " near the senators", 4: "is", 5: "good ."},
    "plural": {1: "The authors", 2: "", 3: " near the senators", 4: "is", 5: "good ."},
}


def content(**changes) -> dict:
    """A suite of one item, as JSON."""
    conditions = [
        {
            "condition_name": name,
            "regions": [{"region_number": number, "content": text} for number, text in regions.items()],
        }
        for name, regions in SENTENCES.items()
    ]
    return {
        "meta": {"name": "number_made", "metric": "sum"},
        "region_meta": {"1": "subject"},
        "predictions": [{"type": "formula", "formula": "(4;%sing%) < (4;%plural%)"}],
        "items": [{"item_number": 1, "conditions": conditions}],
    } | changes


@pytest.fixture
def written(tmp_path):
    """`written(content)`: the path of a file with this content."""

    def write(values: object):
        path = tmp_path / "made.json"
        path.write_text(values if isinstance(values, str) else json.dumps(values), encoding="utf-8")
        return path

    return write


def formulas(*texts: str) -> list[dict]:
    return [{"type": "formula", "formula": text} for text in texts]


def test_reads_a_suite(written):
    suite = read_suite(written(content()))
    assert (suite.name, [formula.text for formula in suite.predictions]) == (
        "number_made",
        ["(4;%sing%) < (4;%plural%)"],
    )
    assert [(item.number, item.sentences) for item in suite.items] == [(1, SENTENCES)]
    assert suite.sentences() == [f"The {noun} near the senators is good ." for noun in ("author", "authors")]


def test_a_sentence_that_occurs_twice_is_named_once(written):
    one, two = content()["items"], content()["items"]
    two[0]["item_number"] = 2
    suite = read_suite(written(content(items=[*one, *two])))
    assert (len(suite.items), len(suite.sentences())) == (2, 2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("{", "Expecting property name"),
        ("[]", "not a test suite"),
        ({"meta": {"name": "x"}}, "not a test suite: 'predictions' is missing"),
        (content(items=3), "not a test suite"),
        (content(items=[]), "no items"),
        (content(predictions=[]), "no predictions"),
        (content(meta={"name": "x", "metric": "mean"}), "the metric 'mean' is not sum"),
        (content(meta={"name": "a/b"}), "the name 'a/b' cannot be that of a file"),
        (content(meta=3), "not a test suite"),
        (content(predictions=[{"type": "code", "formula": ""}]), "a prediction of type 'code', not formula"),
        (content(predictions=formulas("(4;%sing%) <")), "a region, number or bracket is missing, at character 13 of"),
        (
            content(predictions=formulas("(4;%sing%) < 1", "(4;%sing%) < (6;%plural%)")),
            r"item 1 has no region 6 in condition 'plural', at character 14 of the formula '\(4;%sing%\) < \(6",
        ),
        (
            content(predictions=formulas("(4;%sing%) < (4;%dual%)")),
            "item 1 has no condition 'dual', at character 14 of the formula",
        ),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_no_suite(written, values, message):
    path = written(values)
    with pytest.raises(SuiteError, match=f"^{path}: .*{message}"):
        read_suite(path)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("region_number", 1.9, "'region_number' is 1.9, not a whole number"),
        ("region_number", None, "'region_number' is None, not a whole number"),
        ("region_number", True, "'region_number' is True, not a whole number"),
        ("region_number", "one", "'region_number' is one, not a whole number"),
        ("region_number", 10**9, "'region_number' is 1000000000, not a whole number of at most 9 digits"),
        ("content", None, "'content' is None, not a string"),
        ("content", ["The"], "'content' is .'The'., not a string"),
    ],
)
def test_wrong_values_of_regions(written, key, value, message):
    values = content()
    values["items"][0]["conditions"][1]["regions"][3][key] = value
    with pytest.raises(SuiteError, match=f"item 1, condition 'plural': {message}"):
        read_suite(written(values))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values["items"][0].update(item_number=None), "item 1 of the file: 'item_number' is None"),
        (lambda values: values["items"][0]["conditions"][0].update(condition_name=3), "item 1: 'condition_name' is 3"),
        (
            lambda values: values["predictions"][0].update(formula=None),
            "a prediction: 'formula' is None, not a string",
        ),
        (lambda values: values["meta"].update(name=None), "'meta': 'name' is None, not a string"),
    ],
)
def test_wrong_values_elsewhere(written, change, message):
    values = content()
    change(values)
    with pytest.raises(SuiteError, match=message):
        read_suite(written(values))


def test_numbers_as_digits(written):
    values = content()
    for item in values["items"]:
        for condition in item["conditions"]:
            for region in condition["regions"]:
                region["region_number"] = str(region["region_number"])
    assert read_suite(written(values)) == read_suite(written(content()))


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000, "\udcff"], ids=["deep", "digits", "latin-1"])
def test_what_python_cannot_read(tmp_path, text):
    path = tmp_path / "suite.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(SuiteError, match=f"^{path}: "):
        read_suite(path)


def test_an_empty_sentence(written):
    values = content()
    for region in values["items"][0]["conditions"][1]["regions"]:
        region["content"] = " "
    with pytest.raises(SuiteError, match="item 1: the sentence of condition 'plural' is empty"):
        read_suite(written(values))


@pytest.mark.parametrize("twice", ["condition_name", "region_number"])
def test_names_that_occur_twice(written, twice):
    values = content()
    conditions = values["items"][0]["conditions"]
    conditions[1]["condition_name" if twice == "condition_name" else "regions"] = (
        "sing" if twice == "condition_name" else conditions[1]["regions"][:1] * 2
    )
    with pytest.raises(SuiteError, match="is there twice"):
        read_suite(written(values))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["The", "author", "near", "the", "senators", "is", "good", "."], {1: 3, 2: 0, 3: 28, 4: 32, 5: 192}),
        (["The author", "near the senators", "is", "good", "."], {1: 1, 2: 0, 3: 2, 4: 4, 5: 24}),
        (
            ["The", " author", " near", " the", " sen", "ators", " is", " good", " ."],
            {1: 3, 2: 0, 3: 60, 4: 64, 5: 384},
        ),
        (["The", " ", "author", "near the senators", "is", "good."], {1: 7, 2: 0, 3: 8, 4: 16, 5: 32}),
    ],
    ids=["words", "phrases", "pieces", "spaces"],
)
def test_surprisals_of_regions(words, expected):
    """Powers of two: every set of words has its own sum."""
    assert region_surprisals(SENTENCES["sing"], words, [2.0**i for i in range(len(words))]) == expected


@pytest.mark.parametrize(
    ("regions", "words", "expected"),
    [
        ({1: "I do", 2: "n't", 3: "know"}, ["I", "do", "n't", "know"], {1: 3, 2: 4, 3: 8}),
        ({1: "The company", 2: "'s", 3: "supplies"}, ["The", "company", "'s", "supplies"], {1: 3, 2: 4, 3: 8}),
        ({1: "The", 2: "company's", 3: "supplies"}, ["The", "company", "'s", "supplies"], {1: 1, 2: 6, 3: 8}),
        ({1: "fled", 2: ",", 3: " the end."}, ["fled", ",", "the", "end", "."], {1: 1, 2: 2, 3: 28}),
    ],
    ids=["negation", "clitic", "inside", "punctuation"],
)
def test_surprisals_of_regions_that_begin_within_words(regions, words, expected):
    assert region_surprisals(regions, words, [2.0**i for i in range(len(words))]) == expected


def test_words_that_do_not_fit():
    with pytest.raises(ValueError, match="the words 'an end' are not those of the sentence 'the end'"):
        region_surprisals({1: "the", 2: "end"}, ["an", "end"], [1.0, 1.0])
    with pytest.raises(ValueError, match="the word 'theend' reaches over the end of region 1"):
        region_surprisals({1: "the", 2: "end"}, ["the end"], [1.0])
    with pytest.raises(ValueError, match="shorter"):
        region_surprisals({1: "the", 2: "end"}, ["the", "end"], [1.0])


def test_items_are_evaluated_on_their_surprisals(written):
    suite = read_suite(written(content(predictions=formulas("(4;%sing%) < (4;%plural%)", "(1;%sing%) > 2"))))
    table = {("sing", 4): 1.0, ("plural", 4): 1.5, ("sing", 1): 2.0}
    assert evaluate_item(suite, table) == [True, False]
    with pytest.raises(FormulaError, match="region 1 of condition 'sing' has no surprisal"):
        evaluate_item(suite, {("sing", 4): 1.0, ("plural", 4): 1.5})


@pytest.mark.parametrize(("predictions", "expected"), [("first", 0.75), ("mean", 0.625), ("all", 0.25)])
def test_score_of_a_suite(predictions, expected):
    results = [(True, True), (True, False), (False, True), (True, False)]
    assert suite_score(results, predictions) == expected
    assert suite_score([row[:1] for row in results], predictions) == 0.75


@pytest.mark.parametrize(
    ("arguments", "message"), [(([], "all"), "no items"), (([(True,)], "last"), "none of first, mean, all")]
)
def test_no_score(arguments, message):
    with pytest.raises(ValueError, match=message):
        suite_score(*arguments)


def test_circuits_and_means():
    scores = {"number_orc": 0.5, "number_src": 1.0, "nn-nv-rpl": 0.0, "npz_obj": 0.2, "mvrr_mod": 0.4, "mine": 0.9}
    circuits = circuit_scores(scores)
    assert list(circuits) == ["Agreement", "Garden-Path Effects", "Other"]
    assert circuits == pytest.approx({"Agreement": 0.75, "Garden-Path Effects": 0.3, "Other": 0.0})
    assert overall_scores(circuits) == {"without_other": None, "with_other": None}
    scores |= {"npi_src_any": 0.1, "reflexive_orc_masc": 0.3, "reflexive_orc_fem": 0.2}
    scores |= {"center_embed": 1.0, "subordination_pp-pp": 0.8, "cleft": 0.6, "fgd-embed3": 0.7, "fgd_pp": 0.8}
    six = [0.75, 0.2, 0.3, 0.8, 1.0, 0.7]
    overall = {"without_other": pytest.approx(sum(six) / 6), "with_other": pytest.approx(sum(six) / 7)}
    assert overall_scores(circuit_scores(scores)) == overall


OWN = ["npz_mine", "number_", "number_orc2", "cleft_pp", "mvrr-mod", "fgd", "subordination_src", "nn-nv-rpl_b"]


@pytest.mark.parametrize("name", OWN)
def test_suites_of_your_own_belong_to_no_circuit(name):
    assert circuit_of(name) is None
    assert circuit_scores({name: 1.0, "cleft": 0.0}) == {"Long-Distance Dependencies": 0.0}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_encodings_of_json(written, encoding):
    path = written(content())
    plain = read_suite(path)
    path.write_text(json.dumps(content()), encoding=encoding)
    assert read_suite(path) == plain


def test_all_suites_of_the_paper(data_dir):
    suites = [read_suite(path) for path in sorted((data_dir / "sg").glob("*.json"))]
    assert len(suites) == 34
    assert sum(len(suite.items) for suite in suites) == 842
    assert [suite.name for suite in suites if len(suite.predictions) == 2] == ["fgd_hierarchy", "nn-nv-rpl"]
    circuits = [circuit_of(suite.name) for suite in suites]
    counts = {circuit: circuits.count(circuit) for circuit in CIRCUITS}
    assert counts == dict(zip(CIRCUITS, (3, 10, 6, 4, 2, 8, 1), strict=True))
    assert all("  " not in sentence for suite in suites for sentence in suite.sentences())


def test_surprisals_that_follow_a_suites_own_logic(data_dir):
    """A comma that helps: without one, the verb after an ambiguous phrase is surprising."""
    suite = read_suite(data_dir / "sg" / "npz_ambig.json")
    expected = {"ambig_nocomma": 9.0, "ambig_comma": 3.0, "unambig_nocomma": 4.0, "unambig_comma": 3.0}
    for values, right in ((expected, True), (expected | {"ambig_nocomma": 3.5}, False)):
        item = {(condition, 5): surprisal for condition, surprisal in values.items()}
        assert evaluate_item(suite, item) == [right]
    regions = suite.items[0].sentences["ambig_comma"]
    assert regions[3] == ","
    assert region_surprisals(regions, sentence_of(regions).split(), [1.0] * 14)[6] == 6
