"""The step of datatrove: parses in the metadata of documents, tasks that are done once, whatever is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow
import pyarrow.parquet as pq
import pytest

from hf_structure import Annotator

pytest.importorskip("datatrove")

from datatrove.data import Document, Media
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter, ParquetWriter

from hf_structure.integrations.datatrove import Annotate, uncopied

TEXTS = ["The cat slept. Nobody saw it!", "She saw the stars.", "the " * 21, "A dog barked."]
OPTIONS = {"max_words": 20, "sentences": "split"}
TASKS = 4
# Each task but the first stops before its last document, if told to, so that it can be killed there.
SCRIPT = """
import os
import sys
import time
from pathlib import Path

import hf_structure.parsing.parser  # once, before the workers are forked
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter
from hf_structure.integrations.datatrove import Annotate

model, tasks, stops = sys.argv[1:]


def stop(data, rank, world_size):
    for number, document in enumerate(data, start=1):
        if stops == "yes" and rank and number == 4:
            Path(f"task-{rank}").write_text(str(os.getpid()))
            time.sleep(600)
        yield document


step = Annotate(model, documents=1, sentences="split")
steps = [JsonlReader("texts"), step, stop, JsonlWriter("parses", compression=None)]
LocalPipelineExecutor(steps, tasks=int(tasks), workers=2, logging_dir="logs", start_method="fork").run()
"""


def write_texts(folder: Path, tasks: int = 1) -> None:
    folder.mkdir()
    for task in range(tasks):
        rows = [{"text": text, "id": f"{task}-{number}"} for number, text in enumerate(TEXTS)]
        (folder / f"{task}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def run_here(folder: Path, *steps) -> dict:
    """Runs a pipeline in this process; returns the totals of the statistics of its step that annotates."""
    write_texts(folder / "texts")
    executor = LocalPipelineExecutor([JsonlReader(str(folder / "texts")), *steps], logging_dir=str(folder / "logs"))
    executor.run()
    stats = json.loads((folder / "logs/stats.json").read_text())
    found = next(each["stats"] for each in stats if "Annotate" in each["name"])
    return {name: value["total"] if isinstance(value, dict) else value for name, value in found.items()}


def test_metadata(tagger):
    documents = [Document(text=text, id=str(number), metadata={"url": "a"}) for number, text in enumerate(TEXTS)]
    found = list(Annotate(tagger, documents=3, **OPTIONS).run(iter(documents)))
    expected = Annotator(tagger, **OPTIONS)({"text": TEXTS})
    assert [document.text for document in found] == TEXTS
    assert list(found[0].metadata) == ["url", *Annotate(tagger, **OPTIONS).annotator.columns]
    for name in ("forms", "heads", "relations", "error"):
        assert [document.metadata[name] for document in found] == expected[name]


def test_jsonl(tagger, tmp_path):
    stats = run_here(
        tmp_path, Annotate(tagger, format="conllu", **OPTIONS), JsonlWriter(str(tmp_path / "out"), compression=None)
    )
    rows = [json.loads(line) for line in (tmp_path / "out/00000.jsonl").read_text().splitlines()]
    expected = Annotator(tagger, format="conllu", **OPTIONS)({"text": TEXTS})
    assert [row["metadata"]["error"] for row in rows] == expected["error"]
    assert [row["metadata"]["conllu"].count("sent_id") for row in rows] == [2, 1, 0, 1]
    assert stats == {"errors": 1}


def test_parquet(tagger, tmp_path):
    """With the types of the columns, whichever document comes first."""
    step = Annotate(tagger, **OPTIONS)
    schema = pyarrow.schema([("text", pyarrow.string()), ("id", pyarrow.string()), *step.annotator.schema()])
    run_here(tmp_path, step, ParquetWriter(str(tmp_path / "out"), expand_metadata=True, schema=schema))
    [table] = [pq.read_table(file) for file in (tmp_path / "out").glob("*.parquet")]
    assert table.schema.equals(schema)
    assert table["heads"].to_pylist() == Annotator(tagger, **OPTIONS)({"text": TEXTS})["heads"]


@pytest.mark.parametrize("expanded", [False, True])
def test_rows_without_copies_are_those_of_datatrove(tmp_path, expanded):
    metadata = {"heads": [[2, 0]], "error": None}
    writer = JsonlWriter(str(tmp_path), expand_metadata=expanded)
    media = Media(id="a", type=0, url="b", media_bytes=b"c")
    for document in (
        Document("A dog.", "1", metadata=metadata),
        Document("", "2"),
        Document("A cat.", "3", [media], metadata),
    ):
        assert uncopied(writer, document) == writer._default_adapter(document)
    assert uncopied(JsonlWriter(str(tmp_path)), Document("", "1", metadata=metadata))["metadata"] is metadata
    assert list(metadata) == ["heads", "error"]


def test_statistics(tagger, tmp_path):
    stats = run_here(tmp_path, Annotate(tagger, **OPTIONS))
    forms = Annotator(tagger, **OPTIONS)({"text": TEXTS})["forms"]
    words = sum(len(sentence) for row in forms for sentence in row)
    assert stats == {"sentences": sum(map(len, forms)), "words": words, "errors": 1}


def test_bad_arguments():
    with pytest.raises(TypeError, match="there is no option 'decode'"):
        Annotate("udgn-en", decode="tree")
    with pytest.raises(ValueError, match="documents must be at least 1"):
        Annotate("udgn-en", documents=0)


def start(folder: Path, model: Path, stops: str) -> subprocess.Popen:
    command = [sys.executable, "-c", SCRIPT, str(model), str(TASKS), stops]
    return subprocess.Popen(command, cwd=folder, start_new_session=True)


def wait_for(path: Path, seconds: float = 300) -> Path:
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"no {path.name}"
        time.sleep(0.1)
    return path


def outputs(folder: Path) -> dict[str, list]:
    """The rows of each file. Paths differ, and the last digits of probabilities depend on the process."""
    found = {file.name: list(map(json.loads, file.read_text().splitlines())) for file in folder.glob("parses/*")}
    for row in (row for rows in found.values() for row in rows):
        del row["metadata"]["probabilities"], row["metadata"]["file_path"]
    return found


@pytest.mark.slow  # imports transformers anew, twice: 20 s and more
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_a_killed_worker_loses_only_its_task(tagger, tmp_path):
    write_texts(tmp_path / "texts", TASKS)
    process = start(tmp_path, tagger, stops="yes")
    try:
        killed = wait_for(tmp_path / "task-1")
        done = wait_for(tmp_path / "logs/completions/00000")
        os.kill(int(killed.read_text()), signal.SIGKILL)
    finally:  # datatrove would wait for the killed worker
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert [file.name for file in done.parent.iterdir()] == ["00000"]
    first = (tmp_path / "parses/00000.jsonl").stat().st_mtime_ns
    assert start(tmp_path, tagger, stops="no").wait(300) == 0
    assert (tmp_path / "parses/00000.jsonl").stat().st_mtime_ns == first
    assert len([*done.parent.iterdir()]) == TASKS
    found = outputs(tmp_path)
    again = tmp_path / "again"
    again.mkdir()
    (again / "texts").symlink_to(tmp_path / "texts")
    assert start(again, tagger, stops="no").wait(300) == 0
    assert found == outputs(again)
    assert sum(map(len, found.values())) == TASKS * len(TEXTS)
