"""What `hook --help` says: a host runs that command, and a person may try it."""

from __future__ import annotations

from mcp_compaction.hosts.events import CHECKED, HookedHost, hooked_hosts

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


def hook_help() -> str:
    """The use of the command `hook`, with the events of each host."""
    lines = (f"  {host.name:<12} {', '.join(_events_of(host))}" for host in hooked_hosts().values())
    return _HELP.format(events="\n".join(lines))


def _events_of(host: HookedHost) -> list[str]:
    """The events that a host tells by the command, as its lines name them."""
    told = (hook for hook in host.hook if hook.way == "command")
    return [*dict.fromkeys(CHECKED if h.moment == "check" else h.event for h in told)]
