"""What statements run on, whichever engine it is: SQLite's own connection, or one to PostgreSQL
that reads SQLite's language."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

Cell = str | int | float | None


class StoredRow(Protocol):
    """A row, by the names of its columns and by their places."""

    def __getitem__(self, key: int | str, /) -> Any:
        """The value of a column."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """The values in order."""
        ...


class Rows(Protocol):
    """What a statement gave."""

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
