"""
Scores a parser on the test parts of all treebanks in a folder: a table in Markdown, a row for each treebank.

    python examples/evaluate_treebanks.py ud --model runs/multilingual --output runs/multilingual/test.md

The files have the names of Universal Dependencies (`de_gsd-ud-test.conllu`, compressed or not). The parser reads the
words of each sentence but not the name of the treebank; with `--tell_treebank` it follows the treebank's style if it
was trained on it. With `--raw` it reads the text of each sentence, and splits it into words by its own rules or by
`--word_tokenizer`.

The table holds the scores of the CoNLL 2018 shared task, in per cent (relations without subtypes, universal features),
over all words, including punctuation; UPOS, features and lemmas if the parser predicts them. `train` is the number of
training sentences of treebanks whose training part is in the folder, too. The last row holds the means. The printed
speed includes reading and scoring. A sentence that is too long for the parser is scored as a chain, in which each word
depends on the one before it, without tags; the number of these sentences is printed.
"""

import argparse
import time
from itertools import islice

from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.cli.common import add_model, add_options, positive, run_with_options
from hf_structure.corpora.ud_folders import find_treebanks, treebank_files, treebank_name
from hf_structure.metrics.conll18 import conll18_scores
from hf_structure.models.abilities import abilities_of
from hf_structure.parsing.loading import load_parser
from hf_structure.parsing.parse import parse
from hf_structure.structures.parse import Parse
from hf_structure.text.conllu import ConlluError, ConlluSentence, read_conllu
from hf_structure.text.files import new_file
from hf_structure.text.words import numbered_blocks

SCORES = {"UAS": None, "LAS": None, "UPOS": "upos", "UFeats": "feats", "Lemmas": "lemma"}  # and their columns


def given_words(sentence: ConlluSentence, parsed: Parse) -> ConlluSentence:
    """A gold sentence with what was predicted of its words."""
    return parsed.dependency.written_into(sentence)


def read_text(sentence: ConlluSentence, parsed: Parse) -> ConlluSentence:
    """What was predicted of the text of a gold sentence."""
    [found] = read_conllu(parsed.to_conllu().splitlines(keepends=True))
    return found


def text_of(sentence: ConlluSentence, path: str) -> str:
    """The text of a gold sentence. Raises `ConlluError` if there is none."""
    if "text" not in sentence.metadata:
        raise ConlluError("a sentence without '# text', which --raw reads", path, sentence.line)
    return sentence.metadata["text"]


def as_chain(sentence: ConlluSentence) -> ConlluSentence:
    """A gold sentence whose words depend each on the one before it, without tags."""
    number = len(sentence.words)
    chain = sentence.with_heads(range(number), ["root", *["dep"] * (number - 1)])
    for column in filter(None, SCORES.values()):
        chain = chain.with_column(column, ["_"] * number)
    return chain


def score(
    path: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, args: argparse.Namespace
) -> tuple[dict, int]:
    """Returns the scores on one file, and the number of its sentences that are too long for the model."""
    gold = list(islice(read_conllu(path), args.max_sentences))
    treebank = treebank_name(path)
    # A parser knows the treebanks of its training only; others are parsed in its default style.
    if not (args.tell_treebank and treebank in abilities_of(model.config).treebanks):
        treebank = None
    inputs = [text_of(sentence, path) for sentence in gold] if args.raw else gold
    options = {"sentences": "line", "word_tokenizer": args.word_tokenizer} if args.raw else {}
    parses = parse(inputs, model, tokenizer=tokenizer, treebank=treebank, skip_long=True, **options)
    build = read_text if args.raw else given_words
    predicted = []
    for sentence, parsed in zip(gold, parses, strict=True):
        # Skipped sentences must count: leaving them out would reward parsers that read little.
        predicted.append(as_chain(sentence) if parsed is None else build(sentence, parsed))
    return conll18_scores(predicted, gold), sum(parsed is None for parsed in parses)


def score_names(model: PreTrainedModel, raw: bool) -> list[str]:
    """Scores of words, heads and the columns that the model predicts; segmentation is scored in raw text only."""
    columns = {column.name for column in abilities_of(model.config).columns}
    names = [name for name, column in SCORES.items() if column is None or column in columns]
    return ["Words", *names] if raw else names


def training_sizes(folder: str) -> dict[str, int]:
    """Numbers of training sentences of the treebanks in a folder."""
    files = find_treebanks(folder, "train")
    return {treebank_name(file): sum(1 for _ in numbered_blocks(file)) for file in files}


def make_table(scores: dict[str, dict], names: list[str], sizes: dict[str, int]) -> str:
    """Formats the scores of treebanks as a table in Markdown, with the means."""
    rows = {treebank: [100 * values[name].f1 for name in names] for treebank, values in scores.items()}
    rows["mean"] = [sum(column) / len(rows) for column in zip(*rows.values(), strict=True)]
    lines = [["treebank", "train", *names], ["---"] * (2 + len(names))]
    for treebank, values in rows.items():
        size = f"{sizes[treebank]:,}" if treebank in sizes else ""
        lines.append([treebank, size, *(f"{value:.1f}" for value in values)])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def evaluate(args: argparse.Namespace) -> None:
    files = treebank_files(args.folder, "test")
    model, tokenizer = load_parser(args.model, None, args.device, args.dtype, None, args.trust_remote_code)
    scores = {}
    too_long = 0
    start = time.perf_counter()
    for file in tqdm(files, unit=" treebanks"):
        scores[treebank_name(file)], skipped = score(file, model, tokenizer, args)
        too_long += skipped
    seconds = time.perf_counter() - start
    words = sum(values["Words"].predicted for values in scores.values())
    table = make_table(scores, score_names(model, args.raw), training_sizes(args.folder))
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
    parser.add_argument("--raw", action="store_true", help="parse the text of sentences, split into words by rule")
    parser.add_argument("--max_sentences", type=positive, metavar="N", help="read the first N sentences of a file")
    parser.add_argument("--output", required=True, metavar="FILE", help="file for the table")
    run_with_options(parser, evaluate, arguments)


if __name__ == "__main__":
    main()
