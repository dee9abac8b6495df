"""The arguments of the tools, each said once; the server and the kit publish them from here,
as schemas without noise."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, NamedTuple, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from mcp_compaction.compactor.results import SearchScope
from mcp_compaction.model import JsonObject, PinKind, PinScope, Strategy

Session = Annotated[str | None, Field(description="Session name, if not the current chat's.")]


def _join_refs(given: object) -> object:
    """A list of refs as the text that names them all."""
    if not isinstance(given, list):
        return given
    refs = cast("list[object]", given)
    return " ".join(map(str, refs)) if all(isinstance(ref, str) for ref in refs) else refs


class Arguments(BaseModel):
    """The arguments of one tool; its docstring is the tool's description."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class CompressContext(Arguments):
    """Shrink the context: old steps become a checked digest; recent turns stay.

    Good at a task boundary, after key findings, before a large input (room_tokens). The receipt
    has undo.
    """

    reason: str = Field(description="Why now.")
    digest: str | None = Field(
        None,
        description="Your own summary: lines under GOAL, DECISIONS, FACTS, OPEN, NEXT. "
        "Needed where the host records nothing.",
    )
    focus: str | None = Field(None, description="What matters next.")
    strategy: Strategy = Field("summarize", description="archive: refs only, no prose.")
    preserve_markers: bool = Field(True, description="Keep stated doubts.")
    span: str | None = Field(None, description='Only these, e.g. "m12..m40".')
    target_percent: float | None = Field(None, description="Fill to reach.")
    room_tokens: int | None = Field(None, description="Tokens to have free then.")
    dry_run: bool = Field(False, description="Only say what would happen.")
    force: bool = Field(False, description="Even if it hardly pays.")


class PinConstraint(Arguments):
    """Keep a rule, task or fact word for word; these tools show it until released."""

    text: str = Field(description="Word for word, as the user said it.")
    kind: PinKind = Field("constraint", description="note: searchable, not shown.")
    scope: PinScope | None = Field(
        None, description="Default: project for a user's words, else session."
    )
    supersedes: str | None = Field(None, description="Pin this replaces or finishes, e.g. p2.")
    expires: str | None = Field(None, description="ISO time.")


class RecallArchived(Arguments):
    """Find what left the window, word for word with refs.

    Without query and refs: the brief to resume.
    """

    query: str | None = Field(
        None, description="Words and identifiers; also role:user tool:Bash since:2026-11-01."
    )
    refs: Annotated[
        str | None,
        BeforeValidator(_join_refs),  # a list is taken, too; to say so would cost every turn
        Field(description="m42, m42~3 with neighbors, m12..m40, d1, p2, call id."),
    ] = None
    scope: SearchScope = Field("session", description="Where to look.")
    max_tokens: int = Field(1000, description="Answer size.", ge=50, le=20000)
    cursor: str | None = Field(None, description="From the answer before.")
    keep: bool = Field(False, description="Refs stay in view.")


class ContextStats(Arguments):
    """Fill of the window, room left, what compressing would free, pins, good moments."""

    detail: Literal["brief", "full"] = Field("brief", description="full: outline.")


class UnpinConstraint(Arguments):
    """Release a pin; a user's needs the user."""

    ref: str = Field(description="The pin, e.g. p2.")


class RestoreContext(Arguments):
    """Undo a compaction and all after it; later words stay."""

    ref: str = Field(description="The compaction, e.g. c4.")
    force: bool = Field(False, description="Even if too large.")


class RecordMessages(Arguments):
    """Append messages to the log, for loops without hooks; returns refs."""

    messages: list[Any] | dict[str, Any] = Field(
        description="Messages, or a body {system, tools, task, memory, messages}; "
        "{record: false}: keep no more."
    )
    after: str | None = Field(None, description="Ref they follow.")


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


def slim(schema: Any) -> Any:
    """A JSON schema without what only costs tokens: titles, defaults null and false, `or null`."""
    if isinstance(schema, list):
        return [slim(part) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: _slim_properties(value) if key == "properties" else slim(value)
        for key, value in cast("dict[str, Any]", schema).items()
        if not _is_noise(key, value)
    }
    choices = kept.get("anyOf")
    if isinstance(choices, list):
        real = [choice for choice in cast("list[Any]", choices) if choice != {"type": "null"}]
        if len(real) == 1:
            del kept["anyOf"]
            kept = {**real[0], **kept}
    return kept


def _slim_properties(properties: Any) -> dict[str, Any]:
    # A property may be called "title"; only the schema's own title is noise.
    return {name: slim(value) for name, value in cast("dict[str, Any]", properties).items()}


def _is_noise(key: str, value: Any) -> bool:
    return (key == "title" and isinstance(value, str)) or (
        key == "default" and (value is None or value is False)
    )


def complain_of_unknown(given: Mapping[str, Any], known: Iterable[str]) -> str | None:
    """The complaint about an argument that a tool does not take; None where it takes all."""
    names = sorted(known)
    strange = [name for name in given if name not in names]
    if not strange:
        return None
    near = get_close_matches(strange[0], names, 1)
    hint = f"Did you mean {near[0]}? " if near else ""
    return (
        f"no argument {strange[0]!r}. {hint}It takes: {', '.join(names)}. "
        "Nothing was done; call again with these."
    )


def complain_of_faults(faults: Iterable[tuple[str, str, str]]) -> str:
    """The complaint about arguments, of each its name, what is wrong and the kind of fault."""
    told = [f"{name}: {_plain(what, kind)}" for name, what, kind in faults]
    return (
        "; ".join(dict.fromkeys(told)) + ". Nothing was done; correct the arguments and call again."
    )


def _plain(what: str, kind: str) -> str:
    return "is required" if kind == "missing" else what[0].lower() + what[1:]
