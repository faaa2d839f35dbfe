"""Exported encoders in sentence-transformers."""

import json
from itertools import compress

import pytest
import torch
from tiny_models import (
    new_g2g_transformer,
    new_gilt,
    new_rng_transformer,
    new_structformer,
    new_udgn,
    unigram_tokenizer,
)
from torch.testing import assert_close
from transformers import AutoModel

from hf_structure import build_word_tokenizer
from hf_structure.cli.main import main
from hf_structure.integrations.sentence_transformers import write_modules
from hf_structure.modules.classification import mean_of_words
from hf_structure.parsing.encoding import seen_mask
from hf_structure.text.words import tokenize_words

TEXTS = ["The cat, that chased the mouse, didn't sleep.", "Dogs sleep!"]
WORDS = [tokenize_words(text) for text in TEXTS]
ENCODERS = {
    "udgn": new_udgn,
    "structformer": new_structformer,
    "g2g_transformer": new_g2g_transformer,
    "rng_transformer": new_rng_transformer,
}


def new_tokenizer(family: str):
    if family in ("rng_transformer", "gilt"):
        return unigram_tokenizer(WORDS)
    return build_word_tokenizer(sorted({word.lower() for words in WORDS for word in words}))


@pytest.mark.parametrize("family", ENCODERS)
def test_vectors_are_means_of_words(family, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    torch.manual_seed(0)
    tokenizer = new_tokenizer(family)
    folder = ENCODERS[family](tmp_path / "model", tokenizer)
    main(["export", str(folder), str(tmp_path / "out"), "--sentence_transformers"])
    encoder = library.SentenceTransformer(str(tmp_path / "out"), trust_remote_code=True, device="cpu")
    found = encoder.encode(TEXTS, convert_to_tensor=True)
    model = AutoModel.from_pretrained(folder).eval()
    for vector, text, words in zip(found, TEXTS, WORDS, strict=True):
        # Models of words do not see punctuation; those of word pieces read the text as it is.
        seen = text if family == "rng_transformer" else list(compress(words, seen_mask(words, tokenizer)))
        inputs = tokenizer(seen, is_split_into_words=seen is not text, return_tensors="pt")
        with torch.no_grad():
            states = model(inputs["input_ids"], inputs["attention_mask"]).last_hidden_state
        assert_close(vector, mean_of_words(states, inputs["attention_mask"])[0])
    assert found.shape[1] == encoder.get_embedding_dimension() == model.config.hidden_size
    assert not torch.allclose(found[0], found[1])


def test_language_models_are_no_encoders(tmp_path):
    folder = new_gilt(tmp_path / "model", new_tokenizer("gilt"))
    with pytest.raises(SystemExit, match="gilt is no encoder"):
        main(["export", str(folder), str(tmp_path / "out"), "--sentence_transformers"])
    assert not (tmp_path / "out").exists()


def test_publish_with_the_files_of_the_library(tmp_path, capsys):
    folder = new_udgn(tmp_path / "model", new_tokenizer("udgn"))
    main(f"publish {folder} org/udgn --license mit --sentence_transformers --dry_run".split())
    printed = capsys.readouterr().out
    for name in ("1_Pooling/config.json", "modules.json", "sentence_bert_config.json", "modeling_udgn.py"):
        assert f"  {name}\n" in printed
    main(["export", str(folder), str(folder), "--force", "--sentence_transformers"])
    write_modules(folder)  # where these files are already
    assert json.loads((folder / "1_Pooling" / "config.json").read_text())["pooling_mode"] == "mean"
