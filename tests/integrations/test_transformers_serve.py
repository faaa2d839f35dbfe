"""A language model behind the server of transformers."""

import json
import threading
from http.client import HTTPConnection

import pytest
import transformers
from tiny_models import new_gilt, unigram_tokenizer
from transformers.utils.import_utils import is_serve_available

from hf_structure import GiLTForCausalLM, export

if not is_serve_available():
    pytest.skip("transformers[serving] is not installed", allow_module_level=True)

from transformers.cli.serve import Serve

SENTENCES = [["The", "cat", "ca", "n't", "sleep", "."], ["Dogs", "chase", "cats", "do"]]


@pytest.fixture
def folder(tmp_path) -> str:
    """An exported model."""
    tokenizer = unigram_tokenizer(SENTENCES)
    export(new_gilt(tmp_path / "model", tokenizer, bos_token_id=tokenizer.bos_token_id), tmp_path / "out")
    return str(tmp_path / "out")


def test_completions_need_the_class_by_name(folder, monkeypatch):
    with pytest.raises(AttributeError, match="has no attribute GiLTForCausalLM"):
        Serve(folder, device="cpu", trust_remote_code=True)
    monkeypatch.setattr(transformers, "GiLTForCausalLM", GiLTForCausalLM, raising=False)
    server = Serve(folder, device="cpu", port=0, non_blocking=True)
    try:
        while not server.server.started:
            threading.Event().wait(0.01)
        address = server.server.servers[0].sockets[0].getsockname()[:2]
        connection = HTTPConnection(*address, timeout=60)
        body = json.dumps({"model": folder, "prompt": "The cat", "max_tokens": 3})
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200
        content = json.loads(answer.read())
        assert content["object"] == "text_completion"
        assert content["usage"]["completion_tokens"] <= 3
    finally:
        server.kill_server()
