"""The hidden command `hook HOST PreToolUse`: what pins say of a call before a tool runs.

Standard library alone, and as little of it as can be: a host waits for it at every call. It always
ends with 0. What fails is noted once for `doctor` to count, and the call goes on.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Timer
from typing import Any, NoReturn, TextIO, cast

from mcp_compaction.cli.console.repositories import leave_out_repository
from mcp_compaction.hosts.trouble import note_trouble, user_folder

_MOST_SECONDS = 2.0
_MOST_CHARS = 2**24


def start(argv: Sequence[str]) -> NoReturn:
    """Answer one call, with the streams of the process."""
    leave_out_repository(os.environ, Path.cwd())
    raise SystemExit(run(argv, sys.stdout, sys.stdin, os.environ))


def run(argv: Sequence[str], stdout: TextIO, stdin: TextIO, environ: Mapping[str, str]) -> int:
    """Answer one call."""
    host, event, *place = argv
    settings = _read_settings(environ)
    home = Path(place[-1]) if place else _home_of(environ, settings)
    if not (home / "checks" / "rules.json").exists():
        return 0
    from mcp_compaction.checks.biting import bite  # not before: mostly there are none

    end = Timer(_MOST_SECONDS, _give_up, (host, event, environ))
    end.daemon = True
    end.start()
    try:
        told: Any = json.loads(stdin.read(_MOST_CHARS))
        answer = bite(
            host, cast("dict[str, Any]", told), home, environ.get("CLAUDE_PROJECT_DIR", "")
        )
    except Exception as error:  # noqa: BLE001  # a hook never stops its host
        answer = _answer_failure(host, error, environ, settings)
        note_trouble(environ, host, event, f"a call was not checked: {error!r}")
    end.cancel()
    if answer:
        stdout.write(f"{answer}\n")
        stdout.flush()
    return 0


def _answer_failure(
    host: str, error: Exception, environ: Mapping[str, str], settings: Mapping[str, Any]
) -> str:
    """The call goes on, unless the user wants to be asked where the checks cannot be read."""
    from mcp_compaction.checks.biting import SHAPES
    from mcp_compaction.checks.file import UnreadableRulesError

    wish = environ.get("MCP_COMPACTION_CHECKS_FAIL") or settings.get("checks_fail")
    if wish != "ask" or not isinstance(error, UnreadableRulesError):
        return ""
    shape = SHAPES[host]
    text = f"The checks of your pins cannot be read: {error}. mcp-compaction doctor says more."
    return json.dumps(shape.answer(shape.event, "ask" if shape.asks else "deny", text))


def _give_up(host: str, event: str, environ: Mapping[str, str]) -> None:
    try:
        note_trouble(environ, host, event, "a call was not checked: it took too long")
    finally:
        os._exit(0)


def _read_settings(environ: Mapping[str, str]) -> dict[str, Any]:
    """The user's own settings file; it may say where the store is."""
    base = environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if base.startswith("/") else user_folder(environ) / ".config"
    path = Path(environ.get("MCP_COMPACTION_CONFIG") or folder / "mcp-compaction/config.toml")
    if not path.exists():
        return {}
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _home_of(environ: Mapping[str, str], settings: Mapping[str, Any]) -> Path:
    """The folder of the store, as `store.connect` finds it without loading SQLite."""
    if named := environ.get("MCP_COMPACTION_HOME") or settings.get("home"):
        return Path(str(named)).expanduser()
    if sys.platform == "win32":
        local = environ.get("LOCALAPPDATA")
        return (Path(local) if local else user_folder(environ) / "AppData/Local") / "mcp-compaction"
    data = environ.get("XDG_DATA_HOME", "")
    base = Path(data) if data.startswith("/") else user_folder(environ) / ".local" / "share"
    return base / "mcp-compaction"
