from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from hf_structure.models.abilities import PROBABILITIES, Abilities, Column


@strict
class ToyConfig(PreTrainedConfig):
    model_type = "toy"

    vocab_size: int = 20
    hidden_size: int = 4
    tones: list[str] | None = None

    @property
    def abilities(self) -> Abilities:
        tones = Column("tone", dict(enumerate(self.tones or ("low", "high"))))
        return Abilities(
            structures=("dependency",),
            columns=(PROBABILITIES, tones, Column("word_length")),
            decoders=("tree",),
            reads="words",
        )
