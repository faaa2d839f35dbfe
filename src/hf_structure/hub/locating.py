"""Sources of models: package data, installed packages, folders, the Hub."""

import json
from collections import defaultdict
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from hf_structure.hub.suggestions import did_you_mean

CHECKPOINTS = Path(__file__).parents[1] / "checkpoints"

GROUP = "hf_structure.models"  # entry points of packages that contain models
PACKAGES = {  # of further models, whose sources are in model_cards/
    "rngt-en-large": "hf-structure-large",
    "rngt-multilingual": "hf-structure-multilingual",
}

FILES = ["*.json", "*.txt", "*.model", "*.jinja", "*.safetensors"]  # of a model and its tokenizer
PICKLES = "pytorch_model*.bin"  # weights of old repositories; transformers reads them as tensors only
TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "vocab.txt", "*.model")
LOGIN = "give a token: `hf auth login`, or HF_TOKEN"


def short_names() -> list[str]:
    """Returns the names of the models that come with the package."""
    return sorted(config.parent.name for config in CHECKPOINTS.glob("*/config.json"))


def installed_models() -> dict[str, Path]:
    """
    Maps the names of models in other installed packages to their folders. Such a package has an entry point in the
    group `hf_structure.models`, which names a package whose folder contains model folders. Names that several packages
    use are left out.
    """
    models, _ = _search_packages()
    return {name: next(iter(folders)) for name, folders in models.items() if len(folders) == 1}


def package_problems() -> list[str]:
    """Returns a line for each package that cannot be read, and for each of its models that cannot be used by name."""
    models, unread = _search_packages()
    problems = [*unread]
    bundled = short_names()
    for name, folders in models.items():
        if name in bundled:
            where = " or ".join(map(str, folders))
            problems.append(f"{name} in {where} is not used: hf_structure has a model of this name; give the folder")
        elif len(folders) > 1:
            problems.append(_conflict(name, folders))
    return problems


def not_installed() -> dict[str, str]:
    """Maps the names of known models that are not installed to the commands that install them."""
    return {
        name: f"pip install ./model_cards/{name} in a clone, or pip install {package} once it is on an index"
        for name, package in PACKAGES.items()
        if name not in _search_packages()[0]
    }


@cache  # Finding all packages takes longer than parsing a sentence.
def _search_packages() -> tuple[dict[str, dict[Path, str]], list[str]]:
    """Returns the folders of each model name, with their packages, and a line for each entry point without models."""
    models: dict[str, dict[Path, str]] = defaultdict(dict)
    problems: list[str] = []
    for entry in sorted(entry_points(group=GROUP)):
        package = entry.dist.name if entry.dist else entry.name
        try:
            folders = _model_folders(entry)
        # A finder of a package may raise anything; the other packages are still read.
        except Exception as error:
            command = f"pip install --force-reinstall {package}, or pip uninstall {package}"
            problems.append(f"{package}, entry point {entry.name} = {entry.value}: {error} ({command})")
            continue
        for folder in folders:
            models[folder.name][folder] = package
    return dict(sorted(models.items())), problems


def _model_folders(entry: EntryPoint) -> list[Path]:
    """Finds the model folders of an entry point without importing its package."""
    name, *inner = entry.value.split(".")
    spec = find_spec(name)
    if spec is None:
        raise ValueError(f"there is no package {name}")
    roots = [Path(root, *inner) for root in spec.submodule_search_locations or ()]
    folders = sorted(config.parent for root in roots for config in root.glob("*/config.json"))
    if not folders:
        raise ValueError(f"there is no folder with a config.json in {' or '.join(map(str, roots)) or name}")
    return folders


def _conflict(name: str, folders: dict[Path, str]) -> str:
    packages = ", ".join(f"{package} ({folder})" for folder, package in folders.items())
    return f"several packages have a model {name}: {packages}; uninstall all but one, or give a folder"


def resolve_model(name: str | Path, revision: str | None = None, trust_remote_code: bool = False) -> str:
    """
    Returns the folder of a model. The Hub is asked for the newest commit each time. Files in the local cache are not
    downloaded again; while the Hub is unreachable, complete models come from the cache.

    Args:
        name (`str` or `Path`): A short name (see [`short_names`]), the name of a model in an installed package (see
            [`installed_models`]), a folder, or a name on the Hub such as `"org/model"` or `"org/model@revision"`;
            looked up in this order.
        revision (`str`, *optional*): Branch, tag or commit of a model on the Hub, by default `"main"`.
        trust_remote_code (`bool`): Also downloads code of the model.

    Raises:
        ValueError: there is no such model; the message lists all attempts.
    """
    name = str(name)
    # First, so that a folder of that name in the current one does not change what an example loads.
    if name in short_names():
        _check_no_revision(name, revision, "comes with the package")
        return str(CHECKPOINTS / name)
    models, _ = _search_packages()
    if name in models:
        _check_no_revision(name, revision, "comes with an installed package")
        if len(models[name]) > 1:
            raise ValueError(_conflict(name, models[name]))
        return str(installed_models()[name])
    if name and Path(name).is_dir():
        _check_no_revision(name, revision, "is a folder")
        if not (Path(name) / "config.json").is_file():
            raise ValueError(f"{name} is a folder, but holds no model: there is no config.json in it")
        return name
    if name in not_installed():
        raise ValueError(f"{name} is not installed: {not_installed()[name]}")
    repository, at, commit = name.partition("@")
    if at and revision:
        raise ValueError(f"{name!r} names a revision, and revision={revision!r} another one: leave one of them out")
    return str(_download(repository, revision or commit or "main", [*FILES, *["*.py"] * trust_remote_code]))


def _check_no_revision(name: str, revision: str | None, what: str) -> None:
    if revision is not None:
        raise ValueError(f"{name} {what}: it has no revisions, such as {revision!r}")


def _download(name: str, revision: str, files: list[str]) -> Path:
    """Downloads files of a repository into the local cache, and returns their folder."""
    # Late: short names and folders do not need the client of the Hub.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HTTPError

    # Subfolders hold checkpoints of training or other formats.
    options = {"revision": revision, "ignore_patterns": ["*/*"]}
    try:
        folder = Path(snapshot_download(name, allow_patterns=files, **options))
        # Pickled weights are downloaded only if there are no others.
        if not list(folder.glob("*.safetensors")):
            folder = Path(snapshot_download(name, allow_patterns=[*files, PICKLES], **options))
        if missing := _missing(folder):
            _check_reachable(name, revision)
            # A tokenizer may come from another repository.
            if missing != "tokenizer":
                raise ValueError(f"there is no {missing} in this repository")
    except (HTTPError, OSError, ValueError) as error:
        raise ValueError(_message(name, revision, error)) from error
    return folder


def _missing(folder: Path) -> str | None:
    """Names the first missing part of a cached model: config.json, a file of weights, or a tokenizer."""
    index = folder / "model.safetensors.index.json"
    weights = sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values())) if index.is_file() else []
    for name in ("config.json", *weights):
        if not (folder / name).exists():
            return name
    for title, patterns in {"model.safetensors": ("*.safetensors", PICKLES), "tokenizer": TOKENIZERS}.items():
        if not any(file.exists() for pattern in patterns for file in folder.glob(pattern)):
            return title
    return None


def _check_reachable(name: str, revision: str) -> None:
    """Raises `LocalEntryNotFoundError` if a repository that is incompletely cached cannot be reached."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HTTPError, LocalEntryNotFoundError

    try:
        HfApi().model_info(name, revision=revision)
    except (HTTPError, OSError) as error:
        raise LocalEntryNotFoundError("incomplete") from error


def _message(name: str, revision: str, error: Exception) -> str:
    """Explains the error of a repository in one line."""
    found = ", ".join(short_names()) or "none"
    others = f" or another ({', '.join(installed_models())})" if installed_models() else ""
    suggestion = did_you_mean(name, {*short_names(), *installed_models(), *PACKAGES})
    unread = "".join(f"; {problem}" for problem in package_problems())
    return (
        f"no model {name!r}{suggestion}: it is neither a model of this package ({found}){others} nor a folder, and "
        f"the Hub has none: {_reason(revision, error)}{unread}"
    )


def _reason(revision: str, error: Exception) -> str:
    from huggingface_hub import constants, errors, is_offline_mode

    if isinstance(error, errors.HFValidationError):
        return "its names have the form org/name"
    if isinstance(error, errors.GatedRepoError):
        return f"its terms must be accepted on its page there; then {LOGIN}"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"it has no such model, or a private one; for a private one {LOGIN}"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"it has no revision {revision!r} of this model"
    if not isinstance(error, errors.LocalEntryNotFoundError):
        return str(error).strip().split("\n")[0]
    partial = "incomplete" in str(error)
    cached = f"{'only a part' if partial else 'nothing'} of revision {revision!r} is in the local cache"
    if is_offline_mode():
        return f"HF_HUB_OFFLINE is set, and {cached}"
    if isinstance(error.__cause__, errors.HfHubHTTPError):
        return f"{constants.ENDPOINT} answers with status {error.__cause__.response.status_code}, and {cached}"
    return f"{constants.ENDPOINT} cannot be reached, and {cached}"
