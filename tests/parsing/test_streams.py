"""A stream of sentences is parsed in constant memory."""

import gc
import tracemalloc

import pytest

import hf_structure


@pytest.mark.slow
def test_nothing_is_kept_of_a_stream():
    """What Python holds does not grow from the 400th to the 2,000th sentence; a kept word each would be 80 KB."""
    words = ["the", "old", "man", "walked", "slowly", "along", "the", "river"]
    stream = ([*words[: 3 + number % 6]] for number in range(2000))
    held = {}
    tracemalloc.start()
    try:
        for number, _ in enumerate(hf_structure.parse(stream, "udgn-en"), start=1):
            if number in (400, 2000):
                gc.collect()
                held[number] = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held[2000] - held[400] < 40_000
