"""`hf-structure` with dependency graphs: parse, evaluate, render."""

import io
import json
from dataclasses import asdict
from pathlib import Path

import pytest
from matplotlib.image import imread
from tiny_models import new_gilt, new_pushdown
from transformers import AutoTokenizer

from hf_structure import DependencyGraph, parse
from hf_structure.cli import figures
from hf_structure.drawing.attention_figures import plot_attention
from hf_structure.drawing.graph_figures import plot_circuits
from hf_structure.metrics import arc_scores
from hf_structure.probing.attention import sentence_attention
from hf_structure.text.conllu import read_conllu
from hf_structure.text.graphs import load_graphs
from hf_structure.text.reading import unread_sentences
from hf_structure.text.sdp import read_sdp

TEXT = "She can't sleep.\n\nthe cat saw a dog\n"
WORDS = [["She", "ca", "n't", "sleep", "."], ["the", "cat", "saw", "a", "dog"]]
CONLLU = """\
# sent_id = one
# text = dogs don't bark
1	dogs	dog	NOUN	NNS	Number=Plur	4	nsubj	4:nsubj	_
2-3	don't	_	_	_	_	_	_	_	SpaceAfter=No
2	do	do	AUX	VBP	_	4	aux	4:aux	_
3	n't	not	PART	RB	_	4	advmod	4:advmod	_
4	bark	bark	VERB	VB	_	0	root	0:root|1:x	SpaceAfter=No
4.1	it	it	PRON	_	_	_	_	4:obj	_

"""
SDP = """\
#SDP 2015
#22000001
1	dogs	dog	NNS	-	-	_	ARG1
2	bark	bark	VBP	+	+	v:e-i	_

#22000002
1	she	she	PRP	-	-	_	ARG1	ARG1
2	sleeps	sleep	VBZ	+	+	v	_	_
3	often	often	RB	-	+	_	_	_

"""
FILES = {"notes.txt": TEXT, "gold.conllu": CONLLU, "gold.sdp": SDP}


@pytest.fixture
def command(graph_parser):
    """Greedy parsing, which is quick."""
    return ("parse", "--model", graph_parser, "--structure", "graph", "--beam_size", "1", "--format")


# parse

FORMATS = {
    "conllu": lambda parsed, number: parsed.to_conllu({"sent_id": str(number)}),
    "json": lambda parsed, number: json.dumps(parsed.to_dict(), ensure_ascii=False) + "\n",
    "svg": lambda parsed, number: f"{parsed.to_svg()}\n",
    "text": lambda parsed, number: f"{' '.join(parsed.words)}\n{parsed}\n\n",
    "tikz": lambda parsed, number: f"{parsed.to_tikz()}\n",
}


@pytest.mark.parametrize("format", FORMATS)
def test_formats(run, command, graph_parser, format):
    Path("notes.txt").write_text(TEXT)
    with open("notes.txt", "rb") as file:
        parses = parse([read() for read in unread_sentences(file, "raw")], graph_parser, beam_size=1)
    assert [list(parsed.words) for parsed in parses] == WORDS
    expected = "".join(FORMATS[format](parsed, number) for number, parsed in enumerate(parses, start=1))
    assert run(*command, format, "notes.txt") == expected
    arguments = [part for part in command if part not in ("--structure", "graph")]
    unnamed = expected.replace("newdoc id = notes.txt", "newdoc").replace('newdoc id": "notes.txt"', 'newdoc": ""')
    assert run(*arguments, format, stdin=TEXT) == unnamed  # it is all that the model gives


def test_sdp_format(run, command, graph_parser):
    parses = parse(WORDS, graph_parser, beam_size=1)
    output = run(*command, "sdp", "notes.txt")
    assert output == "#SDP 2015\n" + "".join(parsed.to_sdp(str(n)) for n, parsed in enumerate(parses, start=1))
    assert [DependencyGraph(**row).arcs for row in load_graphs(_file("out.sdp", output))] == [
        parsed.graph.arcs for parsed in parses
    ]
    without = [part for part in command if part not in ("--structure", "graph")]
    assert run(*without, "sdp", "notes.txt") == output


def _file(name: str, content: str) -> str:
    Path(name).write_text(content, encoding="utf-8")
    return name


def test_conllu_keeps_everything_but_the_graph(run, command, graph_parser):
    (parsed,) = parse([["dogs", "do", "n't", "bark"]], graph_parser, beam_size=1)
    deps = iter(parsed.graph.deps())
    lines = []
    for line in CONLLU.splitlines():
        columns = line.split("\t")
        if columns[0] == "4.1":  # of the graph that was there
            continue
        if columns[0].isdigit():
            columns[8] = next(deps)
        lines.append("\t".join(columns))
    assert run(*command, "conllu", "gold.conllu").splitlines() == lines
    assert "4.1" not in "".join(lines)


def test_sdp_keeps_everything_but_the_graph(run, command, graph_parser):
    parses = parse([["dogs", "bark"], ["she", "sleeps", "often"]], graph_parser, beam_size=1)
    for arguments in (["gold.sdp"], ["--input_format", "sdp", "-"], ["-"]):
        found = list(read_sdp(io.StringIO(run(*command, "sdp", *arguments, stdin=SDP))))
        for sentence, gold, parsed in zip(found, read_sdp(io.StringIO(SDP)), parses, strict=True):
            for column in ("id", "words", "lemmas", "pos"):
                assert getattr(sentence, column) == getattr(gold, column)
            assert sentence.tops == list(parsed.graph.roots)
            assert [(head, word) for head, word, _ in sentence.arcs] == [a for a in parsed.graph.arcs if a[0]]


def test_from_one_format_to_the_other(run, command, graph_parser):
    (sentence,) = read_sdp(io.StringIO(run(*command, "sdp", "gold.conllu")))
    assert (sentence.id, sentence.lemmas) == ("one", ["dog", "do", "not", "bark"])
    assert sentence.pos == ["NNS", "VBP", "RB", "VB"]
    first, second = read_conllu(io.StringIO(run(*command, "conllu", "gold.sdp")))
    assert (first.metadata["sent_id"], second.metadata["sent_id"]) == ("22000001", "22000002")
    assert second.forms == ["she", "sleeps", "often"]


def test_k_best_and_marginals(run, graph_parser):
    arguments = ("parse", "--model", graph_parser, "--format", "json", "--beam_size", "4", "-k", "2", "--marginals")
    expected = parse(WORDS, graph_parser, beam_size=4, k=2, marginals=True)
    found = [json.loads(line) for line in run(*arguments, "notes.txt").splitlines()]
    assert [values["alternatives"] for values in found] == [
        [graph.to_dict() for graph in parsed.alternatives] for parsed in expected
    ]
    assert all(values["marginals"] for values in found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--structure", "graph", "--format", "brackets"], "--format brackets holds constituency trees only"),
        (["--structure", "dependency", "--format", "sdp"], "--format sdp holds dependency graphs only"),
        (["--format", "brackets"], "GiLTForCausalLM gives dependency graphs, but no constituency trees"),
    ],
)
def test_wrong_arguments(fail, graph_parser, arguments, message):
    assert message in fail("parse", "--model", graph_parser, "notes.txt", *arguments)[0]


# evaluate


@pytest.fixture
def system(run) -> str:
    """One arc of four is wrong, one is missing, a word has no head."""
    return _file("system.conllu", CONLLU.replace("0:root|1:x", "0:root").replace("4:nsubj", "2:nsubj"))


def test_evaluate(run, system):
    output = run("evaluate", "gold.conllu", system, "--structure", "graph")
    values = {name: float(value) for name, value in map(str.split, output.splitlines())}
    assert (values["matched"], values["predicted"], values["gold"]) == (3, 4, 5)
    assert (values["precision"], values["recall"]) == (75, 60)
    assert values["f1"] == pytest.approx(200 * 3 / 9, abs=0.005)
    assert (values["exact"], values["sentences"], values["words"]) == (0, 1, 4)
    as_json = json.loads(run("evaluate", "gold.conllu", system, "--structure", "graph", "--json"))
    expected = arc_scores(load_graphs(system, "enhanced"), load_graphs("gold.conllu", "enhanced"))
    assert as_json == asdict(expected)


def test_evaluate_reads_trees_on_request(run, system):
    def counts(*arguments):
        scores = json.loads(run("evaluate", "gold.conllu", system, "--structure", "graph", "--json", *arguments))
        return scores["matched"], scores["predicted"], scores["gold"]

    assert counts("--annotation", "basic") == (3, 4, 4)
    assert counts("--system_annotation", "basic") == (4, 4, 5)
    assert counts("--annotation", "basic", "--system_annotation", "basic") == (4, 4, 4)


def test_evaluate_sdp(run):
    changed = SDP.replace("v:e-i\t_", "v:e-i\tARG1").replace("ARG1\tARG1", "_\tARG1")
    _file("system.sdp", changed.replace("_\tARG1\n2\tbark", "_\t_\n2\tbark"))
    scores = json.loads(run("evaluate", "gold.sdp", "gold.sdp", "--json"))
    assert (scores["f1"], scores["gold"], scores["sentences"]) == (1, 5, 2)
    row = next(load_graphs("gold.sdp"))
    _file("first.sdp", SDP.split("\n\n")[0] + "\n\n")
    _file("first.conllu", DependencyGraph(row["words"], [(0, 2), (1, 2)]).to_conllu())
    scores = json.loads(run("evaluate", "first.sdp", "first.conllu", "--json"))
    assert (scores["matched"], scores["predicted"], scores["gold"]) == (1, 2, 2)


def test_count(run):
    def rows(*arguments) -> list[list[str]]:
        return [line.split() for line in run("count", *arguments).splitlines()[1:]]

    files = ("gold.conllu", "gold.sdp")
    for options, annotation in ([], "basic"), (["--annotation", "enhanced"], "enhanced"):
        graphs = [list(load_graphs(file, annotation)) for file in files]
        assert rows(*files, *options) == [
            [
                file,
                str(len(sentences)),
                str(sum(len(sentence["words"]) for sentence in sentences)),
                f"{sum(len(sentence['arcs']) for sentence in sentences) / len(sentences):.2f}",
            ]
            for file, sentences in zip(files, graphs, strict=True)
        ]


def test_evaluate_what_parse_wrote(run, command):
    for format in ("conllu", "sdp"):
        run(*command, format, "gold.sdp", "--output", f"system.{format}")
    first, second = (run("evaluate", "gold.sdp", f"system.{format}") for format in ("conllu", "sdp"))
    assert first == second
    assert "f1" in first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["gold.conllu", "bare.conllu", "--structure", "graph"],
            "bare.conllu has no arcs (in CoNLL-U, trees are --sys",
        ),
        (["bare.conllu", "gold.conllu", "--structure", "graph"], "bare.conllu:3: word 1 has no enhanced heads"),
        (["gold.sdp", "first.sdp"], "1 predicted sentences, but more gold sentences"),
        (["gold.conllu", "gold.sdp", "--structure", "tree"], "SDP, JSON and MRP files hold graphs, no trees"),
        (["gold.conllu", "gold.conllu", "--annotation", "basic"], "--annotation is for graphs only"),
    ],
)
def test_evaluate_refuses(fail, run, arguments, message):
    (sentence,) = read_conllu("gold.conllu")
    _file("bare.conllu", str(sentence.with_deps(["_"] * 4)))
    _file("first.sdp", SDP.split("\n\n")[0] + "\n\n")
    assert message in fail("evaluate", *arguments)[0]


# render


def test_render_graphs(run):
    page = run("render", "--kind", "graph", "gold.conllu")
    assert page.count("<svg") == 1
    assert run("render", "--kind", "graph", "gold.sdp").count("<svg") == 2
    assert run("render", "--kind", "graph", "gold.sdp", "--limit", "1").count("<svg") == 1
    text = run("render", "--kind", "graph", "gold.conllu", "--format", "text")
    assert "← root, 1 dogs" in text
    assert text == f"dogs do n't bark\n{DependencyGraph(**next(load_graphs('gold.conllu', 'enhanced')))}\n\n"
    basic = run("render", "--kind", "graph", "gold.conllu", "--format", "text", "--annotation", "basic")
    assert "1 dogs" not in basic
    assert run("render", "gold.sdp", "--format", "tikz").count(r"\deproot") == 2
    assert run("render", "--kind", "graph", "-", "--format", "svg", stdin=SDP).count("<svg") == 2


def pictures(*names: str) -> list[tuple[int, ...]]:
    """Shapes of PNG files, none of which is blank."""
    images = [imread(name) for name in names]
    assert all(image[..., :3].std() > 0 for image in images)
    return [image.shape for image in images]


def test_tapes(run, graph_parser):
    assert run("render", "--kind", "tapes", "gold.sdp", "--output", "tapes.png") == ""
    first, second = pictures("tapes.png", "tapes-2.png")
    assert first[1] < second[1]  # a longer sentence
    written = Path("tapes.png").read_bytes()
    run("render", "--kind", "tapes", "gold.conllu", "--output", "enhanced.png")
    enhanced = Path("enhanced.png").read_bytes()
    run("render", "--kind", "tapes", "gold.conllu", "--annotation", "basic", "--output", "basic.png")
    assert len({written, enhanced, Path("basic.png").read_bytes()}) == 3
    run("render", "--kind", "tapes", "notes.txt", "--limit", "1", "--model", graph_parser, "--output", "model.png")
    pictures("model.png")
    assert not Path("model-2.png").exists()


def test_tapes_of_a_pipe(talk, graph_parser, tmp_path):
    """What comes through a pipe can be read once; its beginning tells the format."""
    picture = tmp_path / "piped.png"
    with talk("render", "--kind", "tapes", "-", "--model", graph_parser, "--output", picture) as (stdin, _):
        stdin.write(b"the cat saw a dog\n")
    pictures(picture)


def test_attention(run, graph_parser):
    arguments = ("render", "--kind", "attention", "--model", graph_parser, "notes.txt", "--limit", "1", "--output")
    run(*arguments, "first.png")
    run(*arguments, "same.png", "--layer", "2", "--head", "1")
    run(*arguments, "other.png", "--layer", "1", "--head", "2")
    pictures("first.png", "other.png")
    contents = [Path(name).read_bytes() for name in ("first.png", "same.png", "other.png")]
    assert contents[0] == contents[1] != contents[2]


@pytest.mark.slow
def test_attention_of_several_models(run, fail, monkeypatch, graph_parser, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(graph_parser)
    new_pushdown(tmp_path / "pushdown", tokenizer)
    new_gilt(tmp_path / "plain", tokenizer, graph_layers=0)
    drawn = []
    monkeypatch.setattr(figures, "plot_attention", lambda panels: drawn.append(panels) or plot_attention(panels))
    models = [f"--model={name}" for name in (f"GiLT={graph_parser}", "pushdown", "plain")]
    run("render", "--kind", "attention", *models, "-", "--output", "three.svg", stdin="the cat saw a dog\n")
    assert Path("three.svg").read_text().count("<svg") == 1
    assert [panel.title for panel in drawn[0]] == [
        f"{name}\nlayer 2, head 1" for name in ("GiLT", "pushdown", "plain")
    ]
    sentence = "the cat saw a dog"
    for panel, name in zip(drawn[0], (graph_parser, "pushdown", "plain"), strict=True):
        expected = sentence_attention(sentence, name).panel(panel.title.partition("\n")[0])
        assert panel == expected
    assert [panel.arcs is None for panel in drawn[0]] == [False, True, True]
    assert [panel.spans is None for panel in drawn[0]] == [True, False, True]
    run("render", "--kind", "attention", "--model", "pushdown", "notes.txt", "--limit", "1", "--output", "one.svg")
    assert [panel.title.partition("\n")[0] for panel in drawn[1]] == ["pushdown with its tree", "pushdown without"]
    assert drawn[1][1].spans is None is not drawn[1][0].spans
    run("render", "--kind", "attention", "--model", "plain", "notes.txt", "--limit", "1", "--output", "plain.svg")
    assert [panel.title for panel in drawn[2]] == ["plain\nlayer 2, head 1"]
    call = ["render", "--kind", "attention", "notes.txt", "--output", "out.svg"]
    assert "GiLT: there is no layer 9: the model has 2" in fail(*call, *models, "--layer", "9")[0]
    assert "plain is given twice" in fail(*call, "--model", "plain", "--model", "x=plain")[0]
    Path("empty.txt").write_text("")
    assert "empty.txt has no sentence to draw" in fail(*call[:3], "empty.txt", *call[4:], "--model", "plain")[0]


def test_circuits(run, monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, "plot_circuits", lambda scores: drawn.append(scores) or plot_circuits(scores))
    several = {"GiLT": {"Agreement": 0.5, "Other": 1}, "TXL": {"Agreement": 0.25}}
    _file("several.json", json.dumps(several))
    _file("results.json", json.dumps({"model": "x", "circuits": {"Licensing": 0.75}, "overall": {"with_other": None}}))
    run("render", "--kind", "circuits", "several.json", "GPT-2=results.json", "results.json", "--output", "bars.png")
    results = {"Licensing": 0.75}
    assert drawn == [several | {"GPT-2": results, "results": results}]
    pictures("bars.png")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["graph"], "a FILE is needed"),
        (["trees", "gold.conllu", "--annotation", "basic"], "--annotation is for --kind graph and tapes only"),
        (["tapes", "gold.sdp", "--output", "out.png", "--layer", "1"], "--layer is for --kind attention only"),
        (["tapes", "notes.txt", "--output", "out.png", "--annotation", "basic"], "but notes.txt is read as text"),
        (["attention", "notes.txt", "--output", "out.png", "--layer", "3"], "there is no layer 3: the model has 2"),
        (
            ["tapes", "notes.txt", "--output", "out.png", "--model", "x"],
            "one --model; several are for --kind attention",
        ),
        (["circuits", "--output", "out.png"], "--kind circuits needs a FILE of scores"),
        (["circuits", "bad.json", "--output", "out.png"], "bad.json holds neither results of run_sg.py nor"),
        (["circuits", "list.json", "--output", "out.png"], "list.json holds neither"),
        (["circuits", "notes.txt", "--output", "out.png"], "notes.txt: not JSON"),
        (["circuits", "ok.json", "x=ok.json", "--output", "out.png"], "two models are called 'm'"),
        (["circuits", "ok.json", "--output", "out.png", "--limit", "1"], "--kind circuits takes no --limit"),
        (["circuits", "high.json", "--output", "out.png"], "the score of m for Agreement is 50, not between 0 and 1"),
    ],
)
def test_render_refuses(fail, run, graph_parser, arguments, message):
    _file("bad.json", '{"circuits": [1]}')
    _file("list.json", "[]")
    _file("ok.json", '{"m": {"Agreement": 0.5}}')
    _file("high.json", '{"m": {"Agreement": 50}}')
    kind, *rest = arguments
    assert message in fail("render", "--kind", kind, "--model", graph_parser, *rest)[0]
    assert not list(Path().glob("out*"))


def test_graphs_of_json_and_mrp_are_evaluated(run):
    anchors = [{"id": id, "anchors": [{"from": 2 * id, "to": 2 * id + 1}]} for id in range(2)]
    _file(
        "gold.mrp", json.dumps({"input": "a b", "tops": [1], "nodes": anchors, "edges": [{"source": 1, "target": 0}]})
    )
    _file("system.jsonl", json.dumps({"words": ["a", "b"], "arcs": [[0, 2]]}))
    scores = json.loads(run("evaluate", "gold.mrp", "system.jsonl", "--json"))
    assert (scores["precision"], scores["recall"]) == (1.0, 0.5)
