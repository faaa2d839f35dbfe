"""
Parse a few sentences with the bundled models, print trees and graphs, and write a page with their pictures.

    python examples/demo.py --output demo.html
"""

import argparse
from pathlib import Path

import hf_structure
from hf_structure.cli.common import run_with_options
from hf_structure.drawing.html import render_html
from hf_structure.text.files import open_output

SENTENCES = [
    "The old man walked slowly along the river.",
    "She gave her brother a book about birds, and he read it.",
    "I saw her duck with a telescope.",
]
ONE_TREE = ("structformer-en",)  # its distances and heights define one tree: there is no second best


def demo(args: argparse.Namespace) -> None:
    """Prints the structures of each sentence, and writes the page: a sentence by all models, then the next."""
    parses = []
    for model in args.models:
        print(f"--- {model}\n")
        k = 1 if model in ONE_TREE else args.k
        found = hf_structure.parse(args.sentences, model=model, sentences="line", k=k)
        for parse in found:
            print(f"{' '.join(parse.words)}\n{parse}\n")
        parses.append(found)
    # The page compares models: pictures of one sentence stand together.
    by_sentence = [parse for each in zip(*parses, strict=True) for parse in each]
    title = f"Sentence structure, by {', '.join(args.models)}"
    with open_output(args.output) as file:
        file.write(render_html(by_sentence, title, args.models * len(args.sentences)))
    print(f"Pictures: {args.output}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("demo.html"), help="the page to write")
    parser.add_argument(
        "--models",
        nargs="+",
        default=["rngt-en", "gilt-en", "udgn-en", "structformer-en"],
        metavar="MODEL",
        help="short names, folders or Hub names; default: %(default)s",
    )
    parser.add_argument("-k", type=int, default=2, metavar="N", help="the N best structures; default: %(default)s")
    parser.add_argument("--sentences", nargs="+", default=SENTENCES, metavar="SENTENCE", help="what to parse instead")
    run_with_options(parser, demo, arguments)


if __name__ == "__main__":
    main()
