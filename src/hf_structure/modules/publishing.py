"""Publishing on the Hub: with a model card if this package is installed, otherwise as transformers does it."""

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from transformers import PreTrainedModel


class PublishingMixin(PreTrainedModel):
    """`push_to_hub` and `save_pretrained(push_to_hub=True)` give the model a card."""

    def save_pretrained(self, save_directory, *args, push_to_hub: bool = False, repo_id: str | None = None, **options):
        """As in transformers; with `push_to_hub`, `options` may also include options of [`push_to_hub`]."""
        publishing = _publishing()
        if publishing is None:
            named = {"repo_id": repo_id} if repo_id else {}
            return super().save_pretrained(save_directory, *args, push_to_hub=push_to_hub, **named, **options)
        pushing = {name: options.pop(name) for name in publishing.PUSHING if name in options}
        super().save_pretrained(save_directory, *args, **options)
        if push_to_hub and options.get("is_main_process", True):
            self.push_to_hub(repo_id or Path(save_directory).name, **pushing)

    def push_to_hub(self, repo_id: str, **options) -> str:
        """
        Puts the model on the Hub, with a card. A card that somebody wrote there stays as it is.

        Args:
            repo_id (`str`): Name of the repository, `"org/name"`.
            options: `commit_message`, `commit_description`, `private`, `token`, `revision`, `create_pr`, `tags` as in
                transformers; a `tokenizer` to upload with the model; `license`, as the Hub names it (`"apache-2.0"`),
                needed for a new card; `language` of its text, such as `"en"`; and options of `save_pretrained`.

        Raises:
            UnknownLicenseError: for a new card, `license` is needed.
            ValueError: the Hub does not take the model.
        """
        publishing = _publishing()
        if publishing is None:
            as_in_transformers: Any = super()
            return as_in_transformers.push_to_hub(repo_id, **options)
        return publishing.push_model(self, repo_id, **options)


def _publishing() -> ModuleType | None:
    """The module, imported by name so that exported code does not carry it; None without this package."""
    try:
        return import_module("hf_structure.hub.publishing")
    except ModuleNotFoundError:
        return None
