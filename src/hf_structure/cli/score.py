"""`hf-structure score`."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from hf_structure.cli.common import (
    Item,
    add_input_format,
    add_masking,
    add_model,
    add_scoring,
    check_files,
    output_file,
    positives,
    print_table,
    read_items,
)
from hf_structure.data.sentences import SentenceError
from hf_structure.pipelines.options import DEFAULT_SCORER

if TYPE_CHECKING:
    from hf_structure.pipelines.scoring import SentenceScore

Scorer = Callable[[int | None], list["SentenceScore"]]


def add_score(commands: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = commands.add_parser("score", help="score sentences with a language model", description=run_score.__doc__)
    parser.set_defaults(run=run_score)
    parser.add_argument(
        "files", nargs="*", metavar="FILE", default=["-"], help="text, CoNLL-U or brackets; default: stdin"
    )
    add_model(parser, DEFAULT_SCORER)
    add_input_format(parser)
    add_scoring(parser)
    add_masking(parser)
    parser.add_argument(
        "--beam_size",
        type=positives,
        default=[None],
        metavar="N",
        help="graphs of a sentence followed by a model that reads graphs; with --summary also several: 1,20,100; "
        "default: 20",
    )
    parser.add_argument(
        "--eos",
        action=argparse.BooleanOptionalAction,
        help="score the end of sentences; default: of the models of this library, but not with --raw",
    )
    parser.add_argument("--format", choices=["tsv", "json"], default="tsv", help="form of the output; default: tsv")
    parser.add_argument(
        "--words", action="store_true", help="with --format tsv: a line for every word (json has them)"
    )
    parser.add_argument("--summary", action="store_true", help="the perplexities of the corpus instead of sentences")
    parser.add_argument("--output", metavar="FILE", help="where to write; default: stdout")


def run_score(options: argparse.Namespace) -> None:
    """
    Writes log-probabilities and perplexities of sentences, one a line of text, and surprisals of their words and
    tokens. Logarithms are natural ones: everything is in nats.
    """
    _check_score(options)
    from hf_structure.pipelines.scoring import choose_beam, load_language_model, score

    items = list(read_items(options.files, options.input_format, skip_empty=False))
    trust = options.trust_remote_code
    model, tokenizer = load_language_model(options.model, device=options.device, trust_remote_code=trust)

    def scorer(beam_size: int | None) -> list["SentenceScore"]:
        try:
            return score(
                [item.words if item.text is None else item.text for item in items],
                model,
                tokenizer=tokenizer,
                beam_size=beam_size,
                raw=options.raw,
                eos=options.eos,
                masking=options.masking,
                word_tokenizer=options.word_tokenizer,
                max_tokens=options.max_tokens,
                progress=sys.stderr.isatty(),
            )
        except SentenceError as error:
            raise ValueError(f"{items[error.number - 1].place}: {error.reason}") from error

    if options.summary:
        _print_summary(scorer, [choose_beam(model, size) for size in options.beam_size], options.format == "json")
    else:
        scores = scorer(*options.beam_size)
        with output_file(options.output) as file:
            file.writelines(_lines(scores, items, options))


def _check_score(options: argparse.Namespace) -> None:
    """What can be known to be wrong before a model is loaded."""
    if options.words and options.format != "tsv":
        raise ValueError("--words is for --format tsv: JSON has the words in any case")
    if options.summary and (options.words or options.output):
        raise ValueError("--summary is about the whole corpus, on stdout: it takes neither --words nor --output")
    if len(options.beam_size) > 1 and not options.summary:
        raise ValueError("several sizes of the beam are for --summary")
    check_files(options.files, options.output)


def _lines(scores: Sequence["SentenceScore"], items: Sequence[Item], options: argparse.Namespace) -> Iterator[str]:
    if options.format == "json":
        yield from (json.dumps(scored.to_dict(), ensure_ascii=False) + "\n" for scored in scores)
    elif options.words:
        yield "sentence\tword\tsurprisal\tform\n"
        for sentence, scored in enumerate(scores, start=1):
            for word, (form, surprisal) in enumerate(zip(scored.words, scored.word_surprisals, strict=True), start=1):
                yield f"{sentence}\t{word}\t{surprisal:.4f}\t{' '.join(form.split())}\n"
    else:
        yield "sentence\tlog_prob\tperplexity\ttokens\ttext\n"
        for sentence, scored in enumerate(scores, start=1):
            text = " ".join(scored.text.split())
            yield f"{sentence}\t{scored.log_prob:.4f}\t{scored.perplexity:.2f}\t{len(scored.tokens)}\t{text}\n"


def _print_summary(scorer: Scorer, beam_sizes: Sequence[int | None], as_json: bool) -> None:
    """One line for each size of the beam; `falls`: sentences that the size before gives a higher probability."""
    from hf_structure.pipelines.scoring import corpus_scores, count_falls

    rows, before = [], None
    for beam_size in beam_sizes:
        scores = scorer(beam_size)
        log_probs = [scored.log_prob for scored in scores]
        falls = None if before is None else count_falls(before, log_probs)
        rows.append({"beam_size": beam_size, **corpus_scores(scores), "falls": falls})
        before = log_probs
    if as_json:
        sys.stdout.writelines(json.dumps(row) + "\n" for row in rows)
        return
    print_table([list(rows[0]), *(list(map(_cell, row.values())) for row in rows)])


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)
