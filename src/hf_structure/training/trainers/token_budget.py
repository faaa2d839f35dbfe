"""`Trainer` with batches under a token budget."""

import logging
from typing import Any, cast

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset
from transformers import Trainer, TrainerCallback
from transformers.trainer_callback import ExportableState, PrinterCallback, ProgressCallback
from transformers.trainer_utils import TrainOutput

from hf_structure.corpora.batching import TokenBudgetBatchSampler
from hf_structure.corpora.corpus import column_numbers
from hf_structure.hub.cards import in_percent
from hf_structure.training.arguments import has_warmup
from hf_structure.training.launching import check_gpus

logger = logging.getLogger(__name__)


class _EpochCallback(TrainerCallback):
    """Sets the epoch of the sampler and the collator, also in a resumed run."""

    def __init__(self, trainer: "TokenBudgetTrainer"):
        self.trainer = trainer

    def on_epoch_begin(self, args, state, control, **kwargs):
        # A resumed run has a fraction of an epoch, with a rounding error.
        epoch = int((state.epoch or 0.0) + 1e-6)
        parts: tuple[Any, Any] = (self.trainer.batch_sampler, self.trainer.data_collator)
        for part in parts:
            # A stream has no sampler, and some collators do not depend on the epoch.
            if hasattr(part, "set_epoch"):
                part.set_epoch(epoch)


class _LossCallback(TrainerCallback, ExportableState):
    """Sums the losses of all steps of a run; the sum is saved in checkpoints."""

    def __init__(self):
        self.total = 0.0
        self.first_step = 0

    def state(self) -> dict:
        return {"args": {}, "attributes": {"total": self.total, "first_step": self.first_step}}

    def on_train_begin(self, args, state, control, **kwargs):
        self.total = 0.0
        self.first_step = state.global_step
        callbacks: Any = state.stateful_callbacks  # keyed by name once saved
        kept = callbacks.setdefault(type(self).__name__, self.state())
        # A run resumed from a checkpoint without this sum counts its losses from here on.
        if state.global_step:
            self.total = kept["attributes"]["total"]
            self.first_step = kept["attributes"]["first_step"]


class _InPercent(TrainerCallback):
    """Logs shares in percent, as model cards and tables do."""

    def on_log(self, args, state, control, logs=None, **kwargs):
        super().on_log(args, state, control, logs=shares_in_percent(logs or {}), **kwargs)


class _ProgressInPercent(_InPercent, ProgressCallback):
    """Logs below a progress bar."""


class _PrinterInPercent(_InPercent, PrinterCallback):
    """Logs in runs without progress bars."""


class TokenBudgetTrainer(Trainer):
    """
    [`~transformers.Trainer`] whose training batches hold sentences of similar length under a token budget. Its
    `train_loss` is the mean over all steps of a run, including those before an interruption.

    Args:
        max_tokens (`int`): Token budget of a batch on one device, including padding.
        max_sentences (`int`, *optional*): Maximum number of sentences in a training batch on one device.
        sampling_power (`float`): Sentences are drawn from each treebank (the training dataset's column `treebank`)
            in proportion to its size raised to this power, see [`~hf_structure.corpora.batching.sample_groups`].
        args, kwargs: As for [`~transformers.Trainer`]; the settings in
            [`~hf_structure.training.arguments.IGNORED`] have no effect here. The training dataset has a column
            `length`, or it is a [`~hf_structure.training.streaming.TextStream`] of batches.
    """

    # `Trainer` declares narrower types.
    data_collator: Any
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
        # Kept on the device between logs: reading each loss would synchronise at every step.
        self._losses = 0.0
        self.add_callback(_EpochCallback(self))
        self.add_callback(_LossCallback)
        for usual, ours in ((ProgressCallback, _ProgressInPercent), (PrinterCallback, _PrinterInPercent)):
            if self.pop_callback(usual) is not None:
                self.add_callback(ours)

    def train(self, *args, **kwargs) -> TrainOutput:
        check_gpus(self.args)
        self._losses = 0.0
        result = super().train(*args, **kwargs)
        # transformers' own mean leaves out the steps before an interruption.
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
        # One overflow must not spoil the mean of a whole run.
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
        """Adds the losses since the last call, averaged over processes, to the total."""
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
        # A stream yields whole batches, made by the collator already.
        if isinstance(self.train_dataset, IterableDataset):
            return DataLoader(self.train_dataset, batch_size=None, **options)
        self.batch_sampler = TokenBudgetBatchSampler(
            column_numbers(self.train_dataset, "length"),
            self.max_tokens,
            max_sentences=self.max_sentences,
            # Names are looked up only if they are needed: the column may be missing.
            groups=treebanks_of(self.train_dataset)[1] if self.sampling_power != 1 else None,
            sampling_power=self.sampling_power,
            seed=self.args.data_seed if self.args.data_seed is not None else self.args.seed,
            num_replicas=self.args.world_size,
            rank=self.args.process_index,
        )
        return DataLoader(
            self.train_dataset, batch_sampler=self.batch_sampler, collate_fn=self.data_collator, **options
        )


def shares_in_percent(metrics: dict[str, Any]) -> dict[str, Any]:
    """Metrics as they are printed; files keep the raw values."""
    return {name: in_percent(name, value) for name, value in metrics.items()}


def treebanks_of(dataset) -> tuple[list[str], np.ndarray]:
    """Distinct names in the column `treebank` of a data set, and the index of each row's name."""
    names, numbers = np.unique(dataset["treebank"][:], return_inverse=True)
    return names.tolist(), numbers
