"""Text that is trained on while it is read: which batches there are, for one process and for several."""

from collections import Counter
from functools import partial
from itertools import islice

import datasets
import pytest
from torch.utils.data import DataLoader

from hf_structure.corpora.rows import open_dataset
from hf_structure.text.formats import load_sentences
from hf_structure.training.corpora import STRINGS, Reading
from hf_structure.training.streaming import TextStream, file_records, row_records

SENTENCES = [f"{i} " * (1 + i * 7 % 13) for i in range(90)]  # the first word tells which one it is
WORDS = Reading(load_sentences, {"words": STRINGS})


@pytest.fixture
def files(tmp_path):
    """The sentences in two files."""
    names = []
    for name, lines in (("a", SENTENCES[:40]), ("b", SENTENCES[40:])):
        (tmp_path / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
        names.append(str(tmp_path / f"{name}.txt"))
    return names


def count_words(sentences: list[dict]) -> list[dict]:
    return [{"number": int(sentence["words"][0]), "length": len(sentence["words"])} for sentence in sentences]


def numbers(examples: list[dict]) -> list[int]:
    return [example["number"] for example in examples]


def stream(files: list[str], **options) -> TextStream:
    settings = {"max_tokens": 40, "buffer_size": 25, **options}
    return TextStream(partial(file_records, files, WORDS), count_words, numbers, **settings)


def one_pass(batches, size: int = len(SENTENCES)) -> list[list[int]]:
    """Batches until all sentences were seen."""
    found = []
    while sum(map(len, found)) < size:
        found.append(next(batches))
    return found


def length(number: int) -> int:
    return len(SENTENCES[number].split())


def test_every_pass_gives_every_sentence_once_under_the_budget(files):
    batches, passes = iter(stream(files)), []
    for _ in range(3):
        passes.append(one_pass(batches))
        assert sorted(number for batch in passes[-1] for number in batch) == list(range(90))
        assert all(len(batch) * max(map(length, batch)) <= 40 for batch in passes[-1])
    assert len({frozenset(map(frozenset, each)) for each in passes}) == 3
    cells = sum(len(batch) * max(map(length, batch)) for batch in passes[0])
    assert sum(map(length, range(90))) / cells > 0.8  # of similar lengths


def test_a_batch_has_a_number_of_sentences_at_most(files):
    batches = one_pass(iter(stream(files, max_tokens=1000, max_sentences=4)))
    assert max(map(len, batches)) == 4
    assert sorted(number for batch in batches for number in batch) == list(range(90))


def test_sentences_are_shuffled_within_a_buffer(files):
    first = [number for batch in one_pass(iter(stream(files, buffer_size=90, seed=2))) for number in batch]
    assert first != sorted(first)
    alone = [number for batch in one_pass(iter(stream(files, buffer_size=1))) for number in batch]
    assert alone == list(range(90))


def test_batches_are_a_function_of_the_seed(files):
    def begin(seed):
        return list(islice(iter(stream(files, seed=seed)), 60))

    assert begin(1) == begin(1)
    assert begin(1) != begin(2)


@pytest.mark.parametrize("workers", [0, 2])
def test_processes_and_workers_share_the_text(files, workers):
    seen = Counter()
    for rank in range(3):
        loader = DataLoader(stream(files, num_replicas=3, rank=rank), batch_size=None, num_workers=workers)
        shares = max(workers, 1)
        mine = Counter()
        for batch in islice(loader, 30 * shares):  # several passes
            mine.update(batch)
        seen.update(set(mine))
        assert len(mine) == 30
    assert seen == Counter(range(90))


def test_long_sentences_are_left_out(files):
    short = [number for number in range(90) if length(number) <= 5]
    for option in ("max_words", "max_length"):
        found = one_pass(iter(stream(files, **{option: 5})), len(short))
        assert sorted(number for batch in found for number in batch) == short


def test_a_share_without_sentences_is_an_error(files):
    with pytest.raises(ValueError, match="no sentence of at most 0 words for process 1 of 1"):
        next(iter(stream(files, max_words=0)))
    with pytest.raises(ValueError, match="process 100 of 100"):
        next(iter(stream(files, num_replicas=100, rank=99)))
    with pytest.raises(ValueError, match="max_tokens must be positive"):
        stream(files, max_tokens=0)


def test_collator_is_told_the_pass(files):
    class Collator:
        epoch = None

        def set_epoch(self, epoch):
            self.epoch = epoch

        def __call__(self, examples):
            return self.epoch, len(examples)

    seen = Counter()
    batches = TextStream(partial(file_records, files, WORDS), count_words, Collator(), max_tokens=40)
    for epoch, size in islice(iter(batches), 60):
        seen[epoch] += size
    assert seen[0] == seen[1] == 90


@pytest.mark.parametrize("form", ["parquet", "text"])
def test_rows_of_a_data_set(tmp_path, form):
    folder = tmp_path / "rows"
    folder.mkdir()
    texts = ["One dog barks. Two cats sleep.", "", "Three"]
    if form == "parquet":
        datasets.Dataset.from_dict({"text": texts}).to_parquet(str(folder / "train.parquet"))
    else:
        (folder / "train.txt").write_text("".join(f"{text}\n" for text in texts))

    def lengths(sentences):
        return [{"words": sentence["words"], "length": len(sentence["words"])} for sentence in sentences]

    records = partial(row_records, open_dataset(str(folder), "text"), WORDS)
    for epoch in range(2):
        batches = TextStream(records, lengths, list, max_tokens=4, seed=epoch)
        found = [example["words"] for batch in one_pass(iter(batches), 3) for example in batch]
        assert sorted(found) == [["One", "dog", "barks", "."], ["Three"], ["Two", "cats", "sleep", "."]]
