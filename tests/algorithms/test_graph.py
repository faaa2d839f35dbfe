import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_structure.algorithms.graph import (
    DependencyGraphs,
    TapeFeatures,
    arc_statistics,
    best_arcs,
    expand_tapes,
    new_arcs,
    prefix_tapes,
    replay,
)
from hf_structure.corpora.graph_batches import pad_graphs
from hf_structure.text.graphs import load_graphs

SETTINGS = {
    "paper": TapeFeatures(),
    "unweighted": TapeFeatures(degree_weights=(1, 1), distance_weights=(1, 1)),
    "against-is-longer": TapeFeatures(degree_weights=(2, 7), distance_weights=(3, 5)),
    "distance": TapeFeatures(("distance",)),
    "degree": TapeFeatures(("degree",)),
    "reversed": TapeFeatures(("depth", "distance", "degree"), max_value=12),
}
features_of_all_kinds = pytest.mark.parametrize("features", SETTINGS.values(), ids=SETTINGS)


def textbook_tape(arcs: set[tuple[int, int]], word: int, features: TapeFeatures) -> dict[str, list[int]]:
    """Tape of the graph of the words up to `word`, by networkx."""
    weighted, undirected = nx.DiGraph(), nx.Graph()
    for graph in (weighted, undirected):
        graph.add_nodes_from(range(word + 1))
    known = {(head, dependent) for head, dependent in arcs if max(head, dependent) <= word}
    undirected.add_edges_from(known)
    along, against = features.distance_weights
    for head, dependent in known:
        for source, target, length in ((head, dependent, along), (dependent, head, against)):
            if not weighted.has_edge(source, target) or weighted[source][target]["weight"] > length:
                weighted.add_edge(source, target, weight=length)
    distances = nx.single_source_dijkstra_path_length(weighted, word)
    depths = nx.single_source_shortest_path_length(undirected, 0)
    out, into = features.degree_weights
    values = {"degree": [], "distance": [], "depth": []}
    for node in range(word + 1):
        outgoing = sum(head == node for head, _ in known)
        incoming = sum(dependent == node for _, dependent in known)
        values["degree"].append(out * outgoing + into * incoming)
        values["distance"].append(distances.get(node, 0))
        values["depth"].append(depths[node] + 1 if node in depths else 0)
    return {name: [min(v, features.max_value) for v in tape] for name, tape in values.items()}


def assert_is_textbook(tapes: torch.Tensor, arcs: set[tuple[int, int]], words: int, features: TapeFeatures) -> None:
    """Tapes `(features, n + 1, n + 1)` of one sentence."""
    for word in range(words + 1):
        expected = textbook_tape(arcs, word, features)
        for place, name in enumerate(features.names):
            assert tapes[place, word, : word + 1].tolist() == expected[name], (name, word)
            assert not tapes[place, word, word + 1 :].any()


def random_arcs(words: int, rate: float, seed: int) -> set[tuple[int, int]]:
    matrix = torch.rand(words + 1, words + 1, generator=torch.Generator().manual_seed(seed)) < rate
    return {(h, d) for h, d in matrix.nonzero().tolist() if h != d and d > 0}


@features_of_all_kinds
def test_prefix_tapes_are_shortest_paths_of_every_prefix(features):
    sizes = [(9, 0.0), (12, 0.05), (10, 0.15), (7, 0.4), (1, 1.0), (4, 1.0), (15, 0.1)]
    graphs = [random_arcs(words, rate, seed) for seed, (words, rate) in enumerate(sizes)]
    tapes = prefix_tapes(pad_graphs([sorted(arcs) for arcs in graphs], 15), features)
    assert tapes.dtype == torch.uint8
    for row, (words, _) in enumerate(sizes):
        assert_is_textbook(tapes[row], graphs[row], words, features)


@settings(max_examples=50)
@given(
    st.integers(1, 9).flatmap(
        lambda n: st.tuples(st.just(n), st.sets(st.tuples(st.integers(0, n), st.integers(1, n))))
    )
)
def test_prefix_tapes_of_any_graph(graph):
    words, arcs = graph
    arcs = {(head, dependent) for head, dependent in arcs if head != dependent}
    assert_is_textbook(prefix_tapes(pad_graphs([sorted(arcs)], words))[0], arcs, words, TapeFeatures())


@pytest.mark.parametrize(("file", "annotation"), [("gum/en_gum-dev", "enhanced"), ("ewt/en_ewt-dev", "basic")])
def test_prefix_tapes_of_treebanks(data_dir, file, annotation):
    sentences = list(load_graphs(data_dir / f"{file}.conllu", annotation))[::25]
    sentences = [sentence for sentence in sentences if len(sentence["words"]) <= 30]
    assert len(sentences) > 40
    tapes = prefix_tapes(pad_graphs([sentence["arcs"] for sentence in sentences], 30))
    for sentence, tape in zip(sentences, tapes, strict=True):
        assert_is_textbook(tape, {tuple(arc) for arc in sentence["arcs"]}, len(sentence["words"]), TapeFeatures())


def test_values_are_clipped_when_they_are_read_only():
    """A path of 60 arcs is long before an arc makes it short."""
    chain = [(word, word + 1) for word in range(60)]
    tapes = prefix_tapes(pad_graphs([[*chain, (61, 1), (61, 60)]], 61))[0]
    assert tapes[1, 60, :46].tolist() == [60 - word for word in range(46)]
    assert tapes[1, 61, [1, 60, 30]].tolist() == [10, 10, 40]
    backwards = prefix_tapes(pad_graphs([[(word + 1, word) for word in range(1, 60)]], 60))[0]
    assert backwards[1, 60, [59, 45, 44, 1]].tolist() == [10, 150, 150, 150]
    assert backwards[0, 60, [1, 30, 60]].tolist() == [1, 11, 10]


def test_figure_of_one_word():
    """Word 3 takes the root as head and words 1 and 2 as dependents."""
    tapes = prefix_tapes(pad_graphs([[(2, 1), (3, 2), (0, 3)]], 3))[0]
    assert tapes[:, 2].tolist() == [[0, 1, 10, 0], [0, 10, 0, 0], [1, 0, 0, 0]]
    assert tapes[:, 3].tolist() == [[10, 1, 11, 11], [1, 20, 10, 0], [1, 4, 3, 2]]


@features_of_all_kinds
def test_words_inserted_one_by_one(features):
    sizes = [(9, 0.1), (12, 0.2), (5, 0.5)]
    graphs = [random_arcs(words, rate, seed) for seed, (words, rate) in enumerate(sizes)]
    matrix = pad_graphs([sorted(arcs) for arcs in graphs], 12)
    tapes = prefix_tapes(matrix, features)
    state = DependencyGraphs.empty(3, features)
    for word in range(1, 13):
        state = state.with_room(word)
        known = matrix[:, : word + 1, : word + 1]
        state = state.insert(torch.full((3,), word), known[:, :, word], known[:, word])
        assert torch.equal(state.tape(torch.full((3,), word)), tapes[:, :, word, : word + 1])
    assert torch.equal(state.arcs, matrix)
    assert torch.equal(state.distances, replay(matrix, features)[1].distances)


def test_graphs_that_grow_at_different_speed():
    graphs = [random_arcs(6, 0.3, seed) for seed in range(2)]
    matrix = pad_graphs([sorted(arcs) for arcs in graphs], 6)
    tapes = prefix_tapes(matrix)
    state = DependencyGraphs.empty(2, TapeFeatures()).with_room(6)
    words = [0, 0]
    for steps in [(1, 0), (1, 1), (1, 0), (0, 1), (1, 1), (0, 1), (1, 1), (1, 1)]:
        words = [word + step for word, step in zip(words, steps, strict=True)]
        new = torch.tensor([word * step for word, step in zip(words, steps, strict=True)])
        heads = torch.stack([row[:, word] for row, word in zip(matrix, new, strict=True)])
        dependents = torch.stack([row[word] for row, word in zip(matrix, new, strict=True)])
        earlier = torch.arange(7) < new.unsqueeze(1)
        before = state.distances.clone()
        after = state.insert(new, heads & earlier, dependents & earlier)
        assert torch.equal(state.distances, before)
        state = after
        for row, word in enumerate(words):
            assert torch.equal(state.tape(torch.tensor(words))[row], tapes[row, :, word])
    assert words == [6, 6]
    twice = state.select(torch.tensor([1, 1, 0]))
    assert torch.equal(twice.arcs, matrix[[1, 1, 0]])
    assert torch.equal(twice.distances, state.distances[[1, 1, 0]])


def test_padding_and_company_do_not_matter():
    arcs = sorted(random_arcs(6, 0.3, 0))
    alone = prefix_tapes(pad_graphs([arcs], 6))
    together = prefix_tapes(pad_graphs([sorted(random_arcs(9, 0.3, 1)), arcs], 9))
    assert torch.equal(together[1:, :, :7, :7], alone)


def test_from_words_to_tokens():
    tapes = prefix_tapes(pad_graphs([[(0, 1), (1, 2)], [(2, 1), (0, 2)]], 2))
    word_ids = torch.tensor([[0, 1, 1, 2, 0], [1, 2, 2, 2, 0]])
    tokens = expand_tapes(tapes, word_ids[:, 2:], word_ids)
    assert tokens.shape == (2, 3, 3, 5)
    for row in range(2):
        for query, word in enumerate(word_ids[row, 2:]):
            for key, other in enumerate(word_ids[row]):
                expected = tapes[row, :, word, other] if other > 0 else torch.zeros(3)
                assert tokens[row, :, query, key].tolist() == expected.tolist()
    assert tokens[0, 2, 0].tolist() == [0, 2, 2, 0, 0]  # neither the root nor words to come


def test_new_arcs():
    values = torch.arange(16).view(1, 4, 4)
    found = new_arcs(values, -1)[0]
    assert found[0].tolist() == [[-1] * 4, [-1] * 4]
    assert found[1].tolist() == [[1, -1, -1, -1], [-1] * 4]
    assert found[2].tolist() == [[2, 6, -1, -1], [-1, 9, -1, -1]]
    assert found[3].tolist() == [[3, 7, 11, -1], [-1, 13, 14, -1]]
    assert all((found[word] >= 0).sum() == 2 * word - 1 for word in range(1, 4))


@pytest.mark.parametrize("seed", range(5))
def test_best_arcs(seed):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(2, 6, 6, generator=generator)
    scores[1, 4:], scores[1, :, 4:] = -torch.inf, -torch.inf  # three words
    counts = torch.randint(0, 6, (2, 5), generator=generator)
    chosen = best_arcs(scores, counts)
    for row, words in enumerate((5, 3)):
        expected = set()
        for word in range(1, words + 1):
            candidates = [(j, word) for j in range(word)] + [(word, j) for j in range(1, word)]
            candidates.sort(key=lambda arc: -scores[row][arc])
            expected |= set(candidates[: counts[row, word - 1]])
        assert {tuple(arc) for arc in chosen[row].nonzero().tolist()} == expected


def test_gold_counts_and_scores_give_the_graph_back():
    arcs = pad_graphs([sorted(random_arcs(8, 0.3, seed)) for seed in range(4)], 8)
    counts = new_arcs(arcs).flatten(2).sum(2)[:, 1:]
    assert torch.equal(best_arcs(arcs.float(), counts), arcs)


def test_arc_statistics():
    gold = pad_graphs([[(0, 1), (1, 2), (2, 3)], [(0, 1)]], 3)
    scores = torch.zeros(2, 4, 4)
    scores[0, 0, 1], scores[0, 2, 1], scores[0, 0, 3], scores[1, 0, 1] = 1.0, 1.0, 1.0, 1.0
    scores[1, 2:], scores[1, :, 2:] = -torch.inf, -torch.inf
    counts = torch.nn.functional.one_hot(torch.tensor([[1, 1, 2], [0, 1, 1]]), 4)
    scores[0, 2, 3] = 0.5
    assert arc_statistics(scores, counts, gold) == {
        "correct": 2,  # 0 -> 1, 2 -> 3
        "predicted": 4,  # and 2 -> 1, 0 -> 3
        "gold": 4,
        "right_counts": 2,
        "words": 4,
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ("degree", "height")}, "some of degree, distance, depth, not"),
        ({"names": ("degree", "degree")}, "some of degree"),
        ({"degree_weights": (0, 1)}, "between 1 and 255"),
        ({"distance_weights": (3, -1)}, "between 1 and 255"),
        ({"degree_weights": (3,)}, r"must be two, each between 1 and 255, not \[3\]"),
        ({"distance_weights": (1, 2**28)}, "between 1 and 255"),
        ({"max_value": 256}, "between 1 and 255, not 256"),
        ({"max_value": 0}, "between 1 and 255"),
    ],
    ids=["unknown", "doubled", "zero", "negative", "single", "far", "large", "none"],
)
def test_impossible_features(options, message):
    with pytest.raises(ValueError, match=message):
        TapeFeatures(**options)
