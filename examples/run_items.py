"""
Measure the effects of conditions on surprisal, region by region, with any language model: garden paths, agreement,
and other comparisons between the items of an experiment.

    python examples/run_items.py --model gilt-en --beam_size 1,5,20,100 --sap SAP --output_dir runs/sap
    python examples/run_items.py --model gpt2 --items items.csv --region_mark / \\
        --contrast garden_path=none,comma --output_dir runs/mine

`--items` is a table with the columns `item`, `condition` and `sentence`; its regions are given as for
`hf-structure score --table` (see docs/scoring.md). A contrast `NAME=A,B` is the surprisal of a region in condition A
minus its surprisal in condition B (or the reduction of an entropy, `--measure`). Its effect is the mean over items,
in nats, with the standard error over items; the same goes for the means of conditions. With several beams, `change` is
the effect minus the effect with the last beam, with the standard error of the paired differences.

`--sap` is a folder with the items of the SAP Benchmark (Huang et al. 2024, github.com/caplabnyu/sapbenchmark):
`items_X.pivot.csv` of the classic garden paths (MVRR, NPZ, NPS), attachment, relative clauses and agreement, and
optionally the effects in its `plots/spr`, as `effects_ms/by_construction.csv` and `by_item.csv`. Regions are the
critical word (0) and the two words after it. With the effects, the tables also show the effects on human reading
times, in milliseconds, and their correlation with the model's effects over items.

The output folder gets the table of words (`words.tsv`), `results.json`, `results.md`, and the figure `effects.svg`. If
`words.tsv` exists and belongs to the same run, the sentences are not scored again.
"""

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas

from hf_structure import score_table
from hf_structure.cli.common import add_masking, add_model, add_scoring, positives
from hf_structure.cli.score_tables import add_layout, layout_of
from hf_structure.corpora.items import read_item_rows
from hf_structure.parsing.options import CORRECTIONS, DEFAULT_SCORER
from hf_structure.training.comparison import markdown_table
from hf_structure.training.scripts import (
    check_same_run,
    file_digests,
    model_digests,
    run,
    write_figure,
    write_json,
    write_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Keyed by set, and by the name of the effect on reading times: a condition, and the one subtracted from it.
SAP_CONTRASTS = {
    "ClassicGP": {
        "GPE_MVRR": ("MVRR_AMB", "MVRR_UAMB"),
        "GPE_NPZ": ("NPZ_AMB", "NPZ_UAMB"),
        "GPE_NPS": ("NPS_AMB", "NPS_UAMB"),
    },
    "AttachmentAmbiguity": {"GPE_high": ("AttachHigh", "AttachMulti"), "GPE_low": ("AttachLow", "AttachMulti")},
    "RelativeClause": {"RC": ("RC_Obj", "RC_Subj")},
    "Agreement": {"Agr": ("UNAGREE", "AGREE")},
}
SAP_REGIONS = ["0", "1", "2"]
MEASURES = (
    "surprisal",
    "entropy_reduction",
    "structure_entropy_reduction",
)  # summed over a region
TEXTS = {"item": str, "condition": str, "region": str, "word": str}  # columns of strings
COLORS = ("#7b3294", "#c2a5cf", "#a6dba0", "#008837", "#404040")
Contrasts = dict[str, tuple[str, str]]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add_model(parser, DEFAULT_SCORER)
    data = parser.add_mutually_exclusive_group(required=True)
    data.add_argument("--items", metavar="FILE", help="table of items, .csv or .tsv")
    data.add_argument("--sap", metavar="FOLDER", help="items and effects of the SAP Benchmark")
    add_layout(parser)
    parser.add_argument(
        "--contrast",
        type=contrast,
        action="append",
        default=[],
        metavar="NAME=A,B",
        help="condition A minus condition B; may be given several times",
    )
    parser.add_argument(
        "--regions", type=lambda text: text.split(","), metavar="NAMES", help="to report, with commas; default: all"
    )
    parser.add_argument(
        "--beam_size", type=positives, metavar="N,...", help="of models that build structures; default: 20"
    )
    parser.add_argument(
        "--measure", choices=MEASURES, default="surprisal", help="measure to compare; default: %(default)s"
    )
    parser.add_argument("--correction", choices=CORRECTIONS, help="for leading spaces, see docs/scoring.md")
    add_scoring(parser)
    add_masking(parser)
    parser.add_argument("--output_dir", required=True, metavar="FOLDER", help="where results go")
    return parser.parse_args()


def contrast(text: str) -> tuple[str, tuple[str, str]]:
    """Parses `NAME=A,B`, as an argparse type, into a name and two conditions."""
    name, _, conditions = text.partition("=")
    if not name or conditions.count(",") != 1:
        raise argparse.ArgumentTypeError(f"must be NAME=A,B, two conditions, not {text!r}")
    first, second = conditions.split(",")
    return name, (first, second)


def read_sap(folder: Path) -> Iterator[dict[str, Any]]:
    """
    Yields the items of all sets, with the position of the critical word, from 1. In two of the sets,
    `disambPosition_0idx` counts from 1, so its source columns are read instead. Raises `ValueError` if the conditions
    of an item have different critical words.
    """
    for name in SAP_CONTRASTS:
        words: dict[str, str] = {}
        for location, row in read_item_rows(folder / f"items_{name}.pivot.csv"):
            position = _sap_position(row)
            sentence = row["Sentence"].split()
            word = words.setdefault(row["item"], sentence[position - 1])
            # In item 42, targetPosition is one too small: the position of "crew".
            if name == "RelativeClause":
                position = sentence.index(word) + 1
            if sentence[position - 1] != word:
                raise ValueError(
                    f"{location}: the critical word is {sentence[position - 1]!r}, in other rows {word!r}"
                )
            columns = {"set": name, "item": row["item"], "condition": row["condition"], "sentence": row["Sentence"]}
            yield columns | {"position": position}


def _sap_position(row: dict[str, str]) -> int:
    if "ambiguity" in row:
        return int(row["disambPositionAmb" if row["ambiguity"] == "ambiguous" else "disambPositionUnamb"])
    return int(float(row.get("disambPosition") or row["targetPosition"]))


def sums_of(words: pandas.DataFrame, columns: dict[str, str]) -> pandas.DataFrame:
    """
    Sums the surprisals of the words of each region, with region, condition and item in the rows. `columns` are the
    columns of the table of words, keyed by their names in the results.
    """
    sums = words.groupby(["sentence_id", "region", "condition", "item"], sort=False)[list(columns.values())]
    # An item may have several sentences in a condition.
    sums = sums.sum(min_count=1).groupby(["region", "condition", "item"]).mean()
    return sums.rename(columns={column: name for name, column in columns.items()})


def effects(sums: pandas.DataFrame, contrasts: Contrasts, regions: Sequence[str]) -> dict:
    """
    Returns, for each contrast and region, the differences between its two conditions, with items in rows. Raises
    `ValueError` for conditions or regions that no item has.
    """
    found = {}
    for name, (first, second) in contrasts.items():
        for region in regions:
            try:
                # An item without one of the conditions has no effect.
                differences = (sums.loc[(region, first), :] - sums.loc[(region, second), :]).dropna()
            except KeyError as error:
                raise ValueError(f"{name}: no item has condition {first} and {second} with region {region}") from error
            found[name, region] = differences
    return found


def means_of(sums: pandas.DataFrame, contrasts: Contrasts, regions: Sequence[str]) -> list[dict[str, Any]]:
    """Makes a row for each condition, region and system, with the mean over items."""
    rows = []
    for condition in dict.fromkeys(condition for pair in contrasts.values() for condition in pair):
        for region in regions:
            values = sums.loc[(region, condition), :]
            for system in values:
                row = {"condition": condition, "region": region, "system": system, "items": len(values)}
                rows.append(row | _mean(values[system], "mean"))
    return rows


def summarize(found: dict, human: Sequence[pandas.DataFrame]) -> list[dict[str, Any]]:
    """Makes a row for each contrast, region and system: effect, change from the last system, human effect."""
    rows = []
    for (name, region), differences in found.items():
        # Paired by item: effects with different beams are correlated.
        changes = differences.sub(differences.iloc[:, -1], axis=0)
        for system in differences:
            row = {"contrast": name, "region": region, "system": system, "items": len(differences)}
            row |= _mean(differences[system], "effect") | _mean(changes[system], "change")
            rows.append(row | _human(name, region, differences[system], human))
    return rows


def _mean(values: pandas.Series, name: str) -> dict[str, float]:
    return {name: values.mean(), f"{name}_error": values.sem()}


def _human(name: str, region: str, differences: pandas.Series, human: Sequence[pandas.DataFrame]) -> dict[str, float]:
    """Returns the human effect of a construction in milliseconds, and its correlation with the model over items."""
    if not human:
        return {}
    constructions, by_item = (frame[(frame.coef == name) & (region == frame.ROI)] for frame in human)
    # The benchmark has effects of its own regions only.
    if constructions.empty:
        return dict.fromkeys(("human_ms", "human_lower", "human_upper", "correlation"), math.nan)
    means = constructions.iloc[0]
    by_item = by_item.set_index("item")["mean"]
    values = {"human_ms": means["mean"], "human_lower": means["lower"], "human_upper": means["upper"]}
    return values | {"correlation": differences.corr(by_item)}


def read_human(folder: Path) -> list[pandas.DataFrame]:
    """Reads the effects on human reading times, of constructions and of their items; nothing without the files."""
    files = [folder / f"effects_ms/{name}.csv" for name in ("by_construction", "by_item")]
    if not all(file.exists() for file in files):
        return []
    frames = [pandas.read_csv(file, dtype={"ROI": str, "item": str}) for file in files]
    return [frame[frame.source == "human"] for frame in frames]


def to_markdown(rows: Sequence[dict[str, Any]], means: Sequence[dict[str, Any]]) -> str:
    """Formats the tables of effects, changes with the beam, correlations and conditions."""
    frame = pandas.DataFrame(rows)
    systems = list(dict.fromkeys(frame.system))
    parts = [_table(frame, "effect", systems)]
    if len(systems) > 1:
        parts.append(_table(frame, "change", systems[:-1]))
    if "correlation" in frame:
        parts.append(_table(frame, "correlation", systems))
    return "\n".join([*parts, _table(pandas.DataFrame(means), "mean", systems)])


def _table(frame: pandas.DataFrame, value: str, systems: Sequence[str]) -> str:
    lines = []
    key = frame.columns[0]
    is_effect = value == "effect" and "human_ms" in frame
    for (name, region), group in frame.groupby([key, "region"], sort=False):
        by_system = group.set_index("system")
        cells = []
        for system in systems:
            cell = _cell(by_system[value][system])
            if f"{value}_error" in by_system:
                cell += f" ± {_cell(by_system[f'{value}_error'][system])}"
            cells.append(cell)
        if is_effect:
            first = group.iloc[0]
            bounds = f"[{first.human_lower:.0f}, {first.human_upper:.0f}]"
            cells.append("-" if pandas.isna(first.human_ms) else f"{first.human_ms:.0f} {bounds}")
        lines.append([str(name), str(region), str(group["items"].iloc[0]), *cells])
    heading = [key, "region", "items", *(f"{value}, {system}" for system in systems)]
    return markdown_table(heading + ["human, ms"] * is_effect, lines)


def _cell(value: float | None) -> str:
    return "-" if pandas.isna(value) else f"{value:.2f}"


def plot(rows: Sequence[dict[str, Any]]) -> "Figure":
    """Draws a panel for each contrast: a bar for each region and system, and human effects as points."""
    from matplotlib.figure import Figure

    frame = pandas.DataFrame(rows)
    contrasts = list(dict.fromkeys(frame.contrast))
    systems = list(dict.fromkeys(frame.system))
    columns = min(len(contrasts), 4)
    lines = math.ceil(len(contrasts) / columns)
    figure = Figure(figsize=(3.2 * columns, 2.8 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).flat
    # The grid may have more panels than there are contrasts.
    for panel in list(panels)[len(contrasts) :]:
        panel.set_visible(False)
    for panel, name in zip(figure.axes, contrasts, strict=False):
        _draw_contrast(panel, frame[frame.contrast == name], systems)
        panel.set_title(name, fontsize=10)
    # One entry a system, although its bars are in every panel.
    handles = [part for panel in figure.axes for part in zip(*panel.get_legend_handles_labels(), strict=True)]
    legend = {label: handle for handle, label in handles}
    figure.legend(legend.values(), legend.keys(), loc="outside lower center", ncols=len(legend), frameon=False)
    figure.supylabel("effect (nats)", fontsize=10)
    return figure


def _draw_contrast(panel: "Axes", effects: pandas.DataFrame, systems: Sequence[str]) -> None:
    """Draws the effects of a contrast: a group of bars for each region, and human effects on their own axis."""
    regions = list(dict.fromkeys(effects.region))
    width = 0.8 / len(systems)
    for number, system in enumerate(systems):
        part = effects[effects.system == system]
        # The bars of a region are centred on its tick.
        xs = [index + width * (number - (len(systems) - 1) / 2) for index in range(len(regions))]
        style = {"color": COLORS[number % len(COLORS)], "label": system, "error_kw": {"elinewidth": 0.8}}
        panel.bar(xs, part.effect, width, yerr=part.effect_error, **style)
    if "human_ms" in effects:
        # Human effects are the same for all systems.
        first = effects[effects.system == systems[0]]
        spread = [first.human_ms - first.human_lower, first.human_upper - first.human_ms]
        human = panel.twinx()
        human.errorbar(range(len(regions)), first.human_ms, spread, fmt="ko", markersize=4, label="human (ms)")
        _align_zeros(panel, human)
    panel.axhline(0, color="black", linewidth=0.6)
    panel.set_xticks(range(len(regions)), regions)


def _align_zeros(*panels: Any) -> None:
    """Aligns the zeros of panels that are drawn on one another."""
    limits = [panel.get_ylim() for panel in panels]
    scales = [max(-low, high) for low, high in limits]  # the larger of both sides of 0
    # Shares of the larger side that all panels need on either side of 0.
    below = max(-low / scale for (low, _), scale in zip(limits, scales, strict=True))
    above = max(high / scale for (_, high), scale in zip(limits, scales, strict=True))
    for panel, scale in zip(panels, scales, strict=True):
        panel.set_ylim(-below * scale, above * scale)


def score_items(options: argparse.Namespace, items: Any, files: Sequence[Path], where: dict[str, Any]) -> Path:
    """Returns the path of the table of words; scores the items unless it exists."""
    folder = Path(options.output_dir)
    names = ("raw", "word_tokenizer", "masking", "correction", "beam_size")
    settings = {name: getattr(options, name) for name in names}
    run_options = settings | {"items": where}
    states = {"model": model_digests(options.model), "files": file_digests(*files)}
    check_same_run(folder / "options.json", run_options | states)
    path = folder / "words.tsv"
    if not path.exists():
        settings |= {name: getattr(options, name) for name in ("max_tokens", "device", "trust_remote_code")}
        words = score_table(
            items, options.model, entropy=options.measure != "surprisal", progress=True, **where, **settings
        )
        write_json(run_options | states, folder / "options.json")
        write_text(words.to_csv(sep="\t", index=False, na_rep="NA", float_format="%.5f"), path)
    return path


def measured(options: argparse.Namespace) -> dict[str, str]:
    """Returns the columns of the table of words that are compared, keyed by their names in the results."""
    sizes = options.beam_size or []
    if len(sizes) > 1:
        return {f"beam {size}": f"{options.measure}_beam_{size}" for size in sizes}
    name = f"beam {sizes[0]}" if sizes else Path(options.model).name
    return {name: options.measure}


def _as_json(row: dict[str, Any]) -> dict[str, Any]:
    """Replaces nan by None, such as the standard error of a single item."""
    return {name: None if pandas.isna(value) else value for name, value in row.items()}


def main() -> None:
    options = parse_arguments()
    folder = Path(options.output_dir)
    if options.sap:
        source = Path(options.sap)
        files = [source / f"items_{name}.pivot.csv" for name in SAP_CONTRASTS]
        path = score_items(options, list(read_sap(source)), files, {"critical": "position"})
        contrasts = {name: pair for pairs in SAP_CONTRASTS.values() for name, pair in pairs.items()}
        human = read_human(source)
    else:
        layout = layout_of(options)
        where = {"sentence": layout.sentence, "regions": layout.regions, "region_mark": layout.mark}
        contrasts: Contrasts = dict(options.contrast)
        if not contrasts:
            raise ValueError("what is compared? Say it with --contrast NAME=A,B")
        path = score_items(options, options.items, [options.items], {**where, "critical": layout.critical})
        human = []
    words = pandas.read_csv(path, sep="\t", dtype=TEXTS, keep_default_na=False, na_values=["NA"])
    columns = measured(options)
    if missing := {"item", "condition", "region", *columns.values()} - set(words):
        raise ValueError(f"{path} has no {', '.join(sorted(missing))}: delete it to score the items again")
    every = SAP_REGIONS if options.sap else list(dict.fromkeys(words.region.dropna()))
    regions = options.regions or every
    sums = sums_of(words, columns)
    rows = summarize(effects(sums, contrasts, regions), human)
    means = means_of(sums, contrasts, regions)
    tables = to_markdown(rows, means)
    results = {"effects": list(map(_as_json, rows)), "means": list(map(_as_json, means))}
    write_json({"name": options.model, "measure": options.measure, **results}, folder / "results.json")
    write_text(tables, folder / "results.md")
    write_figure(plot(rows), folder / "effects.svg")
    print(tables, end="")


if __name__ == "__main__":
    run(main, "run_items.py")
