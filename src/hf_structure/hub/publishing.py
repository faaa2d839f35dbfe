"""Models to the Hub: files of a folder, with a card."""

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from huggingface_hub import CommitOperationAdd, HfApi, ModelCard
from huggingface_hub.errors import EntryNotFoundError, HFValidationError, HTTPError, RevisionNotFoundError

from hf_structure.hub.cards import FACTS, CardFacts, is_handwritten, make_card, read_card

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SUFFIXES = (".json", ".txt", ".model", ".jinja", ".safetensors", ".py", ".md")
PUSHING = ("commit_message", "private", "token", "revision", "create_pr", "tokenizer", "license", "language")
NAMES = ("LICENSE", "NOTICE")  # what such files begin with
NOT_OF_THE_MODEL = (FACTS, "trainer_state.json", "README.md")


class UnknownLicenseError(ValueError):
    """The licence of a model has to be named."""


@dataclass
class Publication:
    """What goes to a repository: files by their names, and the card."""

    repo_id: str
    files: dict[str, Path]
    card: str

    def __str__(self) -> str:
        sizes = {name: file.stat().st_size for name, file in self.files.items()}
        sizes["README.md"] = len(self.card.encode())
        lines = [f"{size:>13,}  {name}" for name, size in sorted(sizes.items())]
        return "\n".join([f"{self.repo_id}:", *lines, f"{sum(sizes.values()):>13,}  in all", "", self.card])


def prepare(folder: str | Path, repo_id: str, license: str | None = None, language: str | None = None) -> Publication:
    """
    What would go to a repository.

    Args:
        folder (`str` or `Path`): A model that is saved, and its tokenizer.
        repo_id (`str`): Name of the repository, `"org/name"`.
        license (`str`, *optional*):
            Its licence, as the Hub names it: `"apache-2.0"`. Needed if the folder does not tell.
        language (`str`, *optional*): Language of its text, such as `"en"`.

    Raises:
        ValueError: no model in the folder, weights that are no safetensors.
        UnknownLicenseError: neither the folder nor `license` tells it. It is a `ValueError`.
    """
    folder = Path(folder)
    files = {file.name: file for file in sorted(folder.glob("*")) if _is_of_the_model(file)}
    if "config.json" not in files:
        raise ValueError(f"{folder} holds no model: there is no config.json in it")
    if not any(name.endswith(".safetensors") for name in files):
        raise ValueError(f"{folder} has no weights in safetensors: load the model and save it again")
    return Publication(repo_id, files, str(_card(folder, repo_id, license, language)))


def publish(
    publication: Publication,
    private: bool | None = None,
    revision: str | None = None,
    message: str = "Upload model",
    token: str | bool | None = None,
    create_pr: bool = False,
) -> str:
    """
    Puts a model on the Hub, in one commit.

    Args:
        publication ([`Publication`]): What [`prepare`] gives.
        private (`bool`, *optional*): Whether a new repository is private; by default as its owner has set.
        revision (`str`, *optional*): Branch, made if need be; by default `"main"`.
        message (`str`): Message of the commit.
        token (`str` or `bool`, *optional*): By default the one of this machine (`hf auth login`, HF_TOKEN).
        create_pr (`bool`): Whether to propose the commit as a pull request.

    Returns:
        `str`: address of the commit.

    Raises:
        ValueError: the Hub does not take it.
    """
    api, name = HfApi(token=token), publication.repo_id
    additions = [CommitOperationAdd(path, file) for path, file in publication.files.items()]
    additions.append(CommitOperationAdd("README.md", publication.card.encode()))
    try:
        name = api.create_repo(name, private=private, exist_ok=True).repo_id
        if revision and not create_pr:
            api.create_branch(name, branch=revision, exist_ok=True)
        commit = api.create_commit(name, additions, commit_message=message, revision=revision, create_pr=create_pr)
    except (HTTPError, OSError, HFValidationError) as error:
        raise ValueError(f"cannot publish {name}: {str(error).strip().splitlines()[0]}") from error
    return commit.pr_url or commit.commit_url


def published_card(repo_id: str, revision: str | None = None, token: str | bool | None = None) -> ModelCard | None:
    """The card of a repository, if there is one."""
    try:
        file = HfApi(token=token).hf_hub_download(repo_id, "README.md", revision=revision)
    except (EntryNotFoundError, RevisionNotFoundError, HTTPError, OSError):
        return None
    return ModelCard(Path(file).read_text("utf-8"), ignore_metadata_errors=True)


class PublishingMixin:
    """Models whose `push_to_hub` gives them a card that says what they are."""

    def save_pretrained(self, save_directory, *args, push_to_hub: bool = False, repo_id: str | None = None, **options):
        """As in transformers; with `push_to_hub`, `options` may be those of [`push_to_hub`], too."""
        pushing = {name: options.pop(name) for name in PUSHING if name in options}
        super().save_pretrained(save_directory, *args, **options)
        if push_to_hub and options.get("is_main_process", True):
            self.push_to_hub(repo_id or Path(save_directory).name, **pushing)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        commit_message: str | None = None,
        private: bool | None = None,
        token: str | bool | None = None,
        revision: str | None = None,
        create_pr: bool = False,
        tokenizer: "PreTrainedTokenizerBase | None" = None,
        license: str | None = None,
        language: str | None = None,
        **save_options,
    ) -> str:
        """
        Puts the model on the Hub, with a card. A card that somebody wrote there stays as it is.

        Args:
            repo_id (`str`): Name of the repository, `"org/name"`.
            commit_message, private, token, revision, create_pr: As in transformers.
            tokenizer (`PreTrainedTokenizerBase`, *optional*): Put beside the model in the same commit.
            license (`str`, *optional*):
                Its licence, as the Hub names it: `"apache-2.0"`. Needed for a new card.
            language (`str`, *optional*): Language of its text, such as `"en"`.
            save_options: Those of `save_pretrained`, such as `max_shard_size`.

        Raises:
            UnknownLicenseError: for a new card, `license` is needed.
            ValueError: the Hub does not take the model.
        """
        with TemporaryDirectory() as folder:
            self.save_pretrained(folder, **save_options)
            if tokenizer is not None:
                tokenizer.save_pretrained(folder)
            if card := published_card(repo_id, revision, token):
                card.save(Path(folder) / "README.md")
            publication = prepare(folder, repo_id, license, language)
            return publish(publication, private, revision, commit_message or "Upload model", token, create_pr)


def _is_of_the_model(file: Path) -> bool:
    if file.name in NOT_OF_THE_MODEL or file.name.endswith("_results.json") or file.is_dir():
        return False
    return file.suffix in SUFFIXES or file.name.startswith(NAMES)


def _card(folder: Path, repo_id: str, license: str | None, language: str | None) -> ModelCard:
    """The card that somebody wrote, with what is given added to its metadata, or a new one."""
    card, facts = read_card(folder), CardFacts.of_folder(folder)
    before = card.data if card else facts
    license, language = license or before.license or facts.license, language or before.language or facts.language
    if not license:
        raise UnknownLicenseError(
            "the licence of this model is not known: name it (--license, or license=), such as apache-2.0, mit or "
            "cc-by-sa-4.0"
        )
    if card is None or not is_handwritten(card):
        return make_card(folder, repo_id, replace(facts, license=license, language=language))
    card.data.license, card.data.language = license, language
    return card


__all__ = ["Publication", "PublishingMixin", "UnknownLicenseError", "prepare", "publish", "published_card"]
