"""What the app shows of a sentence. Without gradio, so that it can be tested without a browser."""

import base64
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING

import hf_structure
from hf_structure.drawing.figures import plot_marginals
from hf_structure.drawing.html import picture, rank_title
from hf_structure.hub.locating import installed_models, short_names
from hf_structure.models.abilities import abilities_of
from hf_structure.parsing.loading import load_parser
from hf_structure.structures import DependencyGraph, DependencyTree, Parse
from hf_structure.text.sentences import SentenceError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODELS = [*short_names(), *installed_models()]
MAX_WORDS, MAX_CHARACTERS = 100, 2000  # of a sentence: the machine is shared
MAP_WORDS = 40  # of a heat map that can be read
MAX_TREES = 5
WIDTHS = (240, 900, 2000)  # of pictures, in pixels: least, usual, most
HEADER = ["", "word", "head", "relation", "probability"]
COLUMNS = {  # that some models give
    "label_probabilities": "relation's probability",
    "upos": "tag",
    "xpos": "fine tag",
    "lemma": "lemma",
    "feats": "features",
}
NO_CONSTITUENTS = "<p>This model gives no constituents.</p>"
MIME = {"svg": "image/svg+xml", "conllu": "text/plain", "tex": "application/x-tex", "mrg": "text/plain"}


@dataclass(frozen=True)
class Analysis:
    """
    Args:
        picture, constituents, others (`str`): HTML of the best structure of each sentence, of its constituents alone,
            and of the k best.
        header (`list[str]`): `HEADER`, and what else the model gives of words.
        rows (`list[list[str]]`): Of the `header`, one for each word, or for each arc of a graph. Words of several
            sentences are numbered `1.1`, `1.2`, ..., `2.1`.
        heat_map (`Figure`, *optional*): Probabilities of all heads of the first sentence, see [`heat_map`].
        downloads (`str`): HTML of links to files, which they hold.
        warnings (`str`): HTML of what the library warns of.
    """

    picture: str
    constituents: str
    others: str
    header: list[str]
    rows: list[list[str]]
    heat_map: "Figure | None"
    downloads: str
    warnings: str


def analyse(text: str, model: str, k: int, width: float = WIDTHS[1]) -> Analysis:
    """All that is shown of a text, in so many pixels. Raises `ValueError` with a message for the user."""
    least, _, most = WIDTHS
    width = min(max(width, least), most)
    with warnings.catch_warnings(record=True) as caught:  # requests are answered one after another
        warnings.simplefilter("always", UserWarning)
        parses = parse_text(text, model, k)
    columns = [name for name in COLUMNS if name in predictions(parses[0].dependency)]
    rows = []
    for number, parse in enumerate(parses, start=1):
        prefix = f"{number}." if len(parses) > 1 else ""
        rows += [[prefix + word, *cells] for word, *cells in table_rows(parse.graph or parse.dependency, columns)]
    return Analysis(
        "".join(picture(parse, width) for parse in parses),
        "".join(constituents_html(parse, width) for parse in parses) or NO_CONSTITUENTS,
        "".join(alternatives_html(parse, width) for parse in parses),
        HEADER + [COLUMNS[name] for name in columns],
        rows,
        heat_map(parses[0]),
        downloads_html(files_of(parses)),
        "".join(message_html(str(warning.message)) for warning in caught),
    )


def parse_text(text: str, model: str, k: int) -> list[Parse]:
    """
    The parse of each sentence. Raises `ValueError` for text that is empty or too long, and for a model or a number
    that is not offered.
    """
    if not text.strip():
        raise ValueError("There is no sentence yet: type one, or choose an example.")
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"This text has {len(text)} characters; at most {MAX_CHARACTERS} are parsed here.")
    if model not in MODELS:
        raise ValueError(f"There is no model {model!r} here, but {', '.join(MODELS)}.")
    if not 1 <= k <= MAX_TREES:
        raise ValueError(f"Between 1 and {MAX_TREES} structures can be shown, not {k}.")
    try:
        parser, _ = load_parser(model, None, None)
        abilities = abilities_of(parser.config)
        k = k if abilities.k_best else 1
        marginals = abilities.marginals
        return hf_structure.parse(text, model, sentences="auto", k=k, marginals=marginals, max_words=MAX_WORDS)
    except SentenceError as error:
        reason = error.reason.replace("of max_words", "that are parsed here")
        raise ValueError(f"This text cannot be parsed: {reason}.") from error


def heat_map(parse: Parse) -> "Figure | None":
    """Probabilities of all heads; None if the sentence is too long, or the model gives none."""
    if parse.marginals is None or len(parse.words) > MAP_WORDS:
        return None
    tree = parse.dependency
    words = (parse.graph or parse.dependency).words
    return plot_marginals(words, parse.marginals, tree.probabilities if tree else None)


def constituents_html(parse: Parse, width: float) -> str:
    """The constituents as a labelled tree with tags, and as brackets; empty if the model gives none."""
    tree = parse.constituency
    if tree is None:
        return ""
    words = parse.dependency
    tags = words and (words.texts("xpos") or words.texts("upos"))
    drawn = picture(replace(tree, tags=tree.tags or tags), width)
    return f"{drawn}<p><code>{escape(parse.to_brackets())}</code></p>"


def alternatives_html(parse: Parse, width: float) -> str:
    """The k best structures with their probabilities."""
    drawn = [
        f"<p>{rank_title(rank, each)}</p>{picture(each, width)}"
        for rank, each in enumerate(parse.alternatives, start=1)
    ]
    return "".join(drawn) or "<p>Ask for more than one structure to compare them.</p>"


def table_rows(structure: DependencyTree | DependencyGraph, columns: Sequence[str] = ()) -> list[list[str]]:
    """A row of `HEADER` and the `columns` for each word, or for each arc of a graph."""
    if isinstance(structure, DependencyGraph):
        arcs, numbers = structure.arcs, structure.probabilities
    else:
        arcs, numbers = [(head, word) for head, word, _ in structure.arcs()], structure.probabilities
    labels = structure.labels or [""] * len(arcs)
    known = predictions(structure)
    rows = []
    for (head, word), label, value in zip(arcs, labels, numbers or [None] * len(arcs), strict=True):
        name = f"{head} {structure.words[head - 1]}" if head else "root"
        more = [(known[column][word - 1] or "").removeprefix("_") for column in columns]
        rows.append([str(word), structure.words[word - 1], name, label, chance(value), *more])
    return sorted(rows, key=lambda row: int(row[0]))


def table_html(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that scrolls in narrow pages."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="words" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def predictions(structure: DependencyTree | DependencyGraph | None) -> Mapping[str, Sequence[str | None]]:
    """The model's further predictions for each word, by the names in `COLUMNS`; none for a graph."""
    if not isinstance(structure, DependencyTree):
        return {}
    if structure.label_probabilities is None:
        return structure.columns
    return {"label_probabilities": list(map(chance, structure.label_probabilities)), **structure.columns}


def chance(probability: float | None) -> str:
    """A probability as it is shown; words without one were attached by rule."""
    return "by rule" if probability is None else f"{probability:.3f}"


def files_of(parses: Sequence[Parse]) -> dict[str, str]:
    """Contents of the files that can be downloaded, by name; pictures have a file for each sentence."""
    files = {}
    for number, parse in enumerate(parses, start=1):
        name = "structure" if len(parses) == 1 else f"structure-{number}"
        files[f"{name}.svg"] = parse.to_svg()
        files[f"{name}.tex"] = parse.to_tikz(standalone=True)
    files["structure.conllu"] = "".join(parse.to_conllu({"text": " ".join(parse.words)}) for parse in parses)
    if parses[0].constituency:
        files["structure.mrg"] = "".join(f"{parse.to_brackets()}\n" for parse in parses)
    return files


def downloads_html(files: dict[str, str]) -> str:
    """Links that hold the files themselves: nothing is kept on the server."""
    links = []
    for name, content in files.items():
        kind = MIME[name.rpartition(".")[2]]
        data = base64.b64encode(content.encode()).decode()
        links.append(f'<a download="{name}" href="data:{kind};charset=utf-8;base64,{data}">{name}</a>')
    return f'<p class="downloads">Download: {" ".join(links)}</p>'


def message_html(message: str) -> str:
    """What is said to the user, read aloud where the page is."""
    return f'<p role="alert" class="message">{escape(message)}</p>' if message else ""
