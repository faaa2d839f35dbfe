"""`evaluate.load("<this folder>")`: unlabelled F1 of constituency trees, see `hf_structure.metrics.constituency`."""

from dataclasses import asdict

import datasets
import evaluate

from hf_structure.metrics.constituency import unlabeled_f1

_DESCRIPTION = """
Unlabelled F1 of constituency trees: the mean of the sentences' F1 (UF1), and precision, recall and F1 over the
constituents of the whole corpus. By default, sets of spans without single words and whole sentences are compared.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions, references: per sentence the list of its constituents, each a pair [start, end]: words are numbered
        from 0, and the end is the first word after the constituent.
    lengths: per sentence the number of words.
    count_single_words, count_whole_sentences: whether constituents of one word, and of all words, count.
    count_duplicates: whether a span that occurs n times counts n times or once.
    empty_gold: what a sentence without gold constituents counts, "recall" (recall is 1), "one", "zero" or "skip".
    min_length, max_length: sentences of fewer or more words are left out.
Returns:
    uf1; precision, recall, f1 of the corpus: shares between 0 and 1. depth, gold_depth: mean depth of the trees.
    sentences, matched, predicted, gold: what was counted.
Examples:
    >>> metric = evaluate.load("unlabeled_f1")
    >>> scores = metric.compute(predictions=[[[0, 3], [0, 2]]], references=[[[0, 3], [1, 3]]], lengths=[3])
    >>> scores["uf1"], scores["gold"]
    (0.0, 1)
"""

_SPANS = datasets.Sequence(datasets.Sequence(datasets.Value("int64")))


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class UnlabeledF1(evaluate.Metric):
    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation="",
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({"predictions": _SPANS, "references": _SPANS}),
        )

    def _compute(self, predictions, references, lengths, **options) -> dict[str, float | int]:
        return asdict(unlabeled_f1(predictions, references, lengths, **options))
