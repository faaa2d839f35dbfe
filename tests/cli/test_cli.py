import gzip
import json
import lzma
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from matplotlib.image import imread
from tiny_models import new_udgn

from hf_structure import (
    Parse,
    build_word_tokenizer,
    parse,
)
from hf_structure.cli import results as cli_results
from hf_structure.cli.main import main
from hf_structure.metrics.attachment import attachment_scores, score_sentences
from hf_structure.metrics.conll18 import conll18_scores
from hf_structure.metrics.error_analysis import error_analysis
from hf_structure.text.brackets import read_brackets
from hf_structure.text.conllu import read_conllu
from hf_structure.text.files import open_input
from hf_structure.text.sentences import SourceSentence
from hf_structure.version import __version__

TEXT = 'She can\'t sleep.\n\nThe cat chased the "old" dog!\n'
SENTENCES = [line for line in TEXT.split("\n") if line]
TEXTS = [{"text": line, "start": TEXT.index(line)} for line in SENTENCES]
WORDS = [["She", "ca", "n't", "sleep", "."], ["The", "cat", "chased", "the", '"', "old", '"', "dog", "!"]]
GOLD = """\
# sent_id = 1
# text = Dogs don't bark, "loudly"!
1	Dogs	dog	NOUN	NNS	Number=Plur	4	nsubj	4:nsubj	_
2-3	don't	_	_	_	_	_	_	_	SpaceAfter=No
2	do	do	AUX	VBP	_	4	aux	4:aux	_
3	n't	not	PART	RB	_	4	advmod	4:advmod	_
4	bark	bark	VERB	VB	_	0	root	0:root	SpaceAfter=No
4.1	it	it	PRON	_	_	_	_	4:obj	_
5	,	,	PUNCT	,	_	4	punct	_	_
6	"	"	PUNCT	``	_	7	punct	_	SpaceAfter=No
7	loudly	loudly	ADV	RB	_	4	advmod:x	_	SpaceAfter=No
8	"	"	PUNCT	''	_	7	punct	_	SpaceAfter=No
9	!	!	PUNCT	.	_	4	punct	_	_

# sent_id = 2
1	Cats	cat	NOUN	NNS	_	2	nsubj	_	_
2	sleep	sleep	VERB	VBP	_	0	root	_	_

"""
LINES = GOLD.count("\n")
FILES = {"notes.txt": TEXT, "gold.conllu": GOLD}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A random model with opinions."""
    words = ["the", "she", "cat", "dogs", "cats", "dog", "old", "do", "ca", "n't", "sleep", "bark", "chased", "loudly"]
    return new_udgn(tmp_path_factory.mktemp("tiny"), build_word_tokenizer(words))


# parse: what goes in


SOURCE = ("spaces_after", "metadata", "source")
MARKS = ({"newdoc id": "notes.txt", "newpar": ""}, {"newpar": ""})  # the file begins, and an empty line is before


def structures(output: str) -> list[dict]:
    """The parses of lines of JSON, without what only their source says."""
    parses = [json.loads(line) for line in output.splitlines()]
    return [{name: values[name] for name in values if name not in SOURCE} for values in parses]


def words_of(output: str) -> list[list[str]]:
    return [json.loads(line)["words"] for line in output.splitlines()]


def test_conllu_is_known_by_suffix_or_first_line(run, folder, here):
    forms = [["Dogs", "do", "n't", "bark", ",", '"', "loudly", '"', "!"], ["Cats", "sleep"]]
    options = ("parse", "--model", folder, "--format", "json")
    for name in ("gold.CONLL", "gold.data"):
        Path(name).write_text(GOLD, encoding="utf-8")
        assert words_of(run(*options, name)) == forms
    assert words_of(run(*options, stdin=GOLD)) == forms
    assert words_of(run(*options, stdin=GOLD.partition("\n\n")[2].partition("\n")[2])) == forms[1:]
    assert words_of(run(*options, "--input_format", "raw", stdin="1\ta"))[0] == ["1", "a"]
    assert words_of(run(*options, stdin="# 1\ta\tb\n"))[0] == ["#", "1", "a", "b"]


def test_several_files_and_standard_input(run, folder):
    output = run("parse", "--model", folder, "--format", "json", "notes.txt", "-", "gold.conllu", stdin="one more")
    assert [len(words) for words in words_of(output)] == [5, 9, 2, 9, 2]


@pytest.mark.parametrize("stdin", ["", "\n", " \n\t\n\r\n"])
def test_no_sentence(run, folder, stdin):
    assert run("parse", "--model", folder, stdin=stdin) == ""
    assert run("parse", "--model", folder, "--format", "json", "--input_format", "words", stdin=stdin) == ""
    assert run("parse", "--model", folder, "--output", "out.txt", stdin=stdin) == ""
    assert Path("out.txt").read_text() == ""


# parse: what comes out


def test_compressed_files(run, folder, here):
    (here / "notes.txt.xz").write_bytes(lzma.compress(TEXT.encode()))
    run("parse", "--model", folder, "--format", "conllu", "notes.txt.xz", "--output", "silver.conllu.gz")
    written = gzip.decompress((here / "silver.conllu.gz").read_bytes())
    assert written.startswith(b"# newdoc id = notes.txt.xz\n# newpar\n# sent_id = 1\n# text = She can't")
    assert words_of(run("parse", "--model", folder, "--format", "json", "silver.conllu.gz")) == WORDS
    assert "100.0" in run("evaluate", "silver.conllu.gz", "silver.conllu.gz")


def test_dropped_punctuation(run, folder):
    options = ("parse", "--model", folder, "--format", "conllu", "--punctuation", "drop")
    first, second = read_conllu(run(*options, "gold.conllu").splitlines(keepends=True))
    assert first.forms == ["Dogs", "do", "n't", "bark", "loudly"]
    assert [token.lemma for token in first.words] == ["dog", "do", "not", "bark", "loudly"]
    assert first.metadata["sent_id"] == "1"
    assert tuple(first.heads) == parse([first.forms], folder)[0].dependency.heads
    assert second.forms == ["Cats", "sleep"]
    assert next(read_conllu(run(*options, stdin="She sleeps.").splitlines())).forms == ["She", "sleeps"]


def test_k_best_and_marginals(run, folder):
    output = run("parse", "--model", folder, "--format", "json", "-k", "4", "--marginals", "notes.txt")
    expected = parse(TEXTS, folder, k=4, marginals=True)
    assert structures(output) == [parsed.to_dict() for parsed in expected]


def test_decoder_device_and_dtype(run, folder):
    options = ["--decoder", "argmax", "--device", "cpu", "--dtype", "bfloat16"]
    output = run("parse", "--model", folder, "--format", "json", *options, "notes.txt")
    expected = parse(TEXTS, folder, decoder="argmax", dtype="bfloat16")
    assert structures(output) == [parsed.to_dict() for parsed in expected]


def test_trees_are_in_the_file_as_soon_as_they_are_made(run, folder, monkeypatch):
    written = []

    def sentences(files, input_format, skip_empty, line_breaks):
        for _ in range(4):
            written.append(Path("out.txt.partial").read_text(encoding="utf-8").count("cat\n"))
            yield SourceSentence(["cat"])

    monkeypatch.setattr(cli_results, "read_files", sentences)
    monkeypatch.setattr("hf_structure.parsing.parser.WINDOW", 1)
    run("parse", "--model", folder, "--batch_size", "1", "--output", "out.txt")
    assert written == [0, 1, 2, 3]
    assert not Path("out.txt.partial").exists()


# parse: constituents

FORMATS = {
    "brackets": lambda parsed, number: f"{parsed.to_brackets()}\n",
    "conllu": lambda parsed, number: parsed.to_conllu({"sent_id": str(number), **MARKS[number - 1]}),
    "svg": lambda parsed, number: f"{parsed.to_svg()}\n",
    "text": lambda parsed, number: f"{' '.join(parsed.words)}\n{parsed}\n\n",
    "tikz": lambda parsed, number: f"{parsed.to_tikz()}\n",
}
NEEDED = {"brackets": "constituency", "conllu": "dependency"}
HELD = {"brackets": "constituency trees", "conllu": "dependency trees and dependency graphs"}


@pytest.mark.parametrize("format", [*FORMATS, "json"])
@pytest.mark.parametrize("structure", [None, "dependency", "constituency", "both"])
def test_structure_in_every_format(run, fail, structformer, structure, format):
    arguments = ["parse", "--model", structformer, "--format", format, "notes.txt", "--output", "out"]
    if structure:
        arguments += ["--structure", structure]
    if structure not in (None, "both", NEEDED.get(format, structure)):
        assert f"--format {format} holds {HELD[format]} only" in fail(*arguments)[0]
        assert not Path("out").exists()
        return
    run(*arguments)
    expected = parse(TEXTS, structformer, structure=structure or NEEDED.get(format))
    written = Path("out").read_text(encoding="utf-8")
    if format == "json":
        assert structures(written) == [json.loads(json.dumps(parsed.to_dict())) for parsed in expected]
        return
    assert written == "".join(FORMATS[format](parsed, number) for number, parsed in enumerate(expected, start=1))


@pytest.mark.parametrize("punctuation", ["attach", "drop", "parse"])
@pytest.mark.parametrize("model", ["structformer", "subword_structformer"])
def test_brackets_in_and_out(run, trees, request, model, punctuation):
    folder = request.getfixturevalue(model)
    arguments = ["parse", "--model", folder, "--format", "brackets", "--punctuation", punctuation]
    output = run(*arguments, "gold.mrg")
    assert output == run(*arguments, "--input_format", "brackets", stdin=TREES)
    Path("system.mrg").write_text(output, encoding="utf-8")
    words = [[word for word, _ in tree.leaves()] for tree in read_brackets("system.mrg")]
    escaped = [["``", *KEPT[1], "-RRB-", "''"], ["1/2", *KEPT[2][1:]]]
    if punctuation == "drop":
        escaped[0] = KEPT[1]
    assert words == [KEPT[0] + ["."] * (punctuation != "drop"), ["--"], *escaped]
    scores = json.loads(run("evaluate", "gold.mrg", "system.mrg", "--json"))
    assert (scores["sentences"], scores["gold"]) == (3, 4)
    if punctuation != "parse":
        gold = [{(0, 2), (2, 6), (3, 6)}, set(), {(0, 2)}]
        found = [set(parsed.constituency.spans) for parsed in parse([KEPT[0], KEPT[1], escaped[1]], folder)]
        assert scores["predicted"] == 6
        assert scores["matched"] == sum(len(one & other) for one, other in zip(found, gold, strict=True))


def test_trees_of_traces_alone_are_left_out(run, structformer):
    Path("gold.mrg").write_text("(S (NP (-NONE- *)))\n(S (NP (NN dog)) (VP (VB bark)))\n")
    assert words_of(run("parse", "--model", structformer, "--format", "json", "gold.mrg")) == [["dog", "bark"]]
    assert run("render", "gold.mrg", "--format", "text").count("dog") == 2


def test_errors_of_the_parser_are_said_of_options(fail, structformer):
    arguments = ("--format", "json", "--structure", "constituency", "--marginals")
    line, output = fail("parse", "--model", structformer, *arguments, stdin="a cat")
    assert "--marginals are about dependencies" in line
    assert output == ""


@pytest.mark.parametrize("arguments", [["--format", "brackets"], ["--structure", "both"]], ids=["format", "structure"])
def test_constituents_of_a_model_of_dependencies(fail, folder, arguments):
    line, _ = fail("parse", "--model", folder, *arguments, "notes.txt", "--output", "out")
    assert "UDGNForMaskedLM gives dependency trees, but no constituency trees" in line
    assert not Path("out").exists()


# parse: what goes wrong


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["."], ". is a folder, not a file"),
        (["--model", "nonsense"], "no model 'nonsense'"),
        (["--marginals"], "--marginals need --format json"),
        (["-k", "2", "--format", "conllu"], "-k needs --format html, json, svg, text, tikz: conllu holds one"),
        (["-k", "2", "--format", "json", "--decoder", "argmax"], "-k needs --decoder tree"),
        (["--output", "nowhere/out.txt"], "nowhere/out.txt: there is no folder "),
        (["--output", "."], ".: Is a directory"),
        (["notes.txt", "--output", "./notes.txt"], "notes.txt is to be read and written at once"),
        (["--max_words", "2", "notes.txt"], "notes.txt:1: the sentence has 5 words, more than the 2"),
    ],
)
def test_wrong_arguments(fail, folder, arguments, message):
    line, output = fail("parse", "--model", folder, *arguments)
    assert message in line
    assert output == ""
    assert Path("notes.txt").read_text(encoding="utf-8") == TEXT


def test_what_is_wrong_with_a_file_is_said_after_the_trees_of_the_others(run, fail, folder, capsys):
    expected = run("parse", "--model", folder, "notes.txt")
    line, output = fail("parse", "--model", folder, "missing.txt", "notes.txt")
    assert line == "hf-structure: missing.txt: No such file or directory"
    assert output == expected
    Path("bad.conllu").write_text("1\tthe\n\n")
    with pytest.raises(SystemExit, match=r"missing\.txt: No such"):
        run("parse", "--model", folder, "bad.conllu", "notes.txt", "missing.txt")
    output, complaints = capsys.readouterr()
    assert output == expected
    assert complaints == "hf-structure: bad.conllu:1: 2 tab-separated columns instead of 10\n"


def test_the_place_of_words_in_a_file(run, folder):
    text = "\ufeffThe cat. No, it isn't!\r\n \n\t\u00c9t\u00e9 \U0001f600 sleeps. Dogs\ndo not. \ufeffDogs\n"
    Path("text.txt").write_text(text, encoding="utf-8", newline="")
    plain = text[1:].replace("\ufeff", " ")  # which is no text
    options = ("parse", "--model", folder, "--format", "json", "text.txt")
    for more in ([], ["--sentences", "line"], ["--input_format", "paragraphs"]):
        parses = [Parse.from_dict(json.loads(line)) for line in run(*options, *more).splitlines()]
        for parsed in parses:
            found = [plain[parsed.start + start : parsed.start + end] for start, end in parsed.word_spans]
            assert found == list(parsed.words)
        assert "".join(word for parsed in parses for word in parsed.words) == "".join(plain.split())


def test_paragraphs(run, folder, fail):
    text = "The cat\nsleeps. Dogs\ndo not.\n\n\nThe old\n  dog\n \nsleeps"
    options = ("parse", "--model", folder, "--format", "json", "--input_format", "paragraphs")
    parses = [json.loads(line) for line in run(*options, stdin=text).splitlines()]
    assert [parsed["text"] for parsed in parses] == ["The cat\nsleeps.", "Dogs\ndo not.", "The old\n  dog", "sleeps"]
    assert [parsed["start"] for parsed in parses] == [0, 16, 31, 47]
    assert ">:6: the sentence has 3 words" in fail(*options, "--max_words", "2", stdin="\n" * 5 + text[-21:])[0]


def test_k_best_in_every_format_that_holds_them(run, folder):
    arguments = ("parse", "--model", folder, "-k", "3", "--input_format", "words")
    (best,) = parse([["the", "old", "cat"]], folder, k=3)
    assert len(best.alternatives) == 3
    assert run(*arguments, stdin="the old cat") == f"the old cat\n{best}\n\n"
    pictures = run(*arguments, "--format", "svg", stdin="the old cat")
    assert pictures == "".join(f"{each.to_svg()}\n" for each in (best, *best.alternatives[1:]))
    page = run(*arguments, "--format", "html", stdin="the old cat")
    assert page.startswith("<!DOCTYPE html>")
    assert page.count("<svg") == 3


def test_usage_of_the_command_that_is_misused(capsys):
    with pytest.raises(SystemExit):
        main(["parse", "--nonsense"])
    complaints = capsys.readouterr().err
    assert complaints.startswith("usage: hf-structure parse ")
    assert complaints.endswith("unrecognized arguments: --nonsense\n")


def test_a_word_before_a_file_is_replaced(folder, here, capsys):
    for _ in range(2):
        assert capsys.readouterr().err == ""
        main(["parse", "--model", str(folder), "notes.txt", "--output", "out.txt"])
    assert capsys.readouterr().err == "hf-structure: out.txt is there already and will be replaced\n"


def test_lines_of_a_pipe_come_out_one_by_one(talk, folder):
    with talk("parse", "--model", folder) as (stdin, stdout):
        for words in (b"the cat\n", b"the old dog\n"):
            stdin.write(words)
            assert stdout.readline() == words  # hangs if it waits for the end of the input
            while stdout.readline() != b"\n":
                pass


def test_binary_input(fail, folder):
    data = bytes(range(128, 256)) * 10
    Path("binary.txt").write_bytes(data)
    assert "binary.txt:1: not UTF-8 text" in fail("parse", "--model", folder, "binary.txt")[0]
    assert "<_io" not in fail("parse", "--model", folder, stdin=data)[0]
    assert "binary file" in fail("parse", "--model", folder, stdin=b"PK\0\0")[0]


@pytest.mark.parametrize("name", ["gold.conllu", "gold.sdp"])
def test_a_byte_order_mark_hides_no_format(run, folder, name):
    """From standard input, and in files whose suffix says nothing."""
    sdp = "#SDP 2015\n#1\n1\tCats\tcat\tNNS\t-\t-\t_\tARG1\n2\tsleep\tsleep\tVBP\t+\t+\t_\t_\n\n"
    plain = {"gold.conllu": GOLD, "gold.sdp": sdp}[name]
    marked = plain.encode("utf-8-sig")
    command = ("parse", "--model", folder, "--format", "json")
    Path("marked").write_bytes(marked)
    Path(name).write_bytes(marked * 2)
    expected = words_of(run(*command, stdin=plain))
    assert words_of(run(*command, stdin=marked)) == words_of(run(*command, "marked")) == expected
    assert words_of(run(*command, name)) == expected * 2


def test_malformed_conllu_leaves_what_was_written(run, fail, folder):
    expected = run("parse", "--model", folder, "--format", "conllu", "gold.conllu")
    Path("bad.conllu").write_text(f"{GOLD}1\tthe\n\n", encoding="utf-8")
    line, output = fail("parse", "--model", folder, "--format", "conllu", "bad.conllu")
    assert f"bad.conllu:{LINES + 1}: 2 tab-separated columns instead of 10" in line
    assert output == expected
    fail("parse", "--model", folder, "--format", "conllu", "bad.conllu", "--output", "out.conllu")
    assert Path("out.conllu.partial").read_text(encoding="utf-8") == expected
    assert not Path("out.conllu").exists()


def test_too_long_a_sentence_leaves_what_was_written(run, fail, folder):
    expected = run("parse", "--model", folder, stdin="the cat\nthe dog")
    line, output = fail("parse", "--model", folder, "--max_words", "3", stdin="the cat\nthe dog\na b c d\nthe old")
    assert ">:3: the sentence has 4 words" in line
    assert output == expected


def test_long_sentences_are_left_out_and_counted(folder, capsys, here):
    lines = ["the cat", "the " * 9, "the old dog", "a b c d", "the " * 9]
    Path("long.txt").write_text("\n".join(lines))
    main(["parse", "--model", str(folder), "--format", "json", "--max_words", "3", "--skip_long", "long.txt"])
    output, complaints = capsys.readouterr()
    assert words_of(output) == [["the", "cat"], ["the", "old", "dog"]]
    assert complaints == "hf-structure: 3 sentences left out that are too long, the first one long.txt:2\n"


def test_output_that_fails_names_its_file(folder, here, small_files):
    Path("many.txt").write_text("the cat\n" * 200)
    Path("out.txt").write_text("old")
    with small_files(), pytest.raises(SystemExit, match=r"^hf-structure: out\.txt: File too large$"):
        main(["parse", "--model", str(folder), "--output", "out.txt", "many.txt"])
    assert Path("out.txt").read_text() == "old"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_standard_output_that_is_full(here, unbuffered):
    """In a process of its own, which has to write the rest when it ends."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command("render", "gold.conllu", "--format", "text"),
            stdout=full,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        )
    assert (done.returncode, done.stderr) == (1, b"hf-structure: <stdout>: No space left on device\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("unbuffered", [False, True])
def test_parses_that_find_standard_output_full(folder, here, monkeypatch, unbuffered):
    with open("/dev/full", "w") as full:
        full.reconfigure(write_through=unbuffered)
        monkeypatch.setattr("sys.stdout", full)
        with pytest.raises(SystemExit, match=r"^hf-structure: <stdout>: No space left on device$"):
            main(["parse", "--model", str(folder), "notes.txt"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["parse", "--format", "pdf"], "invalid choice: 'pdf'"),
        (["parse", "--batch_size", "0"], "--batch_size: must be a number of at least 1, not '0'"),
        (["evaluate", "gold.conllu"], "the following arguments are required: system"),
    ],
)
def test_wrong_usage(run, capsys, arguments, message):
    with pytest.raises(SystemExit) as error:
        run(*arguments)
    assert error.value.code == 2
    assert message in capsys.readouterr().err


# evaluate


@pytest.fixture
def system(run, folder) -> Path:
    """The gold file with three other heads and labels."""
    changed = (
        GOLD.replace("4\tnsubj\t4:", "2\tnsubj\t4:").replace("7\tpunct", "4\tpunct").replace("advmod:x", "advmod")
    )
    Path("system.conllu").write_text(changed, encoding="utf-8")
    return Path("system.conllu")


def test_evaluate(run, system):
    output = run("evaluate", "gold.conllu", system)
    values = dict(line.split() for line in output.splitlines())
    # 11 words; heads of words 1, 6 and 8 are wrong, the label of 7
    assert values["sentences"] == "2"
    assert values["words"] == "11"
    assert float(values["UAS"]) == pytest.approx(100 * 8 / 11, abs=0.005)
    assert float(values["LAS"]) == pytest.approx(100 * 7 / 11, abs=0.005)
    assert float(values["UUAS"]) == pytest.approx(100 * 8 / 11, abs=0.005)


def test_evaluate_pairs_or_words(run, fail, here):
    Path("two.conllu").write_text(GOLD.replace("\t0\troot\t_\t_", "\t1\troot\t_\t_"), encoding="utf-8")
    scores = [
        json.loads(run("evaluate", "gold.conllu", "two.conllu", "--json", *more)) for more in ([], ["--uuas", "words"])
    ]
    assert [each["uuas"] for each in scores] == [
        pytest.approx(10 / 11),
        1.0,
    ]  # of "Cats sleep" each hangs on the other
    assert scores[0]["uas"] == scores[1]["uas"]
    line, _ = fail("evaluate", "gold.conllu", "two.conllu", "--structure", "graph", "--uuas", "words")
    assert "--uuas is for trees in CoNLL-U only" in line


def test_evaluate_json_and_options(run, system):
    gold, predicted = (list(read_conllu(name)) for name in ("gold.conllu", system))
    columns = [[s.heads for s in predicted], [s.heads for s in gold], [s.deprels for s in predicted]]
    expected = attachment_scores(*columns, [s.deprels for s in gold], ignore_labels={"punct"})
    assert json.loads(run("evaluate", "gold.conllu", system, "--json", "--ignore", "punct")) == asdict(expected)
    assert expected.words == 7
    assert expected.las == pytest.approx(5 / 7)
    scores = json.loads(run("evaluate", "--ignore", "punct", "--ignore", "aux", "gold.conllu", system, "--json"))
    assert scores["words"] == 6
    scores = json.loads(run("evaluate", "--universal", "gold.conllu", system, "--json"))
    assert scores == asdict(score_sentences(predicted, gold, universal_labels=True))
    assert scores["las"] == pytest.approx(8 / 11)


def test_evaluate_what_parse_wrote(run, folder):
    run("parse", "--model", folder, "--format", "conllu", "gold.conllu", "--output", "parsed.conllu")
    output = run("evaluate", "gold.conllu", "parsed.conllu", "--ignore", "punct")
    assert "UUAS" in output
    assert "LAS" not in output  # there are no labels to score


RETOKENIZED = """\
1	Dogs	dog	NOUN	NNS	_	3	nsubj	_	_
2	don't	do	AUX	VBP	_	3	aux	_	_
3	bark	bark	VERB	VB	_	0	root	_	_
4	,	,	PUNCT	,	_	3	punct	_	_

1	"loudly"	loudly	ADV	RB	_	0	root	_	_
2	!	!	PUNCT	.	_	1	punct	_	_

1	Cats	cat	NOUN	NNS	Number=Sing	2	nsubj:x	_	_
2	sleep	be	VERB	VBP	_	0	root	_	_

"""


def test_evaluate_other_words(call, run, here):
    """The characters are the same; the gold has 8 + 2 tokens and 9 + 2 words."""
    Path("system.conllu").write_text(RETOKENIZED, encoding="utf-8")
    output, note = call("evaluate", "gold.conllu", "system.conllu")
    assert note == "hf-structure: words differ: printing the scores of the CoNLL 2018 shared task\n"
    assert output == run("evaluate", "gold.conllu", "system.conllu", "--conll18", "--universal")
    lines = {line.split()[0]: line.split()[1:] for line in output.splitlines()}
    assert lines.pop("precision") == ["recall", "F1", "aligned", "accuracy"]
    assert lines["Tokens"] == ["87.50", "70.00", "77.78"]  # 7 of 8 and of 10
    assert lines["Sentences"] == ["33.33", "50.00", "40.00"]
    assert lines["Words"] == ["75.00", "54.55", "63.16"]  # 6 of 8 and of 11: not don't
    assert lines["LAS"] == ["62.50", "45.45", "52.63", "83.33"]  # all but the mark
    scores = json.loads(run("evaluate", "gold.conllu", "system.conllu", "--conll18", "--json"))
    expected = conll18_scores(read_conllu("system.conllu"), read_conllu("gold.conllu"))
    assert scores == {name: asdict(score) for name, score in expected.items()}
    assert list(lines) == list(scores)


def test_evaluate_the_same_words_as_the_shared_task(run, system):
    scores = json.loads(run("evaluate", "gold.conllu", system, "--json", "--conll18"))
    same = json.loads(run("evaluate", "gold.conllu", system, "--json", "--universal"))
    assert scores["Tokens"]["f1"] == scores["Words"]["f1"] == 1
    assert (scores["UAS"]["f1"], scores["LAS"]["f1"]) == (same["uas"], same["las"])


@pytest.mark.parametrize("option", ["--ignore", "--uuas"])
def test_evaluate_refuses_options_of_the_same_words(fail, here, option):
    value = "pairs" if option == "--uuas" else "punct"
    line, _ = fail("evaluate", "gold.conllu", "gold.conllu", "--conll18", option, value)
    assert f"{option} cannot be used with --conll18" in line
    line, _ = fail("evaluate", "gold.conllu", "gold.conllu", "--conll18", "--structure", "graph")
    assert "--conll18 is for trees in CoNLL-U only" in line


FIRST = GOLD.partition("\n\n")[0] + "\n\n"


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (FIRST, [], "characters differ: the end in the prediction, 'Cats sleep' (sentence 2, line 16) in the gold"),
        (FIRST, ["--ignore", "punct"], "1 predicted sentences, but 2 gold sentences"),
        (
            GOLD.replace("Cats", "Rats").replace("# sent_id = 1\n", ""),
            [],
            "the characters differ: 'Rats sleep' (sentence 2, line 15) in the prediction, "
            "'Cats sleep' (sentence 2, line 16) in the gold",
        ),
        ("\0", [], "binary file"),
    ],
)
def test_evaluate_refuses(fail, content, options, message):
    Path("system.conllu").write_text(content, encoding="utf-8")
    assert message in fail("evaluate", "gold.conllu", "system.conllu", *options)[0]


EMPTY = {
    "empty.conllu": "",
    "blank.conllu": "\n \n",
    "empty.mrg": "",
    "traces.mrg": "(S (-NONE- *))",
    "head.sdp": "#SDP\n",
}


@pytest.mark.parametrize(
    ("command", "name"),
    [*(("evaluate", name) for name in EMPTY), ("analyze", "empty.conllu"), ("analyze", "blank.conllu")],
)
def test_gold_files_without_sentences(fail, here, command, name):
    """There are no scores of nothing."""
    for file in (name, f"system.{name}"):
        Path(file).write_text(EMPTY[name])
    assert fail(command, name, f"system.{name}") == (f"hf-structure: {name} has no sentence to score", "")


# analyze


@pytest.fixture
def systems(here) -> dict[str, str]:
    """Two parsers' versions of the gold trees: one is right, one always takes the word before as the head."""
    chains = [s.with_heads(range(len(s.words))) for s in read_conllu("gold.conllu")]
    Path("chain.conllu").write_text("".join(map(str, chains)), encoding="utf-8")
    Path("right.conllu").write_text(GOLD, encoding="utf-8")
    return {"right": "right.conllu", "chain": "chain.conllu"}


def test_analysis_tables(run, systems):
    output = run("analyze", "gold.conllu", "right.conllu", "chain=chain.conllu", "--ignore", "punct")
    blocks = [[line.split("  ") for line in block.splitlines()] for block in output.strip().split("\n\n")]
    assert [block[0][0] for block in blocks] == [
        "labelled F1 by dependency length",
        "labelled F1 by distance to root",
        "LAS by sentence length",
    ]
    gold = list(read_conllu("gold.conllu"))
    expected = {n: error_analysis(read_conllu(f), gold, ignore_labels={"punct"}) for n, f in systems.items()}
    kinds = ("dependency_length", "root_distance", "sentence_length")
    for kind, block in zip(kinds, blocks, strict=True):
        rows = [[cell.strip() for cell in row if cell.strip()] for row in block]
        scores = {name: getattr(analysis, kind) for name, analysis in expected.items()}
        for name, row in zip(("right", "chain"), rows[1:3], strict=True):
            found = ["-" if score is None else f"{100 * score:.2f}" for score in scores[name].scores]
            assert row == [name, *found]
        assert rows[3] == ["dependencies"]
        if kind != "sentence_length":
            assert rows[4:6] == [[name, *map(str, scores[name].predicted)] for name in ("right", "chain")]
        assert rows[-1] == ["gold", *map(str, scores["right"].gold)]


def test_analysis_as_json_and_figures(run, systems):
    output = run(
        "analyze", "gold.conllu", *systems.values(), "--json", "--output_dir", "out/figures", "--format", "png"
    )
    expected = error_analysis(read_conllu("chain.conllu"), read_conllu("gold.conllu"))
    assert json.loads(output)["chain"] == json.loads(json.dumps(asdict(expected)))
    for kind in ("dependency_length", "root_distance", "sentence_length"):
        assert imread(f"out/figures/{kind}.png").std() > 0.01
    run("analyze", "gold.conllu", "chain.conllu", "--universal", "--output_dir", "other")
    assert Path("other/sentence_length.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chain.conllu", "./chain.conllu"], "two systems are called 'chain': name them, NAME=FILE"),
        (["chain.conllu", "--format", "png"], "--format is that of the figures: it needs --output_dir"),
    ],
)
def test_wrong_analyses(fail, systems, arguments, message):
    Path("short.conllu").write_text(GOLD.split("\n\n")[0] + "\n\n", encoding="utf-8")
    assert message in fail("analyze", "gold.conllu", *arguments)[0]


# evaluate: brackets

TREES = """\
( (S (NP-SBJ-1 (DT The) (NN cat)) (VP (VBD chased) (NP (-NONE- *T*-1)) (NP (DT the) (JJ old) (NN dog))) (. .)) )

( (FRAG (: --)) )
( (S (`` ``) (NP (NNS Dogs)) (VP (VBP bark)) (-RRB- -RRB-) ('' '')) )
( (NP (QP (CD 1\\/2) (RB even)) (ADVP (RB more)) (NNS tests)) )
"""
KEPT = [["The", "cat", "chased", "the", "old", "dog"], ["Dogs", "bark"], ["1\\/2", "even", "more", "tests"]]


def right_branching_trees(sentences: list[list[str]]) -> str:
    return "\n".join(
        "".join(f"(X (X {word}) " for word in words[:-1]) + f"(X {words[-1]})" + ")" * (len(words) - 1)
        for words in sentences
    )


@pytest.fixture
def trees(here) -> Path:
    """Gold trees, and right-branching ones of all words (`all.mrg`) and without the punctuation (`kept.ptb`)."""
    Path("gold.mrg").write_text(TREES, encoding="utf-8")
    words = [[*KEPT[0], "."], ["--"], ["``", *KEPT[1], "-RRB-", "''"], KEPT[2]]
    Path("all.mrg").write_text(right_branching_trees(words), encoding="utf-8")
    Path("kept.ptb").write_text(right_branching_trees(KEPT), encoding="utf-8")
    return here


def test_evaluate_brackets(run, trees):
    """Right branching finds two of three gold constituents of one sentence, none of none, and none of one."""
    scores = json.loads(run("evaluate", "gold.mrg", "kept.ptb", "--json"))
    labels = scores.pop("labels")
    assert scores == {
        "uf1": pytest.approx((4 / 7 + 1 + 0) / 3),
        "precision": pytest.approx(2 / 6),
        "recall": pytest.approx(2 / 4),
        "f1": pytest.approx(4 / 10),
        "depth": pytest.approx((5 + 1 + 3) / 3),
        "gold_depth": pytest.approx((3 + 1 + 2) / 3),
        **{"sentences": 3, "matched": 2, "predicted": 6, "gold": 4},
    }
    assert {label: (row["matched"], row["gold"]) for label, row in labels.items()} == {
        "NP": (1, 2),
        "QP": (0, 1),
        "VP": (1, 1),
    }
    assert list(labels) == ["NP", "QP", "VP"]


@pytest.mark.parametrize("tags", ["X", "_", "NN"])
def test_the_gold_tells_what_is_punctuation(run, trees, tags):
    """Whatever tags the system has; with all words, without sentences of punctuation alone, partly without any."""
    expected = run("evaluate", "gold.mrg", "kept.ptb")
    whole = Path("all.mrg").read_text(encoding="utf-8").replace("(X ", f"({tags} ")
    Path("tagged.mrg").write_text(whole, encoding="utf-8")
    Path("fewer.mrg").write_text(whole.replace(f"({tags} --)\n", ""), encoding="utf-8")
    first, gap, rest = (whole.splitlines()[0], f"({tags} --)", Path("kept.ptb").read_text().split("\n", 1)[1])
    Path("mixed.mrg").write_text("\n".join([first, gap, rest]), encoding="utf-8")
    for name in ("tagged.mrg", "fewer.mrg", "mixed.mrg"):
        assert run("evaluate", "gold.mrg", name) == expected != ""


def test_evaluate_brackets_keeps_punctuation(run, trees):
    scores = json.loads(run("evaluate", "gold.mrg", "all.mrg", "--json", "--punctuation", "keep"))
    # the full stop ends no constituent but the sentence; "--" is a sentence of one word
    assert (scores["sentences"], scores["matched"], scores["predicted"], scores["gold"]) == (4, 0, 5 + 3 + 2, 4)
    assert scores["uf1"] == pytest.approx((0 + 1 + 0 + 0) / 4)


def test_evaluate_brackets_drops_punctuation_by_form(run, trees):
    """Words whose tags are of another set are not lost: their form decides, with the option and without it."""
    Path("untagged.mrg").write_text(TREES.replace("(NN ", "($, ").replace("(: ", "($, "), encoding="utf-8")
    by_form = run("evaluate", "untagged.mrg", "kept.ptb", "--punctuation", "drop_by_form")
    assert by_form == run("evaluate", "gold.mrg", "kept.ptb")
    assert by_form == run("evaluate", "untagged.mrg", "kept.ptb")


TAGGED = [
    "(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (PRP it)) (ADVP (RB now))) (. .))",
    "(S (NP (PRP He)) (VP (VBZ sleeps)) (. .))",
]
WITHOUT_TAGS = {
    "untagged": ["( (S (NP the dog) (VP sees (NP it) (ADVP now)) .) )", "( (S (NP He) (VP sleeps) .) )"],
    "unlabelled": ["((the dog) (sees it now) .)", "(He sleeps .)"],
    "spaced": ["( ( the dog ) ( sees it now ) . )", "( He sleeps . )"],
    "dropped": ["((the dog) ((sees it now)))", "(He sleeps)"],
}


@pytest.fixture
def untagged(here) -> None:
    """Files of two trees with the same constituents, in the last one without punctuation."""
    for name, trees in ({"tagged": TAGGED} | WITHOUT_TAGS).items():
        Path(f"{name}.mrg").write_text("\n".join(trees), encoding="utf-8")


@pytest.mark.parametrize("gold", ["tagged", *list(WITHOUT_TAGS)[:3]])
@pytest.mark.parametrize("system", WITHOUT_TAGS)
@pytest.mark.parametrize("options", [[], ["--punctuation", "drop_by_form"], ["--punctuation", "keep"]], ids=" ".join)
def test_evaluate_brackets_without_tags(run, fail, untagged, gold, system, options):
    """A parser that is right about everything, whichever way it writes its trees."""
    arguments = ("evaluate", f"{gold}.mrg", f"{system}.mrg", "--json", *options)
    if system == "dropped" and "keep" in options:
        assert "sentence 1: word 6 is missing in the prediction, '.' in the gold" in fail(*arguments)[0]
        return
    scores = json.loads(run(*arguments))
    assert (scores["uf1"], scores["matched"], scores["predicted"], scores["gold"]) == (1, 2, 2, 2)


def test_a_system_that_branches_to_the_right(run, fail, untagged):
    """Its trees could have labels, but for the words of the gold ones."""
    Path("right.mrg").write_text("(the (dog (sees (it now))))\n(He sleeps)")
    scores = json.loads(run("evaluate", "tagged.mrg", "right.mrg", "--baselines", "--json"))
    assert {name: scores[name] for name in scores["baselines"]["right"]} == scores["baselines"]["right"]
    Path("right.mrg").write_text("(the (cat (sees (it now))))\n(He sleeps)")
    assert "sentence 1: word 1 is 'now' in the prediction" in fail("evaluate", "tagged.mrg", "right.mrg")[0]


@pytest.mark.parametrize(
    ("option", "counts"),
    [
        ("--count_whole_sentences", (3, 2 + 3, 6 + 3, 4 + 3)),
        ("--count_single_words", (3, 2, 6, 4 + 3)),
        ("--min_length=3", (2, 2, 6, 4)),
        ("--max_length=4", (2, 0, 2, 1)),
        ("--empty_gold=skip", (2, 2, 6, 4)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_conventions_of_brackets(run, trees, option, counts):
    scores = json.loads(run("evaluate", "gold.mrg", "kept.ptb", "--json", option))
    assert tuple(scores[name] for name in ("sentences", "matched", "predicted", "gold")) == counts


def test_duplicates_count(run, trees):
    Path("chain.mrg").write_text("(S (NP (NP (DT the) (NN cat))) (VBZ sleeps))")
    for options, counts in (([], [1, 1]), (["--count_duplicates"], [2, 2])):
        scores = json.loads(run("evaluate", "chain.mrg", "chain.mrg", "--json", *options))
        assert [scores["matched"], scores["gold"]] == counts


def test_baselines(run, trees):
    scores = json.loads(run("evaluate", "gold.mrg", "kept.ptb", "--json", "--baselines"))
    baselines = scores.pop("baselines")
    assert list(baselines) == ["left", "right", "random"]
    scores.pop("labels")
    assert baselines["right"] == scores
    assert (baselines["left"]["matched"], baselines["left"]["predicted"]) == (2, 6)  # "The cat", "1/2 even"
    assert baselines["random"]["predicted"] == 6
    output = run("evaluate", "gold.mrg", "kept.ptb", "--baselines")
    assert output == run("evaluate", "gold.mrg", "kept.ptb", "--baselines")  # random, but the same each time
    rows = {line.split()[0]: line.split()[1:] for line in output.splitlines() if line}
    assert rows["system"] == rows["right"] == ["52.38", "33.33", "50.00", "40.00", "3.00"]
    assert rows["gold"] == ["2.00"]
    assert rows["NP"] == ["50.00", "1", "2"]
    assert "3 sentences, 4 gold constituents, 6 predicted, 2 of them right" in output
    assert "left" not in run("evaluate", "gold.mrg", "kept.ptb")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gold.mrg", "gold.conllu"], "gold.mrg and gold.conllu differ in format: brackets and conllu"),
        (["notes.txt", "gold.mrg"], "notes.txt and gold.mrg differ in format: brackets and text"),
        (["gold.mrg", "kept.ptb", "--ignore", "NP"], "--ignore is for trees in CoNLL-U only"),
        (["gold.mrg", "kept.ptb", "--universal"], "--universal is for trees in CoNLL-U only"),
        (["gold.conllu", "gold.conllu", "--baselines"], "is for brackets (.mrg, .ptb, .prd, .brackets) only"),
        (["gold.conllu", "gold.conllu", "--punctuation", "keep"], "--punctuation is for brackets"),
        (["gold.mrg", "kept.ptb", "--min_length", "9"], "there is no sentence to score"),
        (["gold.mrg", "kept.ptb", "--punctuation", "keep"], "word 7 is missing in the prediction, '.' in the gold"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_evaluate_refuses_brackets(fail, trees, arguments, message):
    assert message in fail("evaluate", *arguments)[0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cat", "dog", "sentence 1: word 2 is 'dog' in the prediction, 'cat' in the gold"),
        ("bark", "sleep", "sentence 3: word 2 is 'sleep' in the prediction, 'bark' in the gold"),
        ("(X dog)", "(X dog) (X dogs) (X .)", "sentence 1: word 7 is 'dogs' in the prediction, '.' in the gold"),
        ("(X (X Dogs) (X bark))\n", "", "sentence 3: word 1 is '1/2' in the prediction, '``' in the gold"),
        ("(X tests)))", "(X tests)", "other.mrg:3: a bracket that is never closed"),
    ],
    ids=["word", "later word", "more words", "fewer sentences", "unbalanced"],
)
def test_trees_of_other_words(fail, trees, old, new, message):
    content = Path("kept.ptb").read_text(encoding="utf-8")
    assert content.count(old) == 1
    Path("other.mrg").write_text(content.replace(old, new), encoding="utf-8")
    assert message in fail("evaluate", "gold.mrg", "other.mrg")[0]


def test_other_numbers_of_trees(fail, trees):
    whole = Path("all.mrg").read_text(encoding="utf-8")
    Path("more.mrg").write_text(whole + "(X one)", encoding="utf-8")
    assert "5 predicted sentences, but 4 gold sentences" in fail("evaluate", "gold.mrg", "more.mrg")[0]


def test_gold_trees_without_words(fail, here):
    Path("odd.mrg").write_text("(S (. ?) (, b) (: -))", encoding="utf-8")
    assert "no word is left without punctuation; --punctuation keep" in fail("evaluate", "odd.mrg", "odd.mrg")[0]


@pytest.mark.parametrize(
    ("command", "name", "beginning"),
    [
        ("parse", "out.conllu", "# newdoc\n# newpar\n# sent_id = 1\n"),
        ("parse", "out.conllu.gz", "# newdoc\n# newpar\n# sent_id = 1\n"),
        ("parse", "out.jsonl", "{"),
        ("parse", "out.html", "<!DOCTYPE html>"),
        ("parse", "out.txt", "Dogs"),
        ("score", "out.json", "{"),
        ("score", "out.tsv", "sentence\t"),
    ],
)
def test_the_suffix_of_the_output_says_its_form(run, here, command, name, beginning):
    model = {"parse": "udgn-en", "score": "gilt-en"}[command]
    run(command, "--model", model, "--input_format", "words", "--output", name, stdin="Dogs bark\n")
    with open_input(name) as file:
        assert file.read().decode().startswith(beginning)


@pytest.mark.parametrize("command", ["parse", "score"])
def test_a_suffix_that_says_nothing(fail, here, command):
    assert "out.pdf should end in ." in fail(command, "notes.txt", "--output", "out.pdf")[0]
    assert not Path("out.pdf").exists()


# render


def test_render_html(run, here):
    page = run("render", "gold.conllu")
    assert page.startswith("<!DOCTYPE html>")
    assert page.count("<svg") == 2
    assert "nsubj" in page
    assert run("render", "gold.conllu", "--limit", "1").count("<svg") == 1
    assert run("render", "gold.conllu", "--output", "trees.html") == ""
    assert Path("trees.html").read_text(encoding="utf-8") == page


def test_render_other_formats(run, here):
    assert run("render", "gold.conllu", "--format", "svg").count("<svg") == 2
    assert run("render", "gold.conllu", "--format", "tikz", "--limit", "1").count(r"\begin{dependency}") == 1
    text = run("render", "gold.conllu", "--format", "text")
    assert text.startswith("Dogs do n't bark")
    assert "nsubj" in text
    Path("bare.conllu").write_text("".join(f"{n}\tx\t_\t_\t_\t_\t{n - 1}\t_\t_\t_\n" for n in (1, 2)) + "\n")
    assert "_" not in run("render", "bare.conllu", "--format", "text")


@pytest.mark.parametrize(
    ("name", "beginning"),
    [("tree.svg", b"<svg"), ("tree.PNG", b"\x89PNG"), ("tree.tex", b"\\begin{dependency}"), ("tree.txt", b"Dogs do")],
)
def test_the_suffix_of_the_output_says_what_is_rendered(run, here, name, beginning):
    assert run("render", "gold.conllu", "--limit", "1", "--output", name) == ""
    assert Path(name).read_bytes().startswith(beginning)
    Path(name).unlink()
    run("render", "gold.conllu", "--format", "text", "--limit", "1", "--output", name)
    assert Path(name).read_bytes().startswith(b"Dogs do")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("trees.pdf", "trees.pdf should end in .html, .svg, .png, .tex, .txt; for other suffixes, give --format"),
        ("trees.png", "trees.png can hold one picture: give --limit 1, or an output of .html"),
        ("trees.png.gz", "trees.png.gz should end in .png: PNG is already compressed"),
    ],
)
def test_render_into_a_file_that_cannot_hold_it(fail, here, name, message):
    assert message in fail("render", "gold.conllu", "--output", name)[0]
    assert not Path(name).exists()


def test_render_rows_and_documents(run, here):
    wide, narrow = (run("render", "gold.conllu", "--format", "svg", *more) for more in ([], ["--width", "120"]))
    assert wide != narrow
    assert wide.count("<svg") == narrow.count("<svg")
    assert run("render", "gold.conllu", "--width", "120").count(narrow.split("</svg>")[0].strip()) == 1
    documents = run("render", "gold.conllu", "--format", "tikz", "--standalone")
    assert documents.count(r"\documentclass") == documents.count(r"\begin{dependency}") == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--width", "100", "--format", "tikz"], "--width is for trees and graphs as html, svg or png only"),
        (["--standalone"], "--standalone is for --format tikz only"),
    ],
)
def test_render_options_that_do_not_fit(fail, here, options, message):
    assert message in fail("render", "gold.conllu", *options)[0]


@pytest.mark.parametrize("name", ["empty.conllu", "traces.mrg", "-"])
@pytest.mark.parametrize("options", [[], ["--format", "text"], ["--output", "old.html"]], ids=["html", "text", "file"])
def test_render_nothing(fail, here, name, options):
    Path("empty.conllu").touch()
    Path("traces.mrg").write_text("(S (NP (-NONE- *)))")
    Path("old.html").write_text("old")
    line, output = fail("render", name, "--input_format", "brackets" if name == "traces.mrg" else "conllu", *options)
    assert line == f"hf-structure: {'<stdin>' if name == '-' else name} has no sentence to draw"
    assert output == ""
    assert Path("old.html").read_text() == "old"
    assert not list(Path().glob("*.partial"))


def test_render_two_files(run, systems):
    page = run("render", "gold.conllu", "chain.conllu")
    assert page.count("<svg") == 2
    assert "<title>gold.conllu and chain.conllu</title>" in page
    assert "Above the words: the gold tree." in page
    assert "put there by rule" not in page
    text = run("render", "gold.conllu", "chain.conllu", "--format", "text", "--limit", "1")
    assert "✗ 1 Dogs, not 4 bark" in text
    assert "✗" not in run("render", "gold.conllu", "right.conllu", "--format", "text")
    tikz = run("render", "gold.conllu", "chain.conllu", "--format", "tikz", "--standalone")
    assert tikz.count(r"\documentclass") == 2
    assert run("render", "gold.conllu", "chain.conllu", "--format", "svg", "--width", "150").count("<svg") == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda text: text.replace("\tn't", "\tnot"),
            "other.conllu:6: the word is 'not', but \"n't\" in gold.conllu:6",
        ),
        (
            lambda text: text.replace("1\tCats", "1\tDogs"),
            "other.conllu:16: the word is 'Dogs', but 'Cats' in gold.conllu",
        ),
        (
            lambda text: text.replace("9\t!\t!\tPUNCT\t.\t_\t4\tpunct\t_\t_\n", ""),
            "other.conllu:1: without the word '!'",
        ),
        (lambda text: text.split("# sent_id = 2")[0], "gold.conllu:15: other.conllu ends before this sentence"),
        (lambda text: text + text.split("\n\n")[1] + "\n\n", "other.conllu:19: gold.conllu ends before this"),
        (
            lambda text: text.rstrip() + "\n3\tnow\t_\t_\t_\t_\t2\t_\t_\t_\n\n",
            "other.conllu:18: 'now' is no word of gold",
        ),
        (lambda text: text.replace("\t0\troot\t_\t_", "\t_\t_\t_\t_"), "other.conllu:15: words without a head"),
        (lambda text: "a b\n", "other.conllu is not CoNLL-U"),
    ],
)
def test_render_files_that_do_not_fit(fail, here, change, message):
    Path("other.conllu").write_text(change(GOLD), encoding="utf-8")
    name = "other.conllu"
    if "is not CoNLL-U" in message:
        Path(name).rename("other.txt")
        name, message = "other.txt", message.replace(name, "other.txt")
    assert message in fail("render", "gold.conllu", name, "--format", "text")[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gold.conllu"] * 3, "--kind trees is about one FILE, or two"),
        (["gold.conllu", "gold.conllu", "--kind", "graph"], "--kind graph is about one FILE"),
        (["-", "-"], "standard input is one file, not two"),
        (["gold.conllu", "gold.conllu", "--input_format", "brackets"], "from CoNLL-U only"),
    ],
)
def test_render_arguments_of_two_files(fail, here, arguments, message):
    assert message in fail("render", *arguments)[0]


def test_render_brackets(run, trees):
    page = run("render", "gold.mrg")
    assert page.count("<svg") == page.count("</svg>") == 4
    assert run("render", "gold.mrg", "--limit", "2").count("<svg") == 2
    assert run("render", "gold.mrg", "--format", "svg").count("<svg") == 4
    assert run("render", "gold.mrg", "--format", "tikz").count(r"\Tree [.{S}") == 2
    text = run("render", "gold.mrg", "--format", "text")
    assert text.startswith("The cat chased the old dog .\nS ")
    assert "`` Dogs bark ) ''" in text  # words as they are, without the escapes of brackets
    assert "1/2" in text
    assert "NP-SBJ" not in text
    assert "*T*" not in text


def test_render_standard_input(run, trees):
    assert run("render", "-", "--format", "text", stdin=GOLD) == run("render", "gold.conllu", "--format", "text")
    expected = run("render", "gold.mrg", "--format", "svg")
    assert run("render", "-", "--input_format", "brackets", "--format", "svg", stdin=TREES) == expected
    Path("trees.data").write_text(TREES, encoding="utf-8")
    assert run("render", "trees.data", "--input_format", "brackets", "--format", "svg") == expected
    assert "<h1>Trees</h1>" in run("render", "-", stdin="\n" + GOLD)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kind", "trees"], "a FILE is needed, except for --kind relations"),
        (["."], ". is a folder, not a file"),
        (["notes.txt"], "notes.txt is read as text, which has no trees to draw"),
        (["gold.conllu", "--output", "gold.conllu"], "gold.conllu is to be read and written at once"),
        (["headless.conllu", "--output", "old.html"], "headless.conllu:15: words without a head"),
    ],
)
def test_render_refuses(fail, here, arguments, message):
    Path("headless.conllu").write_text(GOLD.replace("2\tnsubj", "_\t_"), encoding="utf-8")
    Path("old.html").write_text("old")
    assert message in fail("render", *arguments)[0]
    assert Path("gold.conllu").read_text(encoding="utf-8") == GOLD
    assert Path("old.html").read_text() == "old"


# render: figures


def pictures() -> dict[str, tuple[int, ...]]:
    """Height, width and channels of the PNG files that there are; none of them is blank."""
    images = {path.name: imread(path) for path in Path().glob("*.png")}
    assert all(image[..., :3].std() > 0 for image in images.values())
    return {name: image.shape for name, image in images.items()}


@pytest.mark.parametrize("kind", ["distances", pytest.param("parents", marks=pytest.mark.slow)])
def test_figures(run, structformer, kind):
    arguments = ["render", "--kind", kind, "--model", structformer, "--output", "picture.png"]
    assert run(*arguments, "notes.txt", "--limit", "1") == ""
    assert list(pictures()) == ["picture.png"]
    first = Path("picture.png").read_bytes()
    Path("picture.png").unlink()
    run(*arguments, "notes.txt")
    sizes = pictures()
    assert set(sizes) == {"picture.png", "picture-2.png"}
    assert sizes["picture-2.png"][1] > sizes["picture.png"][1]  # a longer sentence
    Path("picture.png").unlink()
    run(*arguments, "-", "--input_format", "words", stdin="She ca n't sleep\n")  # no model sees the full stop
    assert Path("picture.png").read_bytes() == first


def test_figures_of_brackets_and_subwords(run, trees, subword_structformer):
    options = ("--kind", "distances", "--model", subword_structformer, "--limit", "2", "--output", "picture.png")
    run("render", "gold.mrg", *options)
    assert set(pictures()) == {"picture.png", "picture-2.png"}


def test_parents_of_a_model_of_dependencies(run, folder):
    run("render", "--kind", "parents", "--model", folder, "notes.txt", "--limit", "1", "--output", "picture.png")
    assert list(pictures()) == ["picture.png"]


@pytest.mark.parametrize(
    ("suffix", "content"), [("PNG", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<svg")], ids=["png", "pdf", "svg"]
)
def test_relation_weights(run, structformer, suffix, content):
    assert run("render", "--kind", "relations", "--model", structformer, "--output", f"weights.{suffix}") == ""
    assert content in Path(f"weights.{suffix}").read_bytes()
    assert [path.stem for path in Path().glob("weights*")] == ["weights"]


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("distances", [], "needs an --output that ends in .pdf, .png or .svg, and takes no --format"),
        ("parents", ["--output", "out.xyz"], "needs an --output that ends in .pdf, .png or .svg"),
        ("distances", ["--output", "out.png", "--format", "svg"], "takes no --format"),
        ("distances", ["--output", "nowhere/out.png"], "nowhere/out.png: there is no folder "),
        ("relations", ["--output", "out.png"], "it takes no FILE and no --limit"),
    ],
)
def test_figures_are_refused(fail, structformer, kind, arguments, message):
    assert message in fail("render", "--model", structformer, "--kind", kind, "notes.txt", *arguments)[0]
    assert not list(Path().glob("out*"))


def test_figures_that_a_model_does_not_give(fail, folder):
    options = ("--model", folder, "--output", "out.png")
    assert (
        "UDGNForMaskedLM has no syntactic distances" in fail("render", "--kind", "distances", "notes.txt", *options)[0]
    )
    assert "UDGNForMaskedLM has no relation weights" in fail("render", "--kind", "relations", *options)[0]


def test_figures_of_nothing(fail, structformer):
    options = ("--kind", "parents", "--model", structformer, "--output", "out.png")
    assert "<stdin> has no sentence to draw" in fail("render", "-", *options)[0]


# The command as a whole


def test_version(run, capsys):
    with pytest.raises(SystemExit):
        run("--version")
    assert capsys.readouterr().out == f"hf-structure {__version__}\n"


def command(*arguments) -> list[str]:
    return [sys.executable, "-m", "hf_structure.cli", *map(str, arguments)]


@pytest.mark.slow
def test_shell_pipeline(folder, here):
    """In a process of its own: nothing on standard error, and UTF-8 whatever the system's encoding."""
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    arguments = command("parse", "--model", folder)
    done = subprocess.run(arguments, input=TEXT.encode(), capture_output=True, env=environment, check=True)
    assert done.stderr == b""
    assert done.stdout.decode().startswith("She ca n't sleep .\n")
    assert "╰" in done.stdout.decode()


def test_error_in_a_process_of_its_own(folder, here):
    done = subprocess.run(command("parse", "--model", folder, "missing.txt"), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "hf-structure: missing.txt: No such file or directory\n"


def test_reader_that_stops_reading(here):
    Path("many.conllu").write_text(GOLD * 600, encoding="utf-8")
    with subprocess.Popen(
        command("render", "many.conllu", "--format", "text"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_reader_that_stops_reading_parses(talk, folder):
    """Nothing is said, and what was not read is thrown away."""
    with talk("parse", "--model", folder) as (stdin, stdout):
        stdin.write(b"the old cat chased the dog\n")
        while stdout.readline() != b"\n":
            pass
        stdout.close()
        stdin.write(b"the old cat chased the dog\n" * 300)


def test_a_tree_of_brackets_is_named_by_its_line(fail, here, structformer):
    here.joinpath("trees.ptb").write_text("(S (N cats))\n\n\n(S (D the)\n (N cat) (V slept))\n")
    message, _ = fail("parse", "trees.ptb", "--model", structformer, "--max_words", "2")
    assert "trees.ptb:4: the sentence has 3 words" in message


def test_a_figure_is_there_whole_or_not_at_all(fail, run, here, structformer, monkeypatch):
    def fail_in_the_middle(path, content):
        with path.open("wb") as file:
            file.write(content[:4])
        raise OSError(28, "No space left on device", str(path))

    arguments = ("render", "--kind", "relations", "--model", structformer, "--output", "weights.png")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", fail_in_the_middle)
        message, _ = fail(*arguments)
    assert message == "hf-structure: weights.png: No space left on device"
    assert not list(here.glob("weights*"))
    run(*arguments)
    assert here.joinpath("weights.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in here.glob("weights*")] == ["weights.png"]
