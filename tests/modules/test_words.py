import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from hf_structure.modules.words import average_pieces, place_words

# Sentences as numbers of pieces of their words.
batches = st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=5), min_size=1, max_size=4)


def padded(rows: list[list[int]], value: int, side: str = "right") -> torch.LongTensor:
    longest = max(map(len, rows))
    filled = [row + [value] * (longest - len(row)) for row in rows]
    return torch.tensor([[value] * (longest - len(row)) + row for row in rows] if side == "left" else filled)


@given(batches, st.sampled_from(["left", "right"]))
def test_words_have_the_mean_of_their_pieces(sentences, side):
    torch.manual_seed(0)
    embeddings = nn.Embedding(50, 3)
    ids = [torch.randint(50, (sum(pieces),)).tolist() for pieces in sentences]
    numbers = [[word for word, count in enumerate(pieces) for _ in range(count)] for pieces in sentences]
    input_ids, word_ids = padded(ids, 7, side), padded(numbers, 0, side)
    mask = padded([[1] * len(row) for row in ids], 0, side)
    places = place_words(mask, word_ids)
    assert places.lengths.tolist() == [len(pieces) for pieces in sentences]
    assert places.order is None
    n = max(map(len, sentences))
    means = average_pieces(embeddings, input_ids, places.word_ids, n)
    for row, pieces in enumerate(sentences):
        start = 0
        for word, count in enumerate(pieces):
            expected = embeddings(torch.tensor(ids[row][start : start + count])).mean(0)
            assert_close(means[row, word], expected, atol=1e-6, rtol=1e-5)
            start += count
        assert (means[row, len(pieces) :] == 0).all()


@pytest.mark.parametrize("side", ["left", "right"])
def test_every_id_is_a_word_where_nothing_else_is_said(side):
    ids = padded([[3, 4, 5], [6], [7, 8]], 0, side)
    mask = padded([[1] * 3, [1], [1] * 2], 0, side)
    places = place_words(mask)
    assert places.lengths.tolist() == [3, 1, 2]
    firsts = places.left_align(ids, 3)
    assert [firsts[row, :n].tolist() for row, n in enumerate([3, 1, 2])] == [[3, 4, 5], [6], [7, 8]]
    assert places.left_align(None, 3) is None
    wider = nn.functional.pad(ids, (0, 2) if side == "right" else (2, 0))
    places = place_words((wider > 0).long())
    assert torch.equal(places.left_align(wider, 3), firsts)
    vectors = wider.unsqueeze(2).expand(-1, -1, 4)
    assert torch.equal(places.left_align(vectors, 3), firsts.unsqueeze(2).expand(-1, -1, 4))
    assert place_words(torch.ones_like(ids)).lengths.tolist() == [3, 3, 3]


def test_words_without_pieces_are_unknown_or_zero():
    embeddings, ids = nn.Embedding(9, 2), torch.tensor([[3, 4]])
    places = place_words(torch.ones_like(ids), torch.tensor([[0, 2]]), num_words=torch.tensor([4]))
    unknown = average_pieces(embeddings, ids, places.word_ids, 4, unknown=8)
    assert_close(unknown[0, [1, 3]], embeddings(torch.tensor([8, 8])))
    assert (average_pieces(embeddings, ids, places.word_ids, 4)[0, [1, 3]] == 0).all()
    given = average_pieces(embeddings, embeddings(ids), places.word_ids, 4, unknown=8)  # vectors instead of ids
    assert_close(given, unknown)


@pytest.mark.parametrize(
    ("word_ids", "num_words"), [(torch.tensor([[0, 1]]), 1), (None, 3)], ids=["more_words", "other_words"]
)
def test_numbers_of_words_that_cannot_be(word_ids, num_words):
    with pytest.raises(ValueError, match=rf"sentences of \[{num_words}\] words, but the input has \[2\]"):
        place_words(torch.tensor([[1, 1]]), word_ids, num_words=torch.tensor([num_words]))
