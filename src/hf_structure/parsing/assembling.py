"""Turns decoded tensors into the dictionaries of [`~hf_structure.structures.parse.Parse.to_dict`]."""

from collections.abc import Mapping, Sequence
from itertools import accumulate, compress
from typing import Any

import torch

from hf_structure.algorithms.trees import restore_spans, restore_words, span_order
from hf_structure.models.abilities import Abilities, Column
from hf_structure.models.modeling_outputs import DecoderOutput

FIELDS = ("labels", "probabilities", "label_probabilities")  # columns with fields of their own in a tree


def sentences_of(decoded: DecoderOutput) -> list[dict[str, Any]]:
    """Splits the output of a batch by sentence, without the batch dimension: columns as lists, tensors on the CPU."""
    columns = {name: values.tolist() for name, values in (decoded.columns or {}).items()}
    tensors = {key: values.cpu().unbind() for key, values in decoded.items() if key not in ("columns", "structures")}
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
    abilities: Abilities,
    punctuation: str = "attach",
) -> dict[str, Any]:
    """
    Returns the arguments of [`Parse`] for a sentence, encoded by [`SentenceEncoder`] and decoded by [`sentences_of`]:
    text layer, requested structures, probabilities. Raises `ValueError` for marginals without dependencies.
    """
    parse = {"words": encoded["words"], "dependency": None, "constituency": None, "graph": None, "alternatives": []}
    parse |= dict.fromkeys(("marginals", "distances"))
    if "graph" in structures:
        words = _seen(encoded)
        return parse | {"words": words} | _graphs(words, decoded) | _layer(encoded, encoded["keep"])
    if "marginals" in decoded and "dependency" not in structures:
        raise ValueError("marginals are about dependencies: they need the structure 'dependency' or 'both'")
    if "distances" in decoded:
        parse["distances"] = _distances(_seen(encoded), decoded)
    if "constituency" in structures:
        parse["constituency"] = _constituency(encoded, decoded, abilities.span_labels, punctuation)
    if "dependency" in structures:
        requested = tuple(column for column in abilities.column_probabilities if column.name in decoded["columns"])
        trees = _trees(encoded, decoded, abilities.columns + requested, punctuation)
        parse["dependency"] = trees[0]
        if len(decoded["heads"]) > 1:
            parse["alternatives"] = trees
        if "marginals" in decoded:
            length = sum(encoded["keep"])
            marginals = decoded["marginals"][:length, : length + 1].double()
            parse["marginals"] = _marginals(marginals, encoded, trees[0]["heads"], punctuation)
    return parse | _layer(encoded, [True] * len(encoded["words"]))


def _seen(encoded: Mapping[str, Any]) -> list[str]:
    """Returns the words that the model sees."""
    return list(compress(encoded["words"], encoded["keep"]))


def _layer(encoded: Mapping[str, Any], keep: Sequence[bool]) -> dict[str, Any]:
    """Restricts the text layer to the kept words; a multiword token stays only if all its words do."""
    layer = encoded["layer"]
    if all(keep):
        return layer
    numbers = list(accumulate(keep))
    whole = (token for token in layer["multiword_tokens"] if all(keep[token[0] - 1 : token[1]]))
    tokens = [(numbers[first - 1], numbers[last - 1]) for first, last in whole]
    spans = layer["word_spans"] and list(compress(layer["word_spans"], keep))
    return {**layer, "word_spans": spans, "multiword_tokens": tokens}


def _distances(words: list[str], decoded: Mapping[str, Any]) -> dict[str, Any]:
    distances = decoded["distances"][: len(words) - 1].tolist()
    heights = decoded["heights"][: len(words)].tolist()
    return {"words": words, "distances": distances, "heights": heights}


def _constituency(
    encoded: Mapping[str, Any], decoded: Mapping[str, Any], names: Sequence[str] | None, punctuation: str
) -> dict[str, Any]:
    words = _seen(encoded) if punctuation == "drop" else encoded["words"]
    spans = [(start, end) for start, end in decoded["spans"].tolist() if start >= 0]
    count = len(spans)
    if punctuation != "drop" and not all(encoded["keep"]):
        spans = restore_spans(spans, encoded["keep"])
    order = span_order(spans, len(words))
    tree = {"words": words, "spans": [list(spans[index]) for index in order]}
    tree |= dict.fromkeys(("labels", "tags", "probabilities", "log_probability"))
    # Around a word without constituents, the whole sentence is restored, which has no label then.
    if names is not None:
        tree["labels"] = [names[decoded["span_labels"][index]] if index < count else "" for index in order]
    if "span_probs" in decoded:
        tree["probabilities"] = [decoded["span_probs"][index].item() if index < count else 1.0 for index in order]
        tree["log_probability"] = decoded["span_log_probs"].item()
    return tree


def _trees(
    encoded: Mapping[str, Any], decoded: Mapping[str, Any], columns: Sequence[Column], punctuation: str
) -> list[dict[str, Any]]:
    """Builds dependency trees, best first, over the words that the model saw, or over all."""
    keep = encoded["keep"]
    trees = []
    restored = punctuation != "drop" and not all(keep)
    seen = _seen(encoded)
    words = seen if punctuation == "drop" else encoded["words"]
    length = len(seen)
    for rank, heads in enumerate(decoded["heads"][:, :length].tolist()):
        if heads[0] < 0:
            break  # padding: there are no more trees
        named = {column.name: _named(decoded["columns"][column.name][rank][:length], column) for column in columns}
        predictions: dict[str, list | None] = dict.fromkeys(FIELDS)
        for column in columns:
            values = named[column.name]
            if column.spelled is not None:
                values = column.spelled(values, seen, named)
            if restored:
                predicted = iter(values)
                values = [next(predicted) if kept else column.of_punctuation for kept in keep]
            predictions[column.name] = values
        tree = {"words": words, "heads": restore_words(heads, keep) if restored else heads}
        tree |= {name: predictions.pop(name) for name in FIELDS}
        tree["log_probability"] = min(decoded["log_probs"][rank].item(), 0.0) if "log_probs" in decoded else None
        trees.append(tree | ({"columns": predictions} if predictions else {}))
    return trees


def _named(numbers: list, column: Column) -> list:
    """Replaces the value ids of words, or the ids of each word's best values, by their names, if they have names."""
    names = column.vocabulary
    if names is None:
        return numbers
    if isinstance(numbers[0], list):
        return [[names[number] for number in best] for best in numbers]
    return [names[number] for number in numbers]


def _marginals(
    marginals: torch.Tensor, encoded: Mapping[str, Any], heads: list[int], punctuation: str
) -> list[list[float]]:
    """Adds rows and columns for restored words, which have a certain head and no dependents."""
    if punctuation == "drop" or all(encoded["keep"]):
        return marginals.tolist()
    keep = torch.tensor(encoded["keep"])
    columns = torch.cat([torch.tensor([True]), keep])
    rows = torch.nn.functional.one_hot(torch.tensor(heads), len(columns)).to(marginals.dtype)  # (n, n + 1)
    restored = torch.zeros(len(keep), len(columns), dtype=marginals.dtype)
    restored[keep.unsqueeze(1) & columns] = marginals.flatten()
    return torch.where(keep.unsqueeze(1), restored, rows).tolist()  # (n, n + 1)


def _graphs(words: list[str], decoded: Mapping[str, Any]) -> dict[str, Any]:
    """Builds the best graph, its alternatives, and marginals."""
    size = len(words) + 1
    graphs = []
    for graph, log_prob in zip(decoded["graphs"], decoded["log_probs"].tolist(), strict=True):
        if log_prob == float("-inf"):
            break  # padding: there are no more graphs
        arcs = graph[:size, :size].nonzero()  # (arcs, 2), heads first
        probabilities = decoded["arc_probs"][tuple(arcs.T)].tolist() if "arc_probs" in decoded else None
        graphs.append({"words": words, "arcs": arcs.tolist(), "labels": None, "probabilities": probabilities})
        graphs[-1]["log_probability"] = log_prob
    parts = {"graph": graphs[0], "alternatives": graphs if len(decoded["graphs"]) > 1 else []}
    if "marginals" in decoded:
        parts["marginals"] = decoded["marginals"][: size - 1, :size].tolist()
    return parts
