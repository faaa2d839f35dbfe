import sys

import numpy as np
import pytest
import torch

from hf_structure.algorithms.graph import TapeFeatures
from hf_structure.drawing.attention_figures import AttentionPanel, plot_attention
from hf_structure.drawing.figures import (
    plot_class_scores,
    plot_costs,
    plot_curves,
    plot_distances,
    plot_layer_scores,
    plot_marginals,
    plot_parents,
    plot_relation_weights,
    plot_reliability,
)
from hf_structure.drawing.graph_figures import plot_circuits, plot_tapes

CALLS = {
    "marginals": lambda: plot_marginals(["a"], [[1.0, 0.0]]),
    "parents": lambda: plot_parents(["a"], [[0.0]]),
    "distances": lambda: plot_distances(["a"], [], [0.0]),
    "class scores": lambda: plot_class_scores({"a": [1.0]}, ["1"], "x", "y"),
    "layer scores": lambda: plot_layer_scores({"a": [1.0]}, {}),
    "curves": lambda: plot_curves({"UAS": {"a": {1: [0.5]}}}, "x"),
    "costs": lambda: plot_costs({"BLiMP": {"a": (0.5, 60.0)}}, "x"),
    "reliability": lambda: plot_reliability({"a": [(0.5, 0.25)]}),
    "relation weights": lambda: plot_relation_weights([[[0.5, 0.5]]]),
    "tapes": lambda: plot_tapes(["a"], [[[0, 0], [0, 1]]], TapeFeatures(["degree"])),
    "circuits": lambda: plot_circuits({"a": {"b": 0.5}}),
    "attention": lambda: plot_attention([AttentionPanel("a", ["b"], [[1.0]])]),
}


def texts(labels):
    return [label.get_text() for label in labels]


def test_class_scores():
    figure = plot_class_scores({"$a": [0.5, None, 1.0], "b_$": [0.25, 0.5, 0.75]}, ["1", "2", ">2"], "length", "F1")
    axes = figure.axes[0]
    first, second = (line.get_ydata() for line in axes.lines)
    assert np.array_equal(first, [50, np.nan, 100], equal_nan=True)
    assert list(second) == [25, 50, 75]
    assert texts(axes.get_legend().get_texts()) == ["$a", "b_$"]
    with pytest.raises(ValueError, match="2 scores of b for 1 classes"):
        plot_class_scores({"b": [0.5, 0.5]}, ["1"], "x", "y")


def test_layer_scores():
    figure = plot_layer_scores({"$a": [0.5, 0.25], "b": [1.0]}, {"left": 0.125})
    assert [(line.get_label(), list(line.get_ydata())) for line in figure.axes[0].lines] == [
        ("$a", [50, 25]),
        ("b", [100]),
        ("left", [12.5, 12.5]),
    ]
    assert list(figure.axes[0].get_xticks()) == [1, 2]
    for models in ({}, {"a": []}):
        with pytest.raises(ValueError, match="there must be a model, and of every model a score"):
            plot_layer_scores(models, {})


def test_marginals():
    figure = plot_marginals(["$a", "b"], [[0.2, 0.0, 0.8], [0.8, 0.2, 0.0]])
    axes = figure.axes[0]
    assert axes.images[0].get_array().tolist() == [[0.2, 0.0, 0.8], [0.8, 0.2, 0.0]]
    assert texts(axes.get_xticklabels()) == ["root", "$a", "b"]
    with pytest.raises(ValueError, match=r"shape \(2, 3\)"):
        plot_marginals(["a", "b"], [[1.0, 0.0], [0.0, 1.0]])


def test_marginals_of_words_that_a_rule_attached():
    axes = plot_marginals(["a", "."], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [0.9, None]).axes[0]
    assert [(text.get_text(), text.get_position()) for text in axes.texts] == [("rule", (1, 1))]
    assert np.isnan(np.ma.filled(axes.images[0].get_array(), np.nan)[1]).all()
    with pytest.raises(ValueError, match="2 words but 1 probabilities"):
        plot_marginals(["a", "."], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [0.9])


@pytest.mark.parametrize("make", [list, np.array, torch.tensor], ids=["lists", "numpy", "torch"])
def test_parents(make):
    figure = plot_parents(["a", "$b"], make([[0.0, 0.5], [0.25, 0.0]]))
    axes = figure.axes[0]
    assert axes.images[0].get_array().tolist() == [[0.0, 0.5], [0.25, 0.0]]
    assert texts(axes.get_xticklabels()) == texts(axes.get_yticklabels()) == ["a", "$b"]
    with pytest.raises(ValueError, match=r"parents of 2 words must have the shape \(2, 2\)"):
        plot_parents(["a", "b"], make([[0.0, 0.5, 0.5], [0.25, 0.0, 0.75]]))


@pytest.mark.parametrize("sign", [1, -1], ids=["positive", "negative"])
def test_distances(sign):
    heights, distances = [1.0 * sign, 5.0, 2.0], [4.0, 3.0 * sign]
    figure = plot_distances(["I", "$like", "cats"], torch.tensor(distances), np.array(heights))
    axes = figure.axes[0]
    bars = [(bar.get_x() + bar.get_width() / 2, bar.get_y() + bar.get_height()) for bar in axes.patches]
    expected = [(0, heights[0]), (1, heights[1]), (2, heights[2]), (0.5, distances[0]), (1.5, distances[1])]
    assert np.array(bars) == pytest.approx(np.array(expected))
    colors = [bar.get_facecolor() for bar in axes.patches]
    assert set(colors[:3]) == {(1.0, 1.0, 1.0, 1.0)}
    assert len(set(colors[3:])) == 1
    assert colors[3] != colors[0]
    assert all(bar.get_height() > 0 for bar in axes.patches)
    assert texts(axes.get_xticklabels()) == ["I", "$like", "cats"]
    assert texts(figure.legends[0].get_texts()) == ["height", "distance"]


@pytest.mark.parametrize(
    ("distances", "heights", "message"),
    [
        ([1.0], [1.0, 2.0, 3.0], "3 words but 1 distances"),
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], "3 words but 3 distances"),
        ([1.0, 2.0], [1.0, 2.0], "3 words but 2 heights"),
    ],
    ids=["too few", "too many", "heights"],
)
def test_distances_of_wrong_length(distances, heights, message):
    with pytest.raises(ValueError, match=message):
        plot_distances(["I", "like", "cats"], distances, heights)


@pytest.mark.parametrize("words", [[], ["one"]], ids=["none", "one"])
def test_distances_of_hardly_any_words(words, tmp_path):
    plot_distances(words, [], [0.5] * len(words)).savefig(tmp_path / "figure.png")


def test_relation_weights(tmp_path):
    weights = torch.rand(2, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    figure = plot_relation_weights(weights)
    figure.savefig(tmp_path / "figure.png")
    axes = figure.axes[0]
    assert np.array_equal(axes.images[0].get_array(), weights.flatten(1).numpy())
    assert axes.get_xticks().tolist() == [0.5, 2.5, 4.5]  # in the middle of each head's cells


@pytest.mark.parametrize("shape", [(2, 3, 3), (0, 3, 2), (2, 0, 2)], ids=["relations", "no layers", "no heads"])
def test_relation_weights_of_wrong_shape(shape):
    with pytest.raises(ValueError, match=r"shape \(layers, heads, 2\)"):
        plot_relation_weights(np.zeros(shape))


@pytest.mark.parametrize("log", [True, False])
def test_curves_have_means_and_deviations(log, tmp_path):
    panels = {"UAS": {"$a": {10: [1.0, 3.0], 1: [4.0]}, "b": {1: [0.5]}}, "UUAS": {"b": {1: [7.0, 8.0]}}}
    figure = plot_curves(panels, "words", log=log)
    figure.savefig(tmp_path / "figure.png")
    left, right = figure.axes
    assert left.lines[0].get_xydata().tolist() == [[1, 4], [10, 2]]
    one_run, two_runs = left.collections[0].get_segments()
    assert two_runs == pytest.approx(np.array([[10, 2 - 2**0.5], [10, 2 + 2**0.5]]))
    assert len(one_run) == 0
    assert [axes.get_xscale() for axes in figure.axes] == ["log" if log else "linear"] * 2
    assert texts(figure.legends[0].get_texts()) == ["$a", "b"]
    colors = [{line.get_label(): line.get_color() for line in axes.lines} for axes in (left, right)]
    assert colors[0]["$a"] != colors[0]["b"] == colors[1]["b"]


@pytest.mark.parametrize("panels", [{}, {"UAS": {"a": {}}}, {"UAS": {"a": {1: []}}}], ids=["none", "model", "size"])
def test_curves_of_nothing(panels):
    with pytest.raises(ValueError, match="there must be a panel"):
        plot_curves(panels, "words")


def test_costs_have_points_and_lines_to_controls(tmp_path):
    panels = {
        "BLiMP": {"tg": (2.0, 60.0), "$lm": (1.0, 55.0), "tg-random": (3.0, 50.0)},
        "SG": {"tg-random": (3.0, 40.0)},
    }
    figure = plot_costs(panels, "ms", {"tg-random": "tg", "dtg-random": "dtg"})
    figure.savefig(tmp_path / "figure.png")
    left, right = figure.axes
    points = {line.get_label(): line for line in left.lines if len(line.get_xdata()) == 1}
    assert {name: tuple(*line.get_xydata().tolist()) for name, line in points.items()} == panels["BLiMP"]
    (joined,) = (line for line in left.lines if len(line.get_xdata()) == 2)
    assert joined.get_xydata().tolist() == [[2.0, 60.0], [3.0, 50.0]]
    assert len(right.lines) == 1  # the model of this control has no score
    control = points["tg-random"]
    assert control.get_color() == points["tg"].get_color() == right.lines[0].get_color() != points["$lm"].get_color()
    assert control.get_markerfacecolor() == "none" != points["tg"].get_markerfacecolor()
    assert texts(figure.legends[0].get_texts()) == ["tg", "tg-random", "$lm"]
    assert left.get_xscale() == "log"


@pytest.mark.parametrize("panels", [{}, {"BLiMP": {}}], ids=["none", "models"])
def test_costs_of_nothing(panels):
    with pytest.raises(ValueError, match="there must be panels"):
        plot_costs(panels, "ms")


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_missing_library_is_named(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"figures need matplotlib: pip install 'hf_structure\[viz\]'"):
        call()


def test_reliability_is_drawn_beside_the_diagonal():
    figure = plot_reliability({"head": [(0.5, 0.25), (0.9, 0.75)], "$x$": [(1.0, 0.5)]})
    diagonal, *lines = figure.axes[0].lines
    assert diagonal.get_xydata().tolist() == [[0, 0], [100, 100]]
    assert [line.get_xydata().tolist() for line in lines] == [[[50, 25], [90, 75]], [[100, 50]]]
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["head", "$x$"]
    with pytest.raises(ValueError, match="between 0 and 1"):
        plot_reliability({"head": [(0.5, 25)]})
