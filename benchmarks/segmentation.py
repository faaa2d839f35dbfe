"""
How well raw English is split into tokens, words and sentences, by the rules of this library and by other splitters.

    pip install udtools pysbd sentencex
    python benchmarks/segmentation.py en_ewt-ud-test.conllu --splitters rules pysbd sentencex

Splitters get the raw text of one paragraph (`# newpar`, `# newdoc`) at a time. A space stands between its sentences,
unless the treebank has none there. The rules of this library split all sentences into tokens. Each line has:
  F1 of tokens, words and sentences, as `udeval` of udtools computes it
  precision and recall of sentences
  precision and recall of the boundaries within paragraphs
  how many sentences of the treebank are split
"""

import argparse
import io
from bisect import bisect
from collections.abc import Callable, Iterable

from udtools import udeval

from hf_structure.text.conllu import ConlluSentence, ConlluToken, by_paragraph, raw_text, read_conllu
from hf_structure.text.words import split_sentences, tokenize


def pysbd() -> Callable[[str], list[str]]:
    from pysbd import Segmenter

    return Segmenter(language="en", clean=False).segment


def sentencex() -> Callable[[str], Iterable[str]]:
    from sentencex import segment

    return lambda text: segment("en", text)


SPLITTERS = {"rules": lambda: split_sentences, "pysbd": pysbd, "sentencex": sentencex}


def flat_tree(tokens: list[tuple[str, ...]]) -> ConlluSentence:
    """A sentence of some tokens and their words, with a tree that says nothing."""
    lines = []
    number = 0
    for words in tokens:
        if len(words) > 1:
            lines.append(ConlluToken(f"{number + 1}-{number + len(words)}", "".join(words)))
        for word in words:
            lines.append(
                ConlluToken(str(number + 1), word, head=str(min(number, 1)), deprel="dep" if number else "root")
            )
            number += 1
    return ConlluSentence(tokens=lines)


def scores(gold: list[ConlluSentence], predicted: list[ConlluSentence]) -> dict:
    sides = (io.StringIO("".join(map(str, side))) for side in (gold, predicted))
    return udeval.evaluate(*(udeval.load_conllu(side, "raw text", {}) for side in sides))


def ends(texts: Iterable[str]) -> list[int]:
    """Where each text ends in all of them together, without white space."""
    places = [0]
    for text in texts:
        places.append(places[-1] + len("".join(text.split())))
    return places[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("treebanks", nargs="+", help="CoNLL-U files with `# text`")
    parser.add_argument("--splitters", nargs="+", choices=SPLITTERS, default=["rules"], help="what splits sentences")
    options = parser.parse_args()
    for treebank in options.treebanks:
        gold = list(by_paragraph(read_conllu(treebank)))
        texts = [raw_text(paragraph) for paragraph in gold]
        sentences = [sentence for paragraph in gold for sentence in paragraph]
        print(f"{treebank}: {len(texts):,} paragraphs, {len(sentences):,} sentences")
        for name in options.splitters:
            split = SPLITTERS[name]()
            pieces = [piece for text in texts for piece in split(text) if piece.strip()]
            print(f"  {name:10}", report(texts, sentences, pieces))


def report(texts: list[str], sentences: list[ConlluSentence], pieces: list[str]) -> str:
    found = scores(sentences, [flat_tree(tokenize(piece)) for piece in pieces])
    f1 = " / ".join(f"{100 * found[what].f1:.2f}" for what in ("Tokens", "Words", "Sentences"))
    outer = set(ends(texts))
    gold_ends = ends(sentence.metadata["text"] for sentence in sentences)
    inner = set(gold_ends) - outer
    predicted = set(ends(pieces)) - outer
    right = len(inner & predicted)
    split = {bisect(gold_ends, place) for place in predicted - inner}
    return (
        f"tokens / words / sentences {f1}, sentences {100 * found['Sentences'].precision:.1f} / "
        f"{100 * found['Sentences'].recall:.1f}, inner boundaries {100 * right / max(1, len(predicted)):.1f} / "
        f"{100 * right / max(1, len(inner)):.1f}, {len(split)} of {len(sentences):,} sentences split"
    )


if __name__ == "__main__":
    main()
