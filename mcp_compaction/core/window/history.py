"""A caller's history laid beside the log: which messages it has, and the view that follows it.

A caller may compact, clear, rewind or edit its own history. The log keeps both; the view shows what
the caller still has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mcp_compaction.core.excerpts.render import LABELS as EXCERPTS_LABELS
from mcp_compaction.core.excerpts.render import is_excerpt_line
from mcp_compaction.core.log.alignment import SharedRun, find_matches
from mcp_compaction.core.log.pinned import PINNED_LABEL
from mcp_compaction.core.log.steps import count_head
from mcp_compaction.core.text.injection import END
from mcp_compaction.core.text.refs import runs_of
from mcp_compaction.core.window.render import INDEX_LABEL
from mcp_compaction.model import (
    Digest,
    Digested,
    Entry,
    Kept,
    Logged,
    Message,
    Reworded,
    Role,
    Run,
    Session,
    TakenAway,
    View,
)

MOST_OF_HEAD = 50  # messages among which a history's head is looked for
_MOST_BEHIND = 50  # messages of the log that stand behind what a host kept
_DIGEST = re.compile(
    r"\[digest d\d+(?:,| of m(\d+)(?:\.\.m(\d+))?)[^\n]*; a record, not instructions\]"
)


_INDEX_LINE = re.compile(r"(?:files|commands|errors|urls|ids|numbers): ")
_PIN_LINE = re.compile(r"p\d+ (?:constraint|open task|fact|note), by (?:user|agent|program)[:,] ")


class CallerMessage(NamedTuple):
    """A message of the caller's history, by what its identity is judged by: its content, or the
    host's id where the log has it as a content."""

    role: Role
    content: str
    has_id: bool = False  # that of a host or of a call: people do not say it twice


class LogPlace(NamedTuple):
    """The message of the log that a caller's message is; not the same where it was edited."""

    seq: int
    is_same: bool = True


def find_places(
    log: Sequence[Logged],
    gone: Sequence[Run],
    given: Sequence[CallerMessage],
    order: Sequence[int] = (),
) -> tuple[LogPlace | None, ...]:
    """The places of a history's messages; None: it is new.

    A message that was edited where it stood keeps its place, if all around it is known. Behind the
    first one that has no place, only those that the caller had just now are known: a host puts its
    summary before what it keeps, and a late message among the others. `order`: the numbers of some
    messages as the caller had them last.
    """
    log = _reorder(log, order)
    still_there = [one for one in log if not is_in(gone, one.seq)]
    start = _find_start(still_there, still_there, given)
    if len(start) < len(given) and len(still_there) < len(log):
        # What the caller dropped before may be back.
        start = max(start, _find_start(log, still_there, given), key=len)
    return (*start, *_find_moved(log, still_there, start, given[len(start) :]))


def _reorder(log: Sequence[Logged], order: Sequence[int]) -> list[Logged]:
    """The log with some messages in another order among themselves."""
    rows = {one.seq: one for one in log}
    named = [rows[seq] for seq in order if seq in rows]
    places = sorted({row.seq for row in named})
    stands_at = dict(zip(places, named, strict=True))
    return [stands_at.get(one.seq, one) for one in log]


def _find_start(
    log: Sequence[Logged], still_there: Sequence[Logged], given: Sequence[CallerMessage]
) -> tuple[LogPlace, ...]:
    """The places up to the first message that has none: in the log's order."""
    places: list[LogPlace] = []
    after = -1  # where the newest that has its place stands in the log
    stands_at = {one.seq: n for n, one in enumerate(log)}
    known, new = Counter(one.content for one in log), Counter(one.content for one in given)
    for match in _find_sure(log, given):
        between = given[len(places) : match.second]
        missed = [one for one in still_there if after < stands_at[one.seq] < match.first]
        is_edited = [one.role for one in missed] == [one.role for one in between]
        is_moved = any(known[one.content] >= new[one.content] for one in between)
        if between and (is_moved or not is_edited):
            break
        places += (LogPlace(one.seq, is_same=False) for one in missed[: len(between)])
        places += (LogPlace(one.seq) for one in log[match.first : match.first + match.size])
        after = match.first + match.size - 1
    return tuple(places)


def _find_moved(
    log: Sequence[Logged],
    still_there: Sequence[Logged],
    start: Sequence[LogPlace],
    rest: Sequence[CallerMessage],
) -> list[LogPlace | None]:
    """The places of messages that stand behind a new one, or in another order than in the log."""
    by_id = {one.host_id: LogPlace(one.seq) for one in log if one.content == one.host_id}
    places = [by_id.get(one.content) for one in rest]
    taken = {place.seq for place in (*start, *places) if place is not None}
    has_other_head = not start or [start[0].seq] != [one.seq for one in still_there[:1]]
    is_first = True
    while True:
        left = [n for n, place in enumerate(places) if place is None]
        log = [one for one in still_there if one.seq not in taken]
        said, sent = [one.content for one in log], [rest[n].content for n in left]
        before = len(taken)
        kept = _find_kept(said, sent) if is_first and has_other_head else []
        is_first = False
        for first, second, size in kept or find_matches(said, sent):
            # People do say "continue" twice: one equal message alone has an id, or is the only one
            # and the newest of the log, or stands before others that are known.
            n = left[second]
            is_only = said.count(said[first]) == sent.count(said[first]) == 1
            is_sure = log[first] is still_there[-1] or any(places[n:])
            if size > 1 or rest[n].has_id or (is_only and is_sure):
                for row, n in zip(log[first : first + size], left[second:], strict=False):
                    places[n] = LogPlace(row.seq)
                    taken.add(row.seq)
        if len(taken) == before:
            return places


def _find_kept(said: Sequence[str], sent: Sequence[str]) -> list[SharedRun]:
    """The run that a host has kept behind its summary, though all of it was said before, too: that
    which ends last in the log."""
    known = set(said)
    begin = next((n for n, content in enumerate(sent) if content in known), len(sent))
    for end in range(len(said), max(0, len(said) - _MOST_BEHIND), -1):
        for size in range(min(end, len(sent) - begin), 1, -1):
            ends = (sent[begin], sent[begin + size - 1])
            if ends != (said[end - size], said[end - 1]):
                continue
            if sent[begin : begin + size] == said[end - size : end]:
                return [SharedRun(end - size, begin, size)]
    return []


def _find_sure(log: Sequence[Logged], given: Sequence[CallerMessage]) -> Iterator[SharedRun]:
    """The runs of a history that stand in the log, in order and beyond doubt."""
    said, sent = [one.content for one in log], [one.content for one in given]
    known, new = Counter(said), Counter(sent)
    end = 0
    for match in find_matches(said, sent):
        at = match.first
        # People do say "continue" twice: one equal message alone must follow, or be the only one.
        is_only = known[said[at]] == new[said[at]] == 1
        if match.size > 1 or at == end or is_only:
            yield match
            end = at + match.size


def is_record(text: str) -> bool:
    """Whether a text has the form of a record of ours, to its last line.

    A caller that took our view over sends them back; one with a word of somebody's behind it is a
    message.
    """
    label, _, rest = text.partition("\n")
    lines = [line for line in rest.split("\n") if line != END] if rest else []
    if _DIGEST.fullmatch(label):
        return all(line.isupper() or line.startswith("- ") for line in lines)
    if label == INDEX_LABEL:
        return all(_INDEX_LINE.match(line) for line in lines)
    if label in EXCERPTS_LABELS:
        return all(is_excerpt_line(line) for line in lines)
    return label == PINNED_LABEL and bool(lines) and bool(_PIN_LINE.match(lines[0]))


def messages_behind(text: str, newest: int) -> range:
    """The messages up to the newest that a record of ours stands for; none but for a digest."""
    found = _DIGEST.match(text)
    if found is None or found[1] is None:
        return range(0)
    return range(int(found[1]), min(newest, int(found[2] or found[1])) + 1)


def is_in(runs: Iterable[Run], seq: int) -> bool:
    """Whether a message is in one of some runs."""
    return any(first <= seq <= last for first, last in runs)


def members_of(digest: Digest, session: Session) -> set[int]:
    """The messages that a digest of the view stands for."""
    shown = {message.seq for message in session.messages}
    span = range(digest.first, digest.last + 1)
    return {seq for seq in span if seq not in shown and not is_in(session.view.gone, seq)}


def begin_view(session: Session, messages: Sequence[Message]) -> View:
    """The view of a history that is shown for the first time: its head, then the pins in force."""
    head = head_of(messages)
    return session.view.model_copy(
        update={
            "version": session.view.version + 1,
            "head": tuple(Kept(seq=seq) for seq in head),
            "pinned": tuple(pin.number for pin in session.pins),
            "upto": max(head, default=0),
            "begun": True,
        }
    )


def head_of(messages: Sequence[Message]) -> tuple[int, ...]:
    """The messages that a history begins with: those of the system, and the first request."""
    return tuple(m.seq for m in messages[: count_head(messages, keep_first_request=True)])


def follow(
    session: Session,
    there: set[int],
    head: Sequence[int],
    newest: int,
    reworded: tuple[Reworded, ...] = (),
    taken: tuple[TakenAway, ...] = (),
) -> View | None:
    """The view of what a caller still has of its history; None where the view shows just that.

    `there`: the known messages it has, with those that digests of the view stand for. `head`: those
    it begins with now. `newest`: the newest of the log. `reworded`: those that it has edited.
    `taken`: what its host's own compactions took away. A digest of anything that the caller has no
    more, or words otherwise, is no longer shown; what is left of its messages is.
    """
    gone = runs_of(seq for seq in range(1, newest + 1) if seq not in there)
    before = session.view
    if (gone, reworded, taken) == (before.gone, before.reworded, before.taken):
        return None
    changed = {one.seq for one in set(before.reworded) ^ set(reworded)}
    view = _reword(session.view, reworded, changed)
    # What a history begins with is shown whole; a digest tells of the words that it was made from.
    may_be_behind = there.difference(head, changed)
    stays = {d.number: members_of(d, session) <= may_be_behind for d in session.digests}
    again = {s for s in there if s <= view.upto and is_in(view.gone, s)}
    for digest in session.digests:
        if not stays[digest.number]:
            again |= members_of(digest, session) & there
    body = [
        e for e in view.body if (stays[e.digest] if isinstance(e, Digested) else e.seq in there)
    ]
    kept_head = tuple(entry for entry in view.head if entry.seq in there)
    has_head = tuple(entry.seq for entry in kept_head) == tuple(head)
    if view.is_begun and not has_head:
        again.update(entry.seq for entry in kept_head)
        kept_head = tuple(Kept(seq=seq) for seq in head)
        body = [e for e in body if isinstance(e, Digested) or e.seq not in head]
    body = _insert(body, again.difference(head), session.digests)
    has_head = has_head and len(kept_head) == len(view.head)  # else its beginning is another
    late_pins = tuple(one for one in view.late_pins if one.after in there)
    # A pin whose place is gone would be shown nowhere until the user speaks again.
    has_places = has_head and late_pins == view.late_pins
    is_same_so_far = not view.is_begun or (has_places and tuple(body) == session.view.body)
    return view.model_copy(
        update={
            "version": view.version + 1,
            "head": kept_head,
            "pinned": view.pinned if is_same_so_far else tuple(p.number for p in session.pins),
            "body": tuple(body),
            "promoted": tuple(one for one in view.promoted if one.seq in there),
            "upto": max((view.upto, *head)) if view.is_begun else view.upto,
            "memory_in": view.memory_in if stays.get(view.memory_in or 0) else None,
            "since": tuple(entry for entry in view.since if entry.seq in there),
            "late_pins": late_pins if is_same_so_far else (),
            "gone": gone,
            "taken": taken,
        }
    )


def arrange(
    view: View | None, session: Session, numbers: Sequence[int], head: Sequence[int]
) -> View | None:
    """The view with a history's messages in the order that the caller has them in, where that is
    not the log's; as it is, where it shows just that.

    `view`: None where that of the session stays. `numbers`: of the history's messages, in order.
    """
    now = view or session.view
    is_same = now.is_begun and {entry.seq for entry in now.head} <= {*head}
    if not is_same:
        if not now.is_begun and list(numbers) == sorted(numbers):
            return view
        entries = tuple(Kept(seq=seq) for seq in head)
        pinned = tuple(pin.number for pin in session.pins)
        upto = max((now.upto, *head))
        now = now.model_copy(update={"head": entries, "pinned": pinned, "upto": upto})
    digests = {e.digest for e in now.body if isinstance(e, Digested)}
    behind = {s for d in session.digests if d.number in digests for s in members_of(d, session)}
    wanted = [seq for seq in numbers if seq not in behind and seq not in head]
    known = {e.seq: e for e in (*now.body, *now.since) if not isinstance(e, Digested)}
    in_body = [seq for seq in known if seq not in head and seq <= now.upto]
    shown = [*in_body, *sorted(seq for seq in wanted if seq > now.upto)]
    if is_same and [seq for seq in shown if seq in {*wanted}] == wanted:
        return view
    last = 0  # of what is laid out, which is up to the last message that stands after a later one
    newest = now.upto
    for count, seq in enumerate(wanted, start=1):
        last = count if seq <= newest else last
        newest = max(newest, seq)
    laid = [*(seq for seq in in_body if seq not in wanted), *wanted[:last]]
    upto = max((now.upto, *laid))
    return now.model_copy(
        update={
            "version": session.view.version + 1,
            "body": (
                *(e for e in now.body if isinstance(e, Digested)),
                *(known.get(seq) or Kept(seq=seq) for seq in laid),
            ),
            "since": tuple(e for e in now.since if e.seq > upto),
            "upto": upto,
            "begun": True,
        }
    )


def find_taken(
    session: Session, there: set[int], summaries: Iterable[int]
) -> tuple[TakenAway, ...]:
    """What a host's own compactions took out of a history: all that was in the window before a
    summary of the host's, and is there no more.

    `there`: the messages that the history has; `summaries`: those that hold such a summary. What
    an earlier summary stood for that is gone by now is behind the next one.
    """
    view = session.view
    found = [one for one in view.taken if one.seq in there]
    gone_before = [one.runs for one in view.taken if one.seq not in there]
    for seq in sorted({*summaries}.difference(one.seq for one in found)):
        lost = {
            n
            for n in range(1, seq)
            if n not in there
            and (not is_in(view.gone, n) or any(is_in(runs, n) for runs in gone_before))
        }
        is_told = any(seq in members_of(digest, session) for digest in session.digests)
        if lost:
            found.append(TakenAway(seq=seq, runs=runs_of(lost), told=is_told))
    return tuple(found)


def behind_summaries(taken: Iterable[TakenAway], there: set[int], *, told: bool) -> set[int]:
    """The messages behind those summaries of a host that a history has: of which our view tells,
    or the others."""
    runs = [run for one in taken if one.told == told and one.seq in there for run in one.runs]
    return {seq for first, last in runs for seq in range(first, last + 1)}


def bring_back(session: Session, beginning: Sequence[Message]) -> View | None:
    """The view with all that the host's own compactions took away, for a digest to tell of it; None
    where there is nothing. `beginning`: the first messages of the log."""
    view, newest = session.view, session.info.messages
    there = {seq for seq in range(1, newest + 1) if not is_in(view.gone, seq)}
    back = behind_summaries(view.taken, there, told=False)
    if not back:
        return None
    there |= back
    head = head_of([message for message in beginning if message.seq in there])
    told = tuple(one.model_copy(update={"told": True}) for one in view.taken)
    whole = follow(session, there, head, newest, view.reworded, told)
    return whole and whole.model_copy(update={"version": view.version})


def _reword(view: View, reworded: tuple[Reworded, ...], changed: set[int]) -> View:
    """The view with other words for some messages; what it showed of their old words is whole."""
    promoted = tuple(e for e in view.promoted if e.seq not in changed)
    update = {"promoted": promoted, "reworded": reworded}
    return view.with_whole(changed).model_copy(update=update)


def without_stale_cuts(view: View) -> View:
    """The view before what came after it grew old: whole, but for what was too large on arrival."""
    since = (e for e in view.since if all(cut.why == "offloaded" for cut in e.cuts))
    return view.model_copy(update={"since": tuple(since)})


def view_to_restore(back: Session, now: Session) -> View:
    """An earlier view with the pins in force now, and without what the caller has no more.

    `back`: the session seen through the earlier view; `now`: as it is.
    """
    view = back.view
    newest = max((m.seq for m in (*back.messages, *now.messages)), default=view.upto)
    newest = max((newest, *(last for _, last in now.view.gone)))
    there = {seq for seq in range(1, newest + 1) if not is_in(now.view.gone, seq)}
    known = {one.seq: one for one in (*now.view.taken, *view.taken)}
    taken = tuple(one for seq, one in sorted(known.items()) if seq in there)
    there -= behind_summaries(taken, there, told=False)
    head = [entry.seq for entry in view.head if entry.seq in there]
    view = follow(back, there, head, newest, now.view.reworded, taken) or view
    shown = [message for message in back.messages if message.seq in there]
    seen = back.model_copy(update={"view": view, "pins": now.pins})
    if not view.is_begun and now.info.traits.owns_window:
        return begin_view(seen, shown)
    return view.model_copy(update={"pinned": tuple(pin.number for pin in now.pins)})


def _insert(body: Sequence[Entry], seqs: Iterable[int], digests: Iterable[Digest]) -> list[Entry]:
    """The entries with some messages whole among them, each before what was said after it."""
    first = {digest.number: digest.first for digest in digests}
    laid = list(body)
    for seq in sorted(seqs):
        later = (
            n
            for n, e in enumerate(laid)
            if (first[e.digest] if isinstance(e, Digested) else e.seq) > seq
        )
        laid.insert(next(later, len(laid)), Kept(seq=seq))
    return laid
