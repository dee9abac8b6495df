"""Fingerprints of a caller's objects, by which a known one is told without reading it."""

from __future__ import annotations

import json
import marshal
from collections.abc import Sequence
from hashlib import blake2b

from pydantic import JsonValue

from mcp_compaction.errors import MalformedMessage
from mcp_compaction.formats.identity import object_to_compare, unwrap_text
from mcp_compaction.model import JsonObject

_MARK = b"cache_control"
_WITHOUT_REFERENCES = 2  # later versions write the same value in several ways


def fingerprint_of(value: JsonValue) -> bytes:
    """The fingerprint of an object, whatever cache mark it bears.

    A mark moves from request to request, and makes a block of what was a plain text.
    """
    data = _dump(_unwrap(value))
    if _MARK in data:
        data = _dump(_unwrap(strip_marks(value)))
    return blake2b(data, digest_size=16).digest()


def bare_fingerprint_of(message: JsonObject) -> bytes:
    """The fingerprint of a message without what a host put into it."""
    return fingerprint_of(object_to_compare(message))


def bare_fingerprints_of(
    messages: Sequence[JsonObject], prints: Sequence[bytes]
) -> dict[bytes, bytes]:
    """The bare fingerprints of those messages that a host put something into, by their own."""
    pairs = zip(messages, prints, strict=True)
    compared = ((message, object_to_compare(message), one) for message, one in pairs)
    return {one: fingerprint_of(bare) for message, bare, one in compared if bare is not message}


def strip_marks(value: JsonValue) -> JsonValue:
    """The same value without cache marks."""
    match value:
        case dict():
            return {k: strip_marks(inner) for k, inner in value.items() if k != "cache_control"}
        case list():
            return [strip_marks(inner) for inner in value]
        case _:
            return value


def _unwrap(value: JsonValue) -> JsonValue:
    """A message whose content is one plain text block, with that text as its content."""
    content = value.get("content") if isinstance(value, dict) else None
    if isinstance(value, dict) and isinstance(content, list) and len(content) == 1:
        return {**value, "content": unwrap_text(content)}
    return value


def fingerprints_of(messages: Sequence[JsonObject]) -> list[bytes]:
    """The fingerprints of messages, in order."""
    return [fingerprint_of(message) for message in messages]


def _dump(value: JsonValue) -> bytes:
    try:
        # Several times as fast as JSON; what is read of a new message is its JSON all the same.
        return marshal.dumps(value, _WITHOUT_REFERENCES)
    except ValueError:  # a subclass of a plain type, or nothing that JSON knows
        return _dump_json(value)


def _dump_json(value: JsonValue) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise MalformedMessage(
            f"a message holds what JSON cannot write ({error}); of an SDK's object send what its "
            "to_dict() gives."
        ) from None
    return text.encode("utf-8", "surrogatepass")
