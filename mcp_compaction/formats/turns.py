"""Turns of the Messages API: a record of ours stands in the user's message beside it.

Models whose template wants user and assistant in turn refuse two messages of the user's in a row.
What was joined comes back as it was sent, and is taken apart by the form of the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

from pydantic import JsonValue

from mcp_compaction.core.window.history import is_record
from mcp_compaction.formats.content import blocks_of, objects_in, text_or_empty
from mcp_compaction.formats.identity import unwrap_text
from mcp_compaction.model import JsonObject


def join_turns(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """The messages, each record in one with the user's messages beside it: all their blocks, with
    their marks, in order. What no record stands beside is the same object."""
    return [one[0] if len(one) == 1 else _join(one) for one in _turns_in(messages)]


def split_turns(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """The messages before they were joined; what holds no record beside other blocks is the same
    object."""
    return [piece for message in messages for piece in _split(message)]


def place_before_joining(messages: Sequence[JsonObject], place: int) -> int:
    """The place of a message that was not joined, among messages before they were."""
    return sum(len(turn) for turn in list(_turns_in(messages))[:place])


def _turns_in(messages: Sequence[JsonObject]) -> Iterator[list[JsonObject]]:
    turn: list[JsonObject] = []
    for message in messages:
        if turn and not _belongs(turn, message):
            yield turn
            turn = []
        turn.append(message)
    if turn:
        yield turn


def _belongs(turn: Sequence[JsonObject], message: JsonObject) -> bool:
    """Whether a message joins those before it: one of two neighbors has to be a record, by which
    they are told apart again; and the API wants results first."""
    if message.get("role") != "user" or turn[-1].get("role") != "user":
        return False
    if not (_is_record(message) or _is_record(turn[-1])):
        return False
    said = [one for one in (*turn, message) if not _is_record(one)]
    has_results = any(b.get("type") == "tool_result" for b in objects_in(message.get("content")))
    return not has_results and all(_beside(one) == _beside(said[0]) for one in said)


def _is_record(message: JsonObject) -> bool:
    content = message.get("content")
    return not _beside(message) and isinstance(content, str) and is_record(content)


def _beside(message: JsonObject) -> JsonObject:
    return {key: value for key, value in message.items() if key not in ("role", "content")}


def _join(turn: Sequence[JsonObject]) -> JsonObject:
    said = next((one for one in turn if not _is_record(one)), turn[0])
    content: list[JsonValue] = [block for one in turn for block in blocks_of(one)]
    return {**said, "content": content}


def _split(message: JsonObject) -> Iterator[JsonObject]:
    content = message.get("content")
    blocks = objects_in(content) if message.get("role") == "user" else []
    if len(blocks) < 2 or not any(map(_is_record_block, blocks)):
        yield message
        return
    for is_ours, run in groupby(blocks, _is_record_block):
        if is_ours:
            for one in run:
                yield {"role": "user", "content": one["text"]}
        else:
            yield {**message, "content": unwrap_text(list[JsonValue](run))}


def _is_record_block(block: JsonObject) -> bool:
    return block.get("type") == "text" and is_record(text_or_empty(block.get("text")))


def plain_of(value: Any) -> Any:
    """A value of JSON: of an SDK's object what it would send."""
    if isinstance(value, Mapping):
        return {key: plain_of(inner) for key, inner in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [plain_of(inner) for inner in cast("Sequence[Any]", value)]
    if callable(to_dict := getattr(value, "to_dict", None)):
        return to_dict()
    if callable(dump := getattr(value, "model_dump", None)):
        # Not only what was set: a role is often a default.
        return dump(mode="json", by_alias=True, exclude_none=True)
    return value
