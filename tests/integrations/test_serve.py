"""The HTTP server, asked over a socket."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

import pytest
from tiny_models import new_gilt, unigram_tokenizer

from hf_structure import Parser, parse, score
from hf_structure.cli.main import main

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import uvicorn

from hf_structure.integrations.serve import make_app

WORDS = [["The", "cat", "ca", "n't", "sleep", "."], ["Dogs", "chase", "cats", "do"]]
TEXTS = ["The cat slept. Dogs chase cats.", "", "Nobody left."]
Ask = Callable[..., tuple[int, str]]


@contextmanager
def serving(*arguments, **limits) -> Iterator[Ask]:
    """`with serving(parser, scorer) as ask`: `ask(path, body)` gives status and text of an answer."""
    server = uvicorn.Server(uvicorn.Config(make_app(*arguments, **limits), port=0, log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.01)
    address = server.servers[0].sockets[0].getsockname()

    def ask(path: str, body: object = None) -> tuple[int, str]:
        connection = HTTPConnection(*address, timeout=60)
        data = body if isinstance(body, bytes) else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, None if body is None else data)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    try:
        yield ask
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def parser(rng_transformer) -> Parser:
    return Parser(rng_transformer, sentences="auto", max_words=20)


@pytest.fixture(scope="module")
def gilt(tmp_path_factory) -> Path:
    return new_gilt(tmp_path_factory.mktemp("gilt"), unigram_tokenizer(WORDS))


@pytest.fixture(scope="module")
def scorer(gilt) -> Callable:
    return partial(score, model=gilt)


@pytest.fixture(scope="module")
def ask(parser, scorer) -> Iterator[Ask]:
    with serving(parser, scorer, max_bytes=10_000) as ask:
        yield ask


def test_parse(ask, rng_transformer):
    status, text = ask("/parse", {"inputs": TEXTS})
    assert status == 200
    assert json.loads(text) == parse(TEXTS, rng_transformer, sentences="auto").to_dict()
    assert ask("/parse", {"inputs": []}) == (200, "[]")


def test_score(ask, scorer):
    status, text = ask("/score", {"inputs": ["Dogs chase cats.", "The cat."]})
    assert status == 200
    assert [found["log_prob"] for found in json.loads(text)] == pytest.approx(
        [found.log_prob for found in scorer(["Dogs chase cats.", "The cat."])]
    )


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/parse", b"{", 400, "must be JSON"),
        ("/parse", b"\xff", 400, "must be JSON"),
        ("/parse", b"[" * 9000, 400, "must be JSON"),
        ("/parse", [], 400, "list of strings"),
        ("/parse", {"inputs": "Dogs."}, 400, "list of strings"),
        ("/parse", {"inputs": [3]}, 400, "list of strings"),
        ("/parse", {"inputs": ["Dogs. " * 2000]}, 413, "more than 10000 bytes"),
        ("/parse", {"inputs": ["cat " * 21]}, 422, "21 words"),
        ("/score", {"inputs": ["cat " * 21]}, 422, "sentence 1: 21 words, of which there may be 20"),
        ("/score", {"inputs": ["Dogs.", ""]}, 422, "sentence 2: a sentence without words"),
        ("/nothing", {"inputs": []}, 404, "Not Found"),
    ],
)
def test_bad_requests_say_why(ask, path, body, status, message):
    found, text = ask(path, body)
    assert found == status
    assert message in text


def test_health_and_metrics(ask):
    assert ask("/health") == (200, '{"status":"ok"}')
    ask("/parse", {"inputs": ["Dogs."]})
    status, text = ask("/metrics")
    assert status == 200
    assert 'hf_structure_requests_total{path="/parse",status="200"} ' in text
    assert 'hf_structure_waiting_requests{path="/score"} 0\n' in text


class Gate:
    """A scorer that waits until the gate is open, and keeps the batches that it got."""

    def __init__(self):
        self.batches: list[list[str]] = []
        self.entered = threading.Event()
        self.opened = threading.Event()

    def __call__(self, sentences: list[str]) -> list:
        self.batches.append(sentences)
        self.entered.set()
        assert self.opened.wait(60)
        if "bad" in sentences:
            raise ValueError("bad is bad")
        return [Named(sentence) for sentence in sentences]


class Named(str):
    def to_dict(self) -> str:
        return str(self)


def test_requests_that_wait_are_computed_together_and_fail_alone(parser):
    gate = Gate()
    texts = [f"text {number}" for number in range(20)]
    with serving(parser, gate) as ask, ThreadPoolExecutor(30) as clients:
        first = clients.submit(ask, "/score", {"inputs": ["first"]})
        gate.entered.wait()
        others = [clients.submit(ask, "/score", {"inputs": [text, text]}) for text in texts]
        failing = clients.submit(ask, "/score", {"inputs": ["bad"]})
        while 'waiting_requests{path="/score"} 21' not in ask("/metrics")[1]:
            pass
        gate.opened.set()
        assert first.result() == (200, '["first"]')
        for text, answer in zip(texts, others, strict=True):
            assert json.loads(answer.result()[1]) == [text, text]
        assert failing.result() == (422, '{"error":"bad is bad"}')
    assert gate.batches[0] == ["first"]
    assert len(gate.batches[1]) == 41
    assert [len(batch) for batch in gate.batches[2:]].count(1) == 1


def test_limits_of_time_and_of_waiting_requests(parser):
    gate = Gate()
    with serving(parser, gate, timeout=0.5, max_waiting=1) as ask, ThreadPoolExecutor(2) as clients:
        first = clients.submit(ask, "/score", {"inputs": ["first"]})
        gate.entered.wait()
        assert first.result() == (504, '{"error":"no answer within 0.5 seconds"}')
        second = clients.submit(ask, "/score", {"inputs": ["second"]})
        while 'waiting_requests{path="/score"} 1' not in ask("/metrics")[1]:
            pass
        assert ask("/score", {"inputs": ["third"]})[0] == 503
        assert second.result()[0] == 504
        gate.opened.set()
    assert ["second"] not in gate.batches


def test_command(rng_transformer, gilt, monkeypatch):
    started = []
    monkeypatch.setattr(uvicorn, "run", lambda app, **options: started.append(options))
    command = ["serve", "--model", str(rng_transformer), "--scorer", str(gilt), "--port", "8001"]
    main(command)
    assert [(options["host"], options["port"]) for options in started] == [("127.0.0.1", 8001)]
    with pytest.raises(SystemExit, match="--sentences line is not for them"):
        main([*command, "--sentences", "line"])
    with pytest.raises(SystemExit, match="holds no model"):
        main([*command, "--scorer", str(gilt.parent)])
    assert len(started) == 1
