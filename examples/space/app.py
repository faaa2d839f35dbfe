"""
Sentence structure in a browser: sentences in, their trees or graphs out, by all models of the package.

    pip install 'hf_structure[app]'
    python app.py

It needs no network. The folder is a Space as it is: see README.md beside this file.
"""

import gradio as gr
from analysis import DEFAULT, HEADER, MAX_TREES, MAX_WORDS, MODELS, WIDTHS, analyse, message_html

from hf_structure.drawing.style import dark_rules

EXAMPLES = [
    ["The old man walked slowly along the river.", "structformer-en", 1],
    ["What did the children who live next door say to you?", DEFAULT, 1],
    ["I saw her duck with a telescope.", DEFAULT, 3],
    ["It rained. Nobody left.", DEFAULT, 1],
    ["She gave her brother a book about birds, and he read it.", "gilt-en", 2],
]
CSS = f"""
.message {{ padding: 0.6em 1em; border-left: 4px solid #b34700; font-weight: 600; }}
.downloads a {{ margin-right: 0.5em; padding: 0.2em 0.8em; border: 1px solid; border-radius: 6px; }}
.picture {{ max-width: 100%; }}
.picture svg {{ max-width: 100% !important; height: auto; }}
{dark_rules(".dark ")}
"""
# The page adds its width to what is asked.
WITH_WIDTH = "(text, model, k) => [text, model, k, document.querySelector('.gradio-container').clientWidth - 80]"
# Fonts of the system: nothing is loaded from elsewhere.
THEME = gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])


def show(text: str, model: str, k: float, width: float) -> tuple:
    """Values of the page's parts: the message, the pictures, the table, the heat map, the downloads."""
    try:
        found = analyse(text, model, int(k), width)
    except ValueError as error:
        return message_html(str(error)), "", "", {"headers": HEADER, "data": []}, None, ""
    table = {"headers": found.header, "data": found.rows}
    return found.warnings, found.picture, found.others, table, found.heat_map, found.downloads


def build() -> gr.Blocks:
    """The page."""
    with gr.Blocks(title="Sentence structure", analytics_enabled=False) as page:
        gr.Markdown(
            "# Sentence structure\n"
            "Dependencies stand above the words, constituents hang under them. Numbers are probabilities below 0.95. "
            "Dashed arcs are put there by rule: the model did not see these words."
        )
        with gr.Row():
            sentence = gr.Textbox(label=f"English text (sentences of at most {MAX_WORDS} words)", lines=2, scale=3)
            model = gr.Dropdown(MODELS, value=DEFAULT, label="Model", scale=1)
            k = gr.Slider(1, MAX_TREES, value=1, step=1, label="How many structures", scale=1)
        width = gr.Number(WIDTHS[1], visible=False)
        button = gr.Button("Parse", variant="primary")
        message = gr.HTML()
        with gr.Tabs():
            with gr.Tab("Structure"):
                picture, downloads = gr.HTML(), gr.HTML()
            with gr.Tab("Best structures"):
                others = gr.HTML()
            with gr.Tab("Words"):
                table = gr.Dataframe(headers=HEADER, interactive=False, wrap=True)
            with gr.Tab("Probabilities"):
                heat_map = gr.Plot(show_label=False)
        choices = [sentence, model, k]
        gr.Examples(EXAMPLES, choices)
        outputs = [message, picture, others, table, heat_map, downloads]
        for event in (button.click, sentence.submit):
            event(show, [*choices, width], outputs, js=WITH_WIDTH, api_name=False)
    return page


if __name__ == "__main__":
    build().launch(theme=THEME, css=CSS, footer_links=["gradio", "settings"])
