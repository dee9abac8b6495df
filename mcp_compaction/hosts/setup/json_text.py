"""Edits JSON as text: what an edit does not name stays as it is, byte for byte, comments too.

Every insertion has one removal that undoes it exactly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

KeyPath = tuple[str | int, ...]

_TOKEN = re.compile(
    r'(?P<blank>[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)|(?P<string>"(?:[^"\\\x00-\x1f]|\\.)*")'
    r"|(?P<sign>[{}\[\]:,])|(?P<word>-?[0-9][0-9.eE+-]*|true|false|null)",
    re.DOTALL,
)
_COMMENT_ON_LINE = re.compile(r"[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/)")
_LINE_BEFORE = re.compile(r"(?:\r?\n|(?<![ \t]))[ \t]*+\Z")


class UnreadableJson(Exception):
    """The text is not JSON; the reason is fit for a person."""


class _Token(NamedTuple):
    text: str
    start: int
    end: int


@dataclass(slots=True)
class Node:
    """A value in a text: where it stands, and what stands in it."""

    start: int
    end: int = 0
    value: Any = None  # of a string, a number or a word
    children: list[Child] = field(default_factory=list["Child"])
    sign: str = ""  # { or [ for one that has children

    @property
    def data(self) -> Any:
        """The value as Python has it."""
        if self.sign == "{":
            return {child.key: child.node.data for child in self.children}
        if self.sign == "[":
            return [child.node.data for child in self.children]
        return self.value

    def find(self, path: KeyPath) -> Node | None:
        """The value at a path below this one."""
        if not path:
            return self
        found = next((child for child in self.children if child.key == path[0]), None)
        return found.node.find(path[1:]) if found is not None else None


@dataclass(slots=True)
class Child:
    """A member of an object or an item of an array, with the comma that follows it."""

    key: str | int
    start: int
    node: Node
    comma: int | None = None


def parse(text: str, *, allow_comments: bool = True) -> Node:
    """The value that a text holds; comments and a comma at an end are allowed where asked."""
    tokens = list(_read_tokens(text, allow_comments))
    if not tokens:
        raise UnreadableJson("it is empty")
    try:
        node, rest = _parse_value(tokens, 0, allow_comments)
    except IndexError:
        raise UnreadableJson("it ends too early") from None
    except RecursionError:
        raise UnreadableJson("it is nested too deeply") from None
    if rest < len(tokens):
        raise UnreadableJson(_explain(text, tokens[rest].start))
    return node


def _read_tokens(text: str, allow_comments: bool) -> Iterator[_Token]:
    at = 1 if text.startswith("\ufeff") else 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        is_comment = found is not None and found.group().startswith("/")
        if found is None or (is_comment and not allow_comments):
            raise UnreadableJson(_explain(text, at, "a comment" if is_comment else ""))
        if found.lastgroup != "blank":
            yield _Token(found.group(), at, found.end())
        at = found.end()


def _explain(text: str, at: int, what: str = "") -> str:
    line = text.count("\n", 0, at) + 1
    return f"line {line} has {what or repr(text[at : at + 12])} where the host reads none"


def _parse_value(tokens: list[_Token], at: int, allow_comments: bool) -> tuple[Node, int]:
    token = tokens[at]
    if token.text in "{[":
        return _parse_children(tokens, at, allow_comments)
    if token.text in "}]:,":
        raise UnreadableJson(f"a value is missing before {token.text!r}")
    try:
        return Node(token.start, token.end, json.loads(token.text)), at + 1
    except ValueError:
        raise UnreadableJson(f"{token.text[:20]!r} is no value") from None


def _parse_children(tokens: list[_Token], at: int, allow_comments: bool) -> tuple[Node, int]:
    node = Node(tokens[at].start, sign=tokens[at].text)
    closes = "}" if node.sign == "{" else "]"
    at += 1
    while tokens[at].text != closes:
        if node.children and node.children[-1].comma is None:
            raise UnreadableJson(f"a comma is missing before {tokens[at].text[:20]!r}")
        start, key = tokens[at].start, len(node.children)
        if node.sign == "{":
            key, at = _parse_key(tokens, at)
        value, at = _parse_value(tokens, at, allow_comments)
        child = Child(key, start, value)
        node.children.append(child)
        if tokens[at].text == ",":
            child.comma = tokens[at].start
            at += 1
    if not allow_comments and node.children and node.children[-1].comma is not None:
        raise UnreadableJson(f"a comma stands before {closes!r}")
    keys = sorted(str(child.key) for child in node.children)
    if twice := next((key for key, other in pairwise(keys) if key == other), None):
        raise UnreadableJson(f"{twice!r} stands in it twice")
    node.end = tokens[at].end
    return node, at + 1


def _parse_key(tokens: list[_Token], at: int) -> tuple[str, int]:
    name = tokens[at].text
    try:
        key = json.loads(name) if tokens[at + 1].text == ":" else None
    except ValueError:
        key = None
    if not isinstance(key, str):
        raise UnreadableJson(f"a name is missing at {name[:20]!r}")
    return key, at + 2


def insert(text: str, path: KeyPath, value: Any) -> str:
    """The text with a value at a path; a path that ends in -1 is a new item at the end of a list.

    Objects and lists that are missing on the way are made; what is there is not replaced.
    """
    root = node = parse(text)
    way = list(path)
    while way and (found := node.find((way[0],))) is not None:
        node, way = found, way[1:]
    if not way or node.sign != ("[" if way[0] == -1 else "{"):
        raise ValueError(f"{path} is taken")
    for key in reversed(way[1:]):
        value = [value] if key == -1 else {key: value}
    return _add_child(text, root, node, way[0], value)


def _add_child(text: str, root: Node, node: Node, key: str | int, value: Any) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    outer = _indent_at(text, node.start)
    if not _is_on_lines(text, root, node):
        return _splice_on_line(text, node, _write(key, value, None))
    unit = (_indent_at(text, root.children[0].start) if root.children else "") or "  "
    indent = outer + unit
    if node.children:
        indent = _indent_at(text, node.children[-1].start)
    member = _write(key, value, unit).replace("\n", newline + indent)
    line = newline + indent + member
    if not node.children:
        at = node.start + 1
        return text[:at] + line + newline + outer + text[at:]
    last = node.children[-1]
    is_ended = last.comma is not None
    at = last.node.end if last.comma is None else last.comma + 1
    comment = _COMMENT_ON_LINE.match(text, at)
    after = comment.end() if comment is not None else at
    comma, line = ("", line + ",") if is_ended else (",", line)
    return text[:at] + comma + text[at:after] + line + text[after:]


def _splice_on_line(text: str, node: Node, member: str) -> str:
    if not node.children:
        at = node.start + 1
        return text[:at] + member + text[at:]
    last = node.children[-1]
    if last.comma is not None:
        at = last.comma + 1
        return f"{text[:at]} {member},{text[at:]}"
    return f"{text[: last.node.end]}, {member}{text[last.node.end :]}"


def _write(key: str | int, value: Any, unit: str | None) -> str:
    written = json.dumps(value, ensure_ascii=False, indent=unit)
    return written if isinstance(key, int) else f"{json.dumps(key, ensure_ascii=False)}: {written}"


def _is_on_lines(text: str, root: Node, node: Node) -> bool:
    """Whether what stands in a value stands on lines of its own."""
    if node.children:
        return "\n" in text[node.start : node.children[-1].start]
    return not root.children or "\n" in text[root.start : root.end]


def _indent_at(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def remove(text: str, path: KeyPath) -> str:
    """The text without the value at a path, as if it had never been inserted."""
    parent = parse(text).find(path[:-1])
    if parent is None:
        raise ValueError(f"{path} is not there")
    number = next(n for n, child in enumerate(parent.children) if child.key == path[-1])
    child = parent.children[number]
    begin = (parent.children[number - 1].comma or 0) if number else parent.start
    before = _LINE_BEFORE.search(text, begin + 1, child.start)
    start = before.start() if before is not None else child.start
    if child.comma is not None:
        end = child.comma + 1
        if start == child.start:  # the first on a line of several
            end += len(text[end:]) - len(text[end:].lstrip(" "))
        return text[:start] + text[end:]
    if number > 0:
        return text[:begin] + text[begin + 1 : start] + text[child.node.end :]
    rest = text[child.node.end :]
    newline = "\r\n" if "\r\n" in text else "\n"
    if "\n" in text[start : child.start]:
        rest = rest.removeprefix(newline + _indent_at(text, parent.start))
    return text[:start] + rest
