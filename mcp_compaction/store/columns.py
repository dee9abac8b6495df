"""Values as columns and columns as values: times, texts and JSON as SQLite can hold them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from mcp_compaction.errors import StoreDamaged

if TYPE_CHECKING:
    from mcp_compaction.model import Value

V = TypeVar("V", bound="Value")


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
        "then put a backup in its place: mcp-compaction restore-backup FILE"
    )
