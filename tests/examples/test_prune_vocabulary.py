import random

import pytest
import torch
from running import load_script
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    TokenizersBackend,
)

import hf_structure
from hf_structure import G2GTransformerConfig, G2GTransformerForParsing

script = load_script("prune_vocabulary")

LETTERS = "abcdefghijklmnopqrstuvwxyzé"
WORDS = ["the", "dog", "sees", "see", "cat", "walk", "##ing", "##s", "##ed", "un"]
SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


@pytest.fixture(scope="module")
def tokenizer():
    # As in BERT, the special tokens are not the first and have other pieces between them.
    pieces = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "日"]
    pieces += [*LETTERS, *(f"##{letter}" for letter in LETTERS), *WORDS]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    )
    backend.enable_truncation(6)  # such as checkpoints of sentence encoders come with
    backend.enable_padding(length=6)
    return TokenizersBackend(tokenizer_object=backend, **SPECIAL)


def encoder(kind, size):
    torch.manual_seed(0)
    if kind == "bert":
        sizes = {"num_hidden_layers": 3, "num_attention_heads": 2, "hidden_size": 8, "intermediate_size": 16}
        return BertModel(BertConfig(vocab_size=size, pad_token_id=0, **sizes)).eval()
    return DistilBertModel(DistilBertConfig(vocab_size=size, n_layers=3, n_heads=2, dim=8, hidden_dim=16)).eval()


@pytest.fixture(scope="module", params=["bert", "distilbert"])
def folder(request, tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    encoder(request.param, len(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the dog sees the cat\nthe dog walking\nthe café dog\n")
    return path


def prune(folder, text, tmp_path, *options):
    output = tmp_path / "pruned"
    script.main([str(folder), "--text", str(text), "--output_dir", str(output), *map(str, options)])
    return AutoModel.from_pretrained(output).eval(), AutoTokenizer.from_pretrained(output)


@torch.no_grad()
def test_sentences_of_kept_pieces_are_encoded_as_before(folder, text, tmp_path, capsys):
    model, tokenizer = prune(folder, text, tmp_path, "--vocab_size", 67, "--num_layers", 2)
    assert "64 of 70 pieces, 100.00% of the text's" in capsys.readouterr().out
    old_model, old_tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    sentence = "The dog sees the cat walking near the café"
    old, new = (
        one(sentence, return_tensors="pt", truncation=False, padding=False) for one in (old_tokenizer, tokenizer)
    )
    tokens = tokenizer.convert_ids_to_tokens(new["input_ids"][0])
    assert tokens == old_tokenizer.convert_ids_to_tokens(old["input_ids"][0])
    assert (tokens[0], tokens[-1]) == ("[CLS]", "[SEP]")
    assert model.config.num_hidden_layers == 2
    states = old_model(old["input_ids"], old["attention_mask"], output_hidden_states=True).hidden_states[2]
    torch.testing.assert_close(model(new["input_ids"], new["attention_mask"]).last_hidden_state, states)


def test_words_whose_pieces_are_gone_are_spelt(folder, text, tmp_path):
    _, tokenizer = prune(
        folder, text, tmp_path, "--vocab_size", 63
    )  # room for the special tokens, letters and 3 pieces
    assert tokenizer.tokenize("the dog") == ["the", "dog"]
    rng = random.Random(0)
    for _ in range(20):
        word = "".join(rng.choices(LETTERS[:-1], k=5))
        assert "".join(tokenizer.tokenize(word)).replace("##", "") == word
    assert tokenizer.tokenize("é") == ["[UNK]"], "the text has it inside words only"
    assert tokenizer.tokenize("fé") == ["f", "##é"]
    assert tokenizer.tokenize("日") == ["[UNK]"], "the text does not have it"


@pytest.fixture(scope="module")
def parser_folder(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parser")
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    sizes |= {"classifier_hidden_size": 8, "history_size": 4, "max_position_embeddings": 32}
    special = {"pad_token_id": tokenizer.pad_token_id, "unk_token_id": tokenizer.unk_token_id}
    vocab_size = max(tokenizer.get_vocab().values()) + 1
    config = G2GTransformerConfig(vocab_size=vocab_size, id2label={0: "det", 1: "nsubj"}, **sizes, **special)
    torch.manual_seed(0)
    G2GTransformerForParsing(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_trained_parser_parses_as_before(parser_folder, text, tmp_path):
    model, _ = prune(parser_folder, text, tmp_path, "--vocab_size", 63)
    assert (model.config.vocab_size, model.config.unk_token_id) == (63, 1)
    words = ["the", "dog", "sss", "the"]
    old, new = (hf_structure.parse([words], model=str(folder))[0] for folder in (parser_folder, tmp_path / "pruned"))
    assert new.dependency.heads == old.dependency.heads
    assert new.dependency.labels == old.dependency.labels
    assert new.dependency.log_probability == pytest.approx(old.dependency.log_probability, abs=1e-5)


def test_a_trained_parser_keeps_its_layers(parser_folder, text, tmp_path, capsys):
    with pytest.raises(SystemExit):
        prune(parser_folder, text, tmp_path, "--vocab_size", 63, "--num_layers", 1)
    assert "a trained parser needs its layers as they are" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--vocab_size", "20"], "--vocab_size 20 is too small: 58 pieces are needed for spelling alone"),
        (["--vocab_size", "70", "--num_layers", "4"], "--num_layers 4: the encoder has 3 layers"),
        (["--coverage", "95"], "--coverage 95.0: a share of the text is needed, above 0 and at most 1"),
        (["--coverage", "0.9", "--vocab_size", "70"], "not allowed with argument"),
        ([], "one of the arguments --vocab_size --coverage is required"),
    ],
    ids=["vocabulary", "layers", "coverage", "both", "neither"],
)
def test_impossible_sizes(folder, text, tmp_path, capsys, options, message):
    with pytest.raises(SystemExit):
        prune(folder, text, tmp_path, *options)
    assert message in capsys.readouterr().err


def test_full_folders_are_left_alone(folder, text, tmp_path, capsys):
    (tmp_path / "pruned").mkdir()
    (tmp_path / "pruned" / "file").touch()
    with pytest.raises(SystemExit):
        prune(folder, text, tmp_path, "--vocab_size", 70)
    assert "pruned is not empty" in capsys.readouterr().err


def test_text_without_words(folder, tmp_path, capsys):
    (tmp_path / "empty.txt").touch()
    with pytest.raises(SystemExit):
        prune(folder, tmp_path / "empty.txt", tmp_path, "--vocab_size", 70)
    assert "empty.txt: no words" in capsys.readouterr().err
    assert not (tmp_path / "pruned").exists()


def test_other_vocabularies_are_refused(text, tmp_path, capsys):
    backend = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    TokenizersBackend(tokenizer_object=backend, unk_token="[UNK]").save_pretrained(tmp_path / "words")
    with pytest.raises(SystemExit):
        prune(tmp_path / "words", text, tmp_path, "--vocab_size", 70)
    assert "words has no WordPiece or unigram vocabulary" in capsys.readouterr().err


# unigram vocabularies

PERSIAN = "می\u200cروم"  # with a zero-width non-joiner
PIECES = ["▁the", "▁Dog", "▁dog", "s", "▁see", "▁s", "ee", "▁می", "▁روم", "▁cat", "Ca", "ts"]


@pytest.fixture(scope="module")
def unigram(tmp_path_factory):
    """Folder of a BERT whose pieces have scores, as those of XLM-RoBERTa, more embeddings than pieces, and case."""
    letters = sorted({*"".join(PIECES), *"▁abcdefghijklmnopqrstuvwxyzC日本"} - {"s"})
    special = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
    pieces = [*special, *((piece, -1.0 - number / 8) for number, piece in enumerate(PIECES))]
    pieces += [(letter, -8.0 - number / 64) for number, letter in enumerate(letters)]
    backend = Tokenizer(models.Unigram(pieces, unk_id=3))
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    folder = tmp_path_factory.mktemp("unigram")
    names = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>"}
    TokenizersBackend(tokenizer_object=backend, unk_token="<unk>", **names).save_pretrained(folder)
    encoder("bert", len(pieces) + 3).save_pretrained(folder)
    return folder


@pytest.fixture
def texts(tmp_path):
    """A long text, and a short one of another language."""
    (tmp_path / "en.txt").write_text("the Dog sees the cat\n" * 50)
    (tmp_path / "fa.txt").write_text("می روم\n")
    return [str(tmp_path / "en.txt"), str(tmp_path / "fa.txt")]


def prune_unigram(folder, texts, tmp_path, *options):
    output = tmp_path / "pruned"
    script.main([str(folder), "--text", *texts, "--output_dir", str(output), *map(str, options)])
    return AutoTokenizer.from_pretrained(output)


@torch.no_grad()
def test_unigram_text_of_kept_pieces_is_cut_as_before(unigram, texts, tmp_path):
    pruned = prune_unigram(unigram, texts, tmp_path, "--coverage", 1)
    full = AutoTokenizer.from_pretrained(unigram)
    kept = pruned.get_vocab()
    assert {"▁the", "▁Dog", "▁می", "▁cat", "<s>", "<unk>"} <= kept.keys()
    assert kept.keys().isdisjoint({"▁dog", "Ca", "日"})
    rng = random.Random(0)
    words = ["the", "Dog", "Dogs", "see", "sees", "cats", "می", "روم", "thesee", "xyz", "ee", "se"]
    same = 0
    for _ in range(200):
        sentence = " ".join(rng.choices(words, k=4))
        pieces = full.tokenize(sentence)
        if kept.keys() >= {*pieces}:
            same += 1
            assert pruned.tokenize(sentence) == pieces
    assert same > 50
    old, new = (one("the Dog sees", return_tensors="pt")["input_ids"] for one in (full, pruned))
    models = [AutoModel.from_pretrained(folder).eval() for folder in (unigram, tmp_path / "pruned")]
    assert models[1].config.vocab_size == len(pruned) < len(full)
    torch.testing.assert_close(models[1](new).last_hidden_state, models[0](old).last_hidden_state)


def test_unigram_words_whose_pieces_are_gone_are_spelt(unigram, texts, tmp_path):
    tokenizer = prune_unigram(unigram, texts, tmp_path, "--coverage", 1)
    assert tokenizer.tokenize("dog") == ["▁", "d", "o", "g"]
    assert tokenizer("日")["input_ids"][2] == tokenizer.unk_token_id, "the texts do not have it"


def test_each_file_is_covered(unigram, texts, tmp_path):
    kept = prune_unigram(unigram, texts, tmp_path, "--coverage", 0.5).get_vocab()
    assert {"▁the", "▁می"} <= kept.keys()
    assert "▁see" not in kept
    (tmp_path / "by size").mkdir()
    kept = prune_unigram(unigram, texts, tmp_path / "by size", "--vocab_size", len(kept)).get_vocab()
    assert "▁see" in kept
    assert "▁می" not in kept


def test_invisible_characters_are_spaces(unigram, texts, tmp_path):
    full = AutoTokenizer.from_pretrained(unigram)
    assert full.unk_token_id in full(PERSIAN)["input_ids"]
    tokenizer = prune_unigram(unigram, texts, tmp_path, "--coverage", 1)
    assert tokenizer.tokenize(PERSIAN) == ["▁می", "▁روم"]
    encoding = tokenizer(["the", PERSIAN, "cat"], is_split_into_words=True, add_special_tokens=False)
    assert encoding.word_ids() == [0, 1, 1, 2]
