"""
Makes a training or test file from Universal Dependencies treebanks: some genres only, with or without punctuation.

The part of GUM that the checkpoint udgn-en was trained on (documents whose licence allows any use):

    python examples/prepare_ud.py en_gum-train.conllu --output gum-free.conllu \
        --genres academic bio conversation court interview news speech textbook vlog voyage

Words are written unchanged: the tokenizer applies lower case, digits and the vocabulary.
"""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from tqdm import tqdm

from hf_structure.cli.common import run_with_options
from hf_structure.cli.groups import genre_of
from hf_structure.metrics.attachment import universal_label
from hf_structure.text.conllu import ConlluSentence, ConlluToken, by_paragraph, raw_text, read_conllu
from hf_structure.text.files import new_file
from hf_structure.text.normalization import keep_mask


def with_genres(sentences: Iterable[ConlluSentence]) -> Iterator[tuple[ConlluSentence, str | None]]:
    """Yields sentences with the genre of their document, from the last `newdoc id`; None before the first."""
    genre = None
    for sentence in sentences:
        document = sentence.metadata.get("newdoc id")
        # A document continues until the next `newdoc id`.
        genre = genre if document is None else genre_of(document)
        yield sentence, genre


def select(sentences: Iterable[tuple[ConlluSentence, str | None]], args, genres: Counter) -> Iterator[ConlluSentence]:
    """Selects sentences by genre, optionally without punctuation, and counts the genres of all sentences."""
    for sentence, genre in sentences:
        genres[genre] += 1
        if (args.genres and genre not in args.genres) or genre in args.exclude_genres:
            continue
        if args.drop_punctuation:
            columns = sentence.to_sentence()
            sentence = sentence.keep_words(keep_mask(columns["words"], columns["tags"], columns["deprels"], args.by))
        if args.first_person:
            sentence = with_first_person(sentence)
        if sentence.tokens:
            yield sentence


def with_first_person(sentence: ConlluSentence) -> ConlluSentence:
    """Sets `Person=1` for `was` if its subject is `I`, whether it is the predicate, an auxiliary or the copula."""
    of_i = {
        word.head for word in sentence.words if word.form in ("I", "i") and universal_label(word.deprel) == "nsubj"
    }

    def is_mended(word: ConlluToken) -> bool:
        predicate = word.head if universal_label(word.deprel) in ("aux", "cop") else word.id
        return word.form.lower() == "was" and predicate in of_i

    feats = [word.feats.replace("Person=3", "Person=1") if is_mended(word) else word.feats for word in sentence.words]
    return sentence.with_column("feats", feats)


WRITERS = {
    "conllu": lambda sentences: map(str, sentences),
    "text": lambda sentences: (" ".join(sentence.forms) + "\n" for sentence in sentences),
    "raw": lambda sentences: (raw_text(paragraph) + "\n\n" for paragraph in by_paragraph(sentences)),
}


def prepare(args) -> None:
    if args.format == "raw" and args.drop_punctuation:
        raise ValueError("--format raw is the text as it is written: --drop_punctuation has no effect")
    genres = Counter()
    counts = Counter()
    # Genres do not run on from one file into the next.
    sentences = chain.from_iterable(with_genres(read_conllu(path)) for path in args.files)

    def chosen() -> Iterator[ConlluSentence]:
        for sentence in tqdm(select(sentences, args, genres), unit=" sentences"):
            counts.update(sentences=1, words=len(sentence.words))
            yield sentence

    with new_file(args.output, args.overwrite) as file:
        file.writelines(WRITERS[args.format](chosen()))
        if unknown := {*args.genres, *args.exclude_genres} - set(genres):
            there = ", ".join(sorted(filter(None, genres))) or "none: the files have no `newdoc id` comments"
            raise ValueError(f"no document of genre {', '.join(sorted(unknown))}; genres found: {there}")
        if not counts:
            raise ValueError("nothing is left to write")
    print(f"{args.output}: {counts['sentences']:,} sentences, {counts['words']:,} words")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="CoNLL-U files; their sentences follow each other in the output")
    parser.add_argument("--output", required=True, help="the file to write")
    parser.add_argument("--overwrite", action="store_true", help="replace the output file if it exists")
    parser.add_argument(
        "--format",
        choices=list(WRITERS),
        default="conllu",
        help="text: the words of a sentence a line; raw: text as it is written, with empty lines between paragraphs",
    )
    parser.add_argument("--genres", nargs="+", default=[], help="only documents of these genres (by `newdoc id`)")
    parser.add_argument("--exclude_genres", nargs="+", default=[], help="no documents of these genres")
    parser.add_argument("--drop_punctuation", action="store_true", help="leave punctuation out, re-attach dependents")
    first_help = "set Person=1 for `was` if its subject is `I`; EWT has Person=3 in two thirds of these cases"
    parser.add_argument("--first_person", action="store_true", help=first_help)
    by_help = "what tells punctuation: deprel `punct`, tags, word form, or (auto) the first of them that is annotated"
    parser.add_argument("--by", choices=["auto", "deprel", "tags", "form"], default="auto", help=by_help)
    run_with_options(parser, prepare, arguments)


if __name__ == "__main__":
    main()
