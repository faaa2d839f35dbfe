"""
Scores a parser on the test parts of all treebanks in a folder: a table in Markdown, a row for each treebank.

    python examples/evaluate_treebanks.py ud --model runs/multilingual --output runs/multilingual/test.md

The files have the names of Universal Dependencies (`de_gsd-ud-test.conllu`, compressed or not). The parser reads the
words of each sentence but not the name of the treebank; with `--tell_treebank` it follows the treebank's style if it
was trained on it. With `--raw` a parser that finds words and sentences reads the running text of each file: its
sentences, joined by spaces, and paragraphs apart by empty lines. Other parsers, and `--word_tokenizer`, read the text
of each sentence. `--words` scores only tokens, words and sentences, without parsing:

    python examples/evaluate_treebanks.py ud --model model_cards/rngt-multilingual --words --tell_treebank \\
        --published benchmarks/udpipe-2.17.tsv --output words.md

`--published` names a table of the scores of another parser, which are put behind those of the same name:
`benchmarks/udpipe-2.17.tsv` (raw text) and `udpipe-2.17-words.tsv` (given words) are UDPipe 2's.

The table holds the scores of the CoNLL 2018 shared task, in per cent (relations without subtypes, universal features),
over all words, including punctuation; UPOS, features and lemmas if the parser predicts them. `train` is the number of
training sentences of treebanks whose training part is in the folder, too. The last row holds the means. The printed
speed includes reading and scoring. A sentence that is too long for the parser is scored as a chain, in which each word
depends on the one before it, without tags; the number of these sentences is printed.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise
from statistics import fmean
from typing import Any

from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.cli.common import add_model, add_options, positive, run_with_options
from hf_structure.corpora.ud_folders import find_treebanks, treebank_files, treebank_name
from hf_structure.metrics.conll18 import conll18_scores
from hf_structure.models.abilities import abilities_of
from hf_structure.parsing.loading import load_parser
from hf_structure.parsing.parse import parse
from hf_structure.parsing.raw_text import sentence_starts
from hf_structure.structures.parse import Parse
from hf_structure.structures.parses import Parses
from hf_structure.text.conllu import ConlluError, ConlluSentence, ConlluToken, read_conllu
from hf_structure.text.documents import read_columns
from hf_structure.text.files import new_file
from hf_structure.text.running import running_text, text_sentence
from hf_structure.text.sentences import clean_text
from hf_structure.text.words import numbered_blocks

SEGMENTATION = ("Tokens", "Sentences", "Words")
SCORES = {"UAS": None, "LAS": None, "UPOS": "upos", "UFeats": "feats", "Lemmas": "lemma"}  # and their columns


def text_of(sentence: ConlluSentence, path: str) -> str:
    """The text of a gold sentence. Raises `ConlluError` if there is none."""
    if "text" not in sentence.metadata:
        raise ConlluError("a sentence without '# text', which --raw reads", path, sentence.line)
    return sentence.metadata["text"]


def without_controls(sentence: ConlluSentence) -> ConlluSentence:
    """A gold sentence with spaces for control characters, as parsers read raw text."""
    return replace(sentence, tokens=[replace(token, form=clean_text(token.form)) for token in sentence.tokens])


def as_chain(sentence: ConlluSentence) -> ConlluSentence:
    """A gold sentence whose words depend each on the one before it, without tags."""
    number = len(sentence.words)
    chain = sentence.with_heads(range(number), ["root", *["dep"] * (number - 1)])
    for column in filter(None, SCORES.values()):
        chain = chain.with_column(column, ["_"] * number)
    return chain


def read_words(
    gold: Sequence[ConlluSentence], model: PreTrainedModel, treebank: str | None
) -> Iterator[ConlluSentence]:
    """Yields the sentences that a model finds in the running text of gold ones, as chains."""
    abilities: Any = abilities_of(model.config)
    text = running_text(list(map(text_sentence, gold)))
    [tokens] = abilities.read_texts(model, treebank, None)([text])
    for start, end in pairwise([*sentence_starts(tokens), len(tokens)]):
        lines: list[ConlluToken] = []
        last = 0
        for token in tokens[start:end]:
            first = last + 1
            last += len(token.words)
            if last > first:
                lines.append(ConlluToken(f"{first}-{last}", text[token.start : token.end]))
            lines += [ConlluToken(str(first + number), word) for number, word in enumerate(token.words)]
        yield as_chain(ConlluSentence(tokens=lines))


def parse_words(gold: Sequence[ConlluSentence], parser: Callable) -> list[ConlluSentence | None]:
    """The trees of the words of gold sentences; None for a sentence that is too long."""
    parses = parser(gold, skip_long=True)
    pairs = zip(gold, parses, strict=True)
    return [None if parsed is None else parsed.dependency.written_into(sentence) for sentence, parsed in pairs]


def parse_texts(
    gold: Sequence[ConlluSentence], parser: Callable, path: str, word_tokenizer: str | None
) -> list[ConlluSentence | None]:
    """The words and trees of the texts of gold sentences, each by itself; None for a sentence that is too long."""
    texts = [text_of(sentence, path) for sentence in gold]
    parses = parser(texts, sentences="line", word_tokenizer=word_tokenizer, skip_long=True)
    return [None if parsed is None else _sentences(parsed)[0] for parsed in parses]


def parse_running_text(gold: Sequence[ConlluSentence], parser: Callable) -> list[ConlluSentence]:
    """The sentences, words and trees that a parser finds in the running text of gold sentences."""
    [found] = parser([running_text(list(map(text_sentence, gold)))], sentences="model")
    return _sentences(found)


def _sentences(parsed: Parse | Parses) -> list[ConlluSentence]:
    return list(read_conllu(parsed.to_conllu().splitlines(keepends=True)))


def score(
    path: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, args: argparse.Namespace
) -> tuple[dict, int]:
    """Returns the scores on one file, and the number of its sentences that are too long for the model."""
    gold = list(islice(read_conllu(path), args.max_sentences))
    abilities = abilities_of(model.config)
    # A parser knows the treebanks of its training only; others are parsed in its default style.
    is_told = args.tell_treebank and treebank_name(path) in abilities.treebanks
    treebank = treebank_name(path) if is_told else None
    if args.words:
        return conll18_scores(list(read_words(gold, model, treebank)), gold), 0
    parser = partial(parse, model=model, tokenizer=tokenizer, treebank=treebank)
    found: Sequence[ConlluSentence | None]
    if not args.raw:
        found = parse_words(gold, parser)
    else:
        gold = list(map(without_controls, gold))
        if abilities.read_texts and not args.word_tokenizer:
            return conll18_scores(parse_running_text(gold, parser), gold), 0
        found = parse_texts(gold, parser, path, args.word_tokenizer)
    # Skipped sentences must count: leaving them out would reward parsers that read little.
    predicted = [each or as_chain(sentence) for sentence, each in zip(gold, found, strict=True)]
    return conll18_scores(predicted, gold), found.count(None)


def score_names(model: PreTrainedModel, raw: bool, words: bool) -> list[str]:
    """Scores of words, heads and the columns that the model predicts; segmentation is scored in raw text only."""
    if words:
        return list(SEGMENTATION)
    columns = {column.name for column in abilities_of(model.config).columns}
    names = [name for name, column in SCORES.items() if column is None or column in columns]
    return [*SEGMENTATION[1:], *names] if raw else names


def training_sizes(folder: str) -> dict[str, int]:
    """Numbers of training sentences of the treebanks in a folder."""
    files = find_treebanks(folder, "train")
    return {treebank_name(file): sum(1 for _ in numbered_blocks(file)) for file in files}


def make_table(
    scores: dict[str, dict], names: list[str], sizes: dict[str, int], published: dict[str, dict[str, float]]
) -> str:
    """Formats the scores of treebanks as a table in Markdown, with the means. Behind a score is the published one."""
    titles = []
    for name in names:
        titles += [name, *([f"{name} published"] if any(name in row for row in published.values()) else [])]
    rows: dict[str, list[float | None]] = {}
    for treebank, values in scores.items():
        own = {name: 100 * values[name].f1 for name in names}
        own |= {f"{name} published": value for name, value in published.get(treebank, {}).items()}
        rows[treebank] = [own.get(title) for title in titles]
    columns = ([value for value in column if value is not None] for column in zip(*rows.values(), strict=True))
    rows["mean"] = [fmean(column) if column else None for column in columns]
    lines = [["treebank", "train", *titles], ["---"] * (2 + len(titles))]
    for treebank, values in rows.items():
        size = f"{sizes[treebank]:,}" if treebank in sizes else ""
        lines.append([treebank, size, *("" if value is None else f"{value:.1f}" for value in values)])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def read_published(path: str | None) -> dict[str, dict[str, float]]:
    """The scores of treebanks in a table of tab-separated values."""
    rows = read_columns(path, ["treebank"]) if path else ()
    return {row.pop("treebank"): {name: float(value) for name, value in row.items()} for row in rows}


def evaluate(args: argparse.Namespace) -> None:
    files = treebank_files(args.folder, args.part)
    model, tokenizer = load_parser(args.model, None, args.device, args.dtype, None, args.trust_remote_code)
    scores = {}
    too_long = 0
    if args.words and abilities_of(model.config).read_texts is None:
        raise ValueError(f"--words: this {type(model).__name__} has no network that finds words in raw text")
    start = time.perf_counter()
    for file in tqdm(files, unit=" treebanks"):
        scores[treebank_name(file)], skipped = score(file, model, tokenizer, args)
        too_long += skipped
    seconds = time.perf_counter() - start
    words = sum(values["Words"].predicted for values in scores.values())
    names = score_names(model, args.raw, args.words)
    table = make_table(scores, names, training_sizes(args.folder), read_published(args.published))
    with new_file(args.output, overwrite=True) as output:
        output.write(table)
    print(f"{table}\n{words:,} words of {len(files)} treebanks, {words / seconds:,.0f} words a second")
    if too_long:
        print(f"sentences that are too long for this parser, scored as chains: {too_long:,}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="the folder of treebanks")
    add_model(parser)
    add_options(parser, "dtype", "word_tokenizer")
    parser.add_argument("--tell_treebank", action="store_true", help="parse each treebank in its own style")
    parser.add_argument("--raw", action="store_true", help="parse text, not words")
    parser.add_argument("--words", action="store_true", help="only find the words and sentences of the text")
    parser.add_argument("--part", choices=["test", "dev"], default="test", help="the part to score; default: test")
    parser.add_argument("--published", metavar="FILE", help="scores of another parser: columns treebank, Words, ...")
    parser.add_argument("--max_sentences", type=positive, metavar="N", help="read the first N sentences of a file")
    parser.add_argument("--output", required=True, metavar="FILE", help="file for the table")
    run_with_options(parser, evaluate, arguments)


if __name__ == "__main__":
    main()
