"""Reads sessions to measure with from a path: LoCoMo chats and tau-bench runs."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from mcp_compaction.core.log.content import text_of
from mcp_compaction.errors import InputError
from mcp_compaction.evals.measures import PlainLine, Probe, normalize
from mcp_compaction.formats import Incoming, read, read_incoming
from mcp_compaction.model import JsonObject, ToolCall

_CUT = 0.6  # how much of a run is compacted; what comes later asks for it
_FEWEST_MESSAGES = 6
_ADVERSARIAL = "5"  # LoCoMo's questions without an answer
_TURN = re.compile(r"D:?(\d+):(\d+)")  # some are joined or misspelled: D8:6; D9:17, D:11:26
_TELLING = re.compile(r"\d|_")

_Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EvalCase:
    """One session as the product records it and the baselines read it, and what to look for."""

    corpus: str
    name: str
    came: Incoming
    lines: tuple[PlainLine, ...]
    probes: tuple[Probe, ...]
    pins: tuple[str, ...] = ()


def locomo(path: Path) -> tuple[EvalCase, ...]:
    """LoCoMo's chats: answers that stand word for word in them, and the turns that hold them."""
    with _refuse_other_files(path, "a file of LoCoMo"):
        return tuple(_read_chat(chat) for chat in cast(list[_Json], _load(path)))


def tau(path: Path) -> tuple[EvalCase, ...]:
    """tau-bench runs cut at 60 %: the values that later calls pass and that were named before."""
    cases: list[EvalCase] = []
    with _refuse_other_files(path, "a file of tau-bench"):
        for number, run in enumerate(cast(list[_Json], _load(path))):
            messages = [m for m in cast(list[JsonObject], run["traj"]) if m["role"] != "system"]
            case = _read_run(f"task {run['task_id']} run {number}", messages)
            cases += [case] if case else []
    return tuple(cases)


def line_of(message: JsonObject) -> PlainLine:
    """A message as one line: its role, its words and its calls."""
    one = read_incoming([message]).messages[0]
    role, parts = read(one.shape, one.raw)
    texts = [
        f"{part.name}({json.dumps(part.arguments, ensure_ascii=False)})"
        if isinstance(part, ToolCall)
        else text_of(part)
        for part in parts
    ]
    return PlainLine(role=role, text=f"{role}: {' '.join(texts)}")


# LoCoMo


def _read_chat(chat: _Json) -> EvalCase:
    talk = cast(_Json, chat["conversation"])
    turns = [(turn, when) for session, when in _sessions_of(talk) for turn in session]
    speakers = list(dict.fromkeys(turn["speaker"] for turn, _ in turns))
    captions = [turn.get("blip_caption") for turn, _ in turns]
    texts = [
        turn["text"] + (f" [image: {caption}]" if caption else "")
        for (turn, _), caption in zip(turns, captions, strict=True)
    ]
    lines = tuple(
        PlainLine(
            role="user" if turn["speaker"] == speakers[0] else "assistant",
            text=f"{turn['speaker']}: {text}",
        )
        for (turn, _), text in zip(turns, texts, strict=True)
    )
    messages = read_incoming([{"role": line.role, "content": line.text} for line in lines]).messages
    dated = tuple(
        message.model_copy(update={"at": when})
        for message, (_, when) in zip(messages, turns, strict=True)
    )
    places = {turn["dia_id"]: n for n, (turn, _) in enumerate(turns)}
    return EvalCase(
        corpus="LoCoMo",
        name=chat["sample_id"],
        came=Incoming(messages=dated),
        lines=lines,
        probes=tuple(_read_questions(chat["qa"], places, texts)),
    )


def _sessions_of(talk: _Json) -> Iterator[tuple[list[_Json], datetime | None]]:
    number = 1
    while f"session_{number}" in talk or f"session_{number}_date_time" in talk:
        when = _parse_moment(talk.get(f"session_{number}_date_time", ""))
        yield talk.get(f"session_{number}") or [], when
        number += 1


def _parse_moment(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
    except ValueError:
        return None


def _read_questions(
    asked: Iterable[_Json], places: Mapping[str, int], texts: Sequence[str]
) -> Iterator[Probe]:
    whole = f" {normalize(' '.join(texts))} "
    for qa in asked:
        found = [(int(a), int(b)) for e in qa.get("evidence", []) for a, b in _TURN.findall(e)]
        turns = list(dict.fromkeys(places[f"D{a}:{b}"] for a, b in found if f"D{a}:{b}" in places))
        if not turns or str(qa["category"]) == _ADVERSARIAL:
            continue
        answer = normalize(str(qa.get("answer", "")))
        if answer and f" {answer} " in whole:
            yield Probe(kind="answer", test="words", needle=answer, questions=(qa["question"],))
        for turn in turns:
            yield Probe(
                kind="evidence",
                test="evidence",
                needle=texts[turn],
                questions=(qa["question"],),
                source=turn,
            )


# Runs with tool calls


def _read_run(name: str, messages: Sequence[JsonObject]) -> EvalCase | None:
    cut = int(len(messages) * _CUT)
    early, later = messages[:cut], messages[cut:]
    if len(early) < _FEWEST_MESSAGES:
        return None
    said = map(line_of, early)
    lines = tuple(PlainLine(role=o.role, text=o.text.replace("\n", " ")) for o in said)
    known = " ".join(line.text for line in lines)
    came = read_incoming([*later]).messages
    parts = [part for one in came for part in read(one.shape, one.raw)[1]]
    passed = (part.arguments for part in parts if isinstance(part, ToolCall))
    values = {value for arguments in passed for value in leaves_of(arguments)}
    wanted = sorted(v for v in values if len(v) >= 3 and v in known and _TELLING.search(v))
    asked = tuple(dict.fromkeys(q for message in later if (q := _read_request(message))))
    probes = tuple(
        Probe(kind="argument", test="exact", needle=value, questions=asked) for value in wanted
    )
    return EvalCase("tau", name, read_incoming([*early]), lines, probes) if probes else None


def leaves_of(value: object) -> Iterator[str]:
    """The texts and numbers in a JSON value, however deep."""
    if isinstance(value, dict):
        for inner in cast(dict[str, object], value).values():
            yield from leaves_of(inner)
    elif isinstance(value, list):
        for inner in cast(list[object], value):
            yield from leaves_of(inner)
    elif isinstance(value, str | int) and not isinstance(value, bool):
        yield str(value)


def _read_request(message: JsonObject) -> str:
    line = line_of(message)
    said = line.text.removeprefix("user: ").strip()
    return said if line.role == "user" and any(map(str.isalnum, said)) else ""


# Files


@contextmanager
def _refuse_other_files(path: Path, kind: str) -> Generator[None]:
    """Refuse JSON in which something is missing that every file of the kind has."""
    try:
        yield
    except (AttributeError, LookupError, TypeError):
        raise InputError(f"{path} is not {kind}; pass the file as it was published.") from None


def _load(path: Path) -> Any:
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
        return json.loads(text)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot read {path}: {error}; pass a UTF-8 file, or one with gzip."
        ) from None
    except ValueError as error:
        raise InputError(
            f"{path} is no JSON ({error}); pass the file as it was published."
        ) from None
