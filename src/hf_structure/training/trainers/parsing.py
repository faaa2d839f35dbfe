"""The trainer of supervised dependency parsers."""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from transformers import PreTrainedModel

from hf_structure.corpora.collators import pad_words
from hf_structure.metrics.evalb import bracket_counts
from hf_structure.models.abilities import abilities_of
from hf_structure.models.rng_transformer.configuration_rng_transformer import CHAIN
from hf_structure.text.files import new_file
from hf_structure.training.comparison import markdown_table
from hf_structure.training.distillation import Teacher
from hf_structure.training.trainers.scoring import ScoringTrainer
from hf_structure.training.trainers.token_budget import treebanks_of

logger = logging.getLogger(__name__)

SEGMENTER_INPUTS = ("input_ids", "attention_mask", "word_ids", "form_ids", "treebank_ids")


class Counts(NamedTuple):
    """Sums over the evaluated sentences."""

    words: torch.Tensor  # (treebanks, 2, 3 + len(predicted)): of `_count_words`, by the sentence's treebank
    starts: torch.Tensor  # (3,): predicted, true and correctly predicted sentence starts in running text
    brackets: torch.Tensor  # (3,): correctly predicted, predicted and true constituents


class ParsingTrainer(ScoringTrainer):
    """
    Trainer of supervised dependency parsers ([`G2GTransformerForParsing`]).

    Evaluation gives `uas` and `las` of greedy parses over all words, `uas_no_punct` and `las_no_punct` without
    punctuation, and the accuracy of each further predicted column under its name. LAS is omitted for a model without
    labels. Running text adds `sentence_starts_f1`, the F1 of sentence boundaries, and constituency trees
    `constituents_f1`, the F1 of labelled constituents without punctuation.

    For a data set of several treebanks (the column `treebank` names them), `mean_uas`, `mean_las` and so on are means
    over treebanks. The scores of each treebank are logged in percent, and written to the output folder as the table
    `eval_treebanks.md` (or `test_treebanks.md`).

    Args:
        new_parameters (`Sequence[str]`): Names of the parameters with a learning rate of their own.
        new_learning_rate (`float`, *optional*): That learning rate.
        teacher ([`Teacher`], *optional*): A parser whose probabilities are learned in addition to the trees.
        data_collator ([`ParsingCollator`]): Makes batches.
        args, kwargs: As for [`TokenBudgetTrainer`]. The data sets have the columns `length` (in the encoder's
            units), `heads`, `labels`, `punctuation` (a flag for each word), and the inputs of the model.
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
            # A batch may lack running text, or sentences with trees: then some heads get no gradient.
            self.args.ddp_find_unused_parameters = True
        self.new_parameters = new_parameters
        self.new_learning_rate = new_learning_rate
        self.treebank_scores: dict[str, dict[str, float]] = {}  # of the last evaluation of several treebanks

    def own_learning_rate(self, model) -> tuple[Iterable[torch.nn.Parameter], float | None]:
        return map(model.get_parameter, self.new_parameters), self.new_learning_rate

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        taught: Any = inputs.pop("teacher", None)
        # The outputs are needed for the teacher's loss, even if the caller does not want them.
        loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
        if self.teacher is not None and taught is not None:
            num_items: Any = num_items_in_batch
            # The count is over all processes, but gradients are averaged over them.
            if self.args.average_tokens_across_devices:
                num_items = num_items / self.args.world_size
            loss = loss + self.teacher.loss(outputs, taught) / num_items
        return (loss, outputs) if return_outputs else loss

    def scores(self, model, dataset) -> dict[str, float]:
        predicted = self.data_collator.predicted
        treebanks = treebanks_of(dataset)[0] if "treebank" in dataset.column_names else [""]
        counts = self._count_all(model, dataset, treebanks, predicted)
        totals = torch.tensor(self._sum_over_processes(counts.words.flatten().tolist()), dtype=torch.float64)
        totals = totals.view_as(counts.words)
        metrics = self._word_scores(totals.sum(0), model.config.labelled)
        self.treebank_scores = {}
        if len(treebanks) > 1:
            for treebank, own in zip(treebanks, totals, strict=True):
                self.treebank_scores[treebank] = self._word_scores(own, model.config.labelled)
            scores = self.treebank_scores.values()
            metrics |= {f"mean_{name}": sum(each[name] for each in scores) / len(scores) for name in metrics}
        found, true, correct = self._sum_over_processes(counts.starts.tolist())
        if true:
            metrics["sentence_starts_f1"] = 2 * correct / (found + true)
        correct, found, true = self._sum_over_processes(counts.brackets.tolist())
        if true:
            metrics["constituents_f1"] = 2 * correct / (found + true)
        return metrics

    def _count_all(self, model, dataset, treebanks: Sequence[str], predicted: Sequence[str]) -> "Counts":
        """Counts what this process evaluates."""
        numbers = {treebank: number for number, treebank in enumerate(treebanks)}
        counts = Counts(
            torch.zeros(len(treebanks), 2, 3 + len(predicted), dtype=torch.float64),
            torch.zeros(3, dtype=torch.float64),
            torch.zeros(3, dtype=torch.float64),
        )
        for examples in self._batches(dataset):
            # Running text has no trees: only its sentence starts are counted.
            running = [example for example in examples if example.get("sentence_starts") is not None]
            if running:
                counts.starts.add_(self._count_starts(model, running))
            trees = [example for example in examples if example.get("sentence_starts") is None]
            if trees:
                rows = torch.tensor([numbers[example.get("treebank", "")] for example in trees])
                batch: dict[str, Any] = self._prepare_inputs(self.data_collator(trees))
                gold = {name: batch.pop(name, None) for name in ("heads", "labels", "columns", "constituents")}
                parsed: Any = model.decode(**batch)
                counts.words.index_add_(0, rows, self._count_words(trees, gold, parsed, predicted))
                if parsed.spans is not None:
                    counts.brackets.add_(count_brackets(trees, parsed, model.config))
        return counts

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
        """Scores from the counts of [`_count_words`]."""
        metrics = {}
        for suffix, (words, *correct) in zip(("", "_no_punct"), counts.tolist(), strict=True):
            uas, las, *columns = (count / max(words, 1) for count in correct)
            metrics[f"uas{suffix}"] = uas
            if labelled:
                metrics[f"las{suffix}"] = las
            if not suffix:
                metrics |= dict(zip(self.data_collator.predicted, columns, strict=True))
        return metrics

    def _count_words(
        self, examples: list[dict], gold: dict[str, Any], parsed: Any, predicted: Sequence[str]
    ) -> torch.Tensor:
        """
        Counts of shape `(B, 2, 3 + len(predicted))`: words, correct heads, correct heads with labels, and correct
        values of each column in each sentence; over all words, then without punctuation.
        """
        heads = gold["heads"]
        is_word = heads >= 0
        has_head = parsed.heads[:, 0] == heads  # (B, n)
        has_label = has_head
        if "labels" in parsed.columns:
            has_label = has_head & (parsed.columns["labels"][:, 0] == gold["labels"])
        best = [parsed.columns[name][:, 0].reshape(*heads.shape, -1)[..., 0] for name in predicted]  # each (B, n)
        has_value = [values == gold["columns"][name] for values, name in zip(best, predicted, strict=True)]
        counted = [is_word, *(is_word & right for right in (has_head, has_label, *has_value))]
        counted = torch.stack(counted, dim=1).cpu()  # (B, 3 + len(predicted), n)
        is_punctuation = pad_words([example["punctuation"] for example in examples], 0).bool().unsqueeze(1)
        counts = [part.sum(2, dtype=torch.float64) for part in (counted, counted & ~is_punctuation)]
        return torch.stack(counts, dim=1)  # (B, 2, 3 + len(predicted))

    def _count_starts(self, model, examples: list[dict]) -> torch.Tensor:
        """Counts of the predicted, true and correctly predicted sentence starts in running text."""
        batch = self._prepare_inputs(self.data_collator(examples))
        inputs = {name: batch[name] for name in SEGMENTER_INPUTS if name in batch}
        true = batch["sentence_starts"]
        found = (model.sentence_starts(**inputs) > 0.5) & (true >= 0)
        return torch.stack([found.sum(), (true == 1).sum(), (found & (true == 1)).sum()]).cpu()  # (3,)


def count_brackets(examples: list[dict], parsed: Any, config: Any) -> torch.Tensor:
    """Counts `(3,)` of the correct, predicted and true constituents of the sentences that have some."""
    total = torch.zeros(3, dtype=torch.float64)
    for example, spans, labels in zip(examples, parsed.spans.tolist(), parsed.span_labels.tolist(), strict=True):
        if example.get("constituents") is None:
            continue
        gold = []
        for start, end, chain in example["constituents"]:
            gold += [(start, end, label) for label in config.constituents[chain].split(CHAIN)]
        pairs = zip(spans, labels, strict=True)
        found = [(start, end, config.span_labels[label]) for (start, end), label in pairs if start >= 0]
        counts = bracket_counts(found, gold, [not mark for mark in example["punctuation"]])
        total += torch.tensor([counts.matched, counts.predicted, counts.gold])
    return total


def treebank_table(scores: dict[str, dict[str, float]]) -> str:
    """Markdown table of the scores of treebanks and their means, in percent."""
    names = [name for name in next(iter(scores.values())) if not name.endswith("_no_punct")]
    rows = {treebank: [values[name] for name in names] for treebank, values in sorted(scores.items())}
    rows["mean"] = [sum(column) / len(rows) for column in zip(*rows.values(), strict=True)]
    cells = ([treebank, *(f"{100 * value:.2f}" for value in row)] for treebank, row in rows.items())
    return markdown_table(["treebank", *names], cells)
