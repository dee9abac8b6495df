"""The arguments of the tools, each described once; the server's tools are annotated by them."""

from __future__ import annotations

import inspect
import re
from typing import Annotated, Any, Literal, NamedTuple, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from mcp_compaction.model import JsonObject, PinKind, PinScope, Strategy
from mcp_compaction.tools.schemas import slim

Session = Annotated[str | None, Field(description="Session name, if not the current chat's.")]

Reason = Annotated[str, Field(description="Why now, e.g. task done.")]
OwnDigest = Annotated[
    str | None,
    Field(
        description="Your own summary: lines under GOAL, STATE, DONE, DECISIONS, ERRORS, "
        "FACTS, CONSTRAINTS, OPEN, NEXT. Needed where the host records nothing."
    ),
]
Focus = Annotated[str | None, Field(description="What matters next.")]
How = Annotated[Strategy, Field(description="archive: refs and index only, no prose.")]
PreserveMarkers = Annotated[bool, Field(description="Keep stated doubts.")]
Span = Annotated[str | None, Field(description='Only these, e.g. "m12..m40".')]
TargetPercent = Annotated[float | None, Field(description="Fill to reach, below 100.")]
DryRun = Annotated[bool, Field(description="Only say what would happen.")]
Force = Annotated[bool, Field(description="Even if it hardly pays.")]

PinText = Annotated[str, Field(description="Word for word, as the user said it.")]
Kind = Annotated[PinKind, Field(description="note: searchable, not shown.")]
Reach = Annotated[
    PinScope | None, Field(description="Default: project for a user's words, else session.")
]
Supersedes = Annotated[str | None, Field(description="Pin this replaces or finishes, e.g. p2.")]
Expires = Annotated[str | None, Field(description="ISO time.")]
PinRef = Annotated[str, Field(description="The pin, e.g. p2.")]

Query = Annotated[
    str | None,
    Field(description="Words and identifiers; also role:user tool:Bash since:2026-11-01."),
]


def _join_refs(given: object) -> object:
    """A list of refs as the text that names them all."""
    if not isinstance(given, list):
        return given
    refs = cast("list[object]", given)
    return " ".join(map(str, refs)) if all(isinstance(ref, str) for ref in refs) else refs


Refs = Annotated[
    str | None,
    BeforeValidator(_join_refs),  # a list is taken, too; to say so would cost every turn
    Field(description="m42, m42~3 with neighbors, m12..m40, d1, p2, call id."),
]
SearchIn = Annotated[Literal["session", "project", "all"], Field(description="Where to look.")]
MaxTokens = Annotated[int, Field(description="Answer size.", ge=50, le=20000)]
Cursor = Annotated[str | None, Field(description="From the answer before.")]

Keep = Annotated[bool, Field(description="Refs stay in view.")]

Detail = Annotated[Literal["brief", "full"], Field(description="full: outline.")]

CompactionRef = Annotated[str, Field(description="The compaction, e.g. c4.")]
ForceRestore = Annotated[bool, Field(description="Even if too large.")]

Messages = Annotated[
    list[Any] | dict[str, Any],
    Field(
        description="Messages, or a body {system, tools, task, memory, messages}; "
        "{record: false}: keep no more."
    ),
]
After = Annotated[str | None, Field(description="Ref they follow.")]


class Arguments(BaseModel):
    """The arguments of one tool; its docstring is the tool's description."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class CompressContext(Arguments):
    """Shrink the context: old steps become a checked digest; recent turns stay.

    Good at a task boundary, before a large input, after key findings. The receipt has undo.
    """

    reason: Reason
    digest: OwnDigest = None
    focus: Focus = None
    strategy: How = "summarize"
    preserve_markers: PreserveMarkers = True
    span: Span = None
    target_percent: TargetPercent = None
    dry_run: DryRun = False
    force: Force = False


class PinConstraint(Arguments):
    """Keep a rule, task or fact word for word; these tools show it until released."""

    text: PinText
    kind: Kind = "constraint"
    scope: Reach = None
    supersedes: Supersedes = None
    expires: Expires = None


class RecallArchived(Arguments):
    """Find what left the window, word for word with refs.

    Without query and refs: the brief to resume.
    """

    query: Query = None
    refs: Refs = None
    scope: SearchIn = "session"
    max_tokens: MaxTokens = 1000
    cursor: Cursor = None
    keep: Keep = False


class ContextStats(Arguments):
    """Fill of the window, room left, what compressing would free, pins, good moments."""

    detail: Detail = "brief"


class UnpinConstraint(Arguments):
    """Release a pin; a user's needs the user."""

    ref: PinRef


class RestoreContext(Arguments):
    """Undo a compaction and all after it; later words stay."""

    ref: CompactionRef
    force: ForceRestore = False


class RecordMessages(Arguments):
    """Append messages to the log, for loops without hooks; returns refs."""

    messages: Messages
    after: After = None


class Definition(NamedTuple):
    """A tool as a model is told of it."""

    name: str
    description: str
    schema: JsonObject  # of its arguments


def name_of(arguments: type[Arguments]) -> str:
    """The name of the tool that takes these arguments."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", arguments.__name__).lower()


def description_of(arguments: type[Arguments]) -> str:
    """The description of the tool that takes these arguments."""
    return inspect.cleandoc(arguments.__doc__ or "")


def definition_of(arguments: type[Arguments]) -> Definition:
    """The tool that takes these arguments, without the name of a session."""
    schema = slim(arguments.model_json_schema())
    del schema["description"], schema["additionalProperties"]
    return Definition(name_of(arguments), description_of(arguments), schema)
