"""Loads models by name, from folders or as objects, with their tokenizers and word splitters."""

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from logging import LogRecord
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import logging

from hf_structure.hub.locating import resolve_model
from hf_structure.hub.suggestions import with_suggestions
from hf_structure.models.abilities import abilities_of
from hf_structure.modules.int8 import is_quantized, quantize
from hf_structure.parsing.loaded import loaded_model
from hf_structure.parsing.options import DTYPES
from hf_structure.parsing.splits import CausalLMForConstituencyParsing
from hf_structure.registration.auto import LOADING, AutoModelForDependencyParsing
from hf_structure.registration.forks import compute_alone_in_forks
from hf_structure.text.words import TOKENIZERS, WORD_TOKENIZERS, Token

CAUSAL = (AutoModelForCausalLM, "causal language model")  # the class that loads them, and their name in messages
MASKED = (AutoModelForMaskedLM, "masked language model")
# oneDNN computes half precision on a CPU with a kernel for each shape of a batch. It caches 1,024 of them, too few for
# batches of all lengths, and compiling one again takes longer than running it. It reads this setting once, before its
# first kernel. Other precisions do without: they gain no time, and 8,192 kernels of an LSTM take more than a gigabyte.
KERNELS = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "8192")
WordTokenizer = str | Callable[[str], list[str]]
Tokenizer = str | Callable[[str], Sequence[Token]]  # may return tokens of several words


def load_model(
    model: str | Path | PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None,
    device: str | torch.device | None,
    auto_class: Any,
    purpose: str,
    optional_weights: str | tuple[str, ...] = (),
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """
    Loads a model, in evaluation mode on its device, and its tokenizer.

    Args:
        model, tokenizer, device, dtype, revision, trust_remote_code: See [`~hf_structure.parse`].
        auto_class (`type`): Class that loads the model, e.g. [`~transformers.AutoModelForCausalLM`].
        purpose (`str`): Kind of model, for messages: `"causal language model"`.
        optional_weights (`str` or `tuple[str, ...]`): Prefixes of the names of weights that a checkpoint may lack.

    Raises:
        ValueError: if there is no such model, device or dtype, a folder holds no such model, a loaded model has
            another dtype, or its tokenizer is missing.
    """
    # Before torch starts threads, which loading does.
    compute_alone_in_forks()
    dtype = _checked_dtype(dtype)
    if isinstance(model, torch.nn.Module):
        if revision:
            raise ValueError(f"revision={revision!r} is for a model that is loaded by its name, not for a loaded one")
        _check_precision(model, dtype)
        tokenizer = tokenizer or own_tokenizer(model, trust_remote_code)
        return (model if device is None else _move(model, _checked_device(device))).eval(), tokenizer
    folder = Path(resolve_model(model, revision, trust_remote_code)).resolve()
    # A model that was trained further in the same folder is loaded again.
    modified = max(file.stat().st_mtime_ns for file in folder.iterdir())
    device = _choose_device(device, dtype)
    options = (folder, auto_class, purpose, optional_weights, dtype or torch.float32, trust_remote_code, device)
    model, saved_tokenizer = loaded_model(options, modified, partial(_load, *options))
    return model, tokenizer or saved_tokenizer


def load_parser(
    model: str | Path | PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    structure: str | None = None,
) -> tuple[Any, PreTrainedTokenizerBase]:
    """
    Like [`load_model`], for parsers; if `structure` is `"constituency"`, also for causal language models of
    transformers, see [`CausalLMForConstituencyParsing`]. Also raises `ValueError` for a model that does not parse.
    """
    options = (dtype, revision, trust_remote_code)
    if structure == "constituency" and _is_plain_causal(model, revision, trust_remote_code):
        plain, tokenizer = load_model(model, tokenizer, device, *CAUSAL, (), *options)
        return CausalLMForConstituencyParsing(plain).eval(), tokenizer
    # Parsing needs no head that predicts words: a checkpoint may lack it.
    kind = (AutoModelForDependencyParsing, "model that parses", "lm_head")
    model, tokenizer = load_model(model, tokenizer, device, *kind, *options)
    if not hasattr(model, "decode") or not abilities_of(model.config).structures:
        raise ValueError(f"this {type(model).__name__} does not parse: it gives no structure")
    return model, tokenizer


def _is_plain_causal(
    model: str | Path | PreTrainedModel, revision: str | None = None, trust_remote_code: bool = False
) -> bool:
    """Returns True for a causal language model of transformers, by its name or loaded."""
    if isinstance(model, torch.nn.Module):
        config: Any = getattr(model, "config", None)
        names = [type(model).__name__]
    else:
        folder = resolve_model(model, revision, trust_remote_code)
        config = read_config(folder, "model that parses", trust_remote_code)
        names = config.architectures or []
    return MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(getattr(config, "model_type", None)) in names


def choose_word_tokenizer(
    tokenizer: PreTrainedTokenizerBase, choice: WordTokenizer | None = None, default: str = "english"
) -> Callable[[str], list[str]]:
    """
    Chooses the function that splits raw text into words: the caller's, or else the one that the model's tokenizer
    names, or the default. Raises `ValueError` for an unknown name.
    """
    return _choose(WORD_TOKENIZERS, choice or tokenizer.init_kwargs.get("word_tokenizer", default))


def choose_tokenizer(
    tokenizer: PreTrainedTokenizerBase, choice: Tokenizer | None = None
) -> Callable[[str], Sequence[Token]]:
    """Like [`choose_word_tokenizer`], for a function that returns tokens, of one word or several."""
    return _choose(TOKENIZERS, choice or tokenizer.init_kwargs.get("word_tokenizer", "english"))


def _choose(choices: Mapping[str, Callable[[str], Sequence[Token]]], chosen: Any) -> Any:
    if callable(chosen):
        return chosen
    if not isinstance(chosen, str) or chosen not in choices:
        raise ValueError(f"word_tokenizer must be one of {', '.join(choices)}, or a function, not {chosen!r}")
    return choices[chosen]


def compute_device(model: PreTrainedModel) -> torch.device:
    """Device that a model computes on: its weights' device, or the target of the hooks of offloaded weights."""
    for module in model.modules():
        device = getattr(getattr(module, "_hf_hook", None), "execution_device", None)
        if device is not None:
            return torch.device(device)
    return model.device


def load_weights(
    folder: str | Path,
    auto_class: Any,
    purpose: str,
    optional_weights: str | tuple[str, ...] = (),
    trust_remote_code: bool = False,
    **options,
) -> PreTrainedModel:
    """
    Loads the model in a folder. Missing weights are an error, whereas transformers warns and initialises them at
    random. Takes the arguments of [`load_model`] and of `from_pretrained`. Raises `ValueError` if there is no such
    model.
    """
    with LOADING, _readable(f"{folder} holds no {purpose}"), _quiet():
        model, loaded = auto_class.from_pretrained(
            folder,
            output_loading_info=True,
            # Otherwise transformers raises an error with a line for each weight; below, one line names the first.
            ignore_mismatched_sizes=True,
            trust_remote_code=trust_remote_code,
            **options,
        )
        if wrong := sorted(loaded["mismatched_keys"]):  # (name, shape in the file, shape in the model)
            raise ValueError(
                f"{len(wrong)} weights have other sizes than its configuration says, such as {wrong[0][0]}"
            )
        if missing := sorted(key for key in loaded["missing_keys"] if not key.startswith(optional_weights)):
            raise ValueError(f"{len(missing)} weights are missing, such as {missing[0]}")
    return model


def read_tokenizer(
    folder: str | Path, purpose: str = "tokenizer", trust_remote_code: bool = False
) -> PreTrainedTokenizerBase:
    """Loads the tokenizer in a folder. Raises `ValueError` if there is none."""
    with _readable(f"{folder} holds no {purpose}"):
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust_remote_code)
        tokenizer("a")  # many wrong settings only fail in use
        tokenizer.convert_tokens_to_ids(tokenizer.all_special_tokens)
    return tokenizer


def read_config(
    folder: str | Path, purpose: str, trust_remote_code: bool = False, settings: dict | None = None
) -> PreTrainedConfig:
    """
    Loads a configuration, overridden by `settings`. Raises `ValueError` if there is none, or for unknown settings.
    """
    with _readable(f"{folder} holds no {purpose}"):
        loaded: Any = AutoConfig.from_pretrained(
            folder, trust_remote_code=trust_remote_code, return_unused_kwargs=True, **(settings or {})
        )
        config, unknown = loaded
    if unknown:
        raise ValueError(f"{config.model_type} has no settings {with_suggestions(unknown, vars(config))}")
    return config


def load_trained(
    name: str,
    auto_class: Any,
    purpose: str,
    settings: dict,
    trust_remote_code: bool = False,
    optional_weights: str | tuple[str, ...] = (),
) -> PreTrainedModel:
    """
    Loads a trained model by its name (see [`load_model`]), with `settings` that override its configuration; a
    `model_type` among them is ignored. Raises `ValueError` if there is no such model, and for settings that it does
    not have or that do not fit its weights.
    """
    folder = resolve_model(name, trust_remote_code=trust_remote_code)
    settings = {key: value for key, value in settings.items() if key != "model_type"}
    config = read_config(folder, purpose, trust_remote_code, settings)
    return load_weights(folder, auto_class, purpose, optional_weights, trust_remote_code, config=config)


def own_tokenizer(model: PreTrainedModel, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """Loads the tokenizer from the folder of a loaded model. Raises `ValueError` if there is none."""
    try:
        folder = resolve_model(model.name_or_path or "", trust_remote_code=trust_remote_code)
        return read_tokenizer(folder, trust_remote_code=trust_remote_code)
    except ValueError as error:
        raise ValueError("pass the tokenizer too: this model was not loaded from a folder that holds one") from error


def _load(
    folder: Path,
    auto_class: Any,
    purpose: str,
    optional_weights: str | tuple[str, ...],
    dtype: torch.dtype,
    trust_remote_code: bool,
    device: torch.device,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    is_int8 = dtype == torch.int8
    stored = torch.float32 if is_int8 else dtype
    model = load_weights(folder, auto_class, purpose, optional_weights, trust_remote_code, dtype=stored)
    model = _move(model, device).eval()
    if is_int8:
        quantize(model)
    if model.device.type == "cpu" and stored.itemsize < 4:
        os.environ.setdefault(*KERNELS)
    return model, read_tokenizer(folder, purpose, trust_remote_code)


def _check_precision(model: torch.nn.Module, dtype: torch.dtype | None) -> None:
    """Raises `ValueError` if a loaded model computes in another precision than requested."""
    current: Any = torch.int8 if is_quantized(model) else getattr(model, "dtype", dtype)
    if dtype and current != dtype:
        raise ValueError(f"the loaded model computes in {current}: {_conversion(current, dtype)}")


def _choose_device(device: str | torch.device | None, dtype: torch.dtype | None) -> torch.device:
    """Returns the device, by default a GPU if there is one. Raises `ValueError` for one that cannot be used."""
    if device is None:  # int8 needs a CPU
        device = "cuda" if torch.cuda.is_available() and dtype != torch.int8 else "cpu"
    if dtype == torch.int8 and not str(device).startswith("cpu"):
        raise ValueError(f"int8 computes on a CPU only, not on the device {str(device)!r}: pass device='cpu'")
    return _checked_device(device)


def _checked_device(device: str | int | torch.device) -> torch.device:
    """Returns the device; a number names a GPU. Raises `ValueError` if torch finds no such device."""
    try:
        checked = torch.device(device)
        torch.empty(0, dtype=torch.float32, device=checked)
    except (RuntimeError, AssertionError, TypeError) as error:
        name = device if isinstance(device, int) else str(device)
        raise ValueError(f"cannot compute on the device {name!r}: torch finds only {_devices()} here") from error
    return checked


def _devices() -> str:
    accelerator = torch.accelerator.current_accelerator()
    count = torch.accelerator.device_count()
    return ", ".join(["cpu", *(f"{accelerator}:{index}" for index in range(count))])


def _move(model: Any, device: torch.device) -> PreTrainedModel:
    """
    Moves a model to a device. A model already on the device is not touched, because `to` takes LSTMs apart for a
    moment, while other threads may be computing with them. Raises `ValueError` if moving fails, for instance if the
    memory is too small.
    """
    devices = {parameter.device for parameter in model.parameters()}
    if all(each.type == device.type and device.index in (None, each.index) for each in devices):
        return model
    try:
        return model.to(device)
    except RuntimeError as error:
        raise ValueError(f"cannot compute on the device {str(device)!r}: {_first_line(error)}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """
    Suppresses the progress bars and reports of transformers: loading is short, and problems raise errors here. Affects
    only this thread, whereas the verbosity of transformers is global.
    """
    thread = threading.get_ident()
    reporter: Any = logging.get_logger("transformers.modeling_utils")
    hook = None  # the program's own hook, if any

    def is_from_elsewhere(record: LogRecord) -> bool:
        return threading.get_ident() != thread

    def bar(factory: Callable, args: tuple, kwargs: dict) -> object:
        if threading.get_ident() == thread:
            return logging.EmptyTqdm(*args, **kwargs)
        return hook(factory, args, kwargs) if hook else factory(*args, **kwargs)

    reporter.addFilter(is_from_elsewhere)
    hook = logging.set_tqdm_hook(bar)
    try:
        yield
    finally:
        logging.set_tqdm_hook(hook)
        reporter.removeFilter(is_from_elsewhere)


@contextmanager
def _readable(message: str) -> Iterator[None]:
    """
    Turns every error in loading into a `ValueError` of one line: the errors of libraries about damaged files have no
    common type, and `tokenizers` even raises bare `Exception`.
    """
    try:
        yield
    except BaseException as error:
        # `tokenizers` panics over some wrong settings. Rust's PanicException is no subclass of Exception, so that a
        # server that catches errors of one request would end; its class cannot be imported.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"{message}: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    if "trust_remote_code=True" in str(error):
        return "it comes with code of its own, which runs only with trust_remote_code: read it first"
    if unknown := re.search(r"has model type (\S+) but Transformers does not recognize", str(error)):
        return f"its family {unknown[1]} is not known here: import the code that registers it (--import)"
    if other := re.search(r"Unrecognized configuration class <class '[\w.]*?(\w+)'>", str(error)):
        return f"its configuration, {other[1]}, is that of another kind of model"
    if isinstance(error, StrictDataclassError):  # its first line is not informative
        return " ".join(str(error).split())
    if isinstance(error, ValueError | OSError | SafetensorError) or type(error) in (RuntimeError, Exception):
        return _first_line(error)
    return f"{type(error).__name__}: {_first_line(error)}"  # such as KeyError: 'model'


def _checked_dtype(dtype: str | torch.dtype | None) -> torch.dtype | None:
    if dtype is None:
        return None
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise ValueError(f"dtype must be a floating-point type or int8 ({', '.join(DTYPES)}), not {dtype!r}")
    return getattr(torch, name)


def _conversion(current: torch.dtype, dtype: torch.dtype) -> str:
    if current == torch.int8:
        return "load it anew to compute in another precision"
    if dtype == torch.int8:
        return "convert it with hf_structure.modules.int8.quantize(model)"
    return f"convert it with model.to({dtype})"


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]
