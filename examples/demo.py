"""
Parse a few sentences with the bundled model, print the trees, and write a page with their pictures.

    python examples/demo.py --output demo.html
"""

import argparse
from pathlib import Path

import hf_structure
from hf_structure.visualization.html import render_html

SENTENCES = [
    "The old man walked slowly along the river.",
    "She gave her brother a book about birds, and he read it.",
    "What did the children who live next door say to you?",
]


def demo(sentences: list[str], model: str, output: Path) -> None:
    """Prints the tree of each sentence and writes the page."""
    parses = hf_structure.parse(sentences, model=model)
    for parse in parses:
        print(f"{' '.join(parse.words)}\n{parse}\n")
    output.write_text(render_html(parses, title="Dependency trees found without a treebank"), encoding="utf-8")
    print(f"Pictures: {output}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("demo.html"), help="the page to write")
    parser.add_argument("--model", default="udgn-en", help="short name, folder or Hub name of a model")
    parser.add_argument("sentences", nargs="*", default=SENTENCES, help="sentences to parse instead")
    options = parser.parse_args(arguments)
    try:
        demo(options.sentences, options.model, options.output)
    except (OSError, ValueError) as error:
        parser.exit(1, f"{parser.prog}: error: {error}\n")


if __name__ == "__main__":
    main()
