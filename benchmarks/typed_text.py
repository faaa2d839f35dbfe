"""
Accuracy of parsers on text as people type it: copies of a treebank in lower case, without punctuation, in capitals.

    python benchmarks/typed_text.py en_ewt-dev.conllu --models rngt-en rngt-en-fast
    python benchmarks/typed_text.py tests/data/typed.conllu --styles "as it is" --errors

The parsers get the words of the copies (`--typed_copies` of `examples/run_parsing.py` makes the same). Each line has,
in percent:
  LAS (with subtypes) and UPOS of the words that are no punctuation
  F1 of the sentence starts in the running text of paragraphs (`# newpar`, `# newdoc`): of all, and of those inside one
  wrong UPOS among the words with a capital inside a sentence in the treebank, except for `I`: `Xxx`, then `XXX`
`--errors` lists the words, no punctuation, with a wrong head, relation or part of speech.
"""

import argparse
from collections.abc import Iterable, Iterator
from itertools import accumulate, islice

import torch
from measuring import table

from hf_structure import Parser
from hf_structure.structures.dependency_tree import DependencyTree
from hf_structure.text.conllu import by_paragraph, read_conllu
from hf_structure.text.normalization import keep_mask
from hf_structure.training.parsing.sentences import read_words
from hf_structure.training.parsing.typed_text import retype

STYLES = {"as it is": None, "lower case": "lower", "lower, no punctuation": "bare", "capitals": "upper"}
COLUMNS = ["LAS", "UPOS", "starts", "inner starts", "wrong Xxx", "wrong XXX"]


def typed(sentences: Iterable[dict], style: str | None) -> list[dict]:
    return [sentence if style is None else retype(sentence, style) for sentence in sentences]


def capitals(sentence: dict) -> list[str]:
    """The kind of each word inside a sentence: `Xxx`, `XXX` or neither."""
    kinds = []
    for number, word in enumerate(sentence["words"]):
        kind = ""
        if number and word != "I" and word[0].isupper():
            kind = "XXX" if len(word) > 1 and word.isupper() else "Xxx"
        kinds.append(kind)
    return kinds


def words_of(gold: list[dict], trees: list[DependencyTree]) -> Iterator[dict]:
    """What is right and what is predicted of each word that is no punctuation."""
    for sentence, tree in zip(gold, trees, strict=True):
        kept = keep_mask(sentence["words"], sentence["tags"], sentence["deprels"])
        kinds = sentence["capitals"]
        for number in (number for number, keep in enumerate(kept) if keep):
            yield {
                "sentence": sentence["words"],
                "number": number,
                "capitals": kinds[number],
                "right": (sentence["heads"][number], sentence["deprels"][number], sentence["upos"][number]),
                "found": (tree.heads[number], tree.labels[number], tree.columns["upos"][number]),
            }


def percent(values: Iterable[bool]) -> str:
    values = list(values)
    return f"{100 * sum(values) / len(values):.1f}" if values else "-"


def starts_f1(parser: Parser, paragraphs: list[list[dict]]) -> list[str]:
    """F1 of sentence starts: of all, and of those that do not begin a paragraph."""
    running = [[word for sentence in sentences for word in sentence["words"]] for sentences in paragraphs]
    both = right = found = 0
    for sentences, starts in zip(paragraphs, parser.sentence_starts(running), strict=True):
        gold = set(accumulate(len(sentence["words"]) for sentence in sentences[:-1]))
        predicted = {word for word, begins in enumerate(starts) if word and begins}
        both += len(gold & predicted)
        right += len(gold)
        found += len(predicted)
    counts = ((both + len(paragraphs), right + found + 2 * len(paragraphs)), (both, right + found))
    return [f"{200 * hits / every:.1f}" if every else "-" for hits, every in counts]


def typed_paragraphs(path: str, style: str | None) -> list[list[dict]]:
    """The sentences of each paragraph, in a style."""
    paragraphs = by_paragraph(read_conllu(path))
    return [
        typed([{"words": sentence.forms, "deprels": sentence.deprels} for sentence in paragraph], style)
        for paragraph in paragraphs
    ]


def describe(word: dict) -> str:
    """A wrong word in its sentence, with what is right and what was found."""
    words = list(word["sentence"])
    sides = []
    for head, deprel, upos in (word["right"], word["found"]):
        sides.append(f"{words[head - 1] if head else 'ROOT'} {deprel} {upos}")
    words[word["number"]] = f"[{words[word['number']]}]"
    return f"{' '.join(words)}: {', not '.join(sides)}"


def scores(words: list[dict]) -> tuple[list[str], list[str]]:
    """LAS and UPOS of words, and the wrong parts of speech among words with capitals."""
    right = [
        percent(word["right"][:2] == word["found"][:2] for word in words),
        percent(word["right"][2] == word["found"][2] for word in words),
    ]
    wrong = []
    for kind in ("Xxx", "XXX"):
        some = [word for word in words if word["capitals"] == kind]
        wrong.append(percent(word["right"][2] != word["found"][2] for word in some))
    return right, wrong


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("file", help="a treebank in CoNLL-U")
    arguments.add_argument("--models", nargs="+", default=["rngt-en", "rngt-en-fast"])
    arguments.add_argument("--styles", nargs="+", choices=STYLES, default=list(STYLES))
    arguments.add_argument("--limit", type=int, help="number of sentences for trees; all by default")
    arguments.add_argument("--errors", action="store_true", help="list the wrong words")
    arguments.add_argument("--threads", type=int, default=1)
    options = arguments.parse_args()
    torch.set_num_threads(options.threads)
    sentences = list(islice(read_words(options.file), options.limit))
    # Kinds of letters are those of the treebank, in copies too.
    sentences = [{**sentence, "capitals": capitals(sentence)} for sentence in sentences]
    for model in options.models:
        parser = Parser(model, structure="dependency")
        rows = []
        errors = []
        for name in options.styles:
            gold = typed(sentences, STYLES[name])
            trees = [parse.dependency for parse in parser([sentence["words"] for sentence in gold])]
            words = list(words_of(gold, trees))
            right, wrong = scores(words)
            rows.append([*right, *starts_f1(parser, typed_paragraphs(options.file, STYLES[name])), *wrong])
            errors += [f"{name}: {describe(word)}" for word in words if word["right"] != word["found"]]
        print(table(model, COLUMNS, options.styles, rows), flush=True)
        if options.errors:
            print(*errors, sep="\n", end="\n\n")


if __name__ == "__main__":
    main()
