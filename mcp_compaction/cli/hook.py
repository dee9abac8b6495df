"""The hidden command `hook HOST EVENT`, for events that no running server can hear.

Standard library first: a host waits for it. It always ends with 0, and within two seconds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from threading import Timer
from typing import IO, Any, Protocol, TextIO, cast

from mcp_compaction.cli.console.screen import Screen
from mcp_compaction.home import default_home
from mcp_compaction.hosts.hook_runs import RunNotes, seconds_allowed
from mcp_compaction.hosts.trouble import note_trouble
from mcp_compaction.projects import find_project
from mcp_compaction.settings_file import PREFIX, has_settings
from mcp_compaction.store.pin_lines import read_pin_lines

_MOST_SECONDS = 1.8  # since the host has started the process
_FEWEST_SECONDS = 0.5  # where the machine is so busy that Python has taken nearly all
_USUAL_AGE = 0.1  # seconds
_MOST_SECONDS_APART = 60.0
_MOST_CHARS = 2**22
_MOST_ANSWER = 9500  # characters that a host takes whole
_MOST_READ = 2**23  # bytes, more than a window holds
_COMPACTED = b"<state_snapshot>"  # begins what Gemini CLI writes in place of what it leaves out
_STARTS = ("SessionStart", "BeforeAgent")
_RESTS = ("AfterAgent", "SessionEnd")
_CALL = "BeforeTool"
_LABEL = "[pinned: rules, open tasks and facts in force, word for word]"


class _ColdEvent(Protocol):
    """The module that handles an event with all there is."""

    def handle(
        self, host: str, event: str, told: dict[str, Any], environ: Mapping[str, str]
    ) -> str:
        """What the host reads."""
        ...


def run(
    argv: Sequence[str],
    screen: Screen,
    stdin: TextIO,
    environ: Mapping[str, str],
) -> int:
    """Handle one event; whatever fails, the host goes on as if there were no hook.

    For a process of its own: the limit holds until it is gone, with all that it waits for then.
    """
    end = Timer(_limit_of(environ), _give_up, (argv, environ))
    end.daemon = True
    end.start()
    try:
        host, event, *place = argv
        if place:  # --home DIR, as install has written it
            environ = {**environ, "MCP_COMPACTION_HOME": place[-1]}
        told: Any = json.loads(stdin.read(_MOST_CHARS))
        RunNotes(environ).note(host, event)
        for text in _answers(host, event, cast("dict[str, Any]", told), environ):
            screen.say(text)
            screen.flush()  # so that the host has it, whatever becomes of the rest
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


def _give_up(argv: Sequence[str], environ: Mapping[str, str]) -> None:
    """End the process, whatever it waits for: nothing is left half done, and the host goes on."""
    try:
        _note(argv, environ, "it took too long and was ended")
    finally:
        os._exit(0)


def _note(argv: Sequence[str], environ: Mapping[str, str], what: str) -> None:
    host, event = (*argv, "", "")[:2]
    note_trouble(environ, host, event, what)


def _answers(
    host: str, event: str, told: dict[str, Any], environ: Mapping[str, str]
) -> Iterator[str]:
    """What the host reads, at most one text: pins at once, the rest as soon as all is loaded."""
    is_claude = host == "claude-code"
    if is_claude and event == "SessionStart" and told.get("source") != "startup":
        return  # the running server looks what is missing at the next prompt
    if event == _CALL:
        yield from _name_chat(host, event, told)
        return
    if event in _RESTS:
        _record_apart((host, event), told, environ)
        return
    # A settings file may say where the store is, or that nothing is recorded.
    is_set = has_settings(environ) or bool(environ.get(f"{PREFIX}PROJECT"))
    text = "" if is_set else _show_pins(event, told, environ)
    if text:
        yield text
    if is_claude and event == "SessionStart" and not is_set:
        return  # the running server records
    cold = cast("_ColdEvent", import_module("mcp_compaction.cli.cold_event"))
    later = cold.handle(host, event, told, environ)
    if later and not text:
        yield later


def _name_chat(host: str, event: str, told: dict[str, Any]) -> Iterator[str]:
    """The answer by which a tool of ours knows which chat calls, unless a session is named."""
    given, chat = told.get("tool_input"), told.get("session_id")
    if isinstance(given, dict) and chat and "session" not in given:
        arguments = {**cast("dict[str, Any]", given), "session": f"{host}:{chat}"}
        more = {"hookEventName": event, "tool_input": arguments}  # all: they replace the call's own
        yield json.dumps({"hookSpecificOutput": more})


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
    end = Timer(_MOST_SECONDS_APART, _give_up, (argv, os.environ))
    end.daemon = True
    end.start()
    try:
        cold = cast("_ColdEvent", import_module("mcp_compaction.cli.cold_event"))
        cold.handle(argv[0], argv[1], json.loads(sys.stdin.read()), os.environ)
    except Exception as error:  # noqa: BLE001  # the next event makes it good
        _note(argv, os.environ, f"it was not handled: {error!r}")


def _show_pins(event: str, told: dict[str, Any], environ: Mapping[str, str]) -> str:
    """The answer that shows the project's pins, unless they stand in the chat already."""
    if event not in _STARTS:
        return ""
    chat = _read_chat(str(told.get("transcript_path", "")))
    project = find_project(environ.get("CLAUDE_PROJECT_DIR"), str(told.get("cwd", "")))
    lines = read_pin_lines(default_home(environ), project)
    missing = [line for line in lines if _as_written(line) not in chat]
    context = "\n".join([_LABEL, *lines])
    if not missing or len(context) > _MOST_ANSWER:
        return ""
    answer = {"hookEventName": event, "additionalContext": context}
    return json.dumps({"hookSpecificOutput": answer})


def _read_chat(path: str) -> bytes:
    """What a chat's file holds since its host compacted; nothing where there is no such file."""
    if not Path(path).is_file():
        return b""
    with Path(path).open("rb") as file:
        file.seek(-min(_MOST_READ, os.fstat(file.fileno()).st_size), os.SEEK_END)
        return file.read().rpartition(_COMPACTED)[2]


def _as_written(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()
