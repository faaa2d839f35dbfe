"""Heat maps of heads."""

import math

import numpy as np
import pytest

from hf_structure.drawing.figures import plot_head_types


def test_cells_rows_and_groups():
    table = np.linspace(-1, 1, 12).reshape(2, 3, 2)
    table[1, 2, 1] = math.nan
    figure = plot_head_types({"up": table, "down": -table}, ["$det$", "obj"], "$UDGN$")
    up, down = figure.axes[:2]
    np.testing.assert_array_equal(up.images[0].get_array().filled(math.nan), table.reshape(2, 6))
    assert down.images[0].get_array()[0, 0] == 1
    assert [label.get_text() for label in up.get_yticklabels()] == ["$det$", "obj"]
    assert up.images[0].get_clim() == (-1, 1)


@pytest.mark.parametrize("shapes", [[], [(1, 2, 2)], [(2, 2, 2), (2, 2, 3)], [(2, 0, 0)]])
def test_other_shapes_are_refused(shapes):
    tables = {str(number): np.zeros(shape) for number, shape in enumerate(shapes)}
    with pytest.raises(ValueError, match=r"one shape \(2, layers, heads\)"):
        plot_head_types(tables, ["det", "obj"], "title")


def test_rows_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="one shape"):
        plot_head_types({"up": [[[0.1, 0.2], [0.1]], [[0.1, 0.2], [0.1]]]}, ["det", "obj"], "title")
