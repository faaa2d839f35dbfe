"""Evaluation results for the leaderboards of benchmarks on the Hub, `.eval_results/*.yaml`."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from huggingface_hub import EvalResultEntry, HfApi, constants, eval_result_entries_to_yaml
from huggingface_hub.errors import HFValidationError, HTTPError
from huggingface_hub.utils import validate_repo_id, yaml_dump

EVAL_RESULTS = ".eval_results"
MARK = "# Made by hf_structure. Take this line out, and the file stays as you write it.\n"
BENCHMARK = re.compile(r"(?P<id>[^/@]+/[^/@]+)(/(?P<task>[^/@]+))?(@(?P<revision>[0-9a-f]{40}))?")
FORM = "ORG/NAME[/TASK][@REVISION]"


def parse_benchmark(text: str) -> dict[str, str | None]:
    """
    Splits `"org/name/task@revision"`, a data set of the Hub, into `id`, `task` and `revision`; the last two may be
    absent. Raises `ValueError` for anything else.
    """
    found = BENCHMARK.fullmatch(text)
    try:
        validate_repo_id(found["id"] if found else text)
    except HFValidationError as error:
        raise ValueError(f"{text!r} is no data set of the Hub: {error}") from error
    if found is None:
        raise ValueError(
            f"{text!r} is no data set of the Hub: write {FORM}, with the 40 hexadecimal digits of a commit"
        )
    return found.groupdict()


def benchmark_of(dataset: str, task: str | None = None) -> str | None:
    """
    Names a data set that was loaded, with its present revision unless the Hub cannot be asked, as [`parse_benchmark`]
    reads it; None if it is local or belongs to no organisation.
    """
    if Path(dataset).exists() or "/" not in dataset:
        return None
    named = f"{dataset}/{task}" if task else dataset
    try:
        return f"{named}@{HfApi().dataset_info(dataset).sha}"
    except (HTTPError, OSError):
        return named


def make_entry(
    benchmark: str, metric: str, value: float, notes: str, date: str | None = None, repo_id: str | None = None
) -> EvalResultEntry:
    """
    Makes the entry of a result.

    Args:
        benchmark (`str`): The data set, see [`parse_benchmark`].
        metric (`str`): The metric. The name of the entry's task begins with the task of the data set, if any.
        value (`float`): Its value.
        notes (`str`): A description of the evaluation.
        date (`str`, *optional*): When the evaluation ended, in ISO 8601.
        repo_id (`str`, *optional*): Repository of the model, whose card is the source.
    """
    named = parse_benchmark(benchmark)
    source = f"{constants.ENDPOINT}/{repo_id}" if repo_id and "/" in repo_id else None
    return EvalResultEntry(
        dataset_id=str(named["id"]),
        task_id="_".join(filter(None, (named["task"], metric))),
        value=value,
        dataset_revision=named["revision"],
        date=date,
        source_url=source,
        source_name=source and "Model card",
        notes=notes,
    )


def to_files(entries: Sequence[EvalResultEntry]) -> dict[str, str]:
    """Formats entries, one file a data set; returns the texts by their paths in a repository."""
    files = {}
    for dataset in dict.fromkeys(entry.dataset_id for entry in entries):
        values = eval_result_entries_to_yaml([entry for entry in entries if entry.dataset_id == dataset])
        path = f"{EVAL_RESULTS}/{dataset.replace('/', '--')}.yaml"
        files[path] = MARK + yaml_dump(values, sort_keys=False)
    return files


def find_files(folder: Path) -> dict[str, Path]:
    """Finds the files of a model's folder with evaluation results, by their paths in a repository."""
    return {file.relative_to(folder).as_posix(): file for file in sorted(folder.glob(f"{EVAL_RESULTS}/*.yaml"))}


def present_time() -> str:
    """Returns the present time in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def is_made(file: Path) -> bool:
    """Returns True for a file of [`to_files`], which can be replaced."""
    return file.read_text("utf-8").startswith(MARK)


def write_files(files: dict[str, str], folder: Path) -> None:
    """Writes files of [`to_files`] to a folder, instead of earlier ones. Other files there are kept."""
    kept = set()
    for path, file in find_files(folder).items():
        if is_made(file):
            file.unlink()
        else:
            kept.add(path)
    for path, text in files.items():
        if path not in kept:
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text, "utf-8")
