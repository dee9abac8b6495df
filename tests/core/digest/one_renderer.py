"""Finds where a module writes a line of a digest, or reads one, by its syntax tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from mcp_compaction.model import SECTION_NAMES

_HEADING = re.compile(rf"^[\W\d_]*(?:{'|'.join(SECTION_NAMES)})\b", re.M)
_WORD = re.compile(r"[^\W\d_]{2}")
_WORDS = re.compile(r"[a-z]{2,}\W+[a-z]{2,}")
_SIGNS = re.compile(r"^[\W_]+")
_LABEL = re.compile(r"[a-z]{2,}: $")
_READS = [
    "startswith",
    "endswith",
    "removeprefix",
    "removesuffix",
    "find",
    "rfind",
    "index",
    "rindex",
    "count",
    "partition",
    "rpartition",
    "split",
    "rsplit",
    "replace",
    "strip",
    "lstrip",
    "match",
    "search",
    "fullmatch",
    "findall",
    "finditer",
    "compile",
    "pattern_of",
    "sub",
    "join",
    "format",
]


class Breach(NamedTuple):
    """A place that writes or reads a line, and what stands there."""

    line: int
    what: str


def words_of_lines(render: str) -> frozenset[str]:
    """The words that a renderer puts around values: two of them at least, or a label."""
    said = (text for _, text, _ in _texts_in(ast.parse(render)))
    return frozenset(words for words in said if _WORDS.search(words) or _LABEL.search(words))


def breaches_in(source: str, words: frozenset[str]) -> list[Breach]:
    """The places of a module that put words into an item, say what the renderer says, or hold
    a heading together with a text."""
    tree = ast.parse(source)
    found = [*_items_in_words(tree), *_headings_in_texts(tree)]
    plain = {_SIGNS.sub("", one): one for one in words}
    several = [one for one in plain if _WORDS.search(one)]
    for line, text, _ in _texts_in(tree):
        begun = _SIGNS.sub("", text)
        said = [w for w in plain if begun.startswith(w)] or [w for w in several if w in text]
        found += [Breach(line, plain[said[0]])] if said else []
    return sorted(found)


def _texts_in(tree: ast.Module) -> Iterator[tuple[int, str, ast.AST]]:
    """The texts of a module that are no docstrings, each with its line and what holds it."""
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for parent in ast.walk(tree):
        for node in ast.iter_child_nodes(parent):
            match node:
                case ast.Constant(value=str() as text) if id(node) not in docstrings:
                    yield node.lineno, text, parent
                case _:
                    pass


# Items


def _items_in_words(tree: ast.Module) -> Iterator[Breach]:
    imported = {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    constants = _assigned_in(tree.body)
    scopes = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    for scope in (*scopes, tree):
        inside = [*ast.walk(scope)] if scope is not tree else [*_outside_functions(tree)]
        local = constants | _assigned_in(inside)
        for node in inside:
            for text in _texts_given(node):
                if _puts_words(text, local, imported):
                    yield Breach(text.lineno, ast.unparse(text))


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _outside_functions(child)


def _assigned_in(nodes: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for node in nodes:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            targets = [node.target]
        value = getattr(node, "value", None)
        for target in targets:
            if isinstance(target, ast.Name) and isinstance(value, ast.expr):
                found.setdefault(target.id, []).append(value)
    return found


def _texts_given(node: ast.AST) -> Iterator[ast.expr]:
    """What an item gets as its text, when it is made or changed."""
    if not isinstance(node, ast.Call):
        return
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if name == "Item" or ast.unparse(node.func).startswith("Item."):
        yield from (word.value for word in node.keywords if word.arg == "text")
        yield from node.args[:1]
    if name == "model_copy" and "item" in ast.unparse(node.func).lower():
        for given in ast.walk(node):
            if isinstance(given, ast.Dict):
                for key, value in zip(given.keys, given.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == "text":
                        yield value


def _puts_words(text: ast.expr, assigned: dict[str, list[ast.expr]], imported: set[str]) -> bool:
    """Whether an expression is put together with words of its own, be it by names for some."""
    match text:
        case ast.Constant(value=str() as said):
            return bool(_WORD.search(said))
        case ast.JoinedStr(values=parts):
            return any(_puts_words(part, assigned, imported) for part in parts)
        case ast.FormattedValue(value=inner):
            return _puts_words(inner, assigned, imported)
        case ast.BinOp(left=left, right=right) | ast.IfExp(body=left, orelse=right):
            return any(_puts_words(one, assigned, imported) for one in (left, right))
        case ast.BoolOp(values=values) | ast.Tuple(elts=values) | ast.List(elts=values):
            return any(_puts_words(one, assigned, imported) for one in values)
        case ast.Call(func=ast.Attribute(value=of, attr="format" | "join" | "strip"), args=given):
            return any(_puts_words(one, assigned, imported) for one in (of, *given))
        case ast.Name(id=name):
            if name in imported:
                return name.lstrip("_").isupper()
            known = {key: values for key, values in assigned.items() if key != name}
            return any(_puts_words(one, known, imported) for one in assigned.get(name, ()))
        case _:
            return False


# Headings


def _headings_in_texts(tree: ast.Module) -> Iterator[Breach]:
    parents = {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for line, text, parent in _texts_in(tree):
        is_bare = text in SECTION_NAMES
        if (_HEADING.search(text) and not is_bare) or (is_bare and _is_in_a_text(parent, parents)):
            yield Breach(line, text)


def _is_in_a_text(node: ast.AST, parents: dict[int, ast.AST]) -> bool:
    """Whether what stands here is put into a text, or looked for in one."""
    while isinstance(node, ast.Tuple | ast.List | ast.JoinedStr | ast.FormattedValue):
        if isinstance(node, ast.JoinedStr):
            return True
        node = parents[id(node)]
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add | ast.Mod)
    return (
        isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", "")) in _READS
    )


def modules_of(package: Path) -> dict[str, str]:
    """The modules of a package by their path in it, each with its source."""
    return {
        str(path.relative_to(package)): path.read_text("utf-8") for path in package.rglob("*.py")
    }
