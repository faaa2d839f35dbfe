"""The trainer of language models on a task."""

import numpy as np
import torch

from hf_structure.corpora.collators import IGNORE_INDEX
from hf_structure.corpora.tasks import Task
from hf_structure.metrics.tasks import classification_scores, similarity_scores
from hf_structure.training.trainers.scoring import ScoringTrainer


class TaskTrainer(ScoringTrainer):
    """
    Trainer of language models on a task: a classification by the word that follows a prompt, or a regression.

    The loss is the cross-entropy of the tokens of those words only, or the squared error. Evaluation gives it as
    `loss`, with the metrics of [`classification_scores`] (the class with the likeliest word is predicted) or
    [`similarity_scores`], and `score`, the mean of the metrics that the task reports. If the rows come from several
    files, all metrics are given for each file too, as `sts12_loss` and so on. Afterwards `predictions` holds the class
    indices, or scores, in the order of the rows.

    Args:
        task ([`Task`]): The task.
        data_collator ([`TaskCollator`]), args, kwargs: As for [`TokenBudgetTrainer`]. The data sets have the columns
            `length`, `file` (its name) and the inputs of the collator.
    """

    def __init__(self, *args, task: Task, **kwargs):
        super().__init__(*args, compute_loss_func=self.class_loss if task.classes else squared_error, **kwargs)
        self.task = task
        self.predictions: list[int] | list[float] = []

    @staticmethod
    def class_loss(outputs, labels: torch.Tensor, num_items_in_batch: torch.Tensor | int | None) -> torch.Tensor:
        """Mean cross-entropy of the tokens of the classes' words."""
        count = (labels != IGNORE_INDEX).sum() if num_items_in_batch is None else num_items_in_batch
        return label_losses(outputs.logits, labels).sum() / count

    def scores(self, model, dataset) -> dict[str, float]:
        # Each process fills in the rows of its share; the sum over processes has all of them.
        outputs = torch.zeros(len(dataset), max(len(self.task.classes), 1), dtype=torch.float64)
        for examples in self._batches(dataset.add_column("index", list(range(len(dataset))))):
            outputs[[example["index"] for example in examples]] = self._outputs(model, examples).cpu().double()
        sums = self._sum_over_processes(outputs.flatten().tolist())
        outputs = torch.tensor(sums, dtype=torch.float64).view_as(outputs)  # (rows, classes or 1)
        gold = torch.tensor(dataset["label"][:], dtype=torch.long if self.task.classes else torch.float32)
        self.predictions = (outputs.argmax(1) if self.task.classes else outputs[:, 0]).tolist()
        metrics = self._metrics(outputs, gold)
        files = np.array(dataset["file"][:])
        # With a single file, its metrics would repeat the overall ones.
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
        """Number of tokens that the cross-entropy is averaged over."""
        return sum(len(self.data_collator.label_ids[number]) for number in gold)

    @torch.no_grad()
    def _outputs(self, model, examples) -> torch.Tensor:
        """Log-likelihoods of the classes' words, `(batch_size, classes)`, or predicted scores, `(batch_size, 1)`."""
        columns = []
        classes = range(len(self.task.labels)) if self.task.labels else [None]
        for number in classes:
            batch = {name: value.to(model.device) for name, value in self.data_collator(examples, number).items()}
            # Given labels, the model would compute a loss of its own.
            labels = batch.pop("labels")
            with self.accelerator.autocast():
                logits = model(**batch).logits
            columns.append(-label_losses(logits, labels).sum(1) if self.task.labels else logits.squeeze(1))
        return torch.stack(columns, dim=1)  # (batch_size, classes or 1)


def label_losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropies `(batch_size, num_targets)` of the labels of [`TaskCollator`]; 0 where there is no label."""
    by_class = logits.float().transpose(1, 2)  # (batch_size, vocab_size, num_targets)
    return torch.nn.functional.cross_entropy(by_class, labels[:, 1:], reduction="none")


def squared_error(outputs, labels: torch.Tensor, num_items_in_batch: torch.Tensor | int | None) -> torch.Tensor:
    """Mean squared error of scores."""
    count = len(labels) if num_items_in_batch is None else num_items_in_batch
    return (outputs.logits.float().squeeze(1) - labels).square().sum() / count
