"""SQLite's statements as PostgreSQL runs them: each names its owner, none can forget to.

A table that is read stands there as the owner's rows of it, which costs the planner nothing; who
writes names the owner beside its condition, and among the columns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import count
from typing import Any, NamedTuple

from mcp_compaction.store.postgres.schema import TABLES
from mcp_compaction.store.sql import Cell, encodable

_BYTES = ("raw", "text")  # columns of bytes: text refuses some signs that these may hold
# Which column a table numbers, and by what; SQLite gives these numbers by itself.
_NUMBERED = {
    "session": ("id", "(SELECT sessions FROM given)"),
    "pin": ("number", "(SELECT pins FROM given)"),
    "section": (
        "number",
        "(SELECT coalesce(max(number), 0) FROM section WHERE owner = %(owner)s"
        " AND session = %(p0)s) + 1",
    ),
}
_ANY_TABLE = "|".join(TABLES)
_READ = re.compile(rf"\b(FROM|JOIN) ({_ANY_TABLE})\b(?: AS (\w+))?")
_WRITTEN = re.compile(rf"\s*(?:UPDATE|DELETE FROM) ({_ANY_TABLE})\b")
_INSERTED = re.compile(rf"\s*INSERT INTO ({_ANY_TABLE}) \(([^)]*)\)")
_MARK = re.compile(r"\?(\d*)")
_KEPT_AS_BYTES = re.compile(r"\b(?:raw|text) (?:=|LIKE) (\?\d*)")
_LIST = re.compile(r"\bIN \(SELECT value FROM json_each\((\?\d*)\)\)")
_WORDS = (
    (re.compile(r"\bjson_each\((\?\d*)\) AS (\w+)"), r"json_array_elements_text(\1) AS \2 (value)"),
    (re.compile(r"\bjson_extract\(([\w.]+), '\$\[(\d)\]'\)"), r"(CAST(\1 AS json) ->> \2)"),
    (re.compile(r"\bjson_extract\(([\w.]+), '\$\.(\w+)'\)"), r"(CAST(\1 AS json) ->> '\2')"),
    (re.compile(r"\binstr\(([\w.]+), (\?\d*)\)"), r"position(convert_to(\2, 'UTF8') IN \1)"),
    (re.compile(r"\bIS NOT (\?\d*)"), r"IS DISTINCT FROM \1"),
    (re.compile(r"\bCROSS JOIN\b(?= \w+ ON\b)"), "JOIN"),
)


class Statement(NamedTuple):
    """A statement with named values, and what its values have to become."""

    sql: str
    values: tuple[Callable[[Cell], object], ...]
    gives_number: bool = False

    def bind(self, given: Sequence[Cell], owner: str) -> dict[str, object]:
        """The values of a statement by their names."""
        named: dict[str, object] = {
            f"p{place}": change(value)
            for place, (change, value) in enumerate(zip(self.values, given, strict=True))
        }
        return {**named, "owner": owner}


class PgRow(tuple[Any, ...]):
    """A row, by the names of its columns and by their places."""

    __slots__ = ()
    _places: dict[str, int]

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self._places[key] if isinstance(key, str) else key)

    def keys(self) -> Iterator[str]:
        """The names of the columns."""
        return iter(self._places)


def rows_of(cursor: Any) -> Callable[[Iterable[Any]], PgRow]:
    """Makes the rows of a cursor."""
    return _kind_of(tuple(column.name for column in cursor.description or ()))


def rows_like_sqlites(cursor: Any) -> Callable[[Sequence[Any]], PgRow]:
    """Makes the rows of a cursor as SQLite would give them: text, where bytes are kept."""
    kind = rows_of(cursor)

    def make(values: Sequence[Any]) -> PgRow:
        return kind(one.decode() if isinstance(one, bytes) else one for one in values)

    return make


@lru_cache(maxsize=256)
def _kind_of(names: tuple[str, ...]) -> type[PgRow]:
    places = {name: place for place, name in enumerate(names)}
    return type("PgRow", (PgRow,), {"_places": places, "__slots__": ()})


@lru_cache(maxsize=512)
def translate(sql: str, groups: int = 1) -> Statement:
    """The statement as PostgreSQL runs it; an INSERT of VALUES may have several groups of them."""
    inserted, written = _INSERTED.match(sql), _WRITTEN.match(sql)
    text = _LIST.sub(r"= ANY(\1)", sql.replace("%", "%%"))
    for words, others in _WORDS:
        text = words.sub(others, text)
    gives_number = False
    if inserted is not None:
        text, gives_number = _insert_own(_read_own(text), inserted, groups)
    elif written is not None:
        text = _write_own(text, written)
    else:
        text = _read_own(text)
    marks = count()
    text = _MARK.sub(lambda mark: f"%(p{_place_of(mark, next(marks))})s", text)
    return Statement(text, _changes_in(sql, inserted) * groups, gives_number)


def is_insert_of_values(sql: str) -> bool:
    """Whether a statement inserts one row by its values."""
    return _INSERTED.match(sql) is not None and " VALUES (" in sql


def _read_own(text: str) -> str:
    def own(found: re.Match[str]) -> str:
        table = found[2]
        columns = "*, number AS id" if table == "section" else "*"
        rows = f"(SELECT {columns} FROM {table} WHERE owner = %(owner)s)"
        return f"{found[1]} {rows} AS {found[3] or table}"

    return _READ.sub(own, text)


def _write_own(text: str, written: re.Match[str]) -> str:
    table = written[1]
    head, where, rest = text[written.end() :].partition(" WHERE ")
    if table == "section":
        rest = re.sub(r"^id\b", "number", rest)
    mine = f" WHERE {table}.owner = %(owner)s" + (f" AND ({_read_own(rest)})" if where else "")
    return written[0] + head + mine


def _insert_own(text: str, inserted: re.Match[str], groups: int) -> tuple[str, bool]:
    """The statement with the owner's column, and whether it tells the number that it gave."""
    table, columns = inserted[1], re.split(r",\s*", inserted[2])
    named, values = "owner, ", ("%(owner)s, ",) * groups
    column, number = _NUMBERED.get(table, ("", ""))
    is_numbered = bool(column) and column not in columns
    if is_numbered:
        named += f"{column}, "
        values = tuple(f"%(owner)s, {number} + {place}, " for place in range(groups))
    text = text.replace("(", f"({named}", 1).replace("ON CONFLICT (", "ON CONFLICT (owner, ")
    before, by, rest = re.split(r"(\bVALUES \(|\bSELECT )", text, maxsplit=1)
    if by.startswith("VALUES"):
        group, _, rest = rest.partition(")")
        text = f"{before}VALUES {', '.join(f'({one}{group})' for one in values)}{rest}"
    else:
        text = f"{before}{by}{values[0]}{rest}"
    if not (is_numbered and "FROM given" in number):
        return text, False
    counted = f"{table}s"
    given = (
        f"INSERT INTO counter (owner, {counted}) VALUES (%(owner)s, 1) ON CONFLICT (owner)"
        f" DO UPDATE SET {counted} = counter.{counted} + 1 RETURNING {counted}"
    )
    return f"WITH given AS ({given}) {text} RETURNING {column}", True


def _place_of(mark: re.Match[str], number: int) -> int:
    return int(mark[1]) - 1 if mark[1] else number


def _changes_in(sql: str, inserted: re.Match[str] | None) -> tuple[Callable[[Cell], object], ...]:
    """What each value of a statement becomes."""
    found: dict[int, Callable[[Cell], object]] = {}
    columns = re.split(r",\s*", inserted[2]) if inserted is not None else []
    lists = {one.start(1) for one in _LIST.finditer(sql)}
    texts = {one.start(1) for one in _KEPT_AS_BYTES.finditer(sql)}
    for number, mark in enumerate(_MARK.finditer(sql)):
        is_bytes = number < len(columns) and columns[number] in _BYTES
        if mark.start() in lists:
            change = _list_of
        elif is_bytes or mark.start() in texts:
            change = _bytes_of
        else:
            change = plain_cell
        found[_place_of(mark, number)] = change
    return tuple(found[place] for place in sorted(found))


def _list_of(value: Cell) -> object:
    return [plain_cell(one) for one in json.loads(str(value))]


def _bytes_of(value: Cell) -> object:
    return str(value).encode()


def plain_cell(value: Cell) -> object:
    """A value as PostgreSQL can hold it."""
    return plain(value) if isinstance(value, str) else value


def plain(text: str) -> str:
    """A text as PostgreSQL can hold it: half a character as U+FFFD, NUL as its sign."""
    return encodable(text.replace("\0", "\u2400"))
