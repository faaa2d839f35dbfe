"""Models that stay loaded between calls, shared by all threads."""

import os
import sys
import threading
from collections.abc import Callable, Hashable

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.registration.auto import LOADING

MAX_BYTES = 2**31  # of weights that stay loaded
LoadedModel = tuple[PreTrainedModel, PreTrainedTokenizerBase]

_loaded: dict[Hashable, tuple[Hashable, LoadedModel]] = {}  # those used last come last
_lock = threading.Lock()


def _renew_lock() -> None:
    """In a forked process: another thread of the process that it was forked from may have held the lock."""
    global _lock
    _lock = threading.Lock()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_renew_lock)


def loaded_model(key: Hashable, state: Hashable, load: Callable[[], LoadedModel]) -> LoadedModel:
    """
    The model kept for a key, if it was kept in this state, or else the result of `load`, for which other threads wait
    that ask for it meanwhile. Nothing is kept of a load that fails or is interrupted.
    """
    found = _find(key, state)
    if found is None:
        with LOADING:
            found = _find(key, state) or _keep(key, state, load())
    return found


def release_models() -> None:
    """
    Releases the models that [`parse`] and [`score`] keep for the next call. Their memory is free as soon as no thread
    computes with them. A model that you hold yourself stays.
    """
    with _lock:
        _loaded.clear()


def _find(key: Hashable, state: Hashable) -> LoadedModel | None:
    with _lock:
        kept_state, found = _loaded.pop(key, (None, None))
        if found is None or kept_state != state:
            return None
        _loaded[key] = state, found
        return found


def _keep(key: Hashable, state: Hashable, new: LoadedModel) -> LoadedModel:
    """Releases the least recently used models if the weights of all take too much memory."""
    with _lock:
        _loaded[key] = state, new
        sizes = {each: model.get_memory_footprint() for each, (_, (model, _)) in _loaded.items()}
        for oldest in list(sizes)[:-1]:
            if sum(sizes.values()) <= MAX_BYTES:
                break
            del _loaded[oldest], sizes[oldest]
        return new
