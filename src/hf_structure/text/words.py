"""Plain text: numbered lines with clear errors, sentences of space-separated words, and the splitting of raw text.

`tokenize_words` is a small rule set in the style of the English Universal Dependencies. `unicode_words` is independent
of the language, and `split_sentences` nearly so. Any callable of the same signature can replace them.
"""

import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import lru_cache
from itertools import chain, pairwise
from typing import IO

import regex

from hf_structure.text.files import DataError, check_encoding, open_input, open_output

PathOrFile = str | os.PathLike | IO | Iterable[str] | Iterable[bytes]
Token = str | tuple[str, ...]  # a word, or the words of a token


def source_name(path_or_file: PathOrFile) -> str:
    """Name of an input in error messages: its path, a file's `name`, or `<input>`."""
    if isinstance(path_or_file, (str, os.PathLike)):
        return os.fspath(path_or_file)
    return str(getattr(path_or_file, "name", "<input>"))


def numbered_lines(
    path_or_file: PathOrFile, error: type[DataError] = DataError, allow_nul: bool = False
) -> Iterator[tuple[int, str]]:
    r"""
    Streams `(number, line)` of a UTF-8 file; lines end at `\n` only, which is removed (a `\r` before it stays).

    Args:
        path_or_file (`str`, `os.PathLike`, file or iterable of lines):
            A path (`.gz`, `.xz` and `.bz2` are decompressed), an open binary or text file, or any iterable of lines.
            Byte order marks at the beginning of any line are skipped, because concatenated files hold several.
        error (`type[DataError]`): The error to raise.
        allow_nul (`bool`): Lets single NUL characters through, which raw text may hold by mistake.

    Raises:
        OSError: the file does not exist or cannot be opened.
        DataError: a line is not valid UTF-8, or holds a NUL character; the file begins as a binary one; a compressed
            file is cut off or damaged.
    """
    name = source_name(path_or_file)
    is_path = isinstance(path_or_file, (str, os.PathLike))
    with open_input(path_or_file) if is_path else nullcontext(path_or_file) as lines:
        for number, line in enumerate(lines, start=1):
            if isinstance(line, bytes):
                if number == 1:
                    check_encoding(line, name, number, error)
                try:
                    line = line.decode("utf-8")
                except UnicodeDecodeError as problem:
                    byte = f"0x{line[problem.start]:02x}"
                    raise error(f"not UTF-8 text: byte {byte} at position {problem.start + 1}", name, number) from None
            if "\0" in line and not allow_nul:
                raise error("a NUL character: this is a binary file, or UTF-16, not UTF-8 text", name, number)
            yield number, line.removeprefix("\ufeff").removesuffix("\n")


def numbered_blocks(path_or_file: PathOrFile, error: type[DataError] = DataError) -> Iterator[list[tuple[int, str]]]:
    """Streams the lines of [`numbered_lines`] in blocks separated by blank lines. Raises the same errors."""
    block = []
    for numbered in numbered_lines(path_or_file, error):
        if numbered[1].strip():
            block.append(numbered)
        elif block:
            yield block
            block = []
    if block:
        yield block


def read_text(path_or_file: PathOrFile) -> Iterator[list[str]]:
    """
    Streams the sentences of a plain text file: one sentence a line, words separated by white space. Empty lines are
    skipped. Raises the errors of [`numbered_lines`].
    """
    for _, line in numbered_lines(path_or_file):
        if words := line.split():
            yield words


def write_blocks(blocks: Iterable[str], path_or_file: str | os.PathLike | IO) -> int:
    """
    Writes strings one by one, in UTF-8, to a path (see [`~hf_structure.text.files.open_output`]; an existing file is
    replaced) or an open text or binary file. Returns their number.
    """
    is_path = isinstance(path_or_file, (str, os.PathLike))
    count = 0
    with open_output(path_or_file) if is_path else nullcontext(path_or_file) as file:
        write: Callable[..., int] = file.write
        # Not `isinstance(file, TextIOBase)`: temporary text files are none.
        is_text = hasattr(file, "encoding")
        for block in blocks:
            write(block if is_text else block.encode("utf-8"))
            count += 1
    return count


# Prefixes that treebanks do not split from their word, and abbreviations that keep their full stop; references keep it
# before numbers only.
_PREFIXES = (
    "ante|anti|auto|bi|bio|co|counter|cross|cyber|de|e|ex|extra|inter|intra|macro|mega|micro|mid|mini|mis|multi|neo|non"
    "|over|para|post|pre|pro|pseudo|re|semi|socio|sub|super|tri|u|ultra|un|uni|vice"
)
_ABBREVIATIONS = (
    r"Adm|al|approx|Apr|Attn|Aug|Ave|Blvd|Bros|Capt|cf|Cmdr|Co|Col|Corp|Dec|Dept|Dr|Drs|Ed|esp|est|etc|ext|Feb|Fri|Ft"
    r"|Gen|Gov|Hon|Inc|Jan|Jr|lbs|Ltd|Lt|Maj|Messrs|Mon|Mr|Mrs|Ms|Mt|Nov|Oct|Ph(?:\.D)?|Pres|Prof|Rd|Reps?"
    r"|Rev|Sen|Sept?|Sgt|Sr|Ste?|Thurs?|Tues?|Univ|vol|vs|Wed"
    r"|(?:ca|Chap|Chs?|Eqs?|Fax|Figs?|Nos?|Para|pp|Sect?s?|Tel|Vols?)(?=\.\s*\(?\+?[a-z]?\d)"
)
_UNITS = "am|pm|a\\.m|p\\.m|[cmk]?m|mi|ft|in|[mk]?g|lbs?|oz|[kmg]b|hz|mph|min|mins|hrs?|yrs?|bn|x|k"
_DOMAINS = (
    "com|org|net|edu|gov|info|mil|biz|co|uk|ca|de|fr|html?|pdf|docx?|xlsx?|jpe?g|png|gif|txt|zip|exe|mp3"
    "|csv|tsv|json|ya?ml|xml|toml|ini|log|py|ipynb|js|css|sql|cpp"
)
_SPACE = r"\s\x1c-\x1f"  # str.isspace accepts the last four too
_ADDRESS = rf"""[^{_SPACE}<>"()]*[^{_SPACE}<>"().,;:!?'\]]"""
_LAST = rf"""['"’”)\]{_SPACE}]*\Z"""  # a full stop here ends the sentence and is a word, after `etc` too
_EMOTICON = (
    r"[:;=][-o^']?(?:[()\[\]|\\*]+|[DPpOo]\b) | \([-^]?[:;] | </?3+ | \^_+\^ | >[._]< | -_+-(?![\w-]) | ¯\\_\(ツ\)_/¯"
)
TOKEN = regex.compile(
    rf"""
      (?P<plain> [^\W\d_]+(?=[{_SPACE},;!?]|\.?\Z) | [,.](?=[{_SPACE}]|\Z) )  # what the others would take, only faster
    | (?P<url> (?:https?://|ftp://|www\.|mailto:){_ADDRESS} )
    | (?P<name> (?:[\w.+-]{{1,64}}@|@(?=[^\W\d_]))\w+(?:[.-]\w+)*  # me@x.org, Rice@ENRON, @reader
        | \#[^\W\d_]\w+                                            # #topic
        | \b[a-z]{{1,3}}&[a-z]{{1,2}}\b                              # AT&T, P&L
        | \bc(?:\+\+|\#)(?!\w) | &(?:amp|lt|gt|quot|nbsp);          # C++, C#; of HTML
        | (?<![^{_SPACE}])(?:~?(?:/[\w+-]+(?:\.[\w+-]+)*){{2,}}/? | [a-z]:(?:\\[\w+-]+(?:\.[\w+-]+)*)+) )  # /usr/bin
    | (?P<file> (?:[\w#~-]{{0,64}}\.){{1,9}}(?:{_DOMAINS})\b(?:/{_ADDRESS})?  # x.org, ld2d-#69366-1.DOC
        | [a-z]{{1,64}}(?:\.[a-z][a-z-]{{0,63}}){{2,9}}\b(?!\.) )             # comp.mail.maps
    | (?P<emoticon> {_EMOTICON} )
    | (?P<abbreviation> \b(?:[a-z]\.){{2,}} | \b[a-z]\.[a-z]\b      # U.S., p.m
        | \b(?=[a-z]{{2,6}}\.)(?:{_ABBREVIATIONS})\.(?![^\W\d_]|{_LAST})
        | \b[A-Z]\.(?=[{_SPACE},;]) | \b[a-z]/\w+\b | \bw/(?!\w) )  # J. Doe; w/o
    | (?P<number> (?:\d-)?(?:\d{{3}}[-./])?\d{{3}}[-.]\d{{4}}\b       # 713-853-1411
        | \b(?:x?\d|\d{{5}})-\d{{4}}\b                                # x3-9890, the post code 77030-2707
        | \+(?<![\w)]\+)\d+(?:-\d+)*\b                              # +44
        | ['’]?\b\d\d(?:\d0)?['’]s\b                                # 60's, 1960's
        | \d+(?=(?:,\d+)+\]) | (?<=[$£€])\d+(?=b\b)               # [13, of [13,14]; 4 of $4b
        | \bv\d+(?:\.\d+)+\b                                      # v1.2
        | \d+(?:[.,:/]\d+)+ | \.\d+\b | \d+(?=(?:{_UNITS})\b) )     # 1,200; .5; 5 of 5pm
    | (?P<cutoff> (?<![^{_SPACE}])[^\W\d_]{{1,3}}-(?=[{_SPACE}]|\Z) ) # th- that
    | (?P<word> (?<!\w)__[^\W_]+(?:_+[^\W_]+)*__(?!\w)               # __init__
        | (?:\b(?:{_PREFIXES})-)?[^\W_]+(?:_+[^\W_]+)*(?:['’][^\W\d_]+)* )
    | (?P<clitic> ['’`](?:[smdn]|re|ve|ll)\b | (?<=s)['’](?=[{_SPACE}]+\w) )
    | (?P<elision> ['’](?:em|til|cause|\d\ds?)\b )
    | (?P<run> ''|``|[<>=!]=+>?|<?[-=]+>|<-+|\.?[!?]+|(?P<same>[^\w{_SPACE}'"()]|_)(?P=same)+ )
    | (?P<sign> (?![{_SPACE}])\X )
    """,
    regex.VERBOSE | regex.IGNORECASE,  # its \w, unlike re's, has combining marks, such as many vowels of Hindi
)
_CLUSTER = regex.compile(r"\X")
CLITIC = r"n['’]t|['’](?:[smd]|re|ve|ll)"
_CLITIC = re.compile(rf"(.+?)({CLITIC})", re.IGNORECASE)
_NEGATED = "ai|do|does|did|is|was|are|were|wo|ca|could|would|should|have|has|had"
RUN_TOGETHER = (
    rf"can(?=not)|(?:gon|wan)(?=na)|(?:got|out)(?=ta)|(?:{_NEGATED})(?=nt)|i(?=m|ve)|(?:you|they)(?=re|ve)|we(?=ve)"
    "|(?:you|it|they)(?=ll)|(?:that|there|here|what|how|who|where|he|else)(?=s)",
    "not|na|ta|nt|m|ve|re|ll|s",
)
_RUN_TOGETHER = re.compile("({})({})".format(*RUN_TOGETHER), re.IGNORECASE)
# Elided words of French, Catalan, Italian, Irish, Maltese and others, which are words by themselves; but `t'i` and
# `m'u` (Albanian), `c'hoar` (Breton) and `O'Neil` are one word.
_VOWEL = "aeiouyæœàáâäèéêëìíîïòóôöùúûü"
_ELIDED = rf"""\b(?: (?:[djlmnstv] | (?:jus|lors|puis|quoi)?qu | (?:a|co|da|de|ne|su)ll | (?:ness|ciasc)?un | quest
        | quell | bell | sant | com | dov | cos | anch | tutt | tant | quant | qual | mezz | gliel | dev | vent | trent
        | (?:quar|cinqu|sess|sett|ott|nov)ant)['’](?=[{_VOWEL}h\d"“«])(?<![mt]['’](?=[iu]a?\b))
    | c['’](?=[{_VOWEL}]) | [bfx]['’](?=\p{{L}}) | [dm]['’](?=fh) | mb['’](?=\p{{L}}) | po['’] )"""
# Enclitics of Welsh (`mae'r`) and German (`geht's`).
_ENCLITIC = r"""(?<=[aeiouwyâêîôûŵŷ])['’](?:r|ch|th|w)\b | (?<=[iwy]|\bmae)['’]n\b
    | (?<=\b(?:[aoâ]|efo|fe|gyda|na|wedi))['’][iu]\b
    | (?<=\b(?:geht|gibt|hat|ist|wird|war|wär|wie|wenn|ob|ich|du|er|wir|ihr|mir|dir|sich|für|auf|durch))['’]s\b"""
_WORD = regex.compile(rf"{_ELIDED} | {_ENCLITIC} | (?s:.+?)(?={_ENCLITIC}|\b)", regex.WORD | regex.I | regex.VERBOSE)
_LINE_BREAK = r"\n\v\f\r\x85\u2028\u2029"  # characters, two of them on Windows
# White space that ends a sentence: any line break, or an empty line, that is, two line breaks of the same kind.
PARAGRAPH_ENDS = {"end": rf"[{_LINE_BREAK}]", "space": rf"(?P<break>[{_LINE_BREAK}])\s*(?P=break)"}
_PARAGRAPH_ENDS = {name: re.compile(pattern) for name, pattern in PARAGRAPH_ENDS.items()}
EMPTY_LINE = _PARAGRAPH_ENDS["space"]
_CONTENT = re.compile(r"\S(?:.*\S)?", re.DOTALL)
_CLOSING = r"""['"\p{Pe}\p{Pi}\p{Pf}]*"""
_CITATION = rf"(?:(?:[^\S{_LINE_BREAK}]*\[\d+\])+(?!\S))?"  # `[17]` belongs to the sentence before it
_CHUNK = re.compile(rf"\S+{_CITATION}")  # no sentence ends inside, except at the marks of _NO_SPACE
_RULER = re.compile(r"([-_=*~])\1{4,}(?!\S)")  # a sentence of its own
_ITEM = regex.compile(r"\d+(?:\.\d+)*\.")  # the number of a list's item, which begins its sentence
_NO_END = regex.compile(
    rf"""['"“‘„«(\[]*(?!etc|[ap]\.m)(?:{_ABBREVIATIONS}|\p{{L}}\p{{M}}*|(?:\p{{L}}\.)+\p{{L}})\.{_CLOSING}\s""",
    regex.IGNORECASE,
)
_END = regex.compile(rf".*?[\p{{Sentence_Terminal}}…]+{_CLOSING}{_CITATION}|(?x:{_EMOTICON})", regex.DOTALL)
_BEGIN = regex.compile(r"""['"¿¡\p{Ps}\p{Pi}\p{Pf}]*[\p{Lu}\p{Lt}\p{Lo}\p{Nd}]|[-$*#@(]""")
# Frequent short words that are no abbreviations
_SHORT = (
    "ago|all|are|be|bye|day|did|do|for|fun|go|had|has|her|him|his|in|is|it|job|lol|lot|me|no|now|off|oh|ok|on|one"
    "|out|pls|say|see|so|thx|to|too|two|u|up|us|was|way|wow|yes|yet|you"
)
# Marks that end a sentence even before lower case
_LOWER = regex.compile(rf"(?<=\p{{L}}{{4}}\.|(?<![\w.'’-])(?i:{_SHORT})\.|[!?])\s+\p{{Ll}}")
# Marks that need no white space after them: wide ones, except before closing quotation marks and other marks, and
# `...` before a capital letter.
_NO_SPACE = regex.compile(
    r"""[。！？｡](?=[^'"\p{Sentence_Terminal}\p{Pe}\p{Pf}\p{Po}…])|(?<=\p{L})(?:\.{2,}|…)(?=\p{Lu})"""
)


def tokenize_words(text: str) -> list[str]:
    """
    Splits raw English into words in the style of the Universal Dependencies' English Web Treebank. Joined, they are
    the text without its white space.

    Kept whole: URLs, e-mail addresses and other names with `@`, file names and paths, `#topics`, emoticons,
    abbreviations with their full stop (`U.S.`, `Dr.`, `w/o`) or with `&` (`AT&T`), references before a number
    (`Fig. 2`), numbers, dates, versions and phone numbers, decades (`60's`), words with a prefix (`non-profit`) or
    with underscores (`__init__`), words cut off (`th-`), runs of one sign (`...`, `--`), comparisons and arrows
    (`>=`, `->`).
    Split: clitics (`do n't`, `it 's`, also `can not`, `gon na`, `did nt`), other hyphens and slashes (`well - known`,
    `and / or`), currency and per cent signs, numbers from units (`5 pm`), the full stop of an abbreviation that ends
    the text (`etc .`), every other sign.
    Never split: grapheme clusters, which readers see as one character (a letter with its accents, an emoji with its
    colour, several joined into one).
    """
    return list(chain.from_iterable(tokenize(text)))


def tokenize(text: str) -> list[tuple[str, ...]]:
    """
    Splits raw English into tokens, each a tuple of the words of [`tokenize_words`]. Most tokens are one word. A token
    of several is a multiword token of the Universal Dependencies: a word with its clitics (`("do", "n't")`,
    `("states", "'")`) or words run together (`("can", "not")`). Joined, the words are the token.
    """
    tokens = []
    end = -1
    starts = _cluster_starts(text)
    for match in TOKEN.finditer(text):
        words = _split_clitics(match[0]) if match.lastgroup in ("plain", "word") else (match[0],)
        if match.start() == end:
            if end not in starts:  # inside a grapheme cluster
                *before, last = tokens.pop()
                words = (*before, last + words[0], *words[1:])
            elif match.lastgroup == "clitic":
                words = (*tokens.pop(), *words)
        tokens.append(words)
        end = match.end()
    return tokens


def words_of_tokens(tokens: Iterable[Token]) -> tuple[list[str], list[tuple[int, int]]]:
    """Returns the words of tokens, and the first and last word, from 1, of each token of several words."""
    words: list[str] = []
    multiword_tokens = []
    for token in tokens:
        first = len(words) + 1
        words += [token] if isinstance(token, str) else token
        if first < len(words):
            multiword_tokens.append((first, len(words)))
    return words, multiword_tokens


def _cluster_starts(text: str) -> Container[int]:
    """Start offsets of the grapheme clusters of a text."""
    return range(len(text)) if text.isascii() else {match.start() for match in _CLUSTER.finditer(text)}


@lru_cache(maxsize=1 << 16)
def _split_clitics(word: str) -> tuple[str, ...]:
    """`wouldn't've` -> `would n't 've`, `cannot` -> `can not`."""
    clitics = []
    while len(clitics) < 3 and (match := _CLITIC.fullmatch(word)):
        word = match[1]
        clitics.append(match[2])
    match = _RUN_TOGETHER.fullmatch(word)
    return (*(match.groups() if match else [word]), *reversed(clitics))


def find_words(text: str, words: Sequence[str]) -> list[tuple[int, int]] | None:
    """Start and end of each word in a text; None if the text is not these words with white space between them."""
    spans = []
    end = 0
    for word in words:
        start = text.find(word, end)
        if start < 0 or text[end:start].strip():
            return None
        end = start + len(word)
        spans.append((start, end))
    return None if text[end:].strip() else spans


def unicode_words(text: str) -> list[str]:
    """
    Splits raw text of any language into words at Unicode's word boundaries (UAX 29), with its rule for Hebrew's
    quotation mark inside a word. White space is dropped; every sign is a word. Languages written without spaces would
    need a dictionary: here, every Chinese character is a word.

    Apostrophes split words on lists: elided words of French, Catalan, Italian, Irish and Maltese (`l' homme`,
    `dell' isola`), and enclitics of Welsh and German (`mae 'r`, `geht 's`).
    """
    return list(chain.from_iterable(map(_WORD.findall, text.split())))


def split_sentences(text: str, line_breaks: str = "end") -> list[str]:
    """
    Splits raw text into sentences, stripped of white space at their ends. By default every line break ends a sentence,
    including form feeds and Unicode's; with `line_breaks="space"`, for text with hard-wrapped lines, only an empty
    line does. Sentences also end at the marks that end sentences in Unicode (`.`, `!`, `?`, `؟`, `۔`, `।`, `。`, ...),
    at `…`, both with any closing quotation marks, brackets and citations (`[17]`), and at emoticons. White space must
    follow, and then a possible beginning: a capital letter, a letter of a script without capitals, a digit (after
    optional opening marks), or one of `-$*#@(`. Before lower case, `!` and `?` end a sentence, and so does a full stop
    after four letters or more, or after a short English word such as `it`. `。`, `！` and `？` need no white space
    unless a closing mark follows, nor does `...` before a capital letter.

    A full stop does not end a sentence after English abbreviations, single letters and letters with full stops (`Dr.`,
    `J.`, `U.S.`, but not `etc.`, `a.m.` and `p.m.`), nor after a number that begins it (`2. Methods`). A run of five
    signs or more (`-----`) is a sentence of its own. Raises `ValueError` for other `line_breaks`.
    """
    return [text[start:end] for start, end in sentence_spans(text, line_breaks)]


def check_line_breaks(line_breaks: object) -> None:
    """Raises `ValueError` for an unknown value of `line_breaks`."""
    if line_breaks not in PARAGRAPH_ENDS:
        raise ValueError(f'line_breaks must be "end" or "space", not {line_breaks!r}')


def paragraph_spans(text: str, line_breaks: str = "end") -> list[tuple[int, int]]:
    """
    Start and end of each line without white space around it, or, with `line_breaks="space"`, of each paragraph between
    empty lines. Raises `ValueError` for other `line_breaks`.
    """
    check_line_breaks(line_breaks)
    ends = [match.span() for match in _PARAGRAPH_ENDS[line_breaks].finditer(text)]
    bounds = pairwise([0, *chain.from_iterable(ends), len(text)])
    found = (_CONTENT.search(text, start, end) for start, end in bounds)
    return [match.span() for match in found if match]


def sentence_spans(text: str, line_breaks: str = "end") -> list[tuple[int, int]]:
    """Start and end of each sentence that [`split_sentences`] finds. Raises the same error."""
    check_line_breaks(line_breaks)
    paragraph_end = _PARAGRAPH_ENDS[line_breaks]
    chunks = [span for chunk in _CHUNK.finditer(text) for span in _parts(text, *chunk.span())]
    starts = [start for start, _ in chunks[:1]]
    ends = []
    for chunk, following in pairwise(chunks):
        is_first = chunk[0] == starts[-1]
        if paragraph_end.search(text, chunk[1], following[0]) or _is_boundary(text, chunk, following, is_first):
            ends.append(chunk[1])
            starts.append(following[0])
    return list(zip(starts, [*ends, *(end for _, end in chunks[-1:])], strict=True))


def _parts(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Splits a chunk at marks that need no white space after them."""
    chunk = text[start:end]
    # Most chunks are plain words, and spared the search.
    for match in () if chunk.isascii() and ".." not in chunk else _NO_SPACE.finditer(text, start, end):
        yield start, match.end()
        start = match.end()
    yield start, end


def _is_boundary(text: str, chunk: tuple[int, int], following: tuple[int, int], is_first: bool) -> bool:
    """Returns True if a sentence ends between two chunks; `is_first` if the former begins its sentence."""
    start, end = chunk
    begin = following[0]
    if end == begin or _RULER.match(text, start) or _RULER.match(text, begin):
        return True
    if text[end - 1].isalpha():  # most words: decided before the slow patterns run
        return False
    if _NO_END.match(text, start) or (is_first and _ITEM.fullmatch(text, *chunk)):
        return False
    return bool(_LOWER.match(text, end) or (_BEGIN.match(text, begin) and _END.fullmatch(text, *chunk)))


# Functions that split raw sentences into words, by the name that a checkpoint's tokenizer may store.
WORD_TOKENIZERS = {"english": tokenize_words, "spaces": str.split, "unicode": unicode_words}
TOKENIZERS: dict[str, Callable[[str], Sequence[Token]]] = {**WORD_TOKENIZERS, "english": tokenize}
