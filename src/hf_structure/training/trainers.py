"""`Trainer` with batches under a token budget, and its subclasses for parsers, language models and their tasks."""

import contextlib
import json
import logging
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch.distributed.fsdp import FSDPModule
from torch.optim.lr_scheduler import SequentialLR
from torch.utils.data import DataLoader, IterableDataset
from transformers import PreTrainedModel, Trainer, TrainerCallback
from transformers.loss.loss_utils import ForCausalLMLoss
from transformers.optimization import get_scheduler
from transformers.trainer_callback import ExportableState, PrinterCallback, ProgressCallback
from transformers.trainer_utils import TrainOutput, speed_metrics

from hf_structure.corpora.batching import TokenBudgetBatchSampler, token_budget_batches
from hf_structure.corpora.collators import IGNORE_INDEX, WordCollator, pad_words
from hf_structure.corpora.corpus import column_numbers
from hf_structure.corpora.tasks import Task
from hf_structure.hub.cards import in_percent
from hf_structure.metrics.attachment import attachment_scores
from hf_structure.metrics.constituency import unlabeled_f1
from hf_structure.metrics.language_model import SUMS, language_model_scores, language_model_sums
from hf_structure.metrics.perplexity import masked_log_likelihood, masked_perplexity
from hf_structure.metrics.tasks import classification_scores, similarity_scores
from hf_structure.models.abilities import abilities_of
from hf_structure.text.files import new_file
from hf_structure.training.arguments import has_warmup
from hf_structure.training.cards import write_card
from hf_structure.training.comparison import markdown_table
from hf_structure.training.distillation import Teacher
from hf_structure.training.launching import check_gpus

logger = logging.getLogger(__name__)

SEGMENTER_INPUTS = ("input_ids", "attention_mask", "word_ids", "form_ids", "treebank_ids")


class _EpochCallback(TrainerCallback):
    """Tells sampler and collator which epoch begins, also in a resumed run."""

    def __init__(self, trainer: "TokenBudgetTrainer"):
        self.trainer = trainer

    def on_epoch_begin(self, args, state, control, **kwargs):
        epoch = int((state.epoch or 0.0) + 1e-6)
        parts: tuple[Any, Any] = (self.trainer.batch_sampler, self.trainer.data_collator)
        for part in parts:
            if hasattr(part, "set_epoch"):
                part.set_epoch(epoch)


class _LossCallback(TrainerCallback, ExportableState):
    """The sum of the losses of all steps of a run, which checkpoints keep."""

    def __init__(self):
        self.total = 0.0
        self.first_step = 0

    def state(self) -> dict:
        return {"args": {}, "attributes": {"total": self.total, "first_step": self.first_step}}

    def on_train_begin(self, args, state, control, **kwargs):
        self.total = 0.0
        self.first_step = state.global_step
        callbacks: Any = state.stateful_callbacks  # by their names, once they are saved
        kept = callbacks.setdefault(type(self).__name__, self.state())
        if state.global_step:  # of an interrupted run; checkpoints of older versions have kept nothing
            self.total = kept["attributes"]["total"]
            self.first_step = kept["attributes"]["first_step"]


class _PhaseCallback(TrainerCallback):
    """Begins the second phase of a training with the state of a new optimizer, also in a resumed run."""

    def __init__(self, first_step: int):
        self.first_step = first_step

    def on_step_begin(self, args, state, control, optimizer=None, **kwargs):
        if state.global_step == self.first_step and optimizer is not None:
            optimizer.state.clear()


class _ProgressInPercent(ProgressCallback):
    """Prints shares in percent, as cards and tables do."""

    def on_log(self, args, state, control, logs=None, **kwargs):
        super().on_log(args, state, control, logs=shares_in_percent(logs or {}), **kwargs)


class _PrinterInPercent(PrinterCallback):
    """The same without progress bars."""

    def on_log(self, args, state, control, logs=None, **kwargs):
        super().on_log(args, state, control, logs=shares_in_percent(logs or {}), **kwargs)


class TokenBudgetTrainer(Trainer):
    """
    [`~transformers.Trainer`] whose training batches hold sentences of similar lengths under a budget of tokens. Its
    `train_loss` is the mean over all steps of a run, those before an interruption too.

    Args:
        max_tokens (`int`): Budget of a batch on one device, including padding.
        max_sentences (`int`, *optional*): Most sentences of a training batch on one device.
        sampling_power (`float`): Treebanks, named in the training dataset's column `treebank`, give sentences in
            proportion to their sizes to this power, see [`~hf_structure.corpora.batching.sample_groups`].
        args, kwargs: As for [`~transformers.Trainer`]; the settings in
            [`~hf_structure.training.arguments.IGNORED`] have no effect here. The training dataset has a column
            `length`, or it is a [`~hf_structure.training.streaming.TextStream`] of batches.
    """

    data_collator: Any  # `Trainer` takes it for a function alone
    train_dataset: Any
    eval_dataset: Any

    def __init__(
        self, *args, max_tokens: int = 4096, max_sentences: int | None = None, sampling_power: float = 1.0, **kwargs
    ):
        super().__init__(*args, **kwargs)
        self.max_tokens = max_tokens
        self.max_sentences = max_sentences
        self.sampling_power = sampling_power
        self.batch_sampler: TokenBudgetBatchSampler | None = None
        self._losses = 0.0  # of steps that are not in the total yet
        self.add_callback(_EpochCallback(self))
        self.add_callback(_LossCallback)
        for usual, ours in ((ProgressCallback, _ProgressInPercent), (PrinterCallback, _PrinterInPercent)):
            if self.pop_callback(usual) is not None:
                self.add_callback(ours)

    def train(self, *args, **kwargs) -> TrainOutput:
        check_gpus(self.args)
        self._losses = 0.0
        result = super().train(*args, **kwargs)
        return result._replace(training_loss=result.metrics["train_loss"])

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None):
        warmup = self.args.get_warmup_steps(num_training_steps) if has_warmup(self.args.lr_scheduler_type) else 0
        if warmup >= num_training_steps and self.is_world_process_zero():
            logger.warning(
                "the warm-up is %d steps long, the run %d: its learning rate never reaches the highest",
                warmup,
                num_training_steps,
            )
        return super().create_scheduler(num_training_steps, optimizer)

    def training_step(self, *args, **kwargs) -> torch.Tensor:
        loss = super().training_step(*args, **kwargs)
        self._losses = self._losses + loss.nan_to_num(0.0, 0.0, 0.0)
        return loss

    def log(self, logs: dict[str, float], *args, **kwargs) -> None:
        if "train_loss" in logs:
            losses = self._total_loss()
            logs["train_loss"] = losses.total / max(self.state.global_step - losses.first_step, 1)
        super().log(logs, *args, **kwargs)

    def log_metrics(self, split: str, metrics: dict[str, float]) -> None:
        super().log_metrics(split, shares_in_percent(metrics))

    def _save_checkpoint(self, *args, **kwargs):
        self._total_loss()
        super()._save_checkpoint(*args, **kwargs)

    def _total_loss(self) -> _LossCallback:
        """Adds the losses since the last call, averaged over all processes, to the total."""
        losses = next(each for each in self.callback_handler.callbacks if isinstance(each, _LossCallback))
        mean = self.accelerator.reduce(torch.as_tensor(self._losses, device=self.args.device), reduction="mean")
        losses.total += cast(torch.Tensor, mean).item()
        self._losses = 0.0
        return losses

    def get_train_dataloader(self) -> DataLoader:
        options = {
            "num_workers": self.args.dataloader_num_workers,
            "multiprocessing_context": self.args.dataloader_multiprocessing_context,
            "prefetch_factor": self.args.dataloader_prefetch_factor,
            "in_order": self.args.dataloader_in_order,
            "pin_memory": self.args.dataloader_pin_memory and self.args.device.type == "cuda",
        }
        if isinstance(self.train_dataset, IterableDataset):
            return DataLoader(self.train_dataset, batch_size=None, **options)
        self.batch_sampler = TokenBudgetBatchSampler(
            column_numbers(self.train_dataset, "length"),
            self.max_tokens,
            max_sentences=self.max_sentences,
            groups=treebanks_of(self.train_dataset)[1] if self.sampling_power != 1 else None,
            sampling_power=self.sampling_power,
            seed=self.args.data_seed if self.args.data_seed is not None else self.args.seed,
            num_replicas=self.args.world_size,
            rank=self.args.process_index,
        )
        return DataLoader(
            self.train_dataset, batch_sampler=self.batch_sampler, collate_fn=self.data_collator, **options
        )


def treebanks_of(dataset) -> tuple[list[str], np.ndarray]:
    """The names in the column `treebank` of a data set, and the number of each row's name among them."""
    names, numbers = np.unique(dataset["treebank"][:], return_inverse=True)
    return names.tolist(), numbers


class ScoringTrainer(TokenBudgetTrainer):
    """
    Trainer whose evaluation is a function of a model and a whole data set: subclasses define [`scores`].

    With several processes each evaluates its share. The data set has a column `length`. Of a dictionary of data sets
    each is evaluated alone, and gives metrics such as `eval_NAME_loss`.

    Raises:
        ValueError: if there are `compute_metrics` or `preprocess_logits_for_metrics`, which nothing calls.
    """

    own_parameters = ""  # what cards call the parameters of `own_learning_rate`

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for name in ("compute_metrics", "preprocess_logits_for_metrics"):
            if getattr(self, name) is not None:
                trainer = type(self).__name__
                raise ValueError(f"{name} has no effect on {trainer}: further metrics come from the method `scores`")

    def scores(self, model, dataset) -> dict[str, float]:
        """The metrics, `loss` among them, of a model in evaluation mode; called by all processes together."""
        raise NotImplementedError

    def own_learning_rate(self, model) -> tuple[Iterable[torch.nn.Parameter], float | None]:
        """Parameters with a learning rate of their own, and that rate; None if all share one."""
        return (), None

    def create_optimizer(self, model=None) -> torch.optim.Optimizer:
        is_made = self.optimizer is not None
        optimizer = super().create_optimizer(model)
        unwrapped = self.accelerator.unwrap_model(self.model if model is None else model)
        parameters, rate = self.own_learning_rate(unwrapped)
        if not is_made and rate is not None:
            set_learning_rate(optimizer, parameters, rate)
        return optimizer

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix: str = "eval") -> dict[str, float]:
        given: Any = self.eval_dataset if eval_dataset is None else eval_dataset
        if given is None:
            raise ValueError("there is nothing to evaluate: give eval_dataset")
        sets = {metric_key_prefix: given}
        if isinstance(given, dict):
            sets = {f"{metric_key_prefix}_{name}": dataset for name, dataset in given.items()}
        metrics = {}
        for prefix, dataset in sets.items():
            metrics |= self.evaluate_set(dataset, prefix)
        if self.is_in_train:
            self._check_best_metric(metrics)
        return metrics

    def evaluate_set(self, dataset, prefix: str) -> dict[str, float]:
        """The metrics of one data set, which are logged too; a prefix stands before their names."""
        start = time.time()
        model = self.accelerator.unwrap_model(self.model)
        training = model.training
        model.eval()
        with self.compute_loss_context_manager(), self._whole_weights(model):
            metrics = self.scores(model, dataset)
        model.train(training)
        metrics = {f"{prefix}_{name}": value for name, value in metrics.items()}
        metrics |= speed_metrics(prefix, start, num_samples=len(dataset))
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _check_best_metric(self, metrics: Iterable[str]) -> None:
        name = self.args.metric_for_best_model
        known = [each.removeprefix("eval_") for each in metrics]
        if name is not None and name.removeprefix("eval_") not in known:
            raise ValueError(f"--metric_for_best_model {name}: evaluation gives {', '.join(known)}")

    @contextlib.contextmanager
    def _whole_weights(self, model) -> Iterator[None]:
        """
        Gathers the weights of a model that is sharded over processes, once: each process evaluates its sentences in
        a number of passes of its own, and so cannot gather them for every pass.
        """
        parts = [module for module in model.modules() if isinstance(module, FSDPModule)]
        state: Any = self.accelerator.state
        for part in parts:
            part.set_reshard_after_forward(False, recurse=False)
            part.unshard()
        try:
            yield
        finally:
            for part in parts:
                part.reshard()
                part.set_reshard_after_forward(state.fsdp_plugin.reshard_after_forward, recurse=False)

    def create_model_card(self, language=None, license=None, finetuned_from=None, dataset=None, **_: object) -> None:
        """Writes the card of this library, see [`write_card`]; other arguments of transformers have no meaning."""
        if self.is_world_process_zero():
            datasets = [dataset] if isinstance(dataset, str) else dataset
            write_card(self, language=language, license=license, base_model=finetuned_from, datasets=datasets)

    def _batches(self, dataset) -> Iterator[list[dict]]:
        """The batches of this process."""
        batches = token_budget_batches(column_numbers(dataset, "length"), self.max_tokens)
        for batch in batches[self.args.process_index :: self.args.world_size]:
            yield dataset.__getitems__(batch)

    def _sum_over_processes(self, values: Sequence[float]) -> list[float]:
        if self.args.world_size == 1:
            return list(values)  # in float64, which the device need not have
        sums = torch.tensor(values, dtype=torch.float64, device=self.args.device)
        return cast(torch.Tensor, self.accelerator.reduce(sums, reduction="sum")).tolist()


class MaskedLMTrainer(ScoringTrainer):
    """
    Trainer of masked language models that induce structure.

    Evaluation gives the masked loss and perplexity over `num_maskings` seeded maskings, and of the structures that
    the model gives: where the dataset has `heads`, UAS and UUAS of trees and of argmax heads; where it has `spans`,
    UF1 (the sentence mean of unlabelled F1, single words and whole sentences left out). All is about words the model
    sees.

    Args:
        data_collator ([`MaskedWordCollator`]): Masks the training text, and with epochs 0, 1, ... the evaluation text.
        num_maskings (`int`): Number of maskings of the evaluation text.
        args, kwargs: As for [`TokenBudgetTrainer`].
    """

    def __init__(self, *args, num_maskings: int = 5, **kwargs):
        super().__init__(*args, **kwargs)
        self.num_maskings = num_maskings

    def scores(self, model, dataset) -> dict[str, float]:
        loss, perplexity = self._perplexity(model, dataset)
        metrics = {"loss": loss, "perplexity": perplexity}
        structures = abilities_of(model.config).structures
        if "dependency" in structures and "heads" in dataset.column_names:
            for decoder, suffix in (("tree", ""), ("argmax", "_argmax")):
                uas, uuas = self._attachment(model, dataset, decoder)
                metrics |= {f"uas{suffix}": uas, f"uuas{suffix}": uuas}
        if "constituency" in structures and "spans" in dataset.column_names:
            metrics["uf1"] = self._uf1(model, dataset)
        return metrics

    def _perplexity(self, model, dataset) -> tuple[float, float]:
        epoch = self.data_collator.epoch
        sums = []
        for masking in range(self.num_maskings):
            self.data_collator.set_epoch(masking)
            batches = (self.data_collator(batch) for batch in self._batches(dataset))
            sums.append(self._sum_over_processes(masked_log_likelihood(model, batches)))
        self.data_collator.set_epoch(epoch)
        return masked_perplexity(sums)

    def _decode(self, model, dataset, **options) -> Iterator[tuple[list[dict], dict[str, list]]]:
        """Batches of examples, and what the model decodes for them, as lists."""
        for batch in self._batches(dataset):
            inputs = {name: value.to(model.device) for name, value in WordCollator()(batch).items() if name != "heads"}
            decoded = model.decode(**inputs, **options)
            yield batch, {name: decoded[name].tolist() for name in ("heads", "spans") if name in decoded}

    def _attachment(self, model, dataset, decoder: str) -> tuple[float, float]:
        predicted = []
        gold = []
        for batch, decoded in self._decode(model, dataset, decoder=decoder):
            gold += [example["heads"] for example in batch]
            predicted += [
                row[0][: len(example["heads"])] for row, example in zip(decoded["heads"], batch, strict=True)
            ]
        sums = [0.0] * 4
        if gold:  # the share of one of several processes may be empty
            scores = attachment_scores(predicted, gold)
            sums = [scores.uas * scores.words, scores.words, scores.uuas * scores.pairs, scores.pairs]
        correct, words, correct_pairs, pairs = self._sum_over_processes(sums)
        return correct / words, correct_pairs / pairs

    def _uf1(self, model, dataset) -> float:
        predicted = []
        gold = []
        lengths = []
        for batch, decoded in self._decode(model, dataset):
            gold += [example["spans"] for example in batch]
            lengths += [sum(head >= 0 for head in row[0]) for row in decoded["heads"]]
            predicted += [[span for span in row if span[0] >= 0] for row in decoded["spans"]]
        sums = [0.0, 0.0]
        if gold:
            scores = unlabeled_f1(predicted, gold, lengths)
            sums = [scores.uf1 * scores.sentences, scores.sentences]
        total, sentences = self._sum_over_processes(sums)
        return total / sentences


def treebank_table(scores: dict[str, dict[str, float]]) -> str:
    """The scores of treebanks, by their names, and the means, in per cent: a table in Markdown."""
    names = [name for name in next(iter(scores.values())) if not name.endswith("_no_punct")]
    rows = {treebank: [values[name] for name in names] for treebank, values in sorted(scores.items())}
    rows["mean"] = [sum(column) / len(rows) for column in zip(*rows.values(), strict=True)]
    cells = ([treebank, *(f"{100 * value:.2f}" for value in row)] for treebank, row in rows.items())
    return markdown_table(["treebank", *names], cells)


class ParsingTrainer(ScoringTrainer):
    """
    Trainer of supervised dependency parsers ([`G2GTransformerForParsing`]).

    Evaluation gives `uas` and `las` of greedy parses, over all words and, as `uas_no_punct` and `las_no_punct`, over
    those that are no punctuation; and the share of words with the right value in each further column that is
    predicted, by its name. LAS is left out for a model without labels. Of running text it gives the F1 of the places
    where sentences begin, `sentence_starts_f1`.

    Where the rows of a data set are of several treebanks (the column `treebank` names them), `mean_uas`, `mean_las`
    and so on are means over these. The scores of each are logged, in per cent, and written to the output folder, as
    the table `eval_treebanks.md` (or `test_treebanks.md`).

    Args:
        new_parameters (`Sequence[str]`): Names of parameters that have a learning rate of their own.
        new_learning_rate (`float`, *optional*): That learning rate.
        teacher ([`Teacher`], *optional*): A parser whose probabilities are learned beside the trees.
        data_collator ([`ParsingCollator`]): Makes batches.
        args, kwargs: As for [`TokenBudgetTrainer`]. The data sets have the columns `length` (of what the encoder
            reads), `heads`, `labels` and `punctuation` (of each word, whether it is), and those that the model reads.
    """

    own_parameters = "the parameters that no encoder brings"

    def __init__(
        self,
        *args,
        new_parameters: Sequence[str] = (),
        new_learning_rate: float | None = None,
        teacher: Teacher | None = None,
        **kwargs,
    ):
        super().__init__(*args, **kwargs)
        self.teacher = teacher
        if abilities_of(cast(PreTrainedModel, self.model).config).segments:
            self.args.ddp_find_unused_parameters = True  # a batch may be of running text, or of sentences alone
        self.new_parameters = new_parameters
        self.new_learning_rate = new_learning_rate
        self.treebank_scores: dict[str, dict[str, float]] = {}  # of the last evaluation, if of several treebanks

    def own_learning_rate(self, model) -> tuple[Iterable[torch.nn.Parameter], float | None]:
        return map(model.get_parameter, self.new_parameters), self.new_learning_rate

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        taught: Any = inputs.pop("teacher", None)
        loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
        if self.teacher is not None and taught is not None:
            num_items: Any = num_items_in_batch
            if self.args.average_tokens_across_devices:  # they are of all processes, whose gradients are averaged
                num_items = num_items / self.args.world_size
            loss = loss + self.teacher.loss(outputs, taught) / num_items
        return (loss, outputs) if return_outputs else loss

    def scores(self, model, dataset) -> dict[str, float]:
        predicted = self.data_collator.predicted
        treebanks = treebanks_of(dataset)[0] if "treebank" in dataset.column_names else [""]
        numbers = {treebank: number for number, treebank in enumerate(treebanks)}
        sums = torch.zeros(len(treebanks), 2, 3 + len(predicted), dtype=torch.float64)
        starts = torch.zeros(3, dtype=torch.float64)
        for examples in self._batches(dataset):
            running = [example for example in examples if example.get("sentence_starts") is not None]
            if running:
                starts += self._count_starts(model, running)
            trees = [example for example in examples if example.get("sentence_starts") is None]
            if trees:
                rows = torch.tensor([numbers[example.get("treebank", "")] for example in trees])
                sums.index_add_(0, rows, self._count_words(model, trees, predicted))
        totals = torch.tensor(self._sum_over_processes(sums.flatten().tolist()), dtype=torch.float64).view_as(sums)
        metrics = self._word_scores(totals.sum(0), model.config.labelled)
        self.treebank_scores = {}
        if len(treebanks) > 1:
            for treebank, counts in zip(treebanks, totals, strict=True):
                self.treebank_scores[treebank] = self._word_scores(counts, model.config.labelled)
            scores = self.treebank_scores.values()
            metrics |= {f"mean_{name}": sum(each[name] for each in scores) / len(scores) for name in metrics}
        found, true, correct = self._sum_over_processes(starts.tolist())
        if true:
            metrics["sentence_starts_f1"] = 2 * correct / (found + true)
        return metrics

    def evaluate_set(self, dataset, prefix: str) -> dict[str, float]:
        metrics = super().evaluate_set(dataset, prefix)
        if self.treebank_scores and self.is_world_process_zero():
            table = treebank_table(self.treebank_scores)
            logger.info("%s", table)
            folder: Any = self.args.output_dir
            with new_file(Path(folder, f"{prefix}_treebanks.md"), overwrite=True) as file:
                file.write(table)
        return metrics

    def _word_scores(self, counts: torch.Tensor, labelled: bool) -> dict[str, float]:
        """The scores of words counted by [`_count_words`]."""
        metrics = {}
        for suffix, (words, *correct) in zip(("", "_no_punct"), counts.tolist(), strict=True):
            uas, las, *columns = (count / max(words, 1) for count in correct)
            metrics[f"uas{suffix}"] = uas
            if labelled:
                metrics[f"las{suffix}"] = las
            if not suffix:
                metrics |= dict(zip(self.data_collator.predicted, columns, strict=True))
        return metrics

    def _count_words(self, model, examples: list[dict], predicted: Sequence[str]) -> torch.Tensor:
        """
        `(B, 2, 3 + len(predicted))`: how many words each sentence has, how many have the right head, head and label,
        and value of each column; of all words, and of those that are no punctuation.
        """
        batch: dict[str, Any] = self._prepare_inputs(self.data_collator(examples))
        heads = batch.pop("heads")
        labels = batch.pop("labels")
        columns = batch.pop("columns", {})
        parsed = model.decode(**batch)
        is_word = heads >= 0
        has_head = parsed.heads[:, 0] == heads  # (B, n)
        has_label = has_head
        if "labels" in parsed.columns:
            has_label = has_head & (parsed.columns["labels"][:, 0] == labels)
        best = [parsed.columns[name][:, 0].reshape(*heads.shape, -1)[..., 0] for name in predicted]  # each (B, n)
        has_value = [values == columns[name] for values, name in zip(best, predicted, strict=True)]
        counted = [is_word, *(is_word & right for right in (has_head, has_label, *has_value))]
        counted = torch.stack(counted, dim=1).cpu()  # (B, 3 + len(predicted), n)
        is_punctuation = pad_words([example["punctuation"] for example in examples], 0).bool().unsqueeze(1)
        counts = [part.sum(2, dtype=torch.float64) for part in (counted, counted & ~is_punctuation)]
        return torch.stack(counts, dim=1)  # (B, 2, 3 + len(predicted))

    def _count_starts(self, model, examples: list[dict]) -> torch.Tensor:
        """How many sentence starts were found in running text, how many there are, and how many of both."""
        batch = self._prepare_inputs(self.data_collator(examples))
        inputs = {name: batch[name] for name in SEGMENTER_INPUTS if name in batch}
        true = batch["sentence_starts"]
        found = (model.sentence_starts(**inputs) > 0.5) & (true >= 0)
        return torch.stack([found.sum(), (true == 1).sum(), (found & (true == 1)).sum()]).cpu()  # (3,)


class StructuredLMTrainer(ScoringTrainer):
    """
    Trainer of causal language models that read dependency graphs ([`GiLTForCausalLM`]) or constituency trees
    ([`PushdownLMForCausalLM`]), and of plain ones.

    What evaluation gives is named by the structures that the model was given: `perplexity_gold_graphs`,
    `arc_f1_predicted_graphs`, `perplexity_gold_trees` and so on, see [`language_model_scores`]. Of a plain model it is
    `perplexity` and `word_perplexity`. `loss` is the training objective, of a model with structures given the gold
    ones.

    Args:
        base_learning_rate (`float`, *optional*): Learning rate of the parameters that a graft has from its base model;
            by default that of the others.
        lm_only_steps (`int`): For so many steps, the first of two phases, the scorer of structures is not trained,
            but only the language model, which is given the gold ones. Each phase has the whole schedule of the
            learning rates and begins with an optimizer that remembers no gradients. Of a model without structures
            there is one phase.
        lm_only_warmup_steps (`float`): Steps, or below 1 the share of them, in which the learning rates rise in the
            first phase; `args.warmup_steps` are of the second.
        max_predicted_sentences (`int`): How many sentences, spread over the data set, evaluation predicts structures
            of.
        data_collator ([`GraphCollator`] or [`CausalCollator`]): Makes batches with `labels`.
        args, kwargs: As for [`TokenBudgetTrainer`]. The data sets have the columns `length` and `num_words`, and those
            that the collator reads.
    """

    own_parameters = "the parameters of the base model"

    def __init__(
        self,
        *args,
        base_learning_rate: float | None = None,
        lm_only_steps: int = 0,
        lm_only_warmup_steps: float = 0.4,
        max_predicted_sentences: int = 0,
        **kwargs,
    ):
        super().__init__(*args, **kwargs)
        self.base_learning_rate = base_learning_rate
        config = getattr(self.model, "config", None)
        self.lm_only_steps = lm_only_steps if getattr(config, "structure_layers", 0) else 0
        self.lm_only_warmup_steps = lm_only_warmup_steps
        self.full_loss_func = self.compute_loss_func
        self.max_predicted_sentences = max_predicted_sentences
        if self.lm_only_steps:
            self.args.ddp_find_unused_parameters = True  # the scorer's, for so long
            self.add_callback(_PhaseCallback(self.lm_only_steps))

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None):
        if not self.lm_only_steps or self.lr_scheduler is not None:
            return super().create_scheduler(num_training_steps, optimizer)
        trained: Any = self.optimizer if optimizer is None else optimizer
        settings: Any = self.args.lr_scheduler_kwargs
        warmup = self.lm_only_warmup_steps
        first = get_scheduler(
            self.args.lr_scheduler_type,
            trained,
            num_warmup_steps=math.ceil(warmup * self.lm_only_steps) if warmup < 1 else int(warmup),
            num_training_steps=self.lm_only_steps,
            scheduler_specific_kwargs=settings,
        )
        if self.lm_only_steps < num_training_steps:
            second = super().create_scheduler(num_training_steps - self.lm_only_steps, trained)
            self.lr_scheduler = SequentialLR(trained, [first, second], [self.lm_only_steps])
        else:
            self.lr_scheduler = first
            if self.is_world_process_zero():
                logger.warning(
                    "the scorer of structures is left out for %d steps, but the run is %d long: it is never trained",
                    self.lm_only_steps,
                    num_training_steps,
                )
        return self.lr_scheduler

    def own_learning_rate(self, model) -> tuple[Iterable[torch.nn.Parameter], float | None]:
        return base_parameters(model), self.base_learning_rate

    def compute_loss(self, *args, **kwargs):
        # A model that is given no labels scores no structures.
        is_first_phase = self.state.global_step < self.lm_only_steps
        self.compute_loss_func = language_model_loss if is_first_phase else self.full_loss_func
        return super().compute_loss(*args, **kwargs)

    def scores(self, model, dataset) -> dict[str, float]:
        sums = self._sums(model, dataset)
        metrics = {"loss": sums["loss"] / sums["tokens"]}
        kinds = {"arcs": "graphs", "attachments": "trees", "actions": "trees"}
        kind = next((kinds[column] for column in kinds if column in dataset.column_names), None)
        if kind is None:
            return metrics | language_model_scores(sums)
        metrics |= {f"{name}_gold_{kind}": value for name, value in language_model_scores(sums).items()}
        if self.max_predicted_sentences:
            some = dataset.select(range(0, len(dataset), -(-len(dataset) // self.max_predicted_sentences)))
            predicted = language_model_scores(self._sums(model, some, predict_structures=True))
            metrics |= {f"{name}_predicted_{kind}": value for name, value in predicted.items()}
            metrics[f"sentences_predicted_{kind}"] = len(some)
        return metrics

    def _sums(self, model, dataset, predict_structures: bool = False) -> dict[str, float]:
        totals = dict.fromkeys(SUMS, 0.0)
        for examples in self._batches(dataset):
            batch = {name: value.to(model.device) for name, value in self.data_collator(examples).items()}
            words = sum(example["num_words"] for example in examples)
            with self.accelerator.autocast():
                sums = language_model_sums(model, batch, words, predict_structures)
            totals = {name: total + sums[name] for name, total in totals.items()}
        return dict(zip(SUMS, self._sum_over_processes(list(totals.values())), strict=True))


class TaskTrainer(ScoringTrainer):
    """
    Trainer of language models on a task: a classification by the word that follows a prompt, or a regression.

    The loss is the cross-entropy of the tokens of those words alone, or the squared error. Evaluation gives it as
    `loss`, what [`classification_scores`] (the class whose word is likelier is predicted) or [`similarity_scores`]
    give, and `score`, the mean of those that the task reports. Where the rows of a data set are of several files, it
    gives all of this for each file too, `sts12_loss` and so on. `predictions` are then what it has found: the numbers
    of classes, or scores, in the order of the rows.

    Args:
        task ([`Task`]): The task.
        data_collator ([`TaskCollator`]), args, kwargs: As for [`TokenBudgetTrainer`]. The data sets have the columns
            `length`, `file` (its name) and those that the collator reads.
    """

    def __init__(self, *args, task: Task, **kwargs):
        super().__init__(*args, compute_loss_func=self.class_loss if task.classes else squared_error, **kwargs)
        self.task = task
        self.predictions: list[int] | list[float] = []

    @staticmethod
    def class_loss(outputs, labels: torch.Tensor, num_items_in_batch: torch.Tensor | int | None) -> torch.Tensor:
        """Mean cross-entropy of the tokens of classes' words."""
        count = (labels != IGNORE_INDEX).sum() if num_items_in_batch is None else num_items_in_batch
        return label_losses(outputs.logits, labels).sum() / count

    def scores(self, model, dataset) -> dict[str, float]:
        outputs = torch.zeros(len(dataset), max(len(self.task.classes), 1), dtype=torch.float64)
        for examples in self._batches(dataset.add_column("index", list(range(len(dataset))))):
            outputs[[example["index"] for example in examples]] = self._outputs(model, examples).cpu().double()
        sums = self._sum_over_processes(outputs.flatten().tolist())
        outputs = torch.tensor(sums, dtype=torch.float64).view_as(outputs)  # (rows, classes or 1)
        gold = torch.tensor(dataset["label"][:], dtype=torch.long if self.task.classes else torch.float32)
        self.predictions = (outputs.argmax(1) if self.task.classes else outputs[:, 0]).tolist()
        metrics = self._metrics(outputs, gold)
        files = np.array(dataset["file"][:])
        several = np.unique(files) if len({*files}) > 1 else ()
        for file in several:
            rows = torch.from_numpy(files == file)
            metrics |= {f"{file}_{name}": value for name, value in self._metrics(outputs[rows], gold[rows]).items()}
        return metrics

    def _metrics(self, outputs: torch.Tensor, gold: torch.Tensor) -> dict[str, float]:
        if self.task.classes:
            likelihoods = outputs.gather(1, gold.unsqueeze(1))  # (rows, 1)
            metrics = {"loss": -float(likelihoods.sum()) / self._num_targets(gold)}
            metrics |= classification_scores(outputs.argmax(1).tolist(), gold.tolist())
        else:
            metrics = {"loss": float((outputs[:, 0] - gold).square().mean())}
            metrics |= similarity_scores(outputs[:, 0].tolist(), gold.tolist())
        return metrics | {"score": sum(metrics[name] for name in self.task.reported) / len(self.task.reported)}

    def _num_targets(self, gold: torch.Tensor) -> int:
        """Number of the tokens that a mean cross-entropy is over."""
        return sum(len(self.data_collator.label_ids[number]) for number in gold)

    @torch.no_grad()
    def _outputs(self, model, examples) -> torch.Tensor:
        """Log-likelihoods of the classes' words, `(batch_size, classes)`, or predicted scores, `(batch_size, 1)`."""
        columns = []
        classes = range(len(self.task.labels)) if self.task.labels else [None]
        for number in classes:
            batch = {name: value.to(model.device) for name, value in self.data_collator(examples, number).items()}
            labels = batch.pop("labels")
            with self.accelerator.autocast():
                logits = model(**batch).logits
            columns.append(-label_losses(logits, labels).sum(1) if self.task.labels else logits.squeeze(1))
        return torch.stack(columns, dim=1)  # (batch_size, classes or 1)


class SentenceTrainer(TaskTrainer):
    """
    Trainer of classifiers of sentences and of pairs of sentences, and of regressions, such as
    [`UDGNForSequenceClassification`]; arguments, losses and metrics are those of [`TaskTrainer`], with a
    [`SentenceCollator`].
    """

    @staticmethod
    def class_loss(outputs, labels: torch.Tensor, num_items_in_batch: torch.Tensor | int | None) -> torch.Tensor:
        """Mean cross-entropy of classes."""
        count = len(labels) if num_items_in_batch is None else num_items_in_batch
        return torch.nn.functional.cross_entropy(outputs.logits.float(), labels, reduction="sum") / count

    def _num_targets(self, gold: torch.Tensor) -> int:
        return len(gold)

    @torch.no_grad()
    def _outputs(self, model, examples) -> torch.Tensor:
        """Log-probabilities of classes `(batch_size, classes)`, or predicted scores, `(batch_size, 1)`."""
        batch = {name: value.to(model.device) for name, value in self.data_collator(examples).items()}
        del batch["labels"]
        with self.accelerator.autocast():
            logits = model(**batch).logits.float()
        return logits.log_softmax(1) if self.task.classes else logits


def label_losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropies `(batch_size, places)` of labels as of [`TaskCollator`]; 0 where there is none."""
    by_class = logits.float().transpose(1, 2)  # (batch_size, vocab_size, places)
    return torch.nn.functional.cross_entropy(by_class, labels[:, 1:], reduction="none")


def squared_error(outputs, labels: torch.Tensor, num_items_in_batch: torch.Tensor | int | None) -> torch.Tensor:
    """Mean squared error of scores."""
    count = len(labels) if num_items_in_batch is None else num_items_in_batch
    return (outputs.logits.float().squeeze(1) - labels).square().sum() / count


def base_parameters(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The parameters that a graft has from its base model; of a model from scratch none, of a plain one all."""
    config: Any = getattr(model, "config", None)
    if not hasattr(config, "base_config"):
        return list(model.parameters())
    if config.base_config is None:
        return []
    return [p for name, p in model.named_parameters() if name.startswith(("model.backbone.", "lm_head."))]


def language_model_loss(outputs, labels: torch.Tensor, num_items_in_batch: Any) -> torch.Tensor:
    """Cross-entropy of the next tokens alone."""
    return ForCausalLMLoss(outputs.logits, labels, outputs.logits.shape[-1], num_items_in_batch)


def set_learning_rate(optimizer: torch.optim.Optimizer, parameters: Iterable[torch.nn.Parameter], rate: float) -> None:
    """Gives some of an optimizer's parameters a learning rate of their own."""
    chosen = {id(parameter) for parameter in parameters}
    parts = [
        {**group, "lr": own, "params": [p for p in group["params"] if (id(p) in chosen) == is_chosen]}
        for group in optimizer.param_groups
        for is_chosen, own in ((False, group["lr"]), (True, rate))
    ]
    optimizer.param_groups = [part for part in parts if part["params"]]


def shares_in_percent(metrics: dict[str, Any]) -> dict[str, Any]:
    """Metrics as they are printed. Files have them as they are."""
    return {name: in_percent(name, value) for name, value in metrics.items()}


def last_complete_checkpoint(folder: str | Path) -> str | None:
    """The newest checkpoint in a run's output folder that was written to its end, where a killed run resumes."""
    finished = {}
    for state in Path(folder).glob("checkpoint-*/trainer_state.json"):
        with contextlib.suppress(ValueError, KeyError):  # raised where the run was killed while writing
            finished[json.loads(state.read_text())["global_step"]] = str(state.parent)
    return finished[max(finished)] if finished else None
