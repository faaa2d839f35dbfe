import pytest
from script_fixtures import corpus, gilt, gpt2, pushdown, run  # noqa: F401


def pytest_itemcollected(item: pytest.Item):
    """All tests of scripts that reproduce papers are slow, except one of each script, marked `smoke`."""
    if item.get_closest_marker("smoke") is None:
        item.add_marker("slow")
