"""
What documents print runs: each Python block pasted alone, each command on small files of the names that it has.

A document is gone through from top to bottom, in a folder of its own that has all of `provided.py`. Commands are also
read by the parsers of their programs, whether they run or not. What does not run is listed here, with the reason.
"""

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatch
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import pytest
from documents import DOCUMENTS, Block, blocks
from execution import check, run
from provided import FILES, MODELS
from running import run_file
from shell import Command, commands

SHELL = ("", "bash", "console")
TRAINING = r"(examples/run_|hf-structure train )(clm|mlm|parsing)"
NOT_TRAINED = {  # of these, by a regular expression
    "--encoder|--base_model|runs/minilm": "begins with a model of the Hub",
    "--dataset_name": "a data set of the Hub",
    "bllip|ptb-sd": "data that is not free",
    "part-": "a corpus of many files",
    "path (model_cards/rngt-multilingual|runs/multilingual|runs/ud-50) ": "has other labels than the small files",
}
FEW_STEPS = ("--max_steps", "2", "--use_cpu", "--report_to", "none")
PYTHON_NOT_RUN = {  # by a piece of the block
    'model.push_to_hub("org/': "publishes; tests/hub does that with a Hub of its own",
    'model="org/': "names on the Hub; tests/hub loads such",
    'model="runs/ar"': "a model that the page trains",
    "trainer_state.json": "the logs of runs that the page trains",
    'read_conllu("ar_pud.conllu")': "a treebank of Arabic",
    '"de_gsd-ud-dev.conllu"': "treebanks of German and Chinese",
    'spacy.load("en_core_web_sm"': "a model that spaCy downloads",
    "from transformers.cli.serve": "serves until it is stopped; tests/integrations does",
    "spark.read.parquet": "needs a session of Spark",
}
ENGINES = ("dask", "datatrove", "joblib", "ray", "sentence_transformers")  # their blocks run where they are installed
STARTS_PROCESSES = re.compile(r"\b(num_proc|num_workers|n_jobs|workers)=")
PROGRAMS_NOT_RUN = {
    "curl": "asks a server; tests/integrations does",
    "make": "makes an environment",
    "pip": "installs",
    "hf": "asks the Hub",
    "mkdir": "makes a folder",
    "git": "copies a repository",
    "cd": "goes to it",
    "sed": "of a treebank that is not here",
    "java": "the Stanford tools are no part of this",
    "eval": "completion of a shell: tests/cli has it",
}
NOT_RUN = {  # by a regular expression of the command line
    r"examples/(papers/(compare_|run_dynamics|run_glue)|prune_vocabulary)": "many models, or one of the Hub",
    TRAINING: "trains: test_trainings_run does, where it can",
    r"^python examples/convert_checkpoint.py .*structformer_s1": "begins with a model of the Hub",
    r"run_items.py .*--sap": "items that are not here",
    r"--dataset wikimedia/wikipedia": "a data set of the Hub",
    r"^hf-structure publish .* --language en$": "publishes; tests/hub does that with a Hub of its own",
    r"^hf-structure score --model gpt2": "a model of the Hub",
    r"ar-|runs/ar|cy-": "treebanks of Arabic and Welsh, and a model that the page trains on one",
    r"analyze --heads": "models of several runs; tests/cli analyzes such",
    r"analyze .*--layers": "models of other pages; tests/cli analyzes such",
    r"^python -m spacy": "trains a pipeline of spaCy",
    r"^awk -v k": "tables that are not free",
    r"evaluate_treebanks.py": "many treebanks; tests/examples has it",
    r"train_segmenter.py": "many treebanks; tests/examples trains one",
    r"calibrate_parser.py runs/(large|fast)": "a parser of all words; another page calibrates one",
    r"^hf-structure (mcp|serve)": "serves until it is stopped; tests/integrations has it",
    r"--model my-parser$": "a model of a package; tests/hub installs it",
    r"lm_eval": "a task of the Hub; tests/integrations has it",
    r"prepare_transformations": "a hundred thousand texts; tests/papers makes some",
    r"annotate_corpus.py more.txt": "the small text does not go that far",
    r"bllip": "data that is not free",
    r"^python examples/prepare_ptb.py sd": "data that is not free; tests/examples makes such",
}
# Left to `make test-slow`: pages that run the commands of other pages on a paper's models, those whose exports,
# figures and scores other tests make, and one that starts engines.
SELDOM = {
    f"docs/{page}.md"
    for page in (
        "brackets",
        "clusters",
        "garden-paths",
        "gilt",
        "gilt-results",
        "languages",
        "parsing-supervised-results",
        "pictures",
        "pushdown",
        "scoring",
        "structformer",
        "transformer-grammars",
        "udgn",
    )
}
PYTHON = {document: found for document in DOCUMENTS if (found := blocks(document, "python"))}
COMMANDS = {
    document: found
    for document in DOCUMENTS
    if (found := list(chain.from_iterable(map(commands, blocks(document, *SHELL)))))
}


def reason(command: Command) -> str | None:
    """Why a command does not run."""
    if command.elided:
        return "the reader adds options"
    patterns = (why for pattern, why in NOT_RUN.items() if re.search(pattern, command.line))
    return next(patterns, PROGRAMS_NOT_RUN.get(command.program))


def python_reason(block: Block) -> str | None:
    for engine in ENGINES:
        if re.search(rf"^(import|from) {engine}\b", block.code, re.MULTILINE) and not find_spec(engine):
            return f"{engine} is not installed"
    return next((why for piece, why in PYTHON_NOT_RUN.items() if piece in block.code), None)


def run_python(block: Block) -> None:
    code = compile("\n" * (block.line - 1) + block.code, block.document, "exec")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # `open(...).write(...)` of short examples
        exec(code, {"__name__": "__main__"})


def run_commands(found: Iterator[Command], monkeypatch: pytest.MonkeyPatch) -> None:
    written = b""
    for command in found:
        if reason(command) is None:
            written = run(command, written if command.piped else b"", monkeypatch)
            if command.output:
                with open(command.output, "wb") as file:
                    file.write(written)


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(document, marks=[pytest.mark.slow] * (document in SELDOM))
        for document in sorted({*PYTHON, *COMMANDS})
    ],
)
def test_document_runs(document, work, monkeypatch, capsys):
    for block in blocks(document, "python", *SHELL):
        if block.language != "python":
            run_commands(commands(block), monkeypatch)
        elif python_reason(block) is None:
            run_python(block)
        capsys.readouterr()


SCRIPTS = [block for found in PYTHON.values() for block in found if STARTS_PROCESSES.search(block.code)]


@pytest.mark.slow  # imports transformers anew in every process: 20 s and more
@pytest.mark.parametrize("block", SCRIPTS, ids=lambda block: block.place)
def test_blocks_that_start_processes_run_as_scripts(block, work):
    """A new process imports the script that has started it."""
    if why := python_reason(block):
        pytest.skip(why)
    Path("script.py").write_text(block.code)
    run_file(Path("script.py"), 300)


@pytest.mark.slow
@pytest.mark.parametrize("document", COMMANDS)
def test_trainings_run(document, work, monkeypatch, capsys):
    for command in COMMANDS[document]:
        cannot = command.elided or any(re.search(pattern, command.line) for pattern in NOT_TRAINED)
        if re.search(TRAINING, command.line) and not cannot:
            run(replace(command, words=[*command.words, *FEW_STEPS]), b"", monkeypatch)


@pytest.mark.parametrize("document", COMMANDS)
def test_commands_have_the_options_of_their_programs(document, monkeypatch):
    for command in COMMANDS[document]:
        check(command, monkeypatch)


@pytest.mark.parametrize("piece", PYTHON_NOT_RUN)
def test_what_does_not_run_is_there_and_imports(piece):
    found = [block for document in PYTHON.values() for block in document if piece in block.code]
    assert found, "no block has it any more: take it out of PYTHON_NOT_RUN"
    for block in found:
        imports = [node for node in ast.parse(block.code).body if isinstance(node, (ast.Import, ast.ImportFrom))]
        exec(compile(ast.Module(imports, []), block.place, "exec"), {})


def test_provided_files_are_used():
    code = "\n".join(block.code for block in chain.from_iterable(PYTHON.values()))
    every = list(chain.from_iterable(COMMANDS.values()))
    words = {word for command in every for word in [*command.words, *command.text.split()]}
    unused = [
        name
        for name in " ".join([*FILES.values(), *MODELS.values()]).split()
        if f'"{name}"' not in code
        and not any(fnmatch(name, word) or name.startswith(f"{word}/") or name in word for word in words)
    ]
    assert not unused, "no document names them: take them out of provided.py"
