"""The hidden command `hook HOST EVENT`, for events that no running server can hear.

Standard library first: a host waits for it. It always ends with 0, and within two seconds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from threading import Timer
from typing import Any, Protocol, TextIO, cast

from mcp_compaction.hosts.hook_runs import RunNotes
from mcp_compaction.hosts.trouble import note_trouble
from mcp_compaction.store.connect import default_home
from mcp_compaction.store.pin_lines import read_pin_lines

_MOST_SECONDS = 1.7  # the interpreter has taken some already
_MOST_CHARS = 2**22
_MOST_ANSWER = 9500  # characters that a host takes whole
_HARMLESS = frozenset({"MCP_COMPACTION_HOME", "MCP_COMPACTION_DEBUG"})
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
    say: Callable[[str], None],
    stdin: TextIO,
    environ: Mapping[str, str],
    limit: float = _MOST_SECONDS,
) -> int:
    """Handle one event; whatever fails, the host goes on as if there were no hook."""
    end = Timer(limit, _give_up, (argv, environ))
    end.daemon = True
    end.start()
    try:
        host, event, *place = argv
        if place:  # --home DIR, as install has written it
            environ = {**environ, "MCP_COMPACTION_HOME": place[-1]}
        told: Any = json.loads(stdin.read(_MOST_CHARS))
        text = _answer(host, event, cast("dict[str, Any]", told), environ)
        if text:
            say(text)
        RunNotes(environ).note(host, event)
    except Exception as error:  # a hook never stops its host
        if environ.get("MCP_COMPACTION_DEBUG") == "1":
            raise
        _note(argv, environ, f"it was not handled: {error!r}")
    finally:
        end.cancel()
    return 0


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
    if host == "claude-code" and event == "SessionStart" and told.get("source") != "startup":
        return ""  # the running server looks what is missing at the next prompt
    if host == "claude-code" and event == "SessionStart" and not _has_settings(environ):
        folder = environ.get("CLAUDE_PROJECT_DIR") or str(told.get("cwd", ""))
        lines = read_pin_lines(default_home(environ), os.path.realpath(folder))
        context = "\n".join([_LABEL, *lines])
        if not lines or len(context) > _MOST_ANSWER:
            return ""
        answer = {"hookEventName": event, "additionalContext": context}
        return json.dumps({"hookSpecificOutput": answer})
    cold = cast("_ColdEvent", import_module("mcp_compaction.cli.cold_event"))
    return cold.handle(host, event, told, environ)


def _has_settings(environ: Mapping[str, str]) -> bool:
    """Whether a settings file may say where the store is, or that nothing is recorded."""
    base = environ.get("XDG_CONFIG_HOME", "")
    user = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    folder = Path(base) if base.startswith("/") else user / ".config"
    is_named = any(name.startswith("MCP_COMPACTION_") for name in environ.keys() - _HARMLESS)
    return is_named or (folder / "mcp-compaction").exists()
