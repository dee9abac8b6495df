"""What a host is answered before it runs a tool, in the shape that its file in the lexicon has, by
the calls that its transcript tells of.

Whatever fails here, the call goes on as if there were no hook, unless the user wants to be asked
then (setting `checks_fail`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from mcp_compaction.checks.file import (
    note_held,
    notes_of,
    one_at_a_time,
    read_rules,
    refuse_unread,
    rules_for,
    rules_path,
    take_once,
)
from mcp_compaction.checks.judge import Deed, HeldCall, Rule, is_green, judge
from mcp_compaction.checks.match import Call
from mcp_compaction.lexicon import read_host

_MOST_READ = 2**22  # bytes
_SIGNS = (b"tool_", b"_call", b"toolCalls", b"item_completed")  # of a line that tells of a call
_WORDS = ("text", "content", "output", "stdout", "functionResponse", "response")

_STUCK = (
    "\nAnother process of mcp-compaction holds {path} and does not go on; the check holds all the "
    "same. Tell the user to end it: `fuser {path}` names it."
)


def deeds_in(path: str) -> Iterator[Deed]:
    """The calls in a transcript of Claude Code, Codex or Gemini CLI; none where it cannot be
    read."""
    results: dict[str, tuple[bool | None, str]] = {}
    for line in _lines_from_end(path):
        if not any(sign in line for sign in _SIGNS):
            continue
        try:
            told: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict):
            yield from _read(cast("dict[str, Any]", told), results)


def _lines_from_end(path: str) -> Iterator[bytes]:
    try:
        with Path(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(-min(_MOST_READ, size), os.SEEK_END)
            lines = file.read().split(b"\n")
    except OSError:
        return
    yield from reversed(lines)


def _read(told: dict[str, Any], results: dict[str, tuple[bool | None, str]]) -> Iterator[Deed]:
    payload: Any = told.get("payload")
    if isinstance(payload, dict):
        yield from _read_item(cast("dict[str, Any]", payload), results)
        return
    if isinstance(told.get("toolCalls"), list):
        yield from _read_calls(cast("list[Any]", told["toolCalls"]))
        return
    message: Any = told.get("message")
    content: Any = cast("dict[str, Any]", message).get("content") if message else None
    if not isinstance(content, list):
        return
    for block in reversed(cast("list[Any]", content)):
        if not isinstance(block, dict):
            continue
        part = cast("dict[str, Any]", block)
        if part.get("type") == "tool_result":
            results[str(part.get("tool_use_id"))] = (
                bool(part.get("is_error")),
                text_of(part.get("content")),
            )
        elif part.get("type") == "tool_use" and isinstance(part.get("input"), dict):
            yield _deed(str(part.get("name")), part["input"], results.get(str(part.get("id"))))


def _read_item(item: dict[str, Any], results: dict[str, tuple[bool | None, str]]) -> Iterator[Deed]:
    call = str(item.get("call_id"))
    match item.get("type"):
        case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
            results[call] = (None, text_of(item.get("output")))
        case "function_call":
            try:
                given: Any = json.loads(item.get("arguments") or "{}")
            except ValueError:
                return
            if isinstance(given, dict):
                yield _deed(str(item.get("name")), cast("dict[str, Any]", given), results.get(call))
        case "custom_tool_call":
            given = {"input": item.get("input")}
            yield _deed(str(item.get("name")), given, results.get(call))
        case "item_completed" if isinstance(item.get("item"), dict):
            yield from _read_nested(cast("dict[str, Any]", item["item"]))
        case "local_shell_call":
            yield _deed("local_shell", dict(item.get("action") or {}), results.get(call))
        case _:
            return


def _read_nested(done: dict[str, Any]) -> Iterator[Deed]:
    """A call that a script of Codex's Code Mode has made; what the model calls itself has an item
    of its own."""
    if not str(done.get("id")).startswith("exec-"):
        return
    failed = done.get("status") != "completed"
    match done.get("type"):
        case "CommandExecution":
            result = (failed, text_of(done.get("aggregated_output")))
            yield _deed("shell", {"command": done.get("command")}, result)
        case "FileChange":
            yield _deed("apply_patch", {"paths": [*(done.get("changes") or ())]}, (failed, ""))
        case _:
            return


def _read_calls(calls: list[Any]) -> Iterator[Deed]:
    """The calls of one message of Gemini CLI, each with its result."""
    for told in (cast("dict[str, Any]", one) for one in reversed(calls) if isinstance(one, dict)):
        if isinstance(told.get("args"), dict):
            failed = told.get("status") != "success"
            yield _deed(str(told.get("name")), told["args"], (failed, text_of(told.get("result"))))


def _deed(tool: str, given: dict[str, Any], result: tuple[bool | None, str] | None) -> Deed:
    return Deed(tool, given, None if result is None else is_green(*result))


def text_of(value: Any) -> str:
    """The words of a result, whatever its shape."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(map(text_of, cast("list[Any]", value)))
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value)
        return "\n".join(text_of(parts[key]) for key in _WORDS if key in parts)
    return ""


class Shape(NamedTuple):
    """How a host tells of a call, and what it reads; see `[answers]` in lexicon/hosts/README.md."""

    event: str
    asks: bool
    verdict: dict[str, Any]
    reminder: dict[str, Any]
    reminds_at: str = ""

    def answer(self, verdict: str, text: str) -> str:
        """The answer that the host reads, as JSON."""
        answer = json.dumps(self.reminder if verdict == "remind" else self.verdict)
        for sign, words in {"event": self.event, "verdict": verdict, "text": text}.items():
            answer = answer.replace(f'"{{{sign}}}"', json.dumps(words))
        return answer


def shape_of(host: str) -> Shape:
    """The answers that a host understands before a tool runs."""
    return Shape(**read_host(host)["answers"])


class HookCall(NamedTuple):
    """A call as a hook is told of it, and which of two hooks it is."""

    host: str
    session: str
    call: str
    way: str


def bite(
    host: str,
    told: Mapping[str, Any],
    home: Path,
    environ: Mapping[str, str] = MappingProxyType({}),
    begun: list[tuple[Call, list[Rule]]] | None = None,
) -> str:
    """What the host reads, as JSON; nothing where no pin speaks of the call. In `begun` stands what
    is judged, which may take too long."""
    rules = read_rules(home)
    if not rules:
        return ""
    shape, known = shape_of(host), read_host(host).get("events", {})
    root = environ.get(known.get("project_variable", ""), "")
    way = "plugin" if environ.get(known.get("plugin_variable", "")) else ""
    folder, session = str(told.get("cwd") or ""), str(told.get("session_id") or "")
    rules = rules_for(rules, (root, folder), session)
    given: Any = told.get("tool_input")
    if isinstance(given, str):
        given = {"input": given}
    if not rules or not isinstance(given, dict):
        return ""
    arguments = cast("dict[str, Any]", given)
    where = str(arguments.get("workdir") or arguments.get("cwd") or folder)
    call = Call(str(told.get("tool_name") or ""), arguments, where, root or folder)
    if begun is not None:
        begun.append((call, rules))
    held = judge(call, rules, lambda: _deeds_of(told))
    if shape.reminds_at:
        is_after = told.get("hook_event_name") == shape.reminds_at
        held = [one for one in held if (one.verdict == "remind") == is_after]
    call_id = str(told.get("tool_use_id") or told.get("call_id") or "")
    if not held:
        refuse_unread(rules)
        return ""
    with one_at_a_time(home) as is_alone:
        first = _first_in_force(held, home, HookCall(host, session, call_id, way))
    if first is None:
        return ""
    verdict, text = first.verdict, _text_of(first, held, asks=shape.asks)
    if not is_alone:
        text += _STUCK.format(path=rules_path(home))
    if verdict == "ask" and not shape.asks:
        verdict = "deny"
    return shape.answer(verdict, text)


def _deeds_of(told: Mapping[str, Any]) -> Iterator[Deed]:
    """The calls before this one, as the host tells of them, or as its transcript does."""
    if "deeds" not in told:
        yield from deeds_in(str(told.get("transcript_path") or ""))
        return
    for one in reversed(cast("list[dict[str, Any]]", told["deeds"])):
        green = is_green(bool(one.get("failed")), str(one.get("output") or ""))
        yield Deed(str(one.get("tool")), dict(one.get("given") or {}), green)


def _first_in_force(held: list[HeldCall], home: Path, asked: HookCall) -> HeldCall | None:
    """The strictest that the user has not lifted for this call. It is noted, and lifted, by the
    first of two hooks that the same call is told to."""
    *_, session, call, way = asked
    before = {note.pin: note.verdict for note in notes_of(home, session, call, way)}
    for one in held:
        pin = one.rule.pin
        is_lifted = not before and one.verdict != "remind" and take_once(home, pin)
        if not before:
            note_held(home, one._replace(verdict="allowed") if is_lifted else one, *asked)
        if not is_lifted and before.get(pin) != "allowed":
            return one
    return None


def _text_of(first: HeldCall, held: list[HeldCall], *, asks: bool) -> str:
    """The words that quote the pins; where the host cannot ask, they name the way past them."""
    text = "\n".join(one.text for one in dict.fromkeys((first, *held)))
    if first.verdict == "remind" or (asks and first.verdict == "ask"):
        return text
    return f"{text}\n{first.way_past}"
