"""
Damaged files and model folders are read, or refused by one `ValueError` of one line, which names the file.

`HF_STRUCTURE_FUZZ` is the number of damaged inputs of every kind (`make fuzz N=1000`); by default it is a few. What a
seed gives is always the same: a failure names it, and `HF_STRUCTURE_FUZZ_SEED` begins with it.
"""

import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pyarrow
import pyarrow.parquet
import pytest
import torch
from running import load_script

from hf_structure import parse
from hf_structure.corpora.minimal_pairs import PRESETS, read_pairs
from hf_structure.corpora.rows import open_file
from hf_structure.corpora.tasks import TASKS, read_table, task_examples
from hf_structure.metrics.formulas import FormulaError, parse_formula
from hf_structure.metrics.syntax_suites import read_suite
from hf_structure.structures.constituency_tree import ConstituencyTree
from hf_structure.structures.dependency_graph import DependencyGraph
from hf_structure.structures.dependency_tree import DependencyTree
from hf_structure.text.brackets import read_brackets
from hf_structure.text.conllu import read_conllu
from hf_structure.text.documents import Catalogue, read_documents
from hf_structure.text.files import COMPRESSIONS
from hf_structure.text.formats import load_sentences
from hf_structure.text.graphs import load_graphs
from hf_structure.text.sdp import read_sdp
from hf_structure.text.words import numbered_lines, read_text, tokenize_words

FIRST_SEED = int(os.environ.get("HF_STRUCTURE_FUZZ_SEED", 0))

CONLLU = """\
# sent_id = 1
1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tdo\tdo\tAUX\tVBP\t_\t3\taux\t3:aux\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t2.1:advmod\t_
2.1\tit\tit\tPRON\t_\t_\t_\t_\t3:obj\t_
3\tbark\tbark\tVERB\tVB\t_\t0\troot\t0:root\tSpaceAfter=No
4\t.\t.\tPUNCT\t.\t_\t3\tpunct\t3:punct\t_

"""
SDP = """\
#SDP 2015
#1
1\tDogs\tdog\tNNS\t-\t-\t_\tARG1\tARG1
2\tbark\tbark\tVBP\t-\t+\tv:e-i\t_\t_
3\tbite\tbite\tVBP\t+\t+\tv:e-i-p\tARG2\t_

"""
BRACKETS = "( (S (NP-SBJ (DT the) (NN dog)) (VP (VBZ barks) (-NONE- *T*-1)) (. .)) )\n"
UNTAGGED = "(S (NP the dog) (VP barks (ADVP now)) .)\n"
UNLABELLED = "(yes ((the dog) (barks now)))\n"
TEXT = "She can't see 👩‍💻, e.g. café.\n"
CATALOGUE = "source\tlicence\tsplit\tkind\tnumber\nmoon\tCC0 1.0\ttrain\tweb\t1\n"
WIKITEXT = ' = Title = \n \n The dog ( 1 @,@ 000 cats ) can not bark . " It is n\'t one . " <unk> !\n'
FORMULA = "[(1;%a%) - (2;%a%)] > 0 & ((1;%b%) < 3.5 | (2;%b%) = (1;%a%) + 1)"
REGIONS = [{"region_number": 1, "content": "The dog"}, {"region_number": 2, "content": "barks ."}]
SUITE = {
    "meta": {"name": "number_made", "metric": "sum"},
    "predictions": [{"type": "formula", "formula": FORMULA}],
    "items": [{"item_number": 1, "conditions": [{"condition_name": name, "regions": REGIONS} for name in "ab"]}],
}
BLIMP = {
    "sentence_good": "A dog barks.",
    "sentence_bad": "A dog bark.",
    "UID": "made",
    "field": "morphology",
    "linguistics_term": "agreement",
}
SPOILERS = ["", " ", "\t", "\n", "\r", "\0", "\ufeff", "\u2028", "\\", '"']
SPOILERS += ["(", ")", "()", "[", "{", "-", "_", "#", "|", ":"]
SPOILERS += ["0", "1.5", "-1", "99", "9" * 5000, "[" * 5000, "{" * 3, '{"a":' * 5000, "(" * 5000]
SPOILERS += ["1-2", "2.1", "²", "é", "👩‍💻"]
VALUES = [None, True, False, -1, 0, 3, 97, 1.9, "", " ", "x", "0", "\ud800", [], {}, [None], ["x"], {"x": 1}, [[]]]


def seeds(default: int) -> range:
    return range(FIRST_SEED, FIRST_SEED + int(os.environ.get("HF_STRUCTURE_FUZZ", default)))


def damaged(random: Random, content: bytes) -> bytes:
    """With some places cut out, doubled, exchanged for something else, or for bytes that are no UTF-8."""
    data = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 5))):
        start = random.randrange(len(data) + 1)
        end = min(start + random.choice((0, 0, 1, 1, 2, 10)), len(data))
        spoiler = random.choice(SPOILERS).encode()
        data[start:end] = random.choice((spoiler, spoiler, spoiler, b"", data[start:end] * 2, b"\xff"))
    return bytes(data)


def damaged_json(random: Random, value: object) -> object:
    """With one value, anywhere in it, exchanged for another one or left out."""
    places = [(parent, key) for parent in _containers(value) for key in _keys(parent)]
    parent, key = random.choice(places)
    if random.random() < 0.2:
        del parent[key]
    else:
        parent[key] = random.choice([*VALUES, 97 if isinstance(parent[key], int) else str(parent[key])])
    return value


def _keys(container: dict | list) -> Iterator:
    """All keys, or a few of a large container, a vocabulary say."""
    keys = list(container) if isinstance(container, dict) else range(len(container))
    return iter(keys if len(keys) < 20 else [*keys[:5], *keys[-5:]])


def _containers(value: object) -> Iterator[dict | list]:
    if isinstance(value, dict | list) and value:
        yield value
        for key in _keys(value):
            yield from _containers(value[key])


def accept(action: Callable, seed: int, *names: str) -> None:
    """Asserts that the action succeeds, or fails by a `ValueError` of one line that has one of these names in it."""
    try:
        action()
    except ValueError as error:
        message = str(error)
        assert "\n" not in message, f"seed {seed}: {message}"
        assert not names or any(name in message for name in names), f"seed {seed}: {message}"
    except BaseException as error:
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error


def exhaust(values: Iterator) -> None:
    for _ in values:
        pass


def draw(structure: DependencyTree | ConstituencyTree | DependencyGraph) -> None:
    assert structure.to_svg().startswith("<svg")
    assert len(str(structure)) > 0
    assert r"\end{" in structure.to_tikz()


def write_trees(path: Path) -> None:
    for sentence in read_conllu(path):
        if sentence.heads:
            tree = DependencyTree(sentence.forms, sentence.heads, sentence.deprels)
            accept(tree.to_conllu, 0)  # a carriage return may stand in a word that was read
            draw(tree)


def write_brackets(path: Path) -> None:
    for bracket in read_brackets(path):
        if bracket.remove_traces():
            tree = ConstituencyTree.from_brackets(bracket)
            accept(tree.to_brackets, 0)
            draw(tree)


def write_graphs(path: Path) -> None:
    for row in load_graphs(path, **({} if path.suffix == ".sdp" else {"annotation": "enhanced"})):
        graph = DependencyGraph(**row)
        accept(graph.to_conllu, 0)
        accept(graph.to_sdp, 0)
        draw(graph)


def task_rows(path: Path) -> None:
    exhaust(task_examples(read_table(path), TASKS["sst2"], str.split, name=str(path)))


def minimal_pairs(path: Path) -> None:
    read_pairs(str(path), PRESETS["blimp"])


def tokenized(path: Path) -> None:
    for words in read_text(path):
        assert "".join(tokenize_words(" ".join(words))) == "".join(words)


def unpacked(path: Path) -> None:
    """Nothing else than what was packed comes out, though it may come twice."""
    assert set(map(tuple, read_text(path))) == {tuple(TEXT.split())}


def rows_of(path: Path) -> None:
    for column in ("text", "words"):
        for value in open_file(str(path), column):
            assert isinstance(value(), str | list | None)


def catalogue(path: Path) -> None:
    Catalogue(path, path)


def wikitext(path: Path) -> None:
    paragraphs = load_script("prepare_wikitext").sentences_of(line for _, line in numbered_lines(path))
    assert all("".join(words) for words in paragraphs)


def parquet_table() -> bytes:
    """Two columns, of texts and of words."""
    file = io.BytesIO()
    table = pyarrow.table({"text": [TEXT, None] * 3, "words": [TEXT.split(), []] * 3})
    pyarrow.parquet.write_table(table, file)
    return file.getvalue()


READERS = {
    "conllu": ("a.conllu", CONLLU * 2, lambda path: exhaust(map(str, read_conllu(path)))),
    "trees": ("a.conllu", CONLLU * 2, write_trees),
    "dropped": ("a.conllu", CONLLU * 2, lambda path: exhaust(load_sentences(path, punctuation="drop"))),
    "basic": ("a.conllu", CONLLU * 2, lambda path: exhaust(load_graphs(path))),
    "enhanced": ("a.conllu", CONLLU * 2, write_graphs),
    "sdp": ("a.sdp", SDP * 2, lambda path: exhaust(map(str, read_sdp(path)))),
    "graphs": ("a.sdp", SDP * 2, write_graphs),
    "brackets": ("a.mrg", BRACKETS * 2, write_brackets),
    "untagged": ("a.mrg", UNTAGGED * 2, write_brackets),
    "unlabelled": ("a.mrg", UNLABELLED * 2, write_brackets),
    "text": ("a.txt", TEXT * 2, tokenized),
    **{
        suffix: (f"a.txt{suffix}", compression.compress(TEXT.encode() * 9), unpacked)
        for suffix, compression in COMPRESSIONS.items()
    },
    "parquet": ("a.parquet", parquet_table(), rows_of),
    "rows": ("a.jsonl", json.dumps({"text": TEXT, "words": TEXT.split()}) + "\n", rows_of),
    "catalogue": ("a.tsv", CATALOGUE, catalogue),
    "documents": ("a.txt", f"# title\n{TEXT}\n{TEXT}", lambda path: exhaust(read_documents(path))),
    "wikitext": ("a.txt", WIKITEXT, wikitext),
    "tsv": ("a.tsv", "sentence\tlabel\na dog\t1\nno cat\t0\n", task_rows),
    "jsonl": ("a.jsonl", json.dumps({"sentence": "a dog", "label": 1}) + "\n", task_rows),
    "suite": ("a.json", json.dumps(SUITE), read_suite),
    "blimp": ("a.jsonl", json.dumps(BLIMP) + "\n", minimal_pairs),
}


@pytest.mark.parametrize(("file", "text", "read"), READERS.values(), ids=READERS)
def test_damaged_files(tmp_path, file, text, read):
    path = tmp_path / file
    content = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(content)
    read(path)
    for seed in seeds(40):
        path.write_bytes(damaged(Random(seed), content))
        accept(lambda: read(path), seed, str(path))


TEXTS = {name: reader for name, reader in READERS.items() if isinstance(reader[1], str)}


@pytest.mark.parametrize(("file", "text", "read"), TEXTS.values(), ids=TEXTS)
def test_encodings(tmp_path, file, text, read):
    """All readers of text take a byte order mark; what is UTF-16 is read, or refused by that name."""
    path = tmp_path / file
    path.write_text(text, encoding="utf-8-sig")
    read(path)
    path.write_text(text, encoding="utf-16")
    message = "not UTF-8 text: byte 0xff begins UTF-16"
    accept(lambda: read(path), 0, f"{file}:1: {message}", f"{file}: {message}")


@pytest.mark.parametrize(("file", "value", "read"), [("a.json", SUITE, read_suite), ("a.jsonl", BLIMP, minimal_pairs)])
def test_damaged_values(tmp_path, file, value, read):
    path = tmp_path / file
    for seed in seeds(60):
        path.write_text(json.dumps(damaged_json(Random(seed), json.loads(json.dumps(value)))))
        accept(lambda: read(path), seed, str(path))


def test_damaged_formulas():
    for seed in seeds(100):
        text = damaged(Random(seed), FORMULA.encode()).decode(errors="replace")
        try:
            parse_formula(text).holds({(name, number): 1.0 for name in "ab" for number in (1, 2)})
        except FormulaError:
            continue


@pytest.fixture(scope="module", params=["structformer", "subword_g2g_transformer", "graph_parser"])
def whole_folder(request) -> Path:
    return request.getfixturevalue(request.param)


FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")


def damaged_weights(random: Random, content: bytes) -> bytes:
    """Cut off somewhere, or with another header: what is wrong in the weights themselves cannot be seen."""
    if random.random() < 0.3:
        return content[: random.randrange(len(content))]
    end = 8 + int.from_bytes(content[:8], "little")
    header = damaged(random, content[:end])
    return (header if len(header) == end else len(header[8:]).to_bytes(8, "little") + header[8:]) + content[end:]


def damage_folder(random: Random, source: Path, target: Path) -> None:
    """A copy with one file damaged: a value of its JSON, or its text."""
    shutil.copytree(source, target)
    path = random.choice([target / name for name in FILES])
    if path.suffix == ".safetensors":
        path.write_bytes(damaged_weights(random, path.read_bytes()))
        return
    text = path.read_text(encoding="utf-8")
    if random.random() < 0.2:
        path.write_bytes(damaged(random, text.encode()))
    else:
        path.write_text(json.dumps(damaged_json(random, json.loads(text))), encoding="utf-8")


def test_damaged_model_folders(whole_folder, tmp_path):
    for seed in seeds(12):
        folder = tmp_path / str(seed)
        damage_folder(Random(seed), whole_folder, folder)
        accept(lambda folder=folder: parse(["the old cat saw .", "she slept"], folder), seed)
        shutil.rmtree(folder)


PIECES = [*SPOILERS[:20], "e\u0301", "👩‍👩‍👧", "🇩🇪", "שלום", "\u202eabc", "ﬃ", "can't", "the", "cat", "saw"]
PIECES += ["x" * 40, "\ud800", "\x7f"]


def hostile_text(random: Random) -> str:
    return "".join(random.choice(PIECES) + random.choice(("", " ", " ")) for _ in range(random.randint(1, 8)))


def same(found: object, expected: object) -> bool:
    """Whether numbers are close and all else is equal."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[name], value) for name, value in expected.items())
    if isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(same, found, expected))
    return found == (pytest.approx(expected, rel=1e-3, abs=1e-3) if isinstance(expected, float) else expected)


@pytest.mark.parametrize(
    "family",
    [
        "structformer",
        "subword_structformer",
        "g2g_transformer",
        "subword_g2g_transformer",
        "subword_rng_transformer",
        "graph_parser",
    ],
)
def test_hostile_texts(request, family):
    """Refused in one line, or parsed with nothing lost, and the same alone, in a batch, and by several threads."""
    folder, texts, parses = request.getfixturevalue(family), [], []
    options = {"beam_size": 2} if family == "graph_parser" else {}
    for seed in seeds(6):
        text, found = hostile_text(Random(seed)), []
        accept(lambda text=text, found=found: found.extend(parse([text], folder, **options)), seed)
        assert all("".join("".join(each.words).split()) == "".join(text.split()) for each in found), f"seed {seed}"
        texts += [text] * len(found)
        parses += [each.to_dict() for each in found]
    assert texts
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        together = parse(texts, folder, **options)
    finally:
        torch.set_num_threads(threads)
    for text, one, other in zip(texts, together, parses, strict=True):
        assert same(one.to_dict(), other), repr(text)
