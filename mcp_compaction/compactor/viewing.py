"""Views of a session: as a request body, as before a compaction, with messages shown again."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mcp_compaction.compactor.recalling import originals
from mcp_compaction.compactor.recording import keep_reported_fill
from mcp_compaction.compactor.results import REGRET
from mcp_compaction.compactor.thinking import leave_out_of_view
from mcp_compaction.compactor.workspace import MOST_TRIES, Workspace
from mcp_compaction.core.compaction.outcomes import change_of_view
from mcp_compaction.core.excerpts.render import messages_shown_whole, show_again
from mcp_compaction.core.text.refs import number_of
from mcp_compaction.core.window.history import begin_view, view_to_restore
from mcp_compaction.core.window.render import lay_out
from mcp_compaction.core.wording import kilo
from mcp_compaction.errors import UnknownRef
from mcp_compaction.formats import render
from mcp_compaction.formats.show import make_request_body
from mcp_compaction.formats.turns import join_turns
from mcp_compaction.model import (
    Calibration,
    Compaction,
    Event,
    Failed,
    JsonObject,
    Message,
    NothingToDo,
    Outcome,
    Receipt,
    Refusal,
    Session,
    SessionInfo,
    Shape,
)

_OVERTAKEN = "not {}: the view changed meanwhile. Call again."
_FIRST_UNDONE = re.compile(r"\bc(\d+)")


async def begin(work: Workspace, window: Session) -> bool:
    """Put the pins in force at their place, when a window is shown for the first time.

    They stay there, and others join them, at the next compaction.
    """
    info = window.info
    if not _is_to_begin(window):
        return False
    for _ in range(MOST_TRIES):
        session = await work.load(info)
        if session.view.is_begun:
            break
        view = await work.threads.run(begin_view, session, session.messages)
        if await work.store.save_view(info.id, view, session.view.version):
            break
    return True


def _is_to_begin(session: Session) -> bool:
    owns_window = session.info.traits.owns_window
    return owns_window and bool(session.info.messages) and not session.view.is_begun


async def context(
    work: Workspace,
    info: SessionInfo,
    shape: Shape = "anthropic",
    *,
    model: str | None = None,
    begins: bool = False,
) -> JsonObject:
    """The context the model should see now, as a provider's request body, ready to send.

    `model`: the one that is asked, if not the session's. `begins`: it will be sent, so that what
    stands at its start stays there.
    """
    if begins:
        await begin(work, (await work.read_window(info)).session)
    session = await work.load(info)

    def lay() -> list[JsonObject]:
        seen = session
        if _is_to_begin(session):
            seen = session.model_copy(update={"view": begin_view(session, session.messages)})
        return render(lay_out(seen, *work.index_terms(session)), shape)

    messages = await work.threads.run(lay)
    asked = model or session.info.traits.model or ""
    shown = await leave_out_of_view(work, session, messages, shape, model=asked, is_sent=begins)
    if shape == "anthropic":
        shown = join_turns(shown)
    return make_request_body(session.sections.system, shown, shape)


async def restore(work: Workspace, info: SessionInfo, ref: str, force: bool = False) -> Outcome:
    """Go back to the view before a compaction, with everything said since."""
    number = number_of(ref, "c")
    receipts = await work.store.receipts(info.id)
    found = next((known for known in receipts if known[0].compaction == number), None)
    if found is None:
        known = ", ".join(receipt.ref for receipt, _ in receipts[-5:]) or "none yet"
        raise UnknownRef(f"no compaction {ref} in {info.name}; the newest are: {known}.")
    receipt, base = found
    if receipt.kind == "digest":
        return _not_restored(
            f"{ref} only kept your digest and changed no window. Write a better one with "
            "compress_context; where they disagree the later stands."
        )
    in_force = _compactions_in_force([receipt for receipt, _ in receipts])
    if receipt.kind != "restore" and number not in in_force:
        return _not_restored(f"{ref} is already undone; nothing was changed.")
    now = work.now()
    session = await work.store.load(info.id, now)
    view = await work.store.view(info.id, base)
    back = await work.store.load(info.id, now, view)
    view = await work.threads.run(view_to_restore, back, session)
    shown = session.view
    writers = {"version": shown.version, "compaction": shown.compaction, "begun": shown.begun}
    if view.model_copy(update=writers) == shown:
        return _not_restored(f"{ref} is already undone; nothing was changed.")
    back = await work.store.load(info.id, now, view)
    undone = tuple(f"c{n}" for n in sorted({number, *(n for n in in_force if n > number)}))
    # A host shows more than our view: what it reported is not what goes back.
    own = {} if session.info.traits.owns_window else {"calibration": Calibration()}
    seen = [one.model_copy(update=own) for one in (session, back)]
    before, after = [await work.threads.run(work.fill_of, one) for one in seen]
    if after.tokens > after.window and not force:
        return Refusal(
            reason="window_too_small",
            needed_tokens=after.tokens,
            text=f"not restored: the window would hold {kilo(after.tokens)} of "
            f"{kilo(after.window)} tokens. Pass force=true if the host has room for it.",
        )
    compaction = change_of_view(session, view, "restore", ", ".join(undone), (before, after), now)
    if not await work.store.save(info.id, compaction):
        return Failed(reason="view_changed", text=_OVERTAKEN.format("restored"))
    await keep_reported_fill(work, session)
    return compaction


def _not_restored(why: str) -> NothingToDo:
    return NothingToDo(reason="no_window_changed", text=f"nothing to restore: {why}")


def _compactions_in_force(receipts: Sequence[Receipt]) -> frozenset[int]:
    """The compactions that made the window what it is: those that no restore has undone."""
    in_force: frozenset[int] = frozenset()
    before: dict[int, frozenset[int]] = {}
    for receipt in receipts:
        before[receipt.compaction] = in_force
        if receipt.kind == "restore":
            in_force = before.get(_undone_by(receipt, receipts), in_force)
        elif receipt.kind != "digest":
            in_force |= {receipt.compaction}
    return in_force


def _undone_by(restore: Receipt, receipts: Sequence[Receipt]) -> int:
    """The compaction or restore before which a restore went back; its reason names it first."""
    if named := _FIRST_UNDONE.search(restore.reason):
        return int(named[1])
    # Earlier versions gave no number where a restore was undone.
    restores = (r.compaction for r in receipts if r.kind == "restore")
    return max((n for n in restores if n < restore.compaction), default=0)


async def page_in(work: Workspace, info: SessionInfo, refs: str) -> Outcome:
    """Show messages again, whole, from the next request on; the next compaction prefers them.

    For loops that replace their own window, by the refs of messages or ids of tool calls.
    """
    found = [original.message for original in await originals(work, info, refs)]
    for _ in range(MOST_TRIES):
        session = await work.load(info)
        outcome = await work.threads.run(_plan_page_in, work, session, found)
        if not isinstance(outcome, Compaction):
            return outcome
        gone = await work.store.not_shown(info.id, [message.seq for message in found])
        named = " ".join(f"m{seq}" for seq in gone)
        event = Event(name=REGRET, at=outcome.receipt.at, detail=named) if gone else None
        if await work.store.save(info.id, outcome, event):
            return outcome
    return Failed(reason="view_changed", text=_OVERTAKEN.format("paged in"))


def _plan_page_in(work: Workspace, session: Session, messages: Sequence[Message]) -> Outcome:
    if not session.info.traits.owns_window:
        return Refusal(
            reason="window_of_host",
            text="not paged in: this window is the host's, and only the host can show more in it. "
            "Read the messages with recall_archived instead.",
        )
    there = messages_shown_whole(session)
    missing = [message for message in messages if message.seq not in there]
    if not missing:
        text = "nothing to do: the window shows all of that whole. Go on."
        return NothingToDo(reason="shown_already", text=text)
    view = show_again(session, missing)
    seen = session.model_copy(update={"view": view})
    before, after = work.fill_of(session), work.fill_of(seen)
    refs = ", ".join(message.ref for message in missing)
    if after.tokens > after.window:
        return Refusal(
            reason="window_too_small",
            needed_tokens=after.tokens,
            text=f"not paged in: with {refs} the window would hold {kilo(after.tokens)} of "
            f"{kilo(after.window)} tokens. Ask for less, or make room first.",
        )
    return change_of_view(session, view, "page_in", refs, (before, after), work.now())
