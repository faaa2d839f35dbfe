"""A cache of loaded models, shared by all threads."""

import os
import sys
import threading
from collections.abc import Callable, Hashable

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.registration.auto import LOADING

MAX_BYTES = 2**31  # of cached weights
LoadedModel = tuple[PreTrainedModel, PreTrainedTokenizerBase]

_loaded: dict[Hashable, tuple[Hashable, LoadedModel]] = {}  # the least recently used first
_lock = threading.Lock()


def _renew_lock() -> None:
    """Renews the lock in a forked process, because a thread of the parent process may have held it."""
    global _lock
    _lock = threading.Lock()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_renew_lock)


def loaded_model(key: Hashable, state: Hashable, load: Callable[[], LoadedModel]) -> LoadedModel:
    """
    Returns the cached model of a key if its state is the same, or else the result of `load`. Other threads that
    request it meanwhile wait. A load that fails or is interrupted leaves nothing in the cache.
    """
    found = _find(key, state)
    if found is None:
        with LOADING:
            # Another thread may have loaded the model while this one waited for the lock.
            found = _find(key, state) or _keep(key, state, load())
    return found


def release_models() -> None:
    """
    Releases the models that [`parse`] and [`score`] keep for the next call. Their memory is freed as soon as no thread
    uses them. A model that you hold a reference to stays.
    """
    with _lock:
        _loaded.clear()


def _find(key: Hashable, state: Hashable) -> LoadedModel | None:
    with _lock:
        kept_state, found = _loaded.pop(key, (None, None))
        if found is None or kept_state != state:
            return None
        # Insert it again at the end, as the most recently used model.
        _loaded[key] = state, found
        return found


def _keep(key: Hashable, state: Hashable, new: LoadedModel) -> LoadedModel:
    """Caches a model, and releases the least recently used ones if all weights take too much memory."""
    with _lock:
        _loaded[key] = state, new
        sizes = {each: model.get_memory_footprint() for each, (_, (model, _)) in _loaded.items()}
        # The model just loaded is never released.
        for oldest in list(sizes)[:-1]:
            if sum(sizes.values()) <= MAX_BYTES:
                break
            del _loaded[oldest], sizes[oldest]
        return new
