"""The MCP server, asked by the SDK's client from another process."""

import json
import os
import sys
from functools import partial

import pytest
from tiny_models import new_gilt, unigram_tokenizer

from hf_structure import parse, score

pytest.importorskip("mcp")

import anyio
from mcp import Client, StdioServerParameters, stdio_client

WORDS = [["The", "cat", "ca", "n't", "sleep", "."], ["Dogs", "chase", "cats", "do"]]
TEXT = "The cat slept. Dogs chase cats."


@pytest.fixture(scope="module")
def gilt(tmp_path_factory):
    return new_gilt(tmp_path_factory.mktemp("gilt"), unigram_tokenizer(WORDS))


@pytest.fixture(scope="module")
def answers(rng_transformer, gilt) -> dict:
    """Answers of one server to good and bad calls, by the names of the calls, and `tools`."""
    # The SDK itself passes only a few variables on.
    command = ["-m", "hf_structure", "mcp", "--model", str(rng_transformer), "--scorer", str(gilt), "--device", "cpu"]
    server = StdioServerParameters(command=sys.executable, args=[*command, "--max_words", "20"], env=dict(os.environ))
    return anyio.run(partial(ask, server))


CALLS = {
    "parse": ("parse", {"text": TEXT}),
    "score": ("score", {"sentences": ["The cats sleep.", "Dogs."]}),
    "compare": ("compare", {"first": "The cats sleep.", "second": "Dogs."}),
    "same": ("compare", {"first": "Dogs.", "second": "Dogs."}),
    "empty text": ("parse", {"text": " \n"}),
    "long sentence": ("parse", {"text": "cat " * 21}),
    "number": ("parse", {"text": 3}),
    "no argument": ("parse", {}),
    "no sentences": ("score", {"sentences": []}),
    "empty sentence": ("score", {"sentences": ["Dogs.", ""]}),
    "long sentence to score": ("score", {"sentences": ["Dogs.", "cat " * 21]}),
    "string": ("score", {"sentences": "Dogs."}),
    "half a pair": ("compare", {"first": "Dogs."}),
    "after all that": ("parse", {"text": TEXT}),
}


async def ask(server: StdioServerParameters) -> dict:
    async with Client(stdio_client(server)) as client:
        found: dict = {name: await client.call_tool(*call) for name, call in CALLS.items()}
        return found | {"tools": (await client.list_tools()).tools}


def test_tools_are_described(answers):
    assert [tool.name for tool in answers["tools"]] == ["parse", "score", "compare"]
    for tool in answers["tools"]:
        assert len(tool.description) > 100
        assert set(tool.input_schema["required"]) == set(tool.input_schema["properties"])
        assert tool.output_schema


@pytest.mark.parametrize("name", ["parse", "after all that"])
def test_parse(answers, rng_transformer, name):
    found = answers[name].structured_content["result"]
    assert found == parse(TEXT, rng_transformer, sentences="auto").to_dict()
    assert [sentence["text"] for sentence in found] == ["The cat slept.", "Dogs chase cats."]


def test_score(answers, gilt):
    expected = [found.to_dict() for found in score(["The cats sleep.", "Dogs."], gilt)]
    assert answers["score"].structured_content["result"] == json.loads(json.dumps(expected))


def test_compare(answers, gilt):
    first, second = score(["The cats sleep.", "Dogs."], gilt)
    found = answers["compare"].structured_content
    assert found["difference"] == pytest.approx(first.log_prob - second.log_prob)
    assert found["likelier"] == ("first" if first.log_prob > second.log_prob else "second")
    assert found["second"]["words"] == ["Dogs", "."]
    same = answers["same"].structured_content
    assert (same["likelier"], same["difference"]) == ("neither", 0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("empty text", "the text is empty"),
        ("long sentence", "21 words"),
        ("number", "valid string"),
        ("no argument", "Field required"),
        ("no sentences", "there are no sentences"),
        ("empty sentence", "sentence 2: a sentence without words"),
        ("long sentence to score", "sentence 2: 21 words, of which there may be 20"),
        ("string", "valid list"),
        ("half a pair", "Field required"),
    ],
)
def test_bad_input_is_an_error_that_says_why(answers, name, message):
    assert answers[name].is_error
    assert message in answers[name].content[0].text
