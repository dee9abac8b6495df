"""The events of hosts: which hooks a host has, how each reaches us, and what it reads of us."""

from __future__ import annotations

from functools import cache
from typing import Final, Literal

from pydantic import Field

from mcp_compaction.hosts.known import hosts_with
from mcp_compaction.lexicon import host_names, read_host, read_table
from mcp_compaction.model import Value

Moment = Literal[
    "start", "prompt", "call", "check", "result", "work", "task", "rest", "before", "after"
]
Part = Literal["", "pins", "records"]

TOOL: Final = "host_event"
CHECKED: Final = "PreToolUse"
"""What the command `hook` calls every event at which a call is checked, whatever its host does."""

_COMMON_INPUT: Final = ("session_id", "transcript_path", "cwd")


class Hook(Value):
    """One hook of a host; see lexicon/hosts/README.md."""

    event: str
    matcher: str = ""
    way: Literal["tool", "command"]
    moment: Moment
    answer: Literal["verdict", "context", "text", "message", "arguments", "result", "nothing"]
    part: Part = ""
    input: dict[str, str] = Field(default_factory=dict[str, str])
    handler: dict[str, int | str] = Field(default_factory=dict[str, int | str])

    @property
    def tool_input(self) -> dict[str, str]:
        """The arguments of `host_event`, with the variables that the host fills in."""
        common = {name: f"${{{name}}}" for name in _COMMON_INPUT}
        part = {"part": self.part} if self.part else {}
        return {"event": self.event, **common, **part, **self.input}


class ResultKind(Value):
    """The results of a tool that a hook may replace; see lexicon/hosts/README.md."""

    tool: str
    text: str = ""
    unless: tuple[str, ...] = ()
    is_numbered: bool = False

    def is_of(self, tool: str) -> bool:
        """Whether a tool gives such results."""
        start = self.tool.removesuffix("*")
        return tool.startswith(start) if start != self.tool else tool == self.tool


class OwnCompaction(Value):
    """When a host compacts by itself; see lexicon/hosts/README.md."""

    percent: float = 100
    reserve: int = 0
    answer: int = 0
    least_window: int = 0
    window_variable: str = ""
    percent_variable: str = ""
    off_variables: tuple[str, ...] = ()
    model_variable: str = ""
    file: str = ""
    window_key: str = ""
    limit_key: str = ""
    share_key: str = ""
    model_key: str = ""
    env_key: str = ""


class HookedHost(Value):
    """A host that tells what happens; see lexicon/hosts/README.md."""

    name: str
    title: str
    compacts: OwnCompaction
    most_chars: int
    timeout: int
    model_key: str
    session_keys: tuple[str, ...] = ()
    session_variable: str = ""
    project_variable: str = ""
    plugin_variable: str = ""
    driven: dict[str, str] = Field(default_factory=dict[str, str])
    has_module: bool = False
    boundary: str
    boundary_end: str = ""
    summary: str
    hook: tuple[Hook, ...]
    result: tuple[ResultKind, ...] = ()

    def find_hook(self, event: str) -> Hook | None:
        """The first hook for an event of that name; None for one that says nothing to us."""
        return next((hook for hook in self.hook if hook.event == event), None)


@cache
def hooked_hosts() -> dict[str, HookedHost]:
    """The hosts that tell what happens, by their names; read once."""
    told = hosts_with("events")
    return {name: HookedHost.model_validate(events) for name, events in told.items()}


@cache
def closed_clients() -> tuple[str, ...]:
    """How MCP clients begin their names that keep their window to themselves."""
    others = read_table("clients.toml")["closed"]
    ours = (client for name in host_names() for client in read_host(name)["clients"])
    return (*ours, *others)


def keys_of_models() -> frozenset[str]:
    """The keys in the metadata of a call that only a model's call has."""
    return frozenset(host.model_key for host in hooked_hosts().values() if host.model_key)
