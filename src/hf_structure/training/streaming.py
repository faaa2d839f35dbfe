"""Training on text streamed from files or from the Hub, without a copy on disk."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from datasets import Dataset
from torch.utils.data import IterableDataset, get_worker_info
from transformers import TrainingArguments

from hf_structure.corpora.batching import shuffled_batches
from hf_structure.corpora.rows import Rows, open_dataset
from hf_structure.training.arguments import DataArguments, RunArguments, option
from hf_structure.training.corpora import Corpora, Encode, Reading, without_long

Record = Callable[[], Iterable[dict]]  # returns the sentences of one unit that is read, a sentence or a row
_TIMES = 20  # evaluations and checkpoints of a run without epochs


@dataclass
class TextArguments(DataArguments):
    """Options of the text that a language model is trained on: files, or a data set."""

    _argument_group_name: ClassVar[str] = "data"
    needs: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("dataset_config_name", "dataset_split", "text_column_name"), "dataset_name"),
        "buffer_size": "streaming",
    }

    max_sentences: int | None = option(
        None, "Sentences of a training batch on one device, at most; by default any number."
    )
    dataset_name: str | None = option(
        None, "Training text instead of --train_file: a data set of the Hub, or a folder of its files."
    )
    dataset_config_name: str | None = option(None, "Its configuration, if it has several.")
    dataset_split: str = option("train", "Its split.")
    text_column_name: str = option("text", "Its column: running text, or lists of words, one sentence each.")
    streaming: bool = option(False, "Train on the text while it is read, without preparing it; needs --max_steps.")
    buffer_size: int = option(50_000, "With --streaming, sentences in memory that are shuffled and sorted.")
    vocabulary_file: list[str] | None = option(
        None, "Text that a new vocabulary is made of, if not of the training text."
    )

    @property
    def trains(self) -> bool:
        return bool(self.train_file or self.dataset_name)

    @property
    def dataset_options(self) -> dict:
        """Arguments of [`~hf_structure.corpora.rows.open_dataset`]."""
        return {"column": self.text_column_name, "config_name": self.dataset_config_name, "split": self.dataset_split}


def check_streaming(data_args: TextArguments, training_args: RunArguments, has_tokenizer: bool) -> None:
    """
    Raises `ValueError` for options that contradict each other. A stream has no epochs: evaluations and checkpoints
    that were due after each epoch are spread over the run, see [`_schedule_by_steps`].
    """
    if data_args.train_file and data_args.dataset_name:
        raise ValueError("give either --train_file or --dataset_name")
    if not data_args.streaming:
        return
    if not data_args.trains:
        raise ValueError("--streaming is for training: give --train_file or --dataset_name")
    if training_args.max_steps <= 0:
        raise ValueError("--streaming needs --max_steps: a stream does not tell how long it is")
    if not has_tokenizer and not data_args.vocabulary_file:
        raise ValueError(
            "--streaming needs a vocabulary before the text is read: give --vocabulary_file, --tokenizer_name or "
            "--model_name_or_path"
        )
    if data_args.buffer_size < 1:
        raise ValueError(f"--buffer_size must be at least 1, not {data_args.buffer_size}")
    _schedule_by_steps(training_args)


def _schedule_by_steps(training_args: RunArguments) -> None:
    """Evaluates, saves and logs `_TIMES` times in all, instead of after each epoch."""
    steps = max(training_args.max_steps // _TIMES, 1)
    for name in ("eval", "save", "logging"):
        strategy = getattr(training_args, f"{name}_strategy")
        if strategy == "epoch":
            setattr(training_args, f"{name}_strategy", type(strategy)("steps"))
            setattr(training_args, f"{name}_steps", steps)


class TextStream(IterableDataset):
    """
    Yields batches under a token budget, forever: the text is read again when it ends. Buffers of `buffer_size`
    sentences are cut into batches of similar lengths, in random order; each pass shifts the buffers.

    Every process, and every worker of its data loader, reads its own share of the text. The batches depend only on
    `seed` and the numbers of processes and workers.

    Args:
        records (`Callable[[int, int], Iterable[Record]]`): Reads share i of n of the text.
        encode (`Callable[[list[dict]], list[dict]]`): Encodes sentences for `collate`, with their `length`.
        collate (`Callable`): Makes batches; its `set_epoch`, if any, gets the number of the pass.
        max_words, max_length (`int`, *optional*): Sentences with more words or a greater `length` are left out.
        others: As for [`~hf_structure.corpora.batching.TokenBudgetBatchSampler`].
    """

    def __init__(
        self,
        records: Callable[[int, int], Iterable[Record]],
        encode: Encode,
        collate: Callable[[list[dict]], dict],
        *,
        max_tokens: int,
        max_sentences: int | None = None,
        max_words: int | None = None,
        max_length: int | None = None,
        buffer_size: int = 50_000,
        seed: int = 0,
        num_replicas: int = 1,
        rank: int = 0,
    ):
        if max_tokens < 1:
            raise ValueError(f"max_tokens must be positive, not {max_tokens}")
        self.records = records
        self.encode = encode
        self.collate: Any = collate
        self.max_tokens = max_tokens
        self.max_sentences = max_sentences
        self.max_words = max_words
        self.max_length = max_length
        self.buffer_size = buffer_size
        self.seed = seed
        self.num_replicas = num_replicas
        self.rank = rank

    def __iter__(self) -> Iterator[dict]:
        worker = get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        # Workers of all processes are numbered in one sequence.
        share = self.rank * workers + number
        shares = self.num_replicas * workers
        for epoch in itertools.count():
            batches = self._pass(share, shares, np.random.default_rng((self.seed, share, epoch)))
            first = next(batches, None)
            if first is None:
                raise ValueError(f"no sentence of at most {self.max_words} words for process {share + 1} of {shares}")
            for examples in itertools.chain([first], batches):
                # Masking depends on the pass, so that repeated text is masked anew.
                if hasattr(self.collate, "set_epoch"):
                    self.collate.set_epoch(epoch)
                yield self.collate(examples)

    def _pass(self, share: int, shares: int, rng: np.random.Generator) -> Iterator[list[dict]]:
        """Yields the batches of one share of the text, once."""
        examples = self._examples(share, shares)
        # A shorter first buffer shifts all others, so that each pass sorts other sentences together.
        size = int(rng.integers(1, self.buffer_size, endpoint=True))
        while buffer := list(itertools.islice(examples, size)):
            lengths = [example["length"] for example in buffer]
            for batch in shuffled_batches(lengths, self.max_tokens, rng, self.max_sentences):
                yield [buffer[index] for index in batch]
            size = self.buffer_size

    def _examples(self, share: int, shares: int) -> Iterator[dict]:
        for record in self.records(share, shares):
            sentences = [each for each in record() if self.max_words is None or len(each["words"]) <= self.max_words]
            for example in self.encode(sentences):
                if self.max_length is None or example["length"] <= self.max_length:
                    yield example


def read_training_text(corpora: Corpora, args: TextArguments, reading: Reading) -> Dataset | None:
    """Reads the training text, without long sentences; None if there is none, or if it is streamed."""
    if not args.trains or args.streaming:
        return None
    if args.dataset_name:
        sentences = corpora.read_rows(args.dataset_name, args.dataset_options, reading)
    else:
        sentences = corpora.read(args.train_file or [], reading)
    return without_long(sentences, args.max_length)


def stream_training_text(
    args: TextArguments,
    training_args: TrainingArguments,
    reading: Reading,
    encode: Encode,
    collate: Callable[[list[dict]], dict],
    longest: int | None = None,
) -> TextStream:
    """Streams the training text as batches for this process, for a model that reads at most `longest` tokens."""
    if args.dataset_name:
        records = partial(row_records, open_dataset(args.dataset_name, **args.dataset_options), reading)
    else:
        records = partial(file_records, args.train_file or [], reading)
    return TextStream(
        records,
        encode,
        collate,
        max_tokens=args.max_tokens,
        max_sentences=args.max_sentences,
        max_words=args.max_length,
        max_length=longest,
        buffer_size=args.buffer_size,
        seed=training_args.seed if training_args.data_seed is None else training_args.data_seed,
        num_replicas=training_args.world_size,
        rank=training_args.process_index,
    )


def file_records(files: Sequence[str], reading: Reading, share: int, shares: int) -> Iterator[Record]:
    """Yields every `shares`-th sentence of files."""
    sentences = (sentence for file in files for sentence in reading.read(file))
    for sentence in itertools.islice(sentences, share, None, shares):
        yield partial(list, [{column: sentence[column] for column in reading.features}])


def row_records(rows: Rows, reading: Reading, share: int, shares: int) -> Iterator[Record]:
    """Yields a share of the rows of a data set."""
    for row in rows.part(share, shares):
        yield partial(reading.row, row)
