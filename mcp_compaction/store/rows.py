"""The rows that every store has, whatever its tables look like, and the hashes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from mcp_compaction.store.passages import StoredPassage

Cell = str | int | float | None
Cells = tuple[Cell, ...]

SESSION: Final = (
    *("name", "project", "agent", "host", "host_session", "created", "updated", "last_seq"),
    *("last_chain", "view_version", "next_digest", "next_compaction", "counted", "reported"),
    "traits",
)

# What belongs to one session. A number that a store gives for itself is not among the columns.
TABLES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "message": (
            *("seq", "follows", "role", "shape", "host_id", "content", "chain", "at", "recorded"),
            *("tokens", "counter", "via", "speaker", "raw"),
        ),
        "tool_call": ("call", "tool"),
        "call_message": ("call", "seq"),
        "section": ("at", "section_tokens", "memory_tokens", "json"),
        "view": ("version", "json"),
        "digest": ("number", "tokens", "json"),
        "receipt": ("number", "base_version", "json"),
        "event": ("name", "at", "detail"),
        "model_call": (
            *("at", "model", "seconds", "input_tokens", "output_tokens", "cached_tokens", "cost"),
            "failed",
        ),
        "transcript": ("address", "position", "tail"),
        "thinking": ("block", "beginning"),
        "tombstone": ("ref", "sha256", "at"),
    }
)
ORDER: Final[Mapping[str, str]] = MappingProxyType(
    {
        "message": "seq",
        "tool_call": "call",
        "call_message": "call, seq",
        "view": "version",
        "digest": "number",
        "receipt": "number",
        "transcript": "address",
        "thinking": "block",
    }
)
"""The order in which a table's rows are read and hashed; of the others: their ids."""

PIN: Final = (
    *("number", "project", "kind", "scope", "author", "at", "expires", "released"),
    *("superseded_by", "source", "channel", "used", "checksum", "text", "checks"),
)
PASSAGE: Final = ("project", "kind", "number", "ordinal", "role", "at", "tools", "text")

_BYTE_FOR_BYTE: Final = ("raw", "text")


class SessionName(NamedTuple):
    """What a session is known by in every store."""

    project: str
    name: str


class ListedSession(NamedTuple):
    """A session in a list of all."""

    id: int
    name: SessionName
    parent: SessionName | None
    host: tuple[str, str, str] | None  # the host, its own id and the agent
    messages: int


class Inventory(NamedTuple):
    """All sessions of a store, and whose each transcript is that was recorded."""

    sessions: tuple[ListedSession, ...]
    transcripts: Mapping[str, SessionName | None]


class SessionRows(NamedTuple):
    """All rows of one session but for its pins."""

    session: Cells
    parent: SessionName | None
    tables: Mapping[str, Sequence[Cells]]
    passages: Sequence[StoredPassage]  # without their session

    def hashes(self) -> dict[str, str]:
        """A hash for each part, the same in every store."""
        whole = {"session": (SESSION, [self.session])}
        whole |= {table: (TABLES[table], rows) for table, rows in self.tables.items()}
        named = {part: _hash_rows(columns, rows) for part, (columns, rows) in whole.items()}
        texts = [cells_of(passage) for passage in self.passages]
        return {**named, "parent": _hash(self.parent), "passage": _hash_rows(PASSAGE, texts)}


class KeptPin(NamedTuple):
    """A pin with all that hangs on it."""

    row: Cells
    session: SessionName | None  # None: that was forgotten
    announced: tuple[str, ...]  # to these projects
    passages: tuple[StoredPassage, ...]  # without their session

    @property
    def number(self) -> int:
        """Its number in every store."""
        return int(self.row[0] or 0)

    def hash(self) -> str:
        """A hash of it, the same in every store."""
        texts = [cells_of(passage) for passage in self.passages]
        rows = _hash_rows(PIN, [self.row]), _hash_rows(PASSAGE, texts)
        return _hash((*rows, self.session and tuple(self.session), self.announced))


class LooseRows(NamedTuple):
    """The rows that are not of one session alone."""

    pins: tuple[KeptPin, ...]
    last_pin: int  # the newest number that was ever given
    transcripts: tuple[Cells, ...]  # of sessions that were forgotten


class RowStore(Protocol):
    """A store whose rows can be read and written as they are."""

    async def inventory(self) -> Inventory:
        """All sessions there are, in the order in which they were made."""
        ...

    async def read_rows(self, session: int) -> SessionRows:
        """All rows of a session, from one moment."""
        ...

    async def write_rows(self, rows: SessionRows, /) -> int:
        """Keep a session whole or not at all, where there is none of that name; its id."""
        ...

    async def read_loose_rows(self) -> LooseRows:
        """The rows that are not of one session alone."""
        ...

    async def write_loose_rows(self, rows: LooseRows, /) -> None:
        """Keep these, all or none; there is no pin of these numbers."""
        ...

    async def close(self) -> None:
        """Let go of the store."""
        ...


def cells_of(passage: StoredPassage) -> Cells:
    """The columns of a passage."""
    return (*passage[1:7], pack_tools(passage.tools), passage.text)


def passage_of(cells: Sequence[Cell]) -> StoredPassage:
    """The passage of such columns."""
    *begin, tools, text = cells
    return StoredPassage._make((None, *begin, unpack_tools(str(tools)), text))


def pack_tools(tools: Iterable[str]) -> str:
    """Tools as a passage has them, each between line feeds."""
    return "".join(f"\n{tool}\n" for tool in tools)


def unpack_tools(text: str) -> tuple[str, ...]:
    """The tools of such a text."""
    return tuple(tool for tool in text[1:-1].split("\n\n") if tool)


def _hash_rows(columns: Sequence[str], rows: Iterable[Cells]) -> str:
    digest = sha256()
    for row in rows:
        cells = [
            # PostgreSQL holds NUL in no text, and has its sign there.
            cell.replace("\0", "\u2400")
            if isinstance(cell, str) and column not in _BYTE_FOR_BYTE
            else cell
            for column, cell in zip(columns, row, strict=True)
        ]
        digest.update(repr(cells).encode())
    return digest.hexdigest()


def _hash(value: object) -> str:
    return sha256(repr(value).encode()).hexdigest()
