"""Makes the papers' training and test files from a treebank in sections, as distributed by the LDC."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from hf_structure.text.bracket_tree import unescape_word
from hf_structure.text.brackets import read_brackets
from hf_structure.text.conllu import read_conllu
from hf_structure.text.files import new_file
from hf_structure.text.normalization import keep_mask, normalize_word

OUTPUT_SUFFIXES = {"brackets": ".mrg", "conllu": ".conllu"}


def find_sections(folder: str | os.PathLike, sections: Iterable[str], pattern: str) -> dict[str, list[Path]]:
    """
    Finds the files of each section anywhere below a folder, sorted by name. Sections are named by the last part or
    parts of the folders' paths, such as `"00"` or `"1987/W7_001"`, and files by a shell pattern, such as `"*.mrg"`.
    Matching is case-insensitive. Raises `ValueError` for a section without such a file, or with a file of the same
    name in two folders, and `OSError` if the folder does not exist.
    """
    if not Path(folder).is_dir():
        raise NotADirectoryError(f"{folder}: no such folder")
    files = {section: [] for section in sections}
    names = {section.lower(): section for section in files}
    depths = {section.count("/") + 1 for section in files}
    for parent, _, children in os.walk(folder):
        parts = Path(parent).parts
        matching = _matching(parent, children, pattern)
        for tail in {"/".join(parts[-depth:]).lower() for depth in depths} & set(names):
            files[names[tail]] += matching
    for section, found in files.items():
        if not found:
            raise ValueError(f"{folder}: no file {pattern} in a folder {section}")
        files[section] = _sorted_by_name(found, f"{folder}: several folders of section {section}")
    return files


def _matching(folder: str, names: Iterable[str], pattern: str) -> list[Path]:
    # Not `fnmatch` alone: it ignores case on Windows only.
    return [Path(folder, name) for name in names if fnmatch(name.lower(), pattern.lower())]


def _sorted_by_name(paths: Sequence[Path], twice: str) -> list[Path]:
    """Sorts files of several folders. Raises `ValueError`, with the message `twice`, if two have one name."""
    if len({path.name for path in paths}) < len(paths):
        raise ValueError(f"{twice}; name the one that is meant")
    return sorted(paths, key=lambda path: path.name)


def clean_sentences(
    path: str | os.PathLike, format: str, keep_punctuation: bool = False, normalize: bool = False
) -> Iterator[tuple[str, list[str]]]:
    r"""
    Reads the sentences of one file, in `"brackets"` or `"conllu"`, and cleans them as in the papers: no traces and
    function tags, no punctuation unless kept (by tag; its dependents go to the nearest kept ancestor), Penn Treebank
    escapes such as `\/` resolved, and optionally words normalised by [`normalize_word`]. Yields each as a tree on a
    line, or as CoNLL-U, with its words.
    """

    def new_word(word: str) -> str:
        return normalize_word(unescape_word(word)) if normalize else unescape_word(word)

    read = _clean_brackets if format == "brackets" else _clean_conllu
    return read(path, new_word, keep_punctuation)


def _clean_brackets(
    path: str | os.PathLike, new_word: Callable[[str], str], keep_punctuation: bool
) -> Iterator[tuple[str, list[str]]]:
    for tree in read_brackets(path):
        # Nothing may be left of a tree: of traces alone, or of punctuation.
        tree = tree.remove_traces()
        if tree is not None and not keep_punctuation:
            tree = tree.remove_punctuation()
        if tree is not None:
            tree = tree.strip_functions().map_words(new_word)
            yield f"{tree}\n", [word for word, _ in tree.leaves()]


def _clean_conllu(
    path: str | os.PathLike, new_word: Callable[[str], str], keep_punctuation: bool
) -> Iterator[tuple[str, list[str]]]:
    for sentence in read_conllu(path):
        if not keep_punctuation:
            tags = [word.xpos for word in sentence.words]
            sentence = sentence.keep_words(keep_mask(sentence.forms, tags, by="tags"))
        if sentence.tokens:
            sentence = sentence.with_column("form", list(map(new_word, sentence.forms)))
            yield str(sentence), sentence.forms


def write_split(paths: Iterable[Path], stem: Path, format: str, overwrite: bool = False, **options) -> tuple[int, int]:
    """
    Writes the sentences of many files to `stem.mrg` or `stem.conllu`, and as plain text to `stem.txt`. See
    [`clean_sentences`] for format and options. Returns the numbers of sentences and words.

    Raises `FileExistsError` if a file exists and `overwrite` is False, `ValueError` if a file is malformed, or there
    is no sentence at all.
    """
    count = total = 0
    with new_file(f"{stem}{OUTPUT_SUFFIXES[format]}", overwrite) as file, new_file(f"{stem}.txt", overwrite) as text:
        for path in paths:
            for block, words in clean_sentences(path, format, **options):
                file.write(block)
                text.write(" ".join(words) + "\n")
                count += 1
                total += len(words)
        if not count:
            raise ValueError(f"no sentence for {stem}")
    return count, total
