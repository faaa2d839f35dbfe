"""`examples/train_segmenter.py` on a made language with contractions."""

import random
import sys

import pytest
from running import load_script
from tiny_models import new_rng_transformer, unigram_tokenizer

from hf_structure import Parser
from hf_structure.text.conllu import ConlluSentence, ConlluToken

NOUNS = ["hund", "katze", "vogel", "maus"]
SMALL = ("--hidden_size", "32", "--embedding_size", "16", "--dilations", "1", "2", "1", "--row_length", "96")
STEPS = ("--max_steps", "150", "--learning_rate", "1e-2", "--per_device_train_batch_size", "8", "--warmup_steps", "10")
STEPS += ("--lr_scheduler_type", "linear", "--lr_scheduler_kwargs", "{}")


def made_sentence(rng: random.Random) -> ConlluSentence:
    """`der hund geht zum vogel.`"""
    first, second = rng.choice(NOUNS), rng.choice(NOUNS)
    lines = [("1", "der"), ("2", first), ("3", "geht"), ("4-5", "zum"), ("4", "zu"), ("5", "dem"), ("6", second)]
    tokens = [ConlluToken(id, form, head="0" if id == "3" else "3", deprel="dep") for id, form in lines]
    tokens[-1].misc = "SpaceAfter=No"
    tokens.append(ConlluToken("7", ".", head="3", deprel="punct"))
    for token in tokens:
        if "-" in token.id:
            token.head = token.deprel = "_"
    return ConlluSentence([], tokens)


@pytest.fixture(scope="module")
def treebanks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ud")
    rng = random.Random(1)
    for part, number in (("train", 40), ("test", 5)):
        text = "".join(str(made_sentence(rng)) for _ in range(number))
        (folder / f"aa_one-ud-{part}.conllu").write_text(text, "utf-8")
    return folder


@pytest.fixture(scope="module")
def parser(tmp_path_factory):
    tokenizer = unigram_tokenizer([[*NOUNS, "der", "geht", "zu", "dem", "."], list("abcdefghijklmnopqrstuvwxyz.")])
    return new_rng_transformer(tmp_path_factory.mktemp("parser"), tokenizer)


def train(monkeypatch, treebanks, parser, output, *options):
    arguments = ["--folder", str(treebanks), "--parser", str(parser), "--output_dir", str(output), "--use_cpu"]
    monkeypatch.setattr(sys, "argv", ["train_segmenter.py", *arguments, *SMALL, *STEPS, *options])
    load_script("train_segmenter").main()


@pytest.fixture(scope="module")
def trained(treebanks, parser, tmp_path_factory):
    output = tmp_path_factory.mktemp("runs") / "segmenter"
    with pytest.MonkeyPatch.context() as monkeypatch:
        train(monkeypatch, treebanks, parser, output, "--config", "segmenter", "--bf16", "false")
    return output


def test_it_learns(trained):
    found = Parser(str(trained), sentences="auto")("die maus geht zum hund. der vogel geht zum vogel.")
    assert [each.text for each in found] == ["die maus geht zum hund.", "der vogel geht zum vogel."]
    assert list(found[1].words) == ["der", "vogel", "geht", "zu", "dem", "vogel", "."]


def test_table_of_words(trained, treebanks, tmp_path, capsys):
    (tmp_path / "published.tsv").write_text("treebank\tWords\naa_one\t98.5\n", "utf-8")
    options = ["--words", "--published", str(tmp_path / "published.tsv"), "--output", str(tmp_path / "table.md")]
    load_script("evaluate_treebanks").main([str(treebanks), "--model", str(trained), *options])
    lines = (tmp_path / "table.md").read_text("utf-8").splitlines()
    assert lines[0] == "| treebank | train | Tokens | Sentences | Words | Words published |"
    assert lines[2] == "| aa_one | 40 | 100.0 | 100.0 | 100.0 | 98.5 |"
    assert "words of 1 treebanks" in capsys.readouterr().out


def test_table_of_running_text(trained, treebanks, tmp_path):
    options = ["--raw", "--output", str(tmp_path / "table.md")]
    load_script("evaluate_treebanks").main([str(treebanks), "--model", str(trained), *options])
    titles, _, row, _ = ((tmp_path / "table.md").read_text("utf-8")).splitlines()
    assert titles.startswith("| treebank | train | Sentences | Words | UAS | LAS |")
    assert row.startswith("| aa_one | 40 | 100.0 | 100.0 |")


@pytest.mark.parametrize("tokenizer", [[], ["--word_tokenizer", "spaces"]], ids=["network", "spaces"])
def test_running_text_with_control_characters(trained, tmp_path, tokenizer):
    """Parsers read them as spaces, as must what they are compared with."""
    sentence = made_sentence(random.Random(1))
    sentence.tokens[1].form = "hu\x93nd"
    text = " ".join(token.form for token in sentence.tokens if not token.is_word or token.id not in ("4", "5"))
    sentence.comments.append(f"# text = {text.replace(' .', '.')}")
    (tmp_path / "aa_one-ud-test.conllu").write_text(str(sentence), "utf-8")
    options = ["--raw", "--model", str(trained), "--output", str(tmp_path / "table.md"), *tokenizer]
    load_script("evaluate_treebanks").main([str(tmp_path), *options])
    assert (tmp_path / "table.md").read_text("utf-8").splitlines()[2].startswith("| aa_one |  | 100.0 |")


def test_words_need_a_network(parser, treebanks, tmp_path, capsys):
    options = ["--words", "--model", str(parser), "--output", str(tmp_path / "table.md")]
    with pytest.raises(SystemExit):
        load_script("evaluate_treebanks").main([str(treebanks), *options])
    assert "has no network that finds words in raw text" in capsys.readouterr().err


def test_an_interrupted_run_goes_on(trained, treebanks, parser, tmp_path, monkeypatch):
    """What is drawn depends on the number of the update alone."""
    options = ("--config", "segmenter", "--bf16", "false", "--save_steps", "20")
    train(monkeypatch, treebanks, parser, tmp_path / "whole", *options, "--max_steps", "30")
    (tmp_path / "parts").mkdir()
    (tmp_path / "whole" / "checkpoint-20").rename(tmp_path / "parts" / "checkpoint-20")
    train(monkeypatch, treebanks, parser, tmp_path / "parts", *options, "--max_steps", "30")
    whole, parts = (Parser(str(tmp_path / name)).model.state_dict() for name in ("whole", "parts"))
    for name, value in whole.items():
        assert value.equal(parts[name]), name


def test_a_trained_network_is_trained_further(trained, treebanks, tmp_path, monkeypatch):
    """It begins with the weights, to which few updates do little, and may get another dictionary."""
    (tmp_path / "costs").write_text("中国\t50\n国\t30\n", "utf-8")
    (tmp_path / "words").write_text("中国 7 ns\n国人 3 n\n", "utf-8")
    options = ("--config", "segmenter", "--bf16", "false", "--train_further", "--max_steps", "3")
    options += ("--learning_rate", "1e-3", "--dictionary", str(tmp_path / "costs"), str(tmp_path / "words"))
    train(monkeypatch, treebanks, trained, tmp_path / "output", *options)
    before, after = Parser(str(trained)), Parser(str(tmp_path / "output"), sentences="auto")
    assert after.model.config.segmenter["dictionary"] == {"30": "国", "50": "中国", "106": "国人"}
    old, new = before.model.state_dict(), after.model.state_dict()
    changes = {name: float((new[name] - old[name]).abs().max()) for name in old if "segmenter" in name}
    assert 0 < max(change for name, change in changes.items() if "languages" not in name) < 0.02
    assert [each.text for each in after("die maus geht. der vogel geht.")] == ["die maus geht.", "der vogel geht."]


def test_a_network_of_other_treebanks(trained, treebanks, tmp_path, monkeypatch):
    (tmp_path / "aa_one-ud-train.conllu").symlink_to(treebanks / "aa_one-ud-train.conllu")
    (tmp_path / "bb_two-ud-train.conllu").symlink_to(treebanks / "aa_one-ud-train.conllu")
    with pytest.raises(ValueError, match=r"needs the treebanks of the network, .*; different: \['bb_two'\]"):
        train(monkeypatch, tmp_path, trained, tmp_path / "output", "--config", "segmenter", "--train_further")


def test_a_network_that_is_not_trained_is_not_trained_further(trained, treebanks, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="leave --train_further out"):
        train(monkeypatch, treebanks, trained, tmp_path, "--languages_only", "--train_further")


def test_updates_are_needed(treebanks, parser, tmp_path, monkeypatch):
    monkeypatch.setattr(
        sys, "argv", ["train_segmenter.py", "--folder", str(treebanks), "--parser", str(parser), "--output_dir", "x"]
    )
    with pytest.raises(ValueError, match="--max_steps is needed"):
        load_script("train_segmenter").main()


def test_languages_are_added_to_a_trained_network(trained, treebanks, tmp_path, monkeypatch, caplog):
    """Those of a language with other words, too; the network stays as it is, and so do words and trees."""
    folder = tmp_path / "ud"
    folder.mkdir()
    for part in ("train", "dev"):
        text = (treebanks / "aa_one-ud-train.conllu").read_text("utf-8")
        other = text.translate(str.maketrans("aeiou", "ouaei"))
        (folder / f"aa_one-ud-{part}.conllu").write_text(text, "utf-8")
        (folder / f"bb_one-ud-{part}.conllu").write_text(other, "utf-8")
    options = ("--languages_only", "--folder", str(folder), "--language_sentences", "20", "--max_steps", "0")
    with caplog.at_level("INFO"):
        train(monkeypatch, folder, trained, tmp_path / "output", *options)
    assert "languages: 100.0 % of sentences, mean of 2 languages; no confusions" in caplog.text
    before, after = Parser(str(trained)), Parser(str(tmp_path / "output"), sentences="auto", language="auto")
    weights = after.model.state_dict()
    for name, value in before.model.state_dict().items():
        assert "languages" in name or value.equal(weights[name]), name
    assert after.model.config.segmenter["languages"] == ["aa", "bb"]
    # The words of both are split alike: `zum`, and what was made of it.
    habits = after.model.config.segmenter["habits"]
    assert {language: list(found["tokens"]) for language, found in habits.items()} == {"aa": ["zum"], "bb": ["zim"]}
    found = after("der hund geht zum vogel. dur hind guht zim vegul.")
    assert [each.language for each in found] == ["aa", "bb"]


def test_a_trained_network_tells_its_languages(trained):
    parser = Parser(str(trained), sentences="auto", language="auto")
    [found] = parser("die maus geht zum hund.")
    assert (found.language, found.language_probability) == ("aa", 1.0)


def test_languages_need_a_network(treebanks, parser, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="has no network over characters: train one, without --languages_only and"):
        train(monkeypatch, treebanks, parser, tmp_path, "--languages_only")
