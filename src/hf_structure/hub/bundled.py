"""The models that come with this and other installed packages, described by their cards."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, ModelCardData

from hf_structure.hub.locating import CHECKPOINTS, installed_models, short_names

logger = logging.getLogger(__name__)

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
    """
    Describes the models of [`installed_models`]. Their cards may lack any of this, or may not exist; invalid ones are
    ignored with a warning.
    """
    return [_read_of_package(folder) for folder in installed_models().values()]


def _read_of_package(folder: Path) -> BundledModel:
    try:
        return _read(folder)
    # Others write these cards; one with mistakes does not hide the other models.
    except Exception as error:
        reason = str(error).split("\n")[0]
        logger.warning("%s is ignored, because it is no valid model card: %s", folder / "README.md", reason)
        return _describe(folder, ModelCardData())


def _read(folder: Path) -> BundledModel:
    card = folder / "README.md"
    data = ModelCard.load(card, ignore_metadata_errors=True).data if card.is_file() else ModelCardData()
    return _describe(folder, data)


def _describe(folder: Path, data: Any) -> BundledModel:
    tags = data.tags or []
    results = [result for result in data.eval_results or [] if isinstance(result.metric_value, (int, float))]
    speeds = [result.metric_value for result in results if result.metric_type == SPEED]
    scored = [result for result in results if result.metric_type != SPEED]
    return BundledModel(
        name=folder.name,
        gives=[GIVES[tag] for tag in tags if tag in GIVES],
        needs_treebank="grammar-induction" not in tags,
        megabytes=round(sum(file.stat().st_size for file in folder.iterdir() if file.is_file()) / 1e6, 1),
        license=str(data.license or "unknown"),
        data=", ".join(filter(None, (scored[0].dataset_name, scored[0].dataset_split))) if scored else "",
        scores={result.metric_name or result.metric_type: result.metric_value for result in scored},
        words_per_second=speeds[0] if speeds else None,
    )
