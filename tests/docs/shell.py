"""Commands of a shell as documents print them: lines, pipes, redirections, simple loops, here-documents."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

from documents import Block

LAUNCHERS = ("accelerate", "python", "torchrun", "uv")
MODULE = " -m hf_structure "  # the command, where a launcher starts it
SCRIPT = re.compile(r"examples/(papers/)?\w+\.py")
LOOP = re.compile(r"for (\w+) in ([^;]+);\s*do\s(.*)[;\n]\s*done", re.DOTALL)
HERE_DOCUMENT = re.compile(r"<<'(\w+)'")
ELLIPSIS = "..."  # what a reader fills in


@dataclass
class Command:
    """One program with its arguments; `piped` reads what the command before it writes, `output` is a file."""

    place: str
    words: list[str]
    piped: bool = False
    output: str | None = None
    text: str = field(default="", repr=False)  # of a here-document

    @property
    def line(self) -> str:
        return " ".join(self.words)

    @property
    def elided(self) -> bool:
        return ELLIPSIS in self.words

    @property
    def program(self) -> str:
        """`hf-structure`, `examples/run_mlm.py` whatever launches it, or the first word."""
        scripts = [word for word in self.words if SCRIPT.fullmatch(word)]
        return scripts[0] if scripts and self.words[0] in LAUNCHERS else self.words[0]

    @property
    def arguments(self) -> list[str]:
        return [word for word in self.words[self.words.index(self.program) + 1 :] if word != ELLIPSIS]


def commands(block: Block) -> Iterator[Command]:
    """The commands of a block, in order."""
    lines = block.code.split("\n")
    while lines:
        place = f"{block.document}:{block.line + block.code.count(chr(10)) + 1 - len(lines)}"
        statement = lines.pop(0)
        while lines and _is_open(statement):
            statement += "\n" + lines.pop(0)
        text = ""
        if end := HERE_DOCUMENT.search(statement):
            statement = statement.replace(end[0], "")
            size = lines.index(end[1])
            text, lines = "\n".join(lines[:size]), lines[size + 1 :]
        for turn in _turns(statement):
            yield from _split(_tokens(turn), place, text)


def _turns(statement: str) -> list[str]:
    """What a loop does, each time with its value."""
    loop = LOOP.fullmatch(statement.strip())
    return [loop[3].replace(f"${loop[1]}", value) for value in loop[2].split()] if loop else [statement]


def _is_open(statement: str) -> bool:
    try:
        _tokens(statement)
    except ValueError:  # a quotation that is not closed
        return True
    return statement.endswith("\\") or (statement.startswith("for ") and not LOOP.fullmatch(statement.strip()))


def _tokens(statement: str) -> list[str]:
    lexer = shlex.shlex(statement.replace("\\\n", " "), posix=True, punctuation_chars="|;&<>")
    lexer.whitespace_split = True
    return list(lexer)


def _split(tokens: list[str], place: str, text: str) -> Iterator[Command]:
    piped, words = False, []
    for token in [*tokens, ";"]:
        if token not in ("|", ";", "&&"):
            words.append(token)
            continue
        if words and words[0] in LAUNCHERS and MODULE in " ".join(words):
            words = ["hf-structure", *words[words.index("hf_structure") + 1 :]]
        if words:
            output = words[-1] if words[-2:-1] == [">"] else None
            yield Command(place, words[:-2] if output else words, piped, output, text)
        piped, words = token == "|", []
