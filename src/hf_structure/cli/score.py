"""`hf-structure score`."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Any, cast

from hf_structure.cli.common import (
    REPORTED,
    add_command,
    add_input_format,
    add_masking,
    add_model,
    add_options,
    add_output,
    add_scoring,
    check_inputs,
    described,
    number_cell,
    output_file,
    output_form,
    positives,
    print_table,
    refuse_options,
)
from hf_structure.cli.results import BadInputError, ask_for_lines, read_sentences, report, results_of
from hf_structure.cli.score_tables import add_table, check_table, layout_of, reader_of, write_table
from hf_structure.parsing.options import CORRECTIONS, DEFAULT_SCORER
from hf_structure.parsing.splitting import parts_of
from hf_structure.scoring.score_table import ScoreTable
from hf_structure.text.sentences import SentenceError, SourceSentence
from hf_structure.text.words import sentence_spans

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from hf_structure.scoring.scoring import SentenceScore

SUFFIX_FORMATS = {".tsv": "tsv", ".txt": "tsv", ".json": "json", ".jsonl": "json"}
Scores = tuple["SentenceScore | None", ...]  # of one sentence, by beam size


def add_score(commands: argparse._SubParsersAction) -> None:
    parser = add_command(commands, "score", "score sentences with a language model", run_score)
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        default=["-"],
        help="text, CoNLL-U, brackets, or tables of items; default: stdin",
    )
    add_model(parser, DEFAULT_SCORER)
    add_input_format(parser)
    choices = {"choices": ("line", "split"), "help": described("sentences", "split; line with --raw")}
    add_options(parser, "sentences", "line_breaks", sentences=choices)
    add_scoring(parser)
    add_masking(parser)
    parser.add_argument(
        "--beam_size",
        type=positives,
        default=[None],
        metavar="N",
        help="graphs that a model which reads graphs keeps for a sentence; with --table or --summary also several: "
        "1,20,100; default: 20",
    )
    parser.add_argument(
        "--correction",
        choices=CORRECTIONS,
        help="of causal models whose tokens begin with a space: count the space after a word, not the one before it",
    )
    parser.add_argument(
        "--entropy",
        action="store_true",
        help="with --table or --format json: the entropies, after each word, of the next token and of the structures",
    )
    parser.add_argument(
        "--eos",
        action=argparse.BooleanOptionalAction,
        help="score the end of sentences; default: of the models of this library, but not with --raw",
    )
    parser.add_argument(
        "--format", choices=["tsv", "json"], help="form of the output; default: from the suffix of --output, else tsv"
    )
    parser.add_argument(
        "--words", action="store_true", help="with --format tsv: a line for every word (json has them)"
    )
    parser.add_argument("--summary", action="store_true", help="the perplexities of the corpus instead of sentences")
    add_output(parser)
    add_options(parser, "skip_long", "skip_empty", skip_long=REPORTED)
    add_table(parser)


def run_score(options: argparse.Namespace) -> None:
    """
    Writes log-probabilities and perplexities of sentences, and surprisals of their words and tokens, as they are
    scored. Logarithms are natural ones: everything is in nats. Errors are printed after the other files.
    """
    options.format = output_form(options.format, None if options.table else options.output, SUFFIX_FORMATS, "tsv")
    _check_score(options)
    # Late: it imports torch, which takes seconds. Bad options are reported at once.
    from hf_structure.scoring.scoring import choose_beam, load_language_model, score

    trust = options.trust_remote_code
    model, tokenizer = load_language_model(options.model, device=options.device, trust_remote_code=trust)
    scorer = partial(cast(Any, score), model=model, tokenizer=tokenizer, **_settings(options))
    # A summary names the sizes, so the default of the model is filled in.
    sizes = [choose_beam(model, size) for size in options.beam_size] if options.summary else options.beam_size
    # Scoring nothing raises errors of options before a file is opened, and overwritten.
    scorer([], beam_size=sizes[0])
    if options.correction:
        print(f"hf-structure: surprisals have the correction {options.correction}", file=sys.stderr)
    table = _table(options, model, sizes) if options.table else None
    ask_for_lines(options.files)
    failures: list[BadInputError] = []
    read = reader_of(layout_of(options), table, partial(_read, options=options), options.input_format)
    process = partial(_score_chunk, scorer=scorer, beam_sizes=sizes)
    show = options.summary or options.output is not None
    pairs = results_of(options.files, read, process, (FIRST, MOST), show, failures)
    reason = "too long or empty" if options.skip_empty else "too long"
    report_failures = partial(report, failures=failures, reason=reason)
    if options.summary:
        _print_summary(pairs, sizes, options.format == "json", report_failures)
    elif table is not None:
        report_failures(write_table(pairs, table, options))
    else:
        with output_file(options.output) as file:
            report_failures(_write(pairs, options, file))


def _read(name: str, options: argparse.Namespace) -> Iterator[SourceSentence]:
    """Streams the sentences and empty lines of a file. Raw text is split into sentences by rule."""
    # By default not with `--raw`, which keeps the white space between sentences: splitting changes it.
    is_split = (options.sentences or ("line" if options.raw else "split")) == "split"
    line_breaks = "space" if options.input_format == "paragraphs" else options.line_breaks
    for source in read_sentences(name, options.input_format, skip_empty=False, line_breaks=line_breaks):
        spans = sentence_spans(source.text or "", line_breaks) if is_split and source.is_text else []
        yield from parts_of(source, spans) if spans else [source]


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the options of the command line that [`~hf_structure.score`] has by the same names."""
    names = ("raw", "eos", "masking", "word_tokenizer", "max_tokens")
    names += ("skip_long", "skip_empty", "correction", "entropy")
    return {name: getattr(options, name) for name in names}


def _score_chunk(
    items: Sequence[SourceSentence],
    scorer: Callable[..., list["SentenceScore | None"]],
    beam_sizes: Sequence[int | None],
) -> Iterator[tuple[Scores, SourceSentence]]:
    """
    Yields the scores of each sentence, one for each beam size, with its source. Raises `BadInputError` with the
    location of a sentence that cannot be scored, after the sentences before it.
    """
    sentences = [item.content for item in items]
    failure = None
    try:
        scores = [scorer(sentences, beam_size=size) for size in beam_sizes]
    except SentenceError as error:
        # Sentences are checked before any is computed, so no score of this chunk is computed twice.
        good = error.number - 1
        failure = BadInputError(f"{items[good].place}: {error.reason}")
        scores = [scorer(sentences[:good], beam_size=size) for size in beam_sizes]
    # Not strict: after a failure there are more items than scores.
    yield from zip(zip(*scores, strict=True), items, strict=False)
    if failure is not None:
        raise failure


def _check_score(options: argparse.Namespace) -> None:
    """Raises `ValueError` for bad options, before a model is loaded."""
    if options.format != "tsv":
        refuse_options(options, ["words"], "is for --format tsv: JSON has the words in any case")
    if options.summary and (options.words or options.output):
        raise ValueError("--summary is about the whole corpus, on stdout: it takes neither --words nor --output")
    _check_beam_sizes(options.beam_size, takes_several=options.summary or options.table)
    if options.entropy and not options.table and options.format != "json":
        raise ValueError("entropies are in tables and JSON: --table words, or --format json")
    # Also without a table: files of items are read by their columns.
    layout = layout_of(options)
    if options.table:
        _check_table(options, layout.has_regions)
    check_inputs(options.files, options.output)


def _check_table(options: argparse.Namespace, has_regions: bool) -> None:
    """Raises `ValueError` for options that exclude a table, and for a table that cannot be written."""
    if options.words or options.summary:
        raise ValueError("--table is a form of its own: it takes neither --words nor --summary")
    if options.table == "regions" and not has_regions:
        raise ValueError("where are the regions? Say it with --region_columns, --region_mark or --critical_column")
    check_table(options)


def _check_beam_sizes(sizes: Sequence[int | None], takes_several: object) -> None:
    """Raises `ValueError` for several sizes where the output has room for one, and for repeated sizes."""
    if len(sizes) > 1 and not takes_several:
        raise ValueError("several sizes of the beam are for --summary and --table")
    if len(set(sizes)) < len(sizes):
        raise ValueError("a size of the beam is given twice")


def _table(options: argparse.Namespace, model: "PreTrainedModel", beam_sizes: Sequence[int | None]) -> ScoreTable:
    from hf_structure.models.abilities import abilities_of

    return ScoreTable(
        rows=options.table,
        has_regions=layout_of(options).has_regions,
        model_words=options.model_words,
        beam_sizes=beam_sizes,
        has_structures=abilities_of(model.config).incremental,
        correction=options.correction,
        entropy=options.entropy,
    )


def _write(pairs: Iterator[tuple[Scores, SourceSentence]], options: argparse.Namespace, file: IO[str]) -> list[str]:
    """Writes scores as they come. Returns the locations of skipped sentences."""
    skipped = []
    form = "words" if options.words else options.format
    file.write(HEADERS[form])
    for number, ((scored,), item) in enumerate(pairs, start=1):
        if scored is None:
            skipped.append(item.place)
            continue
        file.writelines(WRITERS[form](number, scored))
        file.flush()
    return skipped


def _json_line(_: int, scored: "SentenceScore") -> Iterator[str]:
    yield json.dumps(scored.to_dict(), ensure_ascii=False) + "\n"


def _word_lines(sentence: int, scored: "SentenceScore") -> Iterator[str]:
    for word, (form, surprisal) in enumerate(zip(scored.words, scored.word_surprisals, strict=True), start=1):
        yield f"{sentence}\t{word}\t{surprisal:.4f}\t{' '.join(form.split())}\n"


def _sentence_line(sentence: int, scored: "SentenceScore") -> Iterator[str]:
    text = " ".join(scored.text.split())
    yield f"{sentence}\t{scored.log_prob:.4f}\t{scored.perplexity:.2f}\t{len(scored.tokens)}\t{text}\n"


def _print_summary(
    pairs: Iterator[tuple[Scores, SourceSentence]],
    beam_sizes: Sequence[int | None],
    as_json: bool,
    report_failures: Callable[[Sequence[str]], None],
) -> None:
    """Prints a line for each beam size. `falls` counts sentences that the previous size gives a higher probability."""
    from hf_structure.scoring.scoring import CorpusTotals, count_falls

    totals = [CorpusTotals() for _ in beam_sizes]
    falls = [0] * len(beam_sizes)
    skipped = []
    for scores, item in pairs:
        if scores[0] is None:
            skipped.append(item.place)
            continue
        # A sentence is skipped with all beam sizes or with none: its length does not depend on them.
        all_scores = cast(tuple["SentenceScore", ...], scores)
        for corpus, scored in zip(totals, all_scores, strict=True):
            corpus.add(scored)
        for index, (before, scored) in enumerate(pairwise(all_scores), start=1):
            falls[index] += count_falls([before.log_prob], [scored.log_prob])
    # Raises an error before anything is printed: figures of a part of a corpus would mislead.
    report_failures(skipped)
    # The first size has no previous one.
    rows = [
        {"beam_size": size, **corpus.scores(), "falls": count}
        for size, corpus, count in zip(beam_sizes, totals, [None, *falls[1:]], strict=True)
    ]
    if as_json:
        sys.stdout.writelines(json.dumps(row) + "\n" for row in rows)
    else:
        print_table([list(rows[0]), *(list(map(_cell, row.values())) for row in rows)])


def _cell(value: float | None) -> str:
    return number_cell(value, ".2f" if isinstance(value, float) else "")


# Sentences scored together. The first chunk is small, so that results begin soon.
FIRST = 64
MOST = 4096
HEADERS = {
    "json": "",
    "tsv": "sentence\tlog_prob\tperplexity\ttokens\ttext\n",
    "words": "sentence\tword\tsurprisal\tform\n",
}
WRITERS = {"json": _json_line, "tsv": _sentence_line, "words": _word_lines}
