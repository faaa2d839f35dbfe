"""What is learned from a teacher, against sums over single words."""

import math

import pytest
import torch
from datasets import Dataset
from scipy.special import log_softmax, softmax
from torch.testing import assert_close
from transformers import TrainingArguments

from hf_structure import ParsingCollator, RNGTransformerConfig, RNGTransformerForParsing
from hf_structure.corpora.collators import TEACHER
from hf_structure.training.distillation import Teacher, soft_cross_entropy
from hf_structure.training.trainers.parsing import ParsingTrainer

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
SIZES |= {"max_position_embeddings": 24, "arc_size": 16, "label_size": 8, "column_size": 8, "num_graph_layers": 1}
TAGS = ["ADJ", "NOUN", "VERB"]


def parser(
    seed: int, labels=("det", "nsubj", "root"), columns=None, scale=8.0, **settings
) -> RNGTransformerForParsing:
    torch.manual_seed(seed)
    columns = {"upos": TAGS} if columns is None else columns
    settings = {"vocab_size": 12, "num_rounds": 1, "columns": columns, "unk_token_id": 0} | settings
    config = RNGTransformerConfig(id2label=dict(enumerate(labels)), labelled=True, **SIZES, **settings)
    model = RNGTransformerForParsing(config).eval()
    for parameter in model.parameters():
        parameter.data.mul_(scale)  # by default a parser with opinions
    return model


def sentences(number: int = 6) -> list[dict]:
    """Random trees; the teacher reads other ids than the parser, two pieces a word."""
    generator = torch.Generator().manual_seed(0)
    rows = []
    for n in torch.randint(1, 7, (number,), generator=generator).tolist():
        ids = torch.randint(2, 12, (n,), generator=generator).tolist()
        heads = list(range(n))
        row = {"input_ids": ids, "heads": heads, "labels": [head % 3 for head in heads], "upos": [1] * n, "length": n}
        row |= {f"{TEACHER}input_ids": [13 - piece for piece in ids for _ in range(2)]}
        rows.append(row | {f"{TEACHER}word_ids": [word for word in range(n) for _ in range(2)]})
    return rows


def collate(rows: list[dict]) -> tuple[dict, dict]:
    batch = ParsingCollator(1, predicted=("upos",))(rows)
    return batch, batch.pop("teacher")


def test_soft_cross_entropy_is_that_of_single_rows():
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    scores[0, 2] = -math.inf
    probs = scores.flip(0).softmax(-1).flip(0).masked_fill(scores == -math.inf, 0.0)
    expected = 0.0
    for row, chances in zip(scores.tolist(), probs.tolist(), strict=True):
        logs = log_softmax(row)
        expected -= sum(p * q for p, q in zip(chances, logs, strict=True) if p)
    scores.requires_grad_(True)
    loss = soft_cross_entropy(scores, probs)
    loss.backward()
    assert loss.item() == pytest.approx(expected)
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    certain = torch.nn.functional.one_hot(torch.tensor([3, 1, 0, 2, 1]), 4).double()
    expected = torch.nn.functional.cross_entropy(scores, certain.argmax(1), reduction="sum")
    assert_close(soft_cross_entropy(scores, certain), expected)


def test_loss_is_the_sum_over_single_words():
    """Of a teacher with other labels and tags, in another order."""
    learner = parser(0)
    model = parser(1, labels=("root", "obj", "det"), columns={"upos": ["VERB", "X", "ADJ"]}, word_vectors="mean")
    teacher = Teacher(model, learner.config)
    expected = 0.0
    for row in sentences():
        batch, read = collate([row])
        with torch.no_grad():
            given, advice = learner(**batch), model(**read)
        n = len(row["heads"])
        for word in range(n):
            arcs = zip(softmax(advice.logits[0, word]), log_softmax(given.logits[0, word]), strict=True)
            expected -= sum(p * q for p, q in arcs if p > 0)
            ours, theirs = learner.config.id2label.values(), list(model.config.id2label.values())
            log_probs, probs = log_softmax(given.label_logits[0, word]), softmax(advice.label_logits[0, word])
            expected -= sum(
                probs[theirs.index(label)] * log_prob
                for label, log_prob in zip(ours, log_probs, strict=True)
                if label in theirs
            )
            log_probs, probs = (
                log_softmax(given.column_logits["upos"][0, word]),
                softmax(advice.column_logits["upos"][0, word]),
            )
            expected -= probs[2] * log_probs[0] + probs[0] * log_probs[2]
    batch, read = collate(sentences())
    assert teacher.loss(learner(**batch), read).item() == pytest.approx(float(expected), rel=1e-4)
    twice = Teacher(model, learner.config, weight=2.0)
    assert twice.loss(learner(**batch), read).item() == pytest.approx(2 * float(expected), rel=1e-4)


def test_running_text_is_not_taught():
    learner = parser(0, num_segmentation_layers=1)
    model = parser(1, word_vectors="mean")
    teacher = Teacher(model, learner.config)
    batch, read = collate(sentences())
    expected = teacher.loss(learner(**batch), read)
    text = {"input_ids": [3] * 20, "heads": [-1] * 20, "labels": [-100] * 20, "sentence_starts": [0, 1] * 10}
    batch, read = collate([sentences()[0], text, *sentences()[1:]])
    assert batch["input_ids"].shape == (7, 20)
    assert read["input_ids"].shape[0] == 6
    assert_close(teacher.loss(learner(**batch), read), expected)
    assert "teacher" not in ParsingCollator(1)([text])


def test_only_the_learner_gets_gradients():
    learner = parser(0)
    model = parser(1, word_vectors="mean")
    batch, read = collate(sentences())
    Teacher(model, learner.config).loss(learner(**batch), read).backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    moved = [name for name, parameter in learner.named_parameters() if parameter.grad is not None]
    assert {"decoder.arc.weight", "decoder.label.weight", "tagger.columns.upos.weight"} <= {*moved}


def test_columns_are_those_of_both():
    learner = parser(0, columns={"upos": TAGS, "lemma": ["a", "b"]})
    both = parser(1, columns={"lemma": ["b"], "upos": TAGS, "xpos": ["NN"]})
    assert [*Teacher(both, learner.config).columns] == ["upos", "lemma"]
    assert [*Teacher(both, learner.config, ["upos"]).columns] == ["upos"]
    assert not Teacher(both, learner.config, []).columns
    with pytest.raises(ValueError, match="do not both predict feats, xpos"):
        Teacher(both, learner.config, ["upos", "xpos", "feats"])


def trained(tmp_path, rows, teacher, learner) -> RNGTransformerForParsing:
    settings = {"num_train_epochs": 80, "learning_rate": 0.02, "use_cpu": True, "report_to": "none"}
    args = TrainingArguments(tmp_path, save_strategy="no", **settings)
    collator = ParsingCollator(1, predicted=("upos",))
    ParsingTrainer(
        model=learner, args=args, train_dataset=Dataset.from_list(rows), data_collator=collator, teacher=teacher
    ).train()
    return learner.eval()


def test_tags_are_learned_from_the_teacher_alone(tmp_path):
    """No sentence has tags of its own."""
    rows = [row | {"upos": [-100] * row["length"]} for row in sentences(24)]
    model = parser(1, columns={"upos": TAGS[::-1]}, word_vectors="mean")
    calm = {"hidden_dropout": 0.0, "attention_dropout": 0.0, "decoder_dropout": 0.0}
    learner = trained(tmp_path, rows, Teacher(model, parser(0).config), parser(0, scale=1.0, **calm))
    batch, read = collate(rows)
    given, advice = learner(**batch), model(**read)
    is_word = batch["heads"] >= 0
    told = 2 - advice.column_logits["upos"].argmax(-1)
    assert (told != told[0, 0])[is_word].any()
    same = (given.column_logits["upos"].argmax(-1) == told)[is_word]
    assert same.double().mean() > 0.9
