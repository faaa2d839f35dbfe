"""GiLT: converted files give what the formulas give under the names of the authors' code."""

from argparse import Namespace

import original_gilt
import pytest
import torch
from convert.conversion import convert
from torch.testing import assert_close

import hf_structure

# fmt: off
PIECES = ["<pad>", "<s>", "</s>", "<unk>", "->", "<-", "▁", "▁the", "▁dog", "s", "▁see", "▁a", "▁bird", "e", "▁cat"]
# fmt: on
IDS, WORD_IDS = [1, 7, 8, 9, 10, 9, 11, 12, 2], [0, 1, 2, 2, 3, 3, 4, 5, 0]
ARCS = {(2, 1), (0, 3), (3, 2), (5, 4), (3, 5), (5, 2)}


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "spm.vocab"
    scores = [0.0] * 6 + [-float(i) for i in range(1, len(PIECES) - 5)]
    path.write_text("".join(f"{piece}\t{score}\n" for piece, score in zip(PIECES, scores, strict=True)), "utf-8")
    return path


def models(layers=4, mixing=3):
    torch.manual_seed(1)
    model = original_gilt.TransformerGrammar(len(PIECES), 8, 2, 12, layers, mixing)
    scorer = original_gilt.BiaffineAttention(8, 5)
    for parameter in (*model.parameters(), *scorer.parameters()):
        torch.nn.init.normal_(parameter, std=0.4)
    return model.eval(), scorer.eval()


def saved(path, model, scorer=None, form="whole", **options):
    content = {"args": Namespace(dropout=0.1, dropoutatt=0.0, finetune=None), "model": model, "vocab": PIECES}
    content |= {"biaffine_model": scorer, "optimizer": torch.optim.AdamW(model.parameters()).state_dict()}
    if form == "states":
        content = {name: content[name].state_dict() for name in ("model", "biaffine_model")}
    torch.save({**content, **options}, path)
    return path


@pytest.mark.parametrize("form", ["whole", "states"])
@torch.no_grad()
def test_gilt(form, tmp_path, vocabulary):
    model, scorer = models()
    converted, _ = convert(saved(tmp_path / "gilt.pt", model, scorer, form), dictionary=vocabulary)
    ids = torch.tensor(IDS)
    scores, states = model(ids, WORD_IDS, ARCS)
    arcs, counts = scorer(IDS, WORD_IDS, ARCS, states, states[0])
    graph = torch.zeros(1, 6, 6, dtype=torch.bool)
    for head, dependent in ARCS:
        graph[0, head, dependent] = True
    outputs = converted(ids[None], word_ids=torch.tensor([WORD_IDS]), graph=graph, labels=ids[None])
    assert_close(outputs.logits[0], scores, atol=1e-5, rtol=1e-5)
    for (head, dependent), score in arcs.items():
        assert_close(outputs.arc_logits[0, head, dependent], score, atol=1e-5, rtol=1e-5)
    possible = outputs.count_logits[0] > -torch.inf  # in the release also numbers that there cannot be
    assert_close(outputs.count_logits[0][possible], counts[possible], atol=1e-5, rtol=1e-5)
    assert possible.sum(1).tolist() == [2, 4, 5, 5, 5]
    tokens = converted(ids[None]).logits  # without a graph, that of a sentence without arcs is not read either
    assert not torch.allclose(tokens, outputs.logits, atol=1e-3)


@torch.no_grad()
def test_word_by_word_as_all_at_once(tmp_path, vocabulary):
    """What the greedy graph says of the number of arcs is what the scorer says of whole sentences with that graph."""
    converted, _ = convert(saved(tmp_path / "gilt.pt", *models()), dictionary=vocabulary)
    ids, words = torch.tensor([IDS]), torch.tensor([WORD_IDS])
    graph = converted.predict_structures(ids, words)
    counts = converted(ids, word_ids=words, graph=graph, labels=ids).count_logits.argmax(-1)
    assert counts[0].tolist() == [
        int(graph[0, : word + 1, : word + 1].sum() - graph[0, :word, :word].sum()) for word in range(1, 6)
    ]


def test_gilt_folder(tmp_path, vocabulary):
    converted, tokenizer = convert(saved(tmp_path / "gilt.pt", *models()), dictionary=vocabulary)
    for part in (converted, tokenizer):
        part.save_pretrained(tmp_path / "new")
    assert converted.config.eos_token_id == 2
    assert tokenizer("the dogs see").input_ids == [1, 7, 8, 9, 10]
    (scored,) = hf_structure.score([["the", "dogs", "see"]], model=tmp_path / "new", beam_size=2)
    assert len(scored.words) == 3


def test_transformer_xl_without_graphs(tmp_path, vocabulary):
    model, _ = models(mixing=0)
    converted, _ = convert(saved(tmp_path / "txl.pt", model, form="whole"), dictionary=vocabulary)
    assert converted.config.graph_layers == 0
    assert_close(
        converted(torch.tensor([IDS])).logits[0], model(torch.tensor(IDS), WORD_IDS, ())[0], atol=1e-5, rtol=0
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pre_lnorm": True}, "layer norms before the sublayers"),
        ({"vocab": PIECES[::-1]}, "its pieces are others"),
    ],
)
def test_refusals(change, message, tmp_path, vocabulary):
    path = saved(tmp_path / "gilt.pt", *models(), **change)
    with pytest.raises(ValueError, match=message):
        convert(path, dictionary=vocabulary)


def test_gilt_on_gpt2(tmp_path):
    torch.save({"transformer.h.12.attn.embed_k_net.weight": torch.zeros(4, 4)}, tmp_path / "gpt2.pt")
    with pytest.raises(ValueError, match="a GiLT on GPT-2, whose graph keys do not go through the keys"):
        convert(tmp_path / "gpt2.pt")


def test_two_features_that_are_not_told(tmp_path, vocabulary):
    with pytest.raises(ValueError, match="has 2 graph features, and does not say which"):
        convert(saved(tmp_path / "gilt.pt", *models(mixing=2)), dictionary=vocabulary)
