"""UDGN and StructFormer: converted files give what the formulas give under the names of the authors' code."""

import json
import pickle

import original_structformer
import original_udgn
import pytest
import torch
from convert.conversion import check, convert
from torch.testing import assert_close
from transformers import AutoModelForMaskedLM, AutoTokenizer

import hf_structure

WORDS = ["the", "dog", "sees", "N", "cats", "near", "a", "bird"]
SIZE = len(WORDS) + 3
SENTENCES = [torch.tensor([[3, 4, 5]]), torch.tensor([[6, 2, 0, 5, 3, 7, 10]]), torch.tensor([[8]])]


def udgn(**options):
    torch.manual_seed(1)
    return randomised(original_udgn.UDGN(8, 6, 2, SIZE, nhead=3, n_parser_layers=2, **options))


def structformer(kind="StructFormer", **options):
    torch.manual_seed(1)
    if kind != "Transformer":
        options = {"n_parser_layers": 2, "conv_size": 5, **options}
    return randomised(getattr(original_structformer, kind)(8, 3, SIZE, nhead=2, **options))


def randomised(model):
    """Biases that matter, and norms that do something."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1 and "scaler" not in name:
            torch.nn.init.normal_(parameter, mean=1.0 if "norm" in name else 0.0, std=0.5)
    torch.nn.init.normal_(model.get_parameter(next(iter(model.state_dict()))), std=0.7)
    return model.eval()


@pytest.fixture
def dictionary(tmp_path):
    path = tmp_path / "dict.pkl"
    path.write_bytes(pickle.dumps(original_udgn.Dictionary(WORDS)))
    return path


def saved(model, path, form):
    """As the authors' scripts save it, or as somebody saved it for them."""
    optimizer = torch.optim.Adam(model.parameters())
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    whole = [model, torch.nn.CrossEntropyLoss(), optimizer, scheduler]
    content = {
        "whole": whole,
        "old": whole,
        "states": model.state_dict(),
        "nested": {"state_dict": {f"module.{name}": value for name, value in model.state_dict().items()}, "epoch": 3},
    }
    torch.save(content[form], path, _use_new_zipfile_serialization=form != "old")
    return path


def scores_of(model, ids):
    *_, others = model(ids, *([ids] if hasattr(model, "parser_emb") else []), torch.arange(ids.shape[1])[None])
    head = model.transformer_rear.output_layer if hasattr(model, "transformer_rear") else model.output_layer
    return head(others["raw_output"]), others


@torch.no_grad()
def assert_same(converted, model):
    for ids in SENTENCES:
        scores, others = scores_of(model, ids)
        outputs = converted(ids)
        assert_close(outputs.logits, scores, atol=1e-5, rtol=1e-5)
        if "head" in others and hasattr(outputs, "head_log_probs"):
            assert_close(outputs.head_log_probs[..., 1:].exp(), others["head"], atol=1e-5, rtol=1e-5)
        elif "head" in others:
            assert_close(outputs.parent_probs[0], others["head"], atol=1e-5, rtol=1e-5)
    return outputs


@pytest.mark.parametrize("form", ["whole", "old", "states", "nested"])
def test_udgn_files(form, tmp_path, dictionary):
    model = udgn()
    converted, tokenizer = convert(saved(model, tmp_path / "model.pt", form), dictionary=dictionary)
    assert_same(converted, model)
    assert converted.config.num_attention_heads == 3
    assert tokenizer(["The", "dog", "12"], is_split_into_words=True)["input_ids"] == [3, 4, 6]


def test_udgn_with_positions(tmp_path, dictionary):
    model = udgn(pos_emb=True)
    converted, tokenizer = convert(saved(model, tmp_path / "model.pt", "whole"), dictionary=dictionary)
    assert_same(converted, model)
    assert converted.config.max_position_embeddings == tokenizer.model_max_length == 500


def test_udgn_floor_matters(tmp_path, dictionary):
    """A release's edge may be improbable everywhere; then what it adds to all is all there is."""
    converted, _ = convert(saved(udgn(), tmp_path / "model.pt", "states"), dictionary=dictionary)
    ids = SENTENCES[1]
    scores = converted(ids).logits
    converted.config.edge_floor = 0.0
    assert not torch.equal(converted(ids).logits, scores)
    padded = torch.nn.functional.pad(ids, (2, 3), value=1)
    mask = torch.nn.functional.pad(torch.ones_like(ids), (2, 3))
    converted.config.edge_floor = 1e-2
    assert_close(converted(padded, attention_mask=mask).logits[:, 2:-3], converted(ids).logits, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pos_emb": True},
        {"relative_bias": True},
        {"relations": ("head", "child", "cibling"), "weight_act": "sigmoid"},
        {"weight_act": "ones"},
        {"affine": False},
        {"kind": "Transformer", "relative_bias": True},
        {"kind": "StructFormer_In_Parser", "front_layers": 1, "rear_layers": 2},
        {
            "kind": "StructFormer_In_Parser",
            "front_layers": 2,
            "rear_layers": 2,
            "pos_emb": True,
            "relative_bias": True,
        },
    ],
    ids=lambda options: ",".join(map(str, options.values())) or "default",
)
def test_structformer(options, tmp_path, dictionary):
    model = structformer(**options)
    if options.get("weight_act") == "ones":
        del model._rel_weight.grad
    settings = {"num_attention_heads": 2}
    converted, _ = convert(saved(model, tmp_path / "model.pt", "whole"), dictionary=dictionary, settings=settings)
    assert_same(converted, model)


def test_structformer_heights_up_to_a_constant(tmp_path, dictionary):
    """The release has a bias of the distances, which might as well be taken from the heights."""
    model = structformer()
    converted, _ = convert(saved(model, tmp_path / "model.pt", "whole"), dictionary=dictionary)
    _, heights = model.parse(model.emb(SENTENCES[1][0]))
    found = converted(SENTENCES[1]).heights[0]
    assert_close(found - found.mean(), heights - heights.mean(), atol=1e-5, rtol=1e-5)


def test_structformer_relations_that_are_not_told(tmp_path, dictionary):
    model = structformer(relations=("child",))
    path = saved(model, tmp_path / "model.pt", "states")
    with pytest.raises(ValueError, match="weights of 1 relations, and does not say which"):
        convert(path, dictionary=dictionary)
    converted, _ = convert(path, dictionary=dictionary, settings={"relations": ["dependent"]})
    assert_same(converted, model)


@pytest.mark.parametrize("front", [0, 1])
def test_structformer_of_the_hub(front, tmp_path):
    """Custom code on the Hub: a folder with `config.json`, weights under `model.`, a subword tokenizer of its own."""
    words = [["the", "dog", "sees", "cats"], ["a", "bird"]]
    tokenizer = hf_structure.train_subword_tokenizer(words, vocab_size=60)
    tokenizer.add_special_tokens({"mask_token": "<mask>"})
    torch.manual_seed(1)
    options = {"n_parser_layers": 1, "conv_size": 3, "pos_emb": True, "pad": tokenizer.pad_token_id}
    if front:
        options |= {"front_layers": 1, "rear_layers": 1}
    kind = original_structformer.StructFormer_In_Parser if front else original_structformer.StructFormer
    model = randomised(kind(8, 2, len(tokenizer), nhead=4, **options))
    folder = tmp_path / "hub"
    tokenizer.save_pretrained(folder)
    weights = {f"model.{name}": value for name, value in model.state_dict().items()}
    torch.save(weights, folder / "pytorch_model.bin")
    config = {"model_type": "structformer_in_parser" if front else "structformer", "nhead": 4, "weight_act": "softmax"}
    config |= {"relations": ["head", "child"], "dropout": 0.3, "dropatt": 0.0, "auto_map": {"AutoConfig": "x.Config"}}
    (folder / "config.json").write_text(json.dumps(config))
    converted, own = convert(folder)
    assert_same(converted, model)
    assert converted.config.num_front_layers == front
    assert (converted.config.hidden_dropout, converted.config.mask_token_id) == (0.3, own.mask_token_id)
    converted.save_pretrained(tmp_path / "new")
    own.save_pretrained(tmp_path / "new")
    (parse,) = hf_structure.parse([["the", "dog", "sees", "cats"]], model=tmp_path / "new")
    assert len(parse.dependency.heads) == 4


def test_loads_by_the_auto_classes(tmp_path, dictionary):
    model = udgn()
    converted, tokenizer = convert(saved(model, tmp_path / "model.pt", "whole"), dictionary=dictionary)
    for part in (converted, tokenizer):
        part.save_pretrained(tmp_path / "new")
    assert_same(AutoModelForMaskedLM.from_pretrained(tmp_path / "new", trust_remote_code=False), model)
    loaded = AutoTokenizer.from_pretrained(tmp_path / "new", trust_remote_code=False)
    assert loaded.convert_ids_to_tokens(list(range(SIZE)))[:4] == ["<unk>", "<pad>", "<mask>", "the"]
    (parse,) = hf_structure.parse([["the", "dog", "sees"]], model=tmp_path / "new")
    assert sum(head == 0 for head in parse.dependency.heads) == 1


@pytest.mark.parametrize(("make", "module"), [(udgn, "original_udgn"), (structformer, "original_structformer")])
def test_check(make, module, tmp_path, dictionary, request):
    path = saved(make(), tmp_path / "model.pt", "whole")
    converted, _ = convert(path, dictionary=dictionary)
    assert check(converted, path, request.path.parent, module) < 1e-4
    torch.nn.init.zeros_(converted.lm_head.bias)
    with pytest.raises(ValueError, match="gives other scores than the original"):
        check(converted, path, request.path.parent, module)
    with pytest.raises(ValueError, match="is not the original code"):
        check(converted, path, tmp_path, "no_such_module")
