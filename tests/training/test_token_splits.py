"""What the text of treebanks tells about the words of tokens."""

from hf_structure.text.conllu import ConlluSentence, ConlluToken
from hf_structure.text.running import text_sentence
from hf_structure.training.token_splits import (
    collect_habits,
    collect_marks,
    collect_rules,
    collect_splits,
    split_rule,
)


def test_frequent_rules_and_the_rest():
    tokens = [("zum", ("zu", "dem")), ("Vom", ("Vo", "dem")), ("im", ("in", "dem")), ("du", ("de", "le"))]
    rules = collect_rules([*tokens, *tokens[:2]], min_frequency=3)
    assert rules == [split_rule("zum", ("zu", "dem"))]
    assert collect_splits(tokens, rules) == {"du": "de le", "im": "in dem"}
    assert collect_splits([*tokens, ("IM", ("I", "M"))], rules) == {"du": "de le"}, "no split of several"


def test_habits_of_a_language():
    zum = split_rule("zum", ("zu", "dem"))
    rules = [zum, "de [1:]s"]
    tokens = [
        ("zum", ("zu", "dem")),
        ("Zum", ("Zu", "dem")),
        ("du", ("de", "le")),
        ("du", ("de", "le")),
        ("See", ("See",)),
    ]
    habits = collect_habits(tokens, rules)
    assert habits == {"rules": [1, 3], "tokens": {"du": split_rule("du", ("de", "le")), "zum": zum}}
    whole = [("zum", ("zum",)), ("im", ("in", "dem"))]  # and a token that was seen once
    assert collect_habits([*tokens, *whole], rules)["tokens"].keys() == {"du"}
    assert collect_habits([("See", ("See",))] * 3, rules) == {"rules": [], "tokens": {}}


def test_habits_keep_what_no_rule_makes():
    tokens = [("a b", ("a ", "b"))] * 3
    assert collect_habits(tokens, []) == {"rules": [1], "tokens": {}}


def test_marks_that_are_words():
    def sentence(*tokens):
        """Tokens without spaces between them."""
        made = [ConlluToken(str(number), token, misc="SpaceAfter=No") for number, token in enumerate(tokens, start=1)]
        return text_sentence(ConlluSentence([], made))

    hyphens = [sentence("Gaza", "-", "Streifen")] * 19
    others = [
        sentence("4-5"),
        sentence("4", "-", "mal"),
        sentence("-", "a", "-"),
        sentence("a'", "b"),
        sentence("a/b"),
    ]
    assert collect_marks([*hyphens, *others]) == "-"
    assert collect_marks([*hyphens, sentence("G-Moll")]) == "-"
    assert collect_marks([*hyphens, sentence("G-Moll"), sentence("G-", "Dur")]) == "", "not always"
    assert collect_marks(hyphens[:9]) == "", "too seldom"
