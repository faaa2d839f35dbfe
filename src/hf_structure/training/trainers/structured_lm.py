"""The trainer of causal language models, with and without structures."""

import logging
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch.optim.lr_scheduler import SequentialLR
from transformers import TrainerCallback
from transformers.loss.loss_utils import ForCausalLMLoss
from transformers.optimization import get_scheduler

from hf_structure.metrics.language_model import SUMS, language_model_scores, language_model_sums
from hf_structure.models.annotations import StructureAnnotation, annotation_class, annotation_of
from hf_structure.training.trainers.scoring import ScoringTrainer
from hf_structure.training.tree_losses import TreeLoss, TreePlanting, TreeRegularization, TreeStep, without_trees

logger = logging.getLogger(__name__)


class _PhaseCallback(TrainerCallback):
    """Clears the optimizer's state when the second phase begins, also in a resumed run."""

    def __init__(self, first_step: int):
        self.first_step = first_step

    def on_step_begin(self, args, state, control, optimizer=None, **kwargs):
        if state.global_step == self.first_step and optimizer is not None:
            optimizer.state.clear()


class StructuredLMTrainer(ScoringTrainer):
    """
    Trainer of causal language models that read graphs or trees, such as [`GiLTForCausalLM`], and of plain ones.

    The names of metrics say which structures the model was given: `perplexity_gold_graphs`,
    `arc_f1_predicted_graphs`, `perplexity_gold_trees` and so on, see [`language_model_scores`]. A plain model has
    `perplexity` and `word_perplexity`. `loss` is the training objective, given the gold structures if the model reads
    any.

    Args:
        base_learning_rate (`float`, *optional*): Learning rate of the parameters that a graft takes from its base
            model; the same as the others' by default.
        lm_only_steps (`int`): Number of steps in a first phase that trains the language model alone, given the gold
            structures, and not the scorer of structures. Each phase has a full schedule of the learning rates and
            starts with a fresh optimizer state. Without structures there is only one phase.
        lm_only_warmup_steps (`float`): Warm-up steps of the first phase, or their share if below 1;
            `args.warmup_steps` applies to the second phase.
        max_predicted_sentences (`int`): Number of sentences, spread over the data set, for which evaluation predicts
            structures.
        tree_loss ([`~hf_structure.training.tree_losses.TreeRegularization`] or
            [`~hf_structure.training.tree_losses.TreePlanting`], *optional*): A loss of trees for a model without
            structures. The mean of its values is logged as `tree_loss`.
        data_collator (`Callable`): Makes batches with `labels`: the collator of the model's
            [`~hf_structure.models.annotations.StructureAnnotation`], or a [`CausalCollator`].
        args, kwargs: As for [`TokenBudgetTrainer`]. The data sets have the columns `length` and `num_words`, and the
            inputs of the collator.
    """

    own_parameters = "the parameters of the base model"

    def __init__(
        self,
        *args,
        base_learning_rate: float | None = None,
        lm_only_steps: int = 0,
        lm_only_warmup_steps: float = 0.4,
        max_predicted_sentences: int = 0,
        tree_loss: TreeLoss | None = None,
        **kwargs,
    ):
        super().__init__(*args, **kwargs)
        self.base_learning_rate = base_learning_rate
        model: Any = self.model
        self.lm_only_steps = 0 if annotation_of(model.config) is None else lm_only_steps
        self.lm_only_warmup_steps = lm_only_warmup_steps
        self.full_loss_func = self.compute_loss_func
        self.max_predicted_sentences = max_predicted_sentences
        if self.lm_only_steps:
            # The scorer's parameters get no gradient in the first phase.
            self.args.ddp_find_unused_parameters = True
            self.add_callback(_PhaseCallback(self.lm_only_steps))
        self.tree_loss: Any = tree_loss
        self._tree_losses: list[torch.Tensor] = []
        if isinstance(tree_loss, TreeRegularization):
            # The parameters above the layer of the states get no gradient.
            self.args.ddp_find_unused_parameters = True
            self.add_callback(TreeStep(self))

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
            # The second phase has a schedule of its own, with its own warm-up.
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

    def compute_loss(self, model, inputs, return_outputs: bool = False, num_items_in_batch: Any = None):
        # A model that is given no labels scores no structures.
        is_first_phase = self.state.global_step < self.lm_only_steps
        self.compute_loss_func = language_model_loss if is_first_phase else self.full_loss_func
        if not isinstance(self.tree_loss, TreePlanting):
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        text = without_trees(inputs) | {"output_attentions": True}
        loss, outputs = super().compute_loss(model, text, True, num_items_in_batch)
        tree_loss = self.tree_loss.loss(outputs, inputs)
        self._tree_losses.append(tree_loss.detach())
        loss = loss + self.tree_loss.weight * self._share(inputs["labels"], num_items_in_batch) * tree_loss
        return (loss, outputs) if return_outputs else loss

    def _share(self, labels: torch.Tensor, num_items_in_batch: Any) -> torch.Tensor | float:
        """Share of a batch in a step of several, as its loss of text has; 1 if batches are averaged later."""
        if num_items_in_batch is None or not self.model_accepts_loss_kwargs:
            return 1.0
        # Averaged over processes later, whereas the number of tokens is of all of them.
        processes = self.accelerator.num_processes if self.args.average_tokens_across_devices else 1
        return processes * (labels != -100).sum() / num_items_in_batch

    def tree_step(self, number: int) -> None:
        """Takes the step of tree regularization of this number, counted from 0, at the current learning rate."""
        batch = self._prepare_inputs(self.tree_loss.batch(number))
        # Of several processes, all are wrapped, so that their gradients are averaged.
        model: Any = self.model_wrapped
        model.train()
        with self.compute_loss_context_manager():
            loss = self.tree_loss.loss(model, batch)
        self.accelerator.backward(loss)
        if self.args.max_grad_norm > 0:
            self._clip_grad_norm(model)
        optimizer: Any = self.optimizer
        optimizer.step()
        model.zero_grad()
        self._tree_losses.append(loss.detach())

    def log(self, logs: dict[str, float], *args, **kwargs) -> None:
        if "loss" in logs and self._tree_losses:
            mean: Any = self.accelerator.reduce(torch.stack(self._tree_losses).mean(), reduction="mean")
            logs["tree_loss"] = mean.item()
            self._tree_losses = []
        super().log(logs, *args, **kwargs)

    def scores(self, model, dataset) -> dict[str, float]:
        sums = self._sums(model, dataset)
        metrics = {"loss": sums["loss"] / sums["tokens"], "tokens_per_word": sums["read"] / sums["words"]}
        annotation = self._annotation(model, dataset)
        if annotation is None:
            return metrics | language_model_scores(sums)
        kind = annotation.structures
        metrics |= {f"{name}_gold_{kind}": value for name, value in language_model_scores(sums, annotation).items()}
        if self.max_predicted_sentences:
            # Every n-th sentence: the search is too slow for all of them.
            some = dataset.select(range(0, len(dataset), -(-len(dataset) // self.max_predicted_sentences)))
            predicted = language_model_scores(self._sums(model, some, predict_structures=True), annotation)
            metrics |= {f"{name}_predicted_{kind}": value for name, value in predicted.items()}
            metrics[f"sentences_predicted_{kind}"] = len(some)
        return metrics

    def _sums(self, model, dataset, predict_structures: bool = False) -> dict[str, float]:
        annotation = self._annotation(model, dataset)
        names = SUMS if annotation is None else (*SUMS, *annotation.sums)
        totals = dict.fromkeys(names, 0.0)
        for examples in self._batches(dataset):
            batch = self._prepare_inputs(self.data_collator(examples))
            words = sum(example["num_words"] for example in examples)
            with self.accelerator.autocast():
                sums = language_model_sums(model, batch, words, annotation, predict_structures)
            totals = {name: total + sums[name] for name, total in totals.items()}
        return dict(zip(names, self._sum_over_processes(list(totals.values())), strict=True))

    def _annotation(self, model, dataset) -> StructureAnnotation | None:
        """The annotation of the structures in a data set; None if it has none, or the model reads none."""
        annotation = annotation_of(model.config)
        return annotation if annotation is not None and annotation.column in dataset.column_names else None


def base_parameters(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    """Parameters that a graft takes from its base model: none of a model from scratch, all of a plain loaded one."""
    config: Any = model.config
    if annotation_class(config) is None:
        return list(model.parameters()) if config.name_or_path else []
    if config.base_config is None:
        return []
    # A graft puts the base model there; its own parameters are outside.
    return [p for name, p in model.named_parameters() if name.startswith(("model.backbone.", "lm_head."))]


def language_model_loss(outputs, labels: torch.Tensor, num_items_in_batch: Any) -> torch.Tensor:
    """Cross-entropy of the next tokens, without the loss of structures."""
    return ForCausalLMLoss(outputs.logits, labels, outputs.logits.shape[-1], num_items_in_batch)
