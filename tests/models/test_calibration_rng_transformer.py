import itertools
import math

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from torch.testing import assert_close

from hf_structure import RNGTransformerConfig, RNGTransformerForParsing
from hf_structure.algorithms.trees import is_tree

CALIBRATION = {"heads": [2.5, 0.125], "labels": [1.5, 0.25], "upos": [3.0, 0.0], "lemma": [0.5, 0.0625]}
COLUMNS = {"upos": ["NOUN", "VERB", "ADJ"], "lemma": ["lower-0+", "keep-0+"]}
IDS = torch.tensor([[5, 6, 7, 8], [9, 10, 11, 3]])
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])


def tiny_model(calibration: dict | None = None, **settings) -> RNGTransformerForParsing:
    """A model of one size with opinions."""
    sizes = {"vocab_size": 30, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3}
    sizes |= {"intermediate_size": 20, "arc_size": 9, "label_size": 7, "max_position_embeddings": 24}
    words = {"unk_token_id": 1, "id2label": {0: "a", 1: "b", 2: "c"}, "columns": COLUMNS}
    torch.manual_seed(0)
    model = RNGTransformerForParsing(RNGTransformerConfig(**sizes, **words, calibration=calibration, **settings))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.4)
    return model.eval()


def arc_scores(model: RNGTransformerForParsing) -> torch.Tensor:
    with torch.no_grad():
        return model(IDS, MASK).logits.double()


def all_trees(n: int) -> list[tuple[int, ...]]:
    return [heads for heads in itertools.product(range(n + 1), repeat=n) if is_proper(heads) and is_tree(heads)]


def is_proper(heads: tuple[int, ...]) -> bool:
    return all(head != word for word, head in enumerate(heads, start=1))


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("options", [{}, {"k": 5}, {"decoder": "projective"}, {"decoder": "argmax"}], ids=str)
def test_calibration_changes_no_prediction(options, rounds):
    plain = tiny_model(num_rounds=rounds).decode(IDS, MASK, **options)
    found = tiny_model(CALIBRATION, num_rounds=rounds).decode(IDS, MASK, **options)
    assert torch.equal(plain.heads, found.heads)
    for name in ("labels", *COLUMNS):
        assert torch.equal(plain.columns[name], found.columns[name])
    for name in ("probabilities", "label_probabilities"):
        assert (plain.columns[name] - found.columns[name]).abs().max() > 0.01
    if plain.log_probs is not None and "k" in options:
        assert torch.equal(plain.log_probs.argsort(descending=True), found.log_probs.argsort(descending=True))


@pytest.mark.parametrize("k", [1, 3])
def test_constituents_have_a_temperature(k):
    chains = {"constituents": ["NP", "S+VP"], "constituent_size": 6}
    plain = tiny_model(**chains)
    found = tiny_model({"constituents": [2.5, 0.0]}, **chains).decode(IDS, MASK, constituents=k)
    before = plain.decode(IDS, MASK, constituents=k)
    assert before.spans.equal(found.spans)
    assert before.span_labels.equal(found.span_labels)
    # The same scores over the temperature, from a model whose last layer has them.
    for parameter in plain.constituents.label.parameters():
        parameter.data /= 2.5
    expected = plain.decode(IDS, MASK, constituents=k)
    assert_close(found.span_probs, expected.span_probs)
    assert_close(found.span_log_probs, expected.span_log_probs)
    assert (found.span_probs - before.span_probs).abs().max() > 0.01


@pytest.mark.parametrize("share", [0.0, 0.125])
def test_probabilities_by_brute_force(share):
    temperature = 2.5
    model = tiny_model({"heads": [temperature, share]}, num_rounds=1)
    scores = arc_scores(model) / temperature
    k = 64  # of the four words' trees; three words have nine
    found = model.decode(IDS, MASK, k=k, marginals=True)
    for row, n in enumerate(MASK.sum(1).tolist()):
        trees = all_trees(n)
        assert len(trees) == n ** (n - 1)
        weights = torch.stack([scores[row, range(n), list(heads)].sum().exp() for heads in trees])
        probs = (1 - share) * weights / weights.sum() + share / len(trees)
        expected = dict(zip(trees, probs.log().tolist(), strict=True))
        number = min(k, len(trees))
        for heads, log_prob in zip(found.heads[row, :number, :n].tolist(), found.log_probs[row], strict=False):
            assert log_prob.item() == pytest.approx(expected[tuple(heads)], abs=1e-4)
        assert (found.log_probs[row, number:] == -math.inf).all()
        assert found.log_probs[row].exp().sum().item() == pytest.approx(1, abs=1e-4)
        marginals = torch.zeros(n, n + 1, dtype=torch.float64)
        for heads, prob in zip(trees, probs, strict=True):
            marginals[range(n), list(heads)] += prob
        assert_close(found.marginals[row, :n, : n + 1].double(), marginals, atol=1e-5, rtol=0)
        assert (found.marginals[row, n:] == 0).all()
        assert (found.marginals[row, :, n + 1 :] == 0).all()
        own = scores[row, :n, : n + 1].softmax(-1)
        possible = ~torch.eye(n + 1, dtype=torch.bool)[1:]
        own = (1 - share) * own + share * possible / n
        heads = found.heads[row, 0, :n]
        assert_close(found.columns["probabilities"][row, 0, :n].double(), own[range(n), heads], atol=1e-5, rtol=0)


def test_probabilities_of_labels_and_columns():
    model = tiny_model(CALIBRATION, num_rounds=1)
    found = model.decode(IDS, MASK, column_probabilities=True)
    with torch.no_grad():
        outputs = model(IDS, MASK, heads=found.heads[:, 0], labels=found.columns["labels"][:, 0])
    is_word = MASK.bool()
    logits = {"label": ("labels", outputs.label_logits)}
    logits |= {name: (name, values) for name, values in outputs.column_logits.items()}
    for name, (key, values) in logits.items():
        temperature, share = CALIBRATION[key]
        best = (1 - share) * (values / temperature).softmax(-1).max(-1).values + share / values.shape[-1]
        column = "label_probabilities" if name == "label" else f"{name}_probability"
        assert_close(found.columns[column][:, 0][is_word], best[is_word], atol=1e-5, rtol=0)
        assert (found.columns[column][:, 0][~is_word] == 0).all()
    assert "upos_probability" not in model.decode(IDS, MASK).columns


def test_a_sentence_alone_and_in_a_batch():
    model = tiny_model(CALIBRATION)
    options = {"k": 3, "marginals": True, "column_probabilities": True}
    together = model.decode(IDS, MASK, **options)
    left = model.decode(torch.tensor([[5, 6, 7, 8], [3, 9, 10, 11]]), MASK.flip(1), **options)
    for row, n in enumerate(MASK.sum(1).tolist()):
        alone = model.decode(IDS[row : row + 1, :n], **options)
        for batch in (together, left) if row else (together,):
            assert_close(batch.log_probs[row], alone.log_probs[0], atol=1e-5, rtol=0)
            assert_close(batch.marginals[row, :n, : n + 1], alone.marginals[0], atol=1e-5, rtol=0)
            for name, values in alone.columns.items():
                assert_close(batch.columns[name][row, :, :n], values[0], atol=1e-5, rtol=0)


def test_calibration_is_saved(tmp_path):
    model = tiny_model(CALIBRATION)
    model.save_pretrained(tmp_path)
    loaded = RNGTransformerForParsing.from_pretrained(tmp_path)
    assert loaded.config.calibration == CALIBRATION
    assert_close(loaded.decode(IDS, MASK).log_probs, model.decode(IDS, MASK).log_probs)
    assert RNGTransformerConfig().calibration is None


@pytest.mark.parametrize(
    ("calibration", "message"),
    [
        ({"xpos": [1.0, 0.0]}, "xpos is neither heads"),
        ({"heads": [0.0, 0.0]}, "heads needs a temperature above 0"),
        ({"heads": [math.inf, 0.0]}, "heads needs a temperature above 0"),
        ({"upos": [1.0, 1.0]}, "a share below 1"),
        ({"upos": [1.0, -0.5]}, "a share below 1"),
        ({"labels": [1.0]}, "labels needs a temperature above 0 and a share"),
        ({"constituents": [1.5, 0.1]}, "constituents have a temperature, and a share of 0, not 0.1"),
    ],
    ids=str,
)
def test_impossible_calibrations(calibration, message):
    with pytest.raises((ValueError, StrictDataclassError), match=message):
        RNGTransformerConfig(columns=COLUMNS, calibration=calibration)
