"""From sentences to dependency graphs, for models that search for them with a beam (GiLT)."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from hf_structure.structures.dependency_graph import DependencyGraph
from hf_structure.structures.parse import Parse

BEAM_SIZE = 16  # by default: probabilities of arcs need several graphs


def builds_structures(model: PreTrainedModel) -> bool:
    """Whether it is a language model that builds structures while it reads."""
    return getattr(model.config, "structure_layers", 0) > 0


def gives_graphs(model: PreTrainedModel) -> bool:
    """Whether the structures that a model gives are graphs."""
    return "graph" in model.structures


def decode_graphs(
    model: PreTrainedModel,
    batch: Mapping[str, torch.Tensor],
    *,
    decoder: str = "tree",
    k: int = 1,
    beam_size: int | None = None,
    marginals: bool = False,
) -> dict[str, torch.Tensor]:
    """
    The best graphs of a batch of sentences.

    The probability of a graph is its share in the beam's, p(x, y) / sum over y' of p(x, y'), and that of an arc is the
    sum of the probabilities of the graphs in the beam that have it.

    Args:
        model (`PreTrainedModel`): A model with `beam_search`.
        batch (`Mapping[str, torch.Tensor]`): `input_ids`, `word_ids` and `attention_mask`.
        decoder (`str`): `"tree"`, what every model understands; graphs have no other.
        k (`int`): Number of graphs.
        beam_size (`int`, *optional*): Graphs followed; by default 16, or `4 * k` if that is more.
        marginals (`bool`): Whether `marginals` are returned.

    Returns:
        `dict[str, torch.Tensor]`: `graphs` of shape `(batch_size, k, n + 1, n + 1)`, their `log_probs` of shape
            `(batch_size, k)` (`-inf` where there are fewer), and, if more than one is followed, `arc_probs` of shape
            `(batch_size, n + 1, n + 1)`, heads in rows; with `marginals` the same for words alone, dependents in
            rows.

    Raises:
        ValueError: another decoder, `k` that is not between 1 and `beam_size`, marginals of one graph.
    """
    if decoder != "tree":
        raise ValueError(f"{type(model).__name__} finds graphs with a beam alone: leave decoder out")
    beam_size = max(BEAM_SIZE, 4 * k) if beam_size is None else beam_size
    if not 1 <= k <= beam_size:
        raise ValueError(f"k={k} is not possible with beam_size={beam_size}: it must be between 1 and beam_size")
    if marginals and beam_size == 1:
        raise ValueError("marginals are over the graphs of a beam: they need a beam_size above 1")
    found = model.beam_search(**batch, beam_size=beam_size, k=beam_size)
    log_probs = found.graph_log_probs.double().log_softmax(1)
    decoded = {"graphs": found.graphs[:, :k], "log_probs": log_probs[:, :k]}
    if beam_size > 1:
        decoded["arc_probs"] = torch.einsum("bk,bkhd->bhd", log_probs.exp(), found.graphs.double()).clamp(max=1.0)
    if marginals:
        decoded["marginals"] = decoded["arc_probs"].transpose(1, 2)[:, 1:]
    return decoded


def assemble_graphs(
    words: Sequence[str], decoded: Mapping[str, torch.Tensor], row: int, source: Mapping[str, Any]
) -> Parse:
    """Parse of the sentence of these words, in one row of what [`decode_graphs`] gave (tensors on the CPU)."""
    size, graphs = len(words) + 1, []
    arc_probs = decoded["arc_probs"][row] if "arc_probs" in decoded else None
    for graph, log_prob in zip(decoded["graphs"][row], decoded["log_probs"][row].tolist(), strict=True):
        if log_prob == float("-inf"):
            break  # there are no more graphs
        arcs = graph[:size, :size].nonzero()
        probabilities = None if arc_probs is None else arc_probs[tuple(arcs.T)].tolist()
        graphs.append(DependencyGraph(words, arcs, None, probabilities, log_prob))
    parts: dict[str, Any] = {"alternatives": graphs if decoded["graphs"].shape[1] > 1 else ()}
    if "marginals" in decoded:
        parts["marginals"] = decoded["marginals"][row, : size - 1, :size]
    return Parse(words, graph=graphs[0], **parts, **source)


__all__ = ["assemble_graphs", "builds_structures", "decode_graphs", "gives_graphs"]
