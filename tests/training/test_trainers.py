import json
import math
import re
import shutil
from collections import Counter
from random import Random

import pytest
import torch
from datasets import Dataset
from torch.nn.utils.rnn import pad_sequence
from torch.testing import assert_close
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel, TrainerState, TrainingArguments

from hf_structure import (
    G2GTransformerConfig,
    G2GTransformerForParsing,
    MaskedWordCollator,
    ParsingCollator,
    StructFormerConfig,
    StructFormerForMaskedLM,
    UDGNConfig,
    UDGNForMaskedLM,
    parse,
)
from hf_structure.corpora.batching import TokenBudgetBatchSampler, token_budget_batches
from hf_structure.metrics.attachment import attachment_scores
from hf_structure.metrics.constituency import unlabeled_f1
from hf_structure.text.tokenization import encode
from hf_structure.training.scripts import last_complete_checkpoint
from hf_structure.training.trainers.masked_lm import MaskedLMTrainer
from hf_structure.training.trainers.parsing import ParsingTrainer
from hf_structure.training.trainers.scoring import set_learning_rate
from hf_structure.training.trainers.structured_lm import StructuredLMTrainer
from hf_structure.training.trainers.token_budget import TokenBudgetTrainer

VOCABULARY, SPECIAL = 20, (0, 1, 2)


def tiny_model(dropout: float = 0.0) -> UDGNForMaskedLM:
    torch.manual_seed(0)
    config = UDGNConfig(
        vocab_size=VOCABULARY,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        parser_num_layers=1,
        hidden_dropout=dropout,
        parser_dropout=dropout,
        head_dropout=dropout,
    )
    model = UDGNForMaskedLM(config)
    torch.nn.init.normal_(model.udgn.parser.embeddings.weight)  # a parser that prefers some heads to others
    return model


def sentences(number: int = 12, heads: bool = False) -> Dataset:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(2, 9, (number,), generator=generator).tolist()
    columns = {
        "input_ids": [torch.randint(3, VOCABULARY, (n,), generator=generator).tolist() for n in lengths],
        "length": lengths,
    }
    if heads:
        columns["heads"] = [list(range(n)) for n in lengths]  # every word hangs on its left neighbour
    return Dataset.from_dict(columns)


class RecordingCollator(MaskedWordCollator):
    """Masks, and keeps the batches it has seen with the epoch it was told."""

    def __call__(self, examples):
        if not hasattr(self, "seen"):
            self.seen = []
        self.seen.append((self.epoch, [tuple(example["input_ids"]) for example in examples]))
        return super().__call__(examples)


def masker(cls=MaskedWordCollator, **settings) -> MaskedWordCollator:
    return cls(1, 2, SPECIAL, **settings)


def arguments(folder, **settings) -> TrainingArguments:
    common = {"save_strategy": "no", "report_to": "none", "disable_tqdm": True, "use_cpu": True, "logging_steps": 1}
    return TrainingArguments(output_dir=str(folder), **(common | settings))


# Batches


def test_every_epoch_gives_every_sentence_once_under_the_budget(tmp_path):
    collator, dataset = masker(RecordingCollator), sentences(30)
    trainer = TokenBudgetTrainer(
        model=tiny_model(),
        args=arguments(tmp_path, num_train_epochs=3, learning_rate=0.0),
        train_dataset=dataset,
        data_collator=collator,
        max_tokens=24,
    )
    trainer.train()
    epochs = [[batch for epoch, batch in collator.seen if epoch == number] for number in range(3)]
    assert sum(map(len, epochs)) == len(collator.seen) == trainer.state.global_step
    everything = Counter(tuple(ids) for ids in dataset["input_ids"])
    for batches in epochs:
        assert Counter(ids for batch in batches for ids in batch) == everything
        assert all(len(batch) * max(map(len, batch)) <= 24 for batch in batches)
    assert len({frozenset(map(frozenset, batches)) for batches in epochs}) == 3


@pytest.mark.parametrize("max_tokens", [20, 40, 1000])
def test_accumulated_gradient_does_not_depend_on_the_budget(tmp_path, max_tokens):
    """A step over all batches of an epoch is a step with the gradient of the whole text."""
    dataset = sentences()
    labels = [[-100 if i % (1 + len(ids) % 3) else w for i, w in enumerate(ids)] for ids in dataset["input_ids"]]
    dataset = dataset.add_column("labels", labels)

    def collate(examples: list[dict]) -> dict[str, torch.Tensor]:
        def padded(name: str, value: int) -> torch.Tensor:
            return pad_sequence([torch.tensor(e[name]) for e in examples], batch_first=True, padding_value=value)

        ids = padded("input_ids", 1)
        return {"input_ids": ids, "attention_mask": (ids != 1).long(), "labels": padded("labels", -100)}

    model = tiny_model()
    model(**collate(list(dataset))).loss.backward()
    expected = {name: (p - p.grad).detach() for name, p in model.named_parameters()}

    batches = len(TokenBudgetBatchSampler(dataset["length"], max_tokens))
    settings = {"max_grad_norm": 0.0, "optim": "sgd", "learning_rate": 1.0, "lr_scheduler_type": "constant"}
    trainer = TokenBudgetTrainer(
        model=tiny_model(),
        args=arguments(tmp_path, max_steps=1, gradient_accumulation_steps=batches, **settings),
        train_dataset=dataset,
        data_collator=collate,
        max_tokens=max_tokens,
    )
    trainer.train()
    assert_close({n: p.detach() for n, p in trainer.model.named_parameters()}, expected, atol=1e-5, rtol=1e-4)


# Parsers


def tiny_parser(**settings) -> G2GTransformerForParsing:
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    sizes |= {"classifier_hidden_size": 8, "history_size": 4, "id2label": {0: "a", 1: "b"}, "vocab_size": VOCABULARY}
    dropout = {"hidden_dropout": 0.0, "attention_dropout": 0.0, "classifier_dropout": 0.0}
    model = G2GTransformerForParsing(G2GTransformerConfig(unk_token_id=0, **sizes, **dropout, **settings))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def trees(number: int = 12) -> Dataset:
    """Words of every third sentence have no known label, and every other word is punctuation."""
    dataset = sentences(number, heads=True)
    labels = [[-100 if i % 3 == 2 else (i + k) % 2 for k in range(n)] for i, n in enumerate(dataset["length"])]
    dataset = dataset.add_column("labels", labels)
    return dataset.add_column("punctuation", [[bool(k % 2) for k in range(n)] for n in dataset["length"]])


@pytest.mark.parametrize("labelled", [True, False], ids=["labelled", "unlabelled"])
def test_accumulated_gradient_of_a_parser(tmp_path, labelled):
    dataset, model, collator = trees(), tiny_parser(labelled=labelled), ParsingCollator(1)
    if not labelled:
        labels = [[0] * n for n in dataset["length"]]
        dataset = dataset.remove_columns("labels").add_column("labels", labels)
    model(**collator(list(dataset))).loss.backward()
    expected = {name: (p - p.grad).detach() for name, p in model.named_parameters()}
    settings = {"max_grad_norm": 0.0, "optim": "sgd", "learning_rate": 1.0, "lr_scheduler_type": "constant"}
    batches = len(TokenBudgetBatchSampler(dataset["length"], 20))
    assert batches > 2
    trainer = ParsingTrainer(
        model=tiny_parser(labelled=labelled),
        args=arguments(tmp_path, max_steps=1, gradient_accumulation_steps=batches, **settings),
        train_dataset=dataset,
        data_collator=collator,
        max_tokens=20,
    )
    trainer.train()
    assert_close({n: p.detach() for n, p in trainer.model.named_parameters()}, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "labelled", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["labelled", "unlabelled"]
)
def test_evaluation_of_a_parser(tmp_path, labelled):
    model, dataset = tiny_parser(labelled=labelled), trees(30)
    trainer = ParsingTrainer(
        model=model, args=arguments(tmp_path), eval_dataset=dataset, data_collator=ParsingCollator(1), max_tokens=40
    )
    scores = trainer.evaluate()
    heads, labels = [], []
    for ids in dataset["input_ids"]:
        decoded = model.decode(torch.tensor([ids]))
        heads += decoded.heads[0].tolist()
        labels += decoded.columns["labels"][0].tolist() if labelled else [[0] * len(ids)]
    for suffix, punctuation in (("", None), ("_no_punct", dataset["punctuation"])):
        keep = punctuation and [[not mark for mark in row] for row in punctuation]
        expected = attachment_scores(heads, dataset["heads"], labels, dataset["labels"], keep=keep)
        assert 0 < expected.las < expected.uas
        assert scores[f"eval_uas{suffix}"] == pytest.approx(expected.uas)
        if labelled:
            assert scores[f"eval_las{suffix}"] == pytest.approx(expected.las)
        else:
            assert f"eval_las{suffix}" not in scores


def test_set_learning_rate():
    weights = [torch.nn.Parameter(torch.ones(1)) for _ in range(4)]
    groups = [{"params": weights[:2], "weight_decay": 0.5}, {"params": weights[2:3]}, {"params": weights[3:]}]
    optimizer = torch.optim.SGD(groups, lr=1.0)
    set_learning_rate(optimizer, weights[1:3], 10.0)
    found = {id(p): (group["lr"], group["weight_decay"]) for group in optimizer.param_groups for p in group["params"]}
    assert [found[id(p)] for p in weights] == [(1.0, 0.5), (10.0, 0.5), (10.0, 0), (1.0, 0)]
    assert all(group["params"] for group in optimizer.param_groups)
    for weight in weights:
        weight.grad = torch.ones(1)
    optimizer.step()
    assert [weight.item() for weight in weights] == [1 - 1.5, 1 - 15, 1 - 10, 0]


# Evaluation


def evaluator(folder, **settings) -> MaskedLMTrainer:
    options = {"eval_dataset": sentences(heads=True), "data_collator": masker(), "max_tokens": 24, "num_maskings": 3}
    return MaskedLMTrainer(model=tiny_model(dropout=0.5), args=arguments(folder), **(options | settings))


def test_evaluation_loss_is_the_mean_over_maskings(tmp_path):
    trainer = evaluator(tmp_path)
    dataset, model = trainer.eval_dataset, tiny_model().eval()
    losses = []
    for masking in range(3):
        total, count = 0.0, 0
        for batch in token_budget_batches(dataset["length"], 24):
            collator = masker()
            collator.set_epoch(masking)
            inputs = collator([dataset[i] for i in batch])
            labels = inputs.pop("labels")
            log_probs = model(**inputs).logits.log_softmax(-1)
            for row, word in (labels != -100).nonzero().tolist():
                total -= log_probs[row, word, labels[row, word]].item()
                count += 1
        losses.append(total / count)
    metrics = trainer.evaluate()
    assert len(set(losses)) == 3
    assert metrics["eval_loss"] == pytest.approx(sum(losses) / 3, abs=1e-5)
    assert metrics["eval_perplexity"] == pytest.approx(math.exp(sum(losses) / 3), rel=1e-5)


def test_evaluation_of_trees(tmp_path):
    metrics = evaluator(tmp_path).evaluate(metric_key_prefix="test")
    model, dataset = tiny_model().eval(), sentences(heads=True)
    for decoder, suffix in (("tree", ""), ("argmax", "_argmax")):
        words = right = right_pairs = 0
        for example in dataset:
            heads = model.decode(torch.tensor([example["input_ids"]]), decoder=decoder).heads[0, 0].tolist()
            right += sum(head == gold for head, gold in zip(heads, example["heads"], strict=True))
            pairs = ({frozenset({i, head or i}) for i, head in enumerate(hs, 1)} for hs in (heads, example["heads"]))
            right_pairs += len(set.intersection(*pairs))
            words += len(heads)
        assert metrics[f"test_uas{suffix}"] == pytest.approx(right / words)
        assert metrics[f"test_uuas{suffix}"] == pytest.approx(right_pairs / words)
    assert metrics["test_uuas"] != metrics["test_uuas_argmax"]


@pytest.mark.parametrize("disable_tqdm", [True, False], ids=["printed", "progress"])
def test_shares_are_printed_in_percent(tmp_path, capsys, disable_tqdm):
    trainer = MaskedLMTrainer(
        model=tiny_model(),
        args=arguments(tmp_path, disable_tqdm=disable_tqdm, max_steps=1, eval_strategy="steps", eval_steps=1),
        train_dataset=sentences(4),
        eval_dataset=sentences(4, heads=True),
        data_collator=masker(),
        num_maskings=1,
    )
    trainer.train()
    [logged] = [entry for entry in trainer.state.log_history if "eval_uuas" in entry]
    printed = re.search(r"'eval_uuas': '?([0-9.]+)", "".join(capsys.readouterr()))[1]
    assert 0 < logged["eval_uuas"] <= 1
    assert float(printed) == pytest.approx(100 * logged["eval_uuas"], abs=0.05)
    trainer.log_metrics("eval", {"eval_sentence_starts_f1": 0.5, "eval_upos": 0.25, "eval_loss": 0.75})
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert {name: float(value) for name, _, value in lines} == {
        "eval_loss": 0.75,
        "eval_sentence_starts_f1": 50.0,
        "eval_upos": 25.0,
    }


def test_evaluation_without_trees(tmp_path):
    metrics = evaluator(tmp_path, eval_dataset=sentences()).evaluate()
    assert {"eval_loss", "eval_perplexity"} <= set(metrics)
    assert not any("uas" in name for name in metrics)


def test_evaluation_changes_nothing(tmp_path):
    trainer = evaluator(tmp_path)
    trainer.data_collator.set_epoch(7)
    state = torch.get_rng_state()
    for training in (True, False):
        trainer.model.train(training)
        first, second = trainer.evaluate(), trainer.evaluate()
        assert first["eval_loss"] == second["eval_loss"]
        assert trainer.model.training is training
    assert trainer.data_collator.epoch == 7
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("as_argument", [True, False], ids=["argument", "attribute"])
def test_evaluation_of_several_sets(tmp_path, as_argument):
    """As in transformers: each set is evaluated alone, and its name stands before those of its metrics."""
    sets = {"a": trees(30), "b": trees(6)}
    settings = {"model": tiny_parser(), "args": arguments(tmp_path), "data_collator": ParsingCollator(1)}
    trainer = ParsingTrainer(**settings, eval_dataset=sets)
    together = trainer.evaluate(sets, metric_key_prefix="test") if as_argument else trainer.evaluate()
    kind = "test" if as_argument else "eval"
    for name, dataset in sets.items():
        alone = trainer.evaluate(dataset)
        for score in ("uas", "las", "uas_no_punct", "las_no_punct"):
            assert together[f"{kind}_{name}_{score}"] == alone[f"eval_{score}"]
    assert f"{kind}_uas" not in together


def test_tables_of_several_sets(tmp_path):
    """The second set is of one treebank: it has no table, nor have both together."""
    several = trees(6).add_column("treebank", ["x", "y"] * 3)
    trainer = ParsingTrainer(
        model=tiny_parser(),
        args=arguments(tmp_path),
        eval_dataset={"a": several, "b": trees(6)},
        data_collator=ParsingCollator(1),
    )
    metrics = trainer.evaluate()
    assert [path.name for path in tmp_path.glob("*.md")] == ["eval_a_treebanks.md"]
    assert "eval_a_mean_uas" in metrics
    assert "eval_b_mean_uas" not in metrics


@pytest.mark.parametrize("metric", ["b_loss", "eval_b_loss"])
def test_best_checkpoint_by_one_of_several_sets(tmp_path, metric):
    trainer = MaskedLMTrainer(
        model=tiny_model(),
        args=arguments(tmp_path, max_steps=2, eval_strategy="steps", metric_for_best_model=metric),
        train_dataset=sentences(),
        eval_dataset={"a": sentences(5, heads=True), "b": sentences(4)},
        data_collator=masker(),
    )
    trainer.train()
    logged = [name for entry in trainer.state.log_history for name in entry if name.endswith("_loss")]
    assert logged == ["eval_a_loss", "eval_b_loss", "eval_a_loss", "eval_b_loss", "train_loss"]


def test_best_metric_of_no_set(tmp_path):
    trainer = MaskedLMTrainer(
        model=tiny_model(),
        args=arguments(tmp_path, max_steps=1, eval_strategy="steps", metric_for_best_model="loss"),
        train_dataset=sentences(),
        eval_dataset={"a": sentences(5), "b": sentences(4)},
        data_collator=masker(),
    )
    with pytest.raises(ValueError, match=r"metric_for_best_model loss: evaluation gives a_loss.* b_loss"):
        trainer.train()


def test_evaluation_without_a_set(tmp_path):
    with pytest.raises(ValueError, match="there is nothing to evaluate: give eval_dataset"):
        evaluator(tmp_path, eval_dataset=None).evaluate()


@pytest.mark.parametrize("name", ["compute_metrics", "preprocess_logits_for_metrics"])
def test_metrics_of_predictions_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=f"{name} has no effect on MaskedLMTrainer: .* the method `scores`"):
        evaluator(tmp_path, **{name: lambda *_: {}})


@pytest.mark.parametrize(("step", "is_own"), [(0, False), (1, True)], ids=["first_phase", "second_phase"])
def test_own_loss_of_a_language_model(tmp_path, step, is_own):
    """In a first phase the loss is that of language modelling alone."""

    def own(outputs, labels, num_items_in_batch):
        return outputs.logits.sum() * 0 + 7

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_embd=8, n_layer=1, n_head=2, n_positions=8))
    trainer = StructuredLMTrainer(model=model, args=arguments(tmp_path), compute_loss_func=own)
    trainer.lm_only_steps = 1
    trainer.state.global_step = step
    ids = torch.tensor([[3, 4, 5]])
    loss = trainer.compute_loss(model, {"input_ids": ids, "labels": ids})
    assert (loss.item() == 7) is is_own


def test_training_on_several_gpus_in_one_process(tmp_path):
    """A process with one GPU may train, and one with several may evaluate, which needs one."""
    trainer = evaluator(tmp_path, train_dataset=sentences())
    trainer.args._n_gpu = 2
    assert "eval_loss" in trainer.evaluate()
    with pytest.raises(ValueError, match=r"2 GPUs in one process .*`accelerate launch .*CUDA_VISIBLE_DEVICES=0"):
        trainer.train()


WORDS = ["the", "a", "old", "cat", "dog", "man", "saw", "chased", "slept", "loudly"]


def treebank(tokenizer, random_spans) -> Dataset:
    """Sentences of 1 to 9 words with gold trees: random constituents, and every word hangs on its left neighbour."""
    random, rows = Random(0), []
    for length in [1, 2, 9, *(random.randint(2, 9) for _ in range(12))]:
        words = random.choices(WORDS, k=length)
        encoded = encode(words, tokenizer)
        spans = [list(span) for span in random_spans(random, length)]
        size = len(encoded["input_ids"])
        rows.append({"words": words, **encoded, "length": size, "heads": list(range(length)), "spans": spans})
    return Dataset.from_list(rows)


@pytest.mark.parametrize("name", ["structformer", "subword_structformer"])
def test_evaluation_of_constituents(tmp_path, request, random_spans, name):
    folder = request.getfixturevalue(name)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    dataset = treebank(tokenizer, random_spans)
    trainer = MaskedLMTrainer(
        model=StructFormerForMaskedLM.from_pretrained(folder),
        args=arguments(tmp_path),
        eval_dataset=dataset,
        data_collator=MaskedWordCollator.from_tokenizer(tokenizer),
        max_tokens=60,
        num_maskings=1,
    )
    metrics = trainer.evaluate()
    parses = parse(dataset["words"][:], folder)
    lengths = [len(parsed.words) for parsed in parses]
    trees = [parsed.constituency.spans for parsed in parses]
    scores = unlabeled_f1(trees, dataset["spans"][:], lengths)
    assert metrics["eval_uf1"] == pytest.approx(scores.uf1)
    assert 0.1 < scores.uf1 < 0.9
    attachment = attachment_scores([parsed.dependency.heads for parsed in parses], dataset["heads"][:])
    assert (metrics["eval_uas"], metrics["eval_uuas"]) == pytest.approx((attachment.uas, attachment.uuas))
    assert math.isfinite(metrics["eval_loss"])
    unannotated = trainer.evaluate(dataset.remove_columns(["heads", "spans"]))
    assert not [key for key in unannotated if "uf1" in key or "uas" in key]


def test_evaluation_of_a_model_without_structures(tmp_path, structformer, random_spans):
    tokenizer = AutoTokenizer.from_pretrained(structformer)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    trainer = MaskedLMTrainer(
        model=StructFormerForMaskedLM(StructFormerConfig(vocab_size=len(tokenizer), attention="softmax", **sizes)),
        args=arguments(tmp_path),
        eval_dataset=treebank(tokenizer, random_spans),
        data_collator=MaskedWordCollator.from_tokenizer(tokenizer),
        max_tokens=60,
    )
    metrics = trainer.evaluate()
    assert not [key for key in metrics if "uf1" in key or "uas" in key]
    assert metrics["eval_perplexity"] == pytest.approx(math.exp(metrics["eval_loss"]))


@pytest.mark.parametrize(
    ("warmup", "schedule", "is_said"),
    [(9, "linear", True), (8, "linear", False), (9, "constant", False), (0.5, "cosine", False)],
)
def test_warmup_that_is_longer_than_the_run(tmp_path, caplog, warmup, schedule, is_said):
    trainer = TokenBudgetTrainer(
        model=tiny_model(),
        args=arguments(tmp_path, max_steps=9, warmup_steps=warmup, lr_scheduler_type=schedule),
        train_dataset=sentences(),
        data_collator=masker(),
        max_tokens=24,
    )
    trainer.train()
    assert ("the warm-up is 9 steps long, the run 9" in caplog.text) is is_said


def test_loaders_are_made_as_they_are_asked_for(tmp_path):
    settings = {"dataloader_num_workers": 1, "dataloader_prefetch_factor": 3, "dataloader_in_order": False}
    trainer = TokenBudgetTrainer(
        model=tiny_model(),
        args=arguments(tmp_path, **settings, dataloader_multiprocessing_context="spawn"),
        train_dataset=sentences(),
        data_collator=masker(),
    )
    loader = trainer.get_train_dataloader()
    assert (loader.num_workers, loader.prefetch_factor, loader.in_order) == (1, 3, False)
    assert loader.multiprocessing_context.get_start_method() == "spawn"


@pytest.mark.parametrize("metric", ["uuass", "eval_uuass"])
def test_best_metric_that_evaluation_does_not_give(tmp_path, metric):
    trainer = MaskedLMTrainer(
        model=tiny_model(),
        args=arguments(tmp_path, max_steps=1, eval_strategy="steps", metric_for_best_model=metric),
        train_dataset=sentences(),
        eval_dataset=sentences(5, heads=True),
        data_collator=masker(),
    )
    with pytest.raises(ValueError, match=f"--metric_for_best_model {metric}: evaluation gives loss, perplexity, uas"):
        trainer.train()


# Stopping and going on


def run(folder, resume: str | None = None, **settings) -> MaskedLMTrainer:
    options = {
        "num_train_epochs": 3,
        "learning_rate": 0.01,
        "lr_scheduler_type": "reduce_lr_on_plateau",
        "lr_scheduler_kwargs": {"factor": 0.5, "patience": 2},
        "eval_strategy": "steps",
        "eval_steps": 1,
        "save_strategy": "steps",
        "save_steps": 1,
    }
    trainer = MaskedLMTrainer(
        model=tiny_model(dropout=0.3),
        args=arguments(folder, **(options | settings)),
        train_dataset=sentences(),
        eval_dataset=sentences(5, heads=True),
        data_collator=masker(),
        max_tokens=24,
        num_maskings=2,
    )
    trainer.train(resume_from_checkpoint=resume)
    return trainer


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    torch.manual_seed(0)
    return folder, run(folder)


def curve(trainer: MaskedLMTrainer) -> list[tuple]:
    return [
        (entry["step"], entry.get("loss"), entry.get("eval_loss"), entry.get("learning_rate"))
        for entry in trainer.state.log_history
        if "loss" in entry or "eval_loss" in entry
    ]


@pytest.mark.parametrize(
    "place", ["inside_an_epoch", pytest.param("at_its_end", marks=pytest.mark.slow), "in_the_last_one"]
)
def test_resumed_run_goes_on_as_if_never_stopped(whole_run, tmp_path, place):
    folder, whole = whole_run
    steps = whole.state.global_step
    assert steps % 3 == 0
    assert steps >= 9
    step = {"inside_an_epoch": steps // 3 + 1, "at_its_end": steps // 3, "in_the_last_one": steps - 1}[place]
    torch.manual_seed(99)
    resumed = run(tmp_path, resume=str(folder / f"checkpoint-{step}"))
    assert resumed.state.global_step == steps
    assert_close(resumed.model.state_dict(), whole.model.state_dict(), rtol=0, atol=0)
    assert curve(resumed) == curve(whole)


def test_trainer_state_is_the_last_file_of_a_checkpoint(tmp_path, monkeypatch):
    """What `last_complete_checkpoint` relies on."""
    present = {}
    save = TrainerState.save_to_json

    def recording_save(state, path):
        folder = tmp_path / f"checkpoint-{state.global_step}"
        present[folder] = {file.name for file in folder.iterdir()}
        save(state, path)

    monkeypatch.setattr(TrainerState, "save_to_json", recording_save)
    run(tmp_path, max_steps=2, eval_strategy="no", lr_scheduler_type="constant", lr_scheduler_kwargs={})
    assert len(present) == 2
    for folder, before in present.items():
        assert {file.name for file in folder.iterdir()} - before == {"trainer_state.json"}
        assert {"model.safetensors", "optimizer.pt", "rng_state.pth"} <= before


def test_last_complete_checkpoint(tmp_path):
    assert last_complete_checkpoint(tmp_path / "missing") is None
    assert last_complete_checkpoint(tmp_path) is None
    for step, state in [
        (9, '{"global_step": 9}'),
        (10, '{"global_step": 10}'),
        (11, '{"global_st'),
        (12, ""),
        (13, None),
    ]:
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        if state is not None:
            (folder / "trainer_state.json").write_text(state)
    assert last_complete_checkpoint(tmp_path) == str(tmp_path / "checkpoint-10")
    assert last_complete_checkpoint(str(tmp_path)) == str(tmp_path / "checkpoint-10")


@pytest.mark.slow
@pytest.mark.parametrize(
    "restored", [pytest.param(False, id="callbacks_anew"), pytest.param(True, id="callbacks_restored")]
)
def test_train_loss_is_that_of_the_whole_run(whole_run, tmp_path, restored):
    folder, whole = whole_run
    steps = [entry["loss"] for entry in whole.state.log_history if "loss" in entry]
    assert len(steps) == whole.state.global_step
    settings = {"restore_callback_states_from_checkpoint": restored}
    resumed = run(tmp_path / "once", resume=str(folder / "checkpoint-4"), **settings)
    twice = run(tmp_path / "twice", resume=str(tmp_path / "once" / "checkpoint-6"), **settings)
    again = run(tmp_path / "whole")
    again.train()  # not what has been resumed
    assert again.state.log_history[-1]["train_loss"] < sum(steps) / len(steps)
    for trainer in (whole, resumed, twice):
        assert trainer.state.log_history[-1]["train_loss"] == pytest.approx(sum(steps) / len(steps), rel=1e-4)


@pytest.mark.slow
def test_train_loss_after_a_checkpoint_of_an_older_version(whole_run, tmp_path):
    """That has not kept the losses: it is the mean of the steps since."""
    folder, whole = whole_run
    old = tmp_path / "checkpoint-4"
    shutil.copytree(folder / "checkpoint-4", old)
    state = json.loads((old / "trainer_state.json").read_text())
    del state["stateful_callbacks"]["_LossCallback"]
    (old / "trainer_state.json").write_text(json.dumps(state))
    resumed = run(tmp_path / "resumed", resume=str(old))
    steps = [entry["loss"] for entry in whole.state.log_history if "loss" in entry][4:]
    assert resumed.state.log_history[-1]["train_loss"] == pytest.approx(sum(steps) / len(steps), rel=1e-4)
