"""Models at half their size."""

import json

from tiny_models import new_rng_transformer
from transformers import AutoConfig, AutoTokenizer

from hf_structure import AutoModelForDependencyParsing, build_word_tokenizer
from hf_structure.hub.compact import save_compact


def test_more_than_ten_labels_keep_their_order(tmp_path):
    labels = {number: f"label{number}" for number in range(12)}
    folder = new_rng_transformer(tmp_path / "parser", build_word_tokenizer(["a", "b"]), id2label=labels)
    parser, tokenizer = AutoModelForDependencyParsing.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    save_compact(parser, tokenizer, tmp_path / "compact")
    saved = json.loads((tmp_path / "compact" / "config.json").read_text("utf-8"))
    assert list(saved["id2label"]) == list(map(str, labels))
    assert list(AutoConfig.from_pretrained(tmp_path / "compact").id2label.items()) == list(labels.items())
