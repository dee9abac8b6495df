"""Resources to read (sessions, the context to send, pins, digests, originals, and the page that a
host may show beside context_stats), and prompts that a user starts by hand.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Annotated, Any, Final, TypeGuard, cast

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, Completion, PromptReference, ResourceTemplateReference
from pydantic import Field

from mcp_compaction import compactor
from mcp_compaction.compactor.gauge import Stats
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.compaction.receipt import receipt_text
from mcp_compaction.core.digest.render import render_or_label
from mcp_compaction.core.log.pinned import pinned_block
from mcp_compaction.core.text.refs import number_of
from mcp_compaction.core.wording import kilo
from mcp_compaction.errors import InputError
from mcp_compaction.model import SessionInfo
from mcp_compaction.server.state import State, errors_as, state_of
from mcp_compaction.tools import answers, recalling

Ctx = Context[State]

_JSON = "application/json"
_TEXT = "text/plain"
_MOST_SESSIONS = 50

_MOST_NAMES = 100


def register_resources(server: MCPServer[State], state: State) -> None:
    """Publish the resources."""

    @errors_as(ResourceNotFoundError)
    async def sessions() -> str:
        """The sessions of this project, the newest first."""
        work = await state.workspace()
        found = await compactor.list_sessions(work, state.project, _MOST_SESSIONS)
        return json.dumps([info.model_dump(mode="json") for info in found], ensure_ascii=False)

    for uri, title, kind, read in (
        ("compaction://sessions", "Sessions of this project", _JSON, sessions),
        ("compaction://{session}/context", "What the model should see now", _JSON, context),
        ("compaction://{session}/pinned", "The pinned block", _TEXT, pinned),
        ("compaction://{session}/digests", "All digests", _TEXT, digests),
        ("compaction://{session}/messages/{ref}", "A message, byte for byte", _JSON, message),
        ("compaction://{session}/receipts/{ref}", "A receipt", _TEXT, receipt),
        (URI, "The context window", MIME_TYPE, app),
    ):
        server.resource(uri, title=title, mime_type=kind)(read)


async def _find_session(ctx: Ctx, name: str) -> tuple[Workspace, SessionInfo]:
    state = state_of(ctx)
    work = await state.workspace()
    return work, await compactor.find_session(work, state.project, name)


async def app() -> str:
    """The page that a host may show beside what context_stats answers."""
    return read_app()


@errors_as(ResourceNotFoundError)
async def context(session: str, ctx: Ctx) -> str:
    """What the model should see now, in the Messages API's shape, ready to send."""
    work, info = await _find_session(ctx, session)
    return json.dumps(await compactor.context(work, info), ensure_ascii=False)


@errors_as(ResourceNotFoundError)
async def pinned(session: str, ctx: Ctx) -> str:
    """The pinned block of a session, word for word."""
    work, info = await _find_session(ctx, session)
    return pinned_block(p for p in await work.pins(info) if p.kind != "note")


@errors_as(ResourceNotFoundError)
async def digests(session: str, ctx: Ctx) -> str:
    """All digests ever made of a session, oldest first."""
    work, info = await _find_session(ctx, session)
    return "\n\n".join(map(render_or_label, await work.store.digests(info.id)))


@errors_as(ResourceNotFoundError)
async def message(session: str, ref: str, ctx: Ctx) -> str:
    """The original JSON of a message, byte for byte."""
    work, info = await _find_session(ctx, session)
    number = number_of(ref, "m")
    found = await compactor.originals(work, info, f"m{number}")
    return found[0].message.raw


@errors_as(ResourceNotFoundError)
async def receipt(session: str, ref: str, ctx: Ctx) -> str:
    """What a compaction did."""
    work, info = await _find_session(ctx, session)
    number = number_of(ref, "c")
    for known in await compactor.receipts(work, info):
        if known.compaction == number:
            return receipt_text(known, state_of(ctx).mode(ctx, info), info.name)
    raise ResourceNotFoundError(f"no compaction {ref} in {session}; read its digests instead.")


URI: Final = "ui://mcp-compaction/window"
MIME_TYPE: Final = "text/html;profile=mcp-app"
KEY: Final = "mcp-compaction/window"


def read_app() -> str:
    """The page, which is whole in itself and loads nothing."""
    return files("mcp_compaction.server").joinpath("window_app.html").read_text(encoding="utf-8")


def facts_of(stats: Stats) -> dict[str, Any]:
    """What the page shows of a session."""
    last = stats.last
    sizes = "" if last is None else f"{last.ref} {kilo(last.before)} -> {kilo(last.after)} tokens"
    pins = [
        {"ref": pin.ref, "kind": pin.kind, "by": pin.author, "text": pin.text} for pin in stats.pins
    ]
    fill = {"percent": round(stats.fill.percent, 1), "window": stats.fill.window}
    return {KEY: {**fill, "pins": pins, "last": sizes}}


def register_prompts(server: MCPServer[State], state: State) -> None:
    """Publish the prompts, with session names to complete."""
    if state.by_agent:
        server.prompt(title="Compact this conversation")(compact)
    server.prompt(title="Resume a session")(resume)
    server.prompt(title="Pin a rule")(pin)

    @server.completion()
    async def complete(ref: Any, argument: Any, _: Any) -> Completion | None:  # pyright: ignore[reportUnusedFunction]
        """Names of sessions, wherever one is asked for."""
        if not isinstance(ref, PromptReference | ResourceTemplateReference):
            return None
        if argument.name != "session":
            return None
        work = await state.workspace()
        found = await compactor.list_sessions(work, state.project, _MOST_NAMES)
        names = [info.name for info in found if info.name.startswith(argument.value)]
        return Completion(values=names, total=len(names), has_more=False)


async def check(server: MCPServer[State], params: dict[str, Any]) -> None:
    """Refuse a prompt that a server does not have, or not with these arguments."""
    known = {
        prompt.name: {a.name: bool(a.required) for a in prompt.arguments or ()}
        for prompt in await server.list_prompts()
    }
    check_request(params, known)


def check_request(params: dict[str, Any], known: dict[str, dict[str, bool]]) -> None:
    """Refuse an unknown prompt, an unknown argument or a missing one, and name what there is.

    `known` says of each argument of each prompt whether it is required.
    """
    name = params.get("name")
    given: object = params.get("arguments") or {}
    if not isinstance(name, str) or not _is_text_map(given):
        raise _refusal(
            'ask for a prompt as {"name": "resume", "arguments": {"session": "NAME"}}: all strings.'
        )
    if name not in known:
        raise _refusal(f"no prompt {name[:80]!r}; ask for one of {', '.join(sorted(known))}.")
    takes = ", ".join(known[name])
    strange = sorted(given.keys() - known[name].keys())
    if strange:
        raise _refusal(
            f"{name}: no argument {strange[0][:80]!r}; it takes {takes}. "
            "Nothing was done; ask again with these."
        )
    missing = [
        wanted for wanted, required in known[name].items() if required and wanted not in given
    ]
    if missing:
        raise _refusal(
            f"{name}: {missing[0]} is required. Nothing was done; "
            f'ask again with "arguments": {{"{missing[0]}": …}}.'
        )


def _is_text_map(given: object) -> TypeGuard[dict[str, str]]:
    return isinstance(given, dict) and all(
        isinstance(value, str) for value in cast("dict[str, object]", given).values()
    )


def _refusal(text: str) -> MCPError:
    """The error as an MCPError: the SDK lets no other error of a prompt through."""
    return MCPError(INVALID_PARAMS, text)


async def compact(
    focus: Annotated[str, Field(description="What matters most next.")] = "",
) -> str:
    """Compress the context now."""
    about = f" Focus on: {focus}." if focus.strip() else ""
    return (
        "Please compress the context with compress_context: reason, and a digest in your own words "
        "with lines under GOAL, REJECTED, CONSTRAINTS, STATE, DONE, DECISIONS, ERRORS, FACTS, "
        f"ASKED, OPEN and NEXT.{about} Then show me the receipt."
    )


@errors_as(_refusal)
async def resume(
    ctx: Ctx,
    session: Annotated[
        str, Field(description="The session to go on with; blank: asks which.")
    ] = "",
) -> str:
    """Go on with a session in this chat."""
    state = state_of(ctx)
    work = await state.workspace()
    info, _ = await state.finder.find(work, state.host(ctx), session.strip() or None, "look")
    state.finder.remember(info)
    nonce = recalling.new_nonce()
    is_elsewhere = state.is_of_another_chat(ctx, info)
    brief = await compactor.brief(work, info)
    text = recalling.brief_text(brief, nonce, state.project, must_name=is_elsewhere)
    return f'Please go on with session "{info.name}". What is known of it:\n{text}'


@errors_as(_refusal)
async def pin(
    ctx: Ctx,
    text: Annotated[str, Field(description="The rule, word for word.")],
) -> str:
    """Keep a rule of yours in sight, word for word, in this project."""
    state = state_of(ctx)
    state.check_records()
    if len(text.split()) == 1:
        # Claude Code splits what is typed after a prompt's name at its blanks.
        raise InputError(
            f"only {text!r} arrived: this host hands a prompt one word of what was typed, and "
            "nothing was pinned. Type the rule in a terminal: mcp-compaction pin TEXT"
        )
    work = await state.workspace()
    info, is_new = await state.session(ctx, None, "make")
    done = await compactor.pin(work, info, PinWish(text, by="user", channel="prompt"))
    state.own_pins.add(done.pin.number)
    said = answers.pin_text(done, state.mode(ctx, info), info.traits.pins_put_back)
    told = f"I have pinned a rule, please keep to it.\n{said}"
    return f"{told}\n{await state.describe_new_session(ctx, info)}" if is_new else told
