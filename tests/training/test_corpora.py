"""Text that is prepared: what comes out of it, when it is prepared anew, and that memory does not grow with it."""

import bz2
import lzma
import os
import tracemalloc
from functools import partial
from itertools import islice
from pathlib import Path

import datasets
import pytest
from transformers import TrainingArguments

from hf_structure import build_word_tokenizer
from hf_structure.corpora.batching import TokenBudgetBatchSampler
from hf_structure.corpora.corpus import column_numbers
from hf_structure.text.formats import load_sentences
from hf_structure.text.tokenization import encode, train_word_tokenizer
from hf_structure.training.arguments import DataArguments
from hf_structure.training.corpora import (
    NUMBER,
    NUMBERS,
    STRINGS,
    Corpora,
    Reading,
    is_annotated,
    without_long,
    words_of,
)

WORDS = Reading(load_sentences, {"words": STRINGS})
ENCODED = {"input_ids": NUMBERS, "length": NUMBER}


def encode_rows(sentences: list[dict], tokenizer, calls: str | None = None) -> list[dict]:
    """Keeps count of its calls in a file: it may run in another process."""
    if calls:
        with open(calls, "a") as file:
            file.write("x")
    rows = [encode(sentence["words"], tokenizer) for sentence in sentences]
    return [{**row, "length": len(row["input_ids"])} for row in rows]


@pytest.fixture
def corpora(tmp_path, monkeypatch):
    """Makes a [`Corpora`] with options; its cache is empty in the beginning."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")

    def make(**options) -> Corpora:
        training_args = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")
        return Corpora(DataArguments(**options), training_args)

    return make


def write(path: Path, lines: list[str], opener=open) -> str:
    with opener(path, "wt", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    return str(path)


def test_reads_all_files_in_their_order_compressed_or_not(corpora, tmp_path):
    files = [
        write(tmp_path / "a.txt", ["a dog", "", "the cat"]),
        write(tmp_path / "b.txt.xz", ["two birds"], lzma.open),
        write(tmp_path / "c.txt.bz2", ["a mouse ran", "off"], bz2.open),
    ]
    expected = [["a", "dog"], ["the", "cat"], ["two", "birds"], ["a", "mouse", "ran"], ["off"]]
    for workers in (None, 2):
        assert list(words_of(corpora(preprocessing_num_workers=workers).read(files, WORDS))) == expected


def test_order_does_not_depend_on_the_number_of_processes(corpora, tmp_path):
    lines = [f"w{i % 7} " * (1 + i % 5) + f"w{i}" for i in range(2500)]
    file, tokenizer = write(tmp_path / "a.txt", lines), build_word_tokenizer([f"w{i}" for i in range(2500)])
    found = []
    for workers in (1, 2):
        prepared = corpora(preprocessing_num_workers=workers)
        sentences = prepared.read([file], WORDS)
        # With another argument it is another function, so that the second one computes, too.
        found.append(prepared.encode(sentences, partial(encode_rows, calls=os.devnull), tokenizer, ENCODED))
        found[-1].cleanup_cache_files()
    assert found[0].to_dict() == found[1].to_dict()
    assert found[0]["input_ids"][1] == encode(lines[1].split(), tokenizer)["input_ids"]
    assert column_numbers(found[0], "length").tolist() == [len(line.split()) for line in lines]


def test_prepares_once_and_again_when_something_changes(corpora, tmp_path):
    calls, file = tmp_path / "calls", write(tmp_path / "a.txt", ["a dog", "the cat"])

    def prepare(words=("a", "dog"), **options) -> int:
        """How often sentences were encoded."""
        before = calls.stat().st_size if calls.exists() else 0
        prepared = corpora(**options)
        encode = partial(encode_rows, calls=str(calls))
        prepared.encode(prepared.read([file], WORDS), encode, build_word_tokenizer(words), ENCODED)
        return calls.stat().st_size - before

    assert prepare() == 1
    assert prepare() == 0
    assert prepare(words=("dog", "a")) == 1  # the same words, but other numbers
    assert prepare() == 0
    assert prepare(overwrite_cache=True) == 1
    Path(file).write_text("a dog\nthe cow\n")
    assert prepare() == 1


@pytest.mark.parametrize("workers", [1, 2])
def test_errors_are_those_of_the_reader(corpora, tmp_path, workers):
    files = [write(tmp_path / "a.txt", ["a dog"]), write(tmp_path / "b.txt", ["the\0cat"])]
    with pytest.raises(ValueError, match=r"b\.txt:1: a NUL character"):
        corpora(preprocessing_num_workers=workers).read(files, WORDS)
    with pytest.raises(FileNotFoundError, match=r"c\.txt"):
        corpora().read(["c.txt"], WORDS)
    with pytest.raises(ValueError, match=r"a\.xyz: the format is not clear"):
        corpora().read(["a.xyz"], WORDS)
    with pytest.raises(ValueError, match=r"d\.txt: no sentences"):
        corpora().read([write(tmp_path / "d.txt", ["", " "])], WORDS)


def test_reads_data_sets(corpora, tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    texts = ['A dog barks. It\'s "loud"!', None, "", "One more"]
    datasets.Dataset.from_dict({"body": texts}).to_parquet(str(folder / "train.parquet"))
    options = {"column": "body", "config_name": None, "split": "train"}
    keep = corpora().read_rows(str(folder), options, WORDS)
    expected = [["A", "dog", "barks", "."], ["It", "'s", '"', "loud", '"', "!"], ["One", "more"]]
    assert list(words_of(keep)) == expected
    spaces = Reading(load_sentences, {"words": STRINGS, "heads": NUMBERS}, split=str.split, drop_by="form")
    dropped = corpora().read_rows(str(folder), options, spaces)
    assert list(words_of(dropped)) == [["A", "dog", "barks."], ["It's", '"loud"!'], ["One", "more"]]
    assert is_annotated(dropped, "words")
    assert not is_annotated(dropped, "heads")
    with pytest.raises(ValueError, match="has no column 'text'"):
        corpora().read_rows(str(folder), options | {"column": "text"}, WORDS)


def test_long_sentences_are_left_out(corpora, tmp_path, caplog):
    sentences = corpora().read([write(tmp_path / "a.txt", ["a", "a b c", "d e"])], WORDS)
    assert list(words_of(without_long(sentences, 2))) == [["a"], ["d", "e"]]
    assert "1 sentences longer than 2 words left out" in caplog.text
    assert without_long(sentences, 3) is sentences
    with pytest.raises(ValueError, match="no training sentence has at most 0 words"):
        without_long(sentences, 0)


def peak(corpora: Corpora, file: str) -> int:
    """The most bytes that Python has allocated while a text is prepared and its batches are made."""
    tracemalloc.start()
    try:
        sentences = without_long(corpora.read([file], WORDS), 15)
        tokenizer = train_word_tokenizer(words_of(sentences), min_frequency=1)
        dataset = corpora.encode(sentences, encode_rows, tokenizer, ENCODED)
        for batch in islice(TokenBudgetBatchSampler(column_numbers(dataset, "length"), 512), 5):
            dataset.__getitems__(batch)
        assert dataset.cache_files  # not in memory either
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_text(corpora, tmp_path, monkeypatch):
    monkeypatch.setattr("hf_structure.training.corpora._ROWS", 50)
    monkeypatch.setattr(datasets.config, "DEFAULT_MAX_BATCH_SIZE", 50)
    counts, peaks = (300, 300, 2400), []  # the first one loads what is loaded once
    for number, count in enumerate(counts):
        lines = [f"a{i % 10} b{i % 50} c{i % 97} " * (1 + i % 6) for i in range(count)]
        peaks.append(peak(corpora(), write(tmp_path / f"{number}.txt", lines)))
    assert peaks[2] - peaks[1] < 40 * (counts[2] - counts[1])  # a list of the words has more than 8 bytes for each
    assert sum(map(len, map(str.split, lines))) > 10 * len(lines)
