"""`examples/annotate_corpus.py`: in process where that is enough, as a command where processes are the point."""

import argparse
import ast
import configparser
import gzip
import lzma
import os
import random
import re
import signal
import subprocess
import sys
import time
import tomllib
from contextlib import suppress
from functools import partial
from pathlib import Path

import datasets
import fsspec
import pytest
import running
from running import ENVIRONMENT, TORCHRUN, load_script, start_and_kill
from tiny_models import new_rng_transformer

from hf_structure import build_word_tokenizer, parse
from hf_structure.cli import blocks as blocks_module
from hf_structure.cli import claims as claims_module
from hf_structure.cli import records as records_module
from hf_structure.cli.blocks import BlockFolder
from hf_structure.cli.parse import parse_sources
from hf_structure.cli.records import open_files
from hf_structure.parsing import splitting
from hf_structure.structures.parse import Parse
from hf_structure.structures.parse_columns import PARSE_COLUMNS, parse_columns
from hf_structure.text.conllu import read_conllu
from hf_structure.text.formats import load_sentences
from hf_structure.text.words import split_sentences, tokenize_words
from hf_structure.training.examples import EXAMPLES, script_path

command = partial(running.command, "annotate_corpus.py")


@pytest.fixture(scope="module")
def script():
    """The script as a module."""
    return load_script("annotate_corpus")


def options(model: Path, output: Path, *more: str) -> list[str]:
    return ["--model", str(model), "--output", str(output), "--batch_size", "4", "--block_size", "4", *more]


def blocks(output: Path) -> Path:
    return output.with_name(f"{output.name}.blocks")


def blocks_of(output: Path) -> list[Path]:
    return sorted(blocks(output).glob("block-*"))


def message_of(run, *arguments) -> str:
    """Of the one error that ends the script."""
    with pytest.raises((ValueError, OSError)) as error:
        run(*arguments)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("model", ["g2g_transformer", "structformer"])
def test_the_same_as_parse(corpus, run, tmp_path, capsys, request, model):
    model, output = request.getfixturevalue(model), tmp_path / "new" / "silver.conllu"
    run(corpus / "dev.txt", *options(model, output, "--input_format", "words"))
    written, lines = list(read_conllu(output)), (corpus / "dev.txt").read_text().splitlines()
    assert [sentence.metadata["text"] for sentence in written] == lines
    assert written[0].comments[:2] == ["# newdoc id = dev.txt", "# newpar"]
    assert not any(sentence.begins_paragraph for sentence in written[1:])
    trees = [parsed.dependency for parsed in parse([line.split() for line in lines], model, batch_size=4)]
    assert [sentence.heads for sentence in written] == [list(tree.heads) for tree in trees]
    labels = [list(tree.labels or ["_"] * len(tree.words)) for tree in trees]
    assert [sentence.deprels for sentence in written] == labels
    assert os.listdir(output.parent) == [output.name]
    printed, words = capsys.readouterr(), sum(len(line.split()) for line in lines)
    assert f"20 sentences, {words} words\n{words} words parsed in " in printed.out
    assert " words a second\n" in printed.out
    assert "left out" not in printed.out
    assert f"100%|██████████| {words}/{words} [" in printed.err  # the progress bar
    assert "words/s]" in printed.err


@pytest.fixture(scope="module")
def with_constituents(corpus, tmp_path_factory):
    """A parser that gives constituents, labelled with chains, and tags."""
    words = sorted(set((corpus / "dev.txt").read_text().split()))
    settings = {"constituents": ["NP", "S+VP", "VP"], "columns": {"xpos": ["DT", "NN"]}}
    return new_rng_transformer(tmp_path_factory.mktemp("constituents"), build_word_tokenizer(words), **settings)


@pytest.mark.parametrize("name", ["silver.mrg", "silver.brackets.gz", "silver/"])
def test_brackets(corpus, run, tmp_path, with_constituents, name):
    arguments = options(with_constituents, tmp_path / "x", "--input_format", "words")
    arguments[arguments.index(str(tmp_path / "x"))] = f"{tmp_path}/{name}"
    run(corpus / "dev.txt", *arguments, *(["--format", "brackets"] if name == "silver/" else []))
    [output] = list((tmp_path / "silver").iterdir()) if name == "silver/" else [tmp_path / name]
    lines = (corpus / "dev.txt").read_text().splitlines()
    parses = parse([line.split() for line in lines], with_constituents, structure="constituency", batch_size=4)
    opened = gzip.open if name.endswith(".gz") else open
    with opened(output, "rt") as file:
        written = file.read().splitlines()
    assert written == [parsed.to_brackets() for parsed in parses]
    assert "(DT " in "".join(written)
    # As language models are trained on it
    read = list(load_sentences(output))
    assert [sentence["words"] for sentence in read] == [line.split() for line in lines]
    spans = [
        [(*span, label) for span, label in zip(each.spans, each.labels, strict=True)]
        for each in (parsed.constituency for parsed in parses)
    ]
    assert [sentence["spans"] for sentence in read] == spans


def test_brackets_are_resumed(run, tmp_path, with_constituents):
    text, output = tmp_path / "text.txt", tmp_path / "silver.mrg"
    text.write_text("the dog slept\n" * 6 + "the dog saw a cat\n")
    arguments = [text, *options(with_constituents, output, "--max_words", "4", "--block_size", "2")]
    assert "5 words, more than the 4 of max_words" in message_of(run, *arguments)
    assert [path.suffix for path in blocks_of(output)] == [".brackets"] * 3
    run(*arguments, "--skip_long")
    tree = parse([["the", "dog", "slept"]], with_constituents, structure="constituency")[0].to_brackets()
    assert output.read_text() == f"{tree}\n" * 6


def test_brackets_need_constituents(run, tmp_path, corpus, tagger):
    arguments = [corpus / "dev.txt", *options(tagger, tmp_path / "silver.mrg")]
    assert "but no constituency trees" in message_of(run, *arguments)
    assert "brackets hold none" in message_of(run, *arguments, "--probabilities")


def test_other_columns_and_line_ends_stay(corpus, run, tmp_path, structformer):
    source = tmp_path / "gold.conllu"
    text = "".join(f"# sent_id = {i}\n{sentence}" for i, sentence in enumerate(read_conllu(corpus / "dev.conllu")))
    source.write_bytes(text.replace("\n", "\r\n").encode())
    run(source, *options(structformer, tmp_path / "silver.conllu", "--limit", "7"))
    gold, written = list(read_conllu(source))[:7], list(read_conllu(tmp_path / "silver.conllu"))
    assert [sentence.heads for sentence in written] != [sentence.heads for sentence in gold]
    replaced = [s.with_heads(new.heads, new.deprels) for s, new in zip(gold, written, strict=True)]
    assert (tmp_path / "silver.conllu").read_bytes() == "".join(map(str, replaced)).encode()


def test_precision(corpus, run, tmp_path, structformer):
    for dtype in ("float32", "bfloat16"):
        run(corpus / "dev.txt", *options(structformer, tmp_path / dtype, "--dtype", dtype))
    exact, rounded = ((tmp_path / dtype).read_text() for dtype in ("float32", "bfloat16"))
    assert "HeadProb" in exact
    assert exact != rounded


def test_several_files_as_one(corpus, run, tmp_path, structformer):
    files = [corpus / "dev.txt", corpus / "dev.mrg"]
    run(*files, *options(structformer, tmp_path / "silver.conllu"))
    words = [line.split() for line in (corpus / "dev.txt").read_text().splitlines()]
    assert [sentence.forms for sentence in read_conllu(tmp_path / "silver.conllu")] == words * 2


def test_long_sentences(run, tmp_path, capsys, structformer):
    text, output = tmp_path / "text.txt", tmp_path / "silver.conllu"
    text.write_text("the dog slept\n\n" * 4 + "the dog saw a cat\n" + "a man saw the old dog\n")
    command_line = [text, *options(structformer, output, "--max_words", "4", "--block_size", "2")]
    message = (
        "text.txt:9: the sentence has 5 words, more than the 4 of max_words; --skip_long leaves such sentences out"
    )
    assert message in message_of(run, *command_line)
    run(*command_line, "--skip_long")  # goes on: no sentence was left out so far
    assert [sentence.forms for sentence in read_conllu(output)] == [["the", "dog", "slept"]] * 4
    printed = capsys.readouterr().out
    assert "4 sentences, 12 words\n0 words parsed in " in printed
    assert "2 sentences left out that are too long" in printed


def test_more_pieces_than_the_model_allows(run, tmp_path, capsys, subword_rng_transformer):
    (tmp_path / "text.txt").write_text("the dog slept\n" + "d" * 600 + "\n")
    arguments = [tmp_path / "text.txt", *options(subword_rng_transformer, tmp_path / "silver.conllu")]
    assert "text.txt:2: the sentence has" in message_of(run, *arguments)
    run(*arguments, "--skip_long")
    assert [sentence.forms for sentence in read_conllu(tmp_path / "silver.conllu")] == [["the", "dog", "slept"]]
    assert "1 sentences left out that are too long" in capsys.readouterr().out


def test_reads_no_more_than_a_block_ahead_and_makes_no_words_for_others(
    script, monkeypatch, run, tmp_path, structformer
):
    (tmp_path / "text.txt").write_text("the dog slept\n" * 40)
    read, written, most, made = 0, 0, 0, 0

    def counted(options, open_corpus=script.open_corpus):
        def records(position=0, read_from=None):
            nonlocal read, most
            for record in read_from(position):
                read += 1
                most = max(most, read - written)
                yield record._replace(read=partial(make, record))

        corpus = open_corpus(options)
        for part in corpus.parts:
            part.records = partial(records, read_from=part.records)
        return corpus

    def make(record):
        nonlocal made
        made += 1
        return record()

    def write(folder, part, number, *arguments, write=BlockFolder.write):
        nonlocal written
        if number == 5:
            list(arguments[0])  # parses the block
            raise OSError("killed")
        block = write(folder, part, number, *arguments)
        written += 4
        return block

    arguments = [tmp_path / "text.txt", *options(structformer, tmp_path / "silver.conllu")]
    monkeypatch.setattr(script, "open_corpus", counted)
    with monkeypatch.context() as patch:
        patch.setattr(BlockFolder, "write", write)
        assert message_of(run, *arguments) == "killed"
    assert (read, made, most) == (24, 24, 4)
    read = written = made = 0
    run(*arguments)
    assert (read, made) == (20, 20)  # of the 40, the other ones are in complete blocks


# Input


TEXTS = ["The dog slept. It's a cat!\n\nNo end", "", None, "A bird."]  # 4, 5, 2, 0, 0, 3 words
SENTENCES = [tokenize_words(sentence) for text in TEXTS for sentence in split_sentences(text or "")]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Rows of text and of words, as Parquet, JSON and a folder of `save_to_disk`."""
    folder = tmp_path_factory.mktemp("rows")
    words = [*SENTENCES, []]
    columns = {"text": [*TEXTS, ""], "words": words, "number": list(range(len(words)))}
    dataset = datasets.Dataset.from_dict(columns)
    dataset.to_parquet(str(folder / "rows.parquet"))
    dataset.to_json(str(folder / "rows.jsonl"))
    datasets.DatasetDict({"train": dataset, "two": dataset.select([0])}).save_to_disk(folder / "saved")
    return folder


@pytest.mark.parametrize("column", ["text", "words"])
@pytest.mark.parametrize("source", [["rows.parquet"], ["rows.jsonl"], ["--dataset", "saved"]], ids="-".join)
def test_rows(rows, run, tmp_path, monkeypatch, structformer, source, column):
    monkeypatch.chdir(rows)
    run(*source, *options(structformer, tmp_path / "silver.conllu", "--text_column", column, "--block_size", "1"))
    assert [sentence.forms for sentence in read_conllu(tmp_path / "silver.conllu")] == SENTENCES


def test_rows_of_lines_and_of_another_split(rows, run, tmp_path, structformer):
    arguments = ["--dataset", rows / "saved", "--split", "two", "--input_format", "words"]
    run(*arguments, *options(structformer, tmp_path / "silver.conllu"))
    lines = [line.split() for line in TEXTS[0].split("\n") if line]
    assert [sentence.forms for sentence in read_conllu(tmp_path / "silver.conllu")] == lines


@pytest.mark.parametrize("source", ["rows.parquet", "rows.jsonl"])
def test_long_sentences_of_rows(rows, run, tmp_path, capsys, structformer, source):
    arguments = [rows / source, *options(structformer, tmp_path / "silver.conllu", "--max_words", "4")]
    assert f"{source}: row 1: the sentence has 5 words, more than the 4" in message_of(run, *arguments)
    run(*arguments, "--skip_long")
    short = [words for words in SENTENCES if len(words) <= 4]
    assert [sentence.forms for sentence in read_conllu(tmp_path / "silver.conllu")] == short
    assert "1 sentences left out that are too long" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["rows.parquet", "--text_column", "body"],
            "rows.parquet has no column 'body': the columns are text (st",
        ),
        (["rows.parquet", "--text_column", "number"], "'number' of rows.parquet holds neither strings nor lists"),
        (["rows.parquet", "--input_format", "conllu"], "--input_format conllu is for files of text"),
        (["--dataset", "saved", "--split", "dev"], "saved has no split 'dev': there are train, two"),
        (["--dataset", "saved", "rows.parquet"], "give either files or --dataset"),
        ([], "give either files or --dataset"),
        (["rows.parquet", "--split", "two"], "--config_name and --split are those of a --dataset"),
    ],
    ids=["column", "type", "format", "split", "both", "neither", "option"],
)
def test_wrong_rows(rows, run, tmp_path, monkeypatch, structformer, arguments, message):
    monkeypatch.chdir(rows)
    assert message in message_of(run, *arguments, *options(structformer, tmp_path / "silver.conllu"))
    assert not (tmp_path / "silver.conllu.blocks").exists()


@pytest.mark.parametrize(("suffix", "module"), [(".gz", gzip), (".xz", lzma)])
def test_compressed_input_and_output(corpus, run, tmp_path, structformer, suffix, module):
    packed = tmp_path / f"dev.conllu{suffix}"
    packed.write_bytes(module.compress((corpus / "dev.conllu").read_bytes()))
    run(packed, *options(structformer, tmp_path / f"silver.conllu{suffix}"))
    run(corpus / "dev.conllu", *options(structformer, tmp_path / "silver.conllu"))
    written = module.decompress((tmp_path / f"silver.conllu{suffix}").read_bytes())
    assert written == (tmp_path / "silver.conllu").read_bytes()


def test_lines_of_paragraphs_break_anywhere(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("The cat\nsleeps. Dogs\n\nbark")
    for form, line_breaks in (("paragraphs", "end"), ("raw", "space")):
        corpus = open_files([str(path)], form, "text", line_breaks)
        assert [source.text for record in corpus for source in record()] == ["The cat\nsleeps. Dogs", "bark"]


def test_how_much_of_the_input_is_read(tmp_path, rows):
    """Of several files, half of the input is half of their bytes."""
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text("the dog slept\n" * 15_000)
    corpus = open_files([str(tmp_path / name) for name in ("one.txt", "two.txt")], "auto", "text")
    read = [corpus.fraction(range(i), i, record.end) for i in (0, 1) for record in corpus.parts[i].records()]
    assert read[7_499::7_500] == pytest.approx([0.25, 0.5, 0.75, 1])
    corpus = open_files([str(rows / "rows.parquet")], "auto", "text")
    assert [corpus.fraction([], 0, record.end) for record in corpus] == [0.2, 0.4, 0.6, 0.8, 1.0]
    corpus = open_files([str(rows / "rows.jsonl")], "auto", "text")
    assert [corpus.fraction([], 0, record.end) for record in corpus] == [0] * 5


# Going on


@pytest.fixture
def broken(script, corpus, run, tmp_path, structformer, monkeypatch):
    """Output and command line of a run that broke off in the middle of its third block."""
    arguments = [corpus / "dev.txt", *options(structformer, tmp_path / "silver.conllu")]

    def write(folder, part, number, *arguments, write=BlockFolder.write):
        if number == 2:
            (Path(folder.work.path) / ".2.partial").write_text("1\tthe")
            raise OSError("killed")
        return write(folder, part, number, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(BlockFolder, "write", write)
        assert message_of(run, *arguments) == "killed"
    return tmp_path / "silver.conllu", arguments


def test_complete_blocks_are_not_parsed_again(
    script, run, corpus, broken, monkeypatch, structformer, tmp_path, capsys
):
    output, arguments = broken
    before = sum(len(sentence.forms) for path in blocks_of(output) for sentence in read_conllu(path))
    assert len(blocks_of(output)) == 2
    parsed = []

    def counted(parser, sources):
        for source in sources:
            parsed.append(source)
            yield from parse_sources(parser, [source])

    monkeypatch.setattr(script, "parse_sources", counted)
    run(*arguments, "--batch_size", "3", "--device", "cpu")
    assert len(parsed) == 20 - 8
    monkeypatch.undo()
    words = sum(len(line.split()) for line in (corpus / "dev.txt").read_text().splitlines())
    assert f"20 sentences, {words} words\n{words - before} words parsed" in capsys.readouterr().out
    run(corpus / "dev.txt", *options(structformer, tmp_path / "whole.conllu"))
    heads = [[sentence.heads for sentence in read_conllu(file)] for file in (output, tmp_path / "whole.conllu")]
    assert heads[0] == heads[1]
    assert not blocks(output).exists()


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        (["--limit", "19"], "limit"),
        (["--block_size", "5"], "block_size"),
        (["--decoder", "projective"], "decoder"),
        (["--dtype", "bfloat16"], "dtype"),
        (["--max_words", "30", "--skip_long"], "max_words"),
        (["--punctuation", "drop"], "punctuation"),
        (["--model", "g2g_transformer"], "model"),
        (["input"], "files"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_refuses_to_go_on_with_other_options(run, broken, change, differs, tmp_path, request):
    output, arguments = broken
    before = {file: file.read_bytes() for file in blocks(output).rglob("*.*")}
    if change[0] == "input":
        arguments[0] = tmp_path / "other.txt"
        arguments[0].write_text("the dog slept\n" * 20)
    else:
        change = [change[0], *(request.getfixturevalue(c) if c == "g2g_transformer" else c for c in change[1:])]
        arguments = [*arguments, *change]
    message = message_of(run, *arguments)
    assert f"of a run with other options ({differs})" in message
    assert "delete that folder" in message
    assert {file: file.read_bytes() for file in blocks(output).rglob("*.*")} == before
    assert not output.exists()


def test_killed_while_it_joins(run, corpus, tmp_path, structformer, monkeypatch):
    output = tmp_path / "silver.conllu"
    arguments = [corpus / "dev.txt", *options(structformer, output)]

    def kill(*arguments):
        raise OSError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(blocks_module.shutil, "copyfileobj", kill)
        assert message_of(run, *arguments) == "killed"
    assert not output.exists()
    with monkeypatch.context() as patch:
        patch.setattr(blocks_module.shutil, "rmtree", kill)
        assert message_of(run, *arguments) == "killed"
    written = output.read_bytes()
    assert sorted(path.name for path in blocks(output).glob("part-*.conllu")) == ["part-00000-of-00001.conllu"]
    (tmp_path / "other.txt").write_text("the dog slept\n")
    run(tmp_path / "other.txt", *options(structformer, output, "--overwrite"))
    assert len(list(read_conllu(output))) == 1
    run(*arguments, "--overwrite")
    assert output.read_bytes() == written


@pytest.fixture(scope="module")
def start():
    """Runs the script as a command, and MKL so that what it rounds does not depend on where in memory it lies."""

    def start(*arguments, launcher=()):
        line = command(*arguments, launcher=launcher)
        done = subprocess.run(line, env=ENVIRONMENT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENVIRONMENT, "MKL_CBWR", "COMPATIBLE")
        yield start


@pytest.fixture(scope="module")
def line(corpus, g2g_transformer):
    """The command line for an output."""
    return lambda output: [str(corpus / "train.txt"), *options(g2g_transformer, output, "--block_size", "1")]


@pytest.fixture(scope="module")
def whole(start, line, tmp_path_factory) -> bytes:
    """What a run writes that nothing stops."""
    output = tmp_path_factory.mktemp("whole") / "silver.conllu"
    start(*line(output))
    assert len(list(read_conllu(output))) == 60
    return output.read_bytes()


@pytest.mark.slow
def test_going_on_after_a_kill_gives_the_same_file(start, line, whole, tmp_path):
    killed = tmp_path / "killed.conllu"
    start_and_kill(command(*line(killed)), blocks(killed), "block-*")
    assert not killed.exists()
    assert 0 < len(blocks_of(killed)) < 60
    start(*line(killed))
    assert killed.read_bytes() == whole


@pytest.mark.slow
def test_two_processes_give_the_same_file(start, line, whole, tmp_path):
    printed = start(*line(tmp_path / "two.conllu"), launcher=TORCHRUN)
    assert printed.count("60 sentences") == 1  # one of them talks
    assert (tmp_path / "two.conllu").read_bytes() == whole


# Parts and several workers


@pytest.fixture
def small_parts(monkeypatch):
    """Cuts small files into parts too: `dev.txt` into three."""
    monkeypatch.setattr(records_module, "LEAST", 180)


@pytest.fixture
def expected(run, corpus, tmp_path, structformer):
    """The output of one process that nothing stops."""
    run(corpus / "dev.txt", *options(structformer, tmp_path / "expected.conllu"))
    return (tmp_path / "expected.conllu").read_bytes()


def joined(folder: Path, suffix: str = ".conllu") -> bytes:
    parts = sorted(folder.glob(f"part-*{suffix}"))
    assert [path.name for path in parts] == [f"part-{i:05d}-of-00003{suffix}" for i in range(3)]
    return b"".join(path.read_bytes() for path in parts)


@pytest.mark.parametrize("form", ["conllu", "conllu.xz"])
def test_a_folder_of_parts(run, corpus, tmp_path, structformer, small_parts, expected, form, capsys):
    output = tmp_path / "silver"
    arguments = [corpus / "dev.txt", *options(structformer, f"{output}/", "--format", form)]
    run(*arguments)
    written = joined(output, f".{form}")
    assert (written if form == "conllu" else lzma.decompress(written)) == expected
    assert not [name for name in os.listdir(output) if not name.startswith("part-")]
    states = {path: path.stat().st_mtime_ns for path in output.iterdir()}
    capsys.readouterr()
    run(*arguments)  # all is there
    assert "20 sentences, 153 words\n0 words parsed in " in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in output.iterdir()} == states
    (output / f"part-00001-of-00003.{form}").unlink()
    run(*arguments)  # but for a part that somebody has removed
    assert joined(output, f".{form}") == written


def test_parquet(run, corpus, tmp_path, tagger, small_parts):
    """A folder of parts, which `datasets` reads, and one file have a row for each sentence."""
    for name in ("silver/", "silver.parquet"):
        arguments = [corpus / "dev.txt", "--input_format", "words", "--format", "parquet"]
        run(*arguments, *options(tagger, f"{tmp_path}/{name}"))
    rows = datasets.load_dataset("parquet", data_files=f"{tmp_path}/silver/*.parquet", split="train")
    assert tuple(rows.column_names) == PARSE_COLUMNS
    parses = parse([line.split() for line in (corpus / "dev.txt").read_text().splitlines()], tagger, batch_size=4)
    for name in ("forms", "heads", "upos"):
        assert rows[name][:] == [parse_columns(each)[name] for each in parses]
    whole = datasets.load_dataset("parquet", data_files=f"{tmp_path}/silver.parquet", split="train")
    assert whole.to_list() == rows.to_list()
    assert not blocks(tmp_path / "silver.parquet").exists()


@pytest.mark.parametrize("address", ["folder", "file://", "memory://"])
def test_shards(run, corpus, tmp_path, structformer, small_parts, expected, address, capsys):
    """Of input and output that are local, or at an address."""
    root = str(tmp_path) if address == "folder" else f"{address}{tmp_path}"
    memory = fsspec.filesystem("memory")
    memory.pipe_file(f"{tmp_path}/dev.txt", (corpus / "dev.txt").read_bytes())
    (tmp_path / "dev.txt").write_bytes((corpus / "dev.txt").read_bytes())
    for shard in ("2/4", "0/4", "3/4"):
        run(f"{root}/dev.txt", *options(structformer, f"{root}/silver/", "--shard", shard))
    printed = capsys.readouterr().out
    assert "silver/: 1 of 3 parts are complete" in printed
    assert "silver/: 2 of 3 parts are complete" in printed
    assert "none of the 3 parts of the input is for shard 3/4: a part has 256 KB or more" in printed
    run(f"{root}/dev.txt", *options(structformer, f"{root}/silver/", "--shard", "1/4"))
    assert "silver/: 20 sentences, 153 words" in capsys.readouterr().out
    if address == "memory://":
        (tmp_path / "silver").mkdir()
        for path in memory.glob(f"{tmp_path}/silver/*"):
            (tmp_path / "silver" / Path(path).name).write_bytes(memory.cat_file(path))
    assert joined(tmp_path / "silver") == expected


def test_one_file_at_an_address(run, corpus, structformer, small_parts, expected, capsys):
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/one/dev.txt.gz", gzip.compress((corpus / "dev.txt").read_bytes()))
    run("memory://one/dev.txt.gz", *options(structformer, "memory://one/silver.conllu"))
    assert memory.cat_file("/one/silver.conllu") == expected.replace(b"dev.txt", b"dev.txt.gz", 1)
    assert "silver.conllu is on a store without claims: this process parses all" in capsys.readouterr().out
    assert [info["name"] for info in memory.ls("/one")] == ["/one/dev.txt.gz", "/one/silver.conllu"]
    arguments = ["memory://one/dev.txt.gz", *options(structformer, "memory://one/silver.conllu")]
    assert "exists already" in message_of(run, *arguments)
    arguments[0] = "memory://one/none.txt"
    assert "none.txt" in message_of(run, *arguments, "--overwrite")


def slowly(monkeypatch, log: Path, seconds: float = 0.05):
    """Makes every block take a while, and notes it."""

    def write(folder, part, number, *arguments, write=BlockFolder.write):
        time.sleep(seconds)
        block = write(folder, part, number, *arguments)
        with log.open("a") as file:
            file.write(f"{os.getpid()} {part} {number}\n")
        return block

    monkeypatch.setattr(BlockFolder, "write", write)


def together(monkeypatch, folder: Path, number: int):
    """No process ends its first block before so many have begun one: on a busy machine, one may start late."""
    folder.mkdir()

    def write(*arguments, write=BlockFolder.write):
        (folder / str(os.getpid())).touch()
        last = time.monotonic() + 60
        while len(list(folder.iterdir())) < number and time.monotonic() < last:
            time.sleep(0.01)
        return write(*arguments)

    monkeypatch.setattr(BlockFolder, "write", write)


def in_a_child(run, *arguments) -> int:
    child = running.fork()
    if child == 0:
        try:
            run(*arguments)
            os._exit(0)
        finally:
            os._exit(1)
    return child


@pytest.mark.parametrize("name", ["silver.conllu", "silver/"])
def test_two_workers_share_the_parts(run, corpus, tmp_path, structformer, expected, monkeypatch, name):
    monkeypatch.setattr(records_module, "LEAST", 50)
    slowly(monkeypatch, tmp_path / "log")
    together(monkeypatch, tmp_path / "begun", 2)
    arguments = [corpus / "dev.txt", *options(structformer, f"{tmp_path}/{name}", "--block_size", "1")]
    children = [in_a_child(run, *arguments) for _ in range(2)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    noted = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert {worker for worker, _, _ in noted} == set(map(str, children))
    assert len(noted) == len({(part, number) for _, part, number in noted}) == 20
    files = sorted((tmp_path / "silver").glob("*")) if name == "silver/" else [tmp_path / name]
    found = [sentence for file in files for sentence in read_conllu(file)]
    assert [sentence.forms for sentence in found] == [line.split() for line in (corpus / "dev.txt").open()]


@pytest.mark.parametrize("is_known", [True, False], ids=["same machine", "another machine"])
def test_a_worker_is_killed_that_holds_a_part(
    run, corpus, tmp_path, structformer, small_parts, expected, monkeypatch, is_known
):
    """Its complete blocks are kept, and another worker goes on: at once, or when the claim has expired."""
    slowly(monkeypatch, tmp_path / "log", 0)
    output = tmp_path / "silver.conllu"
    arguments = [corpus / "dev.txt", *options(structformer, output, "--expiry", "1")]

    def two_workers() -> None:
        monkeypatch.setattr(BlockFolder, "finish", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        in_a_child(run, *arguments)
        run(*arguments)

    os.waitpid(in_a_child(two_workers), 0)
    before = (tmp_path / "log").read_text().splitlines()
    assert before
    if not is_known:
        monkeypatch.setattr(claims_module, "has_ended", lambda _: False)
    run(*arguments)
    assert output.read_bytes() == expected
    noted = [tuple(line.split()[1:]) for line in (tmp_path / "log").read_text().splitlines()]
    assert len(noted) == len(set(noted)), "a block was parsed twice"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["silver.conllu", "silver/"])
def test_workers_killed_at_random(run, corpus, tmp_path, structformer, small_parts, expected, monkeypatch, name):
    """Two at a time, again and again, until those that nobody kills finish the rest"""
    rng = random.Random(0)
    arguments = [corpus / "dev.txt", *options(structformer, f"{tmp_path}/{name}", "--block_size", "2")]
    with monkeypatch.context() as patch:
        slowly(patch, tmp_path / "log")
        for _ in range(6):
            children = [in_a_child(run, *arguments) for _ in range(2)]
            time.sleep(rng.uniform(0, 0.3))
            for child in children:
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
    with suppress(FileExistsError):  # all was done before
        run(*arguments)
    files = sorted((tmp_path / "silver").glob("*")) if name == "silver/" else [tmp_path / name]
    found = [sentence for file in files for sentence in read_conllu(file)]
    whole = read_conllu(expected.decode().splitlines())
    assert [(each.metadata["text"], each.heads) for each in found] == [
        (each.metadata["text"], each.heads) for each in whole
    ]


@pytest.mark.parametrize("name", ["text.txt", "text.conllu", "rows.parquet", "rows.jsonl"])
def test_a_restart_reads_one_block_again(run, tmp_path, structformer, monkeypatch, name):
    """After a kill at 90% of a part of 40 sentences in blocks of 4"""
    lines = [f"the dog slept in {number}" for number in range(40)]
    (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in lines))
    words = "".join(f"{i}\t{{}}{i}" + "\t_" * 8 + "\n" for i in (1, 2))
    (tmp_path / "text.conllu").write_text("".join(words.format(line, line) + "\n" for line in "abcdefgh" * 5))
    rows = datasets.Dataset.from_dict({"text": lines})
    rows.to_parquet(str(tmp_path / "rows.parquet"))
    rows.to_json(str(tmp_path / "rows.jsonl"))
    read = []

    def read_source(record, call=records_module.Record.__call__):
        read.append(record.end)
        return call(record)

    monkeypatch.setattr(records_module.Record, "__call__", read_source)
    if name.startswith("text"):
        # Their lines are not even read from the disk.
        iterate = records_module._Lines.__iter__
        monkeypatch.setattr(
            records_module._Lines, "__iter__", lambda self: (read.append(line) or line for line in iterate(self))
        )
    arguments = [tmp_path / name, *options(structformer, tmp_path / "silver.conllu")]

    def write(folder, part, number, parses, counts, write=BlockFolder.write):
        if number == 9:
            list(parses)
            raise OSError("killed")
        return write(folder, part, number, parses, counts)

    with monkeypatch.context() as patch:
        patch.setattr(BlockFolder, "write", write)
        assert message_of(run, *arguments) == "killed"
    before = len(read)
    run(*arguments)
    assert len(list(read_conllu(tmp_path / "silver.conllu"))) == 40
    assert len(read) - before == before // 10


@pytest.mark.parametrize("sentences", ["split", pytest.param("model", marks=pytest.mark.slow)])
def test_a_row_that_is_a_book(run, tmp_path, tagger, monkeypatch, sentences):
    """It is parsed in windows, with what it gives at once; memory holds few of its sentences."""
    monkeypatch.setattr(records_module, "LONG", 200)
    monkeypatch.setattr(splitting, "AHEAD", 1)
    monkeypatch.setattr(blocks_module, "BUFFERED", 16)
    book = "The dog slept near a cat. It's late\n\nA bird hears it. " * 60
    datasets.Dataset.from_dict({"text": [book, "The end."]}).to_parquet(str(tmp_path / "book.parquet"))
    created = written = most = 0

    def counted(parser, sources):
        nonlocal created, most
        for parses in parse_sources(parser, sources):
            created += len(parses)
            most = max(most, created - written)
            yield parses

    def to_conllu(parsed, *arguments, to_conllu=Parse.to_conllu, **options):
        nonlocal written
        written += 1
        return to_conllu(parsed, *arguments, **options)

    script = load_script("annotate_corpus")
    monkeypatch.setattr(script, "parse_sources", counted)
    monkeypatch.setattr(Parse, "to_conllu", to_conllu)
    output = tmp_path / "silver.conllu"
    running.run_main(
        script, tmp_path / "book.parquet", *options(tagger, output, "--sentences", sentences, "--batch_size", "1")
    )
    assert most < 100
    written_text = output.read_text()
    monkeypatch.undo()
    run(tmp_path / "book.parquet", *options(tagger, tmp_path / "whole.conllu", "--sentences", sentences))
    found, whole = list(read_conllu(output)), list(read_conllu(tmp_path / "whole.conllu"))
    # A last digit of a probability may differ in another batch.
    assert [(each.metadata["text"], each.begins_paragraph, each.heads) for each in found] == [
        (each.metadata["text"], each.begins_paragraph, each.heads) for each in whole
    ]
    assert written_text.count("# newdoc") == 2
    assert len(found) >= 180


def test_shards_of_an_array_and_of_launched_processes(script, monkeypatch):
    shard_of = script.shard_of
    none, array = argparse.Namespace(shard=None), argparse.Namespace(shard="array")
    assert shard_of(none) is None
    with pytest.raises(ValueError, match="--shard array is for the tasks of a Slurm array"):
        shard_of(array)
    for name, value in (("ID", "7"), ("MIN", "5"), ("MAX", "8")):
        monkeypatch.setenv(f"SLURM_ARRAY_TASK_{name}", value)
    with pytest.raises(ValueError, match="--shard array is for the tasks of a Slurm array"):
        shard_of(array)
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "4")
    assert shard_of(array) == (2, 4)
    assert shard_of(none) is None  # tasks claim parts
    monkeypatch.setenv("SLURM_ARRAY_TASK_MAX", "10")  # --array=5,7,9,10: every task refuses
    with pytest.raises(ValueError, match=r"the 4 tasks of this array have numbers from 5 to 10: .* --array=0-3$"):
        shard_of(array)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert shard_of(none) == (1, 2)
    assert shard_of(argparse.Namespace(shard="0/3")) == (0, 3)


def test_its_header_names_what_it_imports():
    """`uv run` reads the header (PEP 723)."""
    text = (EXAMPLES / script_path("annotate_corpus.py")).read_text()
    header = re.match(r"# /// script\n((?:#(?: .*)?\n)+?)# ///\n", text)
    found = tomllib.loads("".join(line[2:] for line in header[1].splitlines(keepends=True)))
    assert found == {"requires-python": ">=3.11", "dependencies": ["hf_structure[train,tables]"]}
    setup = configparser.ConfigParser()
    setup.read(EXAMPLES.parent / "setup.cfg")
    given = setup["options"]["install_requires"] + "".join(
        setup["options.extras_require"][e] for e in ("train", "tables")
    )
    given = {re.split("[<>=]", line)[0] for line in given.split()}
    statements = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {getattr(node, "module", None) or node.names[0].name for node in statements}
    assert {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"hf_structure"} <= given


def sent_ids(path: Path) -> list[str]:
    return [sentence.metadata["sent_id"] for sentence in read_conllu(path)]


def test_ids_of_lines(run, tmp_path, structformer, monkeypatch):
    """They do not depend on parts, blocks and compression."""
    lines = ["The dog slept. A cat!", "", "É vero.", "The dog slept."]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    with gzip.open(tmp_path / "a.txt.gz", "wt") as file:
        file.write("\n".join(lines))
    expected = ["a.txt-22-1", "a.txt-22-2", "a.txt-32-1", "a.txt-46-1"]
    splitting = ["--sentences", "split"]
    run(tmp_path / "a.txt", *options(structformer, tmp_path / "silver.conllu", *splitting))
    assert sent_ids(tmp_path / "silver.conllu") == expected
    run(tmp_path / "a.txt.gz", *options(structformer, tmp_path / "packed.conllu", *splitting))
    assert sent_ids(tmp_path / "packed.conllu") == expected
    monkeypatch.setattr(records_module, "LEAST", 10)
    run(tmp_path / "a.txt", *options(structformer, tmp_path / "parts.conllu", *splitting, "--block_size", "1"))
    assert sent_ids(tmp_path / "parts.conllu") == expected
    # Two files of the same name
    run(tmp_path / "a.txt", tmp_path / "a.txt", *options(structformer, tmp_path / "two.conllu", *splitting))
    assert sent_ids(tmp_path / "two.conllu") == [*expected, *(name.replace("txt", "txt-2") for name in expected)]


@pytest.mark.parametrize("source", ["rows.parquet", "rows.jsonl", "saved", "files"])
@pytest.mark.parametrize("ids", [None, ["x 1", None, "y"], [7, None, 8]], ids=["none", "strings", "integers"])
def test_ids_of_rows(run, tmp_path, structformer, source, ids):
    """Those of the column `id`, where it has a value; else the number of the row"""
    columns = {"text": ["The dog slept. A cat!", "", "The dog. Slept."]}
    rows = datasets.Dataset.from_dict(columns if ids is None else {**columns, "id": ids})
    path = tmp_path / source
    if source == "saved":
        rows.save_to_disk(path)
    elif source == "files":
        path.mkdir()
        for index in range(len(rows)):
            rows.select([index]).to_parquet(str(path / f"{index}.parquet"))
    elif source == "rows.parquet":
        rows.to_parquet(str(path), batch_size=1)
    else:
        rows.to_json(str(path))
    given = [path] if "." in source else ["--dataset", path]
    run(*given, *options(structformer, tmp_path / "silver.parquet", "--sentences", "split", "--block_size", "1"))
    found = datasets.Dataset.from_parquet(str(tmp_path / "silver.parquet"))["id"]
    numbered = ["files-1-1", "files-3-1"] if source == "files" else [f"{source}-1", f"{source}-3"]
    first, _, last = (
        [numbered[0], None, numbered[1]] if ids is None else [str(value).replace(" ", "_") for value in ids]
    )
    assert list(found) == [f"{first}-1", f"{first}-2", f"{last}-1", f"{last}-2"]


def test_a_row_without_an_id_and_a_sentence_left_out(run, tmp_path, structformer):
    columns = {"id": ["a", None, " "], "text": ["the dog", "The dog slept a cat. A dog!", "a cat"]}
    datasets.Dataset.from_dict(columns).to_parquet(str(tmp_path / "rows.parquet"))
    more = ["--sentences", "split", "--max_words", "4", "--skip_long"]
    run(tmp_path / "rows.parquet", *options(structformer, tmp_path / "silver.conllu", *more))
    assert sent_ids(tmp_path / "silver.conllu") == ["a-1", "rows.parquet-2-2", "rows.parquet-3-1"]
    text = (tmp_path / "silver.conllu").read_text()
    assert "# newdoc id = a\n" in text
    assert "# newdoc id = rows.parquet-3\n" in text


def test_ids_of_a_book_go_on_from_window_to_window(run, tmp_path, structformer, monkeypatch):
    monkeypatch.setattr(records_module, "LONG", 100)
    datasets.Dataset.from_dict({"id": ["b"], "text": ["The dog slept. " * 40]}).to_parquet(str(tmp_path / "b.parquet"))
    run(tmp_path / "b.parquet", *options(structformer, tmp_path / "silver.conllu", "--sentences", "split"))
    assert sent_ids(tmp_path / "silver.conllu") == [f"b-{number}" for number in range(1, 41)]


def test_ids_of_conllu_stay_and_missing_ones_are_added(run, tmp_path, structformer):
    sentence = "1\tdogs" + "\t_" * 8 + "\n\n"
    (tmp_path / "a.conllu").write_text(f"# sent_id = mine\n{sentence}# text = dogs\n{sentence}")
    run(tmp_path / "a.conllu", *options(structformer, tmp_path / "silver.conllu"))
    size = (tmp_path / "a.conllu").stat().st_size
    assert sent_ids(tmp_path / "silver.conllu") == ["mine", f"a.conllu-{size}-1"]
    run(tmp_path / "a.conllu", *options(structformer, tmp_path / "silver.parquet"))
    found = datasets.Dataset.from_parquet(str(tmp_path / "silver.parquet"))["id"]
    assert list(found) == ["mine", f"a.conllu-{size}-1"]


@pytest.mark.parametrize("name", ["silver.conllu", "silver/"])
@pytest.mark.parametrize("shard", [[], ["--shard", "0/1"]], ids=["claims", "shard"])
def test_folders_are_not_listed_after_each_block(run, corpus, tmp_path, structformer, monkeypatch, name, shard):
    """With a thousand workers, listings are what a shared file system has to do: so many for each part."""
    listings = 0

    def names(folder, names=blocks_module.Folder.names):
        nonlocal listings
        listings += 1
        return names(folder)

    monkeypatch.setattr(blocks_module.Folder, "names", names)
    counts = []
    for size in ("1", "20"):
        listings = 0
        output = f"{tmp_path}/{size}/{name}"
        run(corpus / "dev.txt", *options(structformer, output, "--block_size", size, *shard))
        counts.append(listings)
    assert counts[0] == counts[1]


# Errors


@pytest.mark.parametrize("shard", ["4/4", "5/4", "x/4", "-1/4", "0/0", "1", "1/"])
def test_impossible_shards(run, corpus, tmp_path, structformer, shard):
    arguments = [corpus / "dev.txt", *options(structformer, tmp_path / "silver.conllu", f"--shard={shard}")]
    assert message_of(run, *arguments).startswith(f"--shard {shard}: give I/N, shard I of N, with I from 0 to N - 1")
    assert not blocks(tmp_path / "silver.conllu").exists()


@pytest.mark.parametrize(
    ("output", "more", "message"),
    [
        ("silver.conllu", ["--format", "parquet"], "silver.conllu does not end in .parquet, its --format"),
        ("dev.txt/", [], "dev.txt/ is a file, not a folder"),
        ("made", [], "made is a folder, not a file: a folder for parts ends in /"),
        ("nowhere://silver/", [], "nowhere"),
    ],
    ids=["format", "file", "folder", "address"],
)
def test_impossible_outputs(run, corpus, tmp_path, structformer, monkeypatch, output, more, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made").mkdir()
    (tmp_path / "dev.txt").write_text("the dog slept\n")
    assert message in message_of(run, corpus / "dev.txt", *options(structformer, output, *more))


@pytest.mark.parametrize(
    ("name", "content", "more", "message"),
    [
        ("empty.txt", "\n \n", [], "no sentences"),
        ("bytes.txt", b"the dog\n\xff\n", [], "bytes.txt:2: not UTF-8 text"),
        (
            "nbsp.conllu",
            "1\t\u00a0" + "\t_" * 8 + "\n\n",
            [],
            "nbsp.conllu:1: word 1",
        ),
        ("text.txt", "the dog\n", ["--beam_size", "2"], "searches without a beam"),
        ("text.txt", "the dog\n", ["--output", "text.txt"], "to be read and written at once"),
        ("text.txt", "the dog\n", ["--output", "."], "is a folder"),
        ("-", None, [], "standard input cannot be read again"),
    ],
    ids=["empty", "bytes", "word", "beam", "same", "folder", "stdin"],
)
def test_errors(run, tmp_path, monkeypatch, structformer, name, content, more, message):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert message in message_of(run, name, *options(structformer, Path("silver.conllu")), *more)
    assert not Path("silver.conllu").exists()


def test_keeps_what_is_there(run, corpus, tmp_path, structformer):
    arguments = [corpus / "dev.txt", *options(structformer, tmp_path / "silver.conllu", "--limit", "2")]
    (tmp_path / "silver.conllu").write_text("kept")
    assert "exists already (--overwrite replaces it)" in message_of(run, *arguments)
    assert (tmp_path / "silver.conllu").read_text() == "kept"
    run(*arguments, "--overwrite")
    assert len(list(read_conllu(tmp_path / "silver.conllu"))) == 2


@pytest.mark.parametrize("function", ["_write", "_join"])
def test_a_full_disk_is_named(run, corpus, tmp_path, structformer, monkeypatch, function):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(blocks_module, function, fail)
    output = tmp_path / "silver.conllu"
    message = message_of(run, corpus / "dev.txt", *options(structformer, output))
    assert message == f"[Errno 28] No space left on device: '{output}'"


@pytest.mark.parametrize("trust", [False, True])
def test_code_of_the_model_is_run_if_it_is_trusted(run, script, corpus, tmp_path, structformer, monkeypatch, trust):
    def load(_, trust_remote_code, **options):
        raise ValueError(f"asked with {trust_remote_code}")

    monkeypatch.setattr(script, "Parser", load)
    more = ["--trust_remote_code"] if trust else []
    message = message_of(run, corpus / "dev.txt", *options(structformer, tmp_path / "silver.conllu", *more))
    assert message == f"asked with {trust}"
