"""The head that tells languages apart, against conditions that only the right answer meets."""

import numpy as np
import pytest
import torch
from character_networks import LANGUAGES, SETTINGS, random_segmenter

from hf_structure.text.raw_text import RawTextReader, mean_scores
from hf_structure.training.languages import DECAY, draw_texts, fit_languages, language_report, mean_states


def made_states(counts=(30, 10, 20)) -> tuple[torch.Tensor, torch.Tensor]:
    """Overlapping clouds of several scales, far from zero."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    centres = torch.randn(len(counts), 4, generator=generator)
    states = centres[labels] + torch.randn(len(labels), 4, generator=generator)
    return states * torch.tensor([1.0, 0.01, 5.0, 0.1]) + 3, labels


def test_the_gradient_is_zero():
    """By numpy: of the mean over languages of the mean loss, and of the penalty on standardised weights."""
    states, labels = made_states()
    head = fit_languages(states, labels, 3)
    inputs, kinds = states.double().numpy(), labels.numpy()
    scale = inputs.std(0, ddof=1)
    scores = inputs @ head.weight.double().numpy().T + head.bias.double().numpy()
    probabilities = np.exp(scores - scores.max(1, keepdims=True))
    probabilities /= probabilities.sum(1, keepdims=True)
    weights = 1 / np.bincount(kinds)[kinds] / 3
    error = (probabilities - np.eye(3)[kinds]) * weights[:, None]
    gradient = error.T @ ((inputs - inputs.mean(0)) / scale) + 2 * DECAY * head.weight.double().numpy() * scale
    assert np.abs(gradient).max() < 1e-4
    assert np.abs(error.sum(0)).max() < 1e-4
    assert (probabilities.argmax(1) == kinds).mean() > 0.6


def test_it_is_the_same_in_every_run():
    states, labels = made_states()
    one, other = (fit_languages(states, labels, 3) for _ in range(2))
    assert torch.equal(one.weight, other.weight)
    assert not one.weight.requires_grad


def test_separable_languages_are_told_apart():
    states = torch.eye(3).repeat(5, 1)
    labels = torch.arange(3).repeat(5)
    assert fit_languages(states, labels, 3)(states).softmax(1)[torch.arange(15), labels].min() > 0.95


def test_states_are_those_that_the_head_reads():
    network = random_segmenter(1, languages=LANGUAGES)
    texts = ["Er ging zum See.", "中国人", "a b"]
    states = mean_states(network, SETTINGS, texts)
    reader = RawTextReader(network, SETTINGS | {"languages": LANGUAGES}, languages=True)
    expected = np.stack([mean_scores(tokens) for tokens in reader(texts)])
    assert states.shape == (3, 8)
    assert network.languages(states.float()).detach().numpy() == pytest.approx(expected, abs=1e-5)


def test_texts_are_drawn_by_language():
    treebanks = {"aa_one": [f"one {number}" for number in range(9)], "aa_two": ["two"] * 9, "bb_one": ["b"] * 2}
    drawn = draw_texts(treebanks, 6, seed=1)
    assert {language: len(texts) for language, texts in drawn.items()} == {"aa": 6, "bb": 2}
    assert len({text.split()[0] for text in drawn["aa"]}) == 2
    assert drawn == draw_texts(dict(reversed(treebanks.items())), 6, seed=1)
    assert drawn != draw_texts(treebanks, 6, seed=2)


def test_report():
    found = ["da", "no", "no", "no", "sv"]
    report = language_report(found, ["da", "da", "no", "no", "sv"])
    assert report == "languages: 83.3 % of sentences, mean of 3 languages; da as no 1"
    assert language_report(["sv"], ["sv"]).endswith("; no confusions")
