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
    """Take out of an environment what settings of the project may have put there; gives the
    names."""
    if not any(sign in environ for sign in _SIGNS):
        return []
    account = home_of_account()
    ours = [name for name in environ if name.startswith(_OURS) or name in _PLACES]
    left: list[str] = []
    for place in {Path(environ.get("CLAUDE_PROJECT_DIR") or folder), folder}:
        texts = [_text_of(place / path) for path in _FILES]
        said = [name for name in ours if any(_may_set(text, name, environ) for text in texts)]
        own = {account, account if "HOME" in said else environ.get("HOME", account)}
        if str(place) not in own:  # those are the user's own settings
            left += said
    for name in left:
        environ.pop(name, None)
    if "HOME" in left:
        environ["HOME"] = account
    return [*dict.fromkeys(left)]


def _may_set(text: str | None, name: str, environ: Mapping[str, str]) -> bool:
    """Whether settings name a variable. Its value is what a host makes of theirs: only a path that
    they do not hold is from elsewhere, as from our own entry of a server."""
    value = environ[name]
    return text is None or (f'"{name}"' in text and (value[:1] != "/" or value in text))


def _text_of(path: Path) -> str | None:
    """What settings say, with their escapes as they are meant; None: it cannot be read. They are
    not parsed: a host reads more than we would (other numbers, depths, comments)."""
    try:
        data = read_plain_file(path, _MOST_READ + 1)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError:
        return None
    text = _ESCAPED.sub(
        lambda found: chr(int(found[1], 16)) if found[1] else found[2].translate(_MEANT),
        data.decode(errors="replace"),
    )
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole if len(data) <= _MOST_READ else None
