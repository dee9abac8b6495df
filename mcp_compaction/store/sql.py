"""What statements run on, whichever engine it is: SQLite's own connection, or one to PostgreSQL
that reads SQLite's language; and times, texts and JSON as columns of both can hold them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mcp_compaction.errors import StoreDamaged

if TYPE_CHECKING:
    from mcp_compaction.model import Value

V = TypeVar("V", bound="Value")

Cell = str | int | float | None


def stamp(at: datetime) -> str:
    """A time as text of fixed width in UTC, so that text order is time order."""
    aware = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return aware.isoformat(timespec="microseconds")


def moment(text: str | None) -> datetime | None:
    """The time of such a text."""
    return None if text is None else datetime.fromisoformat(text)


def encodable(text: str) -> str:
    """The text with each lone surrogate, which SQLite cannot hold, as U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def encodable_json(raw: str) -> str:
    """A JSON text with each lone surrogate as its escape: the same value in bytes SQLite holds."""
    if raw.isascii():
        return raw
    return raw.encode("utf-8", "backslashreplace").decode()


def to_json(value: Value) -> str:
    """A value as JSON."""
    from pydantic_core import PydanticSerializationError  # which who only lists does without

    try:
        return value.model_dump_json()
    except PydanticSerializationError:  # a lone surrogate somewhere inside
        text = json.dumps(value.model_dump(mode="json"), ensure_ascii=False)
        return encodable(text)


def from_json(kind: type[V], text: str) -> V:
    """The value of such a JSON."""
    try:
        return kind.model_validate_json(text)
    except ValueError as error:
        raise lost_error(f"A {kind.__name__.lower()} is not what was written") from error


def lost_error(what: str) -> StoreDamaged:
    """The error for a part of a session that is lost."""
    return StoreDamaged(
        f"{what}; nothing was changed. See all of it with mcp-compaction doctor, "
        "then put a backup in its place: mcp-compaction store restore FILE"
    )


class StoredRow(Protocol):
    """A row, by the names of its columns and by their places."""

    def __getitem__(self, key: int | str, /) -> Any:
        """The value of a column."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """The values in order."""
        ...


class Rows(Protocol):
    """The rows that a statement gave."""

    @property
    def rowcount(self) -> int:
        """The rows that it wrote."""
        ...

    @property
    def lastrowid(self) -> int | None:
        """The number that the store gave to the row that it inserted."""
        ...

    def fetchone(self) -> Any:
        """The next row; None: there is no more."""
        ...

    def fetchall(self) -> list[Any]:
        """All rows."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """The rows, one after the other."""
        ...


class Tx(Protocol):
    """One transaction of one owner."""

    def execute(self, sql: str, parameters: Sequence[Cell] = ..., /) -> Rows:
        """Run a statement."""
        ...

    def executemany(self, sql: str, parameters: Iterable[Sequence[Cell]], /) -> object:
        """Run a statement for each of some rows."""
        ...
