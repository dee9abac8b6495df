"""A view as messages a provider accepts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mcp_compaction.formats.arrange import Group, groups, orphans
from mcp_compaction.formats.content import with_cuts
from mcp_compaction.formats.jsontext import parse_object
from mcp_compaction.formats.table import FORMATS, Format
from mcp_compaction.model import JsonObject, Shape, Shown, ShownRecord, Text


def render(shown: Sequence[Shown], shape: Shape) -> list[JsonObject]:
    """What a view shows, in a provider's shape and in the order the provider demands."""
    form = FORMATS[shape]
    pieces = [form.piece(obj) for entry in shown for obj in _objects(entry, shape, form)]
    strays = orphans(pieces)
    paired = [
        form.piece(obj)
        for n, piece in enumerate(pieces)
        for obj in (form.unpair(piece.obj, strays[n]) if n in strays else [piece.obj])
    ]
    found = groups(paired)
    laid = [obj for group in found for obj in _laid(group, group is found[-1], form)]
    return form.finish(laid)


def _objects(entry: Shown, shape: Shape, form: Format) -> list[JsonObject]:
    if isinstance(entry, ShownRecord):
        return form.build("user", (Text(text=entry.text),))
    message = entry.message
    if message.shape == shape:
        return form.keep(parse_object(message.raw, message.ref), entry.cuts)
    return form.build(message.role, with_cuts(message.parts, entry.cuts))


def _laid(group: Group, is_last: bool, form: Format) -> Iterator[JsonObject]:
    answers = [piece.obj for piece in group.answers]
    # A batch at the very end may still be in flight; anywhere else its results will never come.
    if not is_last or group.others:
        for piece, call in group.unanswered():
            answers += form.answer(piece.obj, call)
    yield from form.merge([piece.obj for piece in group.said])
    yield from form.merge(answers)
    yield from (piece.obj for piece in group.others)
