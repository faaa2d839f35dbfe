"""
Annotation of corpora: efficiency of engines, memory over time, and the cost of ten billion words.

    python benchmarks/annotation.py open_text/train-web.txt.xz --models rngt-en-fast:int8
    python benchmarks/annotation.py open_text/train-*.txt.xz --measure memory --models udgn-en \
        --words 200000 2000000 20000000
    python benchmarks/annotation.py open_text/train-web.txt.xz --measure cost --models rngt-en-fast rngt-en-fast:int8

A row is the text of `--lines` lines of the files, from which the parser finds the sentences. `NAME:DTYPE` is a model
in another precision. Every process has one thread of torch.

`engines`: words per processor second of a worker, and per second of the clock, from the end of its first batch, so
that starting and loading do not count; in one process and in two. The baseline (a) is `parse` on a list of all rows.
On a busy machine, compare the processor seconds.

`memory`: resident memory of a process that annotates batch after batch of the whole files, again and again, when it
has parsed `--words` words. Each figure is also printed as soon as it is known.

`cost`: core hours of ten billion words by the speed of (a), and the bytes by what the rows take: Parquet with zstd, as
CoNLL-U, and that with gzip; files hold `--file_words` words each.
"""

import argparse
import gzip
import io
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import torch
from measuring import in_a_new_process, table

from hf_structure import Annotator, Parser
from hf_structure.text.files import open_input

TOTAL = 10**10
MIB = 2**20


class Timed(Annotator):
    """Notes seconds of the clock and of the processor, and words, after each batch, in a file for each process."""

    def __init__(self, folder: str, model: str, **options: Any):
        super().__init__(model, **options)
        self.folder = folder

    def __call__(self, batch: Any) -> Any:
        torch.set_num_threads(1)
        found = super().__call__(batch)
        note(self.folder, words_of(found))
        return found


def words_of(columns: dict[str, Any]) -> int:
    return sum(len(sentence) for row in columns["forms"] for sentence in row)


def note(folder: str, words: int) -> None:
    with open(f"{folder}/{os.getpid()}", "a", encoding="utf-8") as file:
        print(time.time(), time.process_time(), words, file=file)


def speeds(folder: str) -> list[float]:
    """Words per second of the processor, on average, and per second of the clock, of all processes together."""
    words = 0.0
    busy = 0.0
    per_second = 0.0
    for file in Path(folder).iterdir():
        lines = [[*map(float, line.split())] for line in file.open()]
        # The clock counts from 1970: single precision would round it to minutes.
        clock, processor, counts = torch.tensor(lines, dtype=torch.float64).T
        later = counts[1:].sum().item()
        words += later
        busy += (processor[-1] - processor[0]).item()
        per_second += later / max((clock[-1] - clock[0]).item(), 1e-9)
    return [words / max(busy, 1e-9), per_second]


def batches_of(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    rows = iter(rows)
    while batch := list(islice(rows, size)):
        yield batch


def run_parser(folder: str, rows: list[str], processes: int, size: int, model: str, **options: Any) -> None:
    """Parses the first batch, and then all others in one list."""
    torch.set_num_threads(1)
    parser = Parser(model, sentences="auto", **options)
    for texts in (rows[:size], rows[size:]):
        found = parser(texts)
        note(folder, sum(len(parsed.words) for parses in found for parsed in parses))


def annotate_alone(folder: str, rows: list[str], size: int, model: str, options: dict[str, Any]) -> float:
    annotator = Timed(folder, model, **options)
    for texts in batches_of(rows, size):
        annotator({"text": texts})
    return 0.0


def run_alone(folder: str, rows: list[str], processes: int, size: int, model: str, **options: Any) -> None:
    """Processes that share nothing."""
    with ThreadPoolExecutor(processes) as pool:
        parts = [rows[rank::processes] for rank in range(processes)]
        list(pool.map(lambda part: in_a_new_process(annotate_alone, folder, part, size, model, options), parts))


def run_datasets(folder: str, rows: list[str], processes: int, size: int, model: str, **options: Any) -> None:
    from datasets import Dataset, disable_caching, disable_progress_bars

    disable_caching()
    disable_progress_bars()
    annotator = Timed(folder, model, **options)
    Dataset.from_dict({"text": rows}).map(annotator, batched=True, batch_size=size, num_proc=processes)


def run_datatrove(folder: str, rows: list[str], processes: int, size: int, model: str, **options: Any) -> None:
    from datatrove.data import Document
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.writers import JsonlWriter

    from hf_structure.integrations.datatrove import Annotate, uncopied

    step = Annotate(model, documents=size, **options)
    step.annotator = Timed(folder, model, **options)
    with tempfile.TemporaryDirectory() as output:
        share = Share([Document(text, str(number)) for number, text in enumerate(rows)])
        steps = [share, step, JsonlWriter(output, adapter=uncopied)]
        settings = {"tasks": processes, "workers": processes, "logging_dir": f"{output}/logs", "start_method": "fork"}
        LocalPipelineExecutor(steps, **settings).run()


class Share:
    """A reader for datatrove: every task has its share of the documents."""

    def __init__(self, documents: list[Any]):
        self.documents = documents

    def __call__(self, data: Any, rank: int, world_size: int) -> list[Any]:
        return self.documents[rank::world_size]


def run_ray(folder: str, rows: list[str], processes: int, size: int, model: str, **options: Any) -> None:
    import ray

    # The actors cannot import this script.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    ray.init(num_cpus=processes + 2, include_dashboard=False, log_to_driver=False)
    actors = ray.data.ActorPoolStrategy(size=processes)
    arguments = {"folder": folder, "model": model, **options}
    parsed = ray.data.from_items([{"text": text} for text in rows], override_num_blocks=-(-len(rows) // size))
    parsed = parsed.map_batches(Timed, fn_constructor_kwargs=arguments, batch_size=size, compute=actors, num_cpus=1)
    with tempfile.TemporaryDirectory() as output:
        parsed.write_parquet(output)
    ray.shutdown()


BASELINE = "parse on a list (a)"
ALONE = "Annotator alone"
ENGINES: dict[str, Callable[..., None]] = {
    ALONE: run_alone,
    "datasets": run_datasets,
    "datatrove": run_datatrove,
    "ray": run_ray,
}


def measure_engine(name: str, rows: list[str], processes: int, options: argparse.Namespace, model: str) -> list[float]:
    """Both speeds of an engine."""
    with tempfile.TemporaryDirectory() as folder:
        run = run_parser if name == BASELINE else ENGINES[name]
        run(folder, rows, processes, options.batch, **arguments_of(model))
        return speeds(folder)


def arguments_of(model: str) -> dict[str, Any]:
    name, _, dtype = model.partition(":")
    return {"model": name, "dtype": dtype or "float32", "device": "cpu"}


def measure_engines(rows: list[str], options: argparse.Namespace, model: str) -> str:
    head = ["words per processor second", "of (a)", "with two processes", "of (a)", "two processes, speed-up"]
    [baseline, _] = in_a_new_process(measure_engine, BASELINE, rows, 1, options, model)
    names = [BASELINE]
    cells = [[f"{baseline:,.0f}"]]
    for name in [ALONE, *options.engines]:
        [one, one_clock] = in_a_new_process(measure_engine, name, rows, 1, options, model)
        [two, two_clock] = in_a_new_process(measure_engine, name, rows, 2, options, model)
        ratios = f"{one / baseline:.2f}", f"{two:,.0f}", f"{two / baseline:.2f}", f"{two_clock / one_clock:.2f}"
        names.append(name)
        cells.append([f"{one:,.0f}", *ratios])
    return table(model, head, names, cells)


def resident(options: argparse.Namespace, model: str) -> list[float]:
    """MiB in memory after each number of words."""
    torch.set_num_threads(1)
    annotator = Annotator(**arguments_of(model))
    texts = chain.from_iterable(texts_of(options.files, options.lines) for _ in count())
    marks: list[float] = []
    words = 0
    for mark in options.words:
        while words < mark:
            words += words_of(annotator({"text": list(islice(texts, options.batch))}))
        marks.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB)
        print(f"{model}, {words:,} words: {marks[-1]:,.0f} MiB", file=sys.stderr, flush=True)
    return marks


def measure_memory(options: argparse.Namespace, model: str) -> str:
    marks = in_a_new_process(resident, options, model)
    return table(
        f"{model}, words", ["MiB"], [f"{words:,}" for words in options.words], [[f"{mib:,.0f}"] for mib in marks]
    )


def sizes(rows: list[str], model: str) -> list[float]:
    """Bytes per word: Parquet, CoNLL-U, and that with gzip."""
    columns = Annotator(**arguments_of(model))({"text": rows})
    words = words_of(columns)
    written = "".join(Annotator(**arguments_of(model), format="conllu")({"text": rows})["conllu"]).encode()
    del columns["text"]
    file = io.BytesIO()
    schema = Annotator(model).schema()
    pyarrow.parquet.write_table(pyarrow.table(columns, schema=schema), file, compression="zstd")
    return [size / words for size in (len(file.getvalue()), len(written), len(gzip.compress(written)))]


def measure_cost(rows: list[str], options: argparse.Namespace) -> str:
    """The table of ten billion words."""
    head = ["words per core and second", "core hours", "hours on 1,000 cores", "files"]
    head += ["Parquet, GB", "CoNLL-U, GB", "with gzip, GB"]
    cells = []
    for model in options.models:
        [speed, _] = in_a_new_process(measure_engine, BASELINE, rows, 1, options, model)
        hours = TOTAL / speed / 3600
        sized = in_a_new_process(sizes, rows, model)
        row = [f"{speed:,.0f}", f"{hours:,.0f}", f"{hours / 1000:.1f}", f"{TOTAL // options.file_words:,}"]
        cells.append(row + [f"{TOTAL * size / 1e9:,.0f}" for size in sized])
    return table("ten billion words", head, options.models, cells)


def texts_of(paths: list[str], lines: int) -> Iterator[str]:
    """The texts of files, of some lines each."""
    for path in paths:
        with open_input(path) as file:
            for part in batches_of((line.decode().strip() for line in file), lines):
                yield " ".join(part)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help="text, a sentence on each line")
    parser.add_argument("--models", nargs="+", default=["rngt-en-fast:int8"], metavar="NAME[:DTYPE]")
    kinds = ("engines", "memory", "cost")
    parser.add_argument("--measure", nargs="+", choices=kinds, default=["engines", "cost"])
    there = [name for name in ENGINES if name != ALONE and find_spec(name)]
    parser.add_argument("--engines", nargs="*", choices=there, default=there, help="default: all that are installed")
    parser.add_argument("--rows", type=int, default=2048, help="texts; default: %(default)s")
    parser.add_argument("--lines", type=int, default=16, help="lines of a text; default: %(default)s")
    parser.add_argument("--batch", type=int, default=128, help="texts of a batch; default: %(default)s")
    parser.add_argument("--words", type=int, nargs="+", default=[200_000, 2_000_000], help="marks, ascending")
    parser.add_argument("--file_words", type=int, default=10_000_000, help="words of a file of the output")
    options = parser.parse_args()
    rows = list(islice(texts_of(options.files, options.lines), options.rows))
    print(f"{len(rows)} texts; torch {torch.__version__}, 1 thread, load {os.getloadavg()[0]:.1f}\n")
    for model in options.models:
        if "engines" in options.measure:
            print(measure_engines(rows, options, model))
        if "memory" in options.measure:
            print(measure_memory(options, model))
    if "cost" in options.measure:
        print(measure_cost(rows, options))


if __name__ == "__main__":
    main()
