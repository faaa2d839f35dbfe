"""Fits the head by which a trained network over characters tells languages apart."""

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from hf_structure.text.raw_text import RawTextReader, mean_scores

DECAY = 1e-5  # of squared weights, over standardised states
ITERATIONS = 300


def language_of(treebank: str) -> str:
    """The language code in the name of a treebank."""
    return treebank.partition("_")[0]


def draw_texts(treebanks: Mapping[str, Sequence[str]], most: int, seed: int) -> dict[str, list[str]]:
    """Returns at most `most` texts of each language, drawn at random from all of its treebanks."""
    texts: dict[str, list[str]] = {}
    for name in sorted(treebanks):
        texts.setdefault(language_of(name), []).extend(treebanks[name])
    random = np.random.default_rng(seed)
    return {
        language: [found[index] for index in random.permutation(len(found))[:most]]
        for language, found in texts.items()
    }


def mean_states(network: Any, settings: Mapping[str, Any], texts: Sequence[str]) -> torch.Tensor:
    """
    The mean hidden state of the characters of each text, `(n, D)`, as the reader of raw text averages scores. The
    network is a [`~hf_structure.modules.character_segmenter.CharacterSegmenter`] with these settings.
    """
    probe = copy.deepcopy(network).eval()
    # Its scores are the states themselves.
    probe.languages = nn.Identity()
    reader = RawTextReader(probe, {**settings, "languages": ["any"], "habits": {}}, languages=True)
    return torch.from_numpy(np.stack([mean_scores(tokens) for tokens in reader(texts)]))


def fit_languages(states: torch.Tensor, labels: torch.Tensor, count: int) -> nn.Linear:
    """
    Multinomial logistic regression with a penalty on squared weights; each of the `count` languages has the same
    weight. `states` are `(n, D)`, `labels` `(n,)`. The result is the same in every run.
    """
    states = states.double()
    centre = states.mean(0)
    scale = states.std(0).clamp(min=1e-6)
    standard = (states - centre) / scale
    weights = 1 / torch.bincount(labels, minlength=count).double()
    head = nn.Linear(states.shape[1], count, dtype=torch.float64)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    optimizer = torch.optim.LBFGS(head.parameters(), max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(head(standard), labels, weight=weights)
        loss = loss + DECAY * head.weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    with torch.no_grad():
        # Over states as they are.
        head.weight.div_(scale)
        head.bias.sub_(head.weight @ centre)
    return head.requires_grad_(False).float()


def language_report(predicted: Sequence[str], languages: Sequence[str]) -> str:
    """Reports the share of sentences whose language is found, as a mean over languages, and the worst confusions."""
    totals = Counter(languages)
    pairs = Counter(zip(languages, predicted, strict=True))
    mean = sum(pairs[language, language] / total for language, total in totals.items()) / len(totals)
    wrong = sorted(
        ((pair, n) for pair, n in pairs.items() if pair[0] != pair[1]), key=lambda item: (-item[1], item[0])
    )
    confused = ", ".join(f"{language} as {other} {n}" for (language, other), n in wrong[:12])
    return (
        f"languages: {100 * mean:.1f} % of sentences, mean of {len(totals)} languages; {confused or 'no confusions'}"
    )
