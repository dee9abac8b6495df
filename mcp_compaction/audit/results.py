"""What an audit found, as values that are shown, written as JSON and drawn."""

from __future__ import annotations

from mcp_compaction.evals.results import add_up
from mcp_compaction.model import Value


class Count(Value):
    """How many things of a kind the window held before, and how many stood in it after."""

    kind: str
    before: int
    stood: int
    needed: int = 0  # of those before, how many the rest of the chat needed
    needed_stood: int = 0  # of these, how many stood
    ours: int | None = None  # how many stand in our view of the same size
    ours_needed: int | None = None


class Again(Value):
    """Calls after a compaction that were made before with the same arguments."""

    kind: str  # read, run or said
    times: int
    tokens: int


class Broken(Value):
    """A rule that was gone, and a later call that may have broken it."""

    rule: str
    said_in: str  # the host's id of the message
    call: str
    called_in: str


class CompactionCost(Value):
    """What a compaction took; None where the transcript does not tell."""

    seconds: float | None
    read_anew: int | None  # tokens of the new beginning, which no cache had
    summary_read: int | None
    summary_written: int | None
    dollars: float | None


class Ours(Value):
    """The same compaction by us: the size of the view, and how long it took."""

    tokens: int
    of_tokens: int  # of what the host left
    seconds: float


class Audited(Value):
    """One compaction, audited."""

    host: str
    chat: str
    number: int
    at: str | None
    trigger: str
    is_ours: bool
    tokens_before: int | None
    tokens_after: int | None
    counts: tuple[Count, ...]
    invented: tuple[str, ...]  # names in the summary that were said nowhere before
    again: tuple[Again, ...]
    broken: tuple[Broken, ...]
    lost_rules: tuple[str, ...]
    cost: CompactionCost
    ours: Ours | None


class Audit(Value):
    """All that was found."""

    chats: int  # that were read
    findings: tuple[Audited, ...]
    skipped: tuple[str, ...]  # files that could not be read, and why
    left: int = 0  # compactions that --limit left out


def total_of(findings: tuple[Audited, ...]) -> tuple[Count, ...]:
    """The counts of several compactions together, by kind."""
    return add_up((count for one in findings for count in one.counts), "kind")
