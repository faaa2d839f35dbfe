"""The parser: turns sentences of any source into structures with their text layer."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.corpora.batching import MAX_PADDING, similar_length_batches
from hf_structure.corpora.collators import WordCollator
from hf_structure.models.abilities import Abilities, abilities_of
from hf_structure.models.modeling_outputs import DecoderOutput
from hf_structure.parsing.annotation import Tree, check_given
from hf_structure.parsing.assembling import assemble_parse, sentences_of
from hf_structure.parsing.encoding import SentenceEncoder, encode_all, skipped_errors, with_columns
from hf_structure.parsing.loading import choose_tokenizer, compute_device, load_parser
from hf_structure.parsing.options import DEFAULT_PARSER, NAMES, ParseOptions, check_names
from hf_structure.parsing.raw_text import add_words, split_raw_texts
from hf_structure.parsing.segmentation import find_starts, sentence_splitter
from hf_structure.parsing.splitting import choose_splitter, regroup, split_texts, warn_of_several, windows
from hf_structure.structures.constituency_tree import ConstituencyTree
from hf_structure.structures.parse import Parse
from hf_structure.structures.parses import Parses
from hf_structure.text.reading import is_one_sentence, read_all
from hf_structure.text.sentences import SentenceError, read_batch
from hf_structure.text.tokenization import encode, is_word_level

DECODING = ("decoder", "k", "marginals", "beam_size", "rounds", "probabilities")  # options of the search for trees
WINDOW = 64  # batches whose sentences are sorted by length together


class Parser:
    """
    A model with its parsing options. It is loaded and checked once; threads can share it.

        parser = Parser("rngt-en", sentences="model")
        parser("It rained. Nobody left.")  # like `parse`
        for parses in parser.pipe(open("notes.txt")):  # streams
            ...

    A model trained without punctuation does not see any here either. Marks are recognised by their characters,
    removed, and restored to the tree by a rule that keeps a projective tree projective, see
    [`~hf_structure.algorithms.trees.restore_words`].

    Args:
        model (`str`, `Path` or `PreTrainedModel`, defaults to `"rngt-en"`):
            Short name, folder or Hub name of a model, or a loaded model (which is set to evaluation mode).
        tokenizer (`PreTrainedTokenizerBase`, *optional*):
            The model's tokenizer; required for a loaded model that does not come from a folder.
        options: See [`ParseOptions`].

    Attributes:
        model (`PreTrainedModel`), tokenizer (`PreTrainedTokenizerBase`): The loaded model.
        options (`ParseOptions`): All options, with their defaults.
        abilities (`Abilities`): The model's inputs and outputs.
        encode (`SentenceEncoder`), decoding (`dict`): The encoder of sentences, and the arguments of the model's
            `decode`.

    Raises:
        TypeError: an unknown option.
        ValueError: an unknown model or device, an invalid value of an option, a model that does not predict this
            structure or cannot use this tokenizer.
    """

    def __init__(
        self,
        model: str | Path | PreTrainedModel = DEFAULT_PARSER,
        *,
        tokenizer: PreTrainedTokenizerBase | None = None,
        **options: Any,
    ):
        check_names(options)
        self.options = chosen = ParseOptions(**options)
        loading = (chosen.device, chosen.dtype, chosen.revision, chosen.trust_remote_code)
        self.model, self.tokenizer = load_parser(model, tokenizer, *loading, structure=chosen.structure)
        self.abilities = abilities_of(self.model.config)
        model_name = type(self.model).__name__
        check_input(self.model, self.tokenizer, self.abilities)
        self.structures = choose_structures(chosen.structure, self.abilities, model_name)
        self.treebank_id = choose_treebank(chosen.treebank, self.abilities, model_name)
        self._word_tokenizer = choose_tokenizer(self.tokenizer, chosen.word_tokenizer)
        by_model = partial(
            sentence_splitter, self.model, self.tokenizer, self._word_tokenizer, self.treebank_id, chosen.batch_size
        )
        self._reader = choose_reader(self.model, chosen.treebank, chosen.language, chosen.word_tokenizer)
        self._finds_sentences = self.abilities.segments or self._reader is not None
        sentences = chosen.sentences
        if sentences == "auto":
            sentences = "model" if self._finds_sentences else "split"
        self._splits = sentences not in (None, "line")
        self._reads_sentences = sentences == "model" and self._reader is not None
        rules = None if self._reads_sentences else sentences
        self._split = choose_splitter(rules, by_model, self._word_tokenizer, chosen.line_breaks)
        self.encode = SentenceEncoder.with_abilities(
            self.abilities,
            tokenizer=self.tokenizer,
            word_tokenizer=self._word_tokenizer,
            punctuation=chosen.punctuation,
            max_words=chosen.max_words,
            treebank_id=self.treebank_id,
        )
        given = {name: getattr(chosen, name) for name in DECODING}
        self.decoding = decoding_options(self.structures, self.abilities, model_name, **given)
        if self.abilities.optional_constituents and self.structures == ("constituency",):
            # Of both trees, the k best are dependency trees.
            self.decoding |= {"k": 1, "constituents": chosen.k}

    def __call__(self, inputs: Any, *, tags: Any = None, initial: Any = None) -> Any:
        """
        Parses a sentence or text, several, or a stream of them. See [`parse`] for arguments, results and errors.
        """
        batch: Any = inputs if is_one_sentence(inputs) else read_batch(inputs)
        if is_one_sentence(batch):
            return next(self.pipe([batch], tags=_as_column(tags), initial=_as_column(initial)))
        parses = self.pipe(batch, tags=tags, initial=initial)
        # A file or a generator has no length: its results are streamed, too.
        return Parses(parses) if isinstance(batch, Sized) else parses

    def pipe(
        self,
        inputs: Iterable[Any],
        *,
        tags: Iterable | None = None,
        initial: Iterable[Tree | None] | None = None,
        errors: Literal["raise", "return"] = "raise",
    ) -> Iterator[Any]:
        """
        Parses a stream: yields for each input, in order, the result of [`__call__`]. Reads `batch_size` times 64
        sentences ahead, to make batches of similar lengths. With `errors="return"`, a
        [`~hf_structure.text.sentences.SentenceError`] stands for each sentence that cannot be parsed or is skipped,
        instead of being raised.
        """
        # Check at the call, not when the first result is requested: a generator would delay the errors.
        if self._splits and not (tags is None and initial is None):
            raise ValueError("tags and initial trees are those of sentences: they need sentences='line'")
        check_given(self.model, tags, initial)
        if errors not in ("raise", "return"):
            raise ValueError(f"errors must be raise or return, not {errors!r}")
        return self._stream(inputs, tags, initial, errors == "return")

    def _stream(
        self, inputs: Iterable[Any], tags: Iterable | None, initial: Iterable | None, return_errors: bool
    ) -> Iterator[Any]:
        options = self.options
        deferred = (ValueError,) if return_errors else ()
        # The number of sentences is unknown until texts are split.
        total = len(inputs) if isinstance(inputs, Sized) and not self._splits else None
        bar = tqdm(total=total, unit=" sentences", disable=not options.progress)
        # `split_texts` appends the number of sentences of each text, and `regroup` takes it from the left.
        counts: deque[int] = deque()
        sources = read_all(inputs, deferred)
        if self._split is not None:
            sources = split_texts(sources, counts, self._split, options.batch_size, deferred)
        elif options.sentences is None:
            better = "model" if self._finds_sentences else "split"
            sources = warn_of_several(sources, better, options.line_breaks)
        if self._reader is not None and self._reads_sentences:
            limit = self.abilities.max_tokens or self.abilities.max_words
            reading = (self._reader, options.batch_size, options.line_breaks, limit, self._count_pieces)
            sources = split_raw_texts(sources, counts, *reading)
        elif self._reader is not None:
            sources = add_words(sources, self._reader, options.batch_size)
        skipped = deferred or skipped_errors(options.skip_long, options.skip_empty)
        encoded = encode_all(with_columns(sources, tags=tags, initial=initial), self.encode, skipped)
        parses = self._parse_windows(encoded, bar)
        if not return_errors:
            parses = (parsed if isinstance(parsed, Parse) else None for parsed in parses)
        yield from map(Parses, regroup(parses, counts)) if self._splits else parses

    def _parse_windows(
        self, sentences: Iterator[dict[str, Any] | SentenceError], bar: tqdm
    ) -> Iterator[Parse | SentenceError]:
        """Reads a window of encoded sentences at a time and parses them in batches of similar lengths."""
        batch_size = self.options.batch_size
        # An incremental search skips padding: where a sentence has ended, it does nothing.
        max_padding = 1.0 if self.abilities.incremental else MAX_PADDING
        with bar:
            for window in windows(sentences, batch_size * WINDOW):
                # Errors stay where they are, so that inputs and results stay aligned; parses replace the others.
                parses: list[Any] = [*window]
                present = [(index, each) for index, each in enumerate(window) if not isinstance(each, SentenceError)]
                lengths = [len(encoded["input_ids"]) for _, encoded in present]
                for batch in similar_length_batches(lengths, batch_size, max_padding):
                    indices, chosen = zip(*(present[i] for i in batch), strict=True)
                    for index, parsed in zip(indices, self._parse_batch(chosen), strict=True):
                        parses[index] = parsed
                    bar.update(len(batch))
                bar.update(len(window) - len(present))
                yield from parses

    def _count_pieces(self, words: Sequence[str]) -> int:
        """Number of pieces of words."""
        return len(encode(words, self.tokenizer)["input_ids"])

    def _parse_batch(self, encoded: Sequence[Mapping[str, Any]]) -> list[Parse]:
        decoded = decode_batch(encoded, self.model, **self.decoding)
        return parses_of(encoded, decoded, self.abilities, self.structures, self.options.punctuation)

    def sentence_starts(self, paragraphs: Sequence[Sequence[str]]) -> list[list[bool]]:
        """
        Marks the words of each paragraph that begin a sentence. Raises `ValueError` if the model does not segment
        text.
        """
        if not self.abilities.segments:
            raise ValueError(f"this {type(self.model).__name__} finds no sentences")
        return find_starts(paragraphs, self.model, self.tokenizer, self.treebank_id, self.options.batch_size)


def _as_column(value: Any) -> list | None:
    """Wraps the annotation of a single sentence in a list."""
    return None if value is None else [value]


def choose_structures(structure: str | None, abilities: Abilities, name: str) -> tuple[str, ...]:
    """Returns the requested kinds of structure. Raises `ValueError` if the model, named `name`, lacks one."""
    given = abilities.structures
    if structure is None:
        return ("dependency",) if abilities.optional_constituents else given
    requested = ("dependency", "constituency") if structure == "both" else (structure,)
    for kind in requested:
        if kind not in given:
            names = " and ".join(NAMES[name] for name in given)
            raise ValueError(f"{name} gives {names}, but no {NAMES.get(kind, kind)}")
    return requested


def choose_treebank(treebank: str | None, abilities: Abilities, name: str) -> int | None:
    """Returns the index of the treebank to follow. Raises `ValueError` if the model was not trained on it."""
    if treebank is None:
        return None
    if not abilities.treebanks:
        raise ValueError(f"this {name} follows the habits of one treebank alone: leave treebank out")
    if treebank not in abilities.treebanks:
        raise ValueError(f"treebank must be one of {', '.join(abilities.treebanks)}, not {treebank!r}")
    return abilities.treebanks.index(treebank)


def choose_reader(model: Any, treebank: str | None, language: str | None, word_tokenizer: Any) -> Any:
    """
    Returns the model's reader of raw text; None if it has none, or a word tokenizer replaces it, whose words may not
    fit its sentences. Raises `ValueError` for a language that the model does not know or cannot find.
    """
    if language == "auto" and (treebank or word_tokenizer):
        raise ValueError("language='auto' is for words that the model finds: omit treebank and word_tokenizer")
    read_texts = abilities_of(model.config).read_texts
    if language is not None and treebank is None and read_texts is None:
        raise ValueError(f"language is for models that split raw text into words, not for a {type(model).__name__}")
    reader = read_texts(model, treebank, language) if read_texts else None
    return None if word_tokenizer else reader


def decoding_options(structures: Sequence[str], abilities: Abilities, name: str, **options: Any) -> dict[str, Any]:
    """Returns the arguments of `decode`. Raises `ValueError` for a beam or rounds that the model does not take."""
    given = {option: value for option, value in options.items() if value is not None}
    if "beam_size" in given and not abilities.beam:
        raise ValueError(f"{name} searches without a beam: leave beam_size out")
    if "rounds" in given:
        if not abilities.rounds:
            raise ValueError(f"{name} does not refine its trees: leave rounds out")
        given["num_rounds"] = given.pop("rounds")
    if given.pop("probabilities", False) and abilities.column_probabilities:
        given["column_probabilities"] = True
    if abilities.optional_constituents:
        given["constituents"] = int("constituency" in structures)  # they cost time
    return given


def check_input(model: Any, tokenizer: PreTrainedTokenizerBase, abilities: Abilities) -> None:
    """Raises `ValueError` if a model cannot read the tokens of a tokenizer."""
    if not is_word_level(tokenizer) and abilities.reads == "words":
        raise ValueError(f"{type(model).__name__} reads whole words: a word-level tokenizer is needed")
    tokens = max(tokenizer.get_vocab().values()) + 1  # ids may have gaps
    rows = len(model.get_input_embeddings().weight)
    if tokens > rows:
        raise ValueError(f"the tokenizer has {tokens} tokens, but the model knows {rows}")


def parses_of(
    encoded: Sequence[Mapping[str, Any]],
    decoded: DecoderOutput,
    abilities: Abilities,
    structures: Sequence[str],
    punctuation: str = "attach",
) -> list[Parse]:
    """Builds the parses of encoded sentences from the model's output."""
    parses = []
    for sentence, found in zip(encoded, sentences_of(decoded), strict=True):
        ranked = constituents_by_rank(found)
        trees = [
            Parse.from_dict(assemble_parse(sentence, each, structures, abilities, punctuation)) for each in ranked
        ]
        if abilities.optional_constituents and "constituency" in structures:
            tagger = trees[0]
            if tagger.dependency is None:
                # The tags of constituents are columns of the dependency tree, which need not be requested.
                kinds = ("dependency",)
                tagger = Parse.from_dict(assemble_parse(sentence, ranked[0], kinds, abilities, punctuation))
            constituency = [tagger.tagged(cast(ConstituencyTree, each.constituency)) for each in trees]
            several = found["spans"].dim() == 3
            alternatives = constituency if several else trees[0].alternatives
            trees[0] = replace(trees[0], constituency=constituency[0], alternatives=alternatives)
        parses.append(trees[0])
    return parses


def constituents_by_rank(decoded: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The output for a sentence with each of its best constituency trees; itself if it has one or none of them."""
    if "spans" not in decoded or decoded["spans"].dim() == 2:
        return [decoded]
    # A sentence may have fewer trees than are asked for.
    count = int((decoded["span_log_probs"] > float("-inf")).sum())
    names = [name for name in decoded if name.startswith("span")]
    return [{**decoded, **{name: decoded[name][rank] for name in names}} for rank in range(count)]


def decode_batch(encoded: Sequence[Mapping[str, Any]], model: Any, **options) -> DecoderOutput:
    """Runs a model's `decode`, with its `options`, on a batch."""
    device = compute_device(model)
    batch = {name: value.to(device) for name, value in WordCollator()(encoded).items()}
    return model.decode(**batch, **options)
