"""
Formulas over the surprisals of regions, the notation for predictions in SyntaxGym's test suites:

    (5;%what_nogap%) > (5;%that_nogap%) & [(6;%that_gap%) - (6;%what_gap%)] > 0

`(5;%what_nogap%)` is the surprisal of region 5 in the sentence of the condition `what_nogap`. Operators, in increasing
precedence: `|`; `&`; `<`, `>` and `=`; `+` and `-`. Operators of the same precedence associate to the left. `[ ]` and
`( )` are brackets; white space is ignored. A formula is true or false for an item.

`=` is equality up to the tolerance of the syntaxgym package: 0.001 plus 0.00001 times the right side.
"""

import operator
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Table = Mapping[tuple[str, int], float]  # the surprisal of (condition, region)

LEVELS = (("|",), ("&",), ("<", ">", "="), ("+", "-"))  # operators, in increasing precedence
OPERATORS = {
    "|": operator.or_,
    "&": operator.and_,
    "<": operator.lt,
    ">": operator.gt,
    "=": lambda left, right: abs(left - right) <= 1e-3 + 1e-5 * abs(right),
    "+": operator.add,
    "-": operator.sub,
}
BRACKETS = {"[": "]", "(": ")"}
MAX_DEPTH = 50  # of brackets
MAX_DIGITS = 9  # of the number of a region
_TOKEN = re.compile(
    r"\s*(?:\(\s*(?P<region>\d+)\s*;\s*%(?P<condition>[^%]+)%\s*\)|(?P<number>\d+(?:\.\d+)?)|(?P<sign>[-+<>=&|()[\]])|$)"
)


class FormulaError(ValueError):
    """
    A malformed formula, or one with an unknown region or condition; the message names the position in the formula.
    """

    def __init__(self, message: str, text: str, position: int):
        super().__init__(f"{message}, at character {position + 1} of the formula {text!r}")


@dataclass(frozen=True)
class Number:
    value: float

    is_truth = False

    def evaluate(self, table: Table) -> float:
        return self.value


@dataclass(frozen=True)
class Region:
    """The surprisal of a region in a condition; `position` is its offset in the formula."""

    condition: str
    number: int
    position: int

    is_truth = False

    def evaluate(self, table: Table) -> float:
        return table[self.condition, self.number]


@dataclass(frozen=True)
class Operation:
    sign: str
    left: "Node"
    right: "Node"

    @property
    def is_truth(self) -> bool:
        """True if the value is a truth value, not a number."""
        return self.sign not in LEVELS[-1]

    def evaluate(self, table: Table) -> bool | float:
        chain = []
        node = self
        # A loop, because a long sum is too deep on the left for recursion.
        while isinstance(node, Operation):
            chain.append(node)
            node = node.left
        value = node.evaluate(table)
        for operation in reversed(chain):
            value = OPERATORS[operation.sign](value, operation.right.evaluate(table))
        return value


Node = Number | Region | Operation


@dataclass(frozen=True)
class Formula:
    """The text of a formula, and the root of its syntax tree."""

    text: str
    root: Operation

    def regions(self) -> list[Region]:
        """All mentions of regions, from left to right."""
        nodes: list[Node] = [self.root]
        found = []
        while nodes:
            node = nodes.pop()
            if isinstance(node, Operation):
                # The left side is taken from the stack first.
                nodes += [node.right, node.left]
            elif isinstance(node, Region):
                found.append(node)
        return found

    def holds(self, table: Table) -> bool:
        """
        Evaluates the formula, given the surprisals. Raises `FormulaError` if it mentions a missing one.
        """
        for region in self.regions():
            if (region.condition, region.number) not in table:
                message = f"region {region.number} of condition {region.condition!r} has no surprisal"
                raise FormulaError(message, self.text, region.position)
        return bool(self.root.evaluate(table))


def parse_formula(text: str) -> Formula:
    """
    Parses a formula. Raises [`FormulaError`] for a syntax error; brackets that are nested too deeply; operators on
    values of the wrong kind, such as a sum of comparisons; a formula that is a number.
    """
    return _Parser(text).formula()


class _Parser:
    """
    Recursive descent:

        level(i) = level(i + 1) (sign of level i  level(i + 1))*,    the last level being followed by
        operand  = region | number | "[" level(0) "]" | "(" level(0) ")"
    """

    def __init__(self, text: str):
        self.text = text
        self.tokens = _tokens(text)
        self.depth = 0
        self.advance()

    def advance(self) -> None:
        self.token, self.position = next(self.tokens)

    def formula(self) -> Formula:
        root = self.level(0)
        if isinstance(self.token, str):
            raise self.error(f"{self.token!r} does not belong here")
        if self.token is not None:
            raise self.error("an operator is missing")
        if not isinstance(root, Operation) or not root.is_truth:
            raise FormulaError("a number, which is neither true nor false", self.text, 0)
        return Formula(self.text, root)

    def level(self, number: int) -> Node:
        if number == len(LEVELS):
            return self.operand()
        left = self.level(number + 1)
        # A loop instead of recursion associates to the left.
        while isinstance(self.token, str) and self.token in LEVELS[number]:
            sign = self.token
            position = self.position
            self.advance()
            right = self.level(number + 1)
            # `|` and `&` join truth values, all other operators numbers.
            joins_truths = number < 2
            if left.is_truth != joins_truths or right.is_truth != joins_truths:
                sides = "truth values, which comparisons are" if joins_truths else "numbers"
                raise FormulaError(f"{sign!r} needs {sides}, on both sides", self.text, position)
            left = Operation(sign, left, right)
        return left

    def operand(self) -> Node:
        if isinstance(self.token, Node):
            node = self.token
        elif isinstance(self.token, str) and self.token in BRACKETS:
            node = self.bracketed(BRACKETS[self.token])
        else:
            raise self.error("a region, number or bracket is missing")
        self.advance()
        return node

    def bracketed(self, closing: str) -> Node:
        # Without a bound, a hostile formula would exceed the recursion limit.
        if self.depth == MAX_DEPTH:
            raise self.error(f"more than {MAX_DEPTH} brackets within each other")
        self.depth += 1
        self.advance()
        node = self.level(0)
        if self.token != closing:
            raise self.error(f"{closing!r} is missing")
        self.depth -= 1
        return node

    def error(self, message: str) -> FormulaError:
        return FormulaError(message, self.text, self.position)


def _tokens(text: str) -> Iterator[tuple[Node | str | None, int]]:
    """Yields regions, numbers and signs, each with its position, and None at the end."""
    end = 0
    while end < len(text):
        match = _TOKEN.match(text, end)
        # Errors point at the token, not at the white space before it.
        start = len(text) - len(text[end:].lstrip())
        if match is None:
            raise FormulaError(f"{text[start]!r} does not belong here", text, start)
        end = match.end()
        if match["region"]:
            if len(match["region"]) > MAX_DIGITS:
                raise FormulaError(f"a region number of more than {MAX_DIGITS} digits", text, start)
            yield Region(match["condition"], int(match["region"]), start), start
        elif match["number"]:
            yield Number(float(match["number"])), start
        elif match["sign"]:
            yield match["sign"], start
    yield None, len(text)
