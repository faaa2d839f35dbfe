"""Arrays of words, against what the models give when they are called by hand."""

import numpy as np
import pytest
import torch
from tiny_models import (
    TINY,
    new_g2g_transformer,
    new_gilt,
    new_gpt2,
    new_pushdown,
    new_rng_transformer,
    new_structformer,
    new_transformer_grammar,
    randomise,
    save,
    unigram_tokenizer,
)
from transformers import BertConfig, BertForMaskedLM

from hf_structure import (
    UDGNConfig,
    UDGNForMaskedLM,
    build_word_tokenizer,
    encode_subwords,
    parse,
    word_arrays,
)
from hf_structure.algorithms.graph import prefix_tapes
from hf_structure.models.abilities import abilities_of
from hf_structure.models.transformer_grammar.machine_transformer_grammar import PIECE, WORD
from hf_structure.parsing.encoding import SentenceEncoder
from hf_structure.parsing.loading import load_parser
from hf_structure.scoring.scoring import load_language_model
from hf_structure.text.sentences import SourceSentence

SENTENCES = [["the", "old", "cat", "chased", "dogs", "."], ["dogs", "slept"], ["a", "man", "saw", "the", "cat"]]
WORDS = sorted({word for sentence in SENTENCES for word in sentence})
BEAM = ("gilt", "pushdown", "tg", "dtg")
PIECES = ("structformer", "rng", "g2g", *BEAM, "gpt2", "bert")
MODELS = ("udgn", *PIECES)


def encoder(model, tokenizer) -> SentenceEncoder:
    abilities = abilities_of(model.config)
    return SentenceEncoder.with_abilities(abilities, tokenizer=tokenizer, word_tokenizer=str.split)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder of a random model of each kind; all but the first split words into pieces."""
    folders = {name: tmp_path_factory.mktemp(name) for name in MODELS}
    tokenizer = unigram_tokenizer(SENTENCES)
    words = build_word_tokenizer(WORDS)
    udgn = UDGNForMaskedLM(UDGNConfig(vocab_size=len(words), parser_num_layers=1, **TINY))
    save(randomise(udgn), words, folders["udgn"])
    new_structformer(folders["structformer"], tokenizer)
    new_rng_transformer(folders["rng"], tokenizer, use_graph_input=True, num_hidden_layers=3)
    new_g2g_transformer(folders["g2g"], tokenizer)
    new_gilt(folders["gilt"], tokenizer)
    new_pushdown(folders["pushdown"], tokenizer)
    new_transformer_grammar(folders["tg"], tokenizer, labels=["S", "NP"])
    new_transformer_grammar(folders["dtg"], tokenizer, formalism="dependency")
    new_gpt2(folders["gpt2"], map(" ".join, SENTENCES))
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16
    )
    save(randomise(BertForMaskedLM(config)), tokenizer, folders["bert"])
    return folders


def options_of(name):
    return {"beam_size": 3} if name in BEAM else {}


def loaded(folders, name):
    load = load_language_model if name in ("gpt2", "bert") else load_parser
    model, tokenizer = load(folders[name], None, "cpu")
    model.set_attn_implementation("eager")
    return model, tokenizer


def pooled(outputs, word_ids, pooling, attention=True):
    """Vectors and attention of words, in the simplest way: words from 1, 0 for what belongs to none."""
    members = [[i for i, word in enumerate(word_ids) if word == number] for number in range(1, max(word_ids) + 1)]
    chosen = {"mean": lambda pieces: pieces, "first": lambda pieces: pieces[:1], "last": lambda pieces: pieces[-1:]}
    of_words = list(map(chosen[pooling], members))
    vectors = np.stack(
        [[states[0, pieces].mean(0).numpy() for pieces in of_words] for states in outputs.hidden_states]
    )
    attention = np.stack(
        [
            [
                [[head[pieces][:, others].sum(1).mean().item() for others in members] for pieces in of_words]
                for head in layer[0]
            ]
            for layer in outputs.attentions
        ]
    )
    return vectors, attention


def read(model, **inputs):
    with torch.no_grad():
        return model(**inputs, output_hidden_states=True, output_attentions=True)


def check(found, outputs, word_ids, pooling):
    vectors, attention = pooled(outputs, word_ids, pooling)
    np.testing.assert_allclose(found.vectors, vectors, atol=1e-5)
    np.testing.assert_allclose(found.attention, attention, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_shapes_and_batches(folders, name):
    """Padding and neighbours change nothing; the shapes are those that are documented."""
    together = word_arrays(SENTENCES, folders[name], **options_of(name))
    alone = [word_arrays({"words": words}, folders[name], **options_of(name)) for words in SENTENCES]
    for words, one, other in zip(SENTENCES, together, alone, strict=True):
        n = len(one.words)
        assert one.words == [word for word in words if name != "udgn" or word != "."]
        assert one.keep.tolist() == [word in one.words for word in words]
        assert one.vectors.shape[1:] == (n, 16)
        assert one.attention.shape == (len(one.vectors) - 1, 2, n, n)
        assert (one.arcs is not None) == (name in ("udgn", "structformer", "rng", "g2g", "gilt"))
        assert (one.tapes is not None) == (name in BEAM)
        for field in ("vectors", "attention", "arcs"):
            if getattr(one, field) is not None:
                np.testing.assert_allclose(getattr(one, field), getattr(other, field), atol=1e-5)
        for tape in one.tapes or ():
            np.testing.assert_array_equal(one.tapes[tape], other.tapes[tape])


@pytest.mark.parametrize("name", ["udgn", "structformer", "rng", "g2g", "gilt"])
def test_arcs_are_the_marginals_of_parse(folders, name):
    parses = parse(SENTENCES, folders[name], marginals=True, punctuation="drop", **(options_of(name)))
    for found, parsed in zip(word_arrays(SENTENCES, folders[name], **options_of(name)), parses, strict=True):
        np.testing.assert_allclose(found.arcs, np.array(parsed.marginals), atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "first", "last"])
@pytest.mark.parametrize("name", ["structformer", "gpt2", "bert"])
def test_pieces_are_pooled(folders, name, pooling):
    model, tokenizer = loaded(folders, name)
    if name == "structformer":
        encoded = encoder(model, tokenizer)(SourceSentence(SENTENCES[0]))
        ids, word_ids = encoded["input_ids"], [word + 1 for word in encoded["word_ids"]]
    elif name == "gpt2":
        encoded = encode_subwords(SENTENCES[0], tokenizer)
        ids, word_ids = encoded["input_ids"], encoded["word_ids"]
    else:
        encoded = tokenizer(SENTENCES[0], is_split_into_words=True)
        ids, word_ids = encoded["input_ids"], [0 if word is None else word + 1 for word in encoded.word_ids()]
    assert len(ids) > len(SENTENCES[0]) + 2  # a premise: words have several pieces
    outputs = read(model, input_ids=torch.tensor([ids]))
    check(word_arrays({"words": SENTENCES[0]}, folders[name], pooling=pooling), outputs, word_ids, pooling)


def test_udgn_does_not_see_punctuation(folders):
    model, tokenizer = loaded(folders, "udgn")
    ids = tokenizer.convert_tokens_to_ids(SENTENCES[0][:-1])
    found = word_arrays({"words": SENTENCES[0]}, folders["udgn"])
    check(found, read(model.base_model, input_ids=torch.tensor([ids])), range(1, 6), "mean")
    whole = word_arrays({"words": SENTENCES[0]}, folders["udgn"], punctuation="parse")
    assert whole.words == SENTENCES[0]


def structured(folders, name):
    model, tokenizer = loaded(folders, name)
    encoded = encode_subwords(SENTENCES[0], tokenizer)
    ids, word_ids = (torch.tensor([encoded[part]]) for part in ("input_ids", "word_ids"))
    return model, ids, word_ids, model.beam_search(ids, word_ids, beam_size=3).to_tuple()[2][:, 0]


def test_gilt_reads_its_graph(folders):
    model, ids, word_ids, graph = structured(folders, "gilt")
    assert graph.any()  # a premise
    found = word_arrays({"words": SENTENCES[0]}, folders["gilt"], beam_size=3)
    outputs = read(model, input_ids=ids, word_ids=word_ids, graph=graph)
    check(found, outputs, word_ids[0].tolist(), "mean")
    tapes = prefix_tapes(graph, model.config.tape_features)[0, :, 1:, 1:].numpy()
    for name, tape in zip(model.config.graph_features, tapes, strict=True):
        np.testing.assert_array_equal(found.tapes[name], tape)


def test_pushdown_reads_its_stack(folders):
    """The depths by the simple form of the algorithm, of the last piece of each word."""
    model, ids, word_ids, attachments = structured(folders, "pushdown")
    assert attachments.any()  # a premise
    found = word_arrays({"words": SENTENCES[0]}, folders["pushdown"], beam_size=3)
    check(found, read(model, input_ids=ids, attachments=attachments), word_ids[0].tolist(), "mean")
    stack = []
    depths = np.zeros((ids.shape[1], ids.shape[1]), dtype=int)
    for place, attachment in enumerate(attachments[0].tolist()):
        depths[place] = depths[place - 1] if place else 0
        start = place
        while attachment and stack and stack[-1][1] >= place - attachment:
            start = stack.pop()[0]
            depths[place, start : place + 1] += 1
        stack.append((start, place))
    words = word_ids[0].tolist()
    last = [len(words) - 1 - words[::-1].index(number) for number in range(1, len(SENTENCES[0]) + 1)]
    expected = np.tril(depths[np.ix_(last, last)].clip(max=model.config.max_depth))
    np.testing.assert_array_equal(found.tapes["depth"], expected)


@pytest.mark.parametrize("name", ["tg", "dtg"])
def test_transformer_grammars_read_their_trees(folders, name):
    """Tokens are found among the events by what these are; what a word does not see, it does not attend to."""
    model, ids, word_ids, actions = structured(folders, name)
    found = word_arrays({"words": SENTENCES[0]}, folders[name], beam_size=3)
    outputs = read(model, input_ids=ids, word_ids=word_ids, actions=actions)
    with torch.no_grad():
        tape = model.model.read(model.get_input_embeddings()(ids), None, word_ids, actions, None, False).replay
    of_events = [
        word_ids[0, place].item() if event in (WORD, PIECE) else 0
        for event, place in zip(tape.events[0].tolist(), tape.tokens[0].tolist(), strict=True)
    ]
    assert len(of_events) > ids.shape[1]  # a premise: there are actions
    check(found, outputs, of_events, "mean")
    heads = found.attention.max((0, 1))
    assert (heads[found.tapes["visible"] == 1] > 0).all()
    assert (found.tapes["visible"].diagonal() == 1).all()


def test_rng_reads_its_tree(folders):
    """The last layer is the one that arcs would be scored from in another round."""
    model, tokenizer = loaded(folders, "rng")
    encoded = encoder(model, tokenizer)(SourceSentence(SENTENCES[0]))
    ids, word_ids = (torch.tensor([encoded[part]]) for part in ("input_ids", "word_ids"))
    decoded = model.decode(ids, word_ids=word_ids)
    options = {"initial_heads": decoded.heads[:, 0], "initial_deprels": decoded.columns["labels"][:, 0]}
    vectors = []
    hook = model.decoder.arc_head.register_forward_pre_hook(lambda module, inputs: vectors.append(inputs[0]))
    model.decode(ids, word_ids=word_ids, num_rounds=1, **options)
    hook.remove()
    found = word_arrays({"words": SENTENCES[0]}, folders["rng"], pooling="first")
    np.testing.assert_allclose(found.vectors[-1], vectors[0][0, 1:].numpy(), atol=1e-5)
    without = []
    hook = model.decoder.arc_head.register_forward_pre_hook(lambda module, inputs: without.append(inputs[0]))
    model.decode(ids, word_ids=word_ids, num_rounds=1)
    hook.remove()
    assert not np.allclose(found.vectors[-1], without[0][0, 1:].numpy(), atol=1e-3)  # the tree matters


def test_g2g_reads_its_first_state(folders):
    """[CLS], the root, two words, [SEP], the others, [SEP]: what the layer reads when it first decides."""
    model, tokenizer = loaded(folders, "g2g")
    encoded = encoder(model, tokenizer)(SourceSentence(SENTENCES[0]))
    layers = []
    layer = model.base_model.layers[0]
    hook = layer.register_forward_hook(lambda module, inputs, output: layers.append((inputs[0], output)))
    model.decode(torch.tensor([encoded["input_ids"]]), word_ids=torch.tensor([encoded["word_ids"]]))
    hook.remove()
    found = word_arrays({"words": SENTENCES[0]}, folders["g2g"])
    below, deciding = layers[0]  # the last layer gives the vectors of the two words on the stack alone
    np.testing.assert_allclose(found.vectors[0], below[0, [2, 3, 5, 6, 7, 8]].numpy(), atol=1e-5)
    np.testing.assert_allclose(found.vectors[1][:2], deciding[0].numpy(), atol=1e-5)


def test_what_is_asked_for(folders):
    found = word_arrays(SENTENCES, folders["gilt"], arrays=["tapes"], beam_size=2)
    assert [each.vectors is each.attention is each.arcs is None for each in found] == [True] * 3
    assert all(set(each.tapes) == {"degree", "distance", "depth"} for each in found)
    raw = word_arrays("Dogs slept.", folders["udgn"], arrays=["vectors"])
    assert (raw.words, raw.keep.tolist(), raw.arcs) == (["Dogs", "slept"], [True, True, False], None)
    assert word_arrays([], folders["udgn"]) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "max"}, "pooling must be one of mean, first, last, not 'max'"),
        ({"arrays": ["states"]}, "arrays are some of vectors, attention, arcs, tapes, not"),
        ({"arrays": "vectors"}, "arrays are some of vectors, attention, arcs, tapes, not 'vectors'"),
        ({"beam_size": 4}, "UDGNForMaskedLM searches without a beam: leave beam_size out"),
    ],
)
def test_refuses(folders, options, message):
    with pytest.raises(ValueError, match=message):
        word_arrays(SENTENCES, folders["udgn"], **options)
