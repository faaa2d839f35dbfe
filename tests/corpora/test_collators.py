import copy
import pickle

import pytest
import torch
from torch.testing import assert_close

from hf_structure.corpora.collators import CausalCollator, MaskedWordCollator, ParsingCollator, WordCollator
from hf_structure.text.tokenization import build_word_tokenizer

UNK, PAD, MASK = 0, 1, 2


def masker(**settings) -> MaskedWordCollator:
    return MaskedWordCollator(
        **({"pad_token_id": PAD, "mask_token_id": MASK, "special_token_ids": (0, 1, 2)} | settings)
    )


def sentences(number: int = 200, length: int = 30) -> list[dict]:
    generator = torch.Generator().manual_seed(0)
    return [{"input_ids": torch.randint(3, 100, (length,), generator=generator).tolist()} for _ in range(number)]


def test_padding():
    batch = WordCollator(pad_token_id=9)([{"input_ids": [3, 4, 5]}, {"input_ids": [6]}])
    assert {name: value.tolist() for name, value in batch.items()} == {
        "input_ids": [[3, 4, 5], [6, 9, 9]],
        "attention_mask": [[1, 1, 1], [1, 0, 0]],
    }
    assert {value.dtype for value in batch.values()} == {torch.int64}


@pytest.mark.parametrize("make", [WordCollator, lambda pad: masker(pad_token_id=pad)], ids=["plain", "masked"])
def test_heads(make):
    examples = [{"input_ids": [3, 4], "heads": [2, 0], "length": 2}, {"input_ids": [6], "heads": [0], "length": 1}]
    batch = make(PAD)(examples)
    assert batch["heads"].tolist() == [[2, 0], [0, -1]]
    assert "length" not in batch
    assert "heads" not in make(PAD)([{"input_ids": [3], "heads": None}])


@pytest.mark.parametrize("make", [WordCollator, lambda pad: masker(pad_token_id=pad)], ids=["plain", "masked"])
def test_words_of_subwords(make):
    """There are as many `word_ids` as tokens, and as many heads as words."""
    examples = [
        {"input_ids": [3, 4, 5], "word_ids": [0, 0, 1], "heads": [2, 0]},
        {"input_ids": [6, 7], "word_ids": [0, 0], "heads": [0]},
    ]
    batch = make(PAD)(examples)
    assert batch["word_ids"].tolist() == [[0, 0, 1], [0, 0, -1]]
    assert batch["word_ids"].dtype == torch.int64
    assert batch["heads"].tolist() == [[2, 0], [0, -1]]
    assert "word_ids" not in make(PAD)([{"input_ids": [3], "heads": [0]}])


def test_trees():
    tree = {"heads": [2, 0], "labels": [4, -100], "tag_ids": [1, 0], "length": 2}
    examples = [
        {"input_ids": [3, 4, 5], "word_ids": [0, 0, 1], **tree},
        {"input_ids": [6, 7], "word_ids": [0, 0], "heads": [0], "labels": [3], "tag_ids": [-1], "length": 1},
    ]
    batch = ParsingCollator(PAD)(examples)
    assert {name: batch[name].tolist() for name in ("heads", "labels", "tag_ids")} == {
        "heads": [[2, 0], [0, -1]],
        "labels": [[4, -100], [3, -100]],
        "tag_ids": [[1, 0], [-1, -1]],
    }
    assert {value.dtype for value in batch.values()} == {torch.int64}
    assert set(batch) == {"input_ids", "attention_mask", "word_ids", "heads", "labels", "tag_ids"}
    bare = ParsingCollator(PAD)([{"input_ids": [3], "heads": [0], "labels": None}])
    assert set(bare) == {"input_ids", "attention_mask", "heads"}


@pytest.mark.parametrize("make", [WordCollator, ParsingCollator])
@pytest.mark.parametrize("name", ["tag_ids", "initial_heads", "initial_deprels"])
def test_what_only_some_sentences_have(make, name):
    """It is as wide as the longest sentence, which need not have it."""
    words = [{"input_ids": [3, 4], name: [1, 0]}, {"input_ids": [6, 7, 8]}, {"input_ids": [9], name: None}]
    pieces = [
        {"input_ids": [3, 4, 5], "word_ids": [0, 0, 1], name: [1, 0]},
        {"input_ids": [6, 7, 8, 8], "word_ids": [0, 1, 1, 2]},
        {"input_ids": [9, 9, 9, 9, 9], "word_ids": [0] * 5, name: None},
    ]
    for examples in (words, pieces):
        found = make(PAD)(examples)[name]
        assert found.tolist() == [[1, 0, -1], [-1, -1, -1], [-1, -1, -1]]
        assert found.dtype == torch.int64
        assert name not in make(PAD)(examples[1:])


def test_a_word_that_is_the_padding_is_attended_to():
    batch = WordCollator(PAD)([{"input_ids": [PAD, 4]}, {"input_ids": [5]}])
    assert batch["attention_mask"].tolist() == [[1, 1], [1, 0]]


@pytest.mark.parametrize("rate", [0.15, 0.3, 0.6])
def test_masking(rate):
    examples = sentences()
    batch = masker(mask_rate=rate)(examples)
    original = torch.tensor([example["input_ids"] for example in examples])
    masked = batch["labels"] != -100
    assert masked.float().mean() == pytest.approx(rate, abs=0.02)
    assert_close(masked.float().mean(0), torch.full((30,), rate), atol=0.17, rtol=0)
    assert (batch["input_ids"][masked] == MASK).all()  # always the mask: no 80/10/10 rule
    assert (batch["labels"][masked] == original[masked]).all()
    assert (batch["input_ids"][~masked] == original[~masked]).all()


def test_special_words_and_padding_are_never_masked():
    examples = [{"input_ids": [UNK, 3, UNK, MASK]}, {"input_ids": [3]}]
    for epoch in range(20):
        collator = masker(mask_rate=0.9)
        collator.set_epoch(epoch)
        labels = collator(examples)["labels"]
        assert set(labels[0, [0, 2, 3]].tolist()) == {-100}
        assert set(labels[1, 1:].tolist()) == {-100}


def test_padding_is_not_masked_where_it_is_not_named():
    collator = MaskedWordCollator(PAD, MASK, mask_rate=0.9)
    batch = collator([{"input_ids": [3] * 50}, {"input_ids": [3]}])
    assert (batch["labels"][1, 1:] == -100).all()
    assert (batch["input_ids"][1, 1:] == PAD).all()


@pytest.mark.parametrize("length", [1, 2, 5])
def test_at_least_one_word_is_masked(length):
    for seed in range(30):
        batch = masker(mask_rate=0.01, seed=seed)([{"input_ids": [UNK] + [5] * length}])
        assert (batch["labels"] != -100).sum() >= 1
        assert batch["labels"][0, 0] == -100


def test_no_word_to_predict_is_no_error():
    batch = masker()([{"input_ids": [UNK, UNK]}])
    assert batch["labels"].tolist() == [[-100, -100]]
    assert batch["input_ids"].tolist() == [[UNK, UNK]]


def test_masking_is_a_function_of_seed_epoch_and_batch():
    examples = sentences(4)

    def labels(seed: int, epoch: int, examples: list[dict] = examples) -> list:
        collator = masker(seed=seed)
        collator.set_epoch(epoch)
        torch.manual_seed(torch.seed())
        return collator(examples)["labels"].tolist()

    assert labels(1, 2) == labels(1, 2)
    assert labels(1, 2) != labels(1, 3)
    assert labels(1, 2) != labels(2, 2)
    assert labels(1, 2)[0] != labels(1, 2, examples[:1] + examples[:1])[1]


def test_masking_does_not_depend_on_the_default_dtype(with_other_default):
    examples, collator = sentences(20), masker(mask_rate=0.5)
    assert_close(with_other_default(lambda: collator(examples)), collator(examples))


def test_masking_leaves_the_global_random_state_and_the_examples_alone():
    examples = [{"input_ids": torch.arange(3, 30)}, {"input_ids": torch.arange(3, 30)}]
    before, state = copy.deepcopy(examples), torch.get_rng_state()
    collator = masker(mask_rate=0.5)
    first = collator(examples)
    assert torch.equal(torch.get_rng_state(), state)
    assert_close(examples, before)
    assert_close(collator(examples), first)
    assert_close(pickle.loads(pickle.dumps(collator))(examples), first)


def test_words_are_masked_independently_of_each_other():
    same = [{"input_ids": [7] * 40} for _ in range(100)]
    masked = masker(mask_rate=0.5)(same)["labels"] != -100
    assert len({tuple(row.tolist()) for row in masked}) == 100


def test_from_tokenizer():
    tokenizer = build_word_tokenizer(["a", "b"])
    collator = MaskedWordCollator.from_tokenizer(tokenizer, mask_rate=0.4, seed=3)
    assert (collator.pad_token_id, collator.mask_token_id, collator.mask_rate, collator.seed) == (1, 2, 0.4, 3)
    assert sorted(collator.special_token_ids) == [0, 1, 2]


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, 30])
def test_impossible_mask_rate(rate):
    with pytest.raises(ValueError, match="mask_rate must be between 0 and 1"):
        masker(mask_rate=rate)


@pytest.mark.parametrize("make", [WordCollator, ParsingCollator])
def test_columns_of_the_caller_are_padded_with_their_own_value(make):
    examples = [{"input_ids": [3, 4, 5], "lemma_rules": [7, 8, 9]}, {"input_ids": [6]}]
    batch = make(PAD, columns={"lemma_rules": -100, "tag_ids": -1})(examples)
    assert batch["lemma_rules"].tolist() == [[7, 8, 9], [-100, -100, -100]]
    assert "tag_ids" not in batch
    assert "lemma_rules" not in make(PAD)(examples)


def test_columns_have_one_value_for_each_word_and_not_for_each_piece():
    examples = [
        {"input_ids": [3, 4, 5, 6], "word_ids": [-1, 0, 0, 1]},
        {"input_ids": [6], "word_ids": [0], "senses": [2]},
    ]
    assert WordCollator(PAD, columns={"senses": 0})(examples)["senses"].tolist() == [[0, 0], [2, 0]]


def test_actions_before_each_token():
    rows = [{"input_ids": [2, 5, 3], "word_ids": [0, 1, 0], "actions": [[], [0, 1], [2]]}]
    rows.append({"input_ids": [2, 3], "word_ids": [0, 0], "actions": [[], [4, 5, 6]]})
    columns = {"word_ids": 0, "actions": -1}
    batch = CausalCollator(1, columns=columns)(rows)
    nothing = [-1, -1, -1]
    assert batch["actions"].tolist() == [[nothing, [0, 1, -1], [2, -1, -1]], [nothing, [4, 5, 6], nothing]]
    assert batch["word_ids"].tolist() == [[0, 1, 0], [0, 0, 0]]
    assert batch["labels"].tolist() == [[-100, 5, 3], [-100, 3, -100]]
    left = CausalCollator(1, padding_side="left", columns=columns)(rows)
    assert left["actions"][1].tolist() == [nothing, nothing, [4, 5, 6]]


def test_further_inputs_are_computed_from_the_batch():
    def count(batch: dict) -> dict:
        return {"lengths": batch["attention_mask"].sum(1)}

    batch = CausalCollator(1, compute=count)([{"input_ids": [2, 5, 3]}, {"input_ids": [2, 3]}])
    assert batch["lengths"].tolist() == [3, 2]
    assert {"input_ids", "attention_mask", "labels"} < batch.keys()
