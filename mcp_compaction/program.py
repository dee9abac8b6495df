"""The command of this very installation, texts whose commands work where they are read, and whether
a process runs."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

PROGRAM: Final = "mcp-compaction"

_OF_WINDOW = frozenset({"stats", "show", "compress", "restore", "pin", "unpin", "pins"})
_WITH_SESSION = _OF_WINDOW | {"record", "recall", "store export", "set"}
_WITH_PROJECT = _WITH_SESSION | {"sessions", "doctor", "store forget", "trust"}
_WITH_HOME = _WITH_PROJECT | {"store backup", "store restore", "install", "uninstall"}
# The options that say where a command works, and the commands that take them.
TAKEN_BY: Final[Mapping[str, frozenset[str]]] = {
    "--home": _WITH_HOME,
    "--project": _WITH_PROJECT,
    "--session": _WITH_SESSION,
}
# In every text a command to type stands after a colon; "the mcp-compaction process" is none.
_COMMAND = re.compile(
    rf"(?<=: ){PROGRAM} (?P<verb>(?:(?:store|team|eval) )?[a-z]+|COMMAND|--help)\b"
    r"(?P<asks_help> --help)?"
)
# Where uv keeps what `uvx` runs, until its cache is cleaned.
_UV_CACHE = re.compile(r"(?:archive|environments|builds)-v\d+")


def installed_command() -> tuple[str, ...]:
    """The words that start this very installation, from whatever folder."""
    running = Path(sys.argv[0])
    beside = [Path(sys.executable).with_name(f"{PROGRAM}{end}") for end in ("", ".exe")]
    for script in (running, *beside):
        # A relative one could be anybody's: it is looked for in the working directory.
        if script.stem == PROGRAM and script.is_absolute() and script.is_file():
            return (str(script),)
    return start_python("from mcp_compaction.cli.entry import run; run()")


def start_python(code: str) -> tuple[str, ...]:
    """The words that run a line of ours: with -P, nothing of the working directory is imported."""
    return (sys.executable, "-P", "-c", code)


def lasting_command() -> tuple[str, ...]:
    """The words for a host's settings: they start this installation tomorrow, too."""
    if not any(_UV_CACHE.fullmatch(part) for part in Path(sys.prefix).parts):
        return installed_command()
    source = _find_source()
    return ("uvx", PROGRAM) if source is None else ("uvx", "--from", source, PROGRAM)


def host_entry() -> dict[str, object]:
    """The entry for hosts that are set up by a JSON file."""
    program, *rest = lasting_command()
    return {"mcpServers": {"compaction": {"command": program, **({"args": rest} if rest else {})}}}


def typed_command(path: str | None) -> str:
    """The command to type for this installation, in a shell with that search path."""
    words = lasting_command()
    found = shutil.which(PROGRAM, path=path or "")
    if found is not None and len(words) == 1 and Path(found).samefile(words[0]):
        return PROGRAM
    return as_typed(words)


def as_typed(words: Sequence[str]) -> str:
    """Words as a shell takes them."""
    if os.name != "nt":
        return shlex.join(words)
    from subprocess import list2cmdline

    return list2cmdline(words)


def complete(text: str, command: str, options: Mapping[str, str]) -> str:
    """The text with the commands in it as they work: the program's, with the options it needs."""

    def complete_match(found: re.Match[str]) -> str:
        verb = found["verb"]
        if found["asks_help"]:
            return f"{command} {verb} --help"
        needed = [
            word
            for option, value in options.items()
            if verb in TAKEN_BY[option]
            for word in (option, value)
        ]
        return " ".join([command, verb, *([as_typed(needed)] if needed else [])])

    return _COMMAND.sub(complete_match, text)


def _find_source() -> str | None:
    """The source the package was installed from, unless that was an index."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        written = distribution(PROGRAM).read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    if written is None:
        return None
    import json
    from urllib.parse import urlparse
    from urllib.request import url2pathname

    told = json.loads(written)
    url = str(told.get("url", ""))
    if url.startswith("file:"):
        return url2pathname(urlparse(url).path)
    system = told.get("vcs_info", {}).get("vcs")
    return f"{system}+{url}" if system else url or None


def is_alive(process: int) -> bool:
    """Whether a process of that number runs."""
    if sys.platform == "win32":  # there, asking would end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
