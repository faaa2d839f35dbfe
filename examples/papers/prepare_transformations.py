"""
Make pairs of sentences that show which rule a model learns, a linear or a hierarchical one, with constituency trees.

    python examples/papers/prepare_transformations.py --task question --output question
    python examples/papers/prepare_transformations.py --task tense --output tense

Each text is a sentence, a word that tells what to do with it, and the result (McCoy, Frank and Linzen 2020):

    the otter that doesn't wait does laugh . quest does the otter that doesn't wait laugh ?
    the otters near my heron laughed . present the otters near my heron laugh .

`quest` turns a sentence into a question. The hierarchical rule moves the auxiliary of the main clause to the front,
the linear rule the first one. `present` puts a sentence into the present tense. By the hierarchical rule a verb agrees
with its subject, by the linear rule with the last noun before it. About half of all texts repeat their sentence, after
`decl` or `past`.

In `train`, `dev` and `test` both rules have the same results: what would decide, a clause in the subject of a question
or a noun of another number between a subject and its verb, occurs only in sentences that are repeated. In
`generalization` nothing is repeated, and the rules have different results: the right ones are in `generalization.txt`,
those by the linear rule in `generalization-linear.txt`. The first word in which they differ is the first word of the
question, or the main verb. No sentence of another set is in `train`. The constituency trees of the sentences are in
the file `.mrg` of each set.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

from hf_structure.cli.common import positive, run_with_options
from hf_structure.text.bracket_tree import BracketTree
from hf_structure.text.files import new_file

DETERMINERS = ("the", "my", "your", "our", "some")
NOUNS = ("otter", "heron", "badger", "beetle", "rabbit", "sparrow", "poet", "sailor", "doctor", "pilot")
PREPOSITIONS = ("near", "behind", "beside", "above")
RELATIVES = ("that", "who")
INTRANSITIVES = ("laugh", "wait", "jump", "rest", "shout")
TRANSITIVES = ("follow", "help", "annoy", "greet", "avoid", "calm")
AUXILIARIES = {"NN": ("does", "doesn't"), "NNS": ("do", "don't")}  # by the tag of the subject
STATEMENTS = {"question": "decl", "tense": "past"}  # before a sentence that is repeated
CHANGES = {"question": "quest", "tense": "present"}  # before a sentence that is changed
TRIES = 1000  # sentences drawn in a row that are in another set: the grammar is too small then


@dataclass(frozen=True)
class Item:
    """A sentence and its results by both rules."""

    tree: BracketTree
    marker: str
    hierarchical: list[str]
    linear: list[str]

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the sentence."""
        return tuple(word for word, _ in self.tree.leaves())

    def text(self, result: Sequence[str]) -> str:
        """The line of a file with the sentence and a result."""
        return " ".join([*self.words, self.marker, *result]) + "\n"


class Grammar:
    """
    Draws sentences at random: in `question` their verbs have auxiliaries, in `tense` they are in the present.

    Args:
        task (`str`): `question` or `tense`.
        rng (`random.Random`): Source of random numbers.
    """

    def __init__(self, task: str, rng: Random):
        self.has_auxiliaries = task == "question"
        self.rng = rng

    def sentence(self) -> BracketTree:
        subject = self.noun_phrase()
        verb = self.verb_phrase(number_of(subject), self.noun_phrase() if self.rng.random() < 0.5 else None)
        return BracketTree("S", [subject, verb, BracketTree(".", word=".")])

    def noun_phrase(self) -> BracketTree:
        """A noun, in a third of all cases with a prepositional phrase, and in a third with a relative clause."""
        noun = self.noun()
        kind = self.rng.randrange(3)
        if kind == 0:
            return noun
        modifier = self.prepositional_phrase() if kind == 1 else self.relative_clause(number_of(noun))
        return BracketTree("NP", [noun, modifier])

    def noun(self) -> BracketTree:
        tag = self.rng.choice(("NN", "NNS"))
        noun = self.rng.choice(NOUNS)
        word = noun if tag == "NN" else f"{noun}s"
        return BracketTree("NP", [self.leaf("DT", DETERMINERS), BracketTree(tag, word=word)])

    def prepositional_phrase(self) -> BracketTree:
        return BracketTree("PP", [self.leaf("IN", PREPOSITIONS), self.noun()])

    def relative_clause(self, number: str) -> BracketTree:
        """A clause about a noun, which is the subject of its verb, with or without an object, or is its object."""
        relative = BracketTree("WHNP", [self.leaf("WDT", RELATIVES)])
        kind = self.rng.randrange(3)
        if kind == 0:
            clause = [self.verb_phrase(number, None)]
        elif kind == 1:
            clause = [self.verb_phrase(number, self.noun())]
        else:
            subject = self.noun()
            clause = [subject, self.verb_phrase(number_of(subject), None, TRANSITIVES)]
        return BracketTree("SBAR", [relative, BracketTree("S", clause)])

    def verb_phrase(
        self, number: str, complement: BracketTree | None, verbs: Sequence[str] | None = None
    ) -> BracketTree:
        """A verb that agrees with its subject, with its object, if any."""
        verb = self.rng.choice(verbs or (INTRANSITIVES if complement is None else TRANSITIVES))
        objects = [] if complement is None else [complement]
        if self.has_auxiliaries:
            auxiliary = self.leaf("MD", AUXILIARIES[number])
            return BracketTree("VP", [auxiliary, BracketTree("VP", [BracketTree("VB", word=verb), *objects])])
        leaf = BracketTree("VBZ", word=f"{verb}s") if number == "NN" else BracketTree("VBP", word=verb)
        return BracketTree("VP", [leaf, *objects])

    def leaf(self, tag: str, words: Sequence[str]) -> BracketTree:
        return BracketTree(tag, word=self.rng.choice(words))


def number_of(phrase: BracketTree) -> str:
    """The tag of the first noun of a phrase, its head: `NN` or `NNS`."""
    return next(tag for _, tag in phrase.leaves() if tag in AUXILIARIES)


def question(tree: BracketTree) -> Item:
    """A sentence with auxiliaries, and its questions."""
    leaves = tree.leaves()
    subject, *_ = tree.children
    first = next(index for index, (_, tag) in enumerate(leaves) if tag == "MD")
    words = [word for word, _ in leaves]
    return Item(tree, CHANGES["question"], front(words, len(subject.leaves())), front(words, first))


def front(words: Sequence[str], index: int) -> list[str]:
    """Moves a word to the front, and ends the question."""
    return [words[index], *words[:index], *words[index + 1 : -1], "?"]


def tense(tree: BracketTree) -> Item:
    """A sentence in the present tense; the item has it in the past tense, with its results."""
    leaves = tree.leaves()
    linear = []
    number = ""
    for word, tag in leaves:
        number = tag if tag in AUXILIARIES else number
        linear.append(agree(word, number) if tag in ("VBZ", "VBP") else word)
    past = [f"{agree(word, 'NNS')}ed" if tag in ("VBZ", "VBP") else word for word, tag in leaves]
    return Item(with_words(tree, past), CHANGES["tense"], [word for word, _ in leaves], linear)


def agree(verb: str, number: str) -> str:
    """The form of a verb of the present tense with a noun of this tag."""
    return verb.removesuffix("s") + ("s" if number == "NN" else "")


def with_words(tree: BracketTree, words: Sequence[str]) -> BracketTree:
    """Replaces the words of a tree with verbs in the present tense by those with verbs in the past tense."""
    rest = iter(words)
    past = tree.map_words(lambda word: next(rest))
    for node, _ in past.walk():
        node.label = "VBD" if node.label in ("VBZ", "VBP") else node.label
    return past


ITEMS: dict[str, Callable[[BracketTree], Item]] = {"question": question, "tense": tense}


def sample(task: str, rng: Random) -> Iterator[Item]:
    """Items to train on, without end: every other one repeats its sentence, the others are the same by both rules."""
    grammar = Grammar(task, rng)
    while True:
        item = ITEMS[task](grammar.sentence())
        yield Item(item.tree, STATEMENTS[task], list(item.words), list(item.words))
        item = ITEMS[task](grammar.sentence())
        while item.hierarchical != item.linear:
            item = ITEMS[task](grammar.sentence())
        yield item


def sample_decisive(task: str, rng: Random) -> Iterator[Item]:
    """Items without end of which the rules differ in the first word of the question, or in the main verb."""
    grammar = Grammar(task, rng)
    while True:
        item = ITEMS[task](grammar.sentence())
        deciding = 0 if task == "question" else len(item.tree.children[0].leaves())
        if item.hierarchical[deciding] != item.linear[deciding]:
            yield item


def make_sets(args: argparse.Namespace) -> dict[str, list[Item]]:
    """The items of all sets; the sentences of the training set, made last, are in none of the others."""
    rng = Random(args.seed)
    sets = {
        "dev": list(islice(sample(args.task, rng), args.test)),
        "test": list(islice(sample(args.task, rng), args.test)),
        "generalization": list(islice(sample_decisive(args.task, rng), args.test)),
    }
    others = {item.words for items in sets.values() for item in items}
    train = (item for item in sample(args.task, rng) if item.words not in others)
    return sets | {"train": list(islice(train, args.train))}


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--task", required=True, choices=tuple(ITEMS), help="question formation, or tense reinflection"
    )
    parser.add_argument("--output", required=True, metavar="FOLDER", help="where the files go")
    parser.add_argument("--overwrite", action="store_true", help="replace files that exist")
    for name, default, meaning in (("train", 100_000, "texts to train on"), ("test", 1000, "texts of each other set")):
        help_text = f"{meaning}; default: {default:,}"
        parser.add_argument(f"--{name}", type=positive, default=default, metavar="N", help=help_text)
    parser.add_argument("--seed", type=int, default=1, help="default: 1")
    return parser


def prepare(args: argparse.Namespace) -> None:
    sets = make_sets(args)
    files = {f"{name}.txt": [item.text(item.hierarchical) for item in items] for name, items in sets.items()}
    files |= {f"{name}.mrg": [f"{item.tree}\n" for item in items] for name, items in sets.items()}
    files["generalization-linear.txt"] = [item.text(item.linear) for item in sets["generalization"]]
    for name, lines in files.items():
        with new_file(Path(args.output, name), args.overwrite) as file:
            file.writelines(lines)
    for name, items in sets.items():
        print(f"{args.output}: {name}: {len(items):,} texts")


def main(arguments: list[str] | None = None) -> None:
    run_with_options(build_parser(), prepare, arguments)


if __name__ == "__main__":
    main()
