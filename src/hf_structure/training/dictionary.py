"""The lists of characters and words that a network over characters is given before training."""

from collections.abc import Iterable, Sequence

from hf_structure.algorithms.characters import LONGEST, RUN, plain
from hf_structure.text.files import DataError
from hf_structure.text.words import numbered_lines


def listed_characters(texts: Iterable[str]) -> str:
    """The characters of texts, for a `CharacterReader`, in the order of their code points."""
    found: set[str] = set()
    for text in texts:
        found.update(text)
    return "".join(sorted({plain(character) for character in found}))


def read_dictionary(paths: Sequence[str], max_cost: int) -> dict[str, str]:
    """
    Reads the words of files by their costs, for a `CharacterReader`; those that it does not look for are left out.

    Args:
        paths (`Sequence[str]`): Files with a word on each line, and behind a tab its cost; `#` begins a comment. Words
            without a tab, behind which anything may follow a space, cost one more than `max_cost`. A word of several
            files has the cost of the first.
        max_cost (`int`): The cost of the rarest words to keep.

    Raises:
        DataError: a cost is not a whole number from 0 on.
    """
    costs: dict[str, int] = {}
    for path in paths:
        for number, line in numbered_lines(path):
            word, tab, cost = line.partition("\t")
            if line.startswith("#"):
                continue
            if not tab:
                word = line.partition(" ")[0]
                # Every character may be a word: without a cost, only longer ones say something.
                if len(word) > 1:
                    costs.setdefault(word, max_cost + 1)
            elif not cost.strip().isdecimal():
                raise DataError(f"the cost {cost!r} is not a whole number from 0 on", path, number)
            elif int(cost) <= max_cost:
                costs.setdefault(word, int(cost))
    by_cost: dict[str, list[str]] = {}
    for word, cost in sorted(costs.items(), key=lambda pair: (pair[1], pair[0])):
        if len(word) <= LONGEST and RUN.fullmatch(word):
            by_cost.setdefault(str(cost), []).append(word)
    return {cost: " ".join(group) for cost, group in by_cost.items()}
