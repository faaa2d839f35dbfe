"""
From sentences to parses: `parse(...)`.

A model trained without punctuation does not see any here either: punctuation marks are recognised by their
characters, removed, and restored to the tree by a rule that keeps a projective tree projective
([`~hf_structure.algorithms.trees.restore_words`]).
"""

import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload

import torch
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.abilities import abilities_of
from hf_structure.auto import AutoModelForDependencyParsing
from hf_structure.data.batching import MAX_PADDING, similar_length_batches
from hf_structure.data.collators import WordCollator
from hf_structure.data.sentences import as_sentence
from hf_structure.modeling_outputs import DecoderOutput
from hf_structure.pipelines.annotation import Tree, check_given
from hf_structure.pipelines.assembling import assemble_parse, sentences_of
from hf_structure.pipelines.encoding import (
    OneSentence,
    Sentence,
    encode_all,
    encode_sentence,
    encoding_options,
    is_one_sentence,
    read_sentences,
    skipped_errors,
    with_columns,
)
from hf_structure.pipelines.loading import Tokenizer, choose_tokenizer, compute_device, load_model
from hf_structure.pipelines.options import DEFAULT_PARSER, MAX_WORDS, NAMES, PUNCTUATION, STRUCTURES
from hf_structure.pipelines.segmentation import sentence_splitter
from hf_structure.pipelines.splitting import choose_splitter, regroup, split_texts, warn_of_several, windows
from hf_structure.structures.parse import Parse
from hf_structure.structures.parses import Parses
from hf_structure.tokenization import is_word_level

WINDOW = 64  # batches whose sentences are sorted by length together


class ParseOptions(TypedDict, total=False):
    """Options of [`parse`]."""

    tokenizer: PreTrainedTokenizerBase | None
    tags: Sequence[str] | Iterable[Sequence[str] | None] | None
    initial: Tree | Iterable[Tree | None] | None
    structure: str | None
    decoder: str
    k: int
    beam_size: int | None
    rounds: int | None
    marginals: bool
    punctuation: str
    word_tokenizer: Tokenizer | None
    treebank: str | None
    max_words: int
    skip_long: bool
    skip_empty: bool
    batch_size: int
    device: str | torch.device | None
    dtype: str | torch.dtype | None
    revision: str | None
    trust_remote_code: bool
    progress: bool


Model = str | Path | PreTrainedModel
Splitter = Literal["split", "model"] | Callable[[str], list[str]]


@overload
def parse(
    inputs: str, model: Model = DEFAULT_PARSER, *, sentences: Splitter, **options: Unpack[ParseOptions]
) -> Parses: ...
@overload
def parse(
    inputs: OneSentence,
    model: Model = DEFAULT_PARSER,
    *,
    sentences: Literal["line"] | None = None,
    **options: Unpack[ParseOptions],
) -> Parse: ...
@overload
def parse(
    inputs: Iterator[Sentence],
    model: Model = DEFAULT_PARSER,
    *,
    sentences: str | Callable[[str], list[str]] | None = None,
    **options: Unpack[ParseOptions],
) -> Iterator[Any]: ...
@overload
def parse(
    inputs: Any,
    model: Model = DEFAULT_PARSER,
    *,
    sentences: str | Callable[[str], list[str]] | None = None,
    **options: Unpack[ParseOptions],
) -> Parses: ...
def parse(
    inputs: Any,
    model: str | Path | PreTrainedModel = DEFAULT_PARSER,
    *,
    sentences: str | Callable[[str], list[str]] | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    tags: Sequence[str] | Iterable[Sequence[str] | None] | None = None,
    initial: Tree | Iterable[Tree | None] | None = None,
    structure: str | None = None,
    decoder: str = "tree",
    k: int = 1,
    beam_size: int | None = None,
    rounds: int | None = None,
    marginals: bool = False,
    punctuation: str = "attach",
    word_tokenizer: Tokenizer | None = None,
    treebank: str | None = None,
    max_words: int = MAX_WORDS,
    skip_long: bool = False,
    skip_empty: bool = False,
    batch_size: int = 64,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    progress: bool = False,
) -> Parse | Parses | Iterator[Any] | None:
    """
    Parses sentences.

    Args:
        inputs (`str`, `list[str]`, `list[list[str]]`, an array, series or column of either, or an iterator):
            Raw sentences, which `word_tokenizer` splits into words, or sentences as lists of words, which come back
            as they are. Also what [`~hf_structure.data.conllu.read_conllu`] and
            [`~hf_structure.data.corpus.load_sentences`] give, and other dictionaries: `words` (or `text`), and
            optionally `tags` (which a model that reads none ignores) and `initial`. Nothing else of them is read.
        model (`str`, `Path` or `PreTrainedModel`, defaults to `"rngt-en"`):
            Short name, folder or Hub name of a model, or a loaded model (which is put into evaluation mode).
        sentences (`"line"`, `"split"`, `"model"` or `Callable[[str], list[str]]`, *optional*):
            Whether a string is one sentence, or running text that is split into sentences by the rules of
            [`~hf_structure.data.text.split_sentences`] (with the word tokenizer `"unicode"`, by those for any
            language, [`~hf_structure.data.scripts.script_sentence_spans`]), by the model, if it finds sentences, or by
            a function. By default it is one sentence, and there is a warning where the rules find several.
        tokenizer (`PreTrainedTokenizerBase`, *optional*):
            The model's tokenizer; needed with a loaded model that does not come from a folder.
        tags (`list[list[str]]` or an iterator of lists, *optional*):
            For a model that reads part-of-speech tags: those of the words of every sentence, or of the one sentence.
            Tags that it does not know, and None instead of a list, are read as unknown.
        initial (`list` or an iterator of trees, *optional*):
            For a model that refines given trees (`RNGTransformerForParsing`): the tree of every sentence, or None, or
            the one tree of the one sentence, as a `DependencyTree`, a `Parse`, a sentence of `read_conllu`, heads, or
            a pair of heads and labels. A model with labels needs labels, and leaves out the arcs of those that it does
            not know. The heads may contain cycles and several roots.
        structure (`"dependency"`, `"constituency"`, `"both"` or `"graph"`, *optional*):
            The kind of structure; by default all that the model gives. GiLT gives dependency graphs, Pushdown-LM
            constituency trees.
        decoder (`"tree"`, `"projective"` or `"argmax"`):
            The best tree with one root, the best such tree without crossing arcs, or each word's best head (no tree
            in general). Models differ in what they offer.
        k (`int`):
            Number of trees or graphs; with more than one, `Parse.alternatives` holds them, best first.
        beam_size (`int`, *optional*):
            For models that build a structure step by step: number of derivations (G2G Transformer), graphs (GiLT) or
            trees (Pushdown-LM) followed; 1 is greedy. By default 1, or `4 * k` if `k` is more than 1; for graphs and
            those trees at least 16.
        rounds (`int`, *optional*):
            For models that refine their trees: how often at most.
        marginals (`bool`):
            Whether `Parse.marginals` is filled in: probabilities of all arcs over all trees (StructFormer: its parent
            distribution; G2G Transformer and GiLT: over the trees or graphs of the beam). They are about dependencies.
        punctuation (`"attach"`, `"drop"` or `"parse"`):
            For a model trained without punctuation: put punctuation into its tree by rule, leave it out of the tree,
            or let the model see it as words. A sentence of punctuation alone is always parsed as words.
        word_tokenizer (`str` or `Callable`, *optional*):
            How raw sentences are split into words: `"english"` ([`~hf_structure.data.text.tokenize`]), `"unicode"`
            ([`~hf_structure.data.text.unicode_words`], for any language), `"spaces"`, or a function that gives a list
            of words, and tuples of words in place of what is one token of the text (`("do", "n't")`). By default as
            the checkpoint's tokenizer says, else `"english"`.
        treebank (`str`, *optional*):
            For a model that has learned from several treebanks: the one whose habits it follows; by default the first.
        max_words (`int`):
            Longer sentences are refused: memory grows with the square of the length. So are those that are too long
            for the model.
        skip_long (`bool`):
            Whether None is given for a sentence that is too long, instead of an error.
        skip_empty (`bool`):
            Whether None is given for a sentence without words, instead of an error. A missing value of a column (None,
            NaN or pandas' NA) is one too.
        batch_size (`int`):
            Sentences that the model reads at once, at most: where lengths differ much, batches are smaller.
        device (`str` or `torch.device`, *optional*):
            Where to compute. By default where a loaded model is, else on a GPU if there is one.
        dtype (`str` or `torch.dtype`, *optional*):
            Precision to compute in: by default that of a loaded model, else float32. `"bfloat16"` is faster on
            processors and GPUs that have instructions for it, and changes a few heads in a thousand. `"int8"` is for
            CPUs: the linear layers multiply 8-bit integers.
        revision (`str`, *optional*):
            Branch, tag or commit of a model on the Hub; also as part of its name, `"org/model@revision"`.
        trust_remote_code (`bool`):
            Whether code that comes with a model may run.
        progress (`bool`):
            Whether to show a progress bar.

    Returns:
        `Parse` for a string, [`Parses`], a list of them, for what has a length, else an
            iterator of `Parse`; in the order given, with None for a sentence that is left out. Where text is
            split into `sentences`, there is a list of their parses, which may be empty, in the place of each `Parse`.

    Raises:
        ValueError: no such model, device, dtype or option, a model that does not give this structure or cannot use
            this tokenizer, these tags or initial trees; tags or initial trees for text that is to be split.
        SentenceError: a sentence that is empty or too long, or has another number of tags or heads. The message gives
            the number of the sentence; from an iterator, those before it come out first. It is a `ValueError`.

    Warns:
        UserWarning: a model that reads tags is given a sentence without any that it knows; likewise labels of trees. A
            string holds several sentences, and `sentences` does not say what to do.
    """
    check_punctuation(punctuation)
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, not {batch_size}")
    model, tokenizer = load_parser(model, tokenizer, device, dtype, revision, trust_remote_code)
    check_input(model, tokenizer)
    treebank_id = choose_treebank(model, treebank)
    word_tokenizer = choose_tokenizer(tokenizer, word_tokenizer)
    by_model = functools.partial(sentence_splitter, model, tokenizer, word_tokenizer, treebank_id, batch_size)
    split = choose_splitter(sentences, tags, initial, by_model, word_tokenizer)
    check_given(model, tags, initial)
    structures = choose_structures(model, structure)
    search = search_options(model, beam_size, rounds)
    encode = functools.partial(
        encode_sentence,
        tokenizer=tokenizer,
        punctuation=punctuation,
        word_tokenizer=word_tokenizer,
        max_words=max_words,
        treebank_id=treebank_id,
        **encoding_options(model),
    )
    decode = functools.partial(
        parse_batch,
        model=model,
        structures=structures,
        punctuation=punctuation,
        decoder=decoder,
        k=k,
        marginals=marginals,
        **search,
    )
    batch: Any = read_sentences(inputs)
    is_one = is_one_sentence(batch)
    if is_one:
        batch = [batch]
        tags = _as_column(tags)
        initial = _as_column(initial)
    is_list = isinstance(batch, Sized)
    total = len(batch) if is_list and split is None else None
    counts: deque[int] = deque()
    batch = map(as_sentence, batch)
    if split:
        batch = split_texts(batch, counts, split, batch_size)
    elif not sentences:
        batch = warn_of_several(batch, "model" if abilities_of(model.config).segments else "split")
    bar = tqdm(total=total, unit=" sentences", disable=not progress)
    given: dict[str, Any] = {"tags": tags, "initial": initial}
    items = with_columns(batch, **given)
    items = encode_all(items, encode, skipped_errors(skip_long, skip_empty))
    # A search has nothing to do where a sentence has ended.
    max_padding = 1.0 if abilities_of(model.config).incremental else MAX_PADDING
    parses = _parse_windows(items, decode, batch_size, max_padding, bar)
    if split is not None:
        parses = map(Parses, regroup(parses, counts))
    if is_one:
        return next(parses)
    return Parses(parses) if is_list else parses


def _as_column(value: Any) -> list | None:
    """The annotation of one sentence as that of a list of one."""
    return None if value is None else [value]


def choose_structures(model: PreTrainedModel, structure: str | None) -> tuple[str, ...]:
    """The requested kinds of structure. Raises `ValueError` for one that the model does not give."""
    given = abilities_of(model.config).structures
    if structure is None:
        return given
    if structure not in STRUCTURES:
        raise ValueError(f"structure must be one of {', '.join(STRUCTURES)}, not {structure!r}")
    wanted = ("dependency", "constituency") if structure == "both" else (structure,)
    for kind in wanted:
        if kind not in given:
            names = " and ".join(NAMES[name] for name in given)
            raise ValueError(f"{type(model).__name__} gives {names}, but no {NAMES[kind]}")
    return wanted


def choose_treebank(model: PreTrainedModel, treebank: str | None) -> int | None:
    """The number of the treebank whose habits are followed. Raises `ValueError` for one that the model has not."""
    known = abilities_of(model.config).treebanks
    if treebank is None:
        return None
    if not known:
        raise ValueError(f"this {type(model).__name__} follows the habits of one treebank alone: leave treebank out")
    if treebank not in known:
        raise ValueError(f"treebank must be one of {', '.join(known)}, not {treebank!r}")
    return known.index(treebank)


def search_options(model: PreTrainedModel, beam_size: int | None, rounds: int | None) -> dict[str, int]:
    """Arguments of `decode` for beam and rounds. Raises `ValueError` for those that the model does not take."""
    options = {}
    if beam_size is not None:
        if not abilities_of(model.config).beam:
            raise ValueError(f"{type(model).__name__} searches without a beam: leave beam_size out")
        options["beam_size"] = beam_size
    if rounds is not None:
        if not abilities_of(model.config).rounds:
            raise ValueError(f"{type(model).__name__} does not refine its trees: leave rounds out")
        options["num_rounds"] = rounds
    for name, value in (("beam_size", beam_size), ("rounds", rounds)):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}")
    return options


def check_input(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    if not is_word_level(tokenizer) and abilities_of(model.config).reads == "words":
        raise ValueError(f"{type(model).__name__} reads whole words: a word-level tokenizer is needed")
    tokens = max(tokenizer.get_vocab().values()) + 1
    embeddings: Any = model.get_input_embeddings()
    known = len(embeddings.weight)
    if tokens > known:
        raise ValueError(f"the tokenizer has {tokens} tokens, but the model knows {known}")


def check_punctuation(punctuation: str) -> None:
    if punctuation not in PUNCTUATION:
        raise ValueError(f"punctuation must be one of {', '.join(PUNCTUATION)}, not {punctuation!r}")


def load_parser(
    model: str | Path | PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None,
    device: str | torch.device | None,
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """See [`~hf_structure.pipelines.loading.load_model`]; raises `ValueError` for a model that does not parse, too."""
    kind = (AutoModelForDependencyParsing, "model that parses", "lm_head")
    model, tokenizer = load_model(model, tokenizer, device, *kind, dtype, revision, trust_remote_code)
    if not hasattr(model, "decode") or not abilities_of(model.config).structures:
        raise ValueError(f"this {type(model).__name__} does not parse: it gives no structure")
    return model, tokenizer


def parse_batch(
    encoded: Sequence[Mapping[str, Any]],
    model: PreTrainedModel,
    structures: Sequence[str],
    punctuation: str = "attach",
    **options,
) -> list[Parse]:
    """Parses of encoded sentences, which the model reads at once; `options` are those of its `decode`."""
    return parses_of(encoded, decode_batch(encoded, model, **options), model, structures, punctuation)


def parses_of(
    encoded: Sequence[Mapping[str, Any]],
    decoded: DecoderOutput,
    model: PreTrainedModel,
    structures: Sequence[str],
    punctuation: str = "attach",
) -> list[Parse]:
    """The parses of encoded sentences that the model has decoded."""
    abilities = abilities_of(model.config)
    pairs = zip(encoded, sentences_of(decoded), strict=True)
    return [
        Parse.from_dict(assemble_parse(sentence, found, structures, abilities, punctuation))
        for sentence, found in pairs
    ]


def decode_batch(encoded: Sequence[Mapping[str, Any]], model: Any, **options) -> DecoderOutput:
    """The output of a model for a batch; `options` are those of its `decode`."""
    device = compute_device(model)
    batch = {name: value.to(device) for name, value in WordCollator()(encoded).items()}
    return model.decode(**batch, **options)


def _parse_windows(
    sentences: Iterator[dict[str, Any] | None], decode, batch_size: int, max_padding: float, bar: tqdm
) -> Iterator[Parse | None]:
    """Reads a window of encoded sentences at a time and parses them in batches of similar lengths."""
    with bar:
        for window in windows(sentences, batch_size * WINDOW):
            parses: list[Parse | None] = [None] * len(window)
            known = [(place, encoded) for place, encoded in enumerate(window) if encoded is not None]
            lengths = [len(encoded["input_ids"]) for _, encoded in known]
            for batch in similar_length_batches(lengths, batch_size, max_padding):
                places, chosen = zip(*(known[i] for i in batch), strict=True)
                for place, parsed in zip(places, decode(list(chosen)), strict=True):
                    parses[place] = parsed
                bar.update(len(batch))
            bar.update(len(window) - len(known))
            yield from parses
