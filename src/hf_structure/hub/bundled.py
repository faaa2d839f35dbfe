"""The models that come with this and other installed packages, described by their cards."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, ModelCardData

from hf_structure.hub.locating import CHECKPOINTS, installed_models, short_names

GIVES = {  # by tags of cards
    "dependency-parsing": "dependency trees",
    "constituency-parsing": "constituency trees",
    "dependency-graphs": "dependency graphs",
    "part-of-speech": "tags",
    "lemmatization": "lemmas",
    "sentence-segmentation": "sentences",
}
SPEED = "words_per_second"  # a metric of speed, not of quality


@dataclass(frozen=True)
class BundledModel:
    """A model that comes with a package."""

    name: str
    gives: list[str]  # kinds of structure and other predictions
    needs_treebank: bool  # True if trained on a treebank, False if on text alone
    megabytes: float  # size of its files, in millions of bytes
    license: str  # identifier on the Hub, "unknown" without one
    data: str  # evaluation data, "" without scores
    scores: dict[str, float]  # in percent, by metric
    words_per_second: int | None  # parsed on one core, in float32


def bundled_models() -> list[BundledModel]:
    """Describes the models of [`short_names`], in that order. All but the sizes comes from the metadata of cards."""
    return [_read(CHECKPOINTS / name) for name in short_names()]


def models_of_packages() -> list[BundledModel]:
    """Describes the models of [`installed_models`]. Their cards may lack any of this, or may not exist."""
    return [_read(folder) for folder in installed_models().values()]


def _read(folder: Path) -> BundledModel:
    card = folder / "README.md"
    data: Any = ModelCard.load(card, ignore_metadata_errors=True).data if card.is_file() else ModelCardData()
    results = data.eval_results or []
    tags = data.tags or []
    speeds = [result.metric_value for result in results if result.metric_type == SPEED]
    scored = [result for result in results if result.metric_type != SPEED]
    return BundledModel(
        name=folder.name,
        gives=[GIVES[tag] for tag in tags if tag in GIVES],
        needs_treebank="grammar-induction" not in tags,
        megabytes=round(sum(file.stat().st_size for file in folder.iterdir()) / 1e6, 1),
        license=data.license or "unknown",
        data=f"{scored[0].dataset_name}, {scored[0].dataset_split}" if scored else "",
        scores={result.metric_name: result.metric_value for result in scored},
        words_per_second=speeds[0] if speeds else None,
    )
