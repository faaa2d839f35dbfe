from itertools import pairwise

import numpy as np
import pytest
import torch

from hf_structure.algorithms.graph import TapeFeatures, prefix_tapes
from hf_structure.drawing.graph_figures import plot_circuits, plot_tapes

WORDS, ARCS = ["He", "$tried", "to", "leave"], [(0, 2), (2, 1), (2, 4), (4, 1)]


def texts(labels):
    return [label.get_text() for label in labels]


def tapes_of(words, arcs, features):
    graph = torch.zeros(1, len(words) + 1, len(words) + 1, dtype=torch.bool)
    for head, word in arcs:
        graph[0, head, word] = True
    return prefix_tapes(graph, features)[0]


@pytest.mark.parametrize("names", [("degree", "distance", "depth"), ("depth",)], ids=len)
def test_tapes(names, tmp_path):
    features = TapeFeatures(names)
    tapes = tapes_of(WORDS, ARCS, features)
    figure = plot_tapes(WORDS, tapes, features)
    figure.savefig(tmp_path / "tapes.png")
    assert [axes.get_title() for axes in figure.axes] == list(names)
    for axes, tape in zip(figure.axes, tapes, strict=True):
        assert texts(axes.get_xticklabels()) == ["root", *WORDS]
        image = np.asarray(axes.images[0].get_array().filled(np.nan))
        shown = {tuple(map(int, text.get_position())): int(text.get_text()) for text in axes.texts}
        for i, j in np.ndindex(4, 5):
            assert ((j, i) in shown) is (j <= i + 1) is not np.isnan(image[i, j])
            if j <= i + 1:
                assert shown[j, i] == image[i, j] == tape[i + 1, j]


def test_tapes_of_long_sentences_are_stacked():
    words = ["word"] * 20
    short, long = (plot_tapes(some, tapes_of(some, [], TapeFeatures()), TapeFeatures()) for some in (WORDS, words))
    (width, height), (long_width, long_height) = short.get_size_inches(), long.get_size_inches()
    assert width > 2 * height
    assert long_height > 2 * long_width


def test_tapes_of_no_words(tmp_path):
    plot_tapes([], [[[1]]], TapeFeatures(["depth"])).savefig(tmp_path / "tapes.png")


@pytest.mark.parametrize("shape", [(2, 5, 5), (3, 4, 4), (3, 5, 4)], ids=str)
def test_tapes_of_wrong_shape(shape):
    with pytest.raises(ValueError, match=r"tapes of 4 words must have the shape \(3, 5, 5\)"):
        plot_tapes(WORDS, np.zeros(shape), TapeFeatures())


def test_circuits(tmp_path):
    scores = {
        "GiLT": {"Agreement": 0.5, "Garden-Path Effects": 1.0},
        "$TXL": {"Garden-Path Effects": 0.25, "Other": 0},
    }
    figure = plot_circuits(scores)
    figure.savefig(tmp_path / "circuits.png")
    (axes,) = figure.axes
    names = [label.get_text().replace("\n", " ") for label in axes.get_xticklabels()]
    assert names == ["Agreement", "Garden-Path Effects", "Other"]
    found = {}
    for bars in axes.containers:
        for bar in bars:
            circuit = names[round(bar.get_x() + bar.get_width() / 2)]
            found.setdefault(bars.get_label(), {})[circuit] = bar.get_height() / 100
    assert found == scores
    spans = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bars in axes.containers for bar in bars)
    assert all(right <= left for (_, right), (left, _) in pairwise(spans))
    assert texts(figure.legends[0].get_texts()) == ["GiLT", "$TXL"]
    assert len({bars[0].get_facecolor() for bars in axes.containers}) == 2


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({}, "no scores of circuits"),
        ({"a": {}}, "no scores of circuits"),
        ({"a": {"b": 52.0}}, "the score of a for b is 52.0, not between 0 and 1"),
        ({"a": {"b": float("nan")}}, "is nan, not between"),
    ],
    ids=["no models", "no circuits", "per cent", "nan"],
)
def test_wrong_circuits(scores, message):
    with pytest.raises(ValueError, match=message):
        plot_circuits(scores)
