"""The dependency model with valence, against the enumeration of all trees of short sentences, and its script."""

import math
import re
from collections import Counter
from itertools import pairwise, product

import pytest
import torch
from running import load_script

from hf_structure.algorithms.trees import is_projective, is_tree
from hf_structure.text.conllu import ConlluSentence, read_conllu, write_conllu

dmv = load_script("run_dmv")
TAGS = 3


def random_model(seed: int) -> "dmv.Probabilities":
    torch.manual_seed(seed)
    shapes = ((TAGS,), (TAGS, 2, 2, 2), (TAGS, 2, TAGS))
    return dmv.Probabilities(*(torch.randn(shape).double().log_softmax(-1) for shape in shapes))


def trees(n: int) -> list[tuple[int, ...]]:
    found = [heads for heads in product(range(n + 1), repeat=n) if is_tree(heads) and is_projective(heads)]
    return [heads for heads in found if heads.count(0) == 1]


def events(tags: list[int], heads: tuple[int, ...]) -> Counter:
    """What the model generates with a tree, as its definition tells it: names of a table and indices in it."""
    found = Counter()
    for word, tag in enumerate(tags):
        if heads[word] == 0:
            found["root", (tag,)] += 1
        for side in (dmv.LEFT, dmv.RIGHT):
            dependents = [d for d in range(len(tags)) if heads[d] == word + 1 and (d > word) == (side == dmv.RIGHT)]
            valence = dmv.NONE
            for dependent in dependents:
                found["choice", (tag, side, valence, dmv.GO_ON)] += 1
                found["dependent", (tag, side, tags[dependent])] += 1
                valence = dmv.SOME
            found["choice", (tag, side, valence, dmv.STOP)] += 1
    return found


def log_probability(model, tags: list[int], heads: tuple[int, ...]) -> float:
    return sum(count * getattr(model, name)[index].item() for (name, index), count in events(tags, heads).items())


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_against_all_trees(n):
    model = random_model(n)
    sentences = torch.randint(TAGS, (4, n)).tolist()
    scores = model.of_words(torch.tensor(sentences))
    sums, best = dmv.inside(scores, dmv.log_sum), dmv.inside(scores, dmv.maximum)
    heads = dmv.best_heads(model, torch.tensor(sentences))
    for row, tags in enumerate(sentences):
        logs = {tree: log_probability(model, tags, tree) for tree in trees(n)}
        assert sums[row].item() == pytest.approx(math.log(sum(map(math.exp, logs.values()))))
        assert best[row].item() == pytest.approx(max(logs.values()))
        assert tuple(heads[row].tolist()) == max(logs, key=logs.get)


def test_probabilities_of_all_sentences_sum_to_one():
    """With so high a probability of stopping, longer sentences have next to none."""
    model = random_model(0)
    stop = torch.tensor([0.995, 0.005]).double().log()
    model = model._replace(choice=stop.expand(TAGS, 2, 2, 2))
    total = sum(
        dmv.inside(model.of_words(torch.tensor(list(product(range(TAGS), repeat=n)))), dmv.log_sum).exp().sum()
        for n in range(1, 7)
    )
    assert total.item() == pytest.approx(1, abs=1e-8)


def test_expected_counts():
    model = random_model(1)
    sentences = [[0, 2, 1, 0], [1, 1, 2, 2], [0, 1]]
    wanted = {name: torch.zeros_like(table) for name, table in zip(model._fields, model, strict=True)}
    for tags in sentences:
        weights = {tree: math.exp(log_probability(model, tags, tree)) for tree in trees(len(tags))}
        for tree, weight in weights.items():
            for (name, index), count in events(tags, tree).items():
                wanted[name][index] += count * weight / sum(weights.values())
    counts, likelihood = dmv.expect(model, [torch.tensor(sentences[:2]), torch.tensor(sentences[2:])])
    for name, table in wanted.items():
        torch.testing.assert_close(getattr(counts, name), table)
    assert likelihood == pytest.approx(
        sum(
            math.log(sum(math.exp(log_probability(model, tags, tree)) for tree in trees(len(tags))))
            for tags in sentences
        )
    )


def test_harmonic_counts_weigh_arcs_by_their_length():
    """Of two words, each is the other's head with the same weight; of three with one tag, the near arcs count more."""
    even = dmv.maximise(dmv.Probabilities(*(torch.zeros_like(table) for table in random_model(0))), 1.0)
    tags = [0, 1, 2]
    weights = Counter()
    for tree in trees(3):
        lengths = [abs(head - 1 - word) for word, head in enumerate(tree) if head]
        weights[tree] = math.exp(log_probability(even, tags, tree)) / math.prod(lengths)
    far = sum(weight for tree, weight in weights.items() if tree[2] == 1) / weights.total()
    counts, _ = dmv.expect(even, [torch.tensor([tags])], by_length=True)
    assert counts.dependent[0, dmv.RIGHT, 2].item() == pytest.approx(far)


def test_likelihood_never_falls():
    model = random_model(2)
    batches = [torch.randint(TAGS, (20, n)) for n in (1, 3, 6)]
    likelihoods = []
    for _ in range(15):
        counts, likelihood = dmv.expect(model, batches)
        likelihoods.append(likelihood)
        model = dmv.maximise(counts, smoothing=0.0)
    assert all(after >= before for before, after in pairwise(likelihoods))
    assert likelihoods[-1] > likelihoods[0] + 1


@pytest.fixture
def treebank(tmp_path):
    """Determiners, nouns and verbs: a determiner is always before its noun, a verb between two of these."""
    the, dog = ("the", "DET", "DT"), ("dog", "NOUN", "NN")
    rows = {
        "short": ([the, dog, ("sleeps", "VERB", "VBZ"), (".", "PUNCT", ".")], [2, 3, 0, 3]),
        "long": ([the, dog, ("sees", "VERB", "VBZ"), the, dog, (".", "PUNCT", ".")], [2, 3, 0, 5, 3, 3]),
    }
    sentences = []
    for words, heads in rows.values():
        forms, upos, xpos = map(list, zip(*words, strict=True))
        deprels = ["punct" if form == "." else "dep" for form in forms]
        sentence = ConlluSentence.from_words(forms, heads, deprels)
        sentences.append(sentence.with_column("upos", upos).with_column("xpos", xpos))
    write_conllu(sentences * 5, tmp_path / "trees.conllu")
    return tmp_path / "trees.conllu"


@pytest.mark.smoke
@pytest.mark.parametrize("column", ["upos", "xpos"])
def test_script(treebank, tmp_path, capsys, column):
    options = [
        "--train_file",
        treebank,
        "--test_file",
        treebank,
        "--column",
        column,
        "--output",
        tmp_path / "out.conllu",
    ]
    dmv.main([*map(str, options), "--random_seeds", "1", "2", "--max_length", "3"])
    printed = capsys.readouterr().out
    assert "5 training sentences of up to 3 words, 3 tags" in printed
    rows = {cells[0]: cells[1:] for cells in (line.strip("| ").split(" | ") for line in printed.splitlines()[1:])}
    assert rows["left neighbour as head"] == ["1", "0.0", "62.5", "0.0", "66.7"]
    assert rows["DMV, random"][0] == "2"
    assert "±" in rows["DMV, random"][1]
    written = list(read_conllu(tmp_path / "out.conllu"))
    assert [len(sentence.words) for sentence in written] == [3, 5] * 5
    assert all(is_tree(sentence.heads) for sentence in written)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda s: s.with_column("xpos", ["_"] * len(s.words)), ["--column", "xpos"], r"no XPOS.*--column"),
        (lambda s: s.with_column("head", ["_"] * len(s.words)), [], "without heads"),
        (lambda s: s, ["--max_length", "2"], "no sentence of up to 2 words"),
    ],
    ids=["tags", "heads", "short"],
)
def test_errors(treebank, tmp_path, capsys, change, options, message):
    path = tmp_path / "changed.conllu"
    write_conllu([change(sentence) for sentence in read_conllu(treebank)], path)
    with pytest.raises(SystemExit):
        dmv.main(["--train_file", str(path), "--test_file", str(treebank), *options])
    assert re.search(message, capsys.readouterr().err)
