"""
GiLT's tables 1, 3, 4 and 6 in miniature: train GiLT and its baselines on the same text, score them on the same tests,
and write one table.

    python examples/papers/compare_gilt.py --config examples/configs/gilt-small.json --train_file train.conllu \\
        --validation_file dev.conllu --test_file test.conllu --beam_size 1,20 --blimp FOLDER --suites FOLDER \\
        --output_dir runs/compare -- --bf16

Table 1: `transformer-xl`, `transformer-xl-large` (as many parameters as GiLT), GiLT on `trees` and on `enhanced`
graphs, `pushdown` (Pushdown-LM, on constituency trees made from the dependency trees; its attachments are as wide as
GiLT's scorer between its perceptrons), the transformer grammars `plm`, `plm-mask`, `tg` (likewise) and `dtg`, and
DTG's baseline `arcs`, which sees all before it. `plm-2` and `plm-3` are PLMs that read closings twice and three times,
`plm-closed` has closings without openings, `plm-compressed` one closing for each run. Table 4: GiLT without a feature
of the graph (`no-degree`, `no-depth`, `no-distance`) or its weights (`no-degree-weights`, `no-distance-weights`), on
the graphs that `--annotation` says. Table 3: `gpt2`, a small model of GPT-2's architecture, trained from scratch; the
same trained further without graphs (`gpt2-post`), and with graphs in the upper half of its layers (`gpt2-gilt`), or
with stacks there (`gpt2-pushdown`); further on the same text, or on `--post_train_file`. Table 6 is the column of
arcs.

`--graphs DM=dm-train.sdp,dm-dev.sdp,dm-test.sdp` makes a row `DM`: a GiLT on other graphs of the same sentences, as
the paper has on DM, PAS and PSD of SDP 2015. A run of the above may have files of its own, too: `trees=` CoNLL-U.

`--brackets train.mrg,dev.mrg,test.mrg` adds `pushdown-brackets`, `plm-brackets`, `plm-mask-brackets` and
`tg-brackets`: the same models on constituency trees of the same sentences, labelled where the model has labels.

`pause-1` and `pause-2` are Transformer-XLs with one and two learned tokens after each word, which are not predicted:
as many extra steps as structures may take. `treereg` and `planting` are Transformer-XLs that a loss fits to the trees
of the training text (see `docs/tree-losses.md`).

`--trees gold shuffled random` adds rows such as `tg-shuffled` and `dtg-random`: the models of `--runs` that read
structures, and `treereg`, trained and evaluated with trees that say nothing about the sentences (see `run_clm.py`).
`--runs` can name them, too. Is it the tree? Words, pauses, trees in the text, structured models and losses, beside
their controls:

    python examples/papers/compare_gilt.py --config examples/configs/gilt-small.json --train_file train.conllu \\
        --validation_file dev.conllu --test_file test.conllu --blimp FOLDER --suites FOLDER --seeds 1 2 \\
        --runs transformer-xl pause-1 pause-2 plm plm-shuffled plm-closed plm-3 tg dtg dtg-shuffled pushdown trees \\
        trees-shuffled treereg treereg-shuffled planting --output_dir runs/tree

All models have the shape, the options and the one tokenizer that `--config` tells; options after `--` are passed to
`run_clm.py` in every run. `perplexity` is of a token of the test file, an upper bound where there is a beam; `falls`
are sentences to which the beam before gives a higher probability. BLiMP and the suites of SyntaxGym are scored with
the widest beam (see `run_pairs.py`, `run_sg.py`). With several `--seeds`, the table has the mean and the sample
standard deviation; the tokenizer is the same for all. Finished runs are skipped and interrupted ones resume: repeat
the same command. The table is printed, and written to `table.md` whenever a run ends.

The last columns are the costs of a model: the number of tokens that it reads for a word of the test file with the
trees of that file, including actions, pauses and the ends of sentences; its parameters; and the milliseconds of
processor time, of all threads, in which a word of the test file is scored with the beam. The figure `costs.svg` has
the scores of BLiMP and SyntaxGym over that time; a line leads from a model to its control.
"""

import argparse
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain, pairwise, product, zip_longest
from pathlib import Path
from statistics import mean
from time import process_time
from typing import Any

from transformers import AutoModelForCausalLM, AutoTokenizer

from hf_structure import score, train_subword_tokenizer
from hf_structure.cli.common import add_blimp, check_files, positives
from hf_structure.corpora.minimal_pairs import find_tables
from hf_structure.drawing.figures import plot_costs
from hf_structure.scoring.scoring import corpus_scores, count_falls, load_language_model
from hf_structure.text.formats import load_sentences
from hf_structure.text.graphs import ANNOTATIONS, average_dependencies, load_graphs
from hf_structure.training.baselines import new_gpt2
from hf_structure.training.comparison import (
    add_seeds_argument,
    markdown_table,
    named_files,
    parse_arguments,
    part_files,
    read_results,
    run_script,
    score_cells,
    seed_folder,
)
from hf_structure.training.controls import GOLD, TREES
from hf_structure.training.scripts import load_object, run, save_whole, write_figure, write_json, write_text

EXAMPLES = Path(__file__).parents[1]
NEEDED = {  # of a configuration
    "model": (
        "model_type",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "hidden_dropout",
        "attention_dropout",
    ),
    "options": ("tokenizer_type", "vocab_size", "learning_rate", "warmup_steps"),
}


PERPLEXITIES = ("perplexity", "word_perplexity")
TESTS = {"blimp": "paradigms", "suites": "without_other"}  # folders, and what is shown of their results
PANELS = {"blimp": "BLiMP, %", "suites": "SyntaxGym without Other, %"}
TITLES = (
    "model",
    "arcs a sentence",
    "beam",
    "seeds",
    "perplexity",
    "of a word",
    "falls",
    "BLiMP",
    "SG, without Other",
    "tokens a word",
    "parameters",
    "processor ms a word",
)
COSTS = {"tokens_per_word": "{:.2f}", "parameters": "{:,.0f}", "milliseconds": "{:.3g}"}  # and their forms


@dataclass
class Run:
    """
    One model: options of `run_clm.py`, settings that are not the configuration's, the run it starts from, whether it
    is a GPT-2, whether its trees are those of `--brackets`, and the run that it is a control of.
    """

    options: dict = field(default_factory=dict)
    settings: dict = field(default_factory=dict)
    base: str | None = None
    is_graft: bool = False
    has_brackets: bool = False
    control_of: str | None = None

    @property
    def is_pushdown(self) -> bool:
        return self.options.get("model_type") == "pushdown"

    @property
    def is_grammar(self) -> bool:
        return self.options.get("model_type") == "transformer_grammar"

    @property
    def has_graphs(self) -> bool:
        return not self.options.get("model_type") and self.options.get("graph_layers") != 0

    @property
    def has_beam(self) -> bool:
        return self.has_graphs or self.is_pushdown or self.is_grammar

    @property
    def has_controls(self) -> bool:
        return self.has_beam or self.is_regularized

    @property
    def is_regularized(self) -> bool:
        return self.options.get("tree_loss") == "treereg"


def grammar(formalism: str, composition: str, **settings: Any) -> Run:
    """A transformer grammar."""
    options = {"model_type": "transformer_grammar", "formalism": formalism, "composition": composition}
    return Run(options, settings)


RUNS = {
    "transformer-xl": Run({"model_type": "transformer-xl"}),
    "transformer-xl-large": Run({"model_type": "transformer-xl-large"}),
    "trees": Run({"annotation": "basic"}),
    "enhanced": Run({"annotation": "enhanced"}),
    "pushdown": Run({"model_type": "pushdown"}),
    "plm": grammar("constituency", "none"),
    "plm-mask": grammar("constituency", "heads"),
    "tg": grammar("constituency", "compose"),
    "dtg": grammar("dependency", "compose"),
    "arcs": grammar("dependency", "none"),
    "no-degree": Run(settings={"graph_features": ["distance", "depth"]}),
    "no-depth": Run(settings={"graph_features": ["degree", "distance"]}),
    "no-distance": Run(settings={"graph_features": ["degree", "depth"]}),
    "no-degree-weights": Run(settings={"degree_weights": [1, 1]}),
    "no-distance-weights": Run(settings={"distance_weights": [1, 1]}),
    "gpt2": Run({"graph_layers": 0}, is_graft=True),
    "gpt2-post": Run({"graph_layers": 0}, base="gpt2", is_graft=True),
    "gpt2-gilt": Run(base="gpt2", is_graft=True),
    "gpt2-pushdown": Run({"model_type": "pushdown"}, base="gpt2", is_graft=True),
}
VARIANTS = {  # trained if they are named
    "pause-1": Run({"model_type": "transformer-xl", "pause_tokens": 1}),
    "pause-2": Run({"model_type": "transformer-xl", "pause_tokens": 2}),
    "plm-2": grammar("constituency", "none", closings=2),
    "plm-3": grammar("constituency", "none", closings=3),
    "plm-closed": grammar("constituency", "none", openings=False),
    "plm-compressed": grammar("constituency", "none", compress_closings=True),
    "treereg": Run({"model_type": "transformer-xl", "tree_loss": "treereg"}),
    "planting": Run({"model_type": "transformer-xl", "tree_loss": "planting", "attn_implementation": "eager"}),
}
BRACKETED = {
    f"{name}-brackets": replace(RUNS[name], has_brackets=True) for name in ("pushdown", "plm", "plm-mask", "tg")
}


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True, metavar="FILE", help="shape of the models and options of training")
    parser.add_argument("--train_file", required=True, nargs="+", metavar="FILE", help="CoNLL-U or SDP 2015")
    for name in ("validation_file", "test_file"):
        parser.add_argument(f"--{name}", required=True, metavar="FILE", help="CoNLL-U or SDP 2015")
    parser.add_argument("--output_dir", required=True, metavar="FOLDER", help="where models and table go")
    parser.add_argument(
        "--runs",
        nargs="+",
        metavar="RUN",
        help=f"{', '.join(RUNS)}, {', '.join(BRACKETED)}, {', '.join(VARIANTS)}, or names of --graphs; default: all "
        f"but {', '.join(VARIANTS)}",
    )
    parser.add_argument(
        "--graphs",
        nargs="+",
        type=named_files,
        default=[],
        metavar="NAME=TRAIN,DEV,TEST",
        help="the same sentences with other graphs or trees: a GiLT of this name, or for a run that is there already",
    )
    parser.add_argument(
        "--brackets",
        type=part_files,
        metavar="TRAIN,DEV,TEST",
        help=f"constituency trees of the same sentences, for {', '.join(BRACKETED)}",
    )
    parser.add_argument(
        "--annotation", choices=ANNOTATIONS, default="basic", help="graphs where the run does not say; default: basic"
    )
    parser.add_argument(
        "--trees",
        nargs="+",
        choices=TREES,
        default=["gold"],
        metavar="KIND",
        help=f"also train on controls: {', '.join(TREES)}; default: gold, and those that --runs names",
    )
    parser.add_argument(
        "--tokenizer_name", metavar="NAME", help="tokenizer (folder or Hub name); by default a new one of the text"
    )
    parser.add_argument("--beam_size", type=positives, default=[20], metavar="N", help="also several; default: 20")
    add_blimp(parser)
    parser.add_argument("--suites", metavar="FOLDER", help="SyntaxGym's suites, for run_sg.py")
    parser.add_argument(
        "--post_train_file", nargs="+", metavar="FILE", help="text of further training; default: --train_file"
    )
    parser.add_argument("--post_epochs", type=float, default=3, help="of further training; default: 3")
    parser.add_argument("--post_learning_rate", type=float, default=1e-4, help="of a trained model; default: 1e-4")
    add_seeds_argument(parser)
    return parser


def all_runs(args: argparse.Namespace) -> dict[str, Run]:
    """All runs, by name: those with the trees of the files, and their controls."""
    found = {name: Run() for name, _ in args.graphs} | RUNS | VARIANTS | BRACKETED
    kinds = [trees for trees in TREES if trees not in GOLD]
    for trees, (name, gold) in product(kinds, list(found.items())):
        if gold.has_controls:
            found[f"{name}-{trees}"] = replace(gold, options=gold.options | {"trees": trees}, control_of=name)
    return found


def with_controls(names: Iterable[str], args: argparse.Namespace) -> list[str]:
    """The runs of these names, each followed by its controls of `--trees`."""
    runs = all_runs(args)
    found = []
    for name in names:
        controls = (f"{name}-{trees}" for trees in args.trees)
        found += [name, *(control for control in controls if control in runs)]
    return list(dict.fromkeys(found))


def check(args: argparse.Namespace) -> None:
    """
    Finds the runs, and looks for all files, so that none is missed hours later. Raises `ValueError` if there is no
    such run, files are given twice, or there is no such data of BLiMP, and `FileNotFoundError` for a file or folder
    that is not there.
    """
    names = [name for name, _ in args.graphs]
    runs = all_runs(args)
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"--graphs: {', '.join(sorted(twice))} given twice")
    args.runs = args.runs or list(dict.fromkeys([*names, *RUNS, *(BRACKETED if args.brackets else ())]))
    if unknown := [name for name in args.runs if name not in runs]:
        raise ValueError(f"--runs: there is no {', '.join(unknown)}, but {', '.join(runs)}")
    args.runs = with_controls(args.runs, args)
    if not args.brackets and (bracketed := [name for name in args.runs if runs[name].has_brackets]):
        raise ValueError(f"--runs: {', '.join(bracketed)} need the files of --brackets")
    files = (chain.from_iterable(files_of(name, args).values()) for name in args.runs)
    check_files(chain.from_iterable(files), None)
    if args.suites:
        os.stat(args.suites)  # raises OSError if it is not there
    if args.blimp:
        find_tables(args.blimp)


def common_files(name: str, args: argparse.Namespace) -> dict[str, list[str]]:
    """The files of all runs of this kind: of each part one, of training text perhaps several."""
    train = (all_runs(args)[name].base and args.post_train_file) or args.train_file
    return {"train": train, "validation": [args.validation_file], "test": [args.test_file]}


def files_of(name: str, args: argparse.Namespace) -> dict[str, list[str]]:
    """The files of a run: its own, or the common ones."""
    return common_files(name, args) | {part: [file] for part, file in own_files(name, args).items()}


def own_files(name: str, args: argparse.Namespace) -> dict[str, str]:
    """The files of `--brackets`, or those that `--graphs` gives to a run or to the run that it is a control of."""
    run = all_runs(args)[name]
    return args.brackets if run.has_brackets else dict(args.graphs).get(run.control_of or name, {})


def check_sentences(name: str, args: argparse.Namespace) -> None:
    """Raises `ValueError` unless the files of a run have the sentences of the common ones."""
    for part, own in own_files(name, args).items():
        common = common_files(name, args)[part]
        pairs = zip_longest(words_of([own]), words_of(common))
        for number, (words, expected) in enumerate(pairs if [own] != common else (), start=1):
            if words != expected:
                found = "nothing" if words is None else " ".join(words)
                raise ValueError(f"{own}: sentence {number} is {found}, and another one in {' '.join(common)}")


def words_of(files: Iterable[str]) -> Iterator[list[str]]:
    for file in files:
        for sentence in load_sentences(file):
            yield sentence["words"]


def annotation_of(run: Run, args: argparse.Namespace) -> str:
    return run.options.get("annotation", args.annotation)


def tokenizer_folder(args: argparse.Namespace) -> str:
    """The tokenizer of all models, trained if there is none: perplexities of its tokens can be compared."""
    folder = Path(args.output_dir, "tokenizer")
    if args.tokenizer_name:
        return args.tokenizer_name
    if not folder.exists():
        options = read_config(args)["options"]
        words = words_of(args.train_file)
        tokenizer = train_subword_tokenizer(words, vocab_size=options["vocab_size"], kind=options["tokenizer_type"])
        save_whole(folder, tokenizer)
    return str(folder)


def read_config(args: argparse.Namespace) -> dict:
    """The configuration. Raises `ValueError` if it is not that of a model from scratch."""
    config = load_object(args.config)
    for part, names in NEEDED.items():
        if missing := [name for name in names if name not in config.get(part, {})]:
            raise ValueError(f"{args.config}: {', '.join(missing)} missing in '{part}'; see gilt-small.json")
    return config


def run_folder(name: str, seed: int, args: argparse.Namespace) -> Path:
    return seed_folder(args.output_dir, name, seed)


def untrained_gpt2(seed: int, args: argparse.Namespace) -> Path:
    """A GPT-2 of the shape of the configuration."""
    folder = run_folder("gpt2-untrained", seed, args)
    if not folder.exists():
        tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder(args), trust_remote_code=False)
        save_whole(folder, new_gpt2(read_config(args)["model"], tokenizer, seed))
    return folder


def train(name: str, seed: int, args: argparse.Namespace) -> None:
    """Trains a model, unless that is done."""
    folder = run_folder(name, seed, args)
    if (folder / "test_results.json").exists():
        return
    check_sentences(name, args)
    files = {f"{part}_file": file for part, file in files_of(name, args).items()}
    named = {"tokenizer_name": tokenizer_folder(args), "seed": seed, "output_dir": folder, **files}
    run_script(EXAMPLES / "run_clm.py", *args.options, **named, **training_options(name, seed, args))


def training_options(name: str, seed: int, args: argparse.Namespace) -> dict:
    """Options of `run_clm.py` from the configuration and the run."""
    run = all_runs(args)[name]
    config = read_config(args)
    settings = config["model"]
    options = {**config["options"], "annotation": args.annotation}
    model_type = settings.pop("model_type")
    own = {key: value for key, value in settings.items() if key.startswith(("graph_", "scorer_"))}
    shape = {key: value for key, value in settings.items() if key not in own}
    layers = "graph_layers"
    if run.is_grammar:
        own = {}
    if run.is_pushdown:
        own = {"attachment_size": own["scorer_hidden_size"]} if "scorer_hidden_size" in own else {}
        layers = "stack_layers"
    if run.is_regularized:
        options["tree_fraction"] = max(0.25, 1 / shape["num_attention_heads"])  # one head at least
    if not run.is_graft:
        return {"model_type": model_type, **options, **run.options, "config_overrides": shape | own | run.settings}
    options |= {layers: config["model"]["num_hidden_layers"] // 2, "config_overrides": own}
    options |= {"base_model": base_model(run, seed, args), "base_learning_rate": options["learning_rate"]}
    if run.base:  # as gilt-gpt2.json: new parameters learn five times as fast, and the scorer in a second phase
        options |= {"num_train_epochs": args.post_epochs, "lm_only_steps": options["warmup_steps"]}
        options |= {"learning_rate": 5 * args.post_learning_rate, "base_learning_rate": args.post_learning_rate}
    return options | run.options


def base_model(run: Run, seed: int, args: argparse.Namespace) -> Path:
    """Base model of a run: an untrained GPT-2, or the base model of another run."""
    if run.base is None:
        return untrained_gpt2(seed, args)
    trained = run_folder(run.base, seed, args)
    folder = trained / "base"
    if not (trained / "test_results.json").exists():
        raise ValueError(f"{trained} is not trained: the run {run.base} comes before those that start from it")
    if not folder.exists():
        model = AutoModelForCausalLM.from_pretrained(trained, trust_remote_code=False)
        save_whole(folder, model.to_base_lm())
    return folder


def evaluate(name: str, seed: int, args: argparse.Namespace) -> None:
    """Perplexities and syntactic tests of a trained model, unless that is done."""
    folder = run_folder(name, seed, args)
    for beam_size in beams(name, args):
        file = folder / perplexity_file(beam_size)
        if not file.exists():
            write_json(score_test_file(folder, beam_size, args), file)
    widest = beams(name, args)[-1]
    named = {"model": folder} | ({"beam_size": widest} if widest else {})
    if args.blimp and not (folder / "blimp" / "results.json").exists():
        data = {"data": args.blimp, "every": args.every}
        run_script(EXAMPLES / "run_pairs.py", **named, **data, output_dir=folder / "blimp")
    if args.suites and not (folder / "suites" / "results.json").exists():
        run_script(EXAMPLES / "run_sg.py", **named, suites=args.suites, output_dir=folder / "suites")


def score_test_file(folder: Path, beam_size: int | None, args: argparse.Namespace) -> dict[str, Any]:
    """Scores of the test file, the log-probabilities of its sentences, and what they cost."""
    model, tokenizer = load_language_model(folder)
    words = list(words_of([args.test_file]))
    before = process_time()
    scores = score(words, model, tokenizer=tokenizer, beam_size=beam_size, progress=True)
    seconds = process_time() - before
    costs = {"parameters": model.num_parameters(), "milliseconds": 1000 * seconds / sum(map(len, words))}
    return {**corpus_scores(scores), **costs, "log_probs": [scored.log_prob for scored in scores]}


def beams(name: str, args: argparse.Namespace) -> list[int | None]:
    """The beams that a model is scored with, the widest last."""
    return sorted(args.beam_size) if all_runs(args)[name].has_beam else [None]


def perplexity_file(beam_size: int | None) -> str:
    return f"perplexity-{beam_size}.json" if beam_size else "perplexity.json"


@cache  # the table is written after every run
def arcs_a_sentence(annotation: str, *files: str) -> float:
    """Mean number of arcs in the graphs of the training text."""
    return average_dependencies(chain.from_iterable(load_graphs(file, annotation) for file in files))


def results(folder: Path, beam_size: int | None, before: int | None, is_widest: bool) -> dict[str, float]:
    """Results of a run with a beam; `before` is the previous beam, if any. Empty unless the run has ended."""
    if not (found := read_results(folder / perplexity_file(beam_size))):
        return {}
    scores = {f"test_{name}": found[name] for name in PERPLEXITIES}
    if before and (narrower := read_results(folder / perplexity_file(before))):
        scores["test_falls"] = count_falls(narrower["log_probs"], found["log_probs"])
    for test, key in TESTS.items() if is_widest else ():
        overall = read_results(folder / test / "results.json").get("overall", {})
        scores[f"test_{test}"] = overall.get(key)
    costs = found | {"tokens_per_word": read_results(folder / "test_results.json").get("test_tokens_per_word")}
    return scores | {name: costs.get(name) for name in COSTS}


def rows(name: str, args: argparse.Namespace) -> list[list[str]]:
    """The rows of a model, one for each beam, as far as it has results."""
    found = []
    run = all_runs(args)[name]
    folders = [run_folder(name, seed, args) for seed in args.seeds]
    arcs = "-"
    if run.has_graphs:
        arcs = f"{arcs_a_sentence(annotation_of(run, args), *files_of(name, args)['train']):.1f}"
    for before, beam_size in pairwise([None, *beams(name, args)]):
        is_widest = beam_size == beams(name, args)[-1]
        scores = [results(folder, beam_size, before, is_widest) for folder in folders]
        if cells := score_cells(scores, [*PERPLEXITIES, "falls", *TESTS]):
            tests = cells[-len(TESTS) :] if is_widest else [""] * len(TESTS)
            found.append([name, arcs, str(beam_size or "-"), *cells[: -len(TESTS)], *tests, *cost_cells(scores)])
    return found


def cost_cells(results: Iterable[dict[str, float]]) -> list[str]:
    """The mean of each cost over finished runs; a dash for one that was not measured."""
    ended = [found for found in results if found]
    cells = []
    for name, form in COSTS.items():
        values = [found[name] for found in ended if found[name] is not None]
        cells.append(form.format(mean(values)) if values else "-")
    return cells


def table(args: argparse.Namespace) -> str:
    """Current table, in Markdown."""
    return markdown_table(TITLES, chain.from_iterable(rows(name, args) for name in args.runs))


def draw(args: argparse.Namespace) -> None:
    """Figure `costs.svg`: scores of the syntactic tests over processor time, means over seeds."""
    panels = {title: scores_and_costs(test, args) for test, title in PANELS.items()}
    panels = {title: points for title, points in panels.items() if points}
    controls = {name: run.control_of for name, run in all_runs(args).items() if run.control_of}
    if panels:
        figure = plot_costs(panels, "processor milliseconds a word", controls)
        write_figure(figure, Path(args.output_dir, "costs.svg"))


def scores_and_costs(test: str, args: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """Mean cost and mean score in a test of each model that has both, with the widest beam."""
    found = {}
    for name in args.runs:
        folders = [run_folder(name, seed, args) for seed in args.seeds]
        scores = [results(folder, beams(name, args)[-1], None, is_widest=True) for folder in folders]
        pairs = [(each["milliseconds"], each[f"test_{test}"]) for each in scores if each]
        if complete := [pair for pair in pairs if None not in pair]:
            costs, values = zip(*complete, strict=True)
            found[name] = (mean(costs), mean(values))
    return found


def main() -> None:
    args, args.options = parse_arguments(build_parser())
    check(args)
    for seed, name in product(args.seeds, args.runs):
        train(name, seed, args)
        evaluate(name, seed, args)
        write_text(table(args), Path(args.output_dir, "table.md"))
    print(table(args), end="")
    draw(args)


if __name__ == "__main__":
    run(main, "compare_gilt.py")
