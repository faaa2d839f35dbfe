"""
Computes probabilities of sentences and surprisals of their tokens and words with any language model.

A sentence begins with the tokenizer's beginning token, or its end token if there is none, as in GPT-2. This token is
given and never scored, so that every token of the sentence has a surprisal. The end token is scored with models whose
training data ended in it: the models of this library, GiLT and its baselines. Logarithms are natural: `log_prob` and
surprisals are in nats (a bit is 0.693 nats).

Masked language models define no probabilities of sentences. Pseudo-log-likelihoods replace them, see `masked_scoring`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Unpack, cast, overload

import torch
from tqdm.auto import tqdm
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from hf_structure.algorithms.beam import default_max_tokens
from hf_structure.corpora.batching import token_budget_batches
from hf_structure.corpora.collators import WordCollator, pad_words
from hf_structure.hub.locating import resolve_model, short_names
from hf_structure.metrics.language_model import language_model_scores
from hf_structure.models.abilities import abilities_of
from hf_structure.parsing.encoding import encode_all, skipped_errors
from hf_structure.parsing.loading import (
    CAUSAL,
    MASKED,
    WordTokenizer,
    choose_word_tokenizer,
    compute_device,
    load_model,
    read_config,
)
from hf_structure.parsing.options import DEFAULT_SCORER, MASKINGS
from hf_structure.scoring.expectations import (
    ENTROPY,
    STRUCTURE_ENTROPY,
    SearchWatch,
    boundary_sets,
    corrected,
    expectations,
    word_starts,
)
from hf_structure.scoring.masked_scoring import encode_masked, pseudo_log_probs, special_ends, split_sentence
from hf_structure.text.pauses import insert_pauses, pause_token_ids
from hf_structure.text.reading import read_source
from hf_structure.text.sentences import EmptySentenceError, LongSentenceError, Sentence, SentenceError, read_batch
from hf_structure.text.tokenization import encode_subwords, encode_text, number_words
from hf_structure.text.words import find_words

AUTO_CLASSES = tuple(auto_class.__name__ for auto_class, _ in (CAUSAL, MASKED))
DEFAULT_BEAM_SIZE = 20
LOGITS = 2**26  # default maximum in a batch: 256 MiB
# Log-probabilities of all tokens but the first, and, if requested, the expectations before each of them.
Predicted = tuple[list[float], list[list[float]]]
_BEGINNING = 4  # initial tokens by which sentences are grouped to share a part of the search


@dataclass(frozen=True)
class SentenceScore:
    """
    The score of a sentence.

    Args:
        text (`str`): The sentence, or its words with spaces between them.
        words (`list[str]`): Its words.
        word_spans (`list[tuple[int, int]]`, *optional*):
            Start and end of each word in the text; None if the words do not match it.
        tokens (`list[str]`): The scored tokens, that is, all but the beginning token.
        word_ids (`list[int]`): The word of each token, from 1; 0 for the end token.
        token_surprisals (`list[float]`): `-log p(token | all before)` in nats; for a masked language model,
            `-log p(token | all others)`.
        unknown (`list[bool]`): True for each word that the model's vocabulary lacks, in whole or in part.
        correction (`str`, *optional*): Correction of the surprisals for leading spaces, see [`score`].
        entropies (`list[float]`, *optional*):
            Entropy of the next token in nats, before the first word and after each word, see [`score`].
        structure_entropies (`list[float]`, *optional*):
            Entropy of the structures in the beam, at the same points.
    """

    text: str
    words: list[str]
    word_spans: list[tuple[int, int]] | None
    tokens: list[str]
    word_ids: list[int]
    token_surprisals: list[float]
    unknown: list[bool]
    correction: str | None = None
    entropies: list[float] | None = None
    structure_entropies: list[float] | None = None

    @property
    def unknown_words(self) -> int:
        """Number of words that the model's vocabulary lacks, in whole or in part."""
        return sum(self.unknown)

    @property
    def log_prob(self) -> float:
        """
        Log-probability of the sentence in nats: minus the sum of its tokens' surprisals. For a masked language model,
        the pseudo-log-likelihood.
        """
        # Float addition in order loses digits over long sentences; `fsum` is exact.
        return -math.fsum(self.token_surprisals)

    @property
    def perplexity(self) -> float:
        """Perplexity per token."""
        return math.exp(-self.log_prob / len(self.tokens))

    @property
    def word_surprisals(self) -> list[float]:
        """Sum of the surprisals of each word's tokens; the end token is part of no word."""
        # Word 0 collects the end token, which belongs to no word.
        sums = [0.0] * (len(self.words) + 1)
        for word, surprisal in zip(self.word_ids, self.token_surprisals, strict=True):
            sums[word] += surprisal
        return sums[1:]

    def to_dict(self) -> dict[str, Any]:
        """Converts all fields to a JSON-ready dictionary, without fields that were not requested."""
        values = asdict(self)
        for name in ("correction", "entropies", "structure_entropies"):
            if values[name] is None:
                del values[name]
        derived = ("unknown_words", "log_prob", "perplexity", "word_surprisals")
        return values | {name: getattr(self, name) for name in derived}


class ScoreOptions(TypedDict, total=False):
    """Options of [`score`]."""

    tokenizer: PreTrainedTokenizerBase | None
    beam_size: int | None
    raw: bool
    eos: bool | None
    word_tokenizer: WordTokenizer | None
    masking: str | None
    correction: str | None
    entropy: bool
    max_tokens: int | None
    skip_long: bool
    skip_empty: bool
    device: str | torch.device | None
    revision: str | None
    trust_remote_code: bool
    progress: bool


@overload
def score(
    sentences: str, model: str | Path | PreTrainedModel = DEFAULT_SCORER, **options: Unpack[ScoreOptions]
) -> SentenceScore: ...
@overload
def score(
    sentences: Any, model: str | Path | PreTrainedModel = DEFAULT_SCORER, **options: Unpack[ScoreOptions]
) -> list[Any]: ...
def score(
    sentences: Any,
    model: str | Path | PreTrainedModel = DEFAULT_SCORER,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    beam_size: int | None = None,
    raw: bool = False,
    eos: bool | None = None,
    word_tokenizer: WordTokenizer | None = None,
    masking: str | None = None,
    correction: str | None = None,
    entropy: bool = False,
    max_tokens: int | None = None,
    skip_long: bool = False,
    skip_empty: bool = False,
    device: str | torch.device | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    progress: bool = False,
) -> SentenceScore | list[Any] | None:
    """
    Scores sentences.

    Args:
        sentences (`str`, `list[str]`, `list[list[str]]`, or any array, series, column or iterable of either):
            Raw sentences, or sentences as lists of words.
        model (`str`, `Path` or `PreTrainedModel`, defaults to `"gilt-en"`):
            Short name, folder or Hub name of a causal or masked language model, or a loaded one (which is set to
            evaluation mode). Causal models of transformers need one pass. GiLT searches over graphs, Pushdown-LM over
            trees; probabilities are summed over the structures found, and are lower bounds. Masked models need one
            pass for every token, and return pseudo-log-likelihoods.
        beam_size (`int`, *optional*):
            For models that build graphs or trees: number explored for a sentence, 20 by default.
        raw (`bool`):
            If True, a sentence is tokenized unchanged, as in lm_eval (in which the text of a BLiMP sentence begins
            with a space), and the end token is not scored. Otherwise, its words are joined with single spaces.
        eos (`bool`, *optional*):
            If True, the end token is scored; by default with the models of this library, but not with `raw`.
        word_tokenizer (`str` or `Callable[[str], list[str]]`, *optional*):
            How raw sentences are split into words: `"english"` ([`~hf_structure.text.words.tokenize_words`], as in
            [`parse`]), `"unicode"`, `"spaces"`, or a function. By default the choice stored in the checkpoint's
            tokenizer, or else `"english"` for the models of this library and `"spaces"` for others.
        masking (`"within_word"` or `"original"`, *optional*):
            For masked models: mask each piece of a word with the later ones (the default; Kauf and Ivanova 2023), or
            alone (Salazar et al. 2020).
        correction (`"oh-schuler"` or `"pimentel-meister"`, *optional*):
            For causal models whose tokens begin with the space before a word: a word's surprisal counts the space
            after it, not the one before it; see [`~hf_structure.scoring.expectations`]. By default uncorrected.
        entropy (`bool`):
            For causal models: adds the entropy of the next token, and of the structures in the beam, before the first
            word and after each word.
        max_tokens (`int`, *optional*):
            Bounds the memory: tokens of a batch, including padding and the tokens of every graph explored. A sentence
            is never split. By default as many as have logits of 256 MiB; with a beam 65536, fewer for large models.
        tokenizer, skip_long, skip_empty, device, revision, trust_remote_code, progress:
            See [`parse`]; the tokenizer must be a fast one.

    Returns:
        [`SentenceScore`] for a string, else a list of them in input order; None for a skipped sentence.

    Raises:
        ValueError: an unknown model, device or option, or an option for another kind of model.
        SentenceError: a sentence that is empty, too long for the model, or neither a string nor a list of words.
    """
    model, tokenizer = load_language_model(model, tokenizer, device, revision, trust_remote_code)
    if is_masked(model):
        given = {"beam_size": beam_size, "raw": raw or None, "eos": eos}
        _check_not_given("causal", **given, correction=correction, entropy=entropy or None)
        scorer = _masked_scorer(model, tokenizer, word_tokenizer, masking or MASKINGS[0])
    else:
        _check_not_given("masked", masking=masking)
        scorer = _causal_scorer(model, tokenizer, word_tokenizer, beam_size, raw, eos, correction, entropy)
    batch = read_batch(sentences)
    items = [batch] if isinstance(batch, str) else batch
    encode = partial(_encode, encode=scorer.encode, model=model)
    tried = encode_all(((item, {}) for item in items), encode, skipped_errors(skip_long, skip_empty))
    # Errors stand for skipped sentences.
    encoded = [None if isinstance(one, SentenceError) else one for one in tried]
    scores = _score_encoded(encoded, scorer, max_tokens, progress)
    return scores[0] if isinstance(batch, str) else scores


class _Scorer(NamedTuple):
    """The three steps of scoring with one kind of model."""

    encode: Callable[[Sentence], dict[str, Any]]  # see `_encode`
    log_probs: Callable[..., Sequence[Any]]  # of encoded sentences, with `max_tokens` and `progress`
    to_score: Callable[[Mapping[str, Any], Any], SentenceScore]  # from an encoded sentence and its log-probabilities


def _score_encoded(
    encoded: Sequence[Mapping[str, Any] | None], scorer: _Scorer, max_tokens: int | None, progress: bool
) -> list[SentenceScore | None]:
    """Scores encoded sentences, all together; None stands for a skipped one."""
    kept = [one for one in encoded if one is not None]
    found = iter(scorer.log_probs(kept, max_tokens=max_tokens, progress=progress))
    return [None if one is None else scorer.to_score(one, next(found)) for one in encoded]


def _check_not_given(kind: str, **options: object) -> None:
    """Raises `ValueError` for options of another kind of model."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name} is for {kind} language models: leave it out")


def load_language_model(
    model: str | Path | PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None = None,
    device: str | torch.device | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """
    Loads a causal or a masked language model, and its tokenizer; see [`~hf_structure.parsing.loading.load_model`].

    If a model type can be both, like BERT, the `architectures` of the configuration decide; if they name neither, the
    model is masked.
    """
    if isinstance(model, torch.nn.Module):
        masked = is_masked(model)
        if not masked and abilities_of(model.config).structures and not model.can_generate():
            raise ValueError(_only_parses(model.config))
    else:
        # Resolve the name first: the configuration in the folder decides which class loads it.
        model = resolve_model(model, revision, trust_remote_code)
        revision = None
        masked = loads_masked(model, trust_remote_code)
    kind = MASKED if masked else CAUSAL
    return load_model(model, tokenizer, device, *kind, revision=revision, trust_remote_code=trust_remote_code)


def is_masked(model: torch.nn.Module) -> bool:
    """Returns True for a masked language model, recognised by the name of its class, as in transformers."""
    return type(model).__name__.endswith("ForMaskedLM")


def loads_masked(folder: str, trust_remote_code: bool) -> bool:
    """
    Returns True if the configuration in a folder describes a masked language model. Raises `ValueError` for a parser
    that is no language model.
    """
    config = read_config(folder, "language model", trust_remote_code)
    for architecture in config.architectures or ():
        if architecture.endswith(("ForMaskedLM", "ForCausalLM", "LMHeadModel")):
            return architecture.endswith("ForMaskedLM")
    if abilities_of(config).structures and not _is_language_model(config):
        raise ValueError(_only_parses(config))
    return type(config) in MODEL_FOR_MASKED_LM_MAPPING


def _is_language_model(config: PreTrainedConfig) -> bool:
    """Returns True if there is a language model for this configuration, registered or in the code next to it."""
    tables = (MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING)
    code = getattr(config, "auto_map", None) or {}
    return any(type(config) in table for table in tables) or any(name in code for name in AUTO_CLASSES)


def _only_parses(config: PreTrainedConfig) -> str:
    """Error message for a parser."""
    *others, last = [
        each for each in short_names() if _is_language_model(read_config(resolve_model(each), "language model"))
    ]
    bundled = f"{', '.join(others)} and {last}"
    kind = f"a model of the family {config.model_type}"
    return f"{kind} parses, and gives no probabilities of text: of the models of this package, {bundled} do"


def _masked_scorer(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, word_tokenizer: WordTokenizer | None, masking: str
) -> _Scorer:
    if masking not in MASKINGS:
        raise ValueError(f"masking must be one of {', '.join(MASKINGS)}, not {masking!r}")
    if tokenizer.mask_token_id is None:
        raise ValueError("the tokenizer has no mask token: a masked language model needs one to be scored with")
    split = word_splitter(model, tokenizer, word_tokenizer)
    encode = partial(encode_masked, tokenizer=tokenizer, split=split, ends=special_ends(tokenizer))

    def log_probs(encoded: Sequence[Mapping[str, Any]], max_tokens: int | None, progress: bool) -> list[list[float]]:
        max_tokens = _check_max_tokens(max_tokens, _default_max_tokens(model.config, None))
        return pseudo_log_probs(model, tokenizer, encoded, masking, max_tokens, progress)

    return _Scorer(encode, log_probs, partial(_masked_score, tokenizer=tokenizer))


def _causal_scorer(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    word_tokenizer: WordTokenizer | None,
    beam_size: int | None,
    raw: bool,
    eos: bool | None,
    correction: str | None,
    entropy: bool,
) -> _Scorer:
    beam_size = choose_beam(model, beam_size)
    if eos is None:
        # Models that were never trained to predict the end of a sentence give it an arbitrary probability.
        eos = abilities_of(model.config).reads_sentences and not raw
    if raw and word_tokenizer is not None:
        raise ValueError("raw text is not split by a word tokenizer: leave word_tokenizer out")
    encode = partial(_encode_raw, tokenizer=tokenizer)
    if not raw:
        split = word_splitter(model, tokenizer, word_tokenizer)
        encode = partial(_encode_words, tokenizer=tokenizer, split=split)
    sets = None
    if correction is not None or entropy:
        sets = boundary_sets(tokenizer, model.config.vocab_size, correction, _end_token(tokenizer))
    log_probs = partial(_predict, model, beam_size=beam_size, sets=sets)
    options = {"eos": eos, "sets": sets, "correction": correction, "entropy": entropy}
    return _Scorer(encode, log_probs, partial(_sentence_score, tokenizer=tokenizer, **options))


def _masked_score(
    encoded: Mapping[str, Any], log_probs: Sequence[float], tokenizer: PreTrainedTokenizerBase
) -> SentenceScore:
    positions = [position for position, word in enumerate(encoded["word_ids"]) if word]
    return _score(encoded, positions, log_probs, tokenizer)


def _sentence_score(
    encoded: Mapping[str, Any],
    predicted: Predicted,
    tokenizer: PreTrainedTokenizerBase,
    eos: bool,
    sets: torch.Tensor | None,
    correction: str | None,
    entropy: bool,
) -> SentenceScore:
    log_probs, expected = predicted
    more: dict[str, Any] = {}
    if correction is not None:
        log_probs = corrected(encoded, log_probs, expected, cast(torch.Tensor, sets))
        more["correction"] = correction
    if entropy:
        rows = [expected[position - 1] for position in word_starts(encoded["word_ids"])]
        more["entropies"] = [row[ENTROPY] for row in rows]
        if len(rows[0]) > STRUCTURE_ENTROPY:
            more["structure_entropies"] = [row[STRUCTURE_ENTROPY] for row in rows]
    number = len(log_probs) if eos else len(log_probs) - 1
    return _score(encoded, range(1, number + 1), log_probs[:number], tokenizer, **more)


def _score(
    encoded: Mapping[str, Any],
    positions: Sequence[int],
    log_probs: Sequence[float],
    tokenizer: PreTrainedTokenizerBase,
    **more: Any,
) -> SentenceScore:
    """Makes the score of a sentence from the log-probabilities of the tokens at these positions."""
    ids = encoded["input_ids"]
    word_ids = encoded["word_ids"]
    unknown = {word for piece, word in zip(ids, word_ids, strict=True) if word and piece == tokenizer.unk_token_id}
    return SentenceScore(
        text=encoded["text"],
        words=encoded["words"],
        word_spans=encoded["word_spans"],
        tokens=cast(list[str], tokenizer.convert_ids_to_tokens([ids[position] for position in positions])),
        word_ids=[word_ids[position] for position in positions],
        token_surprisals=[-value for value in log_probs],
        unknown=[word in unknown for word in range(1, len(encoded["words"]) + 1)],
        **more,
    )


def choose_beam(model: PreTrainedModel, beam_size: int | None) -> int | None:
    """Returns the size of the beam, None for a model without structures. Raises `ValueError` for an invalid size."""
    if not abilities_of(model.config).incremental:
        if beam_size is not None:
            raise ValueError("this model builds no structures, so there is no beam: leave beam_size out")
        return None
    if beam_size is not None and beam_size < 1:
        raise ValueError(f"beam_size must be at least 1, not {beam_size}")
    return beam_size or DEFAULT_BEAM_SIZE


def word_splitter(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, choice: WordTokenizer | None = None
) -> Callable[[str], list[str]]:
    """Returns the function that splits raw text into words; see [`score`]. Raises `ValueError` for an unknown name."""
    # Models that learned from running text read words with their punctuation.
    default = "spaces" if abilities_of(model.config).reads == "text" else "english"
    return choose_word_tokenizer(tokenizer, choice, default)


def spaced_words(text: str, split: Callable[[str], list[str]]) -> str:
    """Joins the words of a text with single spaces. White space at its beginning is kept, as one space."""
    # The leading space makes the first word an inner one to the tokenizer.
    return " " * text[:1].isspace() + " ".join(split(text))


def _encode(
    sentence: Sentence, encode: Callable[[Sentence], dict[str, Any]], model: PreTrainedModel
) -> dict[str, Any]:
    """Returns the fields of [`SentenceScore`] without surprisals, and `input_ids`."""
    encoded = encode(read_source(sentence).content)
    longest = abilities_of(model.config).max_tokens
    read, _ = insert_pauses(encoded["input_ids"], encoded["word_ids"], pause_token_ids(model.config))
    # A search and a masked model read the end token even if it is not scored.
    length = len(read) - (not abilities_of(model.config).incremental and not is_masked(model))
    if longest is not None and length > longest:
        raise LongSentenceError(f"{length} tokens are too many for the model: it reads at most {longest}")
    return encoded


def _encode_raw(sentence: Sentence, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    text = sentence if isinstance(sentence, str) else " ".join(sentence)
    if not text.strip():
        raise EmptySentenceError("a sentence without words")
    encoded = encode_text(text, tokenizer)
    return {"text": text, "words": [text[start:end] for start, end in encoded["word_spans"]], **encoded}


def _encode_words(
    sentence: Sentence, tokenizer: PreTrainedTokenizerBase, split: Callable[[str], list[str]]
) -> dict[str, Any]:
    text, words = split_sentence(sentence, split)
    return {"text": text, "words": words, "word_spans": find_words(text, words)} | encode_subwords(words, tokenizer)


def token_log_probs(
    model: Any,
    sentences: Sequence[Mapping[str, Any]],
    beam_size: int | None = None,
    max_tokens: int | None = None,
    progress: bool = False,
) -> list[list[float]]:
    """
    Computes the log-probabilities of all tokens but the first.

    Args:
        model (`PreTrainedModel`): A causal language model in evaluation mode.
        sentences (`Sequence[Mapping]`):
            `input_ids`, and with a beam or pauses `word_ids`, as from
            [`~hf_structure.text.tokenization.encode_subwords`].
        beam_size (`int`, *optional*): Number of structures explored for a sentence; without it, the model reads none.
        max_tokens, progress: See [`score`].
    """
    return [log_probs for log_probs, _ in _predict(model, sentences, beam_size, max_tokens, progress)]


def _predict(
    model: Any,
    sentences: Sequence[Mapping[str, Any]],
    beam_size: int | None = None,
    max_tokens: int | None = None,
    progress: bool = False,
    sets: torch.Tensor | None = None,
) -> list[Predicted]:
    """
    Computes the [`token_log_probs`] of sentences and, with `sets` of tokens, the expectations before each of these
    tokens; see [`~hf_structure.scoring.expectations`]. A model with pauses reads them after each word.
    """
    options = (beam_size, max_tokens, progress, sets)
    pauses = pause_token_ids(model.config)
    if not pauses:
        return _predict_all(model, sentences, *options)
    paused = [insert_pauses(sentence["input_ids"], sentence["word_ids"], pauses) for sentence in sentences]
    predicted = _predict_all(model, [{"input_ids": ids} for ids, _ in paused], *options)
    return [_at_indices(found, indices) for found, (_, indices) in zip(predicted, paused, strict=True)]


def _at_indices(predicted: Predicted, indices: Sequence[int]) -> Predicted:
    """Leaves out what is predicted of all but the tokens at these indices, the first of which nothing predicts."""
    log_probs, expected = predicted
    kept = [index - 1 for index in indices[1:]]
    return [log_probs[index] for index in kept], [expected[index] for index in kept if expected]


@torch.no_grad()
def _predict_all(
    model: Any,
    sentences: Sequence[Mapping[str, Any]],
    beam_size: int | None,
    max_tokens: int | None,
    progress: bool,
    sets: torch.Tensor | None,
) -> list[Predicted]:
    """Computes what [`_predict`] returns, of all tokens but the first."""
    max_tokens = _check_max_tokens(max_tokens, _default_max_tokens(model.config, beam_size))
    lengths = [len(sentence["input_ids"]) for sentence in sentences]
    collate = WordCollator()
    device = compute_device(model)
    results: list[Predicted] = [([], [])] * len(sentences)
    with tqdm(total=len(sentences), unit=" sentences", disable=not progress) as bar:
        order = _alike_together(sentences) if beam_size else None
        # A beam multiplies the rows of a batch.
        for indices in token_budget_batches(lengths, max_tokens // (beam_size or 1), order):
            batch = collate([sentences[index] for index in indices])
            batch = {name: value.to(device) for name, value in batch.items()}
            if beam_size is None:
                values, expected = _plain_log_probs(model, batch, sets)
            else:
                values, expected = _searched_log_probs(model, batch, sets, beam_size, max_tokens)
            expectations_of = [[]] * len(indices) if expected is None else expected.tolist()
            for index, row, others in zip(indices, values.tolist(), expectations_of, strict=True):
                results[index] = (row[: lengths[index] - 1], others[: lengths[index] - 1])
            bar.update(len(indices))
    return results


def _default_max_tokens(config: PreTrainedConfig, beam_size: int | None) -> int:
    if beam_size:
        return default_max_tokens(config.num_hidden_layers, config.hidden_size)
    return max(LOGITS // config.vocab_size, 1)


def _end_token(tokenizer: PreTrainedTokenizerBase) -> int:
    # GPT-2 and others use one token for both ends.
    return cast(int, tokenizer.bos_token_id if tokenizer.eos_token_id is None else tokenizer.eos_token_id)


def _check_max_tokens(max_tokens: int | None, default: int) -> int:
    if max_tokens is not None and max_tokens < 1:
        raise ValueError(f"max_tokens must be at least 1, not {max_tokens}")
    return max_tokens or default


def _alike_together(sentences: Sequence[Mapping[str, Any]]) -> list[int]:
    """Orders sentences by length, with sentences that begin alike next to each other to share a part of the search."""
    beginnings = [tuple(sentence["input_ids"][:_BEGINNING]) for sentence in sentences]
    # Sentences that share a beginning are kept together, even if their lengths differ.
    longest = {}
    for beginning, sentence in zip(beginnings, sentences, strict=True):
        longest[beginning] = max(longest.get(beginning, 0), len(sentence["input_ids"]))
    return sorted(range(len(sentences)), key=lambda i: (longest[beginnings[i]], *sentences[i]["input_ids"]))


def running_text_log_probs(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[Sequence[int]], **options
) -> list[list[float]]:
    """
    Computes the [`token_log_probs`] of texts given as token ids; words begin at tokens with a leading space. With a
    beam, a text must begin with the beginning or end token: `ValueError` otherwise.
    """
    end = _end_token(tokenizer)
    ids = pad_words([[*text, end] for text in texts], end)
    words = number_words(ids, tokenizer)
    if options.get("beam_size") and words[:, 0].any():
        raise ValueError("graphs are predicted of texts that begin with the beginning token, which this one lacks")
    # The end token is not scored; it keeps the search from pruning at the last token.
    rows = [
        {"input_ids": row[: len(text) + 1], "word_ids": numbers[: len(text) + 1]}
        for text, row, numbers in zip(texts, ids.tolist(), words.tolist(), strict=True)
    ]
    return [log_probs[:-1] for log_probs in token_log_probs(model, rows, **options)]


def _plain_log_probs(
    model: PreTrainedModel, batch: Mapping[str, torch.Tensor], sets: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """
    Computes log-probabilities `(batch_size, seq_len - 1)`, and with `sets` expectations `(batch_size, seq_len - 1,
    3)`, in one pass. Padding is on the right, where a causal model does not see it.
    """
    # The last token predicts nothing that is scored, so the model need not read it.
    inputs = {name: batch[name][:, :-1] for name in ("input_ids", "attention_mask")}
    logits = model(**inputs, use_cache=False).logits.float()
    targets = batch["input_ids"][:, 1:].unsqueeze(-1)  # (batch_size, seq_len - 1, 1)
    # `logsumexp` of the rows, because `log_softmax` would need another tensor of the logits' size.
    log_probs = logits.gather(-1, targets).squeeze(-1) - logits.logsumexp(-1)  # (batch_size, seq_len - 1)
    if sets is None:
        return log_probs, None
    # Row by row, to save memory.
    return log_probs, torch.stack([expectations(row.log_softmax(-1), sets) for row in logits])


def _searched_log_probs(
    model: Any, batch: Mapping[str, torch.Tensor], sets: torch.Tensor | None, beam_size: int, max_tokens: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Like [`_plain_log_probs`], but summed over the structures in a beam; expectations have a fourth column."""
    options: dict[str, Any] = {"beam_size": beam_size, "max_tokens": max_tokens}
    if sets is None:
        return model.beam_search(**batch, **options).token_log_probs[:, 1:], None
    watch = SearchWatch(sets, *batch["input_ids"].shape)
    log_probs = model.beam_search(**batch, **options, watch=watch).token_log_probs[:, 1:]
    return log_probs, watch.values[:, 1:]


class CorpusTotals:
    """Accumulates [`corpus_scores`] without keeping the sentences."""

    def __init__(self) -> None:
        names = ("sentences", "tokens", "words", "unknown_words", "log_prob", "ends")
        self._sums: dict[str, float] = dict.fromkeys(names, 0)

    def add(self, scored: SentenceScore) -> None:
        """Adds a sentence."""
        values = (1, len(scored.tokens), len(scored.words), scored.unknown_words, scored.log_prob)
        for name, value in zip(self._sums, (*values, scored.word_ids.count(0)), strict=True):
            self._sums[name] += value

    def scores(self) -> dict[str, float]:
        """See [`corpus_scores`]."""
        if not self._sums["sentences"]:
            raise ValueError("there are no sentences to score")
        counts = {name: value for name, value in self._sums.items() if name != "ends"}
        return counts | language_model_scores({"lm_loss": -counts["log_prob"], **self._sums})


def corpus_scores(scores: Iterable[SentenceScore]) -> dict[str, float]:
    """
    Combines the scores of sentences into scores of the corpus: the numbers of `sentences`, scored `tokens`, `words`
    and `unknown_words`; the total `log_prob`; the `perplexity` per token and `word_perplexity` per word, in which a
    scored end of a sentence counts as one of each. With a beam, these are upper bounds of the perplexities.

    Raises:
        ValueError: there are no sentences.
    """
    totals = CorpusTotals()
    for scored in scores:
        totals.add(scored)
    return totals.scores()


def count_falls(log_probs: Sequence[float], larger: Sequence[float], tolerance: float = 1e-4) -> int:
    """
    Counts the sentences with a lower log-probability from a `larger` beam, which pruning does not exclude. Relative
    differences up to `tolerance` are rounding errors. Raises `ValueError` if the numbers of values differ.
    """
    return sum(more < less + tolerance * less for less, more in zip(log_probs, larger, strict=True))
