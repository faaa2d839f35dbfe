"""The battery of parsers that read a sentence several times: their base model tells what is inside."""

from collections.abc import Mapping

import pytest
import torch
from modeling_common import LENGTHS, ModelBattery, collate

only_base_class = pytest.mark.parametrize("kind", ["base_class"])


def parsed_examples(
    config, trees: Mapping[int, list[int]], lengths: tuple[int, ...] = LENGTHS
) -> list[dict[str, list[int]]]:
    """Sentences with the trees of their lengths, or else chains, and different shares of labels."""
    generator = torch.Generator().manual_seed(sum(lengths))
    result = []
    for number, n in enumerate(lengths):
        example = {"input_ids": torch.randint(3, config.vocab_size, (n,), generator=generator).tolist()}
        example["heads"] = trees.get(n) or [0, *range(1, n)]
        example["labels"] = [-100 if number and i % (number + 1) else i % config.num_relations for i in range(n)]
        result.append(example)
    return result


class ParserBattery(ModelBattery):
    """Without labels there are no heads either."""

    gives_attentions = False

    def initial_moments(self, config, name, shape):
        if "norm" in name:
            return float(name.endswith("weight")), 0
        return 0, 0 if name.endswith("bias") else config.initializer_range

    def inputs(self, model, side="right", labels=True):
        batch = collate(self.examples(model.config), side)
        if not labels or not isinstance(model, self.head_class):
            del batch["labels"], batch["heads"]
        return batch

    @only_base_class
    def test_hidden_states_and_attentions(self, kind):
        super().test_hidden_states_and_attentions(kind)

    @only_base_class
    def test_large_extra_outputs_are_not_gathered_in_evaluation(self, kind):
        super().test_large_extra_outputs_are_not_gathered_in_evaluation(kind)
        model = self.model()
        extra = set(model(**self.inputs(model)).keys()) - {"loss", "logits"}
        assert extra == set(model.config.keys_to_ignore_at_inference) - {"hidden_states", "attentions"}

    @only_base_class
    def test_resized_vocabulary(self, kind, tmp_path):
        super().test_resized_vocabulary(kind, tmp_path)

    test_tied_weights_stay_tied = test_untied_weights = None  # there are no output embeddings
