"""`hf-structure agree` and `hf-structure consensus`."""

import shutil
from dataclasses import replace

import pytest
from tiny_models import new_rng_transformer
from transformers import AutoModelForMaskedLM

from hf_structure import build_word_tokenizer, parse
from hf_structure.text.conllu import ConlluSentence, read_conllu, write_conllu

WORDS = ["the", "cat", "slept"]
TREES = {"a": [2, 3, 0], "b": [2, 3, 0], "c": [3, 0, 2]}


@pytest.fixture
def files(tmp_path):
    for name, heads in TREES.items():
        sentence = ConlluSentence.from_words(
            WORDS, heads, [name] * 3, misc=["SpaceAfter=No|HeadProb=0.5", "_", "Votes=9"]
        )
        sentence = replace(sentence, comments=["# sent_id = 1", "# log_probability = -1.5"])
        write_conllu([sentence] * 2, tmp_path / f"{name}.conllu")
    return [str(tmp_path / f"{name}.conllu") for name in TREES]


def test_agreement_of_dependency_trees(run, files):
    uas, uuas = (table.splitlines() for table in run("agree", *files).split("\n\n"))
    assert uas[0].split() == ["UAS", "1", "2", "3", "mean"]
    assert uas[1].split() == ["1", files[0], "-", "100.00", "0.00", "50.00"]
    assert uas[3].split() == ["3", files[2], "0.00", "0.00", "-", "0.00"]
    assert uuas[3].split() == ["3", files[2], "33.33", "33.33", "-", "33.33"]


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]


def test_agreement_on_relations_and_sentences(run, files, tmp_path):
    gold = ConlluSentence.from_words(WORDS, TREES["a"], ["det", "nsubj", "root"])
    write_conllu([gold, gold.with_heads([3, 3, 0], ["det", "nsubj", "root"])], tmp_path / "gold.conllu")
    tables = run("agree", *files, "--gold", tmp_path / "gold.conllu", "--sentences").split("\n\n")
    _, _, relations, sentences = map(rows, tables)
    thirds = ["2", "33.33"]  # one pair of three agrees, on all words
    assert relations == [["relation", "words", "UAS"], ["det", *thirds], ["nsubj", *thirds], ["root", *thirds]]
    means = ["3", "33.33", "55.56"]  # of 1, 0 and 0, and of 1, 1/3 and 1/3
    assert sentences == [["sentence", "words", "UAS", "UUAS"], ["1", *means], ["2", *means]]


def test_agreement_of_constituents_in_each_sentence(run, tmp_path):
    trees = {"a": "(S (NP (D the) (N cat)) (V slept))", "b": "(S (D the) (VP (N cat) (V slept)))"}
    for name, tree in trees.items():
        (tmp_path / f"{name}.mrg").write_text(f"{trees['a']}\n{tree}\n")
    files = [str(tmp_path / f"{name}.mrg") for name in "ab"]
    tables = run("agree", *files, "--sentences").split("\n\n")
    assert rows(tables[0])[1] == ["1", files[0], "-", "50.00", "50.00"]
    assert rows(tables[1]) == [["sentence", "words", "UF1"], ["1", "3", "100.00"], ["2", "3", "0.00"]]


@pytest.mark.parametrize(("structure", "options"), [("conllu", []), ("brackets", ["--brackets"])])
def test_models_parse_what_they_are_compared_on(run, structformer, tmp_path, structure, options):
    """The same as from the files that they write."""
    text = tmp_path / "text.txt"
    text.write_text("the dog saw the cat\na cat slept\n")
    copy = shutil.copytree(structformer, tmp_path / "copy")
    model = AutoModelForMaskedLM.from_pretrained(copy)
    for parameter in model.parameters():
        parameter.data = -parameter.data
    model.save_pretrained(copy)
    models, files = [structformer, copy], []
    for number, name in enumerate(models):
        files.append(tmp_path / f"{number}.{'mrg' if structure == 'brackets' else 'conllu'}")
        run("parse", "--model", name, "--format", structure, "--output", files[-1], text)
    expected = run("agree", *files)
    for name, file in zip(models, files, strict=True):
        expected = expected.replace(str(file), str(name))
    assert run("agree", *models, "--text", text, *options).split() == expected.split()


def test_dependencies_are_read_off_constituents(run, fail, tmp_path):
    """The trees of a treebank in CoNLL-U, and its constituents by head rules."""
    trees = "(S (NP (DT the) (NN cat)) (VP (VBD slept)))\n(S (NP (NN cat)) (VP (VBD saw) (NP (NN dog))))\n"
    (tmp_path / "a.mrg").write_text(trees)
    sentences = [(WORDS, [2, 3, 0]), (["cat", "saw", "dog"], [2, 0, 1])]
    gold = [ConlluSentence.from_words(words, heads, ["_"] * 3) for words, heads in sentences]
    write_conllu(gold, tmp_path / "a.conllu")
    uas, uuas = map(rows, run("agree", tmp_path / "a.conllu", tmp_path / "a.mrg", "--head_rules").split("\n\n"))
    assert uas[1] == ["1", str(tmp_path / "a.conllu"), "-", "83.33", "83.33"]
    assert uas[2][1] == str(tmp_path / "a.mrg")
    assert uuas[1][-1] == "83.33"
    (tmp_path / "bare.mrg").write_text("(S (NP the cat) slept)\n(S (NP cat) (VP saw dog))\n")
    line = fail("agree", tmp_path / "a.conllu", tmp_path / "bare.mrg", "--head_rules")[0]
    assert "bare.mrg: sentence 1: head rules need labels of constituents and tags" in line


@pytest.fixture(scope="module")
def both_trees(tmp_path_factory):
    """A parser of dependencies and constituents, with tags."""
    tokenizer = build_word_tokenizer(["the", "dog", "saw", "cat", "slept"])
    settings = {"constituents": ["NP", "S", "VP"], "columns": {"xpos": ["DT", "NN", "VBD"]}}
    return new_rng_transformer(tmp_path_factory.mktemp("both_trees"), tokenizer, **settings)


def test_the_two_trees_of_a_model(run, fail, both_trees, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the dog saw the cat\nthe cat slept\n")
    printed = run("agree", both_trees, "--text", text, "--head_rules")
    uas, _ = map(rows, printed.split("\n\n"))
    assert uas[1][1] == str(both_trees)
    assert uas[2][1:3] == [str(both_trees), "(constituents)"]
    parses = parse(text.read_text().splitlines(), both_trees, structure="both")
    agreed = [
        own == other
        for parsed in parses
        for own, other in zip(parsed.dependency.heads, parsed.constituency.to_heads(), strict=True)
    ]
    assert uas[1][-1] == f"{100 * sum(agreed) / 8:.2f}"
    assert "give one of them" in fail("agree", both_trees, "--text", text, "--head_rules", "--brackets")[0]


def test_options_that_need_others(fail, files, tmp_path):
    assert "--brackets is for models, which --text gives" in fail("agree", *files, "--brackets")[0]
    for name in "ab":
        (tmp_path / f"{name}.mrg").write_text("(S (D the) (N cat))\n")
    brackets = [tmp_path / f"{name}.mrg" for name in "ab"]
    assert "--gold is for dependency trees" in fail("agree", *brackets, "--gold", files[0])[0]


def test_what_is_missing_is_said_before_anything_is_parsed(fail, structformer, tmp_path, monkeypatch):
    monkeypatch.setattr("hf_structure.parsing.parser.Parser", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("the dog saw the cat\n")
    call = ["agree", structformer, "nowhere", "--text"]
    assert "no model 'nowhere'" in fail(*call, "text.txt")[0]
    assert "missing.conllu" in fail(*call, "text.txt", "--gold", "missing.conllu")[0]
    assert "--gold is for dependency trees" in fail(*call, "text.txt", "--brackets", "--gold", "text.txt")[0]
    assert "--text is read again for each model" in fail(*call, "-", stdin="the dog\n")[0]


def test_consensus(run, files, tmp_path):
    run("consensus", *files, "--output", tmp_path / "out.conllu")
    first, second = read_conllu(tmp_path / "out.conllu")
    assert first.heads == [2, 3, 0]
    assert first.deprels == ["a"] * 3
    assert [token.misc for token in first.words] == ["SpaceAfter=No|Votes=2", "Votes=2", "Votes=2"]
    assert first.comments == ["# sent_id = 1"]
    assert second == first
    assert run("consensus", *files) == (tmp_path / "out.conllu").read_text()


def test_files_that_do_not_fit(fail, files, tmp_path):
    (tmp_path / "short.conllu").write_text((tmp_path / "a.conllu").read_text().split("\n\n")[0] + "\n\n")
    (tmp_path / "other.conllu").write_text((tmp_path / "a.conllu").read_text().replace("cat", "dog"))
    (tmp_path / "open.conllu").write_text((tmp_path / "a.conllu").read_text().replace("\t2\ta\t", "\t_\ta\t"))
    (tmp_path / "x.mrg").write_text("(S (D the))\n")
    wrong = {
        "short": ("short.conllu has 1 sentences only", "1 predicted sentences, but 2"),
        "other": ("sentence 1 has other words in", "word 2 is 'cat' in the prediction, 'dog'"),
        "open": ("sentence 1 has a word without a head", "sentence 1 of the gold sentences has words without"),
    }
    for name, messages in wrong.items():
        for command, message in zip(("consensus", "agree"), messages, strict=True):
            arguments = [files[0], str(tmp_path / f"{name}.conllu")]
            line, _ = fail(command, *(arguments if name != "short" or command == "consensus" else arguments[::-1]))
            assert message in line, (command, name)
    assert "differ in format" in fail("agree", files[0], tmp_path / "x.mrg")[0]
    for command in ("agree", "consensus"):
        assert "at least two different files" in fail(command, files[0], files[0])[0]
