"""The Markdown files of the repository, and the blocks of code in them."""

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
PATTERNS = (
    "*.md",
    "docs/**/*.md",
    "examples/**/*.md",
    "benchmarks/*.md",
    "model_cards/**/*.md",
    "src/hf_structure/checkpoints/*/README.md",
    "src/hf_structure/.agents/skills/*/SKILL.md",
)
DOCUMENTS = sorted(file.relative_to(ROOT).as_posix() for pattern in PATTERNS for file in ROOT.glob(pattern))
FENCED = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its document, the number of its first line of code, its language, and the code."""

    document: str
    line: int
    language: str
    code: str

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"


def read(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def blocks(document: str, *languages: str) -> list[Block]:
    """The blocks of a document in one of the languages, `""` being that of a block that names none."""
    text = read(document)
    found = []
    for fence in FENCED.finditer(text):
        line = text.count("\n", 0, fence.start(3)) + 1
        found.append(Block(document, line, fence[2], dedent(fence[3])))
    return [block for block in found if block.language in languages]
