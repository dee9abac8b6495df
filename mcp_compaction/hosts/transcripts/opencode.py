"""Sessions of opencode: rows of its SQLite file, which is only read.

A message gets its parts one after another. The newest one is therefore left until it is complete;
an older one is as complete as it will ever be.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import JsonValue

from mcp_compaction.compactor.results import HOST_COMPACTED
from mcp_compaction.errors import InputError, MalformedMessage
from mcp_compaction.formats import IncomingMessage
from mcp_compaction.formats.arrival import parse_moment
from mcp_compaction.formats.content import parse_object
from mcp_compaction.hosts.transcripts.files import address_of, open_regular
from mcp_compaction.hosts.transcripts.pieces import (
    MOST_BYTES,
    MOST_MESSAGES,
    Chat,
    Compacted,
    TranscriptLine,
    TranscriptPart,
    count_at,
    message_of,
    object_at,
    text_at,
)
from mcp_compaction.model import Event, JsonObject, Speaker
from mcp_compaction.ports import Mark

NAME: Final = "opencode"
WRITTEN: Final = ":written"  # ends the id of what opencode wrote beside the words of the user
PUT_BACK: Final = "[records: put back by mcp-compaction]"
"""Begins what we have put behind a summary of opencode: no word of its model."""
_QUESTION = "question"  # the tool by which an agent asks the user
RESULTS: Final = ":results"  # ends the id of the results of an answer's calls
_SIGNATURE = b"SQLite format 3\0"
_PATIENCE_SECONDS = 2.0


class _Row(NamedTuple):
    id: str
    created: int
    message: JsonObject
    parts: list[JsonObject]
    size: int
    is_newest: bool


@dataclass(frozen=True, slots=True)
class DatabaseTranscript:
    """One session in opencode's file; its position is the time of its newest recorded message."""

    path: Path  # real: without links
    is_hosts_word: bool
    session: str

    @property
    def host(self) -> str:
        """The name of the host that wrote it."""
        return NAME

    @property
    def address(self) -> str:
        """The hash of where it is."""
        return self.address_if(self.is_hosts_word)

    def address_if(self, is_hosts_word: bool) -> str:
        """The address that it has where it is read as the host's word, or as the agent's."""
        return address_of(self.path, is_hosts_word, self.session)

    def size(self) -> int:
        """Nothing: it shares its file with others."""
        return 0

    def chat(self) -> Chat:
        """The chat that the session's own row describes."""
        with _open(self.path) as connection:
            row = connection.execute(
                "SELECT parent_id, directory FROM session WHERE id = ?", (self.session,)
            ).fetchone()
        parent, folder = (text if isinstance(text, str) else None for text in row or (None, None))
        return Chat(session=self.session, parent=parent, folder=folder)

    def read(self, mark: Mark | None) -> TranscriptPart:
        """The messages after a mark that are complete."""
        piece = TranscriptPart(
            position=mark.position if mark else 0, tail=mark.tail if mark else ""
        )
        size = 0
        with _open(self.path) as connection:
            for row in _rows_after(connection, self.session, piece):
                if row.is_newest and not _is_complete(row):
                    break
                if piece.count >= MOST_MESSAGES - 1 or size > MOST_BYTES:
                    piece.is_last = False
                    break
                piece.position, piece.tail = row.created, row.id
                size += row.size
                piece.skipped += (row.message, *row.parts).count({})
                try:
                    piece.add(_read_row(row))
                except MalformedMessage:
                    piece.skipped += 1
        return piece

    def lines(self) -> Iterator[TranscriptLine]:
        """All messages of the transcript, in its order; rows that cannot be read are left out."""
        with _open(self.path) as connection:
            for row in _rows_after(connection, self.session, TranscriptPart(position=0)):
                with suppress(MalformedMessage):
                    yield _read_row(row)


def transcripts_in(path: Path, is_hosts_word: bool) -> Iterator[DatabaseTranscript]:
    """The transcripts of the sessions in a file of opencode, those that started others first."""
    with _open(path) as connection:
        rows = connection.execute("SELECT id FROM session ORDER BY parent_id, time_created, id")
        found = [session for (session,) in rows if isinstance(session, str)]
    yield from (DatabaseTranscript(path, is_hosts_word, session) for session in found)


def messages_in(info: JsonObject, parts: list[JsonObject]) -> tuple[IncomingMessage, ...]:
    """The messages that one of opencode's tells, by its own row and those of its parts."""
    created = object_at(info, "time").get("created")
    moment = created if isinstance(created, int) else 0
    row = _Row(text_at(info, "id") or "", moment, info, parts, size=0, is_newest=False)
    return _read_row(row).messages


def is_database(path: Path) -> bool:
    """Whether a file is one of SQLite."""
    with open_regular(path) as file:
        return file.read(len(_SIGNATURE)) == _SIGNATURE


@contextmanager
def _open(path: Path) -> Generator[sqlite3.Connection]:
    open_regular(path).close()
    try:
        address = f"{path.as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=_PATIENCE_SECONDS)) as connection:
            connection.text_factory = partial(str, encoding="utf-8", errors="replace")
            yield connection
    except sqlite3.Error as error:
        raise InputError(
            f"{str(path)!r} is not read as a file of opencode: {error}; try again, or pass another."
        ) from None


def _rows_after(
    connection: sqlite3.Connection, session: str, piece: TranscriptPart
) -> Iterator[_Row]:
    newest = connection.execute(
        "SELECT id FROM message WHERE session_id = ? AND typeof(time_created) = 'integer'"
        " ORDER BY time_created DESC, id DESC LIMIT 1",
        (session,),
    ).fetchone()
    found = connection.execute(
        "SELECT id, time_created, data FROM message WHERE session_id = ?"
        " AND ((time_created, id) > (?, ?) OR typeof(time_created) <> 'integer')"
        " ORDER BY time_created, id",
        (session, piece.position, piece.tail),
    )
    for number, created, data in found:
        if not (isinstance(number, str) and isinstance(created, int)):
            piece.skipped += 1
            continue
        asked = "SELECT data FROM part WHERE message_id = ? ORDER BY id"
        found_parts = (text for (text,) in connection.execute(asked, (number,)))
        parts = [text for text in found_parts if isinstance(text, str)]
        yield _Row(
            number,
            created,
            _object_in(data),
            [_object_in(text) for text in parts],
            size=sum(map(len, parts)),
            is_newest=(number,) == newest,
        )


def _object_in(text: str) -> JsonObject:
    """What a row holds; nothing where it is damaged."""
    try:
        return parse_object(text, "the row")
    except (MalformedMessage, TypeError):
        return {}


def _is_complete(row: _Row) -> bool:
    if row.message.get("role") == "user":
        return bool(row.parts)
    return bool(object_at(row.message, "time").get("completed") or row.message.get("error"))


def _read_row(row: _Row) -> TranscriptLine:
    if row.message.get("role") == "user":
        return _read_user(row)
    used = object_at(row.message, "tokens")
    total = count_at(used, "total") or sum(
        count_at(group, key)
        for group in (used, object_at(used, "cache"))
        for key in ("input", "output", "read", "write")
    )
    # The summary was made in another window.
    is_summary = row.message.get("summary") is True
    texts = [_text_of(row, part) for part in row.parts if part.get("type") == "text"]
    return TranscriptLine(
        tuple(_read_answer(row)),
        reported=None if is_summary else total or None,
        model=text_at(row.message, "modelID"),
        summary="\n".join(texts) if is_summary else "",
    )


def _read_user(row: _Row) -> TranscriptLine:
    texts = [part for part in row.parts if part.get("type") == "text"]
    typed = [part for part in texts if part.get("synthetic") is not True]
    written = [part for part in texts if part.get("synthetic") is True]
    said = [
        *_message_of_texts(row, typed, row.id),
        *_message_of_texts(row, written, f"{row.id}{WRITTEN}", "host"),
    ]
    moment = parse_moment(row.created)
    asked = next((part for part in row.parts if part.get("type") == "compaction"), None)
    if asked is None or moment is None:
        return TranscriptLine(tuple(said))
    detail = "auto" if asked.get("auto") is True else "manual"
    event = Event(name=HOST_COMPACTED, at=moment, detail=detail)
    return TranscriptLine(tuple(said), events=(event,), compacted=Compacted(trigger=detail))


def _message_of_texts(
    row: _Row, parts: list[JsonObject], host_id: str, speaker: Speaker = ""
) -> tuple[IncomingMessage, ...]:
    content: list[JsonValue] = [
        {"type": "text", "text": text_at(part, "text") or ""} for part in parts
    ]
    return message_of(
        {"role": "user", "content": content}, "anthropic", host_id, row.created, speaker=speaker
    )


def _read_answer(row: _Row) -> Iterator[IncomingMessage]:
    """The words and calls of an answer, then the results of the calls."""
    blocks: list[JsonValue] = []
    results: list[JsonValue] = []
    for part in row.parts:
        match part.get("type"):
            case "text":
                blocks.append({"type": "text", "text": _text_of(row, part)})
            case "reasoning":
                blocks.append(_thinking_of(part))
            case "tool" if text_at(part, "callID"):
                blocks.append(_call_of(part))
                results += _results_of(part)
            case _:
                pass
    answer: JsonObject = {"role": "assistant", "content": blocks}
    summed_up: Speaker = "host" if row.message.get("summary") is True else ""
    yield from message_of(answer, "anthropic", row.id, row.created, speaker=summed_up)
    told: JsonObject = {"role": "user", "content": results}
    asked = [part.get("tool") == _QUESTION for part in row.parts if part.get("type") == "tool"]
    speaker: Speaker = "user" if asked and all(asked) else ""
    yield from message_of(told, "anthropic", f"{row.id}{RESULTS}", row.created, speaker=speaker)


def _text_of(row: _Row, part: JsonObject) -> str:
    """The words of an answer; of a summary only what its model has written."""
    text = text_at(part, "text") or ""
    return text.partition(PUT_BACK)[0].rstrip() if row.message.get("summary") is True else text


def _thinking_of(part: JsonObject) -> JsonObject:
    """A model's reasoning, with what its provider signed it by."""
    told = [one for one in object_at(part, "metadata").values() if isinstance(one, dict)]
    hidden = next((data for one in told if (data := text_at(one, "redactedData"))), None)
    if hidden is not None:
        return {"type": "redacted_thinking", "data": hidden}
    block: JsonObject = {"type": "thinking", "thinking": text_at(part, "text") or ""}
    signature = next((signed for one in told if (signed := text_at(one, "signature"))), None)
    return block if signature is None else {**block, "signature": signature}


def _call_of(part: JsonObject) -> JsonObject:
    given = object_at(object_at(part, "state"), "input")
    return {"type": "tool_use", "id": part["callID"], "name": part.get("tool"), "input": given}


def _results_of(part: JsonObject) -> list[JsonValue]:
    state = object_at(part, "state")
    is_error = state.get("status") == "error"
    if not is_error and state.get("status") != "completed":
        return []
    text = text_at(state, "error" if is_error else "output") or ""
    block: JsonObject = {"type": "tool_result", "tool_use_id": part["callID"], "content": text}
    return [{**block, "is_error": True} if is_error else block]
