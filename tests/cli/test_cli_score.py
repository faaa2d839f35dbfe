"""`hf-structure score`."""

import json
from pathlib import Path

import pytest
from tiny_models import randomise, save, unigram_tokenizer
from transformers import GPT2Config

from hf_structure import GiLTConfig, GiLTForCausalLM, score
from hf_structure.cli import results as cli_results
from hf_structure.cli import score as cli_score
from hf_structure.scoring.scoring import corpus_scores, count_falls
from hf_structure.text.sentences import SourceSentence

TEXT = "The cat can't sleep.\nDogs chase \t cats.\n"
LINES = ["The cat can't sleep.", "Dogs chase \t cats."]
CONLLU = """\
# text = Dogs don't sleep
1	Dogs	_	_	_	_	3	_	_	_
2-3	don't	_	_	_	_	_	_	_	_
2	do	_	_	_	_	3	_	_	_
3	n't	_	_	_	_	0	_	_	_

"""
WORDS = [["The", "cat", "ca", "n't", "sleep", "."], ["Dogs", "chase", "cats", "do"]]
FILES = {"notes.txt": TEXT, "gold.conllu": CONLLU}


def table(output: str) -> list[list[str]]:
    return [line.split("\t") for line in output.splitlines()]


def test_sentences(run, gilt):
    output = run("score", "--model", gilt, "--beam_size", 3, "notes.txt")
    assert output == run("score", "--model", gilt, "--beam_size", 3, stdin=TEXT)
    header, *rows = table(output)
    assert header == ["sentence", "log_prob", "perplexity", "tokens", "text"]
    for number, (row, scored) in enumerate(zip(rows, score(LINES, gilt, beam_size=3), strict=True), start=1):
        assert row[0] == str(number)
        assert float(row[1]) == pytest.approx(scored.log_prob, abs=1e-3)
        assert float(row[2]) == pytest.approx(scored.perplexity, abs=1e-2)
        assert row[3:] == [str(len(scored.tokens)), " ".join(scored.text.split())]


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ([], ["She sleeps.", "He saw her.", "The dog"]),
        (["--sentences", "split", "--raw"], ["She sleeps.", "He saw her.", "The dog"]),
        (["--sentences", "line"], ["She sleeps. He saw her.", "The dog"]),
        (["--raw"], ["She sleeps. He saw her.", "The dog"]),
    ],
    ids=" ".join,
)
def test_sentences_of_a_line(run, baseline, options, texts):
    """As `parse` reads them; text that is scored as it is stays as it is."""
    text = "She sleeps. He saw her.\nThe dog\n"
    _, *rows = table(run("score", "--model", baseline, *options, stdin=text))
    assert [row[4] for row in rows] == texts


def test_words(run, baseline):
    header, *rows = table(run("score", "--model", baseline, "--words", "notes.txt"))
    assert header == ["sentence", "word", "surprisal", "form"]
    expected = score(LINES, baseline)
    assert [row[3] for row in rows] == expected[0].words + expected[1].words
    assert [row[:2] for row in rows[5:8]] == [["1", "6"], ["2", "1"], ["2", "2"]]
    surprisals = expected[0].word_surprisals + expected[1].word_surprisals
    assert [float(row[2]) for row in rows] == pytest.approx(surprisals, abs=1e-3)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], {}),
        (["--raw"], {"raw": True}),
        (["--no-eos"], {"eos": False}),
        (["--raw", "--eos"], {"raw": True, "eos": True}),
        (["--word_tokenizer", "spaces", "--max_tokens", "5"], {"word_tokenizer": "spaces"}),
    ],
    ids=["default", "raw", "no-eos", "raw-eos", "rule"],
)
def test_json_and_options(run, baseline, arguments, options):
    rows = [
        json.loads(line)
        for line in run("score", "--model", baseline, "--format", "json", *arguments, "notes.txt").splitlines()
    ]
    for row, scored in zip(rows, score(LINES, baseline, **options), strict=True):
        assert row["tokens"] == scored.tokens
        assert row["text"] == scored.text
        assert row["words"] == scored.words
        assert row["log_prob"] == pytest.approx(scored.log_prob, abs=1e-3)
        assert row["token_surprisals"] == pytest.approx(scored.token_surprisals, abs=1e-3)


@pytest.mark.parametrize("format", ["auto", "conllu"])
def test_conllu(run, baseline, format):
    [row] = run("score", "--model", baseline, "--format", "json", "--input_format", format, "gold.conllu").splitlines()
    assert json.loads(row)["words"] == ["Dogs", "do", "n't"]


def test_output_file(run, baseline):
    assert run("score", "--model", baseline, "--output", "scores.tsv", "notes.txt") == ""
    assert Path("scores.tsv").read_text() == run("score", "--model", baseline, "notes.txt")


def test_summary_of_several_beams(run, gilt):
    rows = run(
        "score", "--model", gilt, "--summary", "--beam_size", "1,30", "--format", "json", "notes.txt"
    ).splitlines()
    scores = {size: score(LINES, gilt, beam_size=size) for size in (1, 30)}
    log_probs = ([scored.log_prob for scored in each] for each in scores.values())
    for row, (size, expected), falls in zip(rows, scores.items(), [None, count_falls(*log_probs)], strict=True):
        assert json.loads(row) == {
            "beam_size": size,
            "falls": falls,
            **{name: pytest.approx(value, rel=1e-3) for name, value in corpus_scores(expected).items()},
        }


def test_summary_as_a_table(run, baseline):
    header, row = run("score", "--model", baseline, "--summary", "notes.txt").splitlines()
    expected = corpus_scores(score(LINES, baseline))
    counts = ["sentences", "tokens", "words", "unknown_words"]
    names = ["beam_size", *counts, "log_prob", "perplexity", "word_perplexity", "falls"]
    assert header.split() == names
    values = dict(zip(names, row.split(), strict=True))
    assert values["beam_size"] == values["falls"] == "-"
    assert values["words"] == str(expected["words"]) == "10"
    assert float(values["perplexity"]) == pytest.approx(expected["perplexity"], abs=0.01)


# results as they come


def test_lines_of_a_pipe_come_out_one_by_one(talk, baseline):
    with talk("score", "--model", baseline) as (stdin, stdout):
        for text in (b"Dogs sleep.\n", b"Cats sleep.\n"):
            stdin.write(text)
            if text.startswith(b"Dogs"):
                assert stdout.readline().startswith(b"sentence\t")
            assert stdout.readline().endswith(text)  # hangs if it waits for the end of the input


@pytest.mark.parametrize("options", [["--output", "out.tsv"], ["--summary"]], ids=["lines", "summary"])
def test_sentences_are_read_when_those_before_are_scored(run, gilt, monkeypatch, options):
    """At most two at once, so that memory does not grow with the file."""
    read, scored = [], []
    real_score_chunk = cli_score._score_chunk

    def sentences(files, input_format, skip_empty, line_breaks):
        for _ in range(9):
            read.append(len(scored))
            yield SourceSentence(["cat"])

    def score_chunk(items, **options):
        yield from real_score_chunk(items, **options)
        scored.extend(items)

    monkeypatch.setattr(cli_results, "read_files", sentences)
    monkeypatch.setattr(cli_score, "_score_chunk", score_chunk)
    monkeypatch.setattr(cli_score, "FIRST", 1)
    monkeypatch.setattr(cli_score, "MOST", 2)
    run("score", "--model", gilt, "--beam_size", 2, *options)
    assert read == [0, 1, 1, 3, 3, 5, 5, 7, 7]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("Dogs sleep.\n\nCats.\n", "bad.txt:2: a sentence without"),
        ("Dogs sleep.\n\udcff\n", "bad.txt:2: not UTF-8"),
    ],
    ids=["sentence", "file"],
)
def test_the_lines_of_all_files_come_before_an_error(run, fail, baseline, bad, reason):
    Path("bad.txt").write_text(bad, errors="surrogateescape")
    Path("good.txt").write_text("Dogs sleep.\n" + TEXT)
    expected = run("score", "--model", baseline, "good.txt")
    error, output = fail("score", "--model", baseline, "bad.txt", "notes.txt")
    assert output == expected
    assert reason in error
    fail("score", "--model", baseline, "--output", "out.tsv", "bad.txt", "notes.txt")
    assert Path("out.tsv.partial").read_text() == expected
    assert not Path("out.tsv").exists()


def test_no_summary_of_a_part(fail, baseline):
    Path("bad.txt").write_text("Dogs sleep.\n\n")
    error, output = fail("score", "--model", baseline, "--summary", "notes.txt", "bad.txt")
    assert "bad.txt:2" in error
    assert output == ""


@pytest.fixture(scope="module")
def short(tmp_path_factory) -> Path:
    """A model that reads twenty tokens at most."""
    tokenizer = unigram_tokenizer(WORDS)
    base = GPT2Config(vocab_size=len(tokenizer), n_embd=16, n_layer=2, n_head=2, n_positions=20)
    special = {name: getattr(tokenizer, name) for name in ("pad_token_id", "bos_token_id", "eos_token_id")}
    model = GiLTForCausalLM(GiLTConfig(base_config=base, graph_layers=0, **special))
    return save(randomise(model), tokenizer, tmp_path_factory.mktemp("short"))


def test_long_sentences_are_left_out(call, fail, short):
    Path("long.txt").write_text(f"Dogs sleep.\n{'chase ' * 20}\nDogs sleep.\n")
    error, output = fail("score", "--model", short, "long.txt")
    assert "long.txt:2: " in error
    assert "tokens are too many" in error
    rows, note = call("score", "--model", short, "--skip-long", "long.txt")
    _, first, third = table(rows)
    assert rows.startswith(output)
    assert (first[0], third[0], first[1:]) == ("1", "3", third[1:])
    assert note == "hf-structure: 1 sentences left out that are too long, the first one long.txt:2\n"
    summary, _ = call("score", "--model", short, "--skip_long", "--summary", "--format", "json", "long.txt")
    assert json.loads(summary)["sentences"] == 2


@pytest.mark.parametrize("raw", [[], ["--raw"]], ids=["words", "raw"])
def test_empty_lines_are_left_out(call, baseline, raw):
    Path("gaps.txt").write_text("Dogs sleep.\n\n \nDogs sleep.\n")
    rows, note = call("score", "--model", baseline, "--skip_empty", *raw, "gaps.txt")
    _, first, fourth = table(rows)
    assert (first[0], fourth[0], first[1:]) == ("1", "4", fourth[1:])
    assert note == "hf-structure: 2 sentences left out that are too long or empty, the first one gaps.txt:2\n"
    summary, _ = call("score", "--model", baseline, "--skip_empty", "--summary", "--format", "json", *raw, "gaps.txt")
    assert json.loads(summary)["sentences"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gap.txt"], "gap.txt:2: a sentence without words"),
        (["--raw", "gap.txt"], "gap.txt:2: a sentence without words"),
        (["--beam_size", "2,3", "notes.txt"], "several sizes of the beam are for --summary"),
        (["--words", "--format", "json", "notes.txt"], "--words is for --format tsv"),
        (["--words", "--summary", "notes.txt"], "--summary is about the whole corpus"),
        (["--summary", "empty.txt"], "there are no sentences to score"),
    ],
)
def test_errors(fail, baseline, arguments, message):
    Path("gap.txt").write_text("Dogs sleep.\n\nCats.\n")
    Path("empty.txt").write_text("")
    assert message in fail("score", "--model", baseline, *arguments)[0]
    assert Path("notes.txt").read_text() == TEXT


@pytest.mark.parametrize("size", ["0", "x", "1,0"])
def test_no_size_of_a_beam(run, gilt, size, capsys):
    with pytest.raises(SystemExit):
        run("score", "--model", gilt, "--beam_size", size, "notes.txt")
    assert "must be a number of at least 1" in capsys.readouterr().err
