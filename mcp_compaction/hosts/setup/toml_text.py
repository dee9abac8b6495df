"""Edits TOML as text: one table is added at the end or taken out, all else stays byte for byte."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\''
    r"|#[^\n]*|[^\"'#\[\]{}\n]+|.",
    re.DOTALL,
)
_HEADER = re.compile(
    r"[ \t]*\[\[?(?P<name>(?:\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'|[^\]\"'\n])+)\]\]?[^\n]*\n?"
)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")


class UnreadableToml(Exception):
    """The text is not TOML, or the table has no place in it; the reason is fit for a person."""


class _Table(NamedTuple):
    """A table as it stands in a text, from its header to the end of its last value."""

    names: tuple[str, ...]
    start: int
    end: int


def parse(text: str) -> dict[str, Any]:
    """The values that a text holds."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnreadableToml(str(error)) from None


def insert_table(text: str, path: Sequence[str], table: Mapping[str, Any], tag: str) -> str:
    """The text with a table at its end, below a comment that says whose it is."""
    newline = "\r\n" if "\r\n" in text else "\n"
    head = ".".join(map(_write_key, path))
    block = "\n".join([f"# {tag}", f"[{head}]", *_write_values(table)])
    if text:
        block = f"\n{block}" if text.endswith("\n") else f"\n\n{block}"
    is_ended = text.endswith("\n") or not text
    new = text + (block + "\n" * is_ended).replace("\n", newline)
    try:
        parse(new)
    except UnreadableToml:
        raise UnreadableToml(f"it has no place for the table [{head}]") from None
    return new


def remove_table(text: str, path: Sequence[str], tag: str) -> str:
    """The text without a table and the tables below it, as if they had never been inserted."""
    for table in reversed(_find_tables(text)):
        if table.names[: len(path)] == tuple(path):
            text = _cut(text, table, tag)
    return text


def _cut(text: str, table: _Table, tag: str) -> str:
    lines = _LINE.findall(text[: table.start])
    if lines and lines[-1].strip() == f"# {tag}":
        lines.pop()
    if lines and not lines[-1].strip():
        lines.pop()
    before = "".join(lines)
    if not text[: table.end].endswith("\n"):  # the end of a text without a last newline
        before = before.removesuffix("\n").removesuffix("\r")
    return before + text[table.end :]


def _find_tables(text: str) -> list[_Table]:
    """The tables of a text; comments and blank lines after a table's last value belong to none."""
    found: list[_Table] = []
    depth, at, begins_line = 0, 0, True
    while at < len(text):
        header = _HEADER.match(text, at) if begins_line and depth == 0 else None
        if header is not None:
            found.append(_Table(_names_of(header["name"]), at, header.end()))
            at = header.end()
            continue
        token = _TOKEN.match(text, at)
        assert token is not None  # the last alternative takes any sign
        word, at = token.group(), token.end()
        depth += (word in "[{") - (word in "]}")
        begins_line = word == "\n"
        if found and not word.isspace() and not word.startswith("#"):
            end = text.find("\n", at) + 1
            found[-1] = found[-1]._replace(end=end or len(text))
    return found


def _names_of(header: str) -> tuple[str, ...]:
    data: Any = tomllib.loads(f"[{header}]")
    names: list[str] = []
    while data:
        ((name, data),) = data.items()
        names.append(name)
    return tuple(names)


def _write_values(table: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[str]:
    for key, value in table.items():
        path = (*above, key)
        if isinstance(value, Mapping):
            yield from _write_values(cast("Mapping[str, Any]", value), path)
        else:
            yield f"{'.'.join(map(_write_key, path))} = {_write_value(value)}"


def _write_key(key: str) -> str:
    return key if _BARE_KEY.match(key) else _write_value(key)


def _write_value(value: Any) -> str:
    # JSON's strings, numbers, lists and words are TOML's too, but for one control sign.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
