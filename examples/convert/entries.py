"""Tables of old and new names of weights, with functions where values differ, too."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

import torch
from transformers import PreTrainedModel

from hf_structure.modules.pretrained_encoder import BERT_LAYER

from .checkpoint import Checkpoint

AT_ONCE = 12  # names in a message
Model = TypeVar("Model", bound=PreTrainedModel)


class Entry(NamedTuple):
    """The origin of a parameter."""

    target: str  # its name in this library
    sources: tuple[str, ...]  # names of the old parameters that it is made from
    make: Callable[..., torch.Tensor] = lambda tensor: tensor


class Source(NamedTuple):
    """A kind of checkpoint."""

    signatures: tuple[str, ...]  # endings of parameter names that no other kind has
    model: type[PreTrainedModel]  # the class of converted models
    convert: Callable  # from a checkpoint, settings and a vocabulary to a model and its tokenizer
    # From the module of the original code, a checkpoint and the new configuration to a function from the ids of one
    # sentence to prediction scores.
    original: Callable | None = None


def renamed(pairs: Mapping[str, str], parts: Iterable[str] = ("weight", "bias"), **numbers: int) -> Iterator[Entry]:
    """Entries of modules that differ in their names only; `i=...` replaces `{i}` in both names."""
    for source, target in pairs.items():
        for part in parts:
            yield Entry(f"{target}.{part}".format(**numbers), (f"{source}.{part}".format(**numbers),))


def bert_layer(source: str, target: str) -> Iterator[Entry]:
    """A layer of BERT as one of ours."""
    return renamed({f"{source}.{old}": f"{target}.{new}" for old, new in BERT_LAYER.items()})


def stacked(*tensors: torch.Tensor) -> torch.Tensor:
    """One projection or table made of several, or a bias."""
    return torch.cat(tensors)


@torch.no_grad()
def fill(
    model: Model,
    entries: Iterable[Entry],
    checkpoint: Checkpoint,
    unused: Callable[[str], bool] = lambda name: False,
) -> Model:
    """
    Copies all weights of a checkpoint to a model, whose parameters come from `entries` unless they are tied to others.
    Old names that are `unused` are ignored. Raises `ValueError`, with their names, for missing and unexpected
    parameters, and for one of another shape.
    """
    entries = list(entries)
    needed = {source for entry in entries for source in entry.sources}
    missing = sorted(needed - checkpoint.weights.keys())
    unexpected = sorted(name for name in checkpoint.weights.keys() - needed if not unused(name))
    problems = {"missing": missing, "unexpected": unexpected}
    messages = [f"{kind} parameters: {_some(names)}" for kind, names in problems.items() if names]
    if messages:
        raise ValueError(f"this is no checkpoint of the kind that it was taken for; {'; '.join(messages)}")
    own = model.state_dict()
    for target, sources, make in entries:
        value = make(*(checkpoint.weights[source].float() for source in sources))
        if value.shape != own[target].shape:
            raise ValueError(
                f"{', '.join(sources)} makes {target} of shape {tuple(value.shape)}, but {tuple(own[target].shape)} "
                "is needed"
            )
        own[target].copy_(value)
    model.tie_weights()
    return model.eval()


def _some(names: list[str]) -> str:
    more = f" and {len(names) - AT_ONCE} more" if len(names) > AT_ONCE else ""
    return ", ".join(names[:AT_ONCE]) + more
