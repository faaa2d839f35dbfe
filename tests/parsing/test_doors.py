"""Every way in is the same parser: rows are inputs, columns are doors, each cell gives the same or the same error."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import spacy
from running import load_script
from spacy.tokens import Doc
from spacy.vocab import Vocab
from transformers import pipeline

from hf_structure import Parse, Parses, parse
from hf_structure.cli.common import OF_PYTHON
from hf_structure.cli.main import main
from hf_structure.parsing.options import OPTIONS
from hf_structure.parsing.parser import Parser
from hf_structure.text.conllu import read_conllu
from hf_structure.text.reading import read_source
from hf_structure.text.words import find_words, tokenize_words

CONLLU = """# newdoc id = letters
# newpar
# sent_id = s1
# text = The cat can't sleep.
# speaker = A
1	The	_	DET	DT	_	2	det	_	_
2	cat	_	NOUN	NN	_	5	nsubj	_	Ref=1
3-4	can't	_	_	_	_	_	_	_	Gloss=x
3	can	_	AUX	VB	_	5	aux	_	_
4	not	_	PART	IN	_	5	advmod	_	_
4.1	ever	_	ADV	_	_	_	_	5:advmod	_
5	sleep	_	VERB	VB	_	0	root	0:root	SpaceAfter=No
6	.	_	PUNCT	.	_	5	punct	_	_

# sent_id = s2
# text = Bark
1	Bark	_	VERB	VB	_	0	root	_	_

"""
# Inputs: what Python is given, the file that says the same, and options. Text is one string: one list of sentences.
TEXTS: dict[str, tuple[str, dict[str, Any]]] = {
    "a sentence": ("The old cat slept.", {"sentences": "line"}),
    "sentences": ("The cat slept. Dogs bark , she saw the dog", {"sentences": "model"}),
    "sentences by rules": ("The cat slept. Dogs bark.", {"sentences": "split"}),
    "line breaks": ("the cat\nslept\n\nDogs bark.  \n a dog\n", {"sentences": "model"}),
    "line breaks by rules": ("The cat\nslept. Dogs\n\nbark.", {"sentences": "split"}),
    "paragraphs": ("The cat\nslept\n\nDogs bark.\nA dog", {"sentences": "model", "line_breaks": "space"}),
    "paragraphs by rules": ("The cat\nslept. A\n\nbark.", {"sentences": "split", "line_breaks": "space"}),
    "a byte order mark": ("\ufeffThe cat slept.", {"sentences": "auto"}),
    "control characters": ("The cat\0 slept \x07in peace\u200b. \ufeff \x1b", {"sentences": "auto"}),
    "a text layer": ("I don't  know,\tshe can't.", {"sentences": "auto"}),
    "too long": ("the cat " * 6, {"sentences": "line", "max_words": 11}),
    "half a character": ("the \udcff cat", {"sentences": "auto"}),
}
MARK = "\ufeff"
WORDS = [["The", "old", "cat", "can't", "sleep", "."], ["Dogs"], ["bark", ",", "loudly"]]


LONG = [["the", "cat"] * 6]


def flat(parses: Any) -> list[Parse]:
    """All parses, of texts that were split, too."""
    if isinstance(parses, Parse):
        return [parses]
    return [parse for each in parses if each is not None for parse in flat(each)]


def seen(parses: Any) -> list[tuple]:
    """Text, offset, words, heads and relations of each sentence."""
    return [
        (parsed.text, parsed.start, parsed.words, parsed.dependency.heads, parsed.dependency.labels)
        for parsed in flat(parses)
    ]


class Function:
    """A way in. Its methods give what is parsed, as `seen` does or as CoNLL-U, or raise an error."""

    def __init__(self, folder: Path, model: Path):
        self.folder = folder
        self.model = model

    def parse(self, inputs: Any, **options) -> Any:
        return parse(inputs, self.model, **options)

    def text(self, text: str, **options) -> list[tuple]:
        return seen(self.parse(text, **options))

    def words(self, sentences: list[list[str]], **options) -> list[tuple]:
        return seen(self.parse(sentences, **options))

    def conllu(self, content: str, **options) -> str:
        return Parses(flat(self.parse(list(read_conllu(content.splitlines())), **options))).to_conllu()


class Object(Function):
    def parse(self, inputs, tags=None, initial=None, **options):
        return Parser(self.model, **options)(inputs, tags=tags, initial=initial)


class Stream(Function):
    def parse(self, inputs, tags=None, initial=None, **options):
        batch = [inputs] if isinstance(inputs, str) else inputs
        return list(Parser(self.model, **options).pipe(iter(batch), tags=tags, initial=initial))


class Pipeline(Function):
    def parse(self, inputs, tags=None, initial=None, **options):
        made = pipeline("dependency-parsing", model=str(self.model), **options)
        called = pipeline("dependency-parsing", model=str(self.model))
        found = made(inputs, tags=tags, initial=initial)
        assert found == called(inputs, tags=tags, initial=initial, **options)
        return Parses.from_dict(json.loads(json.dumps([found] if isinstance(found, dict) else found)))


class Command(Function):
    def run(self, *arguments: str) -> str:
        output = self.folder / "output"
        try:
            main(["parse", "--model", str(self.model), "--output", str(output), *arguments])
        except SystemExit as error:
            raise ValueError(error.code) from None
        return output.read_text()

    def file(self, content: str) -> str:
        path = self.folder / "input"
        path.write_bytes(content.encode("utf-8", "surrogatepass"))
        return str(path)

    def arguments(self, content: str, form: str, **options) -> Iterator[str]:
        for name, value in options.items():
            yield from (f"--{name}", *([] if value is True else [str(value)]))
        yield from ("--input_format", form, self.file(content))

    def json(self, *arguments: str) -> list[tuple]:
        return seen(Parses.from_dict(map(json.loads, self.run("--format", "json", *arguments).splitlines())))

    def text(self, text, **options):
        return self.json(*self.arguments(text, "raw", **options))

    def words(self, sentences, **options):
        return self.json(*self.arguments("\n".join(map(" ".join, sentences)), "words", **options))

    def conllu(self, content, **options):
        return self.run("--format", "conllu", *self.arguments(content, "auto", **options))


class Annotation(Command):
    """CoNLL-U has no offsets, and one space for all white space: the text is put in where it agrees."""

    def run(self, *arguments):
        output = self.folder / "silver.conllu"
        with pytest.MonkeyPatch.context() as patch:
            given = ["annotate_corpus.py", "--model", str(self.model), "--output", str(output), *arguments]
            patch.setattr(sys, "argv", given)
            load_script("annotate_corpus").main()
        return output.read_text()

    def shown(self, written: str, expected: list[tuple]) -> list[tuple]:
        found = []
        for sentence, (text, start, *_) in zip(read_conllu(written.splitlines()), expected, strict=True):
            assert text is None or sentence.metadata["text"] == " ".join(text.split())
            found.append((text, start, tuple(sentence.forms), tuple(sentence.heads), tuple(sentence.deprels)))
        return found

    def text(self, text, **options):
        written = self.run(*self.arguments(text, "raw", **options))
        return self.shown(written, Function(self.folder, self.model).text(text, **options))

    def words(self, sentences, **options):
        written = self.run(*self.arguments("\n".join(map(" ".join, sentences)), "words", **options))
        return self.shown(written, Function(self.folder, self.model).words(sentences, **options))

    def conllu(self, content, **options):
        return self.run(*self.arguments(content, "auto", **options))


class Component(Function):
    """Words are spaCy's: here its tokenizer is ours."""

    def run(self, make: Callable[[Vocab], Doc], **options) -> list[tuple]:
        nlp = spacy.blank("en")
        nlp.add_pipe("hf_structure", config={"model": str(self.model), "skip_long": False, **options})
        found = []
        for sentence in nlp(make(nlp.vocab)).sents:
            tokens = [token for token in sentence if not token.is_space]
            number = {token.i: position for position, token in enumerate(tokens, start=1)}
            heads = tuple(0 if token.head.i == token.i else number[token.head.i] for token in tokens)
            found.append((tuple(token.text for token in tokens), heads, tuple(token.dep_ for token in tokens)))
        return found

    def text(self, text, **options):
        """Without what spaCy does not hold: the text of a sentence, and relations of roots."""
        cleaned = read_source(text).text or ""
        found = self.run(lambda vocab: doc_of(cleaned, vocab), **options)
        expected = Function(self.folder, self.model).text(text, **options)
        shown = []
        for (words, heads, labels), (known, start, *_, relations) in zip(found, expected, strict=True):
            labels = tuple(
                relation if label == "ROOT" else label for label, relation in zip(labels, relations, strict=True)
            )
            shown.append((known, start, words, heads, labels))
        return shown


def doc_of(text: str, vocab: Vocab) -> Doc:
    """Our words and all white space of a text."""
    pieces = []
    end = 0
    for start, stop in find_words(text, tokenize_words(text)) or ():
        pieces += [text[end:start].removeprefix(" " if end else ""), text[start:stop]]
        end = stop
    pieces = [piece for piece in [*pieces, text[end:].removeprefix(" ")] if piece]
    spaces = []
    end = 0
    for piece in pieces:
        end += len(piece)
        spaces.append(text[end : end + 1] == " ")
        end += spaces[-1]
    doc = Doc(vocab, words=pieces, spaces=spaces)
    assert doc.text == text
    return doc


DOORS = {kind.__name__: kind for kind in (Function, Object, Stream, Pipeline, Command, Annotation)}


def outcome(do: Callable[[], Any]) -> tuple[Any, str]:
    """What comes out, or the reason of the error, without where it was."""
    try:
        return do(), ""
    except ValueError as error:
        message = str(error).removeprefix("hf-structure: ").partition("; --skip_long")[0]
        return None, re.sub(r"^(sentence \d+|\S+:\d+): ", "", message)


@pytest.fixture(params=DOORS.values(), ids=DOORS)
def door(request, tmp_path, tagger) -> Function:
    return request.param(tmp_path, tagger)


@pytest.mark.parametrize(("text", "options"), TEXTS.values(), ids=TEXTS)
def test_raw_text(door, text, options):
    expected, error = outcome(lambda: seen(parse(text, door.model, **options)))
    if type(door) is Command and text.startswith(MARK):  # which does not count in a file
        expected = [(shown, start - 1, *others) for shown, start, *others in expected]
    if isinstance(door, Command) and "\udcff" in text:  # which no file of text can hold
        error = "not UTF-8 text: byte 0xed at position 5"
    assert outcome(lambda: door.text(text, **options)) == (expected, error)


# In spaCy there is no half a character, and no token of several words.
SPACY_TEXTS = {name: row for name, row in TEXTS.items() if name not in ("half a character", "a text layer")}


@pytest.mark.parametrize(("text", "options"), SPACY_TEXTS.values(), ids=SPACY_TEXTS)
def test_raw_text_in_spacy(tmp_path, tagger, text, options):
    expected = outcome(lambda: seen(parse(text, tagger, **options)))
    assert outcome(lambda: Component(tmp_path, tagger).text(text, **options)) == expected


@pytest.mark.parametrize(
    ("sentences", "options"),
    [
        (WORDS, {}),
        (WORDS, {"batch_size": 1, "punctuation": "parse"}),
        (LONG, {"max_words": 11}),
        (LONG + WORDS, {"max_words": 11}),
    ],
    ids=["words", "other options", "too long", "too long before others"],
)
def test_given_words(door, sentences, options):
    expected = outcome(lambda: seen(parse(sentences, door.model, **options)))
    assert outcome(lambda: door.words(sentences, **options)) == expected


def test_long_sentences_are_left_out(door):
    sentences = [WORDS[0], *LONG, WORDS[1]]
    found = Function.words(door, [WORDS[0], WORDS[1]])
    if isinstance(door, Command):
        assert door.words(sentences, max_words=11, skip_long=True) == found
    else:
        assert door.parse(sentences, max_words=11, skip_long=True)[1] is None
        assert seen(door.parse(sentences, max_words=11, skip_long=True)) == found


def test_the_text_layer_of_conllu(door):
    """All stays but heads, relations and what the model predicts."""
    written = door.conllu(CONLLU)
    assert written == Parses(parse(list(read_conllu(CONLLU.splitlines())), door.model)).to_conllu()
    predicted = ("lemma", "upos", "xpos", "feats", "head", "deprel")
    for sentence, gold in zip(read_conllu(written.splitlines()), read_conllu(CONLLU.splitlines()), strict=True):
        columns = {name: [getattr(word, name) for word in gold.words] for name in predicted}
        assert columns["head"] != ["_"] * len(gold.words)
        assert sentence.with_columns(columns) == gold


@pytest.mark.filterwarnings("ignore:this model reads part-of-speech tags")
@pytest.mark.parametrize("kind", DOORS.values(), ids=DOORS)
def test_tags(tmp_path, tagged_g2g_transformer, kind):
    tagless = re.sub(r"\t(DET|NOUN|AUX|PART|ADV|VERB|PUNCT)\t[A-Z.]*", "\t_\t_", CONLLU)
    expected = Parses(parse(list(read_conllu(CONLLU.splitlines())), tagged_g2g_transformer)).to_conllu()
    assert kind(tmp_path, tagged_g2g_transformer).conllu(CONLLU) == expected
    (tmp_path / "other").mkdir()
    assert kind(tmp_path / "other", tagged_g2g_transformer).conllu(tagless) != expected


def probabilities(parses: Parses) -> list[float]:
    return [word.probability for parsed in parses for word in parsed if word.probability is not None]


@pytest.mark.parametrize("kind", [Function, Object, Stream, Pipeline, Command], ids=lambda kind: kind.__name__)
def test_initial_trees(tmp_path, rng_transformer, kind):
    gold = list(read_conllu(CONLLU.splitlines()))
    expected = parse(gold, rng_transformer, initial=gold, rounds=1)
    before = probabilities(parse(gold, rng_transformer, rounds=1))
    changes = [abs(one - other) for one, other in zip(probabilities(expected), before, strict=True)]
    assert max(changes) > 1e-4  # the trees are read
    options = {"refine": True} if kind is Command else {"initial": gold}
    assert kind(tmp_path, rng_transformer).conllu(CONLLU, rounds=1, **options) == expected.to_conllu()


def test_wrong_options_are_the_same_error(tmp_path, tagger, capsys):
    for kind in (Function, Object, Stream, Pipeline):
        with pytest.raises(ValueError, match="k must be a whole number of at least 1, not '3'"):
            kind(tmp_path, tagger).parse(["the cat"], k="3")
        with pytest.raises(TypeError, match="there is no option 'beamsize': did you mean 'beam_size'"):
            kind(tmp_path, tagger).parse(["the cat"], beamsize=3)
        with pytest.raises(ValueError, match="line_breaks must be one of end, space, not 'keep'"):
            kind(tmp_path, tagger).parse(["the cat"], line_breaks="keep")
    with pytest.raises(SystemExit):
        main(["parse", "--line_breaks", "keep"])
    assert "invalid choice: 'keep' (choose from" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"line_breaks.*'keep' is not .*'end', 'space'"):
        spacy.blank("en").add_pipe("hf_structure", config={"model": str(tagger), "line_breaks": "keep"})


def test_options_of_the_command_have_the_names_of_python(capsys):
    """Short ones like `k` too, beside their short form."""
    with pytest.raises(SystemExit):
        main(["parse", "--help"])
    shown = capsys.readouterr().out
    assert {f"--{name}" for name in OPTIONS if name not in OF_PYTHON} <= set(re.findall(r"--\w+", shown))
    assert re.search(r"-k( N)?, --k N", shown)


def test_every_door_gives_the_same_probabilities(tmp_path, tagger):
    text = "The cat slept. Dogs bark."
    options = {"sentences": "model", "probabilities": True}
    columns = ["upos_probability", "xpos_probability", "feats_probability", "lemma_probability"]

    def shown(parses: Any) -> list[tuple]:
        trees = [parsed.dependency for parsed in flat(parses)]
        return [
            (tree.probabilities, tree.label_probabilities, *(tree.columns[name] for name in columns)) for tree in trees
        ]

    expected = shown(parse(text, tagger, **options))
    for kind in (Object, Stream, Pipeline):
        found = shown(kind(tmp_path, tagger).parse(text, **options))
        assert [list(map(tuple, each)) for each in found] == [list(map(tuple, each)) for each in expected], kind
    for kind in (Command, Annotation):
        door = kind(tmp_path, tagger)
        given = ("--format", "conllu") if kind is Command else ()
        written = door.run(*given, *door.arguments(text, "raw", **options))
        notes = [
            [note.split("=")[1] for note in word.misc.split("|") if note.startswith("UposProb=")]
            for sentence in read_conllu(written.splitlines())
            for word in sentence.words
        ]
        values = [value for each in expected for value in each[2]]
        assert [float(value) for [value] in notes] == pytest.approx(values, rel=1e-3)
    nlp = spacy.blank("en")
    nlp.add_pipe("hf_structure", config={"model": str(tagger), "sentences": "model", "probabilities": True})
    doc = nlp(doc_of(text, nlp.vocab))
    assert [token._.upos_probability for token in doc] == pytest.approx([v for each in expected for v in each[2]])
