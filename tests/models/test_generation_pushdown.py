import pytest
import torch
from test_modeling_pushdown import BACKBONES, batch_of, tiny_model

from hf_structure.models.pushdown.outputs_pushdown import StackGenerateOutput

PROMPT = torch.tensor([[2, 7, 9, 4]])
OPTIONS = {"max_new_tokens": 6, "use_structure": True, "return_dict_in_generate": True}


@torch.no_grad()
def written(model, prompt: torch.Tensor, tokens: int) -> tuple[list[int], list[int]]:
    """Greedily, with a full pass for every token."""
    ids, attachments = prompt, model.beam_search(prompt).attachments[:, 0]
    for _ in range(tokens):
        outputs = model(ids, attachments=attachments, use_cache=True)
        token = outputs.logits[:, -1].argmax(-1)
        logits = model.score_attachments(token, outputs.cache)
        attachments = torch.cat([attachments, (ids.shape[1] - logits.argmax(-1)).unsqueeze(1)], dim=1)
        ids = torch.cat([ids, token.unsqueeze(1)], dim=1)
    return ids[0].tolist(), attachments[0].tolist()


@pytest.mark.parametrize("backbone", BACKBONES)
def test_text_and_tree_are_written_together(backbone, monkeypatch):
    model = tiny_model(backbone)
    score = model.score_attachments

    def eager(*args) -> torch.Tensor:  # new tokens are reduced where they can be
        logits = score(*args)
        logits[:, -1] -= 100
        return logits

    monkeypatch.setattr(model, "score_attachments", eager)
    output = model.generate(PROMPT, **OPTIONS, do_sample=False, eos_token_id=None)
    assert isinstance(output, StackGenerateOutput)
    ids, attachments = written(model, PROMPT, 6)
    assert output.sequences[0].tolist() == ids
    assert output.attachments[0].tolist() == attachments
    assert any(attachments[4:])


def test_texts_together_are_as_alone():
    model, batch = tiny_model(), batch_of((7, 4, 6), "left")
    inputs = {name: batch[name][:, :-1] for name in ("input_ids", "attention_mask")}  # without the end
    together = model.generate(**inputs, **OPTIONS, do_sample=False, eos_token_id=None, pad_token_id=1)
    for row, real in enumerate(inputs["attention_mask"].bool()):
        ids, attachments = written(model, inputs["input_ids"][row, real].unsqueeze(0), 6)
        padding = int((~real).sum())
        assert together.sequences[row, padding:].tolist() == ids
        assert together.attachments[row, padding:].tolist() == attachments


@pytest.mark.parametrize("sample_structure", [None, True, False])
def test_sampling(sample_structure):
    model = tiny_model()
    options = {**OPTIONS, "do_sample": True, "num_return_sequences": 20, "eos_token_id": None, "max_new_tokens": 8}
    torch.manual_seed(0)
    output = model.generate(PROMPT, **options, sample_structure=sample_structure)
    assert len(output.sequences.unique(dim=0)) > 15
    with torch.no_grad():
        logits = model(output.sequences, attachments=output.attachments, labels=output.sequences).attachment_logits
    place = torch.arange(output.sequences.shape[1])
    greedy = (place - logits.argmax(-1) == output.attachments)[:, PROMPT.shape[1] :]
    assert bool(greedy.all()) is (sample_structure is False)
    again = model.generate(PROMPT, **{**options, "return_dict_in_generate": False})
    assert again.shape == output.sequences.shape


@pytest.mark.parametrize("do_sample", [False, True], ids=["greedy", "sampled"])
def test_default_dtype_does_not_change_texts(do_sample, with_other_default):
    model = tiny_model()

    def generated():
        torch.manual_seed(1)
        return model.generate(PROMPT, **OPTIONS, do_sample=do_sample, eos_token_id=None)

    output, expected = with_other_default(generated), generated()
    assert torch.equal(output.sequences, expected.sequences)
    assert torch.equal(output.attachments, expected.attachments)


def test_the_end_is_reduced_with_all():
    model = tiny_model()
    output = model.generate(PROMPT, **OPTIONS, do_sample=False, forced_eos_token_id=3)
    assert output.sequences[0, -1] == 3
    assert output.attachments[0, -1] == output.sequences.shape[1] - 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_beams": 2}, "trees are built in greedy search and sampling, not in beam_search"),
        ({"use_cache": False}, "do not go together with use_cache=False"),
        ({"cache_implementation": "static"}, "needs use_structure=False"),
        ({"inputs_embeds": torch.zeros(1, 2, 16)}, "inputs_embeds needs use_structure=False"),
    ],
    ids=["beams", "no-cache", "static", "embeds"],
)
def test_what_trees_do_not_go_together_with(options, message):
    with pytest.raises(ValueError, match=message):
        tiny_model().generate(PROMPT, use_structure=True, max_new_tokens=2, **options)
