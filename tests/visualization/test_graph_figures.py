import sys
import warnings
from itertools import pairwise

import numpy as np
import pytest
import torch

from hf_structure.algorithms.graph import TapeFeatures, prefix_tapes
from hf_structure.visualization.graph_figures import plot_circuits, plot_graph_attention, plot_tapes

WORDS, ARCS = ["He", "$tried", "to", "leave"], [(0, 2), (2, 1), (2, 4), (4, 1)]
TOKENS = ["<s>", "He", "$tri", "ed", "to", "leave"]
CALLS = {
    "tapes": lambda: plot_tapes(["a"], [[[0, 0], [0, 1]]], TapeFeatures(["degree"])),
    "attention": lambda: plot_graph_attention(["a"], {"x": [[1.0]]}, ["a"], [(0, 1)]),
    "circuits": lambda: plot_circuits({"a": {"b": 0.5}}),
}


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
    meanings = {
        "degree": "10 for each arc to a dependent, 1 for each from a head",
        "distance": "10 an arc to a dependent, 1 to a head; 0: none",
        "depth": "1 more for each arc",
    }
    for axes, tape, name in zip(figure.axes, tapes, names, strict=True):
        shown = axes.get_xlabel().replace("\n", " ")
        assert meanings[name] in shown
        assert shown.endswith("150 at most")
        assert texts(axes.get_xticklabels()) == ["root", *WORDS]
        assert texts(axes.get_yticklabels()) == WORDS
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


def attention(size: int, seed: int = 0) -> torch.Tensor:
    scores = torch.rand(size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return scores.masked_fill(torch.ones(size, size).triu(1).bool(), -torch.inf).softmax(-1)


@pytest.mark.parametrize("long", [False, True], ids=["beside", "below"])
def test_attention(tmp_path, long):
    words = WORDS * 4 if long else WORDS
    tokens = TOKENS * 4 if long else TOKENS
    maps = {"with": attention(len(tokens)), "without $": attention(len(tokens), 1)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = plot_graph_attention(tokens, maps, words, ARCS, [1.0, 0.5, None, 0.0])
        figure.savefig(tmp_path / "attention.png")
    first, second, bar, graph = figure.axes
    assert bar.get_ylabel() == "attention"
    assert [first.get_title(), second.get_title()] == ["with", "without $"]
    for axes, table in zip((first, second), maps.values(), strict=True):
        assert np.array_equal(axes.images[0].get_array(), table)
        assert texts(axes.get_xticklabels()) == texts(axes.get_yticklabels()) == tokens
    assert texts(graph.texts) == [*words, "root"]
    middles = [text.get_position()[0] for text in graph.texts[: len(words)]]
    for (head, word), arrow in zip(ARCS, graph.patches, strict=True):
        ends = arrow._path_original.vertices[[0, -1]]
        nearest = [int(np.abs(np.array(middles) - x).argmin()) + 1 for x in ends[:, 0]]
        assert nearest == [head or word, word]
        assert ends[1][1] == 0
    alphas = [arrow.get_alpha() for arrow in graph.patches]
    assert alphas[0] == alphas[2] == 1 > alphas[1] > alphas[3]
    boxes = [axes.get_window_extent() for axes in figure.axes]
    assert boxes[3].y1 <= boxes[0].y0 if long else boxes[3].x0 >= boxes[2].x1 > boxes[2].x0 >= boxes[1].x1
    inside = figure.get_tightbbox()
    assert min(inside.x0, inside.y0) >= 0
    assert all(np.array([inside.x1, inside.y1]) <= figure.get_size_inches())


def test_attention_of_wrong_shape():
    with pytest.raises(ValueError, match=r"the attention 'x' must have the shape \(6, 6\)"):
        plot_graph_attention(TOKENS, {"x": np.zeros((6, 5))}, WORDS, ARCS)
    with pytest.raises(ValueError, match="0 -> 9 is none"):
        plot_graph_attention(TOKENS, {"x": np.zeros((6, 6))}, WORDS, [(0, 9)])


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


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_missing_library_is_named(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="figures need matplotlib: pip install matplotlib"):
        call()
