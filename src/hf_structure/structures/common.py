"""What the value types share: checks, JSON, CoNLL-U comments, LaTeX, HTML."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

_TOLERANCE = 1e-4  # a probability computed in float32 may leave [0, 1] by so much

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"{\symbol{38}}",  # \& separates the words in deptext
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",  # would open the options of deptext
    "]": "{]}",
}


V = TypeVar("V", bound="Value")


class Value:
    """Base of the value types, which are dataclasses."""

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON-ready values; `from_dict` takes them back."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: _as_lists(value) for name, value in values.items()}

    @classmethod
    def from_dict(cls: type[V], values: Mapping[str, Any]) -> V:
        """Makes the value from what `to_dict` gave."""
        return cls(**values)


def latex(text: str) -> str:
    """The text with special characters escaped."""
    escaped = "".join(_LATEX.get(character, character) for character in text)
    return re.sub("-(?=-)", "-{}", escaped)  # "--" would become a dash


def tikz_arcs(words: Sequence[str], arcs: Iterable[tuple[int, int, str | None]]) -> str:
    r"""Arcs `(head, dependent, label)` for LaTeX with `\usepackage{tikz-dependency}`; the head of a root word is 0."""
    lines = [
        r"\begin{dependency}",
        r"  \begin{deptext}[column sep=1em]",
        "    " + r" \& ".join(map(latex, words)) + r" \\",
        r"  \end{deptext}",
    ]
    drawn = set()
    for head, word, label in arcs:
        if head == 0:
            lines.append(rf"  \deproot{{{word}}}{{{latex(label or 'root')}}}")
        else:
            styles = ["hide label"] * (not label) + ["edge below"] * ((word, head) in drawn)  # else over each other
            options = f"[{', '.join(styles)}]" if styles else ""
            lines.append(rf"  \depedge{options}{{{head}}}{{{word}}}{{{latex(label or '')}}}")
            drawn.add((head, word))
    return "\n".join([*lines, r"\end{dependency}", ""])


def freeze(value: Any, *names: str) -> None:
    """Makes tuples of sequences, arrays and tensors in the fields named."""
    if isinstance(value.words, str):
        raise ValueError(f"words must be a sequence of words, not the string {value.words!r}")
    for name in names:
        values = getattr(value, name)
        if values is not None:
            object.__setattr__(value, name, tuple(values.tolist() if hasattr(values, "tolist") else values))


def check_length(items: Sequence[Any], name: str, values: Sequence[Any] | None, of: str = "words") -> None:
    """Raises `ValueError` unless there is one value for each item."""
    if values is not None and len(values) != len(items):
        raise ValueError(f"{len(items)} {of} but {len(values)} {name}")


def check_probabilities(values: Iterable[float | None], names: Iterable[str]) -> None:
    """Raises `ValueError` if one is no probability; `names` say what they are of."""
    for value, name in zip(values, names, strict=False):
        if value is not None and not -_TOLERANCE <= value <= 1 + _TOLERANCE:
            raise ValueError(f"the probability of {name} is {value}, not between 0 and 1")


def check_log_probability(value: float | None) -> None:
    """Raises `ValueError` unless the value is finite or None."""
    if value is not None and not math.isfinite(value):
        raise ValueError(f"log_probability must be finite or None, not {value}")


def conllu_comments(metadata: Mapping[str, str] | None, log_probability: float | None) -> list[str]:
    """The comment lines of a sentence. Raises `ValueError` for one that is no line."""
    metadata = dict(metadata or {})
    if log_probability is not None:
        metadata["log_probability"] = f"{log_probability:.6g}"
    comments = [f"# {key} = {value}" for key, value in metadata.items()]
    for comment in comments:
        if any(character in comment for character in "\n\r\0"):
            raise ValueError(f"a CoNLL-U comment must be one line: {comment!r}")
    return comments


def _as_lists(value: Any) -> Any:
    return [list(item) if isinstance(item, tuple) else item for item in value] if isinstance(value, tuple) else value


def as_html(svg: str) -> str:
    """What a notebook shows of a picture."""
    return f'<div style="overflow-x:auto">{svg}</div>'
