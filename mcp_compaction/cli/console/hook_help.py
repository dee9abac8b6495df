"""What `hook --help` says: a host runs that command, and a person may try it."""

from __future__ import annotations

from mcp_compaction.hosts.events import CHECKED, hooked_hosts

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
    lines: list[str] = []
    for host in hooked_hosts().values():
        told = (hook for hook in host.hook if hook.way == "command")
        events = dict.fromkeys(CHECKED if h.moment == "check" else h.event for h in told)
        lines.append(f"  {host.name:<12} {', '.join(events)}")
    return _HELP.format(events="\n".join(lines))
