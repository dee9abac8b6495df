"""The hidden command `hook HOST EVENT`, for events that no running server can hear.

Standard library first: a host waits for it. It always ends with 0, and within two seconds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from threading import Timer
from typing import IO, Any, TextIO, cast

from mcp_compaction.cli.console.screen import Screen
from mcp_compaction.home import NEXT_PROMPT, default_home, mask
from mcp_compaction.hosts.hook_notes import RunNotes, note_trouble, seconds_allowed
from mcp_compaction.lexicon import read_hooked, read_host
from mcp_compaction.projects import find_project
from mcp_compaction.settings_file import PREFIX, given_settings
from mcp_compaction.store.listing import PinLine, list_chat_pins

_MOST_SECONDS = 1.8  # since the host has started the process
_FEWEST_SECONDS = 0.5  # where the machine is so busy that Python has taken nearly all
_USUAL_AGE = 0.1  # seconds
_MOST_SECONDS_APART = 60.0
_MOST_CHARS = 2**22
_MOST_READ = 2**23  # bytes, more than a window holds
_JUST_NOW = 30  # seconds from a view to the hook that the host runs after it
_STARTS = ("startup", "resume", "compact")  # after others the server looks what is missing
_OTHERWISE = {"store", "record", "projects"}  # settings by which other pins hold, or none


def run(
    argv: Sequence[str],
    screen: Screen,
    stdin: TextIO,
    environ: Mapping[str, str],
) -> int:
    """Handle one event; whatever fails, the host goes on as if there were no hook.

    For a process of its own: the limit holds until it is gone, with all that it waits for then.
    """
    _end_after(_limit_of(environ), argv, environ)
    try:
        host, event, *place = argv
        if place:  # --home DIR, as install has written it
            environ = {**environ, "MCP_COMPACTION_HOME": place[-1]}
        told: Any = json.loads(stdin.read(_MOST_CHARS))
        RunNotes(environ).note(host, event)
        text = _answer(host, event, cast("dict[str, Any]", told), environ)
        if text:
            screen.say(text)
    except Exception as error:  # a hook never stops its host
        if environ.get("MCP_COMPACTION_DEBUG") == "1":
            raise
        _note(argv, environ, f"it was not handled: {error!r}")
    return 0


def _limit_of(environ: Mapping[str, str]) -> float:
    """The seconds after which a hook gives up: on a slow machine a user may allow more."""
    allowed = seconds_allowed(environ)
    if allowed is not None:
        return allowed
    return max(_FEWEST_SECONDS, _MOST_SECONDS - _age_of_process())


def _age_of_process() -> float:
    """The seconds since the host has started this process, as Linux tells; elsewhere a guess."""
    try:
        stat = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace")
        ticks = int(stat.rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        return _USUAL_AGE


def _end_after(seconds: float, argv: Sequence[str], environ: Mapping[str, str]) -> None:
    end = Timer(seconds, _give_up, (argv, environ))
    end.daemon = True
    end.start()


def _give_up(argv: Sequence[str], environ: Mapping[str, str]) -> None:
    """End the process, whatever it waits for: nothing is left half done, and the host goes on."""
    try:
        _note(argv, environ, "it took too long and was ended")
    finally:
        os._exit(0)


def _note(argv: Sequence[str], environ: Mapping[str, str], what: str) -> None:
    host, event = (*argv, "", "")[:2]
    note_trouble(environ, host, event, what)


def _answer(host: str, event: str, told: dict[str, Any], environ: Mapping[str, str]) -> str:
    """The text that the host reads; empty where it has nothing to read."""
    match _moments_of(host).get(event):
        case "call":
            return _name_chat(host, event, told)
        case "rest":
            _record_apart((host, event), told, environ)
            return ""
        case "prompt":
            return _show_pins(host, event, told, environ)
        case "start" if told.get("source") in _STARTS:
            return _show_pins(host, event, told, environ)
        case _:
            return ""


def _read_known(host: str) -> dict[str, Any]:
    """What this command needs of a host; of one that hooks do not know, from its own file."""
    return read_hooked().get(host) or read_host(host)


def _moments_of(host: str) -> dict[str, str]:
    """The events that a host tells by this command, but for checks, each with its moment."""
    hooks: list[dict[str, str]] = _read_known(host).get("events", {}).get("hook", [])
    told = [hook for hook in hooks if hook["way"] == "command" and hook["moment"] != "check"]
    return {hook["event"]: hook["moment"] for hook in told}


def _name_chat(host: str, event: str, told: dict[str, Any]) -> str:
    """The answer by which a tool of ours knows which chat calls, unless a session is named."""
    given, chat = told.get("tool_input"), told.get("session_id")
    if not isinstance(given, dict) or not chat or "session" in given:
        return ""
    arguments = {**cast("dict[str, Any]", given), "session": f"{host}:{chat}"}
    more = {"hookEventName": event, "tool_input": arguments}  # all: they replace the call's own
    return json.dumps({"hookSpecificOutput": more})


def _record_apart(argv: Sequence[str], told: dict[str, Any], environ: Mapping[str, str]) -> None:
    """Record in another process: the host reads nothing of it, and so need not wait."""
    from subprocess import DEVNULL, PIPE, Popen  # which other events do without

    from mcp_compaction.program import start_python

    with Popen(
        (*start_python("from mcp_compaction.cli.hook import record_apart as r; r()"), *argv),
        stdin=PIPE,
        stdout=DEVNULL,
        stderr=DEVNULL,
        env=environ,
        start_new_session=True,
    ) as process:
        process.returncode = 0  # nobody waits for it
        cast("IO[bytes]", process.stdin).write(json.dumps(told).encode())


def record_apart() -> None:
    """Handle an event of which its host reads nothing, in the process that is for that."""
    argv = sys.argv[1:]
    _end_after(_MOST_SECONDS_APART, argv, os.environ)
    try:
        host, event, told = argv[0], argv[1], json.loads(sys.stdin.read())
        _handle_whole(host, event, told, os.environ)
        prompts = [name for name, moment in _moments_of(host).items() if moment == "prompt"]
        for prompt in prompts:  # at the prompt itself the host would wait for all of it
            answer = _handle_whole(host, prompt, {**told, "part": "records"}, os.environ)
            home = import_module("mcp_compaction.settings").load_settings(os.environ).home
            if answer:
                NEXT_PROMPT.write(home, mask(answer), str(told.get("session_id")))
    except Exception as error:  # noqa: BLE001  # the next event makes it good
        _note(argv, os.environ, f"it was not handled: {error!r}")


def _handle_whole(host: str, event: str, told: dict[str, Any], environ: Mapping[str, str]) -> str:
    """What the host reads where an event is handled with all there is, which takes long to load."""
    return import_module("mcp_compaction.cli.cold_event").handle(host, event, told, environ)


def _show_pins(host: str, event: str, told: dict[str, Any], environ: Mapping[str, str]) -> str:
    """The answer that shows the pins which do not stand in the chat, and what waits for it."""
    given, chat = given_settings(environ), str(told.get("session_id", ""))
    home = default_home({**environ, f"{PREFIX}HOME": str(given.get("home", ""))})
    known = _read_known(host)["events"]
    is_compacted = told.get("source") == "compact"
    if is_compacted and not _is_for_us(home, (host, chat), environ):
        return ""
    named = given.get("project") or environ.get(known.get("project_variable", ""))
    project = find_project(named, str(told.get("cwd", "")))
    pins = list_chat_pins(home, project, f"{host}:{chat}")
    if pins is None or not _OTHERWISE.isdisjoint(given):
        return _handle_whole(host, event, told, environ)
    there = b"" if is_compacted else _read_chat(str(told.get("transcript_path", "")), known)
    missing = [pin for pin in pins if not _stands_in(pin, there)]
    pinned = import_module("mcp_compaction.core.log.pinned")  # more for words torn out of a text
    left = (one["hookSpecificOutput"] for one in NEXT_PROMPT.read(home, dict[str, Any], chat))
    texts = [pinned.pinned_block(missing), *(one["additionalContext"] for one in left)]
    NEXT_PROMPT.path(home, chat).unlink(missing_ok=True)
    answer = {"hookEventName": event, "additionalContext": "\n".join(filter(None, texts))}
    return json.dumps({"hookSpecificOutput": answer}) if any(texts) else ""


def _is_for_us(home: Path, told: tuple[str, str], environ: Mapping[str, str]) -> bool:
    """Whether this process shows the pins after a host's compaction: no view of ours does that a
    module was just given, and no gateway."""
    from mcp_compaction.hosts.serving import find_served_chat, is_through_gateway, note_dead_server

    host, chat = told
    served = find_served_chat(home, chat)
    if served is None and is_through_gateway(home, environ, chat):
        return False
    if served is not None and time.time() - served.viewed < _JUST_NOW:
        return False
    note_dead_server(home, host, chat, environ)
    return True


def _read_chat(path: str, known: Mapping[str, Any]) -> bytes:
    """The text of a chat's file since its host compacted; empty where there is no such file."""
    if not Path(path).is_file():
        return b""
    with Path(path).open("rb") as file:
        file.seek(-min(_MOST_READ, os.fstat(file.fileno()).st_size), os.SEEK_END)
        text, end = file.read(), str(known.get("boundary_end", "")).encode()
    _, summary, rest = text.rpartition(str(known["boundary"]).encode()) if end else (b"", b"", text)
    return rest.partition(end)[2] if summary else rest


def _stands_in(pin: PinLine, chat: bytes) -> bool:
    lines = [line for line in pin.text.splitlines() if line.strip()]
    return all(json.dumps(line, ensure_ascii=False)[1:-1].encode() in chat for line in lines)
