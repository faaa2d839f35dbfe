"""The handler of a published model at Inference Endpoints of the Hub."""

from pathlib import Path

from hf_structure.version import __version__

# It runs on another machine, perhaps with a later version of the package: it imports public names alone.
HANDLER = '''\
"""
Parses and scores text with the model of this repository, at Inference Endpoints. Requests:

    {"inputs": "It rained. Nobody left."}
    {"inputs": ["She left.", "She saw it."], "task": "score", "parameters": {"beam_size": 20}}

`task` is "parse" (by default, if the model gives structures) or "score"; `parameters` are options of
`hf_structure.parse` or `hf_structure.score`. The answer has an object for each sentence: for a text, their list; for
texts to parse, a list of such lists.
"""

from typing import Any

from hf_structure import Parser, parse, score

TASKS = ("parse", "score")


class EndpointHandler:
    """Loads the model of a folder; calls take a request and return what becomes JSON."""

    def __init__(self, path: str = ""):
        self.path = path
        try:
            Parser(path)
            self.task = "parse"
        except ValueError:
            score([], path)
            self.task = "score"

    def __call__(self, data: dict[str, Any]) -> Any:
        """Raises `ValueError` for a request that cannot be answered."""
        task = data.get("task", self.task)
        if task not in TASKS:
            raise ValueError(f"task must be parse or score, not {task!r}")
        if not data.get("inputs"):
            raise ValueError('the request has no "inputs": give a text, or a list of them')
        options = data.get("parameters") or {}
        if task == "parse":
            return parse(data["inputs"], self.path, **{"sentences": "auto", **options}).to_dict()
        scores = score(data["inputs"], self.path, **options)
        return [found and found.to_dict() for found in scores] if isinstance(scores, list) else scores.to_dict()
'''


def write_handler(folder: str | Path) -> dict[str, Path]:
    """Writes `handler.py` and the `requirements.txt` that it needs to a folder; returns them by name."""
    contents = {"handler.py": HANDLER, "requirements.txt": f"hf_structure>={__version__}\n"}
    files = {name: Path(folder, name) for name in contents}
    for name, file in files.items():
        file.write_text(contents[name], encoding="utf-8")
    return files
