"""
The documentation site shows the Markdown of the whole repository, as it is on GitHub.

MkDocs knows the files of `docs/` alone. `PAGES` says where the others stand in the site; links between all of them are
translated when a page is read. A link to a folder goes to its README. A file that is no page is copied to the site.
"""

import configparser
import json
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import hf_structure
from hf_structure.hub.bundled import bundled_models
from hf_structure.models.families import FAMILIES, Family
from hf_structure.version import __version__

ROOT = Path(__file__).parents[1]
CARDS = sorted([*ROOT.glob("src/hf_structure/checkpoints/*/README.md"), *ROOT.glob("model_cards/*/README.md")])
PAGES = {
    "README.md": "index.md",
    "AGENTS.md": "agents.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
    "examples/README.md": "examples.md",
    "examples/space/README.md": "space.md",
    "model_cards/README.md": "models/index.md",
    "src/hf_structure/.agents/skills/hf-structure/SKILL.md": "skill.md",
    **{card.relative_to(ROOT).as_posix(): f"models/{card.parent.name}.md" for card in CARDS},
}
SOURCES = {page: source for source, page in PAGES.items()}
CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
TYPE = re.compile(r"<code>[^<]*`[^<]*</code>")  # "`int`, *optional*", where mkdocstrings expects a type alone
REFERENCE = re.compile(r"\[<code>~?(?:\w+\.)*(\w+)</code>\]")  # [`~torch.nn.LSTM`], as transformers writes them


FAMILY_MARK = "<!-- families -->"  # where the reference of all families stands
GIVES = "| Family | Structures | Of each word | Decoders | k best | Marginals | Reads |\n|---|---|---|---|---|---|---|"
ON_GITHUB = re.compile("<!-- models -->.*<!-- end -->", re.DOTALL)  # the table of the bundled models takes its place
MODELS = "| Model | Gives | From a treebank | MB | Licence | Scores | Words a second |\n|---|---|---|---|---|---|---|"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The version, and the repository once setup.cfg has its address."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    config.site_name = f"{config.site_name} {__version__}"
    if url := setup["metadata"]["url"].rstrip("/"):
        config.repo_url = url
        config.repo_name = "/".join(url.split("/")[-2:])
    return config


def model_table() -> str:
    """A line for each bundled model, from its card."""
    rows = []
    for model in bundled_models():
        scores = ", ".join(f"{name} {value}" for name, value in model.scores.items())
        speed = "" if model.words_per_second is None else f"{model.words_per_second:,}"
        link = f"[{model.name}](../src/hf_structure/checkpoints/{model.name}/README.md)"
        trees = "yes" if model.needs_treebank else "no"
        cells = [link, ", ".join(model.gives), trees, f"{model.megabytes:.1f}", model.license]
        rows.append(f"| {' | '.join([*cells, f'{scores} ({model.data})', speed])} |")
    return "\n".join([MODELS, *rows])


def _public_path(family: Family, name: str) -> str:
    """The shortest path of a class: the package itself has configurations and main models."""
    public = name.rpartition(".")[2]
    return f"hf_structure.{public}" if public in hf_structure.__all__ else f"{family.package}.{name}"


def family_reference() -> str:
    """What the families give, by their default configurations, and the reference of their classes."""
    rows, sections = [], []
    for family in FAMILIES.values():
        module, _, _ = next(iter(family.classes)).rpartition(".")
        base = family.config_class.rpartition(".")[2].replace("Config", "PreTrainedModel")
        names = [_public_path(family, name) for name in (family.config_class, *family.classes, f"{module}.{base}")]
        title = family.title.partition(":")[0]
        sections.append(f"## {title}\n\n{family.title}.\n\n{family.citation}")
        sections += [f"::: {name}" for name in names]
        gives = family.load(family.config_class)().abilities
        columns = ", ".join(column.name.replace("_", " ") for column in gives.columns)
        cells = [title, ", ".join(gives.structures), columns, ", ".join(gives.decoders)]
        cells += ["yes" if value else "" for value in (gives.k_best, gives.marginals)]
        rows.append(f"| {' | '.join([*cells, gives.reads])} |")
    return "\n\n".join(["\n".join([GIVES, *rows]), *sections])


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages from outside `docs/`, and notebooks as pages."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        text = as_markdown(json.loads(Path(notebook.abs_src_path).read_text(encoding="utf-8")))
        page = notebook.src_uri.replace(".ipynb", ".md")
        PAGES[f"docs/{notebook.src_uri}"], SOURCES[page] = page, f"docs/{notebook.src_uri}"
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Translates the links of a page, but for what looks like one in code. Search lists the reference last."""
    if page.file.src_uri.startswith("reference/"):
        page.meta["search"] = {"boost": 0.2}
    source = SOURCES.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    if FAMILY_MARK in markdown:
        markdown = markdown.replace(FAMILY_MARK, family_reference())
    if ON_GITHUB.search(markdown):
        markdown = ON_GITHUB.sub(model_table(), markdown)

    def translated(link: re.Match) -> str:
        if "://" in link[1] or link[1].startswith("mailto:"):
            return link[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[1]))
        uri = site_place(target, config, files)
        return posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".") + (link[2] or "")

    pieces, end = [], 0
    for code in CODE.finditer(markdown):
        pieces += [LINK.sub(translated, markdown[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*pieces, LINK.sub(translated, markdown[end:])])


def on_page_content(html: str, **_: object) -> str:
    """Shows references and types of docstrings as code."""
    html = TYPE.sub(lambda code: code[0].replace("`", "").replace("*optional*", "optional"), html)
    return REFERENCE.sub(r"<code>\1</code>", html)


def site_place(target: str, config: MkDocsConfig, files: Files) -> str:
    """Where the site has a file or folder of the repository. What is nowhere stays as it is: MkDocs warns of it."""
    if target in PAGES:
        return PAGES[target]
    if (ROOT / target).is_dir():
        readme = posixpath.join(target, "README.md")
        return site_place(readme if readme in PAGES else posixpath.dirname(target), config, files)
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    if not (ROOT / target).is_file():
        return target
    if files.get_file_from_path(f"files/{target}") is None:
        files.append(File.generated(config, f"files/{target}", abs_src_path=str(ROOT / target)))
    return f"files/{target}"


def as_markdown(notebook: dict) -> str:
    """The cells of a notebook, and what they printed or drew."""
    return "\n\n".join(part for cell in notebook["cells"] for part in _cell(cell))


def _cell(cell: dict) -> list[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] != "code":
        return [text]
    return [f"```python\n{text}\n```", *filter(None, map(_output, cell["outputs"]))]


def _output(output: dict) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        return f'<img alt="" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">'
    for kind in ("image/svg+xml", "text/html"):
        if kind in data:  # without empty lines, which would end the element
            return re.sub(r"\n\s*\n", "\n", "".join(data[kind]))
    text = "".join(data.get("text/plain", output.get("text", "")))
    return f"```text\n{text.rstrip()}\n```" if text else ""
