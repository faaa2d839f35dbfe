"""Finds the example scripts and the settings of published models, in a wheel or in a clone."""

from pathlib import Path

from hf_structure.hub.suggestions import did_you_mean

_PACKAGE = Path(__file__).parents[1]
_PACKAGED = _PACKAGE / "examples"
EXAMPLES = _PACKAGED if _PACKAGED.is_dir() else _PACKAGE.parents[1] / "examples"
CONFIGS = EXAMPLES / "configs"


def script_path(name: str) -> str:
    """Returns the path of a script below `examples/`: `"papers/run_glue.py"` for `"run_glue.py"`."""
    in_papers = (EXAMPLES / "papers" / name).is_file()
    return f"papers/{name}" if in_papers else name


def config_file(name: str) -> str:
    """
    Resolves the value of `--config`: a path, or a name in `examples/configs` such as `"udgn-ptb"`. Raises `ValueError`
    for any other name, and lists the names.
    """
    # A path with a suffix is a file, even if it is missing: its error is clearer.
    if Path(name).suffix or Path(name).exists():
        return name
    named = CONFIGS / f"{name}.json"
    if not named.is_file():
        names = sorted(file.stem for file in CONFIGS.glob("*.json"))
        raise ValueError(f"--config {name}: neither a file nor one of {', '.join(names)}{did_you_mean(name, names)}")
    return str(named)
