"""What is asked of a compaction, and what came of it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from mcp_compaction.model.digests import Digest, Draft
from mcp_compaction.model.messages import Precision, Value
from mcp_compaction.model.pins import Offer
from mcp_compaction.model.requests import HostJobs, RunningJob
from mcp_compaction.model.view import View

Strategy = Literal["summarize", "archive"]
Holder = Literal[
    "system", "pins", "first_request", "recent_steps", "older_steps", "digests", "excerpts"
]
HeldBy = tuple[tuple[Holder, int], ...]
"""What takes tokens of a window, each with how many."""


class Ask(Value):
    """What a caller wants of one compaction."""

    reason: str
    digest: str | None = None
    focus: str | None = None
    strategy: Strategy = "summarize"
    preserve_markers: bool = True
    span: tuple[int, int] | None = None
    target_percent: float | None = None
    room_tokens: int | None = None  # that shall be free afterwards
    dry_run: bool = False
    force: bool = False
    prose: Draft | None = None  # that the session's own model wrote; a digest goes before it
    running: tuple[HostJobs, ...] = ()  # what its host says of the background, oldest first


class Tally(Value):
    """How much of one kind is in the view, how much comes back by recall, how much is lost."""

    kind: str
    retained: int = 0
    recoverable: int = 0
    lost: int = 0

    @property
    def total(self) -> int:
        """All that was looked for."""
        return self.retained + self.recoverable + self.lost


class Replaced(Value):
    """A span and the digest that now stands for it."""

    first: int
    last: int
    digest: int


class Receipt(Value):
    """What one compaction did."""

    compaction: int
    kind: Literal["compress", "restore", "digest", "page_in"] = "compress"
    reason: str
    at: datetime
    strategy: Strategy = "summarize"
    before: int
    after: int
    window: int
    precision: Precision
    freed: tuple[tuple[str, int], ...] = ()  # by the name of the rung
    replaced: tuple[Replaced, ...] = ()
    pins: int = 0
    tallies: tuple[Tally, ...] = ()
    target: int | None = None
    shortfall: str | None = None  # what holds the window above the target, with the numbers
    # The same for programs, while the outcome is at hand; it is not stored.
    held_by: HeldBy = Field(default=(), exclude=True)
    author: str = "extractive"
    checked: bool = True
    notes: tuple[str, ...] = ()
    offer: Offer = Field(default_factory=Offer)

    @property
    def is_enough(self) -> bool:
        """Whether the target was reached, or none was set."""
        return self.shortfall is None

    @property
    def ref(self) -> str:
        """The short id a model can say: `c4`."""
        return f"c{self.compaction}"


class Compaction(Value):
    """A new view with its digests and receipt, ready to be saved in one transaction."""

    kind: Literal["compaction"] = "compaction"
    base_version: int  # the view it was made from; saved only if that is still the view
    view: View
    digests: tuple[Digest, ...]
    receipt: Receipt
    running: tuple[RunningJob, ...] = ()  # in the background, while it was made


RefusalReason = Literal[
    "few_messages",
    "below_release",
    "no_progress",
    "too_soon",
    "too_little_gain",
    "being_compacted",
    "window_too_small",
    "window_of_host",
]


class Refusal(Value):
    """What was asked for would not pay or cannot be: why, with the numbers, and from when on."""

    kind: Literal["refusal"] = "refusal"
    text: str
    reason: RefusalReason
    held_by: HeldBy = ()
    worth_from_tokens: int | None = None  # the fill from which on it would pay, where it is known
    needed_tokens: int | None = None  # the fill that a window which is too small would have


class NothingToDo(Value):
    """The view is already as this request would make it."""

    kind: Literal["nothing"] = "nothing"
    text: str
    reason: Literal[
        "target_met",
        "already_prepared",
        "all_needed",
        "digest_as_large",
        "no_window_changed",
        "shown_already",
    ]
    held_by: HeldBy = ()


class Budget(Value):
    """The most tokens of a window that each part may take; what one leaves is for those after."""

    target: int
    system: int  # with the tools, the memory and what only the host sees: what it takes
    pins: int  # what they take
    request: int  # the first one
    newest_request: int
    unread: int  # tools' answers that the model has not seen
    tail: int  # the newest steps
    digest: int  # each of them
    names: int  # in the newest digest
    index: int
    excerpts: int = 0  # of what all others leave


class Projection(Value):
    """What a dry run found: nothing was written and no summarizer was asked."""

    kind: Literal["projection"] = "projection"
    before: int
    after: int  # at most
    window: int
    precision: Precision
    freed: tuple[tuple[str, int], ...] = ()  # by the name of the rung
    spans: tuple[tuple[int, int], ...] = ()
    shortfall: str | None = None  # what may hold the window above the target
    held_by: HeldBy = ()  # the same for programs
    budget: Budget | None = None  # None where nothing is shared out

    @property
    def is_enough(self) -> bool:
        """Whether the target would be reached for sure, or none was set."""
        return self.shortfall is None


class Failed(Value):
    """A compaction that came to nothing: which step failed; the session is as it was."""

    kind: Literal["failed"] = "failed"
    text: str
    reason: Literal["error", "view_changed", "process_ended"]
    error: str = ""  # the name of the error's class, where there was one


Outcome = Compaction | Refusal | NothingToDo | Projection | Failed
