"""Metrics: plain functions, and folders around them for `evaluate.load`."""

from hf_structure.metrics.attachment import (
    AttachmentScores,
    attachment_scores,
    left_chain,
    right_chain,
    score_sentences,
)
from hf_structure.metrics.conll18 import AlignedScore, conll18_scores
from hf_structure.metrics.constituency import (
    ConstituencyScores,
    LabelRecall,
    label_recall,
    left_branching,
    one_headed_share,
    random_tree,
    right_branching,
    tree_depth,
    unlabeled_f1,
)
from hf_structure.metrics.error_analysis import ClassScores, ErrorAnalysis, error_analysis
from hf_structure.metrics.graphs import ArcScores, arc_scores

__all__ = [
    "AlignedScore",
    "ArcScores",
    "AttachmentScores",
    "ClassScores",
    "ConstituencyScores",
    "ErrorAnalysis",
    "LabelRecall",
    "arc_scores",
    "attachment_scores",
    "conll18_scores",
    "error_analysis",
    "label_recall",
    "left_branching",
    "left_chain",
    "one_headed_share",
    "random_tree",
    "right_branching",
    "right_chain",
    "score_sentences",
    "tree_depth",
    "unlabeled_f1",
]
