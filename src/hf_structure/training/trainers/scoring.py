"""The trainer whose evaluation scores a whole data set."""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import torch
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import FSDPModule
from transformers.trainer_utils import speed_metrics

from hf_structure.corpora.batching import token_budget_batches
from hf_structure.corpora.corpus import column_numbers
from hf_structure.training.cards import write_card
from hf_structure.training.trainers.token_budget import TokenBudgetTrainer


class ScoringTrainer(TokenBudgetTrainer):
    """
    Trainer whose evaluation computes metrics over a whole data set; subclasses define [`scores`].

    Each of several processes evaluates its share. The data set needs a column `length`. In a dictionary, each data set
    is evaluated separately and gives metrics such as `eval_NAME_loss`.

    Raises:
        ValueError: if `compute_metrics` or `preprocess_logits_for_metrics` is given: neither is ever called.
    """

    own_parameters = ""  # description of the parameters of `own_learning_rate` on model cards

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for name in ("compute_metrics", "preprocess_logits_for_metrics"):
            if getattr(self, name) is not None:
                trainer = type(self).__name__
                raise ValueError(f"{name} has no effect on {trainer}: further metrics come from the method `scores`")

    def scores(self, model, dataset) -> dict[str, float]:
        """Metrics of a model in evaluation mode, including `loss`; called by all processes together."""
        raise NotImplementedError

    def own_learning_rate(self, model) -> tuple[Iterable[torch.nn.Parameter], float | None]:
        """Parameters with a learning rate of their own, and that rate, or None if all share one."""
        return (), None

    def create_optimizer(self, model=None) -> torch.optim.Optimizer:
        # A script may pass an optimizer with groups of its own.
        is_made = self.optimizer is not None
        optimizer = super().create_optimizer(model)
        unwrapped = self.accelerator.unwrap_model(self.model if model is None else model)
        parameters, rate = self.own_learning_rate(unwrapped)
        # Groups are split after the optimizer is made: weight decay has divided them already.
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
        # Checked at the first evaluation, not at the end of a long run.
        if self.is_in_train:
            self._check_best_metric(metrics)
        return metrics

    def evaluate_set(self, dataset, prefix: str) -> dict[str, float]:
        """Computes and logs the metrics of one data set; their names start with the prefix."""
        start = time.time()
        model = self._whole_model()
        training = model.training
        model.eval()
        with self.compute_loss_context_manager():
            metrics = self.scores(model, dataset)
        model.train(training)
        metrics = {f"{prefix}_{name}": value for name, value in metrics.items()}
        metrics |= speed_metrics(prefix, start, num_samples=len(dataset))
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _check_best_metric(self, metrics: Iterable[str]) -> None:
        name = self.args.metric_for_best_model
        names = [each.removeprefix("eval_") for each in metrics]
        if name is not None and name.removeprefix("eval_") not in names:
            raise ValueError(f"--metric_for_best_model {name}: evaluation gives {', '.join(names)}")

    def _whole_model(self) -> Any:
        """
        The model, or if it is sharded a copy with whole weights. Processes run different numbers of forward passes in
        an evaluation, so that gathering in each pass, which needs all processes, would hang.
        """
        model: Any = self.accelerator.unwrap_model(self.model)
        if FSDPModule not in type(model).__mro__:
            return model
        plain: Any = next(each for each in type(model).__mro__ if not issubclass(each, FSDPModule))
        with self.args.device:
            whole = plain(model.config)
        whole.load_state_dict(get_model_state_dict(model, options=StateDictOptions(full_state_dict=True)))
        return whole

    def create_model_card(self, language=None, license=None, finetuned_from=None, dataset=None, **_: object) -> None:
        """Writes the model card of this library, see [`write_card`]; other arguments of transformers are ignored."""
        if self.is_world_process_zero():
            datasets = [dataset] if isinstance(dataset, str) else dataset
            write_card(self, language=language, license=license, base_model=finetuned_from, datasets=datasets)

    def _batches(self, dataset) -> Iterator[list[dict]]:
        """Batches of the share of this process."""
        batches = token_budget_batches(column_numbers(dataset, "length"), self.max_tokens)
        for batch in batches[self.args.process_index :: self.args.world_size]:
            yield dataset.__getitems__(batch)

    def _sum_over_processes(self, values: Sequence[float]) -> list[float]:
        if self.args.world_size == 1:
            # Some devices have no float64: a single process never leaves the CPU.
            return list(values)
        sums = torch.tensor(values, dtype=torch.float64, device=self.args.device)
        return cast(torch.Tensor, self.accelerator.reduce(sums, reduction="sum")).tolist()


def set_learning_rate(optimizer: torch.optim.Optimizer, parameters: Iterable[torch.nn.Parameter], rate: float) -> None:
    """Moves some of an optimizer's parameters to groups with a learning rate of their own."""
    chosen = {id(parameter) for parameter in parameters}
    parts = [
        {**group, "lr": own, "params": [p for p in group["params"] if (id(p) in chosen) == is_chosen]}
        for group in optimizer.param_groups
        for is_chosen, own in ((False, group["lr"]), (True, rate))
    ]
    optimizer.param_groups = [part for part in parts if part["params"]]
