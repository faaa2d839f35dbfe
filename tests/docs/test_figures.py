"""
Figures of cards and pages are what their commands print, on the treebanks themselves.

Only commands of less than two minutes are run. BLiMP of the masked models takes four minutes, `g2gt-en-ewt` three for
a test set, and scores of `gilt-en` with a beam hours.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from documents import ROOT, Block, blocks, read
from execution import run
from shell import commands

CARD = "src/hf_structure/checkpoints/{}/README.md"
DATA = ("ewt216/en_ewt-ud-*.conllu", "ewt/en_ewt-*.conllu", "gum/en_gum-*.conllu", "wsj_sample/*.mrg")
SHELL = ("", "bash")
NUMBER = re.compile(r"-?\d+\.\d+")
ATTACHMENT = ("UAS", "UUAS")
GUM = {"ewt-test": "gum-test", "en_ewt": "en_gum"}
OLD = {"en_ewt": "en_ewt2017"}
TREEBANKS = {"EWT 2.16": {}, "EWT 2017": OLD, "GUM": GUM}
CONLL18 = ("UPOS", "XPOS", "UFeats", "Lemmas", "UAS", "LAS", "MLAS")
F1 = r" +[\d.]+ +[\d.]+"  # precision and recall stand before it
PRINTED = 0.0051  # by as much the commands round

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Case:
    """
    Some figures of a document.

    Args:
        command (`str`): How the block begins whose commands give them.
        labels (`tuple[str, ...]`): What stands before the figures in the output.
        row (`tuple[str, ...]`): First cells of the row of the table.
        columns (`tuple[str, ...]`): Names of its columns with the figures.
        changes (`dict[str, str]`): What the document says to do "likewise".
        output (`int`): Which of the commands' outputs.
    """

    document: str
    command: str
    labels: tuple[str, ...]
    row: tuple[str, ...]
    columns: tuple[str, ...]
    changes: dict[str, str] = field(default_factory=dict)
    output: int = 0


def induced(name: str, row: str, decoder: str, treebank: str) -> Case:
    """Trees without a treebank, on the test part of one."""
    changes = {**TREEBANKS[treebank], "hf-structure parse": f"hf-structure parse {decoder}".strip()}
    column = f"{treebank} test"
    if decoder and name == "udgn-en":
        column += ", argmax"
    if name == "udgn-en" and treebank == "EWT 2017":
        row = "**seed 2 and two more epochs, released**"
    command = "python examples/prepare_ud.py en_ewt-test.conllu --drop_punctuation"
    return Case(CARD.format(name), command, ATTACHMENT, (row,), (column,), changes)


def parsed(name: str, row: str, part: str = "test", **changes: str) -> Case:
    """What the evaluator of CoNLL 2018 says of a treebank's words, or of raw text."""
    command = "python examples/prepare_ud.py en_ewt-test.conllu --format raw"
    labels = tuple(label + F1 for label in CONLL18)
    is_raw = row.endswith("raw")
    return Case(
        CARD.format(name), command, labels, (row,), CONLL18, {"en_ewt-test": f"en_ewt-{part}", **changes}, 1 - is_raw
    )


def argmax(name: str) -> Case:
    changes = {"--model structformer-en": f"--model {name}", "en_ewt-ud": "en_ewt2017"}
    command = "hf-structure parse --model structformer-en --decoder argmax"
    return Case("docs/structformer.md", command, ATTACHMENT, (name,), ("UAS", "UUAS, pairs"), changes)


STRUCTFORMER = CARD.format("structformer-en")
RELEASED = {"udgn-en": "**udgn-en**", "structformer-en": "**seed 1, released**"}
CASES = {
    f"{name}, {treebank}{' argmax' * bool(decoder)}": induced(
        name, "seed 1, argmax heads (eq. 18)" if decoder and name == "structformer-en" else row, decoder, treebank
    )
    for name, row in RELEASED.items()
    for treebank in TREEBANKS
    for decoder in ("", "--decoder argmax")
}
CASES |= {
    "structformer-en, constituents": Case(
        STRUCTFORMER,
        "python examples/prepare_ud.py",
        ("system",),
        (RELEASED["structformer-en"],),
        ("UF1, WSJ sample",),
        output=1,
    ),
    "structformer-en, recall": Case(
        STRUCTFORMER,
        "python examples/prepare_ud.py",
        ("NP", "VP", "PP", "S", "SBAR", "ADJP", "ADVP", "QP"),
        ("structformer-en",),
        ("NP", "VP", "PP", "S", "SBAR", "ADJP", "ADVP", "QP"),
        output=1,
    ),
    "right branching": Case(
        STRUCTFORMER,
        "python examples/prepare_ud.py",
        ("right",),
        ("right neighbour as head; right branching",),
        ("UF1, WSJ sample",),
        output=1,
    ),
    "argmax heads of structformer-en": argmax("structformer-en"),
    "argmax heads of udgn-en": argmax("udgn-en"),
}
CASES |= {
    f"{name}, {part}, {kind}": parsed(name, f"{part}, {kind}", part)
    for name in ("rngt-en", "rngt-en-fast")
    for part in ("test", "dev")
    for kind in ("raw", "words")
}
CASES |= {
    f"rngt-en {option}": parsed("rngt-en", f"`{option}`", **{"hf-structure parse": f"hf-structure parse {option}"})
    for option in ("--rounds 2", "--dtype bfloat16", "--dtype int8")
}


@pytest.fixture(scope="module")
def printed(data_dir, tmp_path_factory):
    """`printed(block)`: what each `hf-structure` of a block prints that writes no file; a block is run once."""
    folder, found = tmp_path_factory.mktemp("figures"), {}
    for pattern in DATA:
        for file in data_dir.glob(pattern):
            names = {file.name, file.name.replace("en_ewt-ud-", "en_ewt-")}
            if pattern.startswith("ewt/"):
                names = {file.name.replace("en_ewt-", "en_ewt2017-")}
            for name in names:
                (folder / name).symlink_to(file)
    (folder / "examples").symlink_to(ROOT / "examples")

    def outputs(block: Block) -> list[str]:
        if block.code not in found:
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(folder)
                texts = [(command.program, written(command, patch)) for command in commands(block)]
            found[block.code] = [text for program, text in texts if program == "hf-structure" and text]
        return found[block.code]

    return outputs


def written(command, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a command prints; what it writes to a file is there for the next one."""
    output = run(command, b"", monkeypatch)
    if command.output:
        Path(command.output).write_bytes(output)
        return ""
    return output.decode()


def table_row(document: str, beginning: tuple[str, ...], columns: tuple[str, ...]) -> dict[str, str]:
    """The row of a table by the names of its columns; the first one that begins so and has them all."""
    names: list[str] = []
    for line in read(document).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        if cells and not set(columns) - set(cells):
            names = cells
        elif names and all(cell.startswith(start) for cell, start in zip(cells, beginning, strict=False)) and cells:
            return dict(zip(names, cells, strict=True))
        elif not cells:
            names = []
    raise AssertionError(f"{document}: no row of {' | '.join(beginning)}")


def block_of(document: str, beginning: str, *languages: str) -> Block:
    return next(block for block in blocks(document, *languages) if block.code.startswith(beginning))


def assert_printed(output: str, label: str, figure: str) -> None:
    """Whether an output has a figure of a document behind a label, but for rounding."""
    value = float(re.search(rf"^ *{label} +([\d.]+)", output, re.MULTILINE)[1])
    rounding = 0.5 * 10 ** -len(figure.partition(".")[2])
    assert abs(value - float(figure)) <= rounding + PRINTED, f"{label} {figure}\n{output}"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_table_has_what_the_commands_print(case, printed):
    block = block_of(case.document, case.command, *SHELL)
    code = block.code
    for before, after in case.changes.items():
        code = code.replace(before, after)
    output = printed(Block(block.document, block.line, "", code))[case.output]
    row = table_row(case.document, case.row, case.columns)
    figures = [figure for column in case.columns for figure in NUMBER.findall(row[column])]
    assert len(figures) == len(case.labels)
    for label, figure in zip(case.labels, figures, strict=True):
        assert_printed(output, label, figure)


def test_rules_of_graphs(data_dir, monkeypatch):
    """All rows of the table."""
    monkeypatch.chdir(data_dir / "gum")
    line = "python examples/enhance_trees.py --evaluate en_gum-test.conllu"
    assert line in read("docs/gilt.md")
    output = run(next(commands(Block("docs/gilt.md", 1, "", line))), b"", monkeypatch).decode()
    rows = [row for row in output.splitlines() if row.startswith("| ")]
    assert len(rows) == 7
    assert all(row in read("docs/gilt.md") for row in rows[1:])
