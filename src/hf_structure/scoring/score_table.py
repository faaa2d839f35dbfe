"""Tables of scores, with a word or a region in each row."""

import math
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hf_structure.corpora.items import ItemLayout, ItemSentence, read_item_rows
from hf_structure.parsing.options import DEFAULT_SCORER
from hf_structure.text.sentences import read_batch
from hf_structure.text.user_warnings import warn_user

if TYPE_CHECKING:
    from pathlib import Path

    import pandas
    from transformers import PreTrainedModel

    from hf_structure.scoring.scoring import SentenceScore

ROWS = ("words", "regions")  # units with a row each
_ID_COLUMNS = {"words": "word_id", "regions": "region_id"}
_TEXTS = {"words": "word", "regions": "text"}
# Values of a scored word, some of them optional.
_NAMES = ("pieces", "tokens", "unknown", "surprisal", "surprisal_bits", "entropy", "entropy_reduction")
_NAMES += ("structure_entropy", "structure_entropy_reduction")
_LOADING = ("tokenizer", "device", "revision", "trust_remote_code")  # options of `score` for loading the model
Span = tuple[int, int]


@dataclass(frozen=True)
class ScoreTable:
    """The layout of a table; makes its rows."""

    rows: str = "words"  # units with a row each
    has_regions: bool = False  # sentences have regions
    model_words: bool = False  # words are the model's; otherwise they are separated by white space
    beam_sizes: Sequence[int | None] = (None,)  # if several, columns get a suffix: `surprisal_beam_20`
    has_structures: bool = False  # the model searches over structures
    correction: str | None = None  # of the surprisals
    entropy: bool = False  # scores have entropies

    def __post_init__(self):
        if self.rows not in ROWS:
            raise ValueError(f"rows must be one of {', '.join(ROWS)}, not {self.rows!r}")
        if self.rows == "regions" and not self.has_regions:
            raise ValueError("there are no regions: say where they are")

    def columns(self) -> list[str]:
        """Names of the table's own columns, without the items' columns."""
        names = ["sentence_id", _ID_COLUMNS[self.rows]]
        names += ["region"] * self.has_regions
        names += [_TEXTS[self.rows], "start", "end", "pieces", "tokens", "unknown"]
        names += ["correction"] * (self.correction is not None)
        return names + [name + self._suffix(size) for size in self.beam_sizes for name in self._values()]

    def _values(self) -> list[str]:
        names = ["surprisal", "surprisal_bits"]
        if self.entropy:
            names += ["entropy", "entropy_reduction"]
            names += ["structure_entropy", "structure_entropy_reduction"] * self.has_structures
        return names

    def _suffix(self, size: int | None) -> str:
        return f"_beam_{size}" if len(self.beam_sizes) > 1 else ""

    def check(self, names: Iterable[str], location: str) -> None:
        """Raises `ValueError` if a column of the items, read at this `location`, has the name of one of the table."""
        if twice := set(names) & set(self.columns()):
            raise ValueError(f"{location}: the table has a column {min(twice)!r} of its own: rename that of the items")

    def rows_of(
        self, number: int, item: ItemSentence, scores: Sequence["SentenceScore | None"]
    ) -> Iterator[dict[str, Any]]:
        """
        Yields the rows of a sentence with this number. Its scores are one for each beam, None if it was skipped.
        Values that are not scored are None.

        Raises `ValueError` if words of the model do not match the sentence, or a word crosses the end of a region.
        """
        parts = self._parts(item, scores[0])
        values = [list(self._values_of(item, [span for _, span in parts], scored)) for scored in scores]
        for index, (region, (start, end)) in enumerate(parts, start=1):
            row = {**item.columns, "sentence_id": number, _ID_COLUMNS[self.rows]: index}
            if self.has_regions:
                row["region"] = region
            row |= {_TEXTS[self.rows]: item.text[start:end], "start": start, "end": end}
            # Pieces and counts do not depend on the beam.
            row |= {name: values[0][index - 1][name] for name in ("pieces", "tokens", "unknown")}
            if self.correction is not None:
                row["correction"] = self.correction
            for size, found in zip(self.beam_sizes, values, strict=True):
                row |= {name + self._suffix(size): found[index - 1][name] for name in self._values()}
            yield row

    def _parts(self, item: ItemSentence, scored: "SentenceScore | None") -> list[tuple[str | None, Span]]:
        """Words or regions of a sentence: the name of the region, and start and end in the text."""
        if self.rows == "regions":
            return [(region.name, (region.start, region.end)) for region in item.regions]
        spans = item.word_spans()
        if self.model_words and scored is not None:
            spans = _spans(scored)
        return [(_region_name(item, *span), span) for span in spans]

    def _values_of(
        self, item: ItemSentence, spans: Sequence[Span], scored: "SentenceScore | None"
    ) -> Iterator[dict[str, Any]]:
        """Combines, for each of several spans of a sentence, the values of the model's words that begin in it."""
        for words in self._words_in(item, spans, scored):
            if scored is None or not words:
                yield dict.fromkeys(_NAMES) | {"tokens": 0}
            else:
                yield _sums(scored, words)

    def _words_in(self, item: ItemSentence, spans: Sequence[Span], scored: "SentenceScore | None") -> list[list[int]]:
        """Returns the model's words that begin in each span, numbered from 0."""
        members = [[] for _ in spans]
        starts = [start for start, _ in spans]
        for word, span in enumerate(() if scored is None else _spans(scored)):
            if self.rows == "regions":
                # Called for its error: a word must not cross the end of a region.
                _region_name(item, *span)
            if (part := bisect_right(starts, span[0]) - 1) >= 0 and span[0] < spans[part][1]:
                members[part].append(word)
        return members


def _spans(scored: "SentenceScore") -> list[Span]:
    if scored.word_spans is None:
        raise ValueError(f"the words {' '.join(scored.words)!r} are no parts of the text {scored.text!r}")
    return scored.word_spans


def _region_name(item: ItemSentence, start: int, end: int) -> str | None:
    """The region of a word; None if it is in no region."""
    region = next((region for region in item.regions if region.start <= start < region.end), None)
    if region is not None and end > region.end:
        raise ValueError(f"the word {item.text[start:end]!r} reaches over the end of region {region.name!r}")
    return None if region is None else region.name


def _sums(scored: "SentenceScore", words: Sequence[int]) -> dict[str, Any]:
    """Combines the values of consecutive words of a sentence, numbered from 0."""
    tokens = [position for position, word in enumerate(scored.word_ids) if word - 1 in words]
    surprisal = math.fsum(scored.token_surprisals[position] for position in tokens)
    found = {
        "pieces": " ".join(scored.tokens[position] for position in tokens),
        "tokens": len(tokens),
        "unknown": int(any(scored.unknown[word] for word in words)),
        "surprisal": surprisal,
        "surprisal_bits": surprisal / math.log(2),
    }
    # Entropies are stored before the first word and after each word: `word + 1` is after the word.
    entropies = {"entropy": scored.entropies, "structure_entropy": scored.structure_entropies}
    for name, values in entropies.items():
        if values is not None:
            found[name] = values[words[-1] + 1]
            found[f"{name}_reduction"] = values[words[0]] - values[words[-1] + 1]
    return found


class AlikeSentences:
    """Finds sentences of an item that differ for a reader, but not for the model."""

    def __init__(self):
        self._seen: dict[tuple, dict[str, str]] = {}

    def add(self, number: int, item: ItemSentence, scored: "SentenceScore | None") -> None:
        """Adds a sentence with its number and score."""
        if scored is not None and "item" in item.columns:
            # Sentences of an item with equal tokens are the same sentence for the model.
            texts = self._seen.setdefault((item.columns["item"], *scored.tokens), {})
            texts.setdefault(item.text, str(item.columns.get("condition", f"sentence {number}")))

    def message(self) -> str | None:
        """Warning for users; None if no sentences were found."""
        found = {item: texts.values() for (item, *_), texts in self._seen.items() if len(texts) > 1}
        if not found:
            return None
        item, conditions = next(iter(found.items()))
        return (
            f"conditions of {len(found)} items are the same to this model, which does not see what differs (commas, "
            f"unknown words, capital letters): of item {item} {' and '.join(conditions)}"
        )


def score_table(
    items: Any,
    model: "str | Path | PreTrainedModel" = DEFAULT_SCORER,
    *,
    rows: str = "words",
    sentence: str = "sentence",
    regions: Sequence[str] = (),
    region_mark: str | None = None,
    critical: str | None = None,
    model_words: bool = False,
    beam_size: int | Sequence[int] | None = None,
    **options: Any,
) -> "pandas.DataFrame":
    """
    Scores sentences like [`score`], and returns a data frame with a word in each row.

    Args:
        items (data frame, `str`, `Path`, or iterable):
            A data frame or a `.csv` or `.tsv` file with a sentence in each row; or an iterable of such rows as
            dictionaries, or of sentences.
        model (`str`, `Path` or `PreTrainedModel`, defaults to `"gilt-en"`): See [`score`].
        rows (`"words"` or `"regions"`): Units with a row each; the surprisals of a region's words are added up.
        sentence (`str`): The column of the sentences.
        regions (`Sequence[str]`): Columns with the regions of sentences, which are joined with single spaces.
        region_mark (`str`, *optional*): Separator between the regions of a sentence, say `"/"`.
        critical (`str`, *optional*):
            A column with the number of the critical word, from 1: the region of a word is its distance from there.
        model_words (`bool`):
            If True, words are the model's (`ca` and `n't` for `can't`). By default words are separated by white space,
            with punctuation attached, and a word's surprisal is the sum of its parts'.
        beam_size (`int` or `Sequence[int]`, *optional*):
            See [`score`]; several sizes have columns of their own: `surprisal_beam_1`, `surprisal_beam_20`.
        options: Other options of [`score`], such as `correction` and `entropy`.

    Returns:
        `pandas.DataFrame`: The columns of the items, and

        - `sentence_id`, `word_id`: numbers from 1. `word`: as spelled in the sentence. `start`, `end`: its offsets.
          With `rows="regions"`: `region_id`, `text`.
        - `region`: its name.
        - `pieces`, `tokens`: the scored tokens, and their number.
        - `unknown`: 1 if one of them is the unknown token, else 0.
        - `surprisal`, `surprisal_bits`: the sum of its tokens' in nats and in bits. Missing, never 0, for words that
          are not scored: words of skipped sentences, and punctuation that a model does not read.
        - `correction`: its name, if there is one.
        - `entropy`, `structure_entropy`: after the word, with `entropy=True`. `entropy_reduction`: before the word
          minus after it.

    Raises:
        ImportError: pandas is not installed.
        ValueError: see [`score`]; also an unknown column, a column with a name of the table's own, a word that crosses
            the end of a region.
    """
    try:
        import pandas
    except ImportError as error:
        raise ImportError("a data frame needs pandas: pip install 'hf_structure[tables]'") from error
    from hf_structure.models.abilities import abilities_of
    from hf_structure.scoring.scoring import load_language_model, score

    layout = ItemLayout(sentence, regions, region_mark, critical)
    sizes = _beam_sizes(beam_size)
    loading = {name: options.pop(name) for name in _LOADING if name in options}
    model, tokenizer = load_language_model(model, **loading)
    table = ScoreTable(
        rows,
        layout.has_regions,
        model_words,
        sizes,
        abilities_of(model.config).incremental,
        options.get("correction"),
        options.get("entropy", False),
    )
    found = list(_read(items, layout, table))
    sentences = [item.sentence for item in found]
    scores = [score(sentences, model, tokenizer=tokenizer, beam_size=size, **options) for size in sizes]
    made = _make_rows(table, found, scores)
    names = dict.fromkeys(name for item in found for name in item.columns)
    frame = pandas.DataFrame(made, columns=[*names, *table.columns()])
    # Nullable: sentences that were skipped have no value, which would make the column one of floats.
    return frame.astype({"unknown": "Int64"})


def _beam_sizes(beam_size: int | Sequence[int] | None) -> list[int | None]:
    if beam_size is None or isinstance(beam_size, int):
        return [beam_size]
    if not beam_size:
        raise ValueError("beam_size is an empty list: give one size or several")
    return list(beam_size)


def _make_rows(
    table: ScoreTable, items: Sequence[ItemSentence], scores: Sequence[Sequence["SentenceScore | None"]]
) -> list[dict[str, Any]]:
    """Makes the rows of all sentences, with the scores of each beam, and warns of sentences that a model confuses."""
    rows = []
    alike = AlikeSentences()
    for number, (item, *scored) in enumerate(zip(items, *scores, strict=True), start=1):
        rows += table.rows_of(number, item, scored)
        alike.add(number, item, scored[0])
    if message := alike.message():
        warn_user(message)
    return rows


def _read(items: Any, layout: ItemLayout, table: ScoreTable) -> Iterator[ItemSentence]:
    if hasattr(items, "columns"):
        items = items.to_dict("records")
    if isinstance(items, str | os.PathLike):
        rows: Iterable = read_item_rows(items)
    else:
        rows = ((f"row {number}", row) for number, row in enumerate(read_batch(items), start=1))
    for location, row in rows:
        if isinstance(row, Mapping):
            table.check(row, location)
            yield layout.read(row, location)
        elif isinstance(row, str):
            yield ItemSentence(row)
        else:
            yield ItemSentence(" ".join(row), words=list(row))
