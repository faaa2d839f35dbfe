"""Characters and words that a network over characters knows before it learns."""

import pytest

from hf_structure.text.files import DataError
from hf_structure.training.dictionary import listed_characters, read_dictionary


def test_listed_characters():
    assert listed_characters(["Ab 1", "a\t7"]) == " 0ab"


def test_words_with_and_without_costs(tmp_path):
    """The first of two costs counts; what is never looked for is left out."""
    costs, words = tmp_path / "costs.tsv", tmp_path / "words.txt"
    costs.write_text("# words\t1\n中国\t50\n人\t0\n国人\t107\n的\t106\nのは\t106\nof\t9\n", "utf-8")
    words.write_text("中国 7 ns\n国人 3 n\n民\n\nwords\n一二三四五六七八\n一二三四五六七八九\n", "utf-8")
    found = {"0": "人", "50": "中国", "106": "のは 的", "107": "一二三四五六七八 国人"}
    assert read_dictionary([str(costs), str(words)], 106) == found
    assert read_dictionary([], 106) == {}


@pytest.mark.parametrize("cost", ["", "n", "-1", "1.5"])
def test_a_cost_that_is_no_number(tmp_path, cost):
    (tmp_path / "costs").write_text(f"中国\t50\n国\t{cost}\n", "utf-8")
    with pytest.raises(DataError, match=rf"costs:2: the cost '{cost}' is not a whole number"):
        read_dictionary([str(tmp_path / "costs")], 105)
