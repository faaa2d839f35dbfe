"""Splits raw text in any language and script into sentences, at the sentence terminators of Unicode."""

from collections.abc import Iterator
from itertools import pairwise

import regex

from hf_structure.text.words import PARAGRAPH_ENDS, check_line_breaks

# Words before a full stop that seldom end a sentence: titles and references, which precede names and numbers.
_ABBREVIATIONS = (
    "abb|art|av|bl|ca|cca|cf|chap|doc|dott|dr|drs|eqs?|etc|figs?|hr|ing|jr|kap|mag|mgr|mr|mrs|ms|mt|nn|no|nr|núm|ob|pág"
    "|pp|prof|sig|sr|sra|sta|sto|str|st|tab|tel|tzv|vgl|vol|vs|акад|вул|гл|др|им|ім|напр|обл|проф|рис|см|св|стр|тел|ул"
)
# A semicolon ends questions in Greek. Unicode does not list it as a mark that ends sentences, nor its Greek twin.
_MARK = r"""
      (?P<mark>[\p{Sentence_Terminal}…]+ | (?<=\p{Greek})[;\u037E])
      (?:['"\p{Pe}\p{Pf}] | (?<![。！？｡])\p{Pi})*         # the mark that opens in Chinese closes in German
"""
_ENDS = {name: regex.compile(f"{end} | {_MARK}", regex.VERBOSE) for name, end in PARAGRAPH_ENDS.items()}
_SPACE = regex.compile(r"\s+")
_WIDE = regex.compile(r".*[。！？｡]")  # needs no white space after it, unless a closing mark follows
_GOES_ON = regex.compile(r"['\"\p{Pe}\p{Pf}\p{Po}\p{Pd}]")
# A capital letter, a letter of a script without capitals, or a digit, after optional opening marks. (In Unicode, the
# letters of Georgian are lower case.)
_BEGIN = regex.compile(r"""['"¿¡\p{Ps}\p{Pi}\p{Pf}\p{Pd}\s]*[\p{Lu}\p{Lt}\p{Lo}\p{Nd}\p{Georgian}]""")
_NO_END = regex.compile(
    rf".*(?<![\w.])(?:{_ABBREVIATIONS}|\p{{L}}\p{{M}}*|(?:\p{{L}}\.)+\p{{L}})", regex.IGNORECASE | regex.DOTALL
)


def script_sentence_spans(text: str, line_breaks: str = "end") -> list[tuple[int, int]]:
    """
    Start and end of each sentence of a text in any language. The rules use no language's words except for some titles
    and references.

    A sentence ends at a line break (with the `line_breaks` `"space"`, at an empty line), and at the marks that end
    sentences in Unicode (`.`, `!`, `?`, `؟`, `۔`, `।`, `。`, `።`, `։`, ...), `…`, and `;` after Greek letters, with
    any closing quotation marks and brackets. White space must follow, except after wide marks, and then a capital
    letter, a letter of a script without capitals, or a digit, after optional opening marks. No sentence ends at the
    full stop of a single letter, of letters with full stops, or of a word like `Dr.` and `ул.` Raises `ValueError`
    for other `line_breaks`.
    """
    check_line_breaks(line_breaks)
    spans = []
    for start, end in pairwise([0, *_ends(text, _ENDS[line_breaks]), len(text)]):
        content = text[start:end].strip()
        if content:
            start = text.index(content[0], start)
            spans.append((start, start + len(content)))
    return spans


def _ends(text: str, ends: regex.Pattern) -> Iterator[int]:
    """Yields the ends of all sentences but the last."""
    for match in ends.finditer(text):
        if match["mark"] is None or _is_end(text, match):
            yield match.end()


def _is_end(text: str, match: regex.Match) -> bool:
    """Returns True if a sentence ends after this mark and its closing quotes and brackets."""
    space = _SPACE.match(text, match.end())
    if space is None:
        return bool(_WIDE.fullmatch(match[0])) and not _GOES_ON.match(text, match.end())
    if not _BEGIN.match(text, space.end()):
        return False
    # No abbreviation is longer; to search the whole text at each full stop would take quadratic time.
    before = text[max(match.start() - 20, 0) : match.start()]
    return match["mark"] != "." or not _NO_END.fullmatch(before)
