"""
From sentences to parses: `parse(...)`, and the same as a transformers pipeline.

A model trained without punctuation does not see any here: punctuation marks are recognised by their characters, taken
out, and put back into the tree by a rule that keeps a projective tree projective
([`~hf_structure.algorithms.trees.restore_words`]).
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
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
            Short name, folder or Hub name of a model, or a loaded model.
        tokenizer (`PreTrainedTokenizerBase`, *optional*):
            The model's tokenizer; needed with a loaded model that does not come from a folder.
        structure (`"dependency"`):
            The kind of structure.
        decoder (`"tree"` or `"argmax"`):
            The best tree with one root, or each word's best head (no tree in general).
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
        ValueError: no such model or option, a sentence that is empty or too long (the message gives its number), or a
            model that does not give this structure.
    """
    if punctuation not in PUNCTUATION:
        raise ValueError(f"punctuation must be one of {', '.join(PUNCTUATION)}, not {punctuation!r}")
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
    options = {"decoder": decoder, "k": k, "marginals": marginals}
    one = isinstance(sentences, str)
    items = [sentences] if one else sentences
    total = len(items) if isinstance(items, Sequence) else None
    bar = tqdm(total=total, unit=" sentences", disable=not progress)
    parses = _parse_windows(iter(items), model, tokenizer, encode, options, batch_size, bar)
    if one:
        return next(parses)
    return list(parses) if isinstance(sentences, Sequence) else parses


def load_parser(
    model: str | Path | PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None, device: str | torch.device | None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """
    Model in evaluation mode on its device, and its tokenizer.

    Raises:
        ValueError: if there is no such model, or a loaded one has no known tokenizer.
    """
    if isinstance(model, PreTrainedModel):
        tokenizer = tokenizer or (AutoTokenizer.from_pretrained(model.name_or_path) if model.name_or_path else None)
        if tokenizer is None:
            raise ValueError("pass the tokenizer too: this model was not loaded from a folder that holds one")
    else:
        folder = resolve_model(model)
        loaded, loaded_tokenizer = _load(folder, (Path(folder) / "config.json").stat().st_mtime_ns)
        model, tokenizer = loaded, tokenizer or loaded_tokenizer
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    return model.to(device).eval() if device else model.eval(), tokenizer


@functools.lru_cache(maxsize=2)
def _load(folder: str, modified: int) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The last models used stay loaded, as long as their folders do not change."""
    return AutoModelForDependencyParsing.from_pretrained(folder, dtype=torch.float32), AutoTokenizer.from_pretrained(folder)


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
        raise ValueError(f"the sentence has {len(words)} words, more than max_words={max_words}: split it, or raise it")
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


def decode_batch(
    encoded: Sequence[Mapping[str, Any]], model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, **options
) -> DependencyDecoderOutput:
    """Structures of a batch of encoded sentences, on the CPU."""
    batch = WordCollator(tokenizer.pad_token_id)(encoded)
    decoded = model.decode(**{name: value.to(model.device) for name, value in batch.items()}, **options)
    return DependencyDecoderOutput(**{name: value.cpu() for name, value in decoded.items()})


def _parse_windows(sentences: Iterator, model, tokenizer, encode, options, batch_size: int, bar) -> Iterator[Parse]:
    """Reads a window of sentences at a time and parses them in batches of similar lengths."""
    number, error = 0, None
    with bar:
        while error is None and (window := list(islice(sentences, batch_size * WINDOW))):
            encoded = []
            for sentence in window:
                number += 1
                try:
                    encoded.append(encode(sentence))
                except ValueError as problem:  # raised when the sentences before this one are out
                    error = ValueError(f"sentence {number}: {problem}")
                    break
            yield from _parse_sorted(encoded, model, tokenizer, encode.keywords["punctuation"], options, batch_size, bar)
    if error is not None:
        raise error


def _parse_sorted(encoded, model, tokenizer, punctuation: str, options, batch_size: int, bar) -> list[Parse]:
    parses: list[Parse | None] = [None] * len(encoded)
    order = sorted(range(len(encoded)), key=lambda i: len(encoded[i]["input_ids"]))
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        decoded = decode_batch([encoded[i] for i in batch], model, tokenizer, **options)
        for row, i in enumerate(batch):
            parses[i] = assemble_parse(encoded[i], decoded, row, punctuation)
        bar.update(len(batch))
    return parses


class DependencyParsingPipeline(Pipeline):
    """
    `pipeline("dependency-parsing", model=...)`: sentences (strings or lists of words) in, JSON-ready dictionaries of
    [`~hf_structure.structures.Parse`] out. Options as in [`parse`]: `decoder`, `k`, `marginals`, `punctuation`,
    `max_words`.
    """

    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

    def _sanitize_parameters(self, punctuation=None, max_words=None, decoder=None, k=None, marginals=None):
        def given(**options):
            return {name: value for name, value in options.items() if value is not None}

        return (
            given(punctuation=punctuation, max_words=max_words),
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
