"""Metrics: plain functions, and folders over them that `evaluate.load` takes."""

from hf_structure.metrics.attachment import AttachmentScores, attachment_scores, score_sentences
from hf_structure.metrics.constituency import (
    ConstituencyScores,
    LabelRecall,
    label_recall,
    left_branching,
    random_tree,
    right_branching,
    tree_depth,
    unlabeled_f1,
)

__all__ = [
    "AttachmentScores",
    "ConstituencyScores",
    "LabelRecall",
    "attachment_scores",
    "label_recall",
    "left_branching",
    "random_tree",
    "right_branching",
    "score_sentences",
    "tree_depth",
    "unlabeled_f1",
]
