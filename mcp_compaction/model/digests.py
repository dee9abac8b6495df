"""Digests and drafts of them, and what the calls for them took."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, get_args

from mcp_compaction.model.messages import Value

Provenance = Literal["verbatim", "extracted", "summarized"]
Writer = Literal["", "model", "agent"]
"""Who wrote a line of a digest; nobody did, where rules extracted it."""


ValueKind = Literal[
    "file", "failure", "tests", "commit", "request", "task", "job", "refusal", "label"
]


class AccountValue(Value):
    """How a thing stands of which a digest tells: the item has its name or its words."""

    kind: ValueKind
    status: str = ""  # created, failed, newest, done; of a label, its words
    more: str = ""  # why, where to, on which branch, since when
    times: int = 1
    since: tuple[str, ...] = ()  # the files changed after a run of tests; where a file was lost
    key: str = ""  # what two calls have in common that do the same; a task's number


class Item(Value):
    """One line of a digest, with the refs it came from; a value is put in words by `render`."""

    text: str
    value: AccountValue | None = None
    refs: tuple[str, ...] = ()
    provenance: Provenance = "extracted"
    superseded: bool = False
    newer: str = ""  # the ref of what users said later on the same matter
    must_stay: bool = False  # no search would give it back
    by: Writer = ""
    doubt: str = ""  # why it may not be so: nothing shows it, or which rule it is against


IndexKind = Literal["file", "command", "url", "id", "error", "number"]


class IndexItem(Value):
    """One thing that was met in a span: a file, a command, an id; with what was done and where."""

    kind: IndexKind
    text: str
    note: str = ""
    refs: tuple[str, ...] = ()


SectionName = Literal[
    "GOAL",
    "REJECTED",
    "CONSTRAINTS",
    "STATE",
    "DONE",
    "PROGRESS",
    "DECISIONS",
    "LEARNED",
    "ERRORS",
    "FACTS",
    "NAMES",
    "ARTIFACTS",
    "UNCERTAIN",
    "ASKED",
    "OPEN",
    "NEXT",
]
SECTION_NAMES: tuple[SectionName, ...] = get_args(SectionName)
"""All sections in the order they are shown."""

EARLIER_SECTIONS: dict[SectionName, SectionName] = {
    "PROGRESS": "DONE",
    "LEARNED": "ERRORS",
    "ARTIFACTS": "DONE",
}
"""Sections that only stored digests have, each with the one that new digests have instead."""


class ModelCall(Value):
    """One request to a model: what it took, and why it gave nothing where it did."""

    model: str
    seconds: float
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0  # of the input, what the provider had at hand
    cost: float | None = None  # dollars; None: no price is known
    failed: str = ""  # in words fit for a receipt


class Spent(Value):
    """What the model calls of one session took together."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0  # dollars, of the calls whose price is known
    seconds: float = 0.0
    failed: int = 0


NO_DIGEST = "no digest needed"
"""The author of a compaction that wrote no digest."""

OWN_AUTHORS = ("extractive", "agent", "archive")
"""Authors of drafts that no model wrote; no model may be called so."""


class Draft(Value):
    """What a summarizer proposes for a span: items by section; nothing in it is trusted yet."""

    author: str  # "extractive", "agent", "archive", a model's name
    sections: tuple[tuple[SectionName, tuple[Item, ...]], ...] = ()
    note: str = ""  # why another summarizer had to step in, for the receipt
    calls: tuple[ModelCall, ...] = ()  # what was asked of models for it, failures too
    # Of one that the session's own model wrote over its whole window: the newest message then.
    up_to: int | None = None

    def items(self, name: SectionName) -> tuple[Item, ...]:
        """The items of one section."""
        return next((items for section, items in self.sections if section == name), ())


class Digest(Value):
    """The structured summary that stands for a span."""

    number: int
    first: int
    last: int
    messages: int
    sections: tuple[tuple[SectionName, tuple[Item, ...]], ...]
    index: tuple[IndexItem, ...] = ()
    author: str = "extractive"
    checked: bool = True
    began: datetime | None = None
    ended: datetime | None = None
    merged: tuple[int, ...] = ()
    tokens: int = 0

    @property
    def ref(self) -> str:
        """The short id a model can say: `d3`."""
        return f"d{self.number}"

    def items(self, name: SectionName) -> tuple[Item, ...]:
        """The items of one section."""
        return next((items for section, items in self.sections if section == name), ())
