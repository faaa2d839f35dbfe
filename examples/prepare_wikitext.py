"""
Makes sentences of words in the style of the English Universal Dependencies from a word-level WikiText file.

    python examples/prepare_wikitext.py wiki.valid.tokens --output wikitext-valid.txt

The rules, in this order:
1. Empty lines and headings (` = Title = `) are dropped; every other line is a paragraph.
2. `1 @,@ 000` -> `1,000` and `0 @.@ 5` -> `0.5`: one word. `well @-@ known` -> `well - known`: three words.
3. `didn 't` -> `did n't`, `can 't` -> `ca n't`, `cannot` -> `can not`. Other clitics (`it 's`) are words already.
4. A sentence ends after a free-standing `.`, `!` or `?` (abbreviations carry their full stop with them: `Mr.`) and
   the quotation marks or brackets that close there, if the next word begins with a capital letter or a digit, opens a
   quotation or bracket, or is `<unk>`; but not inside a pair of brackets, between `. . .`, or after a free-standing
   `c .`, `vs .` and the like. Straight quotation marks open and close in turn within a paragraph (counted from its end
   if one would be left open there). The end of a paragraph ends a sentence.
`<unk>` stays as it is.
"""

import argparse
import re
from collections.abc import Iterable, Iterator

from tqdm import tqdm

from hf_structure.cli.common import run_with_options
from hf_structure.text.files import new_file
from hf_structure.text.words import numbered_lines

_INSIDE_NUMBER = re.compile(r" @([,.])@ ")
_MARK = re.compile(r"@([-,.])@")
_NOT = re.compile(r"\b([A-Za-z]+)n ['’]t\b")
_CANNOT = re.compile(r"\b([Cc]an)not\b")
_ABBREVIATIONS = frozenset(
    ["c", "ca", "vs", "v", "cf", "e.g", "i.e", "approx", "no", "nos", "vol", "pp", "p", "ed", "mt"]
)
_BRACKETS = {")": "(", "]": "["}


def paragraph_words(line: str) -> list[str]:
    """The words of a paragraph by rules 2 and 3; none for an empty line or a heading (rule 1)."""
    line = line.strip()
    if line.startswith("= ") and line.endswith(" ="):
        return []
    line = _MARK.sub(r"\1", _INSIDE_NUMBER.sub(r"\1", line))
    return _CANNOT.sub(r"\1 not", _NOT.sub(r"\1 n't", line)).split()


def split_paragraph(words: list[str]) -> Iterator[list[str]]:
    """Cuts a paragraph into sentences by rule 4."""
    bracketed = inside_brackets(words)
    closing = closing_quotes(words)
    start = 0
    for end in range(1, len(words)):
        last = end - 1
        # Closing quotation marks and brackets belong to the sentence before them.
        while last > start and (words[last] in _BRACKETS or last in closing):
            last -= 1
        is_end = words[last] in (".", "!", "?") and not bracketed[end] and may_begin(words[end], end in closing)
        if is_end and not is_abbreviation(words, last):
            yield words[start:end]
            start = end
    if words[start:]:
        yield words[start:]


def may_begin(word: str, closes: bool) -> bool:
    """Returns True if a sentence may begin with this word."""
    # A quotation mark that closes cannot begin a sentence.
    opens = word in ('"', "“", "'", "‘", "(", "[", "<unk>") and not closes
    return opens or word[0].isupper() or word[0].isdigit()


def is_abbreviation(words: list[str], stop: int) -> bool:
    """Returns True if the full stop at this index belongs to an abbreviation or to `. . .`."""
    before = words[stop - 1 : stop]
    after = words[stop + 1 : stop + 2]
    return words[stop] == "." and (before == ["."] or after == ["."] or "".join(before).lower() in _ABBREVIATIONS)


def inside_brackets(words: list[str]) -> list[bool]:
    """Mask of the gaps between words that are inside a pair of brackets; brackets without a partner are ignored."""
    open_brackets = []
    changes = [0] * (len(words) + 1)
    for index, word in enumerate(words):
        if word in _BRACKETS.values():
            open_brackets.append(index)
        elif word in _BRACKETS and open_brackets and words[open_brackets[-1]] == _BRACKETS[word]:
            changes[open_brackets.pop() + 1] += 1
            changes[index + 1] -= 1
    depth = 0
    inside = []
    for change in changes:
        depth += change
        inside.append(depth > 0)
    return inside


def closing_quotes(words: list[str]) -> set[int]:
    """Indices of closing quotation marks: `”`, and every second `"`."""
    straight = [index for index, word in enumerate(words) if word == '"']
    curly = [index for index, word in enumerate(words) if word == "”"]
    # An odd number that ends the paragraph closes a quotation of an earlier one.
    began_before = len(straight) % 2 == 1 and words[-1] == '"'
    return {*straight[0 if began_before else 1 :: 2], *curly}


def sentences_of(lines: Iterable[str]) -> Iterator[list[str]]:
    for line in lines:
        yield from split_paragraph(paragraph_words(line))


def prepare(args) -> None:
    sentences = words = 0
    lines = (line for _, line in numbered_lines(args.file))
    with new_file(args.output, args.overwrite) as file:
        for sentence in tqdm(sentences_of(lines), unit=" sentences"):
            file.write(" ".join(sentence) + "\n")
            sentences += 1
            words += len(sentence)
        if not sentences:
            raise ValueError(f"{args.file}: no text but headings and empty lines")
    print(f"{args.output}: {sentences:,} sentences, {words:,} words")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="a word-level WikiText file, such as wiki.valid.tokens")
    parser.add_argument("--output", required=True, help="the text file to write, one sentence a line")
    parser.add_argument("--overwrite", action="store_true", help="replace the output file if it exists")
    run_with_options(parser, prepare, arguments)


if __name__ == "__main__":
    main()
