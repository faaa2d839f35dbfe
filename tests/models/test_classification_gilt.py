import pytest
import torch
from grafts import source
from modeling_common import without_gradient
from test_modeling_gilt import batch_of, sentences, tiny_config, tiny_model
from torch.testing import assert_close
from transformers import AutoModelForSequenceClassification, GPT2ForSequenceClassification

from hf_structure import GiLTForCausalLM, GiLTForSequenceClassification

BACKBONES = ["transformer_xl", "gpt2", "qwen3"]


@pytest.fixture(params=BACKBONES)
def causal_lm(request) -> GiLTForCausalLM:
    """A model whose graphs matter."""
    return tiny_model(request.param)


def regression(causal_lm: GiLTForCausalLM, folder, **settings) -> GiLTForSequenceClassification:
    """A regression on a saved language model."""
    causal_lm.save_pretrained(folder)
    settings = {"num_labels": 1, "problem_type": "regression"} | settings
    return AutoModelForSequenceClassification.from_pretrained(folder, **settings).eval()


def inputs(side: str = "right", examples: list[dict] | None = None) -> dict[str, torch.Tensor]:
    batch = batch_of(sentences() if examples is None else examples, side)
    del batch["labels"]
    return batch


@torch.no_grad()
def test_is_a_linear_map_of_the_last_state(causal_lm, tmp_path):
    model = regression(causal_lm, tmp_path)
    assert type(model) is GiLTForSequenceClassification
    assert model.score.bias is None
    batch = inputs()
    logits = model(**batch).logits
    assert logits.shape == (3, 1)
    for row, example in enumerate(sentences()):
        one = inputs(examples=[example])
        state = causal_lm.model(**one).last_hidden_state[0, -1]  # the language model's own
        assert_close(logits[row], model.score.weight @ state, atol=1e-5, rtol=1e-4)
    one.pop("attention_mask")
    assert_close(model(**one).logits[0], logits[-1], atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_padding_and_batch_change_nothing(causal_lm, tmp_path):
    model = regression(causal_lm, tmp_path)
    alone = torch.cat([model(**inputs(examples=[example])).logits for example in sentences()])
    for side in ("right", "left"):
        assert_close(model(**inputs(side)).logits, alone, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_reads_the_graph(causal_lm, tmp_path):
    model = regression(causal_lm, tmp_path)
    with_graph, other, without = inputs(), inputs(), inputs()
    other["graph"] = other["graph"].flip(0).clone()
    other["tapes"] = None
    del without["graph"], without["tapes"]
    logits = [model(**batch).logits for batch in (with_graph, other, without)]
    assert (logits[0] - logits[1]).abs().max() > 1e-4
    assert (logits[0] - logits[2]).abs().max() > 1e-4


def test_is_transformers_own_head_where_there_is_no_graph(tmp_path):
    plain = source("gpt2")
    plain.save_pretrained(tmp_path / "plain")
    settings = {"num_labels": 1, "problem_type": "regression"}
    theirs = GPT2ForSequenceClassification.from_pretrained(tmp_path / "plain", **settings).eval()
    ours = regression(GiLTForCausalLM.from_pretrained_lm(plain, graph_layers=0), tmp_path / "graft")
    ours.score.load_state_dict(theirs.score.state_dict())
    ids = torch.tensor([[2, 8, 9, 7], [2, 6, 7, 1]])
    batch = {"input_ids": ids, "attention_mask": (ids != 1).long(), "labels": torch.tensor([1.0, 4.0])}
    assert_close(ours(**batch).logits, theirs(**batch).logits)
    assert_close(ours(**batch).loss, theirs(**batch).loss)


def test_save_and_load(causal_lm, tmp_path):
    model = regression(causal_lm, tmp_path / "lm")
    model.save_pretrained(tmp_path / "regression")
    assert (tmp_path / "regression" / "model.safetensors").exists()
    loaded, info = AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "regression", output_loading_info=True
    )
    assert not any(info.values()), info
    assert type(loaded) is GiLTForSequenceClassification
    assert (loaded.config.num_labels, loaded.config.problem_type) == (1, "regression")
    assert_close(loaded.state_dict(), model.state_dict(), rtol=0, atol=0)
    batch = inputs()
    assert_close(loaded(**batch).logits, model(**batch).logits)


def test_only_the_head_is_new_after_a_language_model(causal_lm, tmp_path):
    causal_lm.save_pretrained(tmp_path)
    model, info = AutoModelForSequenceClassification.from_pretrained(tmp_path, num_labels=1, output_loading_info=True)
    assert set(info["missing_keys"]) == {"score.weight"}
    assert not info["unexpected_keys"]
    assert_close(model.model.state_dict(), causal_lm.model.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("settings", "labels", "literal"),
    [
        ({"num_labels": 1}, torch.tensor([1.0, 2.5, 4.0]), lambda x, y: (x[:, 0] - y).square().mean()),
        ({"num_labels": 3}, torch.tensor([2, 0, 1]), lambda x, y: -x.log_softmax(1)[torch.arange(3), y].mean()),
        (
            {"num_labels": 2, "problem_type": "multi_label_classification"},
            torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]),
            lambda x, y: -(y * x.sigmoid().log() + (1 - y) * (1 - x.sigmoid()).log()).mean(),
        ),
    ],
    ids=["regression", "classes", "several_classes"],
)
def test_losses(settings, labels, literal):
    torch.manual_seed(0)
    model = GiLTForSequenceClassification(tiny_config(**settings)).eval()
    batch = inputs() | {"labels": labels}
    outputs = model(**batch)
    assert_close(outputs.loss, literal(outputs.logits, labels))
    assert_close(model(**batch, num_items_in_batch=labels.numel() * 4).loss, outputs.loss / 4)


def test_gradient_reaches_every_parameter():
    torch.manual_seed(0)
    model = GiLTForSequenceClassification(tiny_config(num_labels=1))
    assert without_gradient(model, inputs() | {"labels": torch.tensor([1.0, 2.5, 4.0])}) == ()
