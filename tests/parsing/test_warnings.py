"""Warnings point at the line of the user, however the library is called."""

import warnings

import pytest

import hf_structure

TWO = "It rained. Nobody left."


def parse_string():
    hf_structure.parse(TWO, "udgn-en")


def parse_stream():
    for _ in hf_structure.parse(iter([TWO]), "udgn-en"):
        pass


def parse_list():
    hf_structure.parse(["It rained.", TWO], "udgn-en")


@pytest.mark.parametrize("call", [parse_string, parse_stream, parse_list])
def test_a_warning_points_at_the_line_of_the_user(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    (warning,) = (each for each in caught if "2 sentences" in str(each.message))
    assert warning.filename == __file__
    assert call.__code__.co_firstlineno < warning.lineno <= call.__code__.co_firstlineno + 2
