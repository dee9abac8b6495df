"""The rows of a chat of Claude Code: what its transcript holds, and what a view makes of them.

A row is one block: an answer with a thought, a text and two calls is four rows. What a user said is
handed back by its handle, which is the row's id in the transcript; so is a result that holds an
image, which cannot be built. All else is built anew: kept by their handles, answers and results
have a host that resumes the chat go back to where they first stood, before the compaction.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, cast

from mcp_compaction.core.log.conversation import is_own_tool
from mcp_compaction.core.log.pinned import PINNED_LABEL, shown_text
from mcp_compaction.core.text.host_texts import summary_in, without_host_texts
from mcp_compaction.errors import InputError
from mcp_compaction.formats.anthropic import NOT_SHOWN
from mcp_compaction.formats.content import blocks_of, objects_in
from mcp_compaction.formats.identity import fingerprint_of
from mcp_compaction.formats.thinking import without_thinking
from mcp_compaction.hosts.transcripts.claude_code import (
    agent_of,
    is_boundary,
    is_built,
    is_queued,
    is_skill,
    message_in,
    preserved_by,
    told_by_hooks,
)
from mcp_compaction.hosts.transcripts.files import open_regular
from mcp_compaction.hosts.transcripts.pieces import object_at, says_something, text_at
from mcp_compaction.model import JsonObject, Pin

_SKIPPED = b'{"type":"api-request'  # requests as they were sent: most of a transcript's bytes
_MOST_SKILLS = 5
_MOST_BYTES = 2**28  # that are read at once


class Row(NamedTuple):
    """One row of a chat.

    What a compaction keeps is written down once more, under another id and without what it has
    cost. The message of such a row is the first one; of one that we have cut, all but the cut is.
    """

    uuid: str
    message: JsonObject
    has_no_handle: bool = False  # typed while the agent was at work, or the host has it no more
    is_meta: bool = False  # the host's own word, which it may send in another way
    is_skill: bool = False  # the text of a skill, which a host puts back after a compaction
    is_copy: bool = False  # of one that was there before the last compaction
    has_pins: bool = False  # a hook has shown pins with it, which the host keeps where it is kept


class ChatRows:
    """The rows of one chat since it was last compacted; each line is read once."""

    def __init__(self, path: Path, agent: str = "") -> None:
        self.path = path
        self.agent = agent  # the subagent whose rows they are; the main chat's have no name
        self.compactions = 0  # that were read of
        self._rows: dict[str, Row] = {}  # in the order of the transcript
        self._first: dict[bytes, JsonObject] = {}  # as each thing was first written
        self._used: set[bytes] = set()  # of these, since the last compaction
        self._said: dict[bytes, list[JsonObject]] = {}  # the same, by who said what
        self._built: dict[bytes, list[str]] = {}  # rows that say it since, by their ids
        self._told: list[str] = []  # what hooks have told the model since the last compaction
        self._lines: dict[str, None] = {}  # the ids of all lines since then, in order
        self.left: set[str] = set()  # rows that the host has gone back behind, by their ids
        self.position = 0  # in the file, to which it was read

    def has_all(self, handles: Collection[str]) -> bool:
        """Whether the transcript has told of all of these rows, as far as it was read."""
        return all(handle in self._rows for handle in handles)

    def read(self) -> None:
        """Read what is new in the transcript."""
        try:
            with open_regular(self.path) as file:
                if file.seek(0, 2) < self.position:  # written anew
                    self._rows, self._first, self._used, self._said = {}, {}, set(), {}
                    self._built, self._told, self.position = {}, [], 0
                    self._lines, self.left = {}, set()
                file.seek(self.position)
                data = file.read(_MOST_BYTES)
        except InputError:  # it is not there yet, or not any more
            return
        whole = data[: data.rfind(b"\n") + 1]
        self.position += len(whole)
        for line in whole.split(b"\n"):
            if line and not line.startswith(_SKIPPED):
                self._add(line)

    def _add(self, line: bytes) -> None:
        try:
            value: object = json.loads(line)
        except (ValueError, RecursionError):
            return
        obj = cast("JsonObject", value) if isinstance(value, dict) else {}
        if agent_of(obj) != self.agent:
            return
        if is_boundary(obj):  # what stays was there just now
            self.compactions += 1
            self._first = {key: self._first[key] for key in self._used}
            self._said, self._built = {}, {}
            for row in self._rows.values():
                self._said.setdefault(_print_of(row.message), []).append(row.message)
            kept = preserved_by(obj)
            self._rows = {uuid: row for uuid, row in self._rows.items() if uuid in kept}
            self._used, self._told, self.left = set(), [], set()
            self._lines = dict.fromkeys(self._rows)
        told = told_by_hooks(obj)
        self._told += told
        if any(PINNED_LABEL in text for text in told) and self._rows:
            newest = next(reversed(self._rows))
            self._rows[newest] = self._rows[newest]._replace(has_pins=True)
        uuid, message = text_at(obj, "uuid"), message_in(obj, self.path)
        self._lines[uuid or ""] = None
        parent = text_at(obj, "parentUuid") or ""
        if parent in self._lines and obj.get("promptSource") is not None:
            self._leave_behind(parent)
        if uuid and message.get("content"):
            said = self._take_said(uuid, message) if is_built(obj) else None
            moment = text_at(obj, "timestamp") or ""
            message, is_copy = self._as_first(message, moment, is_built(obj), said)
            is_meta = obj.get("isMeta") is True or obj.get("isApiErrorMessage") is True
            skill = (is_meta or is_built(obj)) and is_skill(message)
            self._rows[uuid] = Row(uuid, message, is_queued(obj), is_meta, skill, is_copy)

    def _take_said(self, uuid: str, message: JsonObject) -> JsonObject | None:
        """What a row that was built anew is of what was said: of several equal ones the last, of
        which those that were built before it are the ones before."""
        same = self._said.get(_print_of(message), [])
        built = self._built.setdefault(_print_of(message), [])
        if len(built) == len(same):
            return None
        for place, one in enumerate(built, start=len(same) - len(built) - 1):
            self._rows[one] = self._rows[one]._replace(message={**same[place]})
        built.append(uuid)
        return same[-1]

    def _as_first(
        self, message: JsonObject, moment: str, is_built: bool, said: JsonObject | None
    ) -> tuple[JsonObject, bool]:
        """A message as it was first written, and whether this is not the first time; what says
        something else now says it here, too."""
        blocks = blocks_of(message)
        call = _ids_in(message, "tool_use", "id") or _ids_in(message, "tool_result", "tool_use_id")
        if len(call) == len(blocks) == 1:
            key = fingerprint_of([message.get("role"), *call])
        else:
            key = fingerprint_of([message.get("role"), moment, message.get("content")])
        is_known = said is not None or key in self._first
        if is_built and not is_known and message.get("role") == "assistant":
            return {}, False  # another plugin has put it into the model's mouth: nobody knows of it
        first = said or self._first.get(key, message)
        self._first[key] = first
        self._used.add(key)
        if message.get("content") == first.get("content"):
            return {**first}, is_known  # an object of its own: each row is known by it
        (known,) = blocks_of(first)
        return {**first, "content": [{**known, **blocks[0]}]}, is_known

    def _leave_behind(self, line: str) -> None:
        """Note that the host goes on from a line: what came after it may be gone."""
        lines = list(self._lines)
        self.left.update(self._rows.keys() & lines[lines.index(line) + 1 :])

    def go_back(self, last: object) -> None:
        """Hear which row is the host's last one, as the module tells it; empty: it has none."""
        told = read_told(last)
        same = (uuid for uuid, row in self._rows.items() if _says_same(row.message, told))
        *_, found = ("", *same)
        if found:
            self._leave_behind(found)
        elif not told:
            self.left.update(self._rows)

    def list_current(self) -> list[Row]:
        """The rows that the host has now, as far as the transcript tells."""
        rows = [row for row in self._rows.values() if not row.has_no_handle]
        rows = [row for row in rows if not row.is_meta and not row.is_skill]
        return [row for row in rows if is_said(row.message)]

    def shows(self, pin: Pin) -> bool:
        """Whether the window tells of a pin: its user said it, a call made it, or it was shown."""
        shown = shown_text(pin.text)
        if any(shown in text for text in self._told):
            return True
        rows = (row for row in self._rows.values() if row.uuid not in self.left)
        blocks = (one for row in rows for one in _words_in(row.message))
        return any(pin.text in text or shown in text for text in blocks)

    def in_order(self, rows: Sequence[Row]) -> list[Row]:
        """Rows as the transcript has them, and the record: a host shows results of calls at the
        same time in the order of the calls, whichever came first."""
        places = {uuid: n for n, uuid in enumerate(self._rows)}
        after = list(accumulate((places.get(row.uuid, -1) for row in rows), _known_or_before))
        return [row for _, row in sorted(zip(after, rows, strict=True), key=itemgetter(0))]

    def list_skills(self) -> list[JsonObject]:
        """The texts of the skills that were invoked, the newest last: a host gives no handles for
        them, and would put them back after a compaction of its own."""
        skills = [row.message for row in self._rows.values() if row.is_skill]
        return list({_print_of(message): message for message in skills}.values())[-_MOST_SKILLS:]

    def list_rows(self, handles: Sequence[str], told: Sequence[object]) -> list[Row]:
        """The rows that the host has, and the prompts between them that it gives no handle.

        `told`: what the module tells of each of these rows, where the transcript does not.
        """
        rows = [
            self._rows.get(h) or Row(h, read_told(t)) for h, t in zip(handles, told, strict=True)
        ]
        known = {*handles}
        places = {uuid: n for n, uuid in enumerate(self._rows)}
        every = self._rows.values()
        for one in [row for row in every if row.has_no_handle and row.uuid not in known]:
            before = [
                n for n, row in enumerate(rows) if places.get(row.uuid, -1) < places[one.uuid]
            ]
            if before and before[-1] + 1 == len(before):  # else the chat went back behind it
                rows.insert(len(before), one)
        return [row for row in rows if is_said(row.message) and not row.is_skill]


def is_said(message: JsonObject) -> bool:
    """Whether a row says anything: commands and what they printed are the host's own, which writes
    it down late, and the same words again and again. Its summary stands for what was said."""
    if message.get("role") != "user":
        return says_something(message)
    texts = [text_at(one, "text") or "" for one in blocks_of(message) if one.get("type") == "text"]
    is_more = len(texts) < len(blocks_of(message))
    return is_more or any(summary_in(one) or without_host_texts(one).strip() for one in texts)


def _says_same(message: JsonObject, told: JsonObject) -> bool:
    return bool(told) and _essence_of(message) == _essence_of(told)


def _essence_of(message: JsonObject) -> list[object]:
    """What a row is known by where the host tells of it without its id."""
    blocks = blocks_of(message)
    texts = [(text_at(one, "text") or "").strip() for one in blocks if one.get("type") == "text"]
    calls = _ids_in(message, "tool_use", "id") + _ids_in(message, "tool_result", "tool_use_id")
    return [message.get("role"), calls, *texts]


def _known_or_before(before: int, place: int) -> int:
    return place if place >= 0 else before


def as_sent(shown: Sequence[Row | JsonObject], rows: Sequence[Row]) -> list[Row | JsonObject]:
    """What a view shows, with rows that stand side by side in the order in which they were sent."""
    order = {row.uuid: n for n, row in enumerate(rows)}
    laid: list[Row | JsonObject] = []
    for _, side_by_side in groupby(shown, type):
        laid += sorted(side_by_side, key=lambda one: order[one.uuid] if isinstance(one, Row) else 0)
    # A row that the host's own compaction kept was said before its summary, and is sent behind it.
    heads = [message_of(one) for one in laid[:2]]
    needs_none = len(heads) > 1 and heads[1].get("role") == "user"
    return laid[1:] if needs_none and heads[0].get("content") == NOT_SHOWN else laid


def message_of(one: Row | JsonObject) -> JsonObject:
    """The message of a row, or what was made anew."""
    return one.message if isinstance(one, Row) else one


def read_told(told: object) -> JsonObject:
    """The message of a row as the module tells it: its text, its calls and its results."""
    row = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
    content: list[Any] = [
        {
            "type": "tool_result",
            "tool_use_id": str(one.get("tool_use_id") or ""),
            "content": str(one.get("text") or ""),
            **({"is_error": True} if one.get("isError") is True else {}),
        }
        for one in objects_in(row.get("toolResults"))
    ]
    if isinstance(row.get("text"), str) and row["text"].strip():
        content.append({"type": "text", "text": row["text"]})
    content += [
        {
            "type": "tool_use",
            "id": str(one.get("tool_use_id") or ""),
            "name": str(one.get("tool") or ""),
            "input": one.get("input") if isinstance(one.get("input"), dict) else {},
        }
        for one in objects_in(row.get("toolUses"))
    ]
    role = "assistant" if row.get("role") == "assistant" else "user"
    return {"role": role, "content": content} if content else {}


def tell_rows(
    shown: Sequence[Row | JsonObject], skills: Sequence[JsonObject] = ()
) -> list[JsonObject]:
    """What stands after a compaction: rows of the host by their handles, and built ones. Skills
    that are not shown follow the first words.

    Thinking is bound to what stood before it, so that it goes. Raises InputError where the host
    could not go on with it: a chat begins with a user's words, and each call has its result.
    """
    there = {_print_of(message_of(one)) for one in shown}
    left = [message for message in skills if _print_of(message) not in there]
    bare = [(one, without_thinking(message_of(one))) for one in (*shown[:1], *left, *shown[1:])]
    said = [(one, message) for one, message in bare if message is not None]
    _check([message for _, message in said])
    return [
        {"handle": one.uuid} if isinstance(one, Row) and _needs_handle(one) else build_row(message)
        for one, message in said
    ]


def _needs_handle(row: Row) -> bool:
    """Whether a row goes back by its handle: it is a user's, or a result with more than words."""
    if row.has_no_handle or row.has_pins or row.message["role"] != "user":
        return False
    results = [one for one in blocks_of(row.message) if one.get("type") == "tool_result"]
    kinds = [one.get("type") for result in results for one in blocks_of(result)]
    return not results or any(kind != "text" for kind in kinds)


def _print_of(message: JsonObject) -> bytes:
    return fingerprint_of({"role": message.get("role"), "content": message.get("content")})


def build_row(message: JsonObject) -> JsonObject:
    """A message as a row of the host, built anew."""
    blocks = blocks_of(message)
    texts = [text_at(one, "text") or "" for one in blocks if one.get("type") == "text"]
    results: list[Any] = [
        {
            "tool_use_id": one.get("tool_use_id"),
            "text": _text_of_result(one),
            "isError": one.get("is_error") is True,
        }
        for one in blocks
        if one.get("type") == "tool_result"
    ]
    calls: list[Any] = [
        {"tool_use_id": one.get("id"), "tool": one.get("name"), "input": object_at(one, "input")}
        for one in blocks
        if one.get("type") == "tool_use"
    ]
    row: JsonObject = {"role": message["role"], "text": "\n\n".join(filter(None, texts))}
    row["toolUses"] = calls
    return {**row, "toolResults": results} if results else row


def _text_of_result(block: JsonObject) -> str:
    return "\n".join(text_at(one, "text") or "" for one in blocks_of(block))


def _check(messages: Sequence[JsonObject]) -> None:
    first = messages[0] if messages else {}
    if first.get("role") != "user" or _ids_in(first, "tool_result", "tool_use_id"):
        raise InputError("a chat begins with words of its user; nothing was changed.")
    called = [one for message in messages for one in _ids_in(message, "tool_use", "id")]
    results = [one for m in messages for one in _ids_in(m, "tool_result", "tool_use_id")]
    if sorted(called) != sorted(results):
        raise InputError("a call would be without its result; nothing was changed.")


def _words_in(message: JsonObject) -> Iterator[str]:
    """What a message says in the user's role, or asks of our own tools."""
    for block in blocks_of(message):
        if block.get("type") == "text" and message.get("role") == "user":
            yield text_at(block, "text") or ""
        elif block.get("type") == "tool_use" and is_own_tool(text_at(block, "name") or ""):
            yield text_at(object_at(block, "input"), "text") or ""


def _ids_in(message: JsonObject, kind: str, key: str) -> list[str]:
    return [str(one.get(key)) for one in blocks_of(message) if one.get("type") == kind]
