"""
From sentences to parses: `parse(...)`, and the same as a transformers pipeline.

A model trained without punctuation does not see any here: punctuation marks are recognised by their characters, taken
out, and put back into the tree by a rule that keeps a projective tree projective
([`~hf_structure.algorithms.trees.restore_words`]).
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from tqdm.auto import tqdm
from transformers import AutoTokenizer, Pipeline, PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.algorithms.trees import restore_words
from hf_structure.auto import AutoModelForDependencyParsing
from hf_structure.data.collators import WordCollator
from hf_structure.data.normalization import is_punctuation
from hf_structure.data.text import tokenize_words
from hf_structure.hub import resolve_model
from hf_structure.modeling_outputs import DependencyDecoderOutput
from hf_structure.structures import DependencyTree, Parse
from hf_structure.tokenization import encode_words

DEFAULT_MODEL = "udgn-en"
MAX_WORDS = 1000
PUNCTUATION = ("attach", "drop", "parse")
STRUCTURES = ("dependency",)
WINDOW = 64  # batches whose sentences are sorted by length together

Sentence = str | Sequence[str]


def parse(
    sentences: Sentence | Iterable[Sentence],
    model: str | Path | PreTrainedModel = DEFAULT_MODEL,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    structure: str = "dependency",
    decoder: str = "tree",
    k: int = 1,
    marginals: bool = False,
    punctuation: str = "attach",
    word_tokenizer: Callable[[str], list[str]] = tokenize_words,
    max_words: int = MAX_WORDS,
    batch_size: int = 64,
    device: str | torch.device | None = None,
    progress: bool = False,
) -> Parse | list[Parse] | Iterator[Parse]:
    """
    Parses sentences.

    Args:
        sentences (`str`, `list[str]`, `list[list[str]]` or an iterator of either):
            Raw sentences, which `word_tokenizer` splits into words, or sentences as lists of words, which come back
            as they are.
        model (`str`, `Path` or `PreTrainedModel`, defaults to `"udgn-en"`):
            Short name, folder or Hub name of a model, or a loaded model (which is put into evaluation mode).
        tokenizer (`PreTrainedTokenizerBase`, *optional*):
            The model's tokenizer; needed with a loaded model that does not come from a folder.
        structure (`"dependency"`):
            The kind of structure.
        decoder (`"tree"`, `"projective"` or `"argmax"`):
            The best tree with one root, the best such tree without crossing arcs, or each word's best head (no tree
            in general).
        k (`int`):
            Number of trees; with more than one, `Parse.alternatives` holds them, best first.
        marginals (`bool`):
            Whether `Parse.marginals` is filled in: probabilities of all arcs over all trees.
        punctuation (`"attach"`, `"drop"` or `"parse"`):
            For a model trained without punctuation: put punctuation into its tree by rule, leave it out of the tree,
            or let the model see it as words. A sentence of punctuation alone is always parsed as words.
        word_tokenizer (`Callable[[str], list[str]]`):
            Splits raw sentences into words.
        max_words (`int`):
            Longer sentences are refused: memory grows with the square of the length.
        batch_size (`int`):
            Sentences that the model reads at once.
        device (`str` or `torch.device`, *optional*):
            Where to compute. By default where a loaded model is, else on a GPU if there is one.
        progress (`bool`):
            Whether to show a progress bar.

    Returns:
        `Parse` for a string, `list[Parse]` for a list, an iterator of `Parse` for an iterator; in the order given.

    Raises:
        ValueError: no such model, device or option, a model that does not give this structure, or a sentence that is
            empty or too long. The message gives the number of the sentence; from an iterator, those before it come
            out first.
    """
    _check_punctuation(punctuation)
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, not {batch_size}")
    model, tokenizer = load_parser(model, tokenizer, device)
    if structure not in STRUCTURES:
        raise ValueError(f"{type(model).__name__} gives {', '.join(STRUCTURES)}, not {structure!r}")
    encode = functools.partial(
        encode_sentence,
        tokenizer=tokenizer,
        punctuation=punctuation,
        word_tokenizer=word_tokenizer,
        max_words=max_words,
    )
    decode = functools.partial(
        parse_batch,
        model=model,
        tokenizer=tokenizer,
        punctuation=punctuation,
        decoder=decoder,
        k=k,
        marginals=marginals,
    )
    items = [sentences] if isinstance(sentences, str) else sentences
    total = len(items) if isinstance(items, Sequence) else None
    bar = tqdm(total=total, unit=" sentences", disable=not progress)
    parses = _parse_windows(iter(items), encode, decode, batch_size, bar)
    if isinstance(sentences, str):
        return next(parses)
    return list(parses) if isinstance(sentences, Sequence) else parses


def _check_punctuation(punctuation: str) -> None:
    if punctuation not in PUNCTUATION:
        raise ValueError(f"punctuation must be one of {', '.join(PUNCTUATION)}, not {punctuation!r}")


def load_parser(
    model: str | Path | PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None, device: str | torch.device | None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """
    Model in evaluation mode on its device, and its tokenizer.

    Raises:
        ValueError: if there is no such model or device, a folder holds no model that parses, or the tokenizer of a
            loaded model is not known.
    """
    if isinstance(model, torch.nn.Module):
        tokenizer = tokenizer or _load_tokenizer(model)
    else:
        folder = Path(resolve_model(model)).resolve()
        modified = max(file.stat().st_mtime_ns for file in folder.iterdir())
        model, own_tokenizer = _load(folder, modified)
        tokenizer = tokenizer or own_tokenizer
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if not hasattr(model, "decode"):
        raise ValueError(f"{type(model).__name__} does not parse: it has no decode()")
    try:
        return model.to(device).eval() if device else model.eval(), tokenizer
    except (RuntimeError, AssertionError) as error:  # torch has no such device, or was built without it
        raise ValueError(f"cannot compute on the device {str(device)!r}: {_first_line(error)}") from error


def _load_tokenizer(model: PreTrainedModel) -> PreTrainedTokenizerBase:
    try:
        return AutoTokenizer.from_pretrained(resolve_model(model.name_or_path))
    except (ValueError, OSError) as error:
        raise ValueError("pass the tokenizer too: this model was not loaded from a folder that holds one") from error


@functools.lru_cache(maxsize=2)
def _load(folder: Path, modified: int) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The last models used stay loaded, as long as their folders do not change."""
    try:
        model, loaded = AutoModelForDependencyParsing.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True
        )
        missing = sorted(key for key in loaded["missing_keys"] if key.startswith(model.base_model_prefix))
        if missing:  # transformers only warns, and goes on with random weights
            raise ValueError(f"{len(missing)} weights are missing, such as {missing[0]}")
        return model, AutoTokenizer.from_pretrained(folder)
    except (ValueError, OSError, RuntimeError, SafetensorError) as error:
        raise ValueError(f"{folder} holds no model that parses: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


def encode_sentence(
    sentence: Sentence,
    tokenizer: PreTrainedTokenizerBase,
    *,
    punctuation: str = "attach",
    word_tokenizer: Callable[[str], list[str]] = tokenize_words,
    max_words: int = MAX_WORDS,
) -> dict[str, Any]:
    """
    Words of a sentence (`words`), which of them the model sees (`keep`), and their ids (`input_ids`).

    Raises:
        ValueError: if the sentence is empty or too long, or is no string and no sequence of strings.
    """
    if not isinstance(sentence, str | Sequence):
        raise ValueError(f"a sentence is a string or a list of words, not {sentence!r}")
    words = word_tokenizer(sentence) if isinstance(sentence, str) else list(sentence)
    for position, word in enumerate(words, start=1):
        if not isinstance(word, str) or not word.strip():
            raise ValueError(f"word {position} is {word!r}: words are strings that are not empty")
    if not words:
        raise ValueError("the sentence is empty")
    if len(words) > max_words:
        raise ValueError(f"the sentence has {len(words)} words, more than the {max_words} of max_words")
    keep = [True] * len(words)
    if punctuation != "parse" and tokenizer.init_kwargs.get("skip_punctuation"):
        keep = [not is_punctuation(word) for word in words]
        if not any(keep):
            keep = [True] * len(words)
    seen = [word for word, kept in zip(words, keep, strict=True) if kept]
    return {"words": words, "keep": keep, "input_ids": encode_words(seen, tokenizer)}


def assemble_parse(encoded: Mapping[str, Any], decoded: DependencyDecoderOutput, row: int, punctuation: str) -> Parse:
    """Parse of the sentence in one row of a decoded batch."""
    length = sum(encoded["keep"])
    trees = []
    for rank, heads in enumerate(decoded.heads[row, :, :length].tolist()):
        if heads[0] < 0:
            break  # there are no more trees
        probabilities = decoded.head_probs[row, rank, :length].tolist()
        log_probability = None if decoded.log_probs is None else min(decoded.log_probs[row, rank].item(), 0.0)
        trees.append(_tree(encoded, heads, probabilities, log_probability, punctuation))
    marginals = None
    if decoded.marginals is not None:
        marginals = _marginals(decoded.marginals[row, :length, : length + 1].double(), encoded, trees[0], punctuation)
    alternatives = trees if decoded.heads.shape[1] > 1 else ()
    return Parse(encoded["words"], dependency=trees[0], alternatives=alternatives, marginals=marginals)


def _tree(encoded, heads, probabilities, log_probability, punctuation: str) -> DependencyTree:
    words, keep = encoded["words"], encoded["keep"]
    if punctuation == "drop":
        words = [word for word, kept in zip(words, keep, strict=True) if kept]
    elif not all(keep):
        heads = restore_words(heads, keep)
        known = iter(probabilities)
        probabilities = [next(known) if kept else None for kept in keep]
    return DependencyTree(words, heads, probabilities=probabilities, log_probability=log_probability)


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


def parse_batch(
    encoded: Sequence[Mapping[str, Any]],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    punctuation: str = "attach",
    **options,
) -> list[Parse]:
    """Parses of encoded sentences, which the model reads at once; `options` are those of its `decode`."""
    batch = WordCollator(tokenizer.pad_token_id)(encoded)
    decoded = model.decode(**{name: value.to(model.device) for name, value in batch.items()}, **options)
    decoded = DependencyDecoderOutput(**{name: value.cpu() for name, value in decoded.items()})
    return [assemble_parse(sentence, decoded, row, punctuation) for row, sentence in enumerate(encoded)]


def _parse_windows(sentences: Iterator[Sentence], encode, decode, batch_size: int, bar: tqdm) -> Iterator[Parse]:
    """Reads a window of sentences at a time and parses them in batches of similar lengths."""
    with bar:
        for window in _windows(_encode_all(sentences, encode), batch_size * WINDOW):
            parses: list[Parse | None] = [None] * len(window)
            order = sorted(range(len(window)), key=lambda i: len(window[i]["input_ids"]))
            for start in range(0, len(order), batch_size):
                batch = order[start : start + batch_size]
                for i, parsed in zip(batch, decode([window[i] for i in batch]), strict=True):
                    parses[i] = parsed
                bar.update(len(batch))
            yield from parses


def _encode_all(sentences: Iterable[Sentence], encode: Callable) -> Iterator[dict[str, Any]]:
    for number, sentence in enumerate(sentences, start=1):
        try:
            encoded = encode(sentence)
        except ValueError as error:
            raise ValueError(f"sentence {number}: {error}") from error
        yield encoded


def _windows(items: Iterator, size: int) -> Iterator[list]:
    """Lists of `size` items. An error of the iterator is raised when the items before it are out."""
    window = []
    try:
        for item in items:
            window.append(item)
            if len(window) == size:
                yield window
                window = []
    except Exception:
        yield window
        raise
    yield window


class DependencyParsingPipeline(Pipeline):
    """
    `pipeline("dependency-parsing", model=...)`: sentences (strings or lists of words) in, JSON-ready dictionaries of
    [`~hf_structure.structures.Parse`] out. Options as in [`parse`]: `decoder`, `k`, `marginals`, `punctuation`,
    `word_tokenizer`, `max_words`.
    """

    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

    def _sanitize_parameters(
        self, decoder=None, k=None, marginals=None, punctuation=None, word_tokenizer=None, max_words=None
    ):
        def given(**options):
            return {name: value for name, value in options.items() if value is not None}

        if punctuation is not None:
            _check_punctuation(punctuation)
        return (
            given(punctuation=punctuation, word_tokenizer=word_tokenizer, max_words=max_words),
            given(decoder=decoder, k=k, marginals=marginals),
            given(punctuation=punctuation),
        )

    def preprocess(self, inputs: Sentence, **options) -> dict[str, Any]:
        encoded = encode_sentence(inputs, self.tokenizer, **options)
        input_ids = torch.tensor([encoded["input_ids"]])
        attention_mask = torch.ones_like(input_ids)
        return {"encoded": encoded, "input_ids": input_ids, "attention_mask": attention_mask}

    def _forward(self, model_inputs: dict[str, Any], **options) -> dict[str, Any]:
        encoded = model_inputs.pop("encoded")
        return {"encoded": encoded, **self.model.decode(**model_inputs, **options)}

    def postprocess(self, model_outputs: dict[str, Any], punctuation: str = "attach") -> dict[str, Any]:
        encoded = model_outputs.pop("encoded")
        return assemble_parse(encoded, DependencyDecoderOutput(**model_outputs), 0, punctuation).to_dict()


__all__ = ["DependencyParsingPipeline", "parse"]
