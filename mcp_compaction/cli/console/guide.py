"""The first page that a person sees, and the help of `hook`, which a host runs and a person may
try.

Standard library only: it is there at once.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from mcp_compaction.hosts.known import hosts_with

_HELP = """\
usage: mcp-compaction hook HOST EVENT [--home DIR] < EVENT.json

A host runs this at its events; `mcp-compaction install HOST` writes its lines. The event comes as
JSON on stdin (session_id, transcript_path, cwd). What is new in the chat's transcript is recorded,
and what the host is to read is printed. It ends with 0 within two seconds, whatever happened; what
went wrong is told by: mcp-compaction doctor

events that hosts tell by this command; all others go to the running server:
{events}

to try it by hand:
  echo '{{"session_id": "ID", "transcript_path": "FILE.jsonl", "cwd": "/home/ann/shop"}}' |
    MCP_COMPACTION_DEBUG=1 mcp-compaction hook claude-code SessionEnd"""

_SUMMARY = """\
mcp-compaction: when an agent's context is compacted, your rules stay word for word, and what left
is found again. All of it is kept on this machine; no model, key or network is needed."""
_NONE = "none of them was found here"


def hook_help() -> str:
    """The use of the command `hook`, with the events of each host."""
    from mcp_compaction.hosts.events import CHECKED, hooked_hosts  # slow to load

    lines: list[str] = []
    for host in hooked_hosts().values():
        told = (hook for hook in host.hook if hook.way == "command")
        events = dict.fromkeys(CHECKED if h.moment == "check" else h.event for h in told)
        lines.append(f"  {host.name:<12} {', '.join(events)}")
    return _HELP.format(events="\n".join(lines))


def guide(program: str, path: str | None) -> str:
    """The page, for a program that is typed so, in a shell with that search path."""
    return "\n".join(_lines(program, path))


def _lines(program: str, path: str | None) -> Iterator[str]:
    hosts = {name: host for name, host in hosts_with("setup").items() if "program" in host}
    found = [name for name in hosts if shutil.which(hosts[name]["program"], path=path or "")]
    yield _SUMMARY
    yield ""
    yield "hosts on this machine:"
    for name in found:
        yield f"  {hosts[name]['title']:12} {program} install {name}"
    if not found:
        yield f"  {', '.join(host['title'] for host in hosts.values())}: {_NONE}"
    yield f"  {'others':12} {program} install --list"
    yield ""
    yield "to begin:"
    yield f"  {program} demo        a long session, compacted before your eyes (half a minute)"
    yield f"  {program} eval audit  what past compactions of your own chats lost; it only reads"
    yield f"  {program} install {(found or [*hosts])[0]}"
    yield f"  {program} doctor      is everything in order?"
    yield ""
    yield f"Every command: {program} --help. A host starts the program alone, and is served."
