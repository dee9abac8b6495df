"""A view as messages a provider accepts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from mcp_compaction.formats.arrange import Group, find_orphans, group_pieces
from mcp_compaction.formats.content import with_cuts
from mcp_compaction.formats.jsontext import parse_object
from mcp_compaction.formats.table import FORMATS, Format
from mcp_compaction.model import JsonObject, Shape, Shown, ShownRecord, Text

Own = Mapping[int, JsonObject]
"""The caller's own objects, by the numbers of their messages."""

_NONE: Own = MappingProxyType({})


def render(shown: Sequence[Shown], shape: Shape, own: Own = _NONE) -> list[JsonObject]:
    """The messages of a view, in a provider's shape and in the order the provider demands.

    What is shown whole is the caller's own object, where there is one.
    """
    form = FORMATS[shape]
    pieces = [form.piece_of(obj) for entry in shown for obj in objects_of(entry, shape, own)]
    strays = find_orphans(pieces)
    paired = [
        form.piece_of(obj)
        for n, piece in enumerate(pieces)
        for obj in (form.unpair(piece.obj, strays[n]) if n in strays else [piece.obj])
    ]
    found = group_pieces(paired)
    laid = [obj for group in found for obj in _order_group(group, group is found[-1], form)]
    return form.finish(laid)


def objects_of(entry: Shown, shape: Shape, own: Own = _NONE) -> list[JsonObject]:
    """One entry of a view in a provider's shape, before its place among the others is settled."""
    form = FORMATS[shape]
    if isinstance(entry, ShownRecord):
        return form.build("user", (Text(text=entry.text),))
    message = entry.message
    if message.seq in own:
        obj = own[message.seq]
        return [form.cut(obj, entry.cuts) if entry.cuts else obj]
    if message.shape == shape:
        return form.keep(parse_object(message.raw, message.ref), entry.cuts)
    return form.build(message.role, with_cuts(message.parts, entry.cuts))


def _order_group(group: Group, is_last: bool, form: Format) -> Iterator[JsonObject]:
    answers = [piece.obj for piece in group.answers]
    # A batch at the very end may still be in flight; anywhere else its results will never come.
    if not is_last or group.others:
        for piece, call in group.unanswered_calls():
            answers += form.make_result(piece.obj, call)
    yield from form.merge([piece.obj for piece in group.said])
    yield from form.merge(answers)
    yield from (piece.obj for piece in group.others)
