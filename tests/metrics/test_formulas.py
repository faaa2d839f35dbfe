import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_structure.metrics.formulas import FormulaError, parse_formula

TABLE = {("a", 1): 1.0, ("a", 2): 2.0, ("a", 3): 3.0, ("b-x", 1): 4.0, ("no_gap", 12): 5.5}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(1;%a%) < (2;%a%)", True),
        ("(2;%a%)<(1;%a%)", False),
        (" ( 12 ; %no_gap% )>(1;%b-x%) ", True),
        ("[(1;%a%) + (2;%a%)] = (3;%a%)", True),
        ("(1;%a%) = (2;%a%)", False),
        ("[[(1;%b-x%) - (3;%a%)]] > 0", True),
        ("((1;%a%) < (2;%a%)) & ((2;%a%) < (3;%a%))", True),
        ("[(1;%a%) < (2;%a%)] & [(2;%a%) > (3;%a%)] & [(1;%a%) < (3;%a%)]", False),
        ("(1;%a%) < (2;%a%) & (2;%a%) < (3;%a%) & (3;%a%) < (1;%a%)", False),
        ("(1;%a%) > (2;%a%) & (1;%a%) > (3;%a%) | (1;%a%) < (3;%a%)", True),
        ("(1;%a%) > (2;%a%) & [(1;%a%) > (3;%a%) | (1;%a%) < (3;%a%)]", False),
        ("(1;%b-x%) - (2;%a%) - (1;%a%) = 1", True),
        ("(1;%b-x%) - (2;%a%) + (1;%a%) = 3", True),
        ("(1;%b-x%) - [(2;%a%) - (1;%a%)] = 3", True),
        ("5.5 = (12;%no_gap%)", True),
    ],
)
def test_value(text, expected):
    assert parse_formula(text).holds(TABLE) is expected


@pytest.mark.parametrize(
    ("difference", "expected"), [(0.0009, True), (0.0013, False), (-0.0009, True), (-0.0013, False)]
)
def test_equality_has_a_tolerance(difference, expected):
    table = {("a", 1): 10.0 + difference, ("a", 2): 10.0}
    assert parse_formula("(1;%a%) = (2;%a%)").holds(table) is expected


def bracketed(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(st.sampled_from(["[{}]", "({})", "[ {} ]"]), inner).map(lambda pair: pair[0].format(pair[1]))


def joined(parts: st.SearchStrategy[str], signs: str, most: int) -> st.SearchStrategy[str]:
    """Parts with signs and irregular spaces between them."""
    sign = st.tuples(st.sampled_from(signs), st.sampled_from(["", " ", "  "])).map(lambda s: s[1] + s[0] + s[1])
    rest = st.lists(st.tuples(sign, parts).map("".join), max_size=most)
    return st.tuples(parts, rest.map("".join)).map("".join)


REGIONS = st.sampled_from([f"({number};%{condition}%)" for condition, number in TABLE if condition != "no_gap"])
NUMBERS = st.recursive(
    REGIONS | st.sampled_from(["0", "2"]), lambda x: joined(x | bracketed(x), "+-", 3), max_leaves=6
)
COMPARISONS = st.tuples(NUMBERS, st.sampled_from(["<", ">", " = "]), NUMBERS).map("".join)
FORMULAS = st.recursive(COMPARISONS, lambda x: joined(bracketed(x) | x, "&|", 3), max_leaves=6)


def python_value(text: str) -> bool:
    """What Python makes of it: there, too, `and` is tighter than `or`, and comparisons are tighter than both."""
    names = {}
    for number, (condition, region) in enumerate(TABLE):
        names[f"r{number}"] = TABLE[condition, region]
        text = text.replace(f"({region};%{condition}%)", f"r{number}")
    for ours, theirs in {"[": "(", "]": ")", "=": "==", "&": " and ", "|": " or "}.items():
        text = text.replace(ours, theirs)
    return eval(text.strip(), {}, names)


@settings(max_examples=100)
@given(FORMULAS)
def test_value_is_pythons(text):
    assert parse_formula(text).holds(TABLE) is python_value(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a region, number or bracket is missing, at character 1 of the formula ''"),
        ("(1;%a%) <", "a region, number or bracket is missing, at character 10"),
        ("(1;%a%) < < (2;%a%)", "a region, number or bracket is missing, at character 11"),
        ("(1;%a%) (2;%a%)", "an operator is missing, at character 9"),
        ("[(1;%a%) < 3", "']' is missing, at character 13"),
        ("[(1;%a%) < 3)", "']' is missing, at character 13"),
        ("(1;%a%) < 3]", "']' does not belong here, at character 12"),
        ("(1;%a%) * 2 > 0", "'*' does not belong here, at character 9"),
        ("(x;%a%) > 0", "'x' does not belong here, at character 2"),
        ("(1;a) > 0", "';' does not belong here, at character 3"),
        ("(1;%a%) + 1", "a number, which is neither true nor false, at character 1"),
        ("(1;%a%) < 2 < 3", "'<' needs numbers, on both sides, at character 13"),
        ("[(1;%a%) < 2] + 1 > 0", "'+' needs numbers, on both sides, at character 15"),
        ("[" * 51 + "1", "more than 50 brackets within each other, at character 51"),
        ("(" * 5000 + "1", "more than 50 brackets within each other, at character 51"),
        (f"1 < ({'9' * 5000};%a%)", "a region number of more than 9 digits, at character 5"),
        ("(1;%a%) & (2;%a%) > 0", "'&' needs truth values, which comparisons are, on both sides, at character 9"),
    ],
)
def test_malformed(text, message):
    with pytest.raises(FormulaError) as error:
        parse_formula(text)
    assert str(error.value).startswith(message)
    assert repr(text) in str(error.value)


def test_long_and_deep_formulas():
    deep = "[" * 50 + "(1;%a%)" + "]" * 50
    assert parse_formula(f"{deep} < 2 & {deep} < 2 & {deep} < 2").holds(TABLE)
    many = 5000
    assert parse_formula(f"(1;%a%){' + (1;%a%)' * many} = {many + 1}").holds(TABLE)
    assert parse_formula(" & ".join(["1 < 2"] * many)).holds(TABLE)


def test_regions_are_named_from_left_to_right():
    regions = parse_formula("[(2;%a%) - (1;%b-x%)] > 0 & (12;%no_gap%) > (2;%a%)").regions()
    assert [(r.condition, r.number, r.position) for r in regions] == [
        ("a", 2, 1), ("b-x", 1, 11), ("no_gap", 12, 28), ("a", 2, 44),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["(1;%a%) < (4;%a%)", "0 < (1;%a%) & (1;%other%) > 0"])
def test_a_region_without_surprisal(text):
    message = r"region [14] of condition '(a|other)' has no surprisal, at character 1[15]"
    with pytest.raises(FormulaError, match=message):
        parse_formula(text).holds(TABLE)
