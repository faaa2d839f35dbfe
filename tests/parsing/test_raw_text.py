"""Parsing raw text with the words and sentences that a model's own network finds."""

import json
from itertools import islice

import pytest
import torch
from character_networks import LANGUAGES, SETTINGS, RuledSegmenter, random_segmenter
from safetensors.torch import load_file
from tiny_models import new_rng_transformer, unigram_tokenizer
from transformers import AutoConfig, AutoTokenizer, pipeline

from hf_structure import Annotator, AutoModelForDependencyParsing, Parse, Parser, parse
from hf_structure.cli.main import main
from hf_structure.exporting.folder import export
from hf_structure.models.abilities import abilities_of
from hf_structure.modules.int8 import quantize
from hf_structure.text.conllu import read_conllu
from hf_structure.text.raw_text import RawTextReader
from hf_structure.text.sentences import SourceSentence

TEXT = "Er ging zum See. im Haus,\nda war er.\n\nAm Tag"
SENTENCES = ["Er ging zum See.", "im Haus,", "da war er.", "Am Tag"]
WORDS = [
    ["Er", "ging", "zu", "dem", "See", "."],
    ["in", "dem", "Haus", ","],
    ["da", "war", "er", "."],
    ["A", "dem", "Tag"],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tokenizer = unigram_tokenizer([TEXT.split(), ["dem", "abcdefghijklmnopqrstuvwxyz"]])
    path = tmp_path_factory.mktemp("parser")
    return new_rng_transformer(path, tokenizer, segmenter=SETTINGS, treebanks=["any", "aa_one", "bb_one"])


@pytest.fixture
def model(folder):
    model = AutoModelForDependencyParsing.from_pretrained(folder).eval()
    model.character_segmenter = RuledSegmenter()
    return model


@pytest.fixture(scope="module")
def tokenizer(folder):
    return AutoTokenizer.from_pretrained(folder)


def test_sentences_and_words(model, tokenizer):
    for sentences in ("auto", "model"):
        found = parse(TEXT, model, tokenizer=tokenizer, sentences=sentences)
        assert [list(each.words) for each in found] == WORDS
        assert [each.text for each in found] == SENTENCES
        for each in found:
            assert TEXT[each.start : each.start + len(each.text)] == each.text
        assert found[3].metadata == {"newpar": ""}


def test_line_breaks(model, tokenizer):
    found = parse(TEXT, model, tokenizer=tokenizer, sentences="auto", line_breaks="space")
    assert [each.text for each in found] == ["Er ging zum See.", "im Haus,\nda war er.", "Am Tag"]


def test_contractions_are_written_as_in_the_text(model, tokenizer):
    text = "Er  ging zum See."
    [found] = parse(text, model, tokenizer=tokenizer, sentences="auto")
    assert found.multiword_tokens == ((3, 4),)
    assert [text[slice(*span)] for span in found.word_spans] == ["Er", "ging", "zum", "zum", "See", "."]
    [sentence] = read_conllu(found.to_conllu(spaces_after=True).splitlines(keepends=True))
    assert sentence.metadata["text"] == "Er ging zum See."
    tokens = [(token.id, token.form) for token in sentence.tokens]
    assert tokens == [("1", "Er"), ("2", "ging"), ("3-4", "zum"), ("3", "zu"), ("4", "dem"), ("5", "See"), ("6", ".")]
    assert sentence.text_layer()[1] == [(0, 2), (3, 7), (8, 11), (8, 11), (12, 15), (15, 16)]
    assert type(found).from_dict(found.to_dict()).to_conllu() == found.to_conllu()


def test_given_words_stay(model, tokenizer):
    words = ["zum", "a.b", "c"]
    assert list(parse([words], model, tokenizer=tokenizer)[0].words) == words
    sentence = next(read_conllu("1\tzum\t_\t_\t_\t_\t0\troot\t_\t_\n\n".splitlines(keepends=True)))
    for sentences in (None, "auto"):
        found = parse([sentence], model, tokenizer=tokenizer, sentences=sentences)[0]
        assert list((found if sentences is None else found[0]).words) == ["zum"]


def test_one_sentence_a_text(model, tokenizer):
    found = parse(["Er ging. zum See", ""], model, tokenizer=tokenizer, sentences="line", skip_empty=True)
    assert list(found[0].words) == ["Er", "ging", ".", "zu", "dem", "See"]
    assert found[1] is None
    with pytest.warns(UserWarning, match="sentences='model'"):
        found = parse("Er ging. Zum See.", model, tokenizer=tokenizer)
    assert list(found.words) == ["Er", "ging", ".", "Zu", "dem", "See", "."]


def test_sentences_by_rules_have_words_of_the_model(model, tokenizer):
    found = parse("Er ging, zum See! Am Tag", model, tokenizer=tokenizer, sentences="split")
    assert [list(each.words) for each in found] == [["Er", "ging", ",", "zu", "dem", "See", "!"], ["A", "dem", "Tag"]]


def test_word_tokenizer_is_obeyed(model, tokenizer):
    options = {"tokenizer": tokenizer, "word_tokenizer": "spaces"}
    assert list(parse("zum See.", model, sentences="line", **options).words) == ["zum", "See."]
    with pytest.raises(ValueError, match="finds no sentences"):
        Parser(model, sentences="model", **options)


def test_languages_and_treebanks(model, tokenizer):
    text = "Er ging, er war"
    read = lambda **told: len(parse(text, model, tokenizer=tokenizer, sentences="auto", **told))  # noqa: E731
    assert read() == 1
    assert read(treebank="aa_one") == 2
    assert read(language="aa") == 2
    assert read(language="bb") == 1
    with pytest.raises(ValueError, match="language must be one of aa, bb, not 'cc'"):
        read(language="cc")
    with pytest.raises(ValueError, match="split raw text into words, not for a UDGN"):
        Parser("udgn-en", language="en")


def test_texts_are_streamed_and_grouped(model, tokenizer):
    parser = Parser(model, tokenizer=tokenizer, sentences="auto")
    texts = ["", "Er ging. Am See.", ["zum"], " \n", "da"]
    found = list(parser.pipe(iter(texts)))
    assert [[list(each.words) for each in group] for group in found] == [
        [],
        [["Er", "ging", "."], ["A", "dem", "See", "."]],
        [["zum"]],
        [],
        [["da"]],
    ]
    endless = parser.pipe(text for text in iter(lambda: "Er ging.", None))
    assert len(list(islice(endless, 3))) == 3


def test_sentences_that_are_too_long_are_split(model, tokenizer):
    most = abilities_of(model.config).max_tokens
    text = "da, " * most + "See."
    found = parse(text, model, tokenizer=tokenizer, sentences="auto")
    assert len(found) > 1
    words = [word for each in found for word in each.words]
    assert words == [*["da", ","] * most, "See", "."]


def test_saved_with_the_parser(folder, tmp_path):
    settings = json.loads((folder / "segmenter.json").read_text("utf-8"))
    assert settings == {"segmenter": SETTINGS}
    assert "中" not in (folder / "config.json").read_text("utf-8")
    model = AutoModelForDependencyParsing.from_pretrained(folder)
    assert AutoConfig.from_pretrained(folder).segmenter == SETTINGS
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    for name, value in model.character_segmenter.state_dict().items():
        assert torch.equal(weights[f"character_segmenter.{name}"], value)
    assert AutoConfig.from_pretrained(tmp_path).segmenter == SETTINGS


def test_parsers_without_a_network_are_as_before(folder, tmp_path):
    config = AutoConfig.from_pretrained(folder)
    config.segmenter = None
    model = AutoModelForDependencyParsing.from_config(config)
    assert not hasattr(model, "character_segmenter")
    assert abilities_of(config).read_texts is None
    config.save_pretrained(tmp_path)
    assert not (tmp_path / "segmenter.json").exists()


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_precisions(folder, tokenizer, precision):
    model = AutoModelForDependencyParsing.from_pretrained(folder).eval()
    if precision == "int8":
        quantize(model)
    else:
        model.to(torch.bfloat16)
    found = parse(TEXT, model, tokenizer=tokenizer, sentences="auto")
    assert "".join(each.text for each in found).replace(" ", "") == "".join(TEXT.split())


def test_pipeline(folder, model, tokenizer):
    from hf_structure.parsing.sentence_pipeline import DependencySentencePipeline

    parsing = DependencySentencePipeline(model=model, tokenizer=tokenizer)
    assert parsing("Er ging zum See.")["words"] == WORDS[0]
    assert parsing(["zum"])[0]["words"] == ["zu", "dem"]
    assert parsing({"words": ["zum"]})["words"] == ["zum"]


@pytest.fixture(scope="module")
def telling(folder, tmp_path_factory):
    """A parser that tells languages apart, with a network that finds several tokens and sentences."""
    model = AutoModelForDependencyParsing.from_pretrained(folder)
    model.config.segmenter = SETTINGS | {"languages": LANGUAGES}
    model.character_segmenter = random_segmenter(1, languages=LANGUAGES)
    path = tmp_path_factory.mktemp("telling")
    model.save_pretrained(path)
    AutoTokenizer.from_pretrained(folder).save_pretrained(path)
    return path


def expected_language(telling, text: str) -> dict[str, str]:
    """The comments of a text that is one sentence."""
    model = AutoModelForDependencyParsing.from_pretrained(telling)
    reader = RawTextReader(model.character_segmenter.eval(), model.config.segmenter, languages=True)
    return reader.add_words(SourceSentence(text=text)).metadata


def test_each_sentence_has_its_language(telling):
    plain = parse(TEXT, telling, sentences="auto")
    found = parse(TEXT, telling, sentences="auto", language="auto")
    assert found == plain
    assert [(each.text, each.word_spans, each.start) for each in found] == [
        (each.text, each.word_spans, each.start) for each in plain
    ]
    assert len(found) > 2
    assert {each.language for each in plain} == {None}
    assert {each.language for each in found} <= {*LANGUAGES}
    assert all(1 / 3 <= each.language_probability <= 1 for each in found)
    assert all(each.language_probability is None for each in plain)


@pytest.mark.parametrize("sentences", [None, "line", "split"])
def test_languages_of_sentences_that_are_found_otherwise(telling, sentences):
    found = parse(["Er ging zum See.", "中国人去了。"], telling, sentences=sentences, language="auto")
    parses = [each[0] for each in found] if sentences == "split" else found
    for each in parses:
        assert each.metadata == expected_language(telling, each.text)


def test_languages_of_given_words(telling):
    words = ["Er", "ging", "zum", "See", "."]
    for sentences in ("line", "auto"):
        parser = Parser(telling, sentences=sentences, language="auto")
        found = parser([words])[0]
        found = found[0] if sentences == "auto" else found
        assert list(found.words) == words
        assert found.metadata == expected_language(telling, "Er ging zum See .")


def test_languages_in_conllu(telling):
    [found, *_] = parse("Er ging zum See.", telling, sentences="auto", language="auto")
    written = found.to_conllu(found.numbered(1))
    [sentence] = read_conllu(written.splitlines(keepends=True))
    assert str(sentence) == written
    assert sentence.metadata["language"] == found.language
    assert float(sentence.metadata["language_probability"]) == found.language_probability
    assert Parse.from_dict(json.loads(json.dumps(found.to_dict()))).to_conllu() == found.to_conllu()
    # Parsed again, the comments stay, but for those on the old tree; a language that is found replaces the old one.
    [again] = read_conllu(parse([sentence], telling)[0].to_conllu().splitlines(keepends=True))
    assert again.metadata == {key: sentence.metadata[key] for key in again.metadata}
    assert again.metadata.keys() == sentence.metadata.keys() - {"log_probability"}
    other = written.replace(f"# language = {found.language}\n", "# language = xx\n")
    [old] = read_conllu(other.splitlines(keepends=True))
    assert parse([old], telling)[0].language == "xx"
    renewed = parse([old], telling, language="auto")[0].to_conllu()
    [sentence] = read_conllu(renewed.splitlines(keepends=True))
    assert sentence.metadata.items() >= expected_language(telling, found.text).items()
    assert renewed.count("# language = ") == 1


def test_models_that_tell_no_languages_apart(folder, telling):
    with pytest.raises(ValueError, match=r"tells no languages apart: .* train_segmenter\.py --languages_only"):
        Parser(folder, language="auto")
    with pytest.raises(ValueError, match="split raw text into words, not for a UDGN"):
        Parser("udgn-en", language="auto")
    for told in ({"treebank": "aa_one"}, {"word_tokenizer": "spaces"}):
        with pytest.raises(ValueError, match="omit treebank and word_tokenizer"):
            Parser(telling, language="auto", **told)
    assert len(parse("da, da", telling, sentences="auto", language="bb")) > 0


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_languages_in_other_precisions(telling, precision):
    model = AutoModelForDependencyParsing.from_pretrained(telling).eval()
    if precision == "int8":
        quantize(model)
    else:
        model.to(torch.bfloat16)
    found = parse("Er ging zum See.", model, tokenizer=AutoTokenizer.from_pretrained(telling), language="auto")
    expected = float(expected_language(telling, "Er ging zum See.")["language_probability"])
    assert found.language_probability == pytest.approx(expected, abs=0.1)


def test_the_head_is_saved(telling, tmp_path):
    model = AutoModelForDependencyParsing.from_pretrained(telling)
    model.save_pretrained(tmp_path)
    assert AutoConfig.from_pretrained(tmp_path).segmenter["languages"] == LANGUAGES
    saved = load_file(tmp_path / "model.safetensors")
    head = random_segmenter(1, languages=LANGUAGES).languages
    assert torch.equal(saved["character_segmenter.languages.weight"], head.weight)


def test_languages_of_tables_and_commands(telling, tmp_path, capsys):
    expected = f"# language = {expected_language(telling, 'zum See')['language']}\n"
    annotate = Annotator(telling, format="conllu", sentences="line", language="auto")
    assert expected in annotate({"text": ["zum See"]})["conllu"][0]
    (tmp_path / "text.txt").write_text("zum See\n", "utf-8")
    main(["parse", str(tmp_path / "text.txt"), "--model", str(telling), "--language", "auto", "--format", "conllu"])
    assert expected in capsys.readouterr().out
    with pytest.raises(SystemExit) as end:
        main(["parse", str(tmp_path / "text.txt"), "--model", "udgn-en", "--language", "auto"])
    assert "split raw text into words, not for a UDGN" in str(end.value.code) + capsys.readouterr().err


def test_languages_in_pipelines(telling):
    from hf_structure.parsing.sentence_pipeline import DependencySentencePipeline

    model = AutoModelForDependencyParsing.from_pretrained(telling).eval()
    tokenizer = AutoTokenizer.from_pretrained(telling)
    expected = expected_language(telling, "zum See")
    for parsing in (
        DependencySentencePipeline(model=model, tokenizer=tokenizer),
        pipeline("dependency-parsing", model, tokenizer=tokenizer),
    ):
        assert parsing("zum See", language="auto")["metadata"] == expected
        assert parsing({"words": ["zum", "See"]}, language="auto")["metadata"] == expected
        assert "metadata" not in parsing("zum See")
        for told in ({"treebank": "aa_one"}, {"word_tokenizer": "spaces"}):
            with pytest.raises(ValueError, match="omit treebank and word_tokenizer"):
                parsing("zum See", language="auto", **told)


def test_languages_in_spacy(telling):
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("xx")
    nlp.add_pipe("hf_structure", config={"model": str(telling), "language": "auto", "sentences": "split"})
    doc = nlp("Er ging zum See. \n 中国人去了。")
    expected = [expected_language(telling, text)["language"] for text in ("Er ging zum See .", "中国人去了 。")]
    assert [[token.text for token in sentence if token.is_alpha] for sentence in doc.sents][1] == ["中国人去了"]
    assert [sentence._.language for sentence in doc.sents] == expected
    assert doc[1:2]._.language is None


@pytest.mark.slow  # a process of its own
def test_exported_with_languages(telling, tmp_path):
    export(telling, tmp_path / "exported")
    parsing = pipeline("dependency-parsing", str(tmp_path / "exported"), trust_remote_code=True, device="cpu")
    assert parsing("zum See", language="auto")["metadata"] == expected_language(telling, "zum See")


@pytest.mark.slow  # a process of its own
def test_exported(folder, tmp_path):
    export(folder, tmp_path / "exported")
    assert (tmp_path / "exported" / "segmenter.json").exists()
    parsing = pipeline("dependency-parsing", str(tmp_path / "exported"), trust_remote_code=True, device="cpu")
    expected = parse("Er ging zum See.", folder, sentences="line")
    assert parsing("Er ging zum See.")["words"] == list(expected.words)


def test_the_network_of_a_parser_is_random_here(folder):
    """Otherwise the tests above would show little."""
    model = AutoModelForDependencyParsing.from_pretrained(folder)
    assert model.character_segmenter.state_dict().keys() == random_segmenter().state_dict().keys()
