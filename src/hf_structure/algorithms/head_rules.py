"""
Head rules: dependencies read off the constituents of English (Penn Treebank labels), in the style of Universal
Dependencies.

Every constituent has a head child, found by its label (Collins 1999, with content words as heads instead of function
words), and so a head word. The other children's head words depend on it. Prepositions, auxiliaries, copulas,
determiners and conjunctions are dependents; the first conjunct heads a coordination, and a conjunction depends on the
conjunct after it.
"""

from collections.abc import Iterator, Sequence

from hf_structure.algorithms.trees import span_children

NOUNS = ("NN", "NNS", "NNP", "NNPS", "NX", "NML")
VERBS = ("VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "MD", "AUX")
ADJECTIVES = ("JJ", "JJR", "JJS")
CLAUSES = ("S", "SQ", "SINV", "SBAR", "SBARQ")
MARKS = ("``", "''", ",", ".", ":", "-LRB-", "-RRB-", "HYPH", "NFP", "PUNCT")
COPULA = frozenset(["be", "am", "is", "are", "was", "were", "been", "being", "'s", "'re", "'m", "s", "m", "re", "ai"])
# For each label, the categories of head children in order of preference; "<": from the left, ">": from the right.
RULES: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "S": (("<", ("VP",)), ("<", CLAUSES), (">", ("ADJP", "NP", "PP", "ADVP", "UCP"))),
    "SINV": (("<", ("VP", "S", "SINV")), ("<", VERBS)),
    "SQ": (("<", ("VP", "SQ")), (">", ("ADJP", "NP", "PP")), ("<", VERBS)),
    "SBARQ": (("<", ("SQ", "S", "SINV", "SBARQ")),),
    "SBAR": (("<", CLAUSES), ("<", ("VP", "FRAG", "NP", "ADJP", "PP", "ADVP"))),
    "VP": (("<", ("VP",)), ("<", VERBS), ("<", ("ADJP", "NP", "S"))),
    "NP": ((">", (*NOUNS, "$")), ("<", ("NP",)), (">", ("CD", "QP", *ADJECTIVES, "ADJP", "PRP", "VBG", "DT", "RB"))),
    "PP": ((">", ("NP", *CLAUSES, "VP", "ADJP", "PP", "ADVP", "UCP", *NOUNS)), ("<", ("IN", "TO"))),
    "ADJP": (("<", (*ADJECTIVES, "VBN", "VBG", "ADJP")), (">", (*NOUNS, "QP", "CD", "RB"))),
    "ADVP": (("<", ("NP",)), (">", ("RB", "RBR", "RBS", "ADVP", "IN", "NN", "JJ"))),
    "QP": (("<", ("$", "#")), (">", ("CD", *NOUNS, "QP"))),
    "WHNP": ((">", (*NOUNS, "WHNP", "NP")), ("<", ("WP", "WDT", "WP$", "WHADJP", "WHPP"))),
    "WHPP": ((">", ("WHNP", "NP")),),
    "WHADVP": ((">", ("RB", "JJ", "WRB", "ADVP")),),
    "WHADJP": (("<", (*ADJECTIVES, "ADJP")),),
    "PRN": (("<", (*CLAUSES, "NP", "VP", "PP", "ADJP")),),
    "FRAG": (("<", (*CLAUSES, "VP", "NP", "ADJP", "PP", "ADVP", "INTJ")),),
}
RULES |= {"NX": RULES["NP"], "NML": RULES["NP"], "NAC": RULES["NP"], "ROOT": RULES["FRAG"], "X": RULES["FRAG"]}
PREDICATES = ("ADJP", "NP", "PP", "ADVP", "QP", "UCP")  # complements of a copula that head its clause
CONJUNCTIONS = ("CC", "CONJP")
NOUN_PHRASES = ("NP", "NX", "NML", "QP")
FUNCTIONS = ("POS", "CC", "IN", "DT")


def constituents_to_heads(
    spans: Sequence[tuple[int, int]], labels: Sequence[str], tags: Sequence[str], words: Sequence[str]
) -> list[int]:
    """
    Reads the head of every word off a constituency tree.

    Args:
        spans (`Sequence[tuple[int, int]]`): The constituents in pre-order, half-open in words from 0.
        labels (`Sequence[str]`): Their labels, without functions. For an unknown one, any child may be the head.
        tags, words (`Sequence[str]` of length `n`): Penn Treebank tag and form of every word.

    Returns:
        `list[int]`: Heads, words from 1; 0 for the root. A projective tree with one root.
    """
    n = len(words)
    if not spans:
        return [min(index, 1) for index in range(n)]
    names = [*labels, *tags]
    lexical = [0] * len(spans) + list(range(n))  # head word of every constituent and word, from 0
    heads = [0] * n
    children_of = span_children(spans, n)
    # In pre-order, children come after their parents.
    for node in reversed(range(len(spans))):
        children = children_of[node]
        categories = [names[child] for child in children]
        words_of = [lexical[child] for child in children]
        before = tags[max(spans[node][0] - 3, 0) : spans[node][0]]
        head = _head_child(labels[node], categories, [words[word].lower() for word in words_of], before)
        lexical[node] = words_of[head]
        for child, parent in _dependents(categories, head):
            heads[words_of[child]] = words_of[parent] + 1
    return heads


def _dependents(categories: Sequence[str], head: int) -> Iterator[tuple[int, int]]:
    """Yields each child but the head, and the child that it depends on: conjunctions depend on the next conjunct."""
    is_coordination = any(category in CONJUNCTIONS for category in categories[head + 1 :])
    conjunct = head
    for index in reversed(range(len(categories))):
        is_joint = is_coordination and categories[index] in (*CONJUNCTIONS, ",", ":")
        if index <= head:
            conjunct = head
        elif not is_joint and categories[index] not in MARKS:
            conjunct = index
        if index != head:
            yield index, conjunct if is_joint else head


def _head_child(label: str, categories: Sequence[str], words: Sequence[str], before: Sequence[str]) -> int:
    """Index of the head child of a constituent, given its children's categories and head words."""
    if label == "VP" and "VP" not in categories:
        predicate = _predicate(categories, words, before)
        if predicate is not None:
            return predicate
    if label in NOUN_PHRASES and any(category in CONJUNCTIONS for category in categories):
        first = _first_conjunct(categories)
        if first is not None:
            return first
    for direction, wanted in RULES.get(label, ()):
        order = range(len(categories))
        for index in order if direction == "<" else reversed(order):
            if categories[index] in wanted:
                return index
    # Content words before function words before marks: from the right in noun phrases, else from the left.
    for unwanted in ((*MARKS, *FUNCTIONS), MARKS, ()):
        allowed = [index for index, category in enumerate(categories) if category not in unwanted]
        if allowed:
            break
    return allowed[-1 if label in NOUN_PHRASES else 0]


def _predicate(categories: Sequence[str], words: Sequence[str], before: Sequence[str]) -> int | None:
    """Index of the complement that heads a verb phrase with a copula, unless it is existential (`there is`)."""
    verbs = [index for index, category in enumerate(categories) if category in VERBS]
    if not verbs or words[verbs[0]] not in COPULA or "EX" in before:
        return None
    found = [index for index in range(verbs[0] + 1, len(categories)) if categories[index] in PREDICATES]
    return min(found, key=lambda index: PREDICATES.index(categories[index]), default=None)


def _first_conjunct(categories: Sequence[str]) -> int | None:
    """Index of the head of the first conjunct: the last noun or phrase before the first comma or conjunction."""
    found = None
    for index, category in enumerate(categories):
        if found is not None and (category in CONJUNCTIONS or category in (",", ":")):
            break
        if category in (*NOUNS, "NP", "CD", "QP", "PRP", *ADJECTIVES, "ADJP", "VBG"):
            found = index
    return found
