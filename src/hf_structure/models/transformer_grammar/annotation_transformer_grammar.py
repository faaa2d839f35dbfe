"""Trees in annotated sentences, as the actions of transformer grammars."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from hf_structure.models.annotations import Annotate, StructureAnnotation, StructureReading
from hf_structure.models.transformer_grammar.actions_transformer_grammar import at_tokens, tree_actions
from hf_structure.models.transformer_grammar.configuration_transformer_grammar import TransformerGrammarConfig
from hf_structure.models.transformer_grammar.machine_transformer_grammar import Machine, Replay


@dataclass(frozen=True)
class ActionAnnotation(StructureAnnotation):
    """Constituency or dependency trees, as actions between tokens."""

    structures = "trees"
    setting = "formalism"
    column = "actions"
    columns = {"word_ids": list[int], "actions": list[list[int]]}
    padding = {"word_ids": 0, "actions": -1}
    computed_inputs = ("replay",)
    is_text = True

    @classmethod
    def source(cls, value: Any) -> str | None:
        return value

    @classmethod
    def new_settings(cls, tokenizer: Any) -> dict[str, Any]:
        from hf_structure.text.tokenization import inner_pieces

        return {"inner_pieces": inner_pieces(tokenizer)}

    def annotate(self, in_advance: bool = False) -> Annotate:
        return partial(with_actions, config=self.config)

    def collator(self, pad_token_id: int) -> Any:
        from hf_structure.corpora.collators import CausalCollator

        return CausalCollator(pad_token_id, columns=dict(self.padding), compute=partial(replay_batch, self.config))

    def read(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        word_ids: torch.Tensor,
        structures: torch.Tensor,
        **options: Any,
    ) -> StructureReading:
        core = model.model
        embedded = model.get_input_embeddings()(input_ids)
        reading = core.read(embedded, attention_mask, word_ids, structures, None, False, **options)
        replay = reading.replay
        length = replay.events.shape[1]
        # Attention is among events: words are found again at the events that read their tokens.
        positions = torch.where(word_ids > 0, replay.starts[:, :-1, -1], length)
        of_events = word_ids.new_zeros(len(input_ids), length + 1).scatter(1, positions, word_ids)[:, :-1]  # (B, E)
        tapes = {"position": replay.positions[..., :length], "visible": replay.visible.any(1)[..., :length]}
        return StructureReading(reading.outputs, of_events, tapes)


def replay_batch(config: TransformerGrammarConfig, batch: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """The `replay` of a batch of whole texts with actions, so that the training step does nothing event by event."""
    if "actions" not in batch:
        return {}
    machine = Machine.empty(config, len(batch["actions"]))
    replay = Replay.of_texts(batch["actions"], batch["word_ids"], batch["attention_mask"], machine)
    return {"replay": replay.inputs}


def with_actions(
    sentences: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], config: TransformerGrammarConfig
) -> list[dict[str, Any]]:
    """The words of tokens, and the actions before each token, of sentences with trees."""
    found = []
    for sentence, row in zip(sentences, rows, strict=True):
        actions = at_tokens(tree_actions(sentence, config), row["word_ids"])
        found.append({"word_ids": row["word_ids"], "actions": actions})
    return found
