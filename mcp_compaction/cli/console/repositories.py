"""Leaves out what a repository's settings of Claude Code say of us: a store that came with it could
hold anybody's words as the user's, and a summarizer of its choice would read the chats.

Standard library only: a host waits for our hooks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from mcp_compaction.git_folders import read_plain_file
from mcp_compaction.home import home_of_account

_FILES = (".claude/settings.json", ".claude/settings.local.json")
_OURS = "MCP_COMPACTION_"
_PLACES = (
    "HOME",
    "XDG_DATA_HOME",
    "XDG_CONFIG_HOME",
    "CLAUDE_CONFIG_DIR",
)  # by which a store is found, and chats
_SIGNS = ("CLAUDECODE", "CLAUDE_PROJECT_DIR")  # that Claude Code has started this process
_MOST_READ = 2**20  # bytes
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.S)
_MEANT = str.maketrans("bfnrt", "\b\f\n\r\t")


def leave_out_repository(environ: MutableMapping[str, str], folder: Path) -> list[str]:
    """Take out of an environment what settings of the project may have put there; the names."""
    if not any(sign in environ for sign in _SIGNS):
        return []
    account = home_of_account()
    left: set[str] = set()
    for place in {Path(environ.get("CLAUDE_PROJECT_DIR") or folder), folder}:
        said = {name for path in _FILES for name in _names_in(place / path, environ)}
        own = {account, account if "HOME" in said else environ.get("HOME", account)}
        left |= said if str(place) not in own else set()  # those are the user's own settings
    for name in left:
        del environ[name]
    if "HOME" in left:
        environ["HOME"] = account
    return sorted(left)


def _names_in(path: Path, environ: Mapping[str, str]) -> list[str]:
    """The variables that settings may have set. They are not parsed: a host reads more than we
    would (numbers, depths, comments), and makes values of its own. Only a path that they do not
    hold is from elsewhere, as from our entry of a server."""
    ours = [name for name in environ if name.startswith(_OURS) or name in _PLACES]
    try:
        data = read_plain_file(path, _MOST_READ + 1)
    except OSError as error:
        return [] if isinstance(error, FileNotFoundError) else ours
    if len(data) > _MOST_READ:
        return ours
    text = _ESCAPED.sub(_meant_by, data.decode(errors="replace"))
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    named = [name for name in ours if f'"{name}"' in text]
    return [name for name in named if environ[name][:1] != "/" or environ[name] in text]


def _meant_by(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else escape[2].translate(_MEANT)
