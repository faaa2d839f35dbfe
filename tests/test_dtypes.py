"""New tensors name their dtype: users may have set another default, which parameters alone follow."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MAKERS = {"empty", "eye", "full", "linspace", "normal", "ones", "rand", "randn", "zeros"}


def problems(source: str) -> list[str]:
    """The calls of `torch` that leave the dtype of a new tensor to the default."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    parameters = [call.args[0] for call in calls if ast.unparse(call.func) == "nn.Parameter"]
    makers = {f"torch.{name}" for name in MAKERS}
    return [
        ast.unparse(call)
        for call in calls
        if ast.unparse(call.func) in makers
        and call not in parameters
        and not any(keyword.arg == "dtype" for keyword in call.keywords)
    ]


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.py")), ids=lambda file: str(file.relative_to(SOURCE)))
def test_dtypes_are_named(file):
    assert problems(file.read_text(encoding="utf-8")) == []


def test_a_missing_dtype_is_noticed():
    assert problems("nn.Parameter(torch.empty(3)); x = torch.zeros(2, 3)") == ["torch.zeros(2, 3)"]
