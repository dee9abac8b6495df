"""A view as messages a provider accepts, by a table of what each shape of messages needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol, cast

from pydantic import JsonValue

from mcp_compaction.formats import anthropic, openai, responses
from mcp_compaction.formats.anthropic import NOT_RECORDED, NOT_SHOWN
from mcp_compaction.formats.content import (
    Group,
    RenderedMessage,
    find_orphans,
    group_pieces,
    parse_object,
    with_cuts,
)
from mcp_compaction.model import (
    Cut,
    JsonObject,
    Part,
    Role,
    Shape,
    Shown,
    ShownMessage,
    ShownRecord,
)


class Format(Protocol):
    """The rules of one provider's messages."""

    def read(self, obj: JsonObject, where: str) -> tuple[Role, tuple[Part, ...]]:
        """The role and parts of one message."""
        ...

    def cut(self, obj: JsonObject, cuts: Sequence[Cut]) -> JsonObject:
        """A message with some parts shown shorter, and everything else in it as it was."""
        ...

    def keep(self, obj: JsonObject, cuts: Sequence[Cut]) -> list[JsonObject]:
        """An original of this shape with its cuts, as the provider accepts it."""
        ...

    def build(self, role: Role, parts: Sequence[Part]) -> list[JsonObject]:
        """A message of another shape in this one."""
        ...

    def piece_of(self, obj: JsonObject) -> RenderedMessage:
        """A message with the ids of its calls and results."""
        ...

    def merge(self, objs: Sequence[JsonObject]) -> list[JsonObject]:
        """The assistant's messages of one turn, or all results of it, as the provider has them."""
        ...

    def make_result(self, obj: JsonObject, call: str) -> list[JsonObject]:
        """A stand-in for the result that a call never got."""
        ...

    def unpair(self, obj: JsonObject, numbers: set[int]) -> list[JsonObject]:
        """A message in which results whose call is not shown are plain text."""
        ...

    def finish(self, objs: Sequence[JsonObject]) -> list[JsonObject]:
        """The messages, changed where the provider demands something of them as a whole."""
        ...

    def validate(self, messages: Sequence[JsonObject]) -> tuple[str, ...]:
        """The faults that the provider would refuse, in words."""
        ...


FORMATS: Final[dict[Shape, Format]] = {
    "anthropic": anthropic,
    "openai": openai,
    "responses": responses,
}


Own = Mapping[int, JsonObject]
"""The caller's own objects, by the numbers of their messages."""

_NONE: Own = MappingProxyType({})


def render(shown: Sequence[Shown], shape: Shape, own: Own = _NONE) -> list[JsonObject]:
    """The messages of a view, in a provider's shape and in the order the provider demands.

    What is shown whole is the caller's own object, where there is one.
    """
    objects = [obj for entry in shown for obj in objects_of(entry, shape, own)]
    laid = arrange(objects, shape, own.values())
    first = next((one.message.seq for one in shown if isinstance(one, ShownMessage)), 1)
    if first > 1 and laid and laid[0].get("content") == NOT_RECORDED:
        laid[0] = {**laid[0], "content": NOT_SHOWN}
    return laid


def arrange(
    objects: Sequence[JsonObject], shape: Shape, own: Iterable[JsonObject] = ()
) -> list[JsonObject]:
    """Messages in the order that the provider demands; what needs no change is the same object.

    `own`: those of them that a caller sends as they are.
    """
    form = FORMATS[shape]
    pieces = [form.piece_of(obj) for obj in objects]
    strays = find_orphans(pieces)
    paired = [
        form.piece_of(obj)
        for n, piece in enumerate(pieces)
        for obj in (form.unpair(piece.obj, strays[n]) if n in strays else [piece.obj])
    ]
    found = group_pieces(paired)
    own_ids = {id(obj) for obj in own}
    laid: list[JsonObject] = []
    for group in found:
        laid += _lay_out_said(group, form, own_ids)
        laid += _lay_out_rest(group, group is found[-1], form)
    return form.finish(laid)


def without_repeats(objects: Iterable[JsonObject]) -> list[JsonObject]:
    """The objects, with a copy where one stands at several places: each is then told by its id."""
    known: set[int] = set()
    found: list[JsonObject] = []
    for obj in objects:
        found.append({**obj} if id(obj) in known else obj)
        known.add(id(obj))
    return found


def objects_of(entry: Shown, shape: Shape, own: Own = _NONE) -> list[JsonObject]:
    """One entry of a view in a provider's shape, before its place among the others is settled."""
    form = FORMATS[shape]
    if isinstance(entry, ShownRecord):
        # Every provider takes this: it stays the same when the shape of a history becomes clear.
        return [{"role": "user", "content": entry.text}]
    message = entry.message
    if message.seq in own:
        obj = own[message.seq]
        return [form.cut(obj, entry.cuts) if entry.cuts else obj]
    if message.shape == shape:
        return form.keep(parse_object(message.raw, message.ref), entry.cuts)
    return form.build(message.role, with_cuts(message.parts, entry.cuts))


def _lay_out_said(group: Group, form: Format, own_ids: set[int]) -> list[JsonObject]:
    said = [piece.obj for piece in group.said]
    calls_before_last = any(piece.calls for piece in group.said[:-1])
    if not calls_before_last and all(id(obj) in own_ids for obj in said):
        return said  # a caller's own turn in several messages is sent as it came
    return form.merge(said)


def _lay_out_rest(group: Group, is_last: bool, form: Format) -> Iterator[JsonObject]:
    answers = [piece.obj for piece in group.answers]
    # A batch at the very end may still be in flight; anywhere else its results will never come.
    if not is_last or group.others:
        for piece, call in group.unanswered_calls():
            answers += form.make_result(piece.obj, call)
    yield from form.merge(answers)
    yield from (piece.obj for piece in group.others)


def make_request_body(
    system: JsonValue, messages: Sequence[JsonObject], shape: Shape
) -> JsonObject:
    """The messages with the system prompt where the provider wants it."""
    shown: list[JsonValue] = [*messages]
    if shape == "responses":
        return {**({"instructions": text_of_system(system)} if system else {}), "input": shown}
    if shape == "openai":
        first: list[JsonValue] = (
            [{"role": "system", "content": text_of_system(system)}] if system else []
        )
        return {"messages": [*first, *shown]}
    return {**({"system": system} if system else {}), "messages": shown}


def text_of_system(system: JsonValue) -> str:
    """A system prompt as plain text, whether it came as text or as blocks."""
    if isinstance(system, str):
        return system
    blocks = cast("list[JsonValue]", system) if isinstance(system, list) else []
    texts = (block.get("text") for block in blocks if isinstance(block, dict))
    return "\n".join(text for text in texts if isinstance(text, str))
