"""`Trainer` over batches of a token budget, and its form for masked language models that parse."""

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback
from transformers.trainer_utils import speed_metrics

from hf_structure.data.batching import TokenBudgetBatchSampler, token_budget_batches
from hf_structure.data.collators import WordCollator
from hf_structure.metrics.attachment import attachment_scores
from hf_structure.metrics.constituency import unlabeled_f1
from hf_structure.metrics.perplexity import masked_log_likelihood, masked_perplexity


class _EpochCallback(TrainerCallback):
    """Tells sampler and collator which epoch begins, also in a resumed run."""

    def __init__(self, trainer: "TokenBudgetTrainer"):
        self.trainer = trainer

    def on_epoch_begin(self, args, state, control, **kwargs):
        epoch = int((state.epoch or 0.0) + 1e-6)
        for part in (self.trainer.batch_sampler, self.trainer.data_collator):
            if hasattr(part, "set_epoch"):
                part.set_epoch(epoch)


class TokenBudgetTrainer(Trainer):
    """
    [`~transformers.Trainer`] whose training batches hold sentences of similar lengths under a budget of tokens.

    Args:
        max_tokens (`int`): Budget of a batch on one device, padding counted.
        args, kwargs: As for [`~transformers.Trainer`]; `per_device_train_batch_size` has no meaning here. The training
            dataset has a column `length`.
    """

    def __init__(self, *args, max_tokens: int = 4096, **kwargs):
        super().__init__(*args, **kwargs)
        self.max_tokens = max_tokens
        self.batch_sampler = None
        self.add_callback(_EpochCallback(self))

    def get_train_dataloader(self) -> DataLoader:
        self.batch_sampler = TokenBudgetBatchSampler(
            self.train_dataset["length"],
            self.max_tokens,
            seed=self.args.data_seed if self.args.data_seed is not None else self.args.seed,
            num_replicas=self.args.world_size,
            rank=self.args.process_index,
        )
        return DataLoader(
            self.train_dataset,
            batch_sampler=self.batch_sampler,
            collate_fn=self.data_collator,
            num_workers=self.args.dataloader_num_workers,
            pin_memory=self.args.dataloader_pin_memory and self.args.device.type == "cuda",
        )


class MaskedLMTrainer(TokenBudgetTrainer):
    """
    Trainer of masked language models that induce structure.

    Evaluation gives the masked loss and perplexity over `num_maskings` seeded maskings, and of the structures that
    the model gives: where the dataset has `heads`, UAS and UUAS of trees and of argmax heads; where it has `spans`,
    UF1 (the sentence mean of unlabelled F1, single words and whole sentences left out). All is about words the model
    sees. With several processes each evaluates its share.

    Args:
        data_collator ([`MaskedWordCollator`]): Masks the training text, and with epochs 0, 1, ... the evaluation text.
        num_maskings (`int`): Number of maskings of the evaluation text.
        args, kwargs: As for [`TokenBudgetTrainer`].
    """

    def __init__(self, *args, num_maskings: int = 5, **kwargs):
        super().__init__(*args, **kwargs)
        self.num_maskings = num_maskings

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix: str = "eval") -> dict[str, float]:
        dataset = self.eval_dataset if eval_dataset is None else eval_dataset
        start = time.time()
        model = self.accelerator.unwrap_model(self.model)
        training = model.training
        model.eval()
        with self.compute_loss_context_manager():
            loss, perplexity = self._perplexity(model, dataset)
        metrics = {"loss": loss, "perplexity": perplexity}
        structures = getattr(model, "structures", ())
        if "dependency" in structures and "heads" in dataset.column_names:
            for decoder, suffix in (("tree", ""), ("argmax", "_argmax")):
                uas, uuas = self._attachment(model, dataset, decoder)
                metrics |= {f"uas{suffix}": uas, f"uuas{suffix}": uuas}
        if "constituency" in structures and "spans" in dataset.column_names:
            metrics["uf1"] = self._uf1(model, dataset)
        model.train(training)
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in metrics.items()}
        metrics |= speed_metrics(metric_key_prefix, start, num_samples=len(dataset))
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _batches(self, dataset) -> Iterator[list[dict]]:
        """This process's share of the dataset."""
        batches = token_budget_batches(dataset["length"], self.max_tokens)
        for batch in batches[self.args.process_index :: self.args.world_size]:
            yield [dataset[index] for index in batch]

    def _sum_over_processes(self, values: Sequence[float]) -> list[float]:
        sums = torch.tensor(values, dtype=torch.float64, device=self.args.device)
        return self.accelerator.reduce(sums, reduction="sum").tolist()

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
        collate = WordCollator(self.data_collator.pad_token_id)
        for batch in self._batches(dataset):
            inputs = {name: value.to(model.device) for name, value in collate(batch).items() if name != "heads"}
            decoded = model.decode(**inputs, **options)
            yield batch, {name: value.tolist() for name, value in decoded.items()}

    def _attachment(self, model, dataset, decoder: str) -> tuple[float, float]:
        predicted, gold = [], []
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
        predicted, gold, lengths = [], [], []
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


def last_complete_checkpoint(folder: str | Path) -> str | None:
    """
    The newest checkpoint folder of `Trainer` that was written to its end, so that a killed run resumes from it.

    Args:
        folder (`str` or `Path`): Output folder of the run.
    """
    finished = {}
    for state in Path(folder).glob("checkpoint-*/trainer_state.json"):
        with contextlib.suppress(json.JSONDecodeError, KeyError):  # raised where the run was killed while writing
            finished[json.loads(state.read_text())["global_step"]] = str(state.parent)
    return finished[max(finished)] if finished else None


__all__ = ["MaskedLMTrainer", "TokenBudgetTrainer", "last_complete_checkpoint"]
