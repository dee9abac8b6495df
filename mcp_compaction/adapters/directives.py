"""Reads the directive of a server: a view, around messages that the loop has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from pydantic import TypeAdapter

from mcp_compaction.compactor.history_layout import Own, ShownView, is_to_be_replaced
from mcp_compaction.core.text.refs import number_of
from mcp_compaction.model import Cut, JsonObject, Message, Shape, Shown, ShownMessage, ShownRecord

_CUTS = TypeAdapter(tuple[Cut, ...])


def read_view(directive: Mapping[str, Any], shape: Shape) -> ShownView:
    """The view that a directive describes; of messages that stay only their numbers are known."""
    upto = int(directive["upto"])
    frame: list[Shown] = []
    since: dict[int, ShownMessage] = {}
    late_pins: dict[int, list[str]] = {}
    for entry in _entries_in(directive, shape):
        newest = next(reversed(since), None)
        if isinstance(entry, ShownMessage) and entry.message.seq > upto:
            since[entry.message.seq] = entry
        elif isinstance(entry, ShownRecord) and newest is not None:
            late_pins.setdefault(newest, []).append(entry.text)
        else:
            frame.append(entry)
    return ShownView(
        state=(int(directive["view"]), tuple(directive["pins"])),
        upto=upto,
        frame=tuple(frame),
        since=tuple(since.values()),
        late_pins=late_pins,
    )


def _entries_in(directive: Mapping[str, Any], shape: Shape) -> list[Shown]:
    """All that is shown, in order."""
    found: list[Shown] = []
    for item in cast("list[Any]", directive["layout"]):
        if isinstance(item, str):
            found.append(ShownMessage(message=_message_of(number_of(item, "m"), shape)))
        elif isinstance(item, dict):
            found.append(ShownRecord(text=str(item["text"])))  # pyright: ignore[reportUnknownArgumentType]
        else:
            found += _replacements_in(directive["replace"][item], shape)
    return found


def _replacements_in(change: Mapping[str, Any], shape: Shape) -> list[Shown]:
    """What stands for messages: records of ours, or one message with some parts shorter."""
    if "cuts" not in change:
        return [ShownRecord(text=str(record["content"])) for record in change["with"]]
    message = _message_of(number_of(change["from"], "m"), shape, change["with"][0])
    return [ShownMessage(message=message, cuts=_CUTS.validate_python(change["cuts"]))]


def _message_of(seq: int, shape: Shape, obj: JsonObject | None = None) -> Message:
    raw = "" if obj is None else json.dumps(obj, ensure_ascii=False)
    return Message(seq=seq, role="user", parts=(), shape=shape, raw=raw)


def refs_missing(view: ShownView, own: Own) -> list[str]:
    """The messages of a view that the loop has no more, or has only as we cut them."""
    shown = (*view.frame, *view.since)
    return [e.message.ref for e in shown if is_to_be_replaced(e, own) and not e.message.raw]


def complete_view(view: ShownView, objects: Mapping[str, JsonObject]) -> ShownView:
    """The view with the messages that the loop had no more, as a server gave them."""

    def with_object(entry: ShownMessage) -> ShownMessage:
        message, obj = entry.message, objects.get(entry.message.ref)
        if obj is None:
            return entry
        return entry.model_copy(update={"message": _message_of(message.seq, message.shape, obj)})

    frame = (with_object(one) if isinstance(one, ShownMessage) else one for one in view.frame)
    return view._replace(frame=tuple(frame), since=tuple(map(with_object, view.since)))
