"""From what a model decodes to parses."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from hf_structure.abilities import Column
from hf_structure.algorithms.trees import restore_spans, restore_words
from hf_structure.modeling_outputs import DecoderOutput
from hf_structure.structures.constituency_tree import ConstituencyTree
from hf_structure.structures.dependency_graph import DependencyGraph
from hf_structure.structures.dependency_tree import DependencyTree
from hf_structure.structures.distances import SyntacticDistances
from hf_structure.structures.parse import Parse


def sentences_of(decoded: DecoderOutput) -> list[dict[str, Any]]:
    """What was decoded for each sentence of a batch, without the first dimension, on the CPU."""
    columns = {name: values.cpu() for name, values in (decoded.columns or {}).items()}
    tensors = {name: values.cpu() for name, values in decoded.items() if name != "columns"}
    size = len(next(iter(tensors.values())))
    return [
        {name: values[row] for name, values in tensors.items()}
        | {"columns": {name: values[row] for name, values in columns.items()}}
        for row in range(size)
    ]


def assemble_parse(
    encoded: Mapping[str, Any],
    decoded: Mapping[str, Any],
    structures: Sequence[str],
    columns: Sequence[Column],
    punctuation: str = "attach",
) -> Parse:
    """
    Parse of a sentence.

    Args:
        encoded (`Mapping[str, Any]`): What [`~hf_structure.pipelines.encoding.encode_sentence`] gave.
        decoded (`Mapping[str, Any]`): One of what [`sentences_of`] gave.
        structures (`Sequence[str]`): The kinds of structure asked for.
        columns (`Sequence[Column]`): What the model says of each word.
        punctuation (`str`): As for [`~hf_structure.parse`].

    Raises:
        ValueError: if there are marginals, but no dependencies are asked for.
    """
    if "graph" in structures:
        return Parse(_seen(encoded), **_graphs(_seen(encoded), decoded), **_seen_source(encoded))
    if "marginals" in decoded and "dependency" not in structures:
        raise ValueError("marginals are about dependencies: they need the structure 'dependency' or 'both'")
    parts = {"distances": _distances(encoded, decoded)} if "distances" in decoded else {}
    if "constituency" in structures:
        parts["constituency"] = _constituency(encoded, decoded["spans"].tolist(), punctuation)
    if "dependency" in structures:
        trees = _trees(encoded, decoded, columns, punctuation)
        parts["dependency"] = trees[0]
        parts["alternatives"] = trees if len(decoded["heads"]) > 1 else ()
        if "marginals" in decoded:
            length = sum(encoded["keep"])
            marginals = decoded["marginals"][:length, : length + 1].double()
            parts["marginals"] = _marginals(marginals, encoded, trees[0], punctuation)
    return Parse(encoded["words"], **parts, **encoded["source"])


def _seen(encoded: Mapping[str, Any]) -> list[str]:
    """The words that the model sees."""
    return [word for word, kept in zip(encoded["words"], encoded["keep"], strict=True) if kept]


def _seen_source(encoded: Mapping[str, Any]) -> dict[str, Any]:
    """The source of the words that the model sees."""
    spans = encoded["source"].get("word_spans")
    if spans is None:
        return encoded["source"]
    kept = [span for span, is_seen in zip(spans, encoded["keep"], strict=True) if is_seen]
    return {**encoded["source"], "word_spans": kept}


def _distances(encoded: Mapping[str, Any], decoded: Mapping[str, Any]) -> SyntacticDistances:
    words = _seen(encoded)
    distances = decoded["distances"][: len(words) - 1]
    heights = decoded["heights"][: len(words)]
    return SyntacticDistances(words, distances.tolist(), heights.tolist())


def _constituency(encoded: Mapping[str, Any], spans: list[list[int]], punctuation: str) -> ConstituencyTree:
    spans = [(start, end) for start, end in spans if start >= 0]
    if punctuation == "drop":
        return ConstituencyTree(_seen(encoded), spans)
    return ConstituencyTree(encoded["words"], restore_spans(spans, encoded["keep"]))


def _trees(
    encoded: Mapping[str, Any], decoded: Mapping[str, Any], columns: Sequence[Column], punctuation: str
) -> list[DependencyTree]:
    """Dependency trees, best first, of the words that the model saw, or of all."""
    keep, trees = encoded["keep"], []
    restored = punctuation != "drop" and not all(keep)
    words = _seen(encoded) if punctuation == "drop" else encoded["words"]
    length = sum(keep)
    for rank, heads in enumerate(decoded["heads"][:, :length].tolist()):
        if heads[0] < 0:
            break  # there are no more trees
        predictions = {}
        for column in columns:
            values = decoded["columns"][column.name][rank, :length].tolist()
            if column.vocabulary is not None:
                values = [column.vocabulary[number] for number in values]
            predictions[column.name] = _restored(values, keep, column.of_punctuation) if restored else values
        heads = restore_words(heads, keep) if restored else heads
        log_probability = min(decoded["log_probs"][rank].item(), 0.0) if "log_probs" in decoded else None
        trees.append(DependencyTree(words, heads, log_probability=log_probability, **predictions))
    return trees


def _restored(values: list, keep: Sequence[bool], missing: str | None) -> list:
    """The values of the words that the model saw, and `missing` for the others."""
    known = iter(values)
    return [next(known) if kept else missing for kept in keep]


def _marginals(marginals: torch.Tensor, encoded, tree: DependencyTree, punctuation: str) -> list[list[float]]:
    """Rows and columns for the words put back: their head is certain, and they are nobody's head."""
    if punctuation == "drop" or all(encoded["keep"]):
        return marginals.tolist()
    keep = torch.tensor(encoded["keep"])
    columns = torch.cat([torch.tensor([True]), keep])
    rows = torch.nn.functional.one_hot(torch.tensor(tree.heads), len(columns)).to(marginals.dtype)
    restored = torch.zeros(len(keep), len(columns), dtype=marginals.dtype)
    restored[keep.unsqueeze(1) & columns] = marginals.cpu().flatten()
    return torch.where(keep.unsqueeze(1), restored, rows).tolist()


def _graphs(words: Sequence[str], decoded: Mapping[str, Any]) -> dict[str, Any]:
    """Of a [`Parse`] of these words: the best graph, the others, and what is known of all."""
    size, graphs = len(words) + 1, []
    for graph, log_prob in zip(decoded["graphs"], decoded["log_probs"].tolist(), strict=True):
        if log_prob == float("-inf"):
            break  # there are no more graphs
        arcs = graph[:size, :size].nonzero()
        probabilities = decoded["arc_probs"][tuple(arcs.T)].tolist() if "arc_probs" in decoded else None
        graphs.append(DependencyGraph(words, arcs, None, probabilities, log_prob))
    parts: dict[str, Any] = {"graph": graphs[0], "alternatives": graphs if len(decoded["graphs"]) > 1 else ()}
    if "marginals" in decoded:
        parts["marginals"] = decoded["marginals"][: size - 1, :size]
    return parts


__all__ = ["assemble_parse", "sentences_of"]
