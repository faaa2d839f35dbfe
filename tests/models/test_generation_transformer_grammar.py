import pytest
import torch
from test_modeling_transformer_grammar import GRAFT, OFTEN, batch_of, tiny_model
from torch.testing import assert_close

from hf_structure.models.transformer_grammar.actions_transformer_grammar import (
    actions_to_heads,
    actions_to_spans,
    before_words,
)
from hf_structure.models.transformer_grammar.outputs_transformer_grammar import GrammarGenerateOutput

PROMPT = torch.tensor([[2, 7, 9, 4]])
OPTIONS = {"max_new_tokens": 6, "use_structure": True, "return_dict_in_generate": True, "pad_token_id": 1}


def acting_model(kind: str, monkeypatch, **settings):
    """A model that takes actions, though all tokens together are much more likely."""
    model = tiny_model(kind, **settings)
    predict = model.predict

    def eager(*args):
        predicted = predict(*args)
        predicted.kinds[..., 0] -= 7.0
        return predicted

    monkeypatch.setattr(model, "predict", eager)
    return model


def listed(actions: torch.Tensor) -> list[list[int]]:
    """The actions before each token of a text, without what fills them."""
    return [[action for action in some if action >= 0] for some in actions.tolist()]


def check_greedy(model, ids: torch.Tensor, words: torch.Tensor, actions: torch.Tensor, prompt: int) -> int:
    """In one full pass, every action and token after a prompt is the likeliest; how many actions there are."""
    reading = model.model.read(model.get_input_embeddings()(ids), None, words, actions, None, False)
    predicted = model.predict(reading.outputs.last_hidden_state[0], reading.replay.legal[0])
    count = 0
    for token in range(prompt, ids.shape[1]):
        starts = reading.replay.starts[0, token].tolist()
        (chosen,) = listed(actions[0, token : token + 1])
        for slot, action in enumerate(chosen):
            assert int(predicted.kinds[starts[slot] - 1].argmax()) == action + 1
        place = starts[-1] - 1
        assert int(predicted.kinds[place].argmax()) == 0
        assert int(predicted.tokens[place].argmax()) == int(ids[0, token])
        count += len(chosen)
    return count


@pytest.mark.parametrize("kind", [*OFTEN, pytest.param(GRAFT, marks=pytest.mark.slow)])
@torch.no_grad()
def test_text_and_tree_are_written_together(kind, monkeypatch):
    model = acting_model(kind, monkeypatch, max_open=5)
    count = 0
    for first in range(4, 9):
        prompt = torch.tensor([[2, first, 9, 4]])
        output = model.generate(prompt, **OPTIONS, do_sample=False)
        assert isinstance(output, GrammarGenerateOutput)
        ids, words, actions = output.sequences, output.word_ids, output.actions
        assert words.shape == ids.shape == actions.shape[:2]
        assert listed(actions[0, :4]) == listed(model.predict_structures(prompt, words[:, :4])[0])
        count += check_greedy(model, ids, words, actions, 4)
    assert count > 5


@pytest.mark.parametrize("kind", ["tg", "dtg", "plm-3", "closed", "compressed"])
@torch.no_grad()
def test_texts_together_are_as_alone(kind, monkeypatch):
    model = acting_model(kind, monkeypatch, max_open=5)
    batch = batch_of(model.config, (5, 2, 4), "left")
    inputs = {name: batch[name][:, :-1] for name in ("input_ids", "attention_mask")}  # without the end
    together = model.generate(**inputs, **OPTIONS, do_sample=False)
    for row, real in enumerate(inputs["attention_mask"].bool()):
        alone = model.generate(inputs["input_ids"][row, real].unsqueeze(0), **OPTIONS, do_sample=False)
        padding = int((~real).sum())
        length = alone.sequences.shape[1]
        assert torch.equal(together.sequences[row, padding:][:length], alone.sequences[0])
        assert torch.equal(together.word_ids[row, padding:][:length], alone.word_ids[0])
        assert listed(together.actions[row, padding:][:length]) == listed(alone.actions[0])


@pytest.mark.parametrize("kind", ["plm", "tg", "dtg", "plm-3", "closed", "compressed"])
@torch.no_grad()
def test_what_is_sampled_is_a_tree(kind, monkeypatch):
    model = tiny_model(kind, max_open=4)
    if kind in ("closed", "compressed"):
        # Where actions do not say what is open, nothing but the end token itself ends a text: it must be likely.
        predict = model.predict

        def ending(*args):
            predicted = predict(*args)
            predicted.tokens[..., 3] += 5.0
            return predicted

        monkeypatch.setattr(model, "predict", ending)
    torch.manual_seed(0)
    options = {**OPTIONS, "max_new_tokens": 60, "do_sample": True, "num_return_sequences": 20}
    output = model.generate(torch.tensor([[2]]), **options)
    ended = (output.sequences == 3).any(1)
    assert ended.any()
    assert len(output.sequences.unique(dim=0)) > 4
    for row in ended.nonzero().flatten().tolist():
        length = output.sequences[row].tolist().index(3) + 1
        actions, words = (values[row, :length].tolist() for values in (output.actions, output.word_ids))
        tree = before_words(actions, words)
        if kind == "dtg":
            assert -1 not in actions_to_heads(tree)
        else:
            assert actions_to_spans(tree, model.config)[0][:2] == (0, len(tree) - 1)


@torch.no_grad()
def test_pieces_of_words_are_written():
    """They go on with the word before, but after an action."""
    model = tiny_model("dtg")
    starts = torch.arange(30) % 2 == 0
    torch.manual_seed(0)
    output = model.generate(PROMPT, **{**OPTIONS, "max_new_tokens": 20}, do_sample=True, word_starts=starts)
    ids, words, actions = output.sequences[0], output.word_ids[0], output.actions[0]
    assert words[:4].tolist() == [0, 1, 1, 2]
    goes_on = (words[1:-1] == words[:-2]) & (words[1:-1] > 0)
    assert goes_on[3:].any()
    assert not (goes_on & starts[ids[1:-1]]).any()
    assert not (goes_on & (actions[1:-1] >= 0).any(1)).any()
    assert model(output.sequences, word_ids=output.word_ids, actions=output.actions, labels=output.sequences).loss > 0


@pytest.mark.parametrize("kind", ["plm-mask", "tg", "dtg"])
@torch.no_grad()
def test_no_piece_of_a_word_is_written_after_an_action(kind):
    """But in the first word."""
    model = tiny_model(kind, max_open=4, inner_pieces=[*range(8, 30)])
    torch.manual_seed(0)
    options = {**OPTIONS, "max_new_tokens": 8, "do_sample": True, "num_return_sequences": 20}
    output = model.generate(torch.tensor([[2]]), **options)
    is_inner = output.sequences >= 8
    after_action = (output.actions >= 0).any(2)
    assert after_action[:, 2:].any()
    assert not (is_inner & after_action)[:, 2:].any()
    assert is_inner[:, 1].any()
    assert (is_inner & ~after_action)[:, 2:].any()
    assert (output.word_ids[:, 1] == (output.sequences[:, 1] != 3)).all()
    goes_on = (output.word_ids[:, 1:] == output.word_ids[:, :-1]) & (output.word_ids[:, 1:] > 0)
    assert torch.equal(goes_on[:, 1:-1], (is_inner & (output.word_ids > 0))[:, 2:-1])


@torch.no_grad()
def test_a_text_may_begin_with_the_token_that_ends_it(monkeypatch):
    """As GPT-2's do."""
    model = acting_model(GRAFT, monkeypatch, max_open=3)
    output = model.generate(torch.tensor([[3]]), **OPTIONS, do_sample=False)
    assert output.word_ids[0, 1] == 1
    assert check_greedy(model, output.sequences, output.word_ids, output.actions, 1) > 0


@torch.no_grad()
def test_without_structure_it_is_the_backbone():
    model = tiny_model()
    text = model.generate(PROMPT, max_new_tokens=3, do_sample=False, eos_token_id=None)
    greedy = PROMPT
    for _ in range(3):
        greedy = torch.cat([greedy, model(greedy).logits[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(text, greedy)
    with pytest.raises(ValueError, match="trees are built over the tokens of texts"):
        model.generate(PROMPT, actions=torch.zeros(1, 4, 1), **OPTIONS)
    with pytest.raises(ValueError, match="trees are built in greedy search and sampling"):
        model.generate(PROMPT, num_beams=2, **OPTIONS)


@torch.no_grad()
def test_sampled_actions_are_those_of_the_model():
    """The frequencies of the first action after a text."""
    model = tiny_model("tg", max_open=3)
    torch.manual_seed(0)
    options = {**OPTIONS, "max_new_tokens": 1, "do_sample": True, "num_return_sequences": 2000}
    output = model.generate(torch.tensor([[2]]), **options)
    first = output.actions[:, 1, 0]
    reading = model.model.read(
        model.get_input_embeddings()(torch.tensor([[2]])), None, None, torch.full((1, 1, 1), -1), None, False
    )
    kinds = model.predict(reading.outputs.last_hidden_state[0, 0], reading.replay.legal[0, 0]).kinds.softmax(-1)
    assert_close(torch.bincount(first, minlength=3)[:3] / 2000, kinds[1:4], atol=0.04, rtol=0)
