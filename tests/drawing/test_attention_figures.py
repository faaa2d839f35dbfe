import warnings

import numpy as np
import pytest
import torch

from hf_structure.drawing.attention_figures import AttentionPanel, plot_attention

WORDS, ARCS = ["He", "$tried", "to", "leave"], [(0, 2), (2, 1), (2, 4), (4, 1)]
SPANS = [(0, 4), (1, 4), (2, 4)]
TOKENS = ["<s>", "He", "$tri", "ed", "to", "leave"]


def texts(labels):
    return [label.get_text() for label in labels]


def attention(size: int, seed: int = 0) -> torch.Tensor:
    scores = torch.rand(size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return scores.masked_fill(torch.ones(size, size).triu(1).bool(), -torch.inf).softmax(-1)


def panels(length: int = 1) -> list[AttentionPanel]:
    """Of models that read a graph, nothing and a tree, the second with fewer tokens."""
    words, tokens = WORDS * length, TOKENS * length
    spans = [*SPANS, *([(0, len(words))] if length > 1 else [])]
    graph = {"words": words, "arcs": ARCS, "probabilities": [1.0, 0.5, None, 0.0]}
    return [
        AttentionPanel("GiLT\nlayer 1", tokens, attention(len(tokens)), **graph),
        AttentionPanel("without $\nlayer 1", WORDS, attention(4, 1)),
        AttentionPanel("Pushdown\nlayer 1", tokens, attention(len(tokens), 2), words, spans=spans),
    ]


@pytest.mark.parametrize("length", [1, pytest.param(5, marks=pytest.mark.slow)], ids=["short", "long"])
def test_all_is_drawn_and_nothing_covers_another(tmp_path, length):
    shown = panels(length)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = plot_attention(shown)
        figure.savefig(tmp_path / "attention.svg")
    *maps, _, graph, tree = figure.axes
    for axes, panel in zip(maps, shown, strict=True):
        assert axes.get_title() == panel.title
        assert np.array_equal(axes.images[0].get_array(), panel.weights)
        assert texts(axes.get_xticklabels()) == texts(axes.get_yticklabels()) == panel.tokens
    assert texts(graph.texts) == [*shown[0].words, "root", "GiLT"]
    assert texts(tree.texts) == [*shown[2].words, "Pushdown"]
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    for number, box in enumerate(boxes):
        assert all(
            min(box.x1, other.x1) <= max(box.x0, other.x0) + 1 or min(box.y1, other.y1) <= max(box.y0, other.y0) + 1
            for other in boxes[:number]
        )
    inside = figure.get_tightbbox()
    assert min(inside.x0, inside.y0) >= 0
    assert all(np.array([inside.x1, inside.y1]) <= figure.get_size_inches())


def places(axes, words) -> np.ndarray:
    return np.array([text.get_position()[0] for text in axes.texts[: len(words)]])


def test_arcs_go_from_heads_to_dependents():
    graph = plot_attention(panels()[:1]).axes[-1]
    middles = places(graph, WORDS)
    for (head, word), arrow in zip(ARCS, graph.patches, strict=True):
        ends = arrow._path_original.vertices[[0, -1]]
        nearest = [int(np.abs(middles - x).argmin()) + 1 for x in ends[:, 0]]
        assert nearest == [head or word, word]
        assert ends[1][1] == 0
    alphas = [arrow.get_alpha() for arrow in graph.patches]
    assert alphas[0] == alphas[2] == 1 > alphas[1] > alphas[3]


def test_brackets_reach_from_the_first_to_the_last_child():
    tree = plot_attention(panels()[2:]).axes[-1]
    middles = places(tree, WORDS)
    level = [line.get_xydata() for line in tree.lines if np.ptp(line.get_ydata()) == 0]
    upright = [line.get_xydata() for line in tree.lines if np.ptp(line.get_ydata()) > 0]
    assert sorted(len(set(data[:, 1])) for data in level) == [1, 1, 1]
    lowest, middle, highest = sorted(level, key=lambda data: data[0, 1])
    assert lowest[:, 0].tolist() == middles[2:].tolist()  # "to leave"
    assert middle[:, 0].tolist() == [middles[1], lowest[:, 0].mean()]
    assert highest[:, 0].tolist() == [middles[0], middle[:, 0].mean()]
    assert sorted(data[0, 0] for data in upright if data[0, 1] == 0) == middles.tolist()


def test_wrong_panels():
    with pytest.raises(ValueError, match="there is no attention to draw"):
        plot_attention([])
    with pytest.raises(ValueError, match=r"the attention 'x' must have the shape \(6, 6\)"):
        plot_attention([AttentionPanel("x", TOKENS, np.zeros((6, 5)))])
    with pytest.raises(ValueError, match="0 -> 9 is none"):
        plot_attention([AttentionPanel("x", TOKENS, np.zeros((6, 6)), WORDS, [(0, 9)])])
