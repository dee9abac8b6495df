"""The seven tools; each checks by its annotations, calls the compactor and answers with text."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import (
    AcceptedElicitation,
    Context,
    Elicit,
    ElicitationResult,
    Resolve,
)
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

from mcp_compaction.compactor import Compactor, PinWish, Quote, check_ask
from mcp_compaction.core import pins as pinning
from mcp_compaction.core.compaction.receipt import outcome_text
from mcp_compaction.core.log.outline import find_boundary_cues, outline_of
from mcp_compaction.core.log.pinned import pinned_block
from mcp_compaction.core.recall.pages import cut_page
from mcp_compaction.core.text.refs import parse_span
from mcp_compaction.core.text.secrets import masked_line
from mcp_compaction.errors import CompactionError, InputError, NothingRecorded, UnknownSession
from mcp_compaction.formats import incoming
from mcp_compaction.model import (
    Ask,
    Author,
    Compaction,
    JsonObject,
    PinKind,
    PinScope,
    SessionInfo,
    Strategy,
)
from mcp_compaction.server import answers, apart
from mcp_compaction.server.directive import directive
from mcp_compaction.server.sampling import asking_host
from mcp_compaction.server.state import State, state_of, telling

Ctx = Context[State]
Name = Annotated[str | None, Field(description="Session name, if not the current chat's.")]

_MOST_TOKENS = 20_000
_CHARS_PER_TOKEN = 4
_PER_PAGE, _PER_QUOTE = 110, 34  # tokens of the lines around a page, and around each text on it
_LEAST_TOKENS, _LEAST_CHARS = 20, 20  # a page always brings something


class Sure(BaseModel):
    """A user's yes or no."""

    sure: bool = Field(default=True, description="Really do this?")  # to accept is to agree


def _add(
    server: MCPServer[State],
    tool: Any,
    title: str,
    *,
    read_only: bool = False,
    destructive: bool = False,
    idempotent: bool = False,
    meta: dict[str, Any] | None = None,
) -> None:
    annotations = ToolAnnotations(
        read_only_hint=read_only,
        destructive_hint=destructive,
        idempotent_hint=idempotent or read_only,
        open_world_hint=False,
    )
    server.add_tool(
        tool,
        title=title,
        description=inspect.getdoc(tool),
        annotations=annotations,
        meta=meta,
        structured_output=False,
    )


@telling(ToolError)
async def compress_context(
    ctx: Ctx,
    reason: Annotated[str, Field(description="Why now, e.g. the finished task.")],
    digest: Annotated[
        str | None,
        Field(
            description="Your own summary: lines under PROGRESS, DECISIONS, FACTS, OPEN, ERRORS, "
            "CONSTRAINTS, ARTIFACTS, NEXT. Needed where the host records nothing."
        ),
    ] = None,
    focus: Annotated[str | None, Field(description="What matters most next.")] = None,
    strategy: Annotated[
        Strategy, Field(description="archive: refs and index only, no prose.")
    ] = "summarize",
    preserve_markers: Annotated[bool, Field(description="Keep stated doubts.")] = True,
    span: Annotated[str | None, Field(description='Only these, e.g. "m12..m40".')] = None,
    target_percent: Annotated[float | None, Field(description="Fill to reach, below 100.")] = None,
    dry_run: Annotated[bool, Field(description="Only say what would happen.")] = False,
    force: Annotated[bool, Field(description="Even if it hardly pays.")] = False,
    session: Name = None,
) -> CallToolResult | InputRequiredResult:
    """Shrink the context: old steps become a checked digest; the archive keeps everything.

    Good at a task boundary or before a large input. Returns a receipt with undo.
    """
    state = state_of(ctx)
    ask = Ask(
        reason=reason,
        digest=digest,
        focus=focus,
        strategy=strategy,
        preserve_markers=preserve_markers,
        span=parse_span(span) if span is not None else None,
        target_percent=target_percent,
        dry_run=dry_run,
        force=force,
    )
    check_ask(ask)
    if digest is not None:
        state.check_records()
    compactor = await state.compactor()
    makes = digest is not None and not dry_run
    info, _ = await state.session(ctx, session, "make" if makes else "look")
    asking = await asking_host(ctx, state.settings, compactor, info, ask)
    if isinstance(asking, InputRequiredResult):
        return asking
    report = _reporting(ctx)
    if state.relieving.is_running(info):
        await report("waiting for the compaction that is under way")
        await state.relieving.wait(info)
    if asking is compactor:
        outcome = await apart.compress(state.settings, compactor, info, ask, report)
    else:
        outcome = await asking.compress(info, ask, report)
    text = outcome_text(outcome, state.mode(ctx, info), info.name)
    meta = None
    if isinstance(outcome, Compaction) and outcome.receipt.kind == "compress":
        meta = await _directive(state, info, outcome, preserve_markers)
    return await _answer(ctx, info, text, meta, asked=session)


async def _asks_pin(
    ctx: Ctx,
    text: str,
    kind: PinKind,
    scope: PinScope | None,
    supersedes: str | None,
    expires: str | None,
    session: str | None,
) -> Elicit[Sure] | Sure:
    """Asks only where the answer matters: to bind other sessions, or to change a user's pin."""
    if not _can_ask(ctx):
        return Sure(sure=False)
    state = state_of(ctx)
    try:
        wish = PinWish(text, "agent", kind, scope, supersedes, _moment(expires))
        info = await _session_if_any(ctx, session)
        compactor = await state.compactor()
        question = await compactor.pin_question(state.whose.project, info, wish)
    except CompactionError:  # the tool itself will say what is wrong
        return Sure(sure=False)
    return Elicit(question.text, Sure) if question is not None else Sure(sure=False)


async def _session_if_any(ctx: Ctx, name: str | None) -> SessionInfo | None:
    """The session a call means, if it is there already."""
    try:
        return (await state_of(ctx).session(ctx, name, "look"))[0]
    except InputError:
        return None


@telling(ToolError)
async def pin_constraint(
    ctx: Ctx,
    allowed: Annotated[ElicitationResult[Sure], Resolve(_asks_pin)],
    text: Annotated[str, Field(description="Word for word, as the user said it.")],
    kind: Annotated[PinKind, Field(description="note: searchable, not shown.")] = "constraint",
    scope: Annotated[
        PinScope | None, Field(description="Default: project for a user's words, else session.")
    ] = None,
    supersedes: Annotated[
        str | None, Field(description="Pin this replaces or finishes, e.g. p2.")
    ] = None,
    expires: Annotated[str | None, Field(description="ISO time.")] = None,
    session: Name = None,
) -> CallToolResult:
    """Keep a rule, task or fact word for word; these tools show it until released."""
    state = state_of(ctx)
    state.check_records()
    by, until = _by(allowed), _moment(expires)
    compactor = await state.compactor()
    wish = PinWish(text, by, kind, scope, supersedes, until)
    if by == "agent" and await _session_if_any(ctx, session) is None:
        with state.asking_user(None):  # what is refused begins no session
            pinning.check_question(await compactor.pin_question(state.whose.project, None, wish))
    info, is_new = await state.session(ctx, session, "make")
    with state.asking_user(info):
        done = await compactor.pin(
            info,
            text,
            by=by,
            kind=kind,
            scope=scope,
            supersedes=supersedes,
            expires=until,
            channel="dialog" if by == "user" else None,
        )
    state.own_pins.add(done.pin.number)
    said = answers.pinned(done, state.mode(ctx, info), info.traits.pins_put_back)
    if is_new:
        said = f"{said}\n{await state.begun(ctx, info)}"
    return await _answer(ctx, info, said, asked=info.name if is_new else session)


@telling(ToolError)
async def recall_archived(
    ctx: Ctx,
    query: Annotated[
        str | None,
        Field(description="Words and identifiers; also role:user tool:Bash since:2026-11-01."),
    ] = None,
    refs: Annotated[
        str | None, Field(description="m42, m42~3 with neighbors, m12..m40, d1, p2, tool call id.")
    ] = None,
    scope: Annotated[
        Literal["session", "project", "all"], Field(description="Where to look.")
    ] = "session",
    max_tokens: Annotated[int, Field(description="Size of the answer.", ge=50, le=20000)] = 1000,
    cursor: Annotated[str | None, Field(description="From the answer before.")] = None,
    session: Name = None,
) -> CallToolResult:
    """Find what left the window, word for word with refs.

    Without query and refs: the brief to resume a session.
    """
    state = state_of(ctx)
    compactor = await state.compactor()
    nonce = secrets.token_hex(3)
    skip = _skip(cursor)
    if scope == "all" and state.whose.must_name:
        raise InputError('scope="all" is for the user of this machine; pass scope="project".')
    if query is not None and refs is not None:
        raise InputError("pass query to look for words, or refs to read what they name; not both.")
    if query is None and refs is None:
        return await _resume(ctx, session, scope, nonce)
    project = state.whose.project
    if refs is None:
        info = await _searched_from(ctx, session, scope)
        hits = await compactor.recall(
            info, query or "", scope=scope, project=project, max_tokens=max_tokens, skip=skip
        )
        text = answers.recalled(hits, _place(state, info), query or "", nonce, skip)
    else:
        info = await _looked_up(ctx, session, scope)
        # Who turns a page recalls nothing new, and who looks into another project leaves no trace.
        is_new = not skip and info.project == project
        found = await (compactor.recall_refs if is_new else compactor.quote)(info, refs)
        size = _page(compactor, found, max_tokens, skip)
        text = answers.quoted(found, info, project, nonce, size, skip)
    return await _answer(ctx, info, text, asked=session, shows_pins=not skip)


@telling(ToolError)
async def context_stats(
    ctx: Ctx,
    detail: Annotated[Literal["brief", "full"], Field(description="full: with outline.")] = "brief",
    session: Name = None,
) -> CallToolResult:
    """Fill of the window, room left, what compressing would free, pins, good moments."""
    state = state_of(ctx)
    compactor = await state.compactor()
    try:
        info, _ = await state.session(ctx, session, "look")
    except (NothingRecorded, UnknownSession) as nothing:
        if session is not None:
            raise
        return await _without_session(ctx, str(nothing))
    loaded = await compactor.load(info)
    found = await compactor.stats_of(loaded)
    passages = await state.threads.run(outline_of, loaded.messages) if detail == "full" else ()
    cues = await state.threads.run(find_boundary_cues, loaded.messages)
    text = answers.stats(found, state.mode(ctx, info), cues, passages)
    return await _answer(ctx, info, text, asked=session, has_fill=True)


async def _asks_release(ctx: Ctx, ref: str, session: str | None) -> Elicit[Sure] | Sure:
    info = await _session_if_any(ctx, session) if _can_ask(ctx) else None
    pins = await (await state_of(ctx).compactor()).pins(info) if info is not None else ()
    pin = next((pin for pin in pins if pin.ref == ref), None)
    if pin is None or pin.author != "user":
        return Sure(sure=False)
    return Elicit(f"The agent wants to release your pin {pin.ref}: {pin.text}", Sure)


@telling(ToolError)
async def unpin_constraint(
    ctx: Ctx,
    allowed: Annotated[ElicitationResult[Sure], Resolve(_asks_release)],
    ref: Annotated[str, Field(description="The pin, e.g. p2.")],
    session: Name = None,
) -> CallToolResult:
    """Release a pin; a user's pin needs the user."""
    state = state_of(ctx)
    compactor = await state.compactor()
    info, _ = await state.session(ctx, session, "look")
    with state.asking_user(info):
        pin = await compactor.unpin(info, ref, by=_by(allowed))
    return await _answer(ctx, info, answers.unpinned(pin), asked=session)


@telling(ToolError)
async def restore_context(
    ctx: Ctx,
    ref: Annotated[str, Field(description="The compaction, e.g. c4.")],
    force: Annotated[bool, Field(description="Even over the window.")] = False,
    session: Name = None,
) -> CallToolResult:
    """Undo a compaction and all after it; what was said since stays."""
    state = state_of(ctx)
    compactor = await state.compactor()
    info, _ = await state.session(ctx, session, "look")
    outcome = await compactor.restore(info, ref, force)
    text = outcome_text(outcome, state.mode(ctx, info), info.name)
    if not isinstance(outcome, Compaction):
        return await _answer(ctx, info, text, asked=session)
    meta = await _directive(state, info, outcome)
    return await _answer(ctx, info, text, meta, asked=session)


@telling(ToolError)
async def record_messages(
    ctx: Ctx,
    messages: Annotated[
        list[Any] | dict[str, Any],
        Field(description="Messages, or a whole request body {system, tools, messages}."),
    ],
    after: Annotated[str | None, Field(description="Ref they follow.")] = None,
    session: Name = None,
) -> CallToolResult:
    """Append messages to the log, for loops without hooks; returns their refs in order."""
    state = state_of(ctx)
    state.check_records()
    came = await state.threads.run(incoming, messages)
    compactor = await state.compactor()
    info, is_new = await state.session(ctx, session, "make")
    if not info.traits.owns_window and not state.host(ctx).is_closed:
        info = await compactor.own_window(info)
    done = await compactor.record(info, came, after, via="tool")
    refs = answers.refs(done.seqs) or "none"
    lines = [f"recorded {done.new} new of {len(done.seqs)} messages: {refs}"]
    if done.diverged is not None:
        lines.append(f"what was sent differs from m{done.diverged}, which stays as it was said")
    if done.masked:
        lines.append(masked_line(done.masked))
    if is_new:
        lines.append(await state.begun(ctx, info))
        session = info.name
    if state.mode(ctx, info) == "own":
        lines += await _relieve(state, info)
    return await _answer(ctx, info, "\n".join(lines), asked=session)


async def _relieve(state: State, info: SessionInfo) -> list[str]:
    """Have a window that is too full compacted beside the calls, and say so."""
    compactor = await state.compactor()
    fill = await compactor.fill_to_relieve(info)
    if fill is None:
        return []
    if not state.relieving.is_running(info):
        if compactor.is_compacting(info):
            return [answers.compacted_elsewhere(fill)]
        if not state.relieving.is_wanted(info, fill):
            return []
        work = apart.relieve(state.settings, compactor, info)
        state.relieving.begin(info, fill, work)
    return [answers.being_compacted(fill)]


async def _directive(
    state: State, info: SessionInfo, compaction: Compaction, preserve_markers: bool = True
) -> JsonObject:
    """What a program needs of a compaction, with all that was said since."""
    compactor = await state.compactor()
    now = await compactor.load(info)
    terms = compactor.index_terms(now)
    return await state.threads.run(directive, now, compaction.receipt, preserve_markers, *terms)


async def _looked_up(ctx: Ctx, name: str | None, scope: str) -> SessionInfo:
    """The session a recall means; across projects only when that was asked for."""
    state = state_of(ctx)
    try:
        return (await state.session(ctx, name, "look"))[0]
    except UnknownSession:
        found = None
        if scope == "all" and name is not None:
            found = await (await state.compactor()).find_anywhere(name.strip())
        if found is None:
            raise
        return found


async def _searched_from(ctx: Ctx, name: str | None, scope: str) -> SessionInfo | None:
    """The session a search starts from; beyond one session none has to be named."""
    state = state_of(ctx)
    if scope == "session" or name is not None or state.whose.must_name:
        return await _looked_up(ctx, name, scope)
    return await _session_if_any(ctx, None)


def _place(state: State, info: SessionInfo | None) -> answers.Place:
    if info is None:
        return answers.Place(state.whose.project)
    name = info.name if info.project == state.whose.project else ""
    return answers.Place(state.whose.project, name, info.updated.year)


async def _resume(ctx: Ctx, name: str | None, scope: str, nonce: str) -> CallToolResult:
    state = state_of(ctx)
    compactor = await state.compactor()
    whose = state.whose
    if name is None and not whose.must_name and not state.host(ctx).tells and len(whose.known) != 1:
        found = await compactor.sessions(whose.project, 5)
        if not found:
            raise InputError("nothing is kept for this project yet; pin or compress starts it.")
        return await _without_session(ctx, answers.sessions(found))
    try:
        info = await _looked_up(ctx, name, scope)
    except NothingRecorded as nothing:
        if not await compactor.project_pins(whose.project):
            raise
        return await _without_session(ctx, str(nothing))
    whose.remember(info)
    brief = await compactor.brief(info)
    is_elsewhere = state.is_of_another_chat(ctx, info)
    text = answers.brief(brief, nonce, whose.project, must_name=is_elsewhere)
    return await _answer(ctx, info, text, asked=name)


async def _without_session(ctx: Ctx, text: str) -> CallToolResult:
    """A text where no session is meant yet, with what the project's earlier ones left."""
    state = state_of(ctx)
    compactor = await state.compactor()
    left = await compactor.project_pins(state.whose.project)
    told = f"{pinned_block(left)}\n{text}" if left else text
    news = answers.announced(await state.announced(None), told)
    return CallToolResult(content=[TextContent(type="text", text="\n".join([told, *news]))])


async def _answer(
    ctx: Ctx,
    info: SessionInfo | None,
    text: str,
    meta: dict[str, Any] | None = None,
    *,
    asked: str | None,
    shows_pins: bool = False,
    has_fill: bool = False,
) -> CallToolResult:
    """A text with what belongs around it; its last line the fill where that is known.

    What came of relieving the session meanwhile is told in the first answer after its end.

    `asked`: the session as it was named. `shows_pins`: where the window is not the caller's own,
    the pins come first. `has_fill`: the text says it already.
    """
    state = state_of(ctx)
    compactor = await state.compactor()
    lines: list[str] = []
    if shows_pins and (info is None or state.mode(ctx, info) != "own"):
        lines += await _pins_first(state, compactor, info)
    lines.append(text)
    relief = state.relieving.take(info) if info is not None else None
    if info is not None and relief is not None:
        lines.append(answers.relieved(relief, info.name))
        if meta is None and isinstance(relief, Compaction):
            meta = await _directive(state, info, relief)
    lines += answers.announced(await state.announced(info), "\n".join(lines))
    if asked is None and info is not None and not state.host(ctx).tells:
        lines.append(answers.only_session(info))
    if not has_fill and info is not None and state.mode(ctx, info) == "own":
        fill = await compactor.fill_shown(info)
        if fill is not None:
            lines.append(answers.fill_line(fill))
    return CallToolResult(content=[TextContent(type="text", text="\n".join(lines))], _meta=meta)


async def _pins_first(state: State, compactor: Compactor, info: SessionInfo | None) -> list[str]:
    if info is None or info.project != state.whose.project:
        pins = await compactor.project_pins(state.whose.project)
    else:
        pins = await compactor.pins(info)
    block = pinned_block(pin for pin in pins if pin.kind != "note")
    return [block] if block else []


def _reporting(ctx: Ctx) -> Any:
    step = 0

    async def report(what: str) -> None:
        nonlocal step
        step += 1
        await ctx.report_progress(step, None, what)

    return report


def _can_ask(ctx: Ctx) -> bool:
    capabilities = ctx.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


def _by(answer: ElicitationResult[Sure]) -> Author:
    said_yes = isinstance(answer, AcceptedElicitation) and answer.data.sure
    return "user" if said_yes else "agent"


def _page(compactor: Compactor, found: Sequence[Quote], max_tokens: int, skip: int) -> int:
    """The characters of a page that takes no more tokens than wanted."""
    texts = [quote.text for quote in found]
    room = max(_LEAST_TOKENS, max_tokens - _PER_PAGE)
    most = room * _CHARS_PER_TOKEN
    while True:
        pieces = cut_page(texts, skip, most).pieces
        tokens = sum(compactor.count(text) + _PER_QUOTE for _, text in pieces)
        if tokens <= room or most <= _LEAST_CHARS:
            return most
        most = max(_LEAST_CHARS, min(most - 1, most * room // tokens))


def _skip(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isdecimal():
        raise InputError(f"{cursor!r} is no cursor; pass the one from the answer before.")
    return int(cursor)


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.astimezone()
    except (ValueError, OverflowError):  # the year 1 has no local time
        raise InputError(f"{text!r} is no time; write it as 2026-11-30T18:00.") from None


CORE = (compress_context, pin_constraint, recall_archived, context_stats)
MANAGEMENT = (unpin_constraint, restore_context, record_messages)


def register(server: MCPServer[State], only_core: bool = False) -> None:
    """Publish the tools: the four core ones, or all seven."""
    core: dict[str, Any] = {"meta": {"anthropic/alwaysLoad": True}}
    _add(server, compress_context, "Compress context", destructive=False, **core)
    _add(server, pin_constraint, "Pin a constraint", destructive=False, **core)
    _add(server, recall_archived, "Recall from the archive", read_only=True, **core)
    _add(server, context_stats, "Context statistics", read_only=True, **core)
    if not only_core:
        _add(server, unpin_constraint, "Release a pin", destructive=True)
        _add(server, restore_context, "Undo a compaction", destructive=False)
        _add(server, record_messages, "Record messages", destructive=False, idempotent=True)
