"""The first page that a person sees: which hosts are here, and what to type first.

Standard library only: it is there at once.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from mcp_compaction.hosts.known import hosts_with

_SUMMARY = """\
mcp-compaction: when an agent's context is compacted, your rules stay word for word, and what left
is found again. All of it is kept on this machine; no model, key or network is needed."""
_NONE = "none of them was found here"


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
    yield f"  {program} demo      a long session, compacted before your eyes (half a minute)"
    yield f"  {program} audit     what past compactions of your own chats lost; it only reads"
    yield f"  {program} install {(found or [*hosts])[0]}"
    yield f"  {program} doctor    is everything in order?"
    yield ""
    yield f"Every command: {program} --help. A host starts the program alone, and is served."
