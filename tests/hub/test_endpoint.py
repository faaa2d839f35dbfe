"""The handler of a published model, imported in a fresh process as Inference Endpoints do."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from parsers import new_parser
from tiny_models import new_gilt, new_gpt2, unigram_tokenizer

from hf_structure import parse, score
from hf_structure.cli.main import main
from hf_structure.hub.endpoint import write_handler

WORDS = [["The", "cat", "ca", "n't", "sleep", "."], ["Dogs", "chase", "cats", "do"]]
TEXT = "The cat sleeps. Dogs chase cats."
SENTENCES = ["The cat sleeps.", "Dogs chase cats."]
CODE = """
import json
import sys

sys.path.insert(0, sys.argv[1])
from handler import EndpointHandler

for folder, requests in json.loads(sys.argv[2]).items():
    handler = EndpointHandler(folder)
    for request in requests:
        try:
            print(json.dumps(handler(request)))
        except ValueError as error:
            print(json.dumps(f"error: {error}"))
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    """A parser, a language model with structures, and one without."""
    gilt = new_gilt(tmp_path_factory.mktemp("gilt"), unigram_tokenizer(WORDS))
    gpt2 = new_gpt2(tmp_path_factory.mktemp("gpt2"), SENTENCES)
    return {"parser": new_parser(tmp_path_factory.mktemp("models") / "parser"), "gilt": gilt, "gpt2": gpt2}


@pytest.fixture(scope="module")
def answers(models, tmp_path_factory) -> dict[str, list]:
    folder = tmp_path_factory.mktemp("published")
    write_handler(folder)
    requests = {str(models[name]): list(asked) for name, asked in REQUESTS.items()}
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(folder), json.dumps(requests)], capture_output=True, text=True, check=True
    )
    lines = iter(done.stdout.splitlines())
    return {name: [json.loads(next(lines)) for _ in asked] for name, asked in REQUESTS.items()}


REQUESTS = {
    "parser": [
        {"inputs": TEXT},
        {"inputs": SENTENCES, "parameters": {"sentences": "line", "k": 2}},
        {"inputs": TEXT, "task": "draw"},
        {"inputs": TEXT, "parameters": {"k": 0}},
        {"inputs": ""},
        {},
    ],
    "gilt": [{"inputs": TEXT}, {"inputs": SENTENCES, "task": "score", "parameters": {"beam_size": 2}}],
    "gpt2": [{"inputs": "The cat sleeps."}, {"inputs": TEXT, "task": "parse"}],
}


def as_json(value: object) -> object:
    return json.loads(json.dumps(value))


def test_parser(answers, models):
    found, best = answers["parser"][:2]
    assert found == as_json(parse(TEXT, models["parser"], sentences="auto").to_dict())
    assert best == as_json(parse(SENTENCES, models["parser"], sentences="line", k=2).to_dict())
    assert [len(parsed["alternatives"]) for parsed in best] == [2, 2]


def test_language_models(answers, models):
    graphs, scores = answers["gilt"]
    assert graphs == as_json(parse(TEXT, models["gilt"], sentences="auto").to_dict())
    assert scores == as_json([each.to_dict() for each in score(SENTENCES, models["gilt"], beam_size=2)])
    assert answers["gpt2"][0] == as_json(score("The cat sleeps.", models["gpt2"]).to_dict())


def test_bad_requests_say_why(answers):
    task, option, empty, nothing = answers["parser"][2:]
    assert task == "error: task must be parse or score, not 'draw'"
    assert option == "error: k must be at least 1, not 0"
    assert empty == nothing == 'error: the request has no "inputs": give a text, or a list of them'
    assert answers["gpt2"][1].startswith("error: ")


def test_publish_adds_it(models, hub, capsys, tmp_path):
    command = ["publish", str(models["parser"]), "org/parser", "--license", "mit"]
    main(command)
    assert "handler.py" not in hub.repositories["org/parser"].head().files
    main([*command, "--handler"])
    files = hub.repositories["org/parser"].head().files
    assert b"class EndpointHandler" in files["handler.py"]
    assert files["requirements.txt"].startswith(b"hf_structure>=")


def test_own_handler_is_kept(models, tmp_path, udgn):
    (udgn / "handler.py").write_text("mine = True\n")
    with pytest.raises(SystemExit, match=r"the model comes with handler\.py already: leave --handler out"):
        main(["publish", str(udgn), "org/parser", "--license", "mit", "--handler", "--dry_run"])
