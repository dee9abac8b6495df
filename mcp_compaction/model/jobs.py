"""What runs in the background of a session."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple

from mcp_compaction.model.messages import Value

JobKind = Literal["command", "agent", "schedule"]


class RunningJob(NamedTuple):
    """What was started in the background."""

    kind: JobKind
    id: str  # by which a later call asks for it or stops it; blank: only its call is known
    text: str  # the command, or what a subagent is to do
    ref: str
    at: datetime | None = None  # when it was started


class HostJobs(Value):
    """What runs in the background at one moment, by the word of the host that runs it."""

    at: datetime
    kinds: tuple[JobKind, ...]  # of these it names all that run
    names: tuple[str, ...]  # the id of each, or what it is to do
