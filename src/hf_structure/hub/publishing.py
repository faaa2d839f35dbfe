"""Publishing models on the Hub: the files of a folder, and a card."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, ModelCard
from huggingface_hub.errors import (
    HFValidationError,
    HTTPError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import validate_repo_id

from hf_structure.hub.cards import (
    FACTS,
    RESULTS,
    SPLITS,
    CardFacts,
    is_handwritten,
    make_card,
    make_eval_results,
    read_card,
)
from hf_structure.hub.eval_results import EVAL_RESULTS, find_files, is_made

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

SUFFIXES = (".json", ".txt", ".model", ".jinja", ".safetensors", ".py", ".md")
PUSHING = ("commit_message", "commit_description", "private", "token", "revision", "create_pr", "tags")
PUSHING += ("tokenizer", "license", "language")
WEIGHTS = ("model*.safetensors", "model.safetensors.index.json", "pytorch_model*.bin*")
POOLING = "*_Pooling/config.json"  # of sentence-transformers
NAMES = ("LICENSE", "NOTICE")  # prefixes of names of further files
COMPANIONS = (
    FACTS,
    RESULTS,
    "LICENSE*",
    "NOTICE*",
    f"{EVAL_RESULTS}/*.yaml",
)  # files about a saved model, besides the model itself
NOT_OF_THE_MODEL = (FACTS, "trainer_state.json", "README.md")


class UnknownLicenseError(ValueError):
    """Raised if the licence of a model is unknown and must be given."""


@dataclass
class Publication:
    """The content of a repository: files by their names, the card, and generated texts by their names."""

    repo_id: str
    files: dict[str, Path]
    card: str
    texts: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        sizes = {name: file.stat().st_size for name, file in self.files.items()}
        texts = self.texts | {"README.md": self.card}
        sizes |= {name: len(text.encode()) for name, text in texts.items()}
        lines = [f"{size:>13,}  {name}" for name, size in sorted(sizes.items())]
        return "\n".join([f"{self.repo_id}:", *lines, f"{sum(sizes.values()):>13,}  in all", "", self.card])


def prepare(
    folder: str | Path,
    repo_id: str,
    license: str | None = None,
    language: str | None = None,
    tags: list[str] | None = None,
    eval_dataset: str | None = None,
) -> Publication:
    """
    Collects the content of a repository, without uploading it.

    Args:
        folder (`str` or `Path`): A saved model and its tokenizer.
        repo_id (`str`): Name of the repository, `"org/name"`.
        license (`str`, *optional*): Its licence as the Hub names it, `"apache-2.0"`, unless the folder has it.
        language (`str`, *optional*): Language of its text, such as `"en"`.
        tags (`list[str]`, *optional*): Further tags for its card.
        eval_dataset (`str`, *optional*):
            Data set of the Hub that the results of training are of, `"org/name/task@revision"`, unless the folder has
            it; without task and revision if there is none.

    Raises:
        ValueError: an invalid name, no model in the folder, weights in another format than safetensors, an
            `eval_dataset` without results.
        UnknownLicenseError: neither the folder nor `license` names the licence. It is a `ValueError`.
    """
    # Before any file is read: a wrong name would otherwise show only at the upload.
    with _readable(repo_id):
        validate_repo_id(repo_id)
    folder = Path(folder)
    files = {file.name: file for file in sorted(folder.glob("*")) if _is_of_the_model(file)}
    files |= {file.relative_to(folder).as_posix(): file for file in folder.glob(POOLING)}
    if "config.json" not in files:
        raise ValueError(f"{folder} holds no model: there is no config.json in it")
    # Pickled weights may run code when they are loaded.
    if not any(name.endswith(".safetensors") for name in files):
        raise ValueError(f"{folder} has no weights in safetensors: load the model and save it again")
    facts = CardFacts.of_folder(folder)
    if eval_dataset:
        facts = replace(facts, benchmarks=dict.fromkeys(SPLITS, eval_dataset))
    made = make_eval_results(folder, repo_id, facts)
    if eval_dataset and not made:
        raise ValueError(f"{folder} has no results of {eval_dataset}: there are none in {RESULTS}")
    found = find_files(folder)
    # Generated files in the folder are replaced: they lack the repository, which is the source.
    texts = {path: text for path, text in made.items() if path not in found or is_made(found[path])}
    files |= {path: file for path, file in found.items() if path not in texts}
    card = _card(folder, repo_id, license, language)
    if tags:
        data: Any = card.data
        data.tags = list(dict.fromkeys([*(data.tags or []), *tags]))
    return Publication(repo_id, files, str(card), texts)


def publish(
    publication: Publication,
    private: bool | None = None,
    revision: str | None = None,
    message: str = "Upload model",
    description: str | None = None,
    token: str | bool | None = None,
    create_pr: bool = False,
) -> str:
    """
    Uploads a model to the Hub in one commit, and returns its address. Raises `ValueError` if the Hub refuses it.

    Args:
        private (`bool`, *optional*): Makes a new repository private; by default as set by its owner.
        revision (`str`, *optional*): Branch, created if it does not exist; by default `"main"`.
        message, description (`str`): Message of the commit, its first line and the rest.
        token (`str` or `bool`, *optional*): By default the token of this machine (`hf auth login`, HF_TOKEN).
        create_pr (`bool`): Proposes the commit as a pull request.
    """
    api = HfApi(token=token)
    with _readable(publication.repo_id):
        name = api.create_repo(publication.repo_id, private=private, exist_ok=True).repo_id
        # A pull request brings a branch of its own.
        if revision and not create_pr:
            api.create_branch(name, branch=revision, exist_ok=True)
        changes = _changes(api, publication, name, revision)
        commit = api.create_commit(
            name,
            changes,
            commit_message=message,
            commit_description=description,
            revision=revision,
            create_pr=create_pr,
        )
    return commit.pr_url or commit.commit_url


def _changes(
    api: HfApi, publication: Publication, name: str, revision: str | None
) -> list[CommitOperationAdd | CommitOperationDelete]:
    """
    Adds the files of a publication, and deletes published weights under other names, which would be loaded instead. A
    generated card does not replace a handwritten one.
    """
    changes = [CommitOperationAdd(path, file) for path, file in publication.files.items()]
    changes += [CommitOperationAdd(path, text.encode()) for path, text in publication.texts.items()]
    published = published_card(api, name, revision)
    if published is None or not is_handwritten(published) or is_handwritten(ModelCard(publication.card)):
        changes.append(CommitOperationAdd("README.md", publication.card.encode()))
    others = set(api.list_repo_files(name, revision=revision)) - set(publication.files)
    stale = sorted(file for file in others if any(fnmatch(file, pattern) for pattern in WEIGHTS))
    return [*changes, *(CommitOperationDelete(file) for file in stale)]


def published_card(api: HfApi, name: str, revision: str | None = None) -> ModelCard | None:
    """Downloads the card of a repository, if both exist."""
    try:
        file = api.hf_hub_download(name, "README.md", revision=revision)
    except (RemoteEntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError):
        return None
    return ModelCard(Path(file).read_text("utf-8"), ignore_metadata_errors=True)


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Turns refusals of the Hub into a `ValueError` of one line."""
    try:
        yield
    except (HTTPError, OSError, HFValidationError, RuntimeError) as error:
        # huggingface_hub raises a RuntimeError for a large file, from the error of the network.
        causes = [error, error.__cause__] if isinstance(error, RuntimeError) else [error]
        reasons = [(str(cause).strip() or type(cause).__name__).splitlines()[0] for cause in causes if cause]
        # All files come in one commit, and large ones that were uploaded before are kept there.
        advice = "; nothing is half published: repeat it" if _is_interruption(causes[-1]) else ""
        raise ValueError(f"cannot publish {name}: {' '.join(reasons)}{advice}") from error


def _is_interruption(error: BaseException | None) -> bool:
    """Returns True if the same upload may succeed later: no connection, or a fault of the server."""
    response = getattr(error, "response", None)
    return isinstance(error, HTTPError) and (response is None or response.status_code >= 500)


def push_model(
    model: "PreTrainedModel",
    repo_id: str,
    *,
    commit_message: str | None = None,
    commit_description: str | None = None,
    private: bool | None = None,
    token: str | bool | None = None,
    revision: str | None = None,
    create_pr: bool = False,
    tokenizer: "PreTrainedTokenizerBase | None" = None,
    license: str | None = None,
    language: str | None = None,
    tags: list[str] | None = None,
    **save_options,
) -> str:
    """See [`~hf_structure.modules.publishing.PublishingMixin.push_to_hub`]."""
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder, **save_options)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)
        with _readable(repo_id):
            api = HfApi(token=token)
            repo_id = repo_id if "/" in repo_id else f"{api.whoami()['name']}/{repo_id}"
            # A published card may have been edited on the Hub: it is kept, unless it was generated.
            if card := published_card(api, repo_id, revision):
                card.save(Path(folder) / "README.md")
        publication = prepare(folder, repo_id, license, language, tags)
        message = commit_message or "Upload model"
        return publish(publication, private, revision, message, commit_description, token, create_pr)


def _is_of_the_model(file: Path) -> bool:
    if file.name in NOT_OF_THE_MODEL or file.name.endswith("_results.json") or file.is_dir():
        return False
    return file.suffix in SUFFIXES or file.name.startswith(NAMES)


def _card(folder: Path, repo_id: str, license: str | None, language: str | None) -> ModelCard:
    """Returns the handwritten card, with licence and language in its metadata, or generates a new one."""
    card = read_card(folder)
    facts = CardFacts.of_folder(folder)
    before: Any = card.data if card else facts
    license = license or before.license or facts.license
    language = language or before.language or facts.language
    if not license:
        raise UnknownLicenseError(
            "the licence of this model is not known: name it (--license, or license=), such as apache-2.0, mit or "
            "cc-by-sa-4.0"
        )
    if card is None or not is_handwritten(card):
        return make_card(folder, repo_id, replace(facts, license=license, language=language))
    before.license = license
    before.language = language
    return card
