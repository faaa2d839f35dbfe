"""
The code that classes need, as files in one folder, in the form that transformers loads with `trust_remote_code`.

Only the needed definitions of each module are copied, so that a few classes of a large package stay small. Names are
followed, not values: code that is found by other means (`importlib`, `globals`) is left out. So are statements of the
top level that define nothing, such as registrations, and imports for type checkers.
"""

import ast
import copy
import re
import symtable
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from importlib.util import resolve_name

Name = tuple[str, str]  # a module, and a name that it defines
Import = ast.Import | ast.ImportFrom


def flat_sources(
    roots: Iterable[Name],
    read: Callable[[str], str],
    packages: Iterable[str],
    defined: Callable[[Name], Name] = lambda name: name,
) -> dict[str, str]:
    """
    Returns the source texts of everything that some definitions need.

    Args:
        roots (`Iterable[tuple[str, str]]`): The definitions, by module and name.
        read (`Callable[[str], str]`): The source text of a module.
        packages (`Iterable[str]`): The packages whose code is copied; all others are imported as before.
        defined (`Callable[[tuple[str, str]], tuple[str, str]]`, *optional*):
            Resolves a name that a package re-exports, `from package import name`, to the module that defines it and
            its name there.

    Returns:
        `dict[str, str]`: source texts by module. They import each other from files named by [`flat_name`]:
            `from .algorithms_trees import ...`.

    Raises:
        ValueError: a name that a module does not define, an import of a whole module of the packages, two modules with
            one flat name.
    """
    packages = frozenset(packages)
    waiting = list(roots)
    modules: dict[str, Module] = {}
    needed: dict[str, set[str]] = {}
    # A search over definitions rather than modules, which may import each other.
    while waiting:
        source, name = waiting.pop()
        if source not in modules:
            modules[source] = Module(source, read(source), packages, defined)
            needed[source] = set()
        if name not in needed[source]:
            needed[source].add(name)
            waiting += modules[source].needs_of(name)
    files: dict[str, str] = {}
    for source in modules:
        if (other := files.setdefault(flat_name(source), source)) != source:
            raise ValueError(f"{source} and {other} would both be {flat_name(source)}.py: rename one of them")
    return {source: module.reduced(needed[source]) for source, module in modules.items()}


def flat_name(module: str) -> str:
    """Names the file of a module: `hf_structure.algorithms.trees` -> `algorithms_trees`; families keep their names."""
    parts = module.split(".")
    return parts[-1] if parts[1:2] == ["models"] or len(parts) == 1 else "_".join(parts[1:])


class Module:
    """A module, split into statements of the top level. Arguments are as for [`flat_sources`]."""

    def __init__(self, name: str, source: str, packages: frozenset[str], defined: Callable[[Name], Name]):
        self.name = name
        self.lines = source.split("\n")
        self.packages = packages
        self.defined = defined
        self.statements: list[Statement] = []
        self.bindings: dict[str, list[Statement]] = {}
        start = 0
        for node in ast.parse(source).body:
            end = node.end_lineno or 0  # which is known of parsed code
            statement = Statement(node, start, self.lines[start:end])
            self.statements.append(statement)
            for name in statement.bound:
                self.bindings.setdefault(name, []).append(statement)
            start = end

    def needs_of(self, name: str) -> Iterator[Name]:
        """Yields the names that a definition needs. Raises `ValueError` if the module does not define it."""
        if name not in self.bindings:
            raise ValueError(f"{self.name} does not define {name}")
        for statement in self.bindings[name]:
            yield from ((self.name, used) for used in statement.used if used in self.bindings)
            for node, aliases in statement.imports({name}):
                for source, found in self._sources(node, aliases).items():
                    yield from ((source, alias.name) for alias in found if self._comes_along(source))

    def reduced(self, names: set[str]) -> str:
        """Returns the text of the statements that bind these names, with comments before them and flat imports."""
        # From bottom to top, so that the line numbers of earlier edits stay valid.
        lines = self.lines[: self.statements[-1].end]
        for start, end, replacement in reversed(list(self._edits(names))):
            lines[start:end] = replacement
        return "\n".join(lines).strip() + "\n"

    def _edits(self, names: set[str]) -> Iterator[tuple[int, int, list[str]]]:
        """Yields ranges of lines and their replacements, from top to bottom."""
        space = 0
        for statement in self.statements:
            # Empty lines of removed statements are kept, so that the result stays formatted.
            space = max(space, statement.space)
            if statement.stays or statement.bound & names:
                yield statement.start, statement.start + statement.space, [""] * space  # no less than was between
                for node, aliases in statement.imports(names):
                    yield node.lineno - 1, node.end_lineno or 0, [self._flat(node, aliases)]
                space = 0
            else:
                yield statement.start, statement.end, []

    def _flat(self, node: Import, aliases: list[ast.alias]) -> str:
        """Returns the text of an import in a flat folder."""
        if sources := self._sources(node, aliases):
            nodes = [self._import_from(source, found) for source, found in sources.items()]
        else:
            nodes = [copy.copy(node)]
            nodes[0].names = aliases
        before = self.lines[node.lineno - 1][: node.col_offset]
        after = self.lines[(node.end_lineno or 0) - 1][node.end_col_offset :]
        between = "; " if before.strip() else f"\n{before}"
        return before + between.join(map(ast.unparse, nodes)) + after

    def _import_from(self, module: str, aliases: list[ast.alias]) -> ast.ImportFrom:
        if self._comes_along(module):
            return ast.ImportFrom(flat_name(module), aliases, 1)
        return ast.ImportFrom(module, aliases, 0)

    def _sources(self, node: Import, aliases: list[ast.alias]) -> dict[str, list[ast.alias]]:
        """Groups imported names by the modules that define them; empty for imports from other packages."""
        sources: dict[str, list[ast.alias]] = {}
        package = self._source_of(node)
        if package is None:
            return sources
        for alias in aliases:
            source, name = self.defined((package, alias.name))
            bound = alias.asname or alias.name
            sources.setdefault(source, []).append(ast.alias(name, None if bound == name else bound))
        return sources

    def _comes_along(self, module: str) -> bool:
        return module.split(".")[0] in self.packages

    def _source_of(self, node: Import) -> str | None:
        """Returns the module or package of an import, or None if it is in none of the packages."""
        if isinstance(node, ast.Import):
            if any(self._comes_along(alias.name) for alias in node.names):
                raise ValueError(f"{self.name}: '{ast.unparse(node)}' names no definition: write 'from ...'")
            return None
        source = resolve_name("." * node.level + (node.module or ""), self.name.rpartition(".")[0])
        return source if self._comes_along(source) else None


class Statement:
    """A statement of the top level, including the lines before it, of which the first `space` are empty."""

    def __init__(self, node: ast.stmt, start: int, lines: list[str]):
        self.node = node
        self.start = start
        self.end = start + len(lines)
        self.space = next((number for number, line in enumerate(lines) if line.strip()), 0)
        self.names = symtable.symtable("\n".join(lines), "", "exec")
        self.nodes = list(ast.walk(node))

    @property
    def stays(self) -> bool:
        """True for docstrings and for imports from `__future__`, which are always kept."""
        if isinstance(self.node, ast.ImportFrom):
            return self.node.module == "__future__"
        return isinstance(self.node, ast.Expr) and isinstance(self.node.value, ast.Constant)

    @cached_property
    def bound(self) -> set[str]:
        """The names that the statement binds; none if it is for type checkers alone."""
        if isinstance(self.node, ast.If) and ast.unparse(self.node.test).endswith("TYPE_CHECKING"):
            return set()
        return {each.get_name() for each in self.names.get_symbols() if each.is_assigned() or each.is_imported()}

    @cached_property
    def used(self) -> set[str]:
        """The global names that the statement uses, including names in quoted annotations."""
        names = set(_global_names(self.names))
        # The symbol table takes quoted annotations for mere strings.
        for node in self.nodes:
            for annotation in filter(None, (getattr(node, "annotation", None), getattr(node, "returns", None))):
                for part in ast.walk(annotation):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        names |= set(re.findall(r"\w+", part.value))
        return names

    def imports(self, names: set[str]) -> list[tuple[Import, list[ast.alias]]]:
        """
        Returns the imports of the statement, from top to bottom, each with the names to keep. An import of the top
        level keeps the names that bind one of `names`; an import inside of another statement keeps all.
        """
        if self.stays:
            return []
        nodes = sorted((node for node in self.nodes if isinstance(node, Import)), key=lambda node: node.lineno)
        return [
            (node, [alias for alias in node.names if node is not self.node or _bound_by(alias) in names])
            for node in nodes
        ]


def _global_names(table: symtable.SymbolTable) -> Iterator[str]:
    is_function = isinstance(table, symtable.Function)
    for symbol in table.get_symbols():
        if symbol.is_global() if is_function else symbol.is_referenced():
            yield symbol.get_name()
    for child in table.get_children():
        yield from _global_names(child)


def _bound_by(alias: ast.alias) -> str:
    return alias.asname or alias.name.split(".")[0]
