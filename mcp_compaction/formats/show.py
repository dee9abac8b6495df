"""A view as messages a provider accepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from mcp_compaction.formats.anthropic import NOT_RECORDED, NOT_SHOWN
from mcp_compaction.formats.arrange import Group, find_orphans, group_pieces
from mcp_compaction.formats.content import with_cuts
from mcp_compaction.formats.jsontext import parse_object
from mcp_compaction.formats.table import FORMATS, Format
from mcp_compaction.model import JsonObject, Shape, Shown, ShownMessage, ShownRecord

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
