"""
Sentence structure in a browser: sentences in, their trees or graphs out, by all models of the package.

    pip install 'hf_structure[app]'
    python app.py

It needs no network. The folder is a Space as it is: see README.md beside this file. `python app.py runs/mine` offers
your own model, too; with `--mcp`, agents can use the app as a server of the Model Context Protocol.
"""

import argparse
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import gradio as gr
from analysis import MAX_TREES, MAX_WORDS, MODELS, WIDTHS, analyse, message_html, parse_text, table_html
from packaging.requirements import Requirement

from hf_structure.drawing.style import dark_rules
from hf_structure.parsing.options import DEFAULT_PARSER as DEFAULT

OPENING = ["I saw her duck with a telescope.", DEFAULT, 3]
EXAMPLES = [
    OPENING,
    ["What did the children who live next door say to you?", DEFAULT, 1],
    ["It rained. Nobody left.", DEFAULT, 1],
    ["The old man walked slowly along the river.", "structformer-en", 1],
    ["She gave her brother a book about birds, and he read it.", "gilt-en", 2],
]
MULTILINGUAL = "rngt-multilingual"  # where it is installed, or given as a folder
IN_TEN_LANGUAGES = [
    "那里有很多孩子在放风筝。",
    "木の下でお茶を飲みました。",
    "เมื่อวานนี้ฉันไปเดินเล่นที่สวนสาธารณะกับเพื่อน",
    "הילדים שיחקו שם.",
    "Nous avons bu du thé à l'ombre d'un arbre.",
    "Gestern war ich mit einer Freundin im Park am Fluss.",
    "Ağacın altında çay içtik.",
    "Eilen kävin ystäväni kanssa pienessä puistossa.",
    "Εκεί έπαιζαν πολλά παιδιά.",
    "Chúng tôi ngồi uống trà.",
]
LEGEND = (
    "Dependencies stand above the words, constituents hang under them. Arcs show their probability if it is below "
    "0.95. The probabilities of the rngt models are calibrated: about 80% of arcs with 0.8 are right. Dashed arcs are "
    "put there by rule: the model did not see these words."
)
CSS = f"""
.message {{ padding: 0.6em 1em; border-left: 4px solid #b34700; font-weight: 600; }}
.downloads {{ display: flex; flex-wrap: wrap; gap: 0.5em; align-items: center; }}
.downloads a {{ padding: 0.2em 0.8em; border: 1px solid; border-radius: 6px; }}
.picture + p {{ margin-top: 1em; }}
.words {{ overflow-x: auto; }}
.words :is(table, thead, tbody, tr) {{ border: 0 !important; }}
.words table {{ border-collapse: collapse; white-space: nowrap; }}
.words :is(td, th) {{ padding: 0.3em 1em 0.3em 0 !important; border: solid #8884; border-width: 0 0 1px !important; }}
#parse {{ max-width: 20rem; }}
.picture {{ max-width: 100%; }}
.picture svg {{ max-width: 100% !important; height: auto; }}
{dark_rules(".dark ")}
"""
# The page adds the width of its results to what is asked.
WITH_WIDTH = "(text, model, k) => [text, model, k, document.querySelector('#results').clientWidth - 40]"
# Fonts of the system: nothing is loaded from elsewhere.
THEME = gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])


def show(text: str, model: str, k: float, width: float) -> tuple:
    """
    Values of the page's parts: the message, the pictures of structures, constituents and the k best, the table, the
    heat map, the downloads.
    """
    try:
        found = analyse(text, model, int(k), width)
    except ValueError as error:
        return message_html(str(error)), "", "", "", "", None, ""
    pictures = (found.picture, found.constituents, found.others)
    return found.warnings, *pictures, table_html(found.header, found.rows), found.heat_map, found.downloads


def examples_here() -> list[list[Any]]:
    """The examples, also those of other languages if there is a parser for them."""
    parsers = (name for name in MODELS if Path(name).name == MULTILINGUAL)
    return EXAMPLES + [[text, name, 1] for name in parsers for text in IN_TEN_LANGUAGES]


def parse(text: str, model: str = DEFAULT, k: int = 1) -> list[dict[str, Any]]:
    """
    Splits a text into sentences and parses each. The text is English unless the model knows other languages. Returns a
    list with an object for each sentence: its `words`, and those structures that the model predicts. `dependency` has,
    for each word, the number of its head (`heads`, from 1; 0 is the root), its relation (`labels`), the probability of
    its arc (`probabilities`) and further predictions such as parts of speech and lemmas (`columns`). `constituency`
    has `spans` and `labels`, `graph` has `arcs`. `alternatives` has the k best structures.

    Args:
        text: One or more sentences, at most 2,000 characters.
        model: Name of the parser, such as rngt-en.
        k: How many structures are returned for each sentence, from 1 to 5, best first.
    """
    try:
        return [each.to_dict() for each in parse_text(text, model, k)]
    except ValueError as error:
        raise gr.Error(str(error)) from error


def build() -> gr.Blocks:
    """The page."""
    with gr.Blocks(title="Sentence structure", analytics_enabled=False, fill_width=True) as page:
        gr.Markdown("# Sentence structure")
        with gr.Row():
            sentence = gr.Textbox(
                OPENING[0],
                label=f"Text (sentences of at most {MAX_WORDS} words)",
                lines=1,
                max_lines=6,
                scale=4,
                min_width=320,
            )
            model = gr.Dropdown([(Path(name).name, name) for name in MODELS], value=OPENING[1], label="Model", scale=1)
            k = gr.Slider(1, MAX_TREES, value=OPENING[2], step=1, label="Best structures", scale=1)
        choices = [sentence, model, k]
        width = gr.Number(WIDTHS[1], visible=False)
        button = gr.Button("Parse", variant="primary", elem_id="parse")
        message = gr.HTML(padding=False)
        with gr.Tabs(elem_id="results"):
            with gr.Tab("Structure"):
                picture = gr.HTML()
                downloads = gr.HTML()
            with gr.Tab("Constituents"):
                constituents = gr.HTML()
            with gr.Tab("Best structures"):
                others = gr.HTML()
            with gr.Tab("Words"):
                table = gr.HTML()
            with gr.Tab("Probabilities"):
                heat_map = gr.Plot(show_label=False)
        gr.Markdown(LEGEND)
        offered = examples_here()
        labels = [text for text, *_ in offered]
        examples = gr.Examples(offered, choices, example_labels=labels, examples_per_page=len(offered))
        outputs = [message, picture, constituents, others, table, heat_map, downloads]
        for event in (page.load, button.click, sentence.submit, examples.load_input_event.then):
            event(show, [*choices, width], outputs, js=WITH_WIDTH, api_visibility="private", concurrency_id="parse")
        gr.api(parse, concurrency_id="parse")
    return page


def missing_for_mcp() -> list[str]:
    """Requirements of gradio's MCP server that are not met here."""
    missing = []
    for requirement in map(Requirement, requires("gradio") or ()):
        is_for_mcp = requirement.marker and requirement.marker.evaluate({"extra": "mcp"})
        if is_for_mcp and not is_met(requirement):
            missing.append(f"{requirement.name}{requirement.specifier}")
    return missing


def is_met(requirement: Requirement) -> bool:
    """True if a package is installed in a version that is allowed."""
    try:
        return version(requirement.name) in requirement.specifier
    except PackageNotFoundError:
        return False


def main() -> None:
    """Serves the page."""
    parser = argparse.ArgumentParser(description="Shows the structure of sentences in a browser.")
    parser.add_argument("models", nargs="*", metavar="MODEL", help="offer this folder or model on the Hub, too")
    parser.add_argument("--mcp", action="store_true", help="serve agents by the Model Context Protocol, too")
    options = parser.parse_args()
    if options.mcp and (missing := missing_for_mcp()):
        sys.exit(
            f"--mcp: gradio's MCP server needs {' and '.join(missing)}. Install it in an environment of its own: "
            "pip install 'hf_structure[app]' 'gradio[mcp]'. Or use `hf-structure mcp`, which needs no gradio."
        )
    MODELS.extend(options.models)
    analyse(*OPENING)  # loads the model before the first visitor comes
    build().launch(theme=THEME, css=CSS, footer_links=["gradio", "settings"], mcp_server=options.mcp or None)


if __name__ == "__main__":
    main()
