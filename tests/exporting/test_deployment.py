"""Exported parsing networks give what the models give, for batches and sentences of other sizes than the example."""

import re
import sys

import pytest
import torch
from modeling_common import collate
from test_modeling_structformer import tiny_model as tiny_structformer
from test_modeling_udgn import tiny_model as tiny_udgn
from torch.testing import assert_close

from hf_structure import RNGTransformerConfig, RNGTransformerForParsing, StructFormerConfig
from hf_structure.algorithms.distance import decode_trees
from hf_structure.algorithms.spanning_tree import arc_marginals, find_heads
from hf_structure.exporting.deployment import export_onnx, export_parser, parsing_network
from hf_structure.models.structformer.modeling_structformer import StructFormerModel

MODELS = {
    "udgn": lambda: tiny_udgn(),
    "udgn-dependents": lambda: tiny_udgn(root_score="dependents", tree_objective="expected_heads"),
    "udgn-uniform": lambda: tiny_udgn(root_score="uniform").udgn,
    "udgn-kirchhoff": lambda: tiny_udgn(head_normalization="kirchhoff"),
    "structformer": lambda: tiny_structformer(),
    "structformer-paper": lambda: tiny_structformer(calibration="constituents").structformer,
    "structformer-expected": lambda: tiny_structformer(tree_objective="expected_heads"),
}
SLOW = {"udgn-dependents", "udgn-uniform", "udgn-kirchhoff", "structformer-paper", "structformer-expected"}


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Ids and masks, with padding on either side."""
    generator = torch.Generator().manual_seed(0)
    results = []
    for lengths, side in (((3,), "left"), ((7, 2, 5), "left"), ((1, 12), "right"), ((40,), "right")):
        words = [torch.randint(3, 30, (n,), generator=generator).tolist() for n in lengths]
        batch = collate([{"input_ids": ids} for ids in words], side)
        results.append((batch["input_ids"], batch["attention_mask"]))
    return results


def heads_of(config, outputs: tuple[torch.Tensor, ...], lengths: torch.Tensor) -> torch.Tensor:
    """As docs/deployment.md finds them."""
    if len(outputs) == 1:
        scores = arc_marginals(outputs[0], lengths) if config.tree_objective == "expected_heads" else outputs[0]
        return find_heads(scores, lengths)[:, 0]
    distances, heights, probabilities = outputs
    if config.tree_objective == "expected_heads":
        return find_heads(probabilities, lengths)[:, 0]
    return decode_trees(distances, heights, lengths)[1]


@pytest.mark.torch("2.8")
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in MODELS])
@torch.no_grad()
def test_exported_network_finds_the_trees_of_the_model(name):
    model = MODELS[name]()
    program, network = export_parser(model).module(), parsing_network(model)
    for ids, mask in batches():
        outputs = program(ids, mask)
        assert_close(outputs, network(ids, mask), atol=1e-5, rtol=1e-5)
        expected = model.decode(ids, mask, marginals=True)
        assert torch.equal(heads_of(model.config, outputs, mask.sum(1)), expected.heads[:, 0])
        if len(outputs) == 1:
            assert_close(arc_marginals(outputs[0], mask.sum(1)), expected.marginals, atol=1e-5, rtol=1e-5)
        else:
            assert_close(outputs, (expected.distances, expected.heights, expected.marginals), atol=1e-5, rtol=1e-5)


@pytest.mark.torch("2.8")
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*is deprecated:FutureWarning")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["udgn-dependents", "structformer"])
@torch.no_grad()
def test_onnx_runtime_gives_the_same(name, tmp_path, capfd):
    """Translating all operators takes seconds."""
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model = MODELS[name]()
    network = parsing_network(model)
    export_onnx(model, tmp_path / "parser.onnx")
    assert capfd.readouterr().err == ""
    session = onnxruntime.InferenceSession(tmp_path / "parser.onnx")
    assert [output.name for output in session.get_outputs()] == list(network.outputs)
    two_words = torch.tensor([[3, 4]]), torch.tensor([[1, 1]])
    one_word = torch.tensor([[5]]), torch.tensor([[1]])
    for ids, mask in [*batches(), two_words, one_word]:
        found = session.run(None, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})
        outputs = tuple(map(torch.from_numpy, found))
        assert_close(outputs, network(ids, mask), atol=1e-5, rtol=1e-5)
        assert torch.equal(heads_of(model.config, outputs, mask.sum(1)), model.decode(ids, mask).heads[:, 0])


@torch.no_grad()
def test_the_model_stays_as_it_is():
    model = tiny_udgn().train()
    before = [type(module) for module in model.modules()]
    parsing_network(model)
    assert [type(module) for module in model.modules()] == before
    assert model.training


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: RNGTransformerForParsing(RNGTransformerConfig()), "not RNGTransformer"),
        (lambda: StructFormerModel(StructFormerConfig(attention="softmax")), "has no parser"),
        (lambda: StructFormerModel(StructFormerConfig(num_front_layers=2)), "num_front_layers"),
        (lambda: tiny_udgn(head_normalization="kirchhoff", root_score="uniform"), "sums over trees"),
    ],
    ids=["family", "no_parser", "front", "sums"],
)
def test_what_cannot_be_exported(model, message):
    with torch.device("meta"):
        model = model()
    with pytest.raises(ValueError, match=message):
        export_parser(model)


def test_torch_that_is_too_old(monkeypatch):
    monkeypatch.setattr("hf_structure.exporting.deployment.is_torch_greater_or_equal", lambda *args, **options: False)
    with pytest.raises(ImportError, match=rf"needs torch 2.8 or later; this is torch {re.escape(torch.__version__)}"):
        export_parser(tiny_udgn())


def test_without_onnxscript(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ImportError, match=r"hf_structure\[onnx\]"):
        export_onnx(tiny_udgn(), tmp_path / "parser.onnx")
    assert not list(tmp_path.iterdir())
