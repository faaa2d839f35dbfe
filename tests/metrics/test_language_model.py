import math

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from hf_structure import GiLTConfig, GiLTForCausalLM, GraphCollator, PushdownLMConfig, PushdownLMForCausalLM
from hf_structure.algorithms.graph import new_arcs
from hf_structure.metrics.language_model import language_model_scores, language_model_sums
from hf_structure.models.annotations import annotation_of

WORD_IDS = [[0, 1, 1, 2, 3, 4, 4, 0], [0, 1, 2, 3, 0]]
ARCS = [[[0, 2], [2, 1], [2, 4], [4, 3], [1, 4]], [[0, 1], [1, 2], [3, 2]]]


def tiny_model(**settings) -> GiLTForCausalLM:
    """A model that is sure of its arcs."""
    torch.manual_seed(1)
    config = GiLTConfig(
        vocab_size=20,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        graph_embedding_size=4,
        scorer_hidden_size=16,
        scorer_size=8,
        max_new_arcs=4,
        **settings,
    )
    model = GiLTForCausalLM(config).eval()
    if config.graph_layers:
        torch.nn.init.normal_(model.scorer.arc_matrix, std=3.0)
        torch.nn.init.normal_(model.scorer.counts.weight, std=3.0)
        for keys in model.model.graph_keys:
            torch.nn.init.normal_(keys.fusion, std=1.0)
    return model


def examples(arcs: list | None = ARCS) -> list[dict]:
    generator = torch.Generator().manual_seed(0)
    rows = []
    for number, word_ids in enumerate(WORD_IDS):
        ids = torch.randint(4, 20, (len(word_ids),), generator=generator).tolist()
        rows.append({"input_ids": ids, "word_ids": word_ids} | ({"arcs": arcs[number]} if arcs else {}))
    return rows


def scores_of(model, rows: list[dict], **options) -> dict[str, float]:
    """Scores from single sentences added up."""
    annotation = annotation_of(model.config)
    totals = {}
    for row in rows:
        sums = language_model_sums(model, GraphCollator(1)([row]), max(row["word_ids"]), annotation, **options)
        totals = {name: totals.get(name, 0.0) + value for name, value in sums.items()}
    return language_model_scores(totals, annotation)


@pytest.mark.parametrize("options", [{}, {"predict_structures": True}], ids=["gold", "predicted"])
def test_scores_do_not_depend_on_batches(options):
    model = tiny_model()
    annotation = annotation_of(model.config)
    sums = language_model_sums(model, GraphCollator(1)(examples()), 7, annotation, **options)
    together = language_model_scores(sums, annotation)
    assert together == pytest.approx(scores_of(model, examples(), **options), rel=1e-4)


def literal_graph(model, row: dict) -> torch.Tensor:
    """Word by word: the arcs that the whole sentence's scores, given those found before, put first."""
    graph = torch.zeros(1, max(row["word_ids"]) + 1, max(row["word_ids"]) + 1, dtype=torch.bool)
    batch = GraphCollator(1)([row])
    for word in range(1, graph.shape[1]):
        outputs = model(**{**batch, "graph": graph, "tapes": None})
        count = int(outputs.count_logits[0, word - 1].argmax())
        pairs = [(float(outputs.arc_logits[0, j, word]), j, word) for j in range(word)]
        pairs += [(float(outputs.arc_logits[0, word, j]), word, j) for j in range(1, word)]
        for _, head, dependent in sorted(pairs, reverse=True)[:count]:
            graph[0, head, dependent] = True
    return graph


@pytest.mark.parametrize("predict_structures", [False, True], ids=["gold", "predicted"])
@torch.no_grad()
def test_scores_by_hand(predict_structures):
    model, rows = tiny_model(), examples()
    nats = tokens = correct = predicted = gold_arcs = right_counts = 0
    for row in rows:
        gold = GraphCollator(1)([row])["graph"]
        given = literal_graph(model, row) if predict_structures else gold
        ids = torch.tensor([row["input_ids"]])
        outputs = model(ids, word_ids=torch.tensor([row["word_ids"]]), graph=given, labels=ids)
        log_probs = outputs.logits[0, :-1].log_softmax(-1)
        nats -= float(log_probs.gather(1, ids[0, 1:, None]).sum())
        tokens += ids.shape[1] - 1
        found = set()
        for word in range(1, given.shape[1]):
            count = int(outputs.count_logits[0, word - 1].argmax())
            candidates = new_arcs(outputs.arc_logits, -torch.inf)[0, word]
            right_counts += count == int(new_arcs(gold)[0, word].sum())
            for place in candidates.flatten().topk(min(count, 2 * word - 1)).indices.tolist():
                direction, other = divmod(place, candidates.shape[1])
                found.add((other, word) if direction == 0 else (word, other))
        if predict_structures:
            assert found == {tuple(arc) for arc in given[0].nonzero().tolist()}
        correct += len(found & {tuple(arc) for arc in row["arcs"]})
        predicted, gold_arcs = predicted + len(found), gold_arcs + len(row["arcs"])
    scores = scores_of(model, rows, predict_structures=predict_structures)
    assert scores["perplexity"] == pytest.approx(math.exp(nats / tokens), rel=1e-4)
    assert scores["word_perplexity"] == pytest.approx(math.exp(nats / 9), rel=1e-4)  # 7 words, 2 ends
    assert correct > 0
    assert scores["arc_precision"] == pytest.approx(correct / predicted)
    assert scores["arc_recall"] == pytest.approx(correct / gold_arcs)
    assert scores["arc_f1"] == pytest.approx(2 * correct / (predicted + gold_arcs))
    assert scores["count_accuracy"] == pytest.approx(right_counts / 7)


def test_gold_graphs_have_no_part_in_the_perplexity_given_predicted_ones():
    model, other = tiny_model(), [[[0, 1]], [[3, 1], [0, 3]]]
    names = ("perplexity", "word_perplexity")
    for predicts in (True, False):
        first, second = (scores_of(model, examples(arcs), predict_structures=predicts) for arcs in (ARCS, other))
        assert all((first[name] == second[name]) is predicts for name in names)
        assert first["arc_f1"] != second["arc_f1"]


@pytest.mark.parametrize("kind", ["gilt", "gpt2"])
@torch.no_grad()
def test_plain_models_have_a_perplexity_alone(kind):
    model = tiny_model(graph_layers=0)
    if kind == "gpt2":
        model = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_embd=16, n_layer=1, n_head=2)).eval()
    rows = examples(arcs=None)
    nats = sum(float(model(ids, labels=ids).loss) * (ids.shape[1] - 1) for ids in inputs(rows))
    scores = scores_of(model, rows)
    assert set(scores) == {"perplexity", "word_perplexity"}
    assert scores["perplexity"] == pytest.approx(math.exp(nats / 11), rel=1e-5)


def inputs(rows: list[dict]) -> list[torch.Tensor]:
    return [torch.tensor([row["input_ids"]]) for row in rows]


def test_sentences_without_arcs():
    scores = scores_of(tiny_model(), examples([[], []]))
    assert not any(math.isnan(value) for value in scores.values())


@torch.no_grad()
def test_trees_given_and_predicted():
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "attachment_size": 8}
    model = PushdownLMForCausalLM(PushdownLMConfig(vocab_size=20, **sizes)).eval()
    rows = [
        {"input_ids": [2, 7, 9, 4, 12, 6, 3], "attachments": [0, 0, 1, 0, 0, 3, 6]},
        {"input_ids": [2, 8, 5, 3], "attachments": [0, 0, 1, 3]},
    ]
    predicted = model.beam_search(torch.tensor([rows[0]["input_ids"]])).attachments[0, 0].tolist()
    assert predicted != rows[0]["attachments"]
    annotation = annotation_of(model.config)
    collate = annotation.collator(1)
    batch = collate(rows)
    for predicts in (False, True):
        sums = language_model_sums(model, batch, 7, annotation, predicts)
        scores = language_model_scores(sums, annotation)
        alone = [collate([row]) for row in rows]
        right = chosen = 0
        for row, one in zip(rows, alone, strict=True):
            found = model.beam_search(one["input_ids"]).attachments[:, 0] if predicts else one["attachments"]
            logits = model(**{**one, "attachments": found}).attachment_logits[0]
            for place in range(2, len(row["input_ids"]) - 1):  # the first has no choice, nor has the end
                right += place - int(logits[place].argmax()) == row["attachments"][place]
                chosen += 1
        assert (sums["right_attachments"], sums["attachments"]) == (right, chosen) == (right, 5)
        assert scores["attachment_accuracy"] == right / chosen
        lm_loss = sum(
            model(**{**one, "attachments": model.beam_search(one["input_ids"]).attachments[:, 0]}).lm_loss * count
            if predicts
            else model(**one).lm_loss * count
            for one, count in zip(alone, (6, 3), strict=True)
        )
        assert scores["perplexity"] == pytest.approx(math.exp(float(lm_loss) / 9), rel=1e-4)
        assert "arc_f1" not in scores
