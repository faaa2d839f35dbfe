"""The trainer of classifiers of sentences and of sentence pairs."""

import torch

from hf_structure.training.trainers.task import TaskTrainer


class SentenceTrainer(TaskTrainer):
    """
    Trainer of classifiers of sentences or sentence pairs, and of regressions, such as
    [`UDGNForSequenceClassification`], with a [`SentenceCollator`]. Arguments and metrics are as for [`TaskTrainer`].
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
