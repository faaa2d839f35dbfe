"""G2GTr: converted files give what the formulas give under the names of the authors' code."""

import pickle
import subprocess
import sys
from argparse import Namespace

import original_g2g
import pytest
import torch
from convert.conversion import convert
from convert.released_g2g_transformer import ReleasedG2GTransformerConfig
from huggingface_hub.errors import StrictDataclassError
from running import ENVIRONMENT, EXAMPLES
from torch.testing import assert_close
from transformers import AutoModel

import hf_structure
from hf_structure.algorithms.transitions import LEFT_ARC, RIGHT_ARC, SHIFT, SWAP

LABELS, TAGS = ["root", "det", "nsubj"], ["DT", "NN", "VB"]
PARSER = original_g2g.Parser(LABELS, TAGS, ["the", "dog", "sees", "a", "bird"])
WORDS, WORD_TAGS = ["the", "dog", "sees", "a", "bird"], ["DT", "NN", "VB", "DT", "NN"]
HEADS, RELATIONS = [2, 3, 0, 5, 3], [1, 2, 0, 1, 2]
CROSSING = [2, 4, 0, 3, 4]  # needs a SWAP of a word that has a dependent
FIRST = [0, 3, 1, 1, 4]  # the first word stays on the stack, with dependents, when the buffer is empty
OLD = {SHIFT: original_g2g.SHIFT, LEFT_ARC: original_g2g.LEFT, RIGHT_ARC: original_g2g.RIGHT, SWAP: original_g2g.SWAP}


def parser(graph, composition=False):
    torch.manual_seed(1)
    model = original_g2g.ParserModel(PARSER, len(LABELS), 8, 2, 12, 2, graph, composition)
    for name, parameter in model.named_parameters():
        if not name.endswith(("label_emb.weight", "dp_relation_k.weight", "dp_relation_v.weight")):
            torch.nn.init.normal_(parameter, mean=float("LayerNorm.weight" in name), std=0.5)
    model.label_emb.weight.data[-1] = 0
    return model.eval()


@pytest.fixture
def dictionary(tmp_path):
    (tmp_path / "vocab.pkl").write_bytes(pickle.dumps(PARSER))
    return tmp_path / "vocab.pkl"


def saved(model, path):
    options = Namespace(nattentionheads=2, lowercase=True, ffdropout=0.1)
    optimizer = torch.optim.Adam(model.parameters())
    content = {"model": model.state_dict(), "opt": options, "optimizer": optimizer.state_dict()}
    torch.save(content, path, _use_new_zipfile_serialization=False)
    return path


def inputs(config, numbers=PARSER.tok2id):
    tags = torch.tensor([[config.tags.index(tag) for tag in WORD_TAGS]])
    return {"input_ids": torch.tensor([[numbers[word] for word in WORDS]]), "tag_ids": tags}


@pytest.mark.parametrize(("graph", "composition"), [(True, False), (False, True), (False, False)])
@pytest.mark.parametrize("heads", [HEADS, FIRST, CROSSING], ids=["projective", "first", "crossing"])
@torch.no_grad()
def test_scores_on_the_way(graph, composition, heads, tmp_path, dictionary):
    model = parser(graph, composition)
    converted, tokenizer = convert(saved(model, tmp_path / "model.weights"), dictionary=dictionary)
    assert tokenizer.model_max_length == converted.config.max_words
    model, converted = model.double(), converted.double()
    outputs = converted(**inputs(converted.config), heads=torch.tensor([heads]), labels=torch.tensor([RELATIONS]))
    actions = outputs.actions[0].tolist()
    assert (SWAP in actions) == (heads is CROSSING)
    labels = classes(actions, heads)
    scores, label_scores = model(WORDS, WORD_TAGS, [OLD[action] for action in actions], labels)
    decided = outputs.logits[0, : len(actions)].abs().sum(1) > 0  # where there is a choice
    assert decided.sum() > 1
    order = [OLD[action] for action in range(4)]
    found = outputs.logits[0, : len(actions)]
    assert_close(found[decided], scores[decided][:, order], atol=1e-5, rtol=1e-5)
    assert_close(outputs.label_logits[0, : len(actions)][decided], label_scores[decided], atol=1e-5, rtol=1e-5)


def classes(actions, heads):
    """The class of the label of each action's arc, None for other actions."""
    stack, buffer, labels = [0], list(range(1, len(heads) + 1)), []
    for action in actions:
        labels.append(None)
        if action == SHIFT:
            stack.append(buffer.pop(0))
        elif action == SWAP:
            buffer.insert(0, stack.pop(-2))
        else:
            dependent = stack.pop(-2 if action == LEFT_ARC else -1)
            labels[-1] = RELATIONS[dependent - 1] + len(LABELS) * (action == RIGHT_ARC)
    return labels


@pytest.mark.parametrize(("graph", "composition"), [(True, False), (False, True)])
@torch.no_grad()
def test_decoding_takes_the_actions_that_score_best(graph, composition, tmp_path, dictionary):
    """Greedy parsing and the scores of its own tree agree, also in a batch."""
    converted, tokenizer = convert(
        saved(parser(graph, composition), tmp_path / "model.weights"), dictionary=dictionary
    )
    assert converted.config.max_words == (12 if graph else 18)
    for part in (converted, tokenizer):
        part.save_pretrained(tmp_path / "new")
    sentences, tags = [WORDS, WORDS[:3], ["Dog"]], [WORD_TAGS, WORD_TAGS[:3], ["NN"]]
    together = hf_structure.parse(sentences, model=tmp_path / "new", tags=tags, batch_size=3)
    for sentence, given, parse in zip(sentences, tags, together, strict=True):
        (alone,) = hf_structure.parse([sentence], model=tmp_path / "new", tags=[given])
        assert (alone.dependency.heads, alone.dependency.labels) == (parse.dependency.heads, parse.dependency.labels)
    read = inputs(converted.config)
    parse = converted.decode(**read, decoder="projective")
    outputs = converted(**read, heads=parse.heads[:, 0], labels=parse.columns["labels"][:, 0])
    assert outputs.loss is not None
    greedy = converted(**read)
    assert greedy.actions.shape[0] == 1
    assert tokenizer(["Dog", "unseen"], is_split_into_words=True)["input_ids"] == [
        PARSER.tok2id["dog"],
        PARSER.tok2id["[UNK]"],
    ]


def test_refusals(tmp_path, dictionary):
    with pytest.raises(ValueError, match="reads a graph and composes words"):
        convert(saved(parser(True, True), tmp_path / "both.weights"), dictionary=dictionary)
    path = saved(parser(True), tmp_path / "model.weights")
    with pytest.raises(ValueError, match="name the parser that was saved in training"):
        convert(path)
    (tmp_path / "other.pkl").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ValueError, match="is not the pickled parser"):
        convert(path, dictionary=tmp_path / "other.pkl")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"labelled": False}, "needs labelled and use_graph_output"),
        ({"history_size": 9}, "history_size 9 must be hidden_size"),
        ({"composition": "recursive"}, "composition"),
    ],
)
def test_settings_that_the_release_has_not(settings, message):
    sizes = {"hidden_size": 8, "history_size": 8, "num_attention_heads": 2, "composition": "none"}
    with pytest.raises(StrictDataclassError, match=message):
        ReleasedG2GTransformerConfig(id2label={0: "root"}, **(sizes | settings))


@pytest.mark.parametrize(("graph", "composition"), [(True, False), (False, True)])
@torch.no_grad()
def test_auto_classes_load_what_was_saved(graph, composition, tmp_path, dictionary):
    converted, _ = convert(saved(parser(graph, composition), tmp_path / "model.weights"), dictionary=dictionary)
    converted.save_pretrained(tmp_path / "new")
    loaded = hf_structure.AutoModelForDependencyParsing.from_pretrained(tmp_path / "new")
    assert type(loaded) is type(converted)
    read = inputs(converted.config)
    assert_close(dict(loaded.decode(**read, k=3)), dict(converted.decode(**read, k=3)), rtol=0, atol=0)
    encoder = AutoModel.from_pretrained(tmp_path / "new")
    assert_close(dict(encoder(read["input_ids"])), dict(converted.base_model(read["input_ids"])), rtol=0, atol=0)


@pytest.mark.slow
def test_a_command_that_imports_the_layout_loads_what_was_saved(tmp_path, dictionary):
    for part in convert(saved(parser(True), tmp_path / "model.weights"), dictionary=dictionary):
        part.save_pretrained(tmp_path / "new")
    (tmp_path / "words.txt").write_text("the dog sees a bird\n")
    layout = ["--import", str(EXAMPLES / "convert" / "released_g2g_transformer.py")]
    files = ["--model", str(tmp_path / "new"), str(tmp_path / "words.txt")]
    command = [sys.executable, "-m", "hf_structure", "parse"]
    done = subprocess.run([*command, *layout, *files], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "bird" in done.stdout
    unknown = subprocess.run([*command, *files], env=ENVIRONMENT, capture_output=True, text=True)
    assert unknown.returncode == 1
    assert "g2g_transformer_release" in unknown.stderr
