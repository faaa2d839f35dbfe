"""`evaluate.load("<this folder>")`: UAS, LAS and their undirected forms, see `hf_structure.metrics.attachment`."""

from dataclasses import asdict

import datasets
import evaluate

from hf_structure.metrics.attachment import attachment_scores

_DESCRIPTION = """
Attachment scores of dependency trees over all words of a corpus: UAS (head), LAS (head and label) and their undirected
forms UUAS and ULAS (unordered pairs of word and head, a root word being a pair with itself).
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions, references: one item a sentence. Either the list of its words' heads (words are numbered from 1, 0 is
        the root), or a dict with the lists `heads` and `labels`.
    keep: per sentence a list of booleans, which words are scored; all by default. `keep_mask` of
        `hf_structure.text.normalization` makes them of any tags and labels, so that punctuation is not scored.
    ignore_labels: words with these gold labels are not scored, for example ["punct"] of Universal Dependencies.
    universal_labels: whether labels are compared without their subtype (`nsubj:pass` as `nsubj`).
    undirected: what uuas and ulas count, "pairs" (the default: a pair that is predicted from both ends counts once) or
        "words" (it counts twice, as in StructFormer's released code).
Returns:
    uas, uuas: shares between 0 and 1; las, ulas: the same with labels, left out without labels.
    sentences, words, pairs: what was counted.
Examples:
    >>> metric = evaluate.load("attachment_score")
    >>> metric.compute(predictions=[[2, 0, 2]], references=[[0, 1, 2]])
    {'uas': 0.3333333333333333, 'uuas': 0.6666666666666666, 'sentences': 1, 'words': 3, 'pairs': 3}
"""

_HEADS = datasets.Sequence(datasets.Value("int64"))
_LABELLED = {"heads": _HEADS, "labels": datasets.Sequence(datasets.Value("string"))}


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class AttachmentScore(evaluate.Metric):
    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation="",
            inputs_description=_KWARGS_DESCRIPTION,
            features=[
                datasets.Features({"predictions": _LABELLED, "references": _LABELLED}),
                datasets.Features({"predictions": _HEADS, "references": _HEADS}),
            ],
        )

    def _infer_feature_from_example(self, example: dict) -> datasets.Features:
        # evaluate tries the formats one after another and fails on arrays
        return self.features[0 if isinstance(example["predictions"], dict) else 1]

    def _compute(self, predictions, references, **options) -> dict[str, float | int]:
        if isinstance(predictions[0], dict):
            options["predicted_labels"] = [sentence["labels"] for sentence in predictions]
            options["gold_labels"] = [sentence["labels"] for sentence in references]
            predictions = [sentence["heads"] for sentence in predictions]
            references = [sentence["heads"] for sentence in references]
        scores = asdict(attachment_scores(predictions, references, **options))
        return {name: value for name, value in scores.items() if value is not None}
