"""Sentences with trees, read from treebanks in CoNLL-U."""

import logging
import re
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, groupby
from typing import Any, cast

import pyarrow
from datasets import Dataset, Features, Value, concatenate_datasets

from hf_structure.algorithms.word_annotations import features_label, lemma_rule
from hf_structure.models.rng_transformer.configuration_rng_transformer import CHAIN
from hf_structure.text.bracket_tree import known_labels, strip_function
from hf_structure.text.brackets import read_brackets
from hf_structure.text.conllu import ConlluSentence, read_conllu
from hf_structure.text.formats import GRAPH_FORMATS, guess_format
from hf_structure.text.lexicons import known_lemmas, known_words
from hf_structure.training.corpora import NUMBERS, PAIRS, STRINGS, Corpora, Reading, words_of
from hf_structure.training.languages import language_of

logger = logging.getLogger(__name__)

TREELESS = {"text": "text", "brackets": "constituency trees", **dict.fromkeys(GRAPH_FORMATS, "dependency graphs")}
PREDICTED = ("upos", "xpos", "feats", "lemma")
FEATURES = dict.fromkeys(("words", "deprels", "tags", *PREDICTED), STRINGS)
FEATURES |= {"heads": NUMBERS, "treebank": Value("string")}
CONSTITUENTS = {"spans": PAIRS, "span_labels": STRINGS}


def read_words(path: str, treebank: str | None = None) -> Iterator[dict]:
    """Streams the sentences of a CoNLL-U file with the labels that a parser may predict; None where unknown."""
    for sentence in read_conllu(path):
        yield {**sentence.to_sentence(), **annotations(sentence), "treebank": treebank}


def annotations(sentence: ConlluSentence) -> dict[str, list[str | None]]:
    """Labels of each word, keyed by the names in `PREDICTED`."""
    upos = [None if word.upos == "_" else word.upos for word in sentence.words]
    xpos = [None if word.xpos == "_" else word.xpos for word in sentence.words]
    # The same features stand for different things in different parts of speech, so that their label names both.
    feats = [None if word.upos == "_" else features_label(word.upos, word.feats) for word in sentence.words]
    lemma = [None if word.lemma == "_" else lemma_rule(word.form, word.lemma) for word in sentence.words]
    return {"upos": upos, "xpos": xpos, "feats": feats, "lemma": lemma}


def lexicon_of(
    files: Sequence[str], treebanks: Sequence[str], columns: Collection[str], are_equal: bool
) -> dict[str, Any]:
    """
    Settings of a parser of these columns that corrects lemmas with a lexicon of its training files: with words of the
    first, whose habits it follows; or if all treebanks are equal, with words of all, for each language apart.
    """
    tag = "xpos" if "xpos" in columns else "upos"
    if not are_equal:
        words = known_words(read_conllu(files[0]), tag)
        return {"known_words": words, "known_lemmas": known_lemmas(chain.from_iterable(map(read_conllu, files)))}
    by_language: dict[str, list[ConlluSentence]] = {}
    for file, treebank in zip(files, treebanks, strict=True):
        by_language.setdefault(language_of(treebank), []).extend(read_conllu(file))
    words_of = {name: known_words(sentences, tag, several=True) for name, sentences in by_language.items()}
    words_of = {name: words for name, words in words_of.items() if words}  # without treebanks that have no lemmas
    return {"known_words": words_of, "known_lemmas": {name: known_lemmas(by_language[name]) for name in words_of}}


def read_treebanks(files: Sequence[str], treebanks: Sequence[str], corpora: Corpora, reading: Reading) -> Dataset:
    """Reads files, with the name of its treebank in each row; names may be empty."""
    if not treebanks:
        return corpora.read(files, reading)
    parts = []
    # Files of one treebank are read together, in parallel.
    for treebank, pairs in groupby(zip(treebanks, files, strict=True), key=lambda pair: pair[0]):
        read: Any = partial(cast(Any, reading.read), treebank=treebank)
        parts.append(corpora.read([file for _, file in pairs], replace(reading, read=read)))
    return concatenate_datasets(parts)


def read_trees(files: Sequence[str], corpora: Corpora, treebanks: Sequence[str] = ()) -> Dataset:
    """Reads the trees of files. Raises `ValueError` for a format without trees, and if no sentence has one."""
    for file in files:
        if (form := guess_format(file)) != "conllu":
            raise ValueError(f"{file}: {TREELESS[form]}, words without a head: dependency trees in CoNLL-U are needed")
    trees = read_treebanks(files, treebanks, corpora, Reading(read_words, FEATURES))
    tables = cast(Iterator["pyarrow.Table"], trees.select_columns("heads").with_format("arrow").iter(1000))
    if all(table["heads"].null_count == len(table) for table in tables):
        raise ValueError(f"{', '.join(files)}: words without a head, in every sentence: dependency trees are needed")
    return trees


def with_initial_trees(sentences: Dataset, files: Sequence[str] | None, corpora: Corpora) -> Dataset:
    """Adds the trees that another parser gave the sentences. Raises `ValueError` if the files hold other sentences."""
    if not files:
        return sentences
    trees = read_trees(files, corpora)
    if len(trees) != len(sentences):
        raise ValueError(f"{', '.join(files)}: {len(trees)} sentences, but {len(sentences)} to refine")
    parsed = cast(Iterable[dict], trees.select_columns(["words", "heads"]))
    for number, (tree, words) in enumerate(zip(parsed, words_of(sentences), strict=True), start=1):
        # Rows are matched by position: check that they are the same sentences.
        if tree["words"] != words or tree["heads"] is None:
            raise ValueError(f"{', '.join(files)}: sentence {number} has other words, or no heads")
    columns = {"heads": "initial_heads", "deprels": "initial_deprels"}
    return concatenate_datasets([sentences, trees.select_columns(list(columns)).rename_columns(columns)], axis=1)


def read_constituents(path: str, functions: bool = False) -> Iterator[dict]:
    """
    Streams the sentences of a file of brackets with their labelled constituents, without traces and indices. With
    `functions`, these are part of labels, as in `NP-SBJ`.
    """
    for brackets in read_brackets(path, unescape=True):
        tree = brackets.remove_traces()
        if tree is None:
            continue
        strip = strip_index if functions else strip_function
        chains = unary_chains((start, end, strip(label)) for start, end, label in tree.spans())
        words = [word for word, _ in tree.leaves()]
        constituents = {"spans": list(chains), "span_labels": list(chains.values())}
        yield dict.fromkeys(FEATURES) | {"words": words} | constituents


def strip_index(label: str) -> str:
    """Strips the index that links a constituent to a trace or gap, but not its functions: `NP-SBJ-1` -> `NP-SBJ`."""
    return re.sub(r"(?<=.)[-=]\d+", "", label)


def unary_chains(spans: Iterable[tuple[int, int, str]]) -> dict[tuple[int, int], str]:
    """The label of each span; several constituents of one span, outer ones first, have one label."""
    chains: dict[tuple[int, int], str] = {}
    for start, end, label in spans:
        outer = chains.get((start, end))
        chains[start, end] = label if outer is None else f"{outer}{CHAIN}{label}"
    return chains


def with_constituents(sentences: Dataset, files: Sequence[str] | None, functions: bool, corpora: Corpora) -> Dataset:
    """
    Adds the constituents of the sentences that the files have trees of, in the order of both, and the sentences that
    only the files have; with their functions, if these are kept.
    """
    if not files:
        return sentences
    read = partial(read_constituents, functions=functions)
    trees = corpora.read(files, Reading(read, FEATURES | CONSTITUENTS))
    indices = defaultdict(deque)
    for index, words in enumerate(words_of(trees)):
        indices[tuple(words)].append(index)
    found = [indices[words].popleft() if indices[words] else None for words in map(tuple, words_of(sentences))]
    rest = sorted(chain.from_iterable(indices.values()))
    if all(known_labels(labels) is None for labels in trees["span_labels"]):
        raise ValueError(f"{', '.join(files)}: no labels of constituents, as in (S (NP the dog) (VP barks))")
    logger.info("%d sentences have constituents too, %d these alone", len(found) - found.count(None), len(rest))
    values = cast(dict, trees.select_columns(list(CONSTITUENTS))[:])
    added = {name: [None if index is None else values[name][index] for index in found] for name in CONSTITUENTS}
    sentences = concatenate_datasets([sentences, Dataset.from_dict(added, Features(CONSTITUENTS))], axis=1)
    return concatenate_datasets([sentences, trees.select(rest)])
