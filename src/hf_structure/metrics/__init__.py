"""Metrics: plain functions, and folders over them that `evaluate.load` takes."""

from hf_structure.metrics.attachment import AttachmentScores, attachment_scores, score_sentences

__all__ = ["AttachmentScores", "attachment_scores", "score_sentences"]
