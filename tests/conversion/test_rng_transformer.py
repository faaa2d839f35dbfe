"""RNGTr and SynTr: converted files give what the formulas give under the names of the authors' code."""

import original_rng
import pytest
import torch
from convert.conversion import convert
from convert.released_rng_transformer import ReleasedRNGTransformerConfig
from huggingface_hub.errors import StrictDataclassError
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.testing import assert_close
from transformers import TokenizersBackend

import hf_structure

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "dog", "##s", "bark", "##ing", "."]
TAGS, RELS = ["<ROOT>", "DT", "NN"], ["<ROOT>", "det", "nsubj"]
ADDED = ["<t>:<ROOT>", "<t>:DT", "<t>:NN", "<ROOT>", "..."]
SIZE, LABELS = len(PIECES) + len(ADDED), len(RELS) + 3
NUMBERS = {token: len(PIECES) + i for i, token in enumerate(ADDED)}
# the dog ##s bark ##ing: three words, two of which have two pieces
IDS, WORD_IDS, WORD_TAGS = [4, 5, 6, 7, 8], [0, 1, 1, 2, 2], ["DT", "NN", "NN"]
FIRSTS = {0: 1, 1: 2, 2: 3, 3: 5}  # the root's and the words' positions


@pytest.fixture
def files(tmp_path):
    """The pickled vocabulary, and a folder with the tokenizer of the BERT."""
    torch.save(original_rng.Vocab(RELS, TAGS, NUMBERS), tmp_path / "vocab.tag")
    vocabulary = {piece: i for i, piece in enumerate(PIECES)}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    marks = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    TokenizersBackend(tokenizer_object=backend, **marks).save_pretrained(tmp_path / "bert")
    return {"dictionary": tmp_path / "vocab.tag", "tokenizer": tmp_path / "bert"}


def network(relations):
    torch.manual_seed(1)
    model = original_rng.Network(original_rng.Bert(SIZE, 8, 2, 12, 2, relations), 8, LABELS)
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, mean=float("LayerNorm.weight" in name), std=0.5)
    return model.eval()


def saved(path, **networks):
    weights = {f"{name}.{key}": value for name, model in networks.items() for key, value in model.state_dict().items()}
    options = original_rng.Config(num_iter_encoder=4, use_predicted="parser_graph" in networks, mlp_dropout=0.2)
    content = {"label_size": LABELS, "bertmodel": original_rng.Bert(SIZE, 8, 2, 12, 1, 0), "config": options}
    torch.save({**content, "state_dict": weights}, path)
    return path


def tokens():
    """Ids and tags of the sentence's positions."""
    tags = [2, NUMBERS["<t>:<ROOT>"], *(NUMBERS[f"<t>:{WORD_TAGS[word]}"] for word in WORD_IDS), 3]
    return torch.tensor([2, NUMBERS["<ROOT>"], *IDS, 3]), torch.tensor(tags)


def inputs(config):
    tags = torch.tensor([[config.tags.index(tag) for tag in WORD_TAGS]])
    return {"input_ids": torch.tensor([IDS]), "word_ids": torch.tensor([WORD_IDS]), "tag_ids": tags}


def assert_same(outputs, scores, label_scores, heads):
    arcs = scores[list(FIRSTS.values())[1:]][:, list(FIRSTS.values())]
    possible = outputs.logits[0] > -torch.inf
    assert_close(outputs.logits[0][possible], arcs[possible], atol=1e-5, rtol=1e-5)
    assert possible.sum() == 9
    for word, head in enumerate(heads, start=1):
        found = outputs.label_logits[0, word - 1]
        assert_close(found, label_scores[FIRSTS[word], FIRSTS[head]], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("labelled_input", [True, False])
@pytest.mark.parametrize("with_graph", [True, False])
@torch.no_grad()
def test_rngtr(labelled_input, with_graph, tmp_path, files):
    """Without a graph nothing stands for the missing relations either; with one, the pieces of words are in it."""
    model = network(2 * LABELS + 1 if labelled_input else 3)
    converted, _ = convert(saved(tmp_path / "rngtr.pt", parser_graph=model), **files)
    heads, labels = [2, 0, 2], [4, 3, 5]
    arcs = [
        (FIRSTS[word], FIRSTS[head], label) for word, (head, label) in enumerate(zip(heads, labels, strict=True), 1)
    ]
    arcs += [(4, 3, 2), (6, 5, 2)]  # later pieces to first ones
    arcs = arcs if labelled_input else [(dependent, head, 0) for dependent, head, _ in arcs]
    graph = original_rng.relation_ids(8, arcs, LABELS if labelled_input else 1) if with_graph else None
    given = {"initial_heads": torch.tensor([heads]), "initial_deprels": torch.tensor([labels])} if with_graph else {}
    converted.config.num_rounds = 1
    outputs = converted(**inputs(converted.config), **given, heads=torch.tensor([heads]))
    assert_same(outputs, *model(*tokens(), graph), heads)
    assert converted.encoder_inputs(**inputs(converted.config))[1].tolist() == [[0, 0, 1, 2, 2, 3, 3, 0]]


@torch.no_grad()
def test_syntr(tmp_path, files):
    model = network(0)
    converted, _ = convert(
        saved(tmp_path / "syntr.pt", parser_baseline=model), **files, settings={"num_attention_heads": 2}
    )
    assert (converted.config.use_graph_input, converted.config.num_rounds) == (False, 1)
    outputs = converted(**inputs(converted.config), heads=torch.tensor([[2, 0, 2]]))
    assert_same(outputs, *model(*tokens()), [2, 0, 2])


@torch.no_grad()
def test_folder_parses_in_any_batch(tmp_path, files):
    converted, tokenizer = convert(saved(tmp_path / "rngtr.pt", parser_graph=network(2 * LABELS + 1)), **files)
    assert (converted.config.num_rounds, converted.config.decoder_dropout) == (3, 0.2)
    assert tokenizer.model_max_length == converted.config.max_pieces
    for part in (converted, tokenizer):
        part.save_pretrained(tmp_path / "new")
    sentences = [["the", "dogs", "barking"], ["dog", "...", "the", "dogs", "bark", "."], ["."]]
    tags = [["DT", "NN", "NN"], ["NN", "NN", "DT", "NN", "NN", "NN"], ["NN"]]
    together = hf_structure.parse(sentences, model=tmp_path / "new", tags=tags, batch_size=3)
    alone = [
        parse
        for sentence, given in zip(sentences, tags, strict=True)
        for parse in hf_structure.parse([sentence], model=tmp_path / "new", tags=[given])
    ]
    assert [parse.dependency.heads for parse in together] == [parse.dependency.heads for parse in alone]
    assert tokenizer.tokenize("...") == ["..."]


@torch.no_grad()
def test_tags_in_lower_case(tmp_path, files):
    """Tokenizers of uncased models lower-cased what was added to them."""
    torch.save(
        original_rng.Vocab(RELS, TAGS, {token.lower(): i for token, i in NUMBERS.items()}), tmp_path / "vocab.tag"
    )
    model = network(0)
    path = saved(tmp_path / "syntr.pt", parser_baseline=model)
    converted, _ = convert(path, **files, settings={"num_attention_heads": 2})
    outputs = converted(**inputs(converted.config), heads=torch.tensor([[2, 0, 2]]))
    assert_same(outputs, *model(*tokens()), [2, 0, 2])


def test_refusals(tmp_path, files):
    both = saved(tmp_path / "both.pt", parser_baseline=network(0), parser_graph=network(3))
    with pytest.raises(ValueError, match="of which a model here has one"):
        convert(both, **files)
    path = saved(tmp_path / "rngtr.pt", parser_graph=network(3))
    with pytest.raises(ValueError, match="does not name its labels"):
        convert(path, tokenizer=files["tokenizer"])
    with pytest.raises(ValueError, match="name the folder of the tokenizer of the BERT"):
        convert(path, dictionary=files["dictionary"])
    torch.save(original_rng.Vocab(RELS, [*TAGS, "VB"], NUMBERS), tmp_path / "other.tag")
    with pytest.raises(ValueError, match="does not know <t>:VB"):
        convert(path, dictionary=tmp_path / "other.tag", tokenizer=files["tokenizer"])


def test_the_release_has_a_label_of_pieces():
    with pytest.raises(StrictDataclassError, match=r"needs a label \[BERT\] in id2label"):
        ReleasedRNGTransformerConfig(id2label={0: "root"})


@pytest.mark.parametrize("settings", [{"word_vectors": "mean"}, {"treebanks": ["a"]}, {"num_form_buckets": 8}])
def test_settings_that_the_release_has_not(settings):
    with pytest.raises(StrictDataclassError, match="reads all pieces of words, and neither treebanks nor forms"):
        ReleasedRNGTransformerConfig(id2label={0: "[BERT]"}, **settings)
