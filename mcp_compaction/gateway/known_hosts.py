"""What is known of the requests of hosts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Literal

from mcp_compaction.hosts.known import hosts_with
from mcp_compaction.model import Value

SideKind = Literal["summary", "aside"]


class Side(Value):
    """One kind of call beside a conversation; see docs/hosts.md."""

    kind: SideKind
    pattern: str
    example: str
    near_miss: str


class Host(Value):
    """A host as its requests show it; see docs/hosts.md."""

    name: str
    title: str
    sessions: tuple[str, ...]
    agents: tuple[str, ...]
    user_agent: str = ""
    unsteady_system: str
    starter: str = ""
    side: tuple[Side, ...]

    def session_of(self, headers: Mapping[str, str]) -> str | None:
        """The host's own id for the conversation that a request belongs to."""
        if not headers.get("user-agent", "").startswith(self.user_agent):
            return None
        return next((headers[name] for name in self.sessions if headers.get(name)), None)

    def agent_of(self, headers: Mapping[str, str]) -> str:
        """The id of the sub-agent that sends a request; empty: the main one does."""
        return next((headers[name] for name in self.agents if headers.get(name)), "")

    def find_side(self, text: str) -> SideKind | None:
        """The kind of side call that a newest message makes a request; None: it is none."""
        for side in self.side:
            if re.search(side.pattern, text):
                return side.kind
        return None


@cache
def known_hosts() -> tuple[Host, ...]:
    """The hosts whose requests are known; read once."""
    return tuple(map(Host.model_validate, hosts_with("requests").values()))
