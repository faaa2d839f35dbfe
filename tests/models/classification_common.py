"""The battery that the classifiers of sentences and words stand, of every family that has them."""

import itertools

import pytest
import torch
from modeling_common import FILLER, without_gradient
from safetensors import safe_open
from torch.nn.functional import cross_entropy, elu, mse_loss
from torch.testing import assert_close
from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedConfig,
    PreTrainedModel,
    Trainer,
    TrainingArguments,
)

SENTENCES = [[4, 9, 7, 12, 3], [8, 8, 11], [20], [5, 6, 21, 13]]
PAIRS = [(0, 1), (2, 3), (3, 3)]  # of sentences
KINDS = [None, "symmetric", "ordered"]
three_kinds = pytest.mark.parametrize("kind", KINDS, ids=["single", "symmetric", "ordered"])
PROBLEMS = {
    "regression": ({"num_labels": 1}, lambda n: torch.arange(n) / 2.0),
    "regressions": ({"num_labels": 2, "problem_type": "regression"}, lambda n: torch.arange(2.0 * n).view(n, 2) / 3),
    "classes": ({"num_labels": 3}, lambda n: torch.arange(n) % 3),
    "several_classes": (
        {"num_labels": 2, "problem_type": "multi_label_classification"},
        lambda n: (torch.arange(2 * n).view(n, 2) % 3 == 0).float(),
    ),
}


def pad(rows: list[list[int]], value: int, side: str) -> torch.Tensor:
    longest = max(map(len, rows))
    filled = [[value] * (longest - len(row)) for row in rows]
    padded = [row + rest if side == "right" else rest + row for row, rest in zip(rows, filled, strict=True)]
    return torch.tensor(padded)


def batch_of(texts: list[tuple[list[int], ...]], side: str = "right") -> dict[str, torch.Tensor]:
    """A padded batch of texts, each of one sentence or two."""
    joined = [list(itertools.chain(*text)) for text in texts]
    kinds = [[number for number, sentence in enumerate(text) for _ in sentence] for text in texts]
    batch = {
        "input_ids": pad(joined, FILLER, side),
        "attention_mask": pad([[1] * len(row) for row in joined], 0, side),
    }
    return batch | ({"token_type_ids": pad(kinds, 0, side)} if len(texts[0]) > 1 else {})


def texts_of(kind: str | None) -> list[tuple[list[int], ...]]:
    if kind is None:
        return [(sentence,) for sentence in SENTENCES]
    return [(SENTENCES[one], SENTENCES[other]) for one, other in PAIRS]


class ClassificationBattery:
    """
    Attributes:
        lm_class, sequence_class, token_class: The masked language model, and the classes under test.
        dropout: Settings that turn every dropout of the family on; `config()` has them all off.
        parser: How the names of the parser's parameters begin in the base model, if it has one.
        without_effect: Names of the parameters on which nothing depends.
    """

    lm_class: type[PreTrainedModel]
    sequence_class: type[PreTrainedModel]
    token_class: type[PreTrainedModel]
    dropout: dict[str, float]
    parser: str | None = "parser."
    without_effect: tuple[str, ...] = ()

    def config(self, **settings) -> PreTrainedConfig:
        """A tiny configuration without dropout."""
        raise NotImplementedError

    def model(self, model_class: type[PreTrainedModel] | None = None, **settings) -> PreTrainedModel:
        """A model whose words differ from each other more than at the beginning of a training."""
        torch.manual_seed(0)
        model = (model_class or self.sequence_class)(self.config(**settings)).eval()
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding):
                torch.nn.init.normal_(module.weight)
        return model

    # What is computed

    @three_kinds
    @torch.no_grad()
    def test_is_a_layer_over_means(self, kind):
        model = self.model(pair_features=kind, num_labels=3)
        logits = model(**batch_of(texts_of(kind))).logits
        head = model.classifier
        for row, text in zip(logits, texts_of(kind), strict=True):
            means = [model.base_model(torch.tensor([words])).last_hidden_state[0].mean(0) for words in text]
            features = means
            if kind is not None:
                u, v = means
                features = [*(means if kind == "ordered" else []), (u - v).abs(), u * v]
            hidden = elu(head.dense.weight @ torch.cat(features) + head.dense.bias)
            assert_close(row, head.output.weight @ hidden + head.output.bias, atol=1e-5, rtol=1e-4)

    @three_kinds
    @pytest.mark.parametrize("side", ["right", "left"])
    @torch.no_grad()
    def test_padding_and_company_change_nothing(self, kind, side):
        model = self.model(pair_features=kind)
        alone = torch.cat([model(**batch_of([text])).logits for text in texts_of(kind)])
        assert_close(model(**batch_of(texts_of(kind), side)).logits, alone, atol=1e-5, rtol=1e-4)
        assert alone.std(0).min() > 1e-3  # or it would be easy

    @torch.no_grad()
    def test_order_matters_where_it_is_to(self):
        swapped = [text[::-1] for text in texts_of("ordered")]
        for kind in ("symmetric", "ordered"):
            model = self.model(pair_features=kind)
            one, other = (model(**batch_of(texts)).logits for texts in (texts_of(kind), swapped))
            assert torch.allclose(one, other, atol=1e-5) == (kind == "symmetric")

    @torch.no_grad()
    def test_the_sentences_of_a_pair_may_alternate(self):
        model, batch = self.model(pair_features="ordered"), batch_of([(SENTENCES[0], SENTENCES[1])])
        order = torch.tensor([0, 5, 1, 2, 6, 3, 7, 4])
        mixed = {name: values[:, order] for name, values in batch.items()}
        assert_close(model(**mixed).logits, model(**batch).logits, atol=1e-5, rtol=1e-4)

    def test_half_a_pair_is_refused(self):
        model, batch = self.model(pair_features="symmetric"), batch_of(texts_of(None))
        with pytest.raises(ValueError, match="token_type_ids say which words are of the second sentence"):
            model(**batch)
        with pytest.raises(ValueError, match="each has words of token_type_ids 0 and of 1"):
            model(**batch, token_type_ids=torch.zeros_like(batch["input_ids"]))

    def vectors(self, model: PreTrainedModel, input_ids: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"inputs_embeds": model.get_input_embeddings()(input_ids)}

    @three_kinds
    @torch.no_grad()
    def test_vectors_of_words_stand_for_them(self, kind):
        model, batch = self.model(pair_features=kind), batch_of(texts_of(kind), "left")
        expected = model(**batch).logits
        vectors = self.vectors(model, batch.pop("input_ids"))
        assert_close(model(**vectors, **batch).logits, expected, rtol=0, atol=0)

    def test_other_outputs(self):
        model, batch = self.model(), batch_of(texts_of(None))
        assert set(model(**batch)) == {"logits"}
        outputs = model(**batch, output_hidden_states=True, output_attentions=True)
        assert len(outputs.hidden_states) == len(outputs.attentions) + 1 == model.config.num_hidden_layers + 1
        assert_close(model(**batch, return_dict=False)[0], outputs.logits)
        without = {name: value for name, value in batch.items() if name != "attention_mask"}
        assert_close(model(**batch | {"attention_mask": torch.ones_like(batch["input_ids"])}), model(**without))

    # Losses

    @pytest.mark.parametrize("problem", PROBLEMS)
    @three_kinds
    def test_losses_are_the_textbooks(self, problem, kind):
        settings, make = PROBLEMS[problem]
        model, batch = self.model(pair_features=kind, **settings), batch_of(texts_of(kind))
        labels = make(len(texts_of(kind)))
        outputs = model(**batch, labels=labels)
        x = outputs.logits
        if problem == "classes":
            expected = -x.log_softmax(1)[torch.arange(len(x)), labels].mean()
        elif problem == "several_classes":
            expected = -(labels * x.sigmoid().log() + (1 - labels) * (1 - x.sigmoid()).log()).mean()
        else:
            expected = mse_loss(x.view(labels.shape), labels)
        assert_close(outputs.loss, expected)
        assert_close(model(**batch, labels=labels, num_items_in_batch=labels.numel() * 4).loss, outputs.loss / 4)

    def test_loss_of_words(self):
        model, batch = self.model(self.token_class, num_labels=3), batch_of(texts_of(None), "left")
        labels = (batch["input_ids"] % 3).masked_fill(batch["attention_mask"] == 0, -100)
        outputs = model(**batch, labels=labels)
        assert outputs.logits.shape == (*labels.shape, 3)
        assert_close(outputs.loss, cross_entropy(outputs.logits.flatten(0, 1), labels.flatten()))
        counted = int((labels >= 0).sum())
        assert_close(model(**batch, labels=labels, num_items_in_batch=2 * counted).loss, outputs.loss / 2)
        state = model.base_model(torch.tensor([SENTENCES[1]])).last_hidden_state[0]
        expected = state @ model.classifier.weight.T + model.classifier.bias
        assert_close(outputs.logits[1][batch["attention_mask"][1].bool()], expected, atol=1e-5, rtol=1e-4)
        assert_close(model(**self.vectors(model, batch.pop("input_ids")), **batch).logits, outputs.logits)

    # Training

    @pytest.mark.parametrize("name", ["sequence_class", "token_class"])
    def test_gradient_reaches_every_parameter(self, name):
        model = self.model(getattr(self, name), num_labels=2, **self.dropout)
        batch = batch_of(texts_of(None))
        labels = batch["input_ids"] % 2 if name == "token_class" else torch.tensor([1, 0, 1, 0])
        assert without_gradient(model, batch | {"labels": labels}) == self.without_effect

    def test_dropout_is_of_training_alone(self):
        model, batch = self.model(**self.dropout), batch_of(texts_of(None))
        assert_close(model(**batch).logits, model(**batch).logits, rtol=0, atol=0)
        assert not torch.allclose(model.train()(**batch).logits, model(**batch).logits)

    def test_bfloat16(self):
        model, batch = self.model(pair_features="symmetric"), batch_of(texts_of("symmetric"))
        expected = model(**batch).logits
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert_close(model(**batch).logits.float(), expected, atol=0.05, rtol=0.05)
        outputs = model.bfloat16()(**batch).logits
        assert outputs.dtype == torch.bfloat16
        assert_close(outputs.float(), expected, atol=0.05, rtol=0.05)

    def test_plain_trainer_learns_pairs(self, tmp_path):
        rows = batch_of([(SENTENCES[i], SENTENCES[j]) for i in range(4) for j in range(4)])
        rows["labels"] = torch.tensor([float(i == j) for i in range(4) for j in range(4)])
        examples = [{name: values[i] for name, values in rows.items()} for i in range(16)]
        arguments = TrainingArguments(
            output_dir=str(tmp_path), max_steps=25, per_device_train_batch_size=16, learning_rate=0.01, use_cpu=True,
            report_to="none", disable_tqdm=True, save_strategy="no",
        )  # fmt: skip
        model = self.model(pair_features="symmetric", num_labels=1)
        trainer = Trainer(model=model, args=arguments, train_dataset=examples, eval_dataset=examples)
        before = trainer.evaluate()["eval_loss"]
        trainer.train()
        assert trainer.evaluate()["eval_loss"] < 0.5 * before

    # Saving and loading

    @pytest.mark.parametrize("name", ["sequence_class", "token_class"])
    def test_only_the_head_is_new_after_a_language_model(self, name, tmp_path):
        lm = self.model(self.lm_class)
        lm.save_pretrained(tmp_path)
        auto = {
            "sequence_class": AutoModelForSequenceClassification,
            "token_class": AutoModelForTokenClassification,
        }[name]
        model, info = auto.from_pretrained(tmp_path, num_labels=3, output_loading_info=True)
        assert type(model) is getattr(self, name)
        assert info["missing_keys"]
        assert all(key.startswith("classifier.") for key in info["missing_keys"])
        assert not info["unexpected_keys"]
        assert_close(model.base_model.state_dict(), lm.base_model.state_dict(), rtol=0, atol=0)

    def test_save_and_load(self, tmp_path):
        model = self.model(pair_features="ordered", num_labels=1, problem_type="regression")
        model.half().save_pretrained(tmp_path)
        with safe_open(tmp_path / "model.safetensors", "pt") as file:
            assert {file.get_tensor(name).dtype for name in file.keys()} == {torch.float16}  # noqa: SIM118
        load = AutoModelForSequenceClassification.from_pretrained
        loaded, info = load(tmp_path, output_loading_info=True, dtype=torch.float32)
        assert not any(info.values()), info
        assert type(loaded) is self.sequence_class
        assert (loaded.config.num_labels, loaded.config.pair_features) == (1, "ordered")
        batch = batch_of(texts_of("ordered"))
        assert_close(loaded(**batch).logits, model.float()(**batch).logits)

    @torch.no_grad()
    def test_a_classifier_parses_as_its_language_model(self, tmp_path):
        if self.parser is None:
            return
        lm = self.model(self.lm_class)
        lm.save_pretrained(tmp_path)
        classifier = self.sequence_class.from_pretrained(tmp_path)
        ids = torch.tensor([SENTENCES[0]])
        assert_close(classifier.decode(ids).heads, lm.decode(ids).heads)
