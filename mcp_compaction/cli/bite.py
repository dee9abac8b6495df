"""The hidden command `hook HOST PreToolUse`: what pins say of a call before a tool runs.

Standard library alone, and as little of it as can be: a host waits for it at every call. It always
ends with 0. Where something fails the call goes on: that is said once in a chat, and counted by
`doctor`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from threading import Timer
from typing import Any, NoReturn, TextIO

from mcp_compaction.cli.console.repositories import leave_out_repository
from mcp_compaction.errors import SettingsError
from mcp_compaction.home import RULES, default_home, mask
from mcp_compaction.hosts.hook_notes import note_trouble, read_trouble
from mcp_compaction.settings_file import given_settings

_MOST_SECONDS = 2.0
_MOST_CHARS = 2**24


def start(argv: Sequence[str]) -> NoReturn:
    """Answer one call, with the streams of the process."""
    raise SystemExit(run(argv, sys.stdout, sys.stdin, os.environ))


def run(
    argv: Sequence[str], stdout: TextIO, stdin: TextIO, environ: MutableMapping[str, str]
) -> int:
    """Answer one call."""
    host, event, *place = argv
    told: dict[str, Any] = {}
    begun: list[Any] = []
    wish = ""

    def fail(why: str, *, ends: bool = False) -> None:
        try:
            from mcp_compaction.checks.judge import is_named

            asked = "ask" if ends and any(is_named(*one) for one in begun) else str(wish)
            stdout.write(_answer_failure(host, event, why, told, environ, asked))
            stdout.flush()
        finally:
            if ends:
                os._exit(0)

    end = Timer(_MOST_SECONDS, fail, ("it took too long",), {"ends": True})
    end.daemon = True
    end.start()
    try:
        leave_out_repository(environ, Path.cwd())
        settings = _read_settings(environ)
        wish = environ.get("MCP_COMPACTION_CHECKS_FAIL") or settings.get("checks_fail") or ""
        named = place[-1] if place else environ.get("MCP_COMPACTION_HOME") or settings.get("home")
        home = default_home({**environ, "MCP_COMPACTION_HOME": str(named or "")})
        if not RULES.path(home).exists():
            end.cancel()
            return 0
        from mcp_compaction.checks.biting import bite  # not before: mostly there are none

        told |= json.loads(stdin.read(_MOST_CHARS))
        answer = bite(host, told, home, environ, begun)
    except Exception as error:  # noqa: BLE001  # a hook never stops its host
        end.cancel()
        fail(str(error) or repr(error))
    else:
        end.cancel()
        stdout.write(f"{answer}\n" if answer else "")
        stdout.flush()
    return 0


def _answer_failure(
    host: str,
    event: str,
    why: str,
    told: Mapping[str, Any],
    environ: Mapping[str, str],
    wish: str,
) -> str:
    """The call goes on, unless the user is to be asked; it is noted, and said once in a chat."""
    from mcp_compaction.checks.biting import shape_of

    shape = shape_of(host)
    is_asked = wish == "ask"
    is_behind = shape.reminds_at and told.get("hook_event_name") == shape.reminds_at
    if shape.reminds_at and bool(is_behind) == is_asked:
        return ""  # that is for its other event
    what = f"a call of chat {told.get('session_id')} was not checked"
    is_said = any(one.what.startswith(what) for one in read_trouble(environ))
    note_trouble(environ, host, event, f"{what}: {why}")
    text = f"Not all checks of pins can be read: {mask(why)}."
    if is_asked:
        verdict = "ask" if shape.asks else "deny"
    elif is_said:
        return ""
    else:
        verdict = "remind"
        text += " What cannot be read holds no call until that is mended; tell the user."
    return f"{shape.answer(verdict, text)}\n"


def _read_settings(environ: Mapping[str, str]) -> dict[str, Any]:
    """The user's settings; they may say where the store is."""
    try:
        return given_settings(environ)
    except (OSError, ValueError, SettingsError):
        return {}
