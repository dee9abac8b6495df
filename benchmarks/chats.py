"""Reads chats with questions about them: LoCoMo's, long chats with an assistant, LongMemEval's."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, cast

from mcp_compaction.evals.corpora import locomo
from mcp_compaction.formats import Incoming, read_incoming

KINDS = {1: "multi-hop", 2: "temporal", 3: "open", 4: "single", 5: "adversarial"}
_TURN = re.compile(r"D:?(\d+):(\d+)")  # some are joined or misspelled: D8:6; D9:17, D:11:26
_DAYS = ("%B-%d-%Y", "%Y/%m/%d (%a) %H:%M")  # of long chats, of LongMemEval
_Json = dict[str, Any]


class Query(NamedTuple):
    """A question and the places of the turns that answer it."""

    text: str
    kind: str
    wanted: frozenset[int]


class Chat(NamedTuple):
    """One chat as it is recorded, as others search it, and what is asked about it."""

    name: str
    came: Incoming
    lines: tuple[str, ...]  # with the speaker's name, as we record them
    sessions: tuple[int, ...]  # the number of each turn's session
    queries: tuple[Query, ...]


def read_locomo(path: Path, only: range | None = None) -> list[Chat]:
    """LoCoMo's chats, or some of them, with every question that names its evidence."""
    given = cast(list[_Json], json.loads(path.read_text(encoding="utf-8")))
    chats = [
        Chat(
            name=case.name,
            came=case.came,
            lines=tuple(line.text for line in case.lines),
            sessions=tuple(_turn_sessions(chat)),
            queries=tuple(_queries(chat)),
        )
        for case, chat in zip(locomo(path), given, strict=True)
    ]
    return chats if only is None else chats[only.start : only.stop]


def _sessions_of(chat: _Json) -> list[tuple[int, list[_Json]]]:
    talk = cast(dict[str, list[_Json]], chat["conversation"])
    numbers = sorted(int(key[8:]) for key in talk if re.fullmatch(r"session_\d+", key))
    return [(number, talk[f"session_{number}"]) for number in numbers]


def _turn_sessions(chat: _Json) -> Iterator[int]:
    for number, turns in _sessions_of(chat):
        yield from [number] * len(turns)


def _queries(chat: _Json) -> Iterator[Query]:
    turns = [turn["dia_id"] for _, session in _sessions_of(chat) for turn in session]
    places = {turn: place for place, turn in enumerate(turns)}
    for qa in chat["qa"]:
        named = [f"D{int(a)}:{int(b)}" for e in qa["evidence"] for a, b in _TURN.findall(e)]
        wanted = frozenset(places[turn] for turn in named if turn in places)
        if wanted:
            yield Query(qa["question"], KINDS[qa["category"]], wanted)


def read_long(path: Path, only: range | None = None) -> list[Chat]:
    """Long chats with an assistant: a list of objects with `id`, `turns` and `questions`.

    A turn has `role`, `text`, `session` and, where its session begins, `date`; a question has
    `question`, `kind` and `evidence`, the numbers of turns counted from 0.
    """
    packed = path.read_bytes()
    text = gzip.decompress(packed) if path.suffix == ".gz" else packed
    given = cast(list[_Json], json.loads(text))
    return [_read_long_chat(chat) for chat in (given[only.start : only.stop] if only else given)]


def _read_long_chat(chat: _Json) -> Chat:
    turns = cast(list[_Json], chat["turns"])
    return Chat(
        name=f"chat {chat['id']}",
        came=_dated(turns, [turn.get("date") or "" for turn in turns], "text"),
        lines=tuple(turn["text"] for turn in turns),
        sessions=tuple(turn.get("session") or 0 for turn in turns),
        queries=tuple(
            Query(asked["question"], asked["kind"], frozenset(asked["evidence"]))
            for asked in chat["questions"]
            if asked["evidence"]
        ),
    )


def read_longmemeval(path: Path, only: range | None = None) -> list[Chat]:
    """LongMemEval's questions, each with the sessions it is asked of; without those that no turn
    answers. The turns with `has_answer` are the evidence."""
    given = cast(list[_Json], json.loads(path.read_text(encoding="utf-8")))
    chats = (_read_haystack(asked) for asked in (given[only.start : only.stop] if only else given))
    return [chat for chat in chats if chat.queries[0].wanted]


def _read_haystack(asked: _Json) -> Chat:
    sessions = cast(list[list[_Json]], asked["haystack_sessions"])
    turns = [turn for session in sessions for turn in session]
    firsts = [[day, *[""] * (len(session) - 1)] for day, session in _days_of(asked) if session]
    wanted = frozenset(n for n, turn in enumerate(turns) if turn.get("has_answer"))
    return Chat(
        name=asked["question_id"],
        came=_dated(turns, [day for days in firsts for day in days], "content"),
        lines=tuple(turn["content"] for turn in turns),
        sessions=tuple(n for n, session in enumerate(sessions) for _ in session),
        queries=(Query(asked["question"], asked["question_type"], wanted),),
    )


def _days_of(asked: _Json) -> Iterator[tuple[str, list[_Json]]]:
    yield from zip(asked["haystack_dates"], asked["haystack_sessions"], strict=True)


def _dated(turns: Sequence[_Json], days: Sequence[str], text: str) -> Incoming:
    """The turns as messages, a minute apart from the day on that the last of them named."""
    came = read_incoming([{"role": turn["role"], "content": turn[text] or " "} for turn in turns])
    moment: datetime | None = None
    messages = list(came.messages)
    for place, day in enumerate(days):
        moment = _read_day(day) or (moment + timedelta(minutes=1) if moment else None)
        messages[place] = messages[place].model_copy(update={"at": moment})
    return came.model_copy(update={"messages": tuple(messages)})


def _read_day(text: str) -> datetime | None:
    for form in _DAYS:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None
