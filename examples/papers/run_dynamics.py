"""
How a masked language model learns sentence structure: all checkpoints of training runs, as a table and a figure.

    python examples/run_mlm.py ... --output_dir runs/udgn --save_strategy steps --save_steps 100 --save_total_limit 99
    python examples/papers/run_dynamics.py runs/udgn structformer=runs/sf --test_file dev.conllu \\
        --output_dir runs/dynamics

Of each `checkpoint-*` of each run: the masked perplexity of the test file; where that has dependencies, UAS and UUAS
of the model's trees (by `config.tree_objective`) and of argmax heads; with `--test_brackets`, UF1; with `--blimp`, the
accuracy on every tenth pair of BLiMP (`run_pairs.py`); and how many pairs of words its trees share with those of the
run's last checkpoint. `commonest head` is the share of argmax heads at the position in the sentence that is chosen
most often, such as its last word: at the beginning a UDGN points nearly all words there, and there is a warning where
more than half still are. Punctuation is left out. The table is printed, and written to `table.md`, and the figure to
`dynamics.svg`. Only new checkpoints are measured: to add some, or whole runs, repeat the command.
"""

import argparse
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_structure import parse
from hf_structure.cli.common import named_systems, positive
from hf_structure.corpora.batching import similar_length_batches
from hf_structure.corpora.collators import MaskedWordCollator
from hf_structure.corpora.minimal_pairs import find_tables
from hf_structure.drawing.figures import plot_curves
from hf_structure.hub.user_code import add_import
from hf_structure.metrics.attachment import attachment_scores
from hf_structure.metrics.constituency import unlabeled_f1
from hf_structure.metrics.head_positions import commonest_head
from hf_structure.metrics.perplexity import masked_log_likelihood, masked_perplexity
from hf_structure.models.abilities import abilities_of
from hf_structure.parsing.loading import MASKED, load_model
from hf_structure.text.formats import load_sentences
from hf_structure.text.tokenization import encode
from hf_structure.training.comparison import markdown_table, percent, run_script
from hf_structure.training.scripts import (
    check_same_run,
    file_digests,
    load_object,
    model_digests,
    pair_digests,
    run,
    write_figure,
    write_json,
    write_text,
)

logger = logging.getLogger("run_dynamics")

BLIMP = Path(__file__).parents[1] / "run_pairs.py"
TENTH = 10
AGREEMENT = "agreement"
COMMONEST = "commonest_head"
COLLAPSED = 0.5  # share of argmax heads at one place from which on there is a warning
COLUMNS = {
    "perplexity": "perplexity",
    "uas": "UAS",
    "uuas": "UUAS",
    "uas_argmax": "UAS, argmax",
    "uuas_argmax": "UUAS, argmax",
    COMMONEST: "commonest head",
    "uf1": "UF1",
    "blimp": "BLiMP",
    AGREEMENT: "agreement with the last",
}
PANELS = ("perplexity", "uas", "uuas", "uf1", "blimp", AGREEMENT)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="[NAME=]FOLDER", help="where run_mlm.py has left checkpoints")
    parser.add_argument("--test_file", required=True, metavar="FILE", help="CoNLL-U, brackets or text")
    parser.add_argument("--test_brackets", metavar="FILE", help="Penn Treebank brackets, for UF1")
    parser.add_argument("--blimp", metavar="PATH", help="folder or data set of BLiMP, for run_pairs.py")
    parser.add_argument("--output_dir", required=True, metavar="FOLDER", help="where results, table and figure go")
    parser.add_argument("--num_maskings", type=positive, default=2, help="of the test file; default: 2")
    parser.add_argument("--batch_size", type=positive, default=32, help="sentences read at once; default: 32")
    parser.add_argument("--device", help="cpu, cuda, ...; default: a GPU if there is one")
    add_import(parser)
    return parser


def find_checkpoints(folder: str) -> dict[int, Path]:
    """The checkpoints of a run by their number of updates. Raises `ValueError` if there are none."""
    numbers = ((path.name.removeprefix("checkpoint-"), path) for path in Path(folder).glob("checkpoint-*"))
    found = {int(number): path for number, path in numbers if number.isdecimal() and (path / "config.json").exists()}
    if not found:
        raise ValueError(f"{folder} has no checkpoints: train with --save_strategy steps and a large save_total_limit")
    return dict(sorted(found.items()))


def measure(checkpoint: Path, args: argparse.Namespace) -> dict:
    """Scores of a checkpoint (`scores`), and the heads of its trees (`heads`), by which it is compared with others."""
    model, tokenizer = load_model(checkpoint, None, args.device, *MASKED)
    sentences = list(load_sentences(args.test_file, punctuation="drop"))
    if not sentences:
        raise ValueError(f"{args.test_file} has no sentences")
    scores = {"perplexity": perplexity(model, tokenizer, sentences, args)}
    structures = abilities_of(model.config).structures
    heads = []
    if "dependency" in structures:
        heads = heads_of(model, tokenizer, sentences, args.batch_size)
        argmax = heads_of(model, tokenizer, sentences, args.batch_size, decoder="argmax")
        place, scores[COMMONEST] = commonest_head(argmax)
        if scores[COMMONEST] > COLLAPSED:
            logger.warning(
                "%s: %s%% of argmax heads are word %d of the sentence: the parser has collapsed or is untrained",
                checkpoint,
                percent(scores[COMMONEST]),
                place,
            )
        if sentences[0]["heads"] is not None:
            scores |= attachment(heads, sentences) | attachment(argmax, sentences, "_argmax")
    if args.test_brackets and "constituency" in structures:
        scores["uf1"] = uf1(model, tokenizer, args)
    return {"scores": scores, "heads": heads}


def perplexity(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sentences: Sequence[dict], args: argparse.Namespace
) -> float:
    """As `run_mlm.py` measures it, over several maskings."""
    encoded = [encode(sentence["words"], tokenizer) for sentence in sentences]
    batches = similar_length_batches([len(each["input_ids"]) for each in encoded], args.batch_size)
    collate = MaskedWordCollator.from_tokenizer(tokenizer)

    def masked(epoch: int) -> Iterator[dict[str, torch.Tensor]]:
        collate.set_epoch(epoch)
        for batch in batches:
            inputs = collate([encoded[index] for index in batch])
            inputs.pop("word_ids", None)
            yield inputs

    return masked_perplexity(masked_log_likelihood(model, masked(epoch)) for epoch in range(args.num_maskings))[1]


def heads_of(model, tokenizer, sentences: Sequence[dict], batch_size: int, **options) -> list[list[int]]:
    """The heads of all sentences; the model sees every word that is left of them."""
    words = [sentence["words"] for sentence in sentences]
    options |= {"structure": "dependency", "punctuation": "parse", "batch_size": batch_size}
    return [list(each.dependency.heads) for each in parse(words, model, tokenizer=tokenizer, **options)]


def attachment(heads: list[list[int]], sentences: Sequence[dict], suffix: str = "") -> dict[str, float]:
    scores = attachment_scores(heads, [sentence["heads"] for sentence in sentences])
    return {f"uas{suffix}": scores.uas, f"uuas{suffix}": scores.uuas}


def uf1(model, tokenizer, args: argparse.Namespace) -> float:
    rows = list(load_sentences(args.test_brackets, punctuation="drop"))
    words = [row["words"] for row in rows]
    options = {"structure": "constituency", "punctuation": "parse", "batch_size": args.batch_size}
    spans = [each.constituency.spans for each in parse(words, model, tokenizer=tokenizer, **options)]
    return unlabeled_f1(spans, [row["spans"] for row in rows], list(map(len, words))).uf1


def blimp(checkpoint: Path, folder: Path, args: argparse.Namespace) -> float:
    """The mean accuracy of the paradigms on every tenth pair."""
    more = {"device": args.device} if args.device else {}
    imports = [f"--import={name}" for name in getattr(args, "imported", [])]
    run_script(BLIMP, *imports, model=checkpoint, data=args.blimp, every=TENTH, output_dir=folder, **more)
    return load_object(folder / "results.json")["overall"]["paradigms"]


def results(args: argparse.Namespace) -> Iterator[tuple[str, int, dict]]:
    """Current results, run by run: its name, number of updates and scores, agreement with the last included."""
    for name, checkpoints in find_runs(args).items():
        files = {step: result_file(args, name, step) for step in checkpoints}
        done = {step: load_object(file) for step, file in files.items() if file.exists()}
        last = done[max(checkpoints)]["heads"] if max(checkpoints) in done else []
        for step, found in done.items():
            agreement = {AGREEMENT: attachment_scores(found["heads"], last).uuas} if last else {}
            yield name, step, found["scores"] | agreement


def find_runs(args: argparse.Namespace) -> dict[str, dict[int, Path]]:
    return {name: find_checkpoints(folder) for name, folder in named_systems(args.runs).items()}


def result_file(args: argparse.Namespace, name: str, step: int) -> Path:
    return Path(args.output_dir, "checkpoints", name, f"{step}.json")


def report(args: argparse.Namespace) -> str:
    """Writes the current table, in Markdown, and returns it."""
    found = list(results(args))
    shown = [column for column in COLUMNS if any(column in scores for *_, scores in found)]
    rows = [
        [name, str(step), *(_cell(column, scores.get(column)) for column in shown)] for name, step, scores in found
    ]
    table = markdown_table(["run", "updates", *(COLUMNS[column] for column in shown)], rows)
    write_text(table, Path(args.output_dir, "table.md"))
    return table


def draw(args: argparse.Namespace) -> None:
    panels: dict[str, dict[str, dict[int, list[float]]]] = {}
    for name, step, scores in results(args):
        for column in PANELS:
            if (value := scores.get(column)) is not None:
                panel = panels.setdefault(COLUMNS[column], {}).setdefault(name, {})
                panel[step] = [value if column == "perplexity" else 100 * value]
    write_figure(plot_curves(panels, "updates"), Path(args.output_dir, "dynamics.svg"))


def _cell(column: str, value: float | None) -> str:
    return percent(value) if column != "perplexity" else f"{value:.1f}"


def main() -> None:
    args = build_parser().parse_args()
    runs = find_runs(args)
    if args.blimp:
        find_tables(args.blimp)  # raises ValueError if it is not there
    files = file_digests(*filter(None, [args.test_file, args.test_brackets]))
    pairs = pair_digests(args.blimp) if args.blimp else None
    made_of = {"files": files, "blimp": pairs, "num_maskings": args.num_maskings}
    options = Path(args.output_dir, "options.json")
    check_same_run(options, made_of)
    write_json(made_of, options)
    for name, checkpoints in runs.items():
        for step, checkpoint in checkpoints.items():
            file = result_file(args, name, step)
            model = model_digests(str(checkpoint))
            if not file.exists() or load_object(file).get("model") != model:
                found = measure(checkpoint, args)
                if args.blimp:
                    folder = Path(args.output_dir, "blimp", f"{name}-{step}")
                    found["scores"]["blimp"] = blimp(checkpoint, folder, args)
                write_json({"model": model} | found, file)
                report(args)
    draw(args)
    print(report(args), end="")


if __name__ == "__main__":
    run(main, "run_dynamics.py")
