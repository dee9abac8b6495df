"""A request of Claude Code beside the rows of its chat: what a view makes of its messages.

A message of a request is made of several rows, and of what the host tells the model: reminders in
the user's messages, its environment as messages of the system between them. These stay where they
stand; where what they stand behind has left, they follow the first words of the user.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import cast

from mcp_compaction.core.log.pinned import PINNED_LABEL
from mcp_compaction.core.window.history import is_record
from mcp_compaction.formats.content import blocks_of
from mcp_compaction.formats.identity import fingerprint_of
from mcp_compaction.hosts.claude_code.rows import Row, as_sent, message_of
from mcp_compaction.hosts.transcripts.pieces import text_at
from mcp_compaction.model import JsonObject, JsonValue

_THINKING = ("thinking", "redacted_thinking")


@dataclass(slots=True)
class MessageBlocks:
    """Some blocks of one message of a request: those of a row, or what the host put there."""

    role: str
    blocks: list[JsonObject]
    row: Row | None = None
    message: JsonObject | None = None  # of the system, as it came
    behind: list[MessageBlocks] = field(
        default_factory=list["MessageBlocks"]
    )  # of the host's, until the next row


class SplitRequest:
    """The messages of a request, row by row."""

    def __init__(
        self, messages: Sequence[JsonObject], rows: Sequence[Row], left: Collection[str] = ()
    ) -> None:
        """`rows`: those of the chat since it was last compacted, in order; `left`: the ids of those
        that it may have no more."""
        self._left = left
        self._waiting: dict[bytes, list[Row]] = {}
        for row in sorted(rows, key=lambda one: one.uuid in left):
            self._waiting.setdefault(_key_of(row.message), []).append(row)
        self.pieces: list[MessageBlocks] = []  # of rows
        self.before: list[MessageBlocks] = []  # of the host's, before the first of these
        for message in messages:
            self._add(message)

    @property
    def is_whole(self) -> bool:
        """Whether each row of the chat was found: else the request is not its newest one."""
        waiting = (row for rows in self._waiting.values() for row in rows)
        return all(row.uuid in self._left for row in waiting)

    @property
    def is_written_down(self) -> bool:
        """Whether all that was answered, called and shown of ours is in rows: hosts write late."""
        every = [*self.before, *(one for piece in self.pieces for one in piece.behind)]
        return not any(map(_is_said, every))

    @property
    def rows(self) -> list[Row]:
        """The rows that the request has."""
        return [piece.row for piece in self.pieces if piece.row is not None]

    def _add(self, message: JsonObject) -> None:
        role = str(message.get("role"))
        if role not in ("user", "assistant"):
            self._put_behind(MessageBlocks(role, [], message=message))
            return
        thoughts: list[JsonObject] = []
        blocks = blocks_of(message)
        while blocks:
            row, count = self._find(role, blocks)
            if row is None and blocks[0].get("type") in _THINKING:  # an empty one is no row
                thoughts.append(blocks.pop(0))
                continue
            piece = MessageBlocks(role, [*thoughts, *blocks[:count]], row)
            thoughts, blocks = [], blocks[count:]
            if row is not None:
                self.pieces.append(piece)
            else:
                self._put_behind(piece)

    def _put_behind(self, piece: MessageBlocks) -> None:
        (self.pieces[-1].behind if self.pieces else self.before).append(piece)

    def _find(self, role: str, blocks: list[JsonObject]) -> tuple[Row | None, int]:
        """The row that some blocks begin with, and of how many it is."""
        key = _key_of_block(role, blocks[0])
        for row in self._waiting.get(key, ()):
            count = len(blocks_of(row.message))
            if count <= len(blocks):
                self._waiting[key].remove(row)
                return row, count
        return None, 1

    def lay_out(self, shown: Sequence[Row | JsonObject]) -> list[JsonObject]:
        """The messages of the request that show a view of its rows.

        What is shown as it was is the request's own, with its marks.
        """
        own = {piece.row.uuid: piece for piece in self.pieces if piece.row is not None}
        records = {_key_of(p.row.message): p for p in self.pieces if p.row is not None}
        laid: list[MessageBlocks] = []
        for one in as_sent(shown, self.rows):
            known = own[one.uuid] if isinstance(one, Row) else records.get(_key_of(one))
            is_same = known is not None and (isinstance(one, Row) or _says(known, one))
            laid.append(known if known is not None and is_same else _piece_of(message_of(one)))
        return _merge(self._with_hosts(laid))

    def _with_hosts(self, laid: Sequence[MessageBlocks]) -> list[MessageBlocks]:
        """The pieces with what the host tells, each where it stood, or early; pins once."""
        there = {id(piece) for piece in laid}
        left = [one for piece in self.pieces if id(piece) not in there for one in piece.behind]
        early: dict[bytes, MessageBlocks] = {}
        for one in left:  # hosts repeat their reminders, and add tools again
            early.pop(_print_of(one), None)
            early[_print_of(one)] = one
        pieces = list(self.before)
        for number, piece in enumerate(laid):
            pieces.append(piece)
            pieces += piece.behind if id(piece) in {id(one) for one in self.pieces} else ()
            if number == 0:
                pieces += early.values()
        texts = [text for piece in laid for text in _texts_of(piece.blocks)]
        own = "\n".join(text for text in texts if text.startswith(PINNED_LABEL))
        return [one for one in pieces if id(one) in there or not _is_shown_in(own, one)]


def _is_said(piece: MessageBlocks) -> bool:
    """Whether what was found in no row has to be in one: reminders and the like have not."""
    if piece.role == "assistant":
        return any(one.get("type") not in _THINKING for one in piece.blocks)
    return any(
        one.get("type") == "tool_result" or is_record(text_at(one, "text") or "")
        for one in piece.blocks
    )


def _is_shown_in(own: str, piece: MessageBlocks) -> bool:
    """Whether a piece of the host's holds pins that it was given, and that a view shows now."""
    _, label, told = "\n".join(_texts_of(piece.blocks)).partition(f"{PINNED_LABEL}\n")
    return bool(label) and told.partition("\n</system-reminder>")[0] in own


def _piece_of(message: JsonObject) -> MessageBlocks:
    return MessageBlocks(str(message["role"]), blocks_of(message))


def _says(piece: MessageBlocks, message: JsonObject) -> bool:
    """Whether a record of ours came back in that piece."""
    return _texts_of(piece.blocks) == _texts_of(blocks_of(message))


def _texts_of(blocks: Sequence[JsonObject]) -> list[str]:
    return [(text_at(one, "text") or "").rstrip("\n") for one in blocks]


def _merge(pieces: Sequence[MessageBlocks]) -> list[JsonObject]:
    """The pieces as messages: what neighbors of one role say is one."""
    messages: list[JsonObject] = []
    is_open = False  # the last one is ours to add to
    for piece in pieces:
        if piece.message is not None:
            messages.append(piece.message)
            is_open = False
        elif is_open and messages[-1]["role"] == piece.role:
            cast("list[JsonValue]", messages[-1]["content"]).extend(piece.blocks)
        else:
            messages.append({"role": piece.role, "content": [*piece.blocks]})
            is_open = True
    return messages


def is_sendable(messages: Sequence[JsonObject]) -> bool:
    """Whether a provider takes it: a user's words first, each call answered in the next message."""
    said = [one for one in messages if one.get("role") in ("user", "assistant")]
    if not said or said[0].get("role") != "user":
        return False
    called: set[JsonValue] = set()
    for message in said:
        blocks = blocks_of(message)
        results = {str(b.get("tool_use_id")) for b in blocks if b.get("type") == "tool_result"}
        if results != called or not blocks:
            return False
        called = {str(b.get("id")) for b in blocks if b.get("type") == "tool_use"}
    return not called


def _key_of(message: JsonObject) -> bytes:
    blocks = blocks_of(message)
    return _key_of_block(str(message.get("role")), blocks[0]) if blocks else b""


def _key_of_block(role: str, block: JsonObject) -> bytes:
    """The key by which a block is known again: the id of its call, or its words."""
    match block.get("type"):
        case "tool_use":
            return fingerprint_of([role, "call", block.get("id")])
        case "tool_result":
            return fingerprint_of([role, "result", block.get("tool_use_id")])
        case "text":
            return fingerprint_of([role, (text_at(block, "text") or "").strip()])
        case _:
            bare = {key: value for key, value in block.items() if key != "cache_control"}
            return fingerprint_of([role, bare])


def _print_of(piece: MessageBlocks) -> bytes:
    return fingerprint_of(piece.message or {"role": piece.role, "content": [*piece.blocks]})
