"""The table of events: which hooks a host has, how each reaches us, and what it reads of us."""

from __future__ import annotations

from functools import cache
from typing import Final, Literal

from pydantic import Field

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
    """One hook of a host; see the head of `events.toml`."""

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
    """The results of a tool that a hook may replace; see the head of `events.toml`."""

    tool: str
    text: str = ""
    unless: tuple[str, ...] = ()
    is_numbered: bool = False

    def is_of(self, tool: str) -> bool:
        """Whether a tool gives such results."""
        start = self.tool.removesuffix("*")
        return tool.startswith(start) if start != self.tool else tool == self.tool


class OwnCompaction(Value):
    """When a host compacts by itself; see the head of `events.toml`."""

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
    """A host that tells what happens; see the head of `events.toml`."""

    name: str
    compacts: OwnCompaction
    most_chars: int
    timeout: int
    model_key: str
    session_keys: tuple[str, ...] = ()
    session_variable: str = ""
    project_variable: str = ""
    has_module: bool = False
    boundary: str
    summary: str
    hook: tuple[Hook, ...]
    result: tuple[ResultKind, ...] = ()

    def find_hook(self, event: str) -> Hook | None:
        """The first hook for an event of that name; None for one that says nothing to us."""
        return next((hook for hook in self.hook if hook.event == event), None)


class _Table(Value):
    closed_clients: tuple[str, ...]
    host: tuple[HookedHost, ...]


def hooked_hosts() -> dict[str, HookedHost]:
    """The hosts that tell what happens, by their names."""
    return {host.name: host for host in _read_table().host}


def closed_clients() -> tuple[str, ...]:
    """How MCP clients begin their names that keep their window to themselves."""
    return _read_table().closed_clients


def keys_of_models() -> frozenset[str]:
    """The keys in the metadata of a call that only a model's call has."""
    return frozenset(host.model_key for host in _read_table().host if host.model_key)


@cache
def _read_table() -> _Table:
    import tomllib
    from importlib.resources import files

    text = files("mcp_compaction.hosts").joinpath("events.toml").read_text(encoding="utf-8")
    return _Table.model_validate(tomllib.loads(text))
