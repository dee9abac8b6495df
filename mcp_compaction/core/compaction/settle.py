"""Settles a compaction: the plan becomes a view, which is checked against its source and gets back
what it would lose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from mcp_compaction.core.compaction.blocks import (
    Block,
    DigestBlock,
    MergeBlock,
    SpanBlock,
    StepBlock,
    WindowPlan,
)
from mcp_compaction.core.compaction.budget import keeps_all_rules
from mcp_compaction.core.compaction.outcomes import compaction_of
from mcp_compaction.core.compaction.progress import Asking, Inputs, Progress
from mcp_compaction.core.compaction.room import (
    add_account,
    fit_index,
    fit_steps,
    name_what_left,
)
from mcp_compaction.core.compaction.verify import (
    Check,
    compare,
    find_lost,
    find_missing_lines,
    lines_of_findings,
    put_back,
    search_request_for,
    tally_findings,
    tally_lines,
)
from mcp_compaction.core.digest.extract import open_tasks
from mcp_compaction.core.limits import LONGEST_ORDER
from mcp_compaction.core.log.identifiers import Finding
from mcp_compaction.core.log.pinned import shown_text
from mcp_compaction.core.text.words import fold
from mcp_compaction.core.window.render import lay_out
from mcp_compaction.model import (
    Digest,
    Digested,
    Entry,
    Found,
    Item,
    Message,
    NothingToDo,
    Outcome,
    SectionName,
    Session,
    Shown,
    ShownMessage,
    Tally,
    View,
)

_AS_LARGE = "nothing to do: the digest would be as large as what it stands for. Go on."

PlacedLine = tuple[int, Item]  # the number of the message that holds a line, and the line


@dataclass(frozen=True)
class _Seen:
    """A view beside its source."""

    shown: tuple[Shown, ...]
    gone: list[Message]  # those that the view no longer shows whole
    check: Check  # where their identifiers are
    to_keep: dict[SectionName, list[PlacedLine]]  # that must stand in the view
    of_prompt: list[Item]  # rules of a long request, of which the view shows its share


def _look_at(progress: Progress, before: Session, inputs: Inputs) -> _Seen:
    """The view as it is now beside what it was made of."""
    policy, count, session = inputs.policy, inputs.count, progress.session
    shown = lay_out(session, inputs.given_policy.index_limit, count)
    whole = {p.message.seq for p in shown if isinstance(p, ShownMessage) and not p.cuts}
    gone = [message for message in before.messages if message.seq not in whole]
    cut = {p.message.seq for p in shown if isinstance(p, ShownMessage)}
    room = progress.plan.window.room_in(progress.plan.budget.target)
    prompts = {
        message.seq
        for message in gone
        if (
            not keeps_all_rules(message, room, policy, count)
            if message.seq in cut
            else len(message.text) > LONGEST_ORDER
        )
    }
    told = [
        (digest.last, item)
        for digest in before.digests
        for item in digest.items("CONSTRAINTS")
        if item.by != "model"
    ]
    away = {message.seq for message in gone}
    said = [placed for placed in map(_place, inputs.rules) if placed[0] in away]
    rules = [*told, *(placed for placed in said if placed[0] not in prompts)]
    return _Seen(
        shown=shown,
        gone=gone,
        check=compare(gone, shown, inputs.found),
        to_keep={"CONSTRAINTS": rules, "OPEN": [*map(_place, open_tasks(before.messages))]},
        of_prompt=_without_repeats([placed for placed in said if placed[0] in prompts]),
    )


def _place(line: Item) -> PlacedLine:
    return int(line.refs[0][1:]), line


def settle(before: Session, progress: Progress, inputs: Inputs) -> Asking[Outcome]:
    """Check the view against its source, put back what is lost, fill the room, finish."""
    progress = fit_steps(before, progress, inputs)
    found: set[Finding] = set()  # what the archive's own search gives back
    progress, missing = yield from _put_lost_back(before, progress, inputs, found)
    shorter = fit_index(progress, inputs)
    if shorter is not progress:  # what was put back took the room of the index
        progress, missing = yield from _put_lost_back(before, shorter, inputs, found)
    if inputs.ask.strategy != "archive":
        progress = name_what_left(add_account(before, progress, inputs), inputs)
        progress = fit_index(progress, inputs)  # of which the lines of calls tell a part, or none
    after = inputs.measure(progress.session)
    if after.counted >= inputs.fill.counted:
        return NothingToDo(reason="digest_as_large", text=_AS_LARGE)
    seen = _look_at(progress, before, inputs)
    lost = set(missing).intersection(seen.check.unseen)
    tallies = (*_tallies_of_lines(before, seen), *tally_findings(seen.check, lost))
    return compaction_of(before, progress, inputs, after, tallies)


def _put_lost_back(
    before: Session, progress: Progress, inputs: Inputs, found: set[Finding]
) -> Asking[tuple[Progress, tuple[Finding, ...]]]:
    """The view with what it would lose shown again, and what no search gave back."""
    seen = _look_at(progress, before, inputs)
    missing = yield from _find_missing(seen.check, found, inputs)
    lines = lines_of_findings(missing, seen.gone, inputs.found)
    for section, placed in seen.to_keep.items():
        unseen = set(find_missing_lines([item for _, item in placed], seen.shown))
        for seq, item in placed:
            if item in unseen:
                lines.setdefault(seq, []).append((section, item))
    return put_back(progress, lines, inputs.count) if lines else progress, missing


def _find_missing(check: Check, found: set[Finding], inputs: Inputs) -> Asking[tuple[Finding, ...]]:
    """The identifiers that neither the view nor the archive's own search gives back; those that
    it does are added to what was `found` before, and not searched for again."""
    unseen = [finding for finding in check.unseen if finding not in found]
    if not unseen:
        return ()
    answer = yield search_request_for(unseen)
    if not isinstance(answer, Found):
        raise TypeError("a SearchRequest is answered by Found")
    lost = find_lost(unseen, answer.hits, inputs.found)
    found.update(set(unseen).difference(lost))
    return lost


def _tallies_of_lines(before: Session, seen: _Seen) -> list[Tally]:
    pins = [Item(text=shown_text(pin.text)) for pin in before.pins]
    rules = [*pins, *_without_repeats(seen.to_keep["CONSTRAINTS"])]
    found = (
        tally_lines("rules", rules, seen.shown, seen.of_prompt),
        tally_lines("open tasks", _without_repeats(seen.to_keep["OPEN"]), seen.shown),
    )
    return [tally for tally in found if tally.total]


def _without_repeats(placed: Sequence[PlacedLine]) -> list[Item]:
    """Each line once, however often it was said."""
    return list({fold(item.text): item for _, item in placed}.values())


def apply(
    session: Session, window: WindowPlan, digests: Mapping[int, Digest], memory_in: int | None
) -> Session:
    """The session seen through its next view; `digests` are the new ones, by block."""
    body: list[Entry] = []
    for number, block in enumerate(window.blocks):
        body += _entries_of(block, digests.get(number))
    new = tuple(digests.values())
    shown = {entry.digest for entry in body if isinstance(entry, Digested)}
    view = View(
        version=session.view.version + 1,
        head=window.head,
        pinned=tuple(pin.number for pin in session.pins),
        body=tuple(body),
        upto=max((session.view.upto, *(m.seq for m in session.messages))),
        memory_in=memory_in,
        index_most=window.index_most,
        gone=session.view.gone,
        reworded=session.view.reworded,
        taken=session.view.taken,
    )
    kept = {entry.seq for entry in (*view.head, *body) if not isinstance(entry, Digested)}
    return session.model_copy(
        update={
            "view": view,
            "messages": tuple(m for m in session.messages if m.seq in kept),
            "digests": tuple(d for d in (*session.digests, *new) if d.number in shown),
            "next_digest": session.next_digest + len(new),
        }
    )


def _entries_of(block: Block, digest: Digest | None) -> tuple[Entry, ...]:
    match block:
        case StepBlock():
            return block.entries
        case DigestBlock():
            number = block.digest.number if digest is None else digest.number
            return (Digested(digest=number),)
        case SpanBlock() | MergeBlock():
            if digest is None:
                raise ValueError("a planned digest was never written")
            return (Digested(digest=digest.number),)
        case _:
            assert_never(block)
