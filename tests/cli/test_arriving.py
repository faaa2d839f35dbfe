import pytest

from hf_structure.cli.arriving import chunks


def failing(number):
    yield from range(number)
    raise ValueError("damaged")


def test_what_is_there_comes_in_growing_lists():
    assert [len(chunk) for chunk in chunks(iter(range(30)), 2, 8, live=False)] == [2, 4, 8, 8, 8]
    assert [item for chunk in chunks(iter(range(30)), 2, 8, live=False) for item in chunk] == list(range(30))
    assert list(chunks(iter(()), 2, 8, live=False)) == []


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("number", [0, 1, 7])
def test_an_error_comes_after_what_was_before_it(live, number):
    seen = []

    def read():
        for chunk in chunks(failing(number), 3, 4, live):
            seen.extend(chunk)

    with pytest.raises(ValueError, match="damaged"):
        read()
    assert seen == list(range(number))


def test_what_is_live_is_waited_for():
    """The second item comes only when the first was dealt with."""
    dealt = []

    def items():
        yield 1
        while not dealt:
            pass
        yield 2

    for chunk in chunks(items(), 64, 64, live=True):
        dealt += chunk
    assert dealt == [1, 2]


def test_no_more_than_the_most_at_once():
    sizes = [len(chunk) for chunk in chunks(iter(range(100)), 1, 5, live=True)]
    assert sum(sizes) == 100
    assert max(sizes) <= 5
