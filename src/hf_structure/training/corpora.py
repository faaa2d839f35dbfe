"""Training text of any size: read and encoded once for all runs, and kept in memory-mapped files."""

import hashlib
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import datasets
import pyarrow.compute
from datasets import Dataset, Features, List, Value
from datasets import config as datasets_config
from datasets.exceptions import DatasetGenerationError
from datasets.fingerprint import Hasher
from datasets.packaged_modules.generator.generator import Generator
from transformers import PreTrainedTokenizerBase, TrainingArguments

from hf_structure.corpora.corpus import column_numbers
from hf_structure.corpora.rows import Row, open_dataset
from hf_structure.text.files import writing_to
from hf_structure.text.formats import drop_punctuation, guess_format
from hf_structure.text.words import split_sentences, tokenize_words
from hf_structure.training.arguments import DataArguments
from hf_structure.training.scripts import file_states, source_states
from hf_structure.version import __version__

logger = logging.getLogger(__name__)

Encode = Callable[..., list[dict]]  # from sentences to inputs of models

STRINGS = List(Value("string"))
NUMBERS = List(Value("int32"))
NUMBER = Value("int32")
PAIRS = List(List(Value("int32")))
_ROWS = 1000  # sentences in memory


@dataclass(frozen=True)
class Reading:
    """
    How text is read. The function `read` yields the sentences of a file. The cache identifies it by its name: it must
    be a function of a module, or a `partial` of one, not a function defined inside another.
    """

    read: Callable[[str], Iterator[dict]]
    features: dict  # columns of the sentences, `words` among them, with their types
    split: Callable[[str], list[str]] = tokenize_words  # splits a sentence of a data set into words
    drop_by: str | None = None  # drops punctuation from data sets, recognized in this way

    def row(self, row: Row) -> list[dict]:
        """Splits a row of a data set, running text or the words of one sentence, into sentences."""
        value = row() or []
        found = [value] if isinstance(value, list) else map(self.split, split_sentences(value, line_breaks="space"))
        # Data sets of text have no annotation: other columns are missing.
        sentences = [dict.fromkeys(self.features) | {"words": words} for words in found]
        if self.drop_by is not None:
            sentences = [drop_punctuation(sentence, self.drop_by) for sentence in sentences]
        return [sentence for sentence in sentences if sentence["words"]]


class Corpora:
    """
    Prepares text in two steps: sentences, and their encoding for a model. Both are Arrow files in the cache of
    `datasets`, whose names depend on the files, their sizes and modification times, the options and the tokenizer.
    Memory use does not grow with the text. With several processes, the main one prepares first.
    """

    def __init__(self, data_args: DataArguments, training_args: TrainingArguments):
        self.num_workers = data_args.preprocessing_num_workers or 1
        self.overwrite = data_args.overwrite_cache and training_args.local_process_index == 0
        self.main_process_first = partial(training_args.main_process_first, desc="preparing the text")
        if not training_args.should_log:
            datasets.disable_progress_bars()

    def read(self, files: Sequence[str], reading: Reading) -> Dataset:
        """
        Reads the sentences of files, in parallel with several workers. Raises `OSError` for a file that cannot be
        opened, and `ValueError` as `reading.read` does, or if there are no sentences.
        """
        # Called for its errors: a missing last file must not be noticed after hours.
        for file in files:
            guess_format(file)
        return self._read(", ".join(files), file_states(*files), reading.read, reading.features)

    def read_rows(self, name: str, options: dict, reading: Reading) -> Dataset:
        """Like [`read`], for a data set; `options` are passed to [`~hf_structure.corpora.rows.open_dataset`]."""
        state = [name, *source_states(open_dataset(name, **options).files)]
        return self._read(name, [state], partial(_read_rows, options=options, reading=reading), reading.features)

    def _read(self, name: str, states: list[list], read: Callable[[str], Iterator[dict]], features: dict) -> Dataset:
        arguments = {"states": states, "read": read, "columns": tuple(features), "version": __version__}
        # `Generator` of `datasets` caches by its arguments: files, options, and the version of this package.
        builder = Generator(features=Features(features), generator=_rows, gen_kwargs=arguments)
        mode = "force_redownload" if self.overwrite else None
        with self.main_process_first(), writing_to(datasets_config.HF_DATASETS_CACHE):
            try:
                builder.download_and_prepare(download_mode=mode, num_proc=min(self.num_workers, len(states)))
            except DatasetGenerationError as error:
                if isinstance(error.__cause__, ValueError | OSError):
                    raise error.__cause__ from None
                # `datasets` hides the error of a worker: reading again in this process raises it.
                deque(_rows(**arguments), maxlen=0)
                raise
        splits = builder.info.splits
        if not splits or not splits["train"].num_examples:
            raise ValueError(f"{name}: no sentences")
        dataset = cast(Dataset, builder.as_dataset("train"))
        logger.info("%s: %d sentences", name, len(dataset))
        return dataset

    def encode(
        self, sentences: Dataset, encode: Encode, tokenizer: PreTrainedTokenizerBase, features: dict
    ) -> Dataset:
        """
        Encodes sentences, in their order, with `encode` and the tokenizer, into the columns in `features`, which also
        gives their types. The cache identifies `encode` by its name, and a `partial` also by its arguments, which
        `Hasher` of `datasets` must be able to distinguish.
        """
        key = (encode, tokenizer_hash(tokenizer))
        return self.rewrite(sentences, partial(encode, tokenizer=tokenizer), features, "encoding", key)

    def rewrite(
        self,
        sentences: Dataset,
        function: Callable[[list[dict]], list[dict]],
        features: Mapping,
        purpose: str,
        key: object = None,
    ) -> Dataset:
        """
        Makes rows with these `features` of sentences, in their order. The cache identifies the function by `key`; by
        default, by the function's name and the arguments of a `partial`, as in [`encode`].
        """
        # A process for fewer rows than a batch would take longer to start than to encode.
        workers = min(self.num_workers, len(sentences) // _ROWS)
        fingerprint = (sentences._fingerprint, key or function, sorted(features), __version__)
        with self.main_process_first(), writing_to(datasets_config.HF_DATASETS_CACHE):
            return sentences.map(
                _rewrite_rows,
                batched=True,
                fn_kwargs={"function": function, "columns": tuple(features)},
                batch_size=_ROWS,
                features=Features(features),
                remove_columns=sentences.column_names,
                num_proc=workers if workers > 1 else None,
                load_from_cache_file=not self.overwrite,
                new_fingerprint=Hasher.hash(fingerprint),
                desc=purpose,
            )


def _rows(states: list[list], read: Callable[[str], Iterator[dict]], columns: tuple, version: str) -> Iterator[dict]:
    for name, *_ in states:
        for sentence in read(name):
            yield {column: sentence[column] for column in columns}


def _read_rows(name: str, options: dict, reading: Reading) -> Iterator[dict]:
    for row in open_dataset(name, **options):
        yield from reading.row(row)


def _rewrite_rows(batch: dict[str, list], function: Callable, columns: tuple) -> dict[str, list]:
    rows = function([dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True)])
    return {column: [row.get(column) for row in rows] for column in columns}


def tokenizer_hash(tokenizer: PreTrainedTokenizerBase) -> str:
    """Identifies a tokenizer by its saved files."""
    digest = hashlib.sha256()
    with TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        for file in sorted(Path(folder).iterdir()):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def words_of(sentences: Dataset) -> Iterator[list[str]]:
    """Yields the words of each sentence."""
    for batch in cast(Iterator[dict], sentences.select_columns("words").iter(_ROWS)):
        yield from batch["words"]


def is_annotated(sentences: Dataset, column: str) -> bool:
    """Returns True if every sentence has a value in this column."""
    tables = sentences.select_columns(column).with_format("arrow").iter(_ROWS)
    return not any(table[column].null_count for table in cast(Iterator["pyarrow.Table"], tables))


def without_long(sentences: Dataset, max_length: int) -> Dataset:
    """Selects the training sentences of at most `max_length` words. Raises `ValueError` if there are none."""
    count = pyarrow.compute.list_value_length  # pyright: ignore[reportAttributeAccessIssue]
    # In Arrow, without reading the words into Python.
    kept = (column_numbers(sentences, "words", count) <= max_length).nonzero()[0]
    if len(kept) == len(sentences):
        return sentences
    logger.warning("%d sentences longer than %d words left out", len(sentences) - len(kept), max_length)
    if not len(kept):
        raise ValueError(f"no training sentence has at most {max_length} words (--max_length)")
    return sentences.select(kept)
