"""Outputs of the Graph-to-Graph Transformer."""

from dataclasses import dataclass

import torch
from transformers.utils import ModelOutput


@dataclass
class TransitionParserOutput(ModelOutput):
    """
    Output of a transition-based parser on the way to given trees.

    Args:
        loss (`torch.FloatTensor` of shape `(1,)`, returned when `heads` and labels are given): Training loss.
        logits (`torch.FloatTensor` of shape `(batch_size, steps, num_actions)`):
            Scores of the actions, legal or not; 0 in steps with nothing to decide.
        label_logits (`torch.FloatTensor` of shape `(batch_size, steps, 2 * num_labels)`, *optional*):
            Scores of the labels of a left arc and of a right arc; 0 in steps with nothing to decide.
        actions (`torch.LongTensor` of shape `(batch_size, steps)`):
            The actions that make the trees, numbered as in `hf_structure.algorithms.transitions`; -1 after the last.
    """

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None
    label_logits: torch.Tensor | None = None
    actions: torch.Tensor | None = None
