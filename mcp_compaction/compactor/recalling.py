"""Recalls what left the window: by words, by refs, or as a brief to go on with."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Sequence
from typing import Any

from mcp_compaction.compactor.headless import note_headless, tell_programs
from mcp_compaction.compactor.results import REGRET, Brief, Quote, Recalled, SearchScope
from mcp_compaction.compactor.workspace import Workspace, scope_of
from mcp_compaction.core.digest.render import render_digest, render_or_label
from mcp_compaction.core.log.content import calls_by_id, speaker_of, texts_by_speaker
from mcp_compaction.core.log.conversation import conversation_of, has_request
from mcp_compaction.core.recall.answer import choose
from mcp_compaction.core.recall.flow import search
from mcp_compaction.core.recall.query import Question, read_query
from mcp_compaction.core.text.refs import HOW, Refs, parse_refs
from mcp_compaction.core.tokens import estimate
from mcp_compaction.errors import InputError, UnknownRef
from mcp_compaction.model import (
    Digest,
    Find,
    Hit,
    ListAll,
    Message,
    Pin,
    Read,
    SearchResult,
    SessionInfo,
)
from mcp_compaction.ports import Original, Scope

_NEWEST = 3  # messages of which a brief gives the words
_JUST_SAID = 6  # messages at the end of a chat, among which the question stands that is asked in it
_MAY_BE_SHOWN = "may be in your window"


async def recall(
    work: Workspace,
    info: SessionInfo | None,
    query: str,
    *,
    scope: SearchScope = "session",
    project: str | None = None,
    max_tokens: int | None = None,
    skip: int = 0,
    has_view: bool = False,
    asks_in_chat: bool = False,
) -> Recalled:
    """The passages of the archive that answer a query best; across sessions none need be named.

    What a caller looks up beyond its own project leaves no trace there. `has_view`: the caller
    may see the session's view, so that what it shows whole has a note of that.
    `asks_in_chat`: the question stands at the end of the session itself, and is no answer.
    """
    if (max_tokens is not None and max_tokens < 1) or skip < 0:
        raise InputError("max_tokens is a number above 0, and skip is 0 or above; pass such ones.")
    question = await work.threads.run(read_query, query, work.now().astimezone())
    if not (question.terms or question.is_narrow):
        raise InputError("the query holds no word to look for; pass words or an identifier.")
    searched = await _search(work, _scope_to_search(info, scope, project), question)
    limit = max_tokens or work.policy.recall_max_tokens
    # Across projects another's session may have the same name.
    own = info if info and scope != "all" and project in (None, info.project) else None
    hits = searched.hits
    if own is not None and asks_in_chat:
        hits = _put_last(hits, own, await _find_question(work, own))
    if own is not None and has_view:
        shown = await work.store.shown_whole(own.id, _seqs_of(hits, own))
        keys = {(own.project, own.name, f"m{seq}") for seq in shown}
        hits = _put_shown_late([_note_shown(hit, keys) for hit in hits])
    hits = await note_headless(work, hits)
    chosen = choose(hits, limit, estimate, skip)  # exact ranks take a second to load
    if own is not None:
        await _note_regret(work, own, _seqs_of(chosen.hits, own))
    found: dict[str, Any] = dict(searched) | {"hits": chosen.hits}
    return Recalled(
        **found,
        more=chosen.more,
        after=chosen.after,
        in_window=tuple(dict.fromkeys(hit.ref for hit in hits if _is_shown(hit))),
        scope=scope,
    )


async def _find_question(work: Workspace, info: SessionInfo) -> int | None:
    """The newest request of a chat, where it was just said."""
    newest = await work.store.originals(
        scope_of(info), after=max(0, info.messages - _JUST_SAID), limit=2 * _JUST_SAID
    )
    asked = [one.message.seq for one in newest if has_request(one.message)]
    return asked[-1] if asked else None


def _put_last(hits: tuple[Hit, ...], info: SessionInfo, first: int | None) -> tuple[Hit, ...]:
    """The hits with those last that stand in a message from that one on, or only beside it."""
    if first is None:
        return hits
    late = {f"m{seq}" for seq in _seqs_of(hits, info) if seq >= first}
    beside = f"m{first - 1}"

    def is_late(hit: Hit) -> bool:
        is_own = hit.session == info.name
        return is_own and (hit.ref in late or (hit.is_beside and hit.ref == beside))

    return tuple(sorted(hits, key=is_late))


def _note_shown(hit: Hit, shown: Collection[tuple[str, str, str]]) -> Hit:
    """A hit with a note where the view shows its message whole: only the caller knows whether its
    window is this view."""
    if (hit.project, hit.session, hit.ref) not in shown:
        return hit
    return hit.model_copy(update={"note": "; ".join(filter(None, (hit.note, _MAY_BE_SHOWN)))})


def _put_shown_late(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The hits with those that may be in sight behind all others that are at least a quarter as
    good: they take the room that is left, and weaker ones do not keep them out of it."""
    ordered = [hit for hit in hits if not _is_shown(hit)]
    for shown in filter(_is_shown, hits):
        weaker = (n for n, hit in enumerate(ordered) if 4 * hit.score < shown.score)
        ordered.insert(next(weaker, len(ordered)), shown)
    return tuple(ordered)


def _is_shown(hit: Hit) -> bool:
    return _MAY_BE_SHOWN in hit.note


def _seqs_of(hits: Iterable[Hit], info: SessionInfo) -> list[int]:
    """The numbers of the messages of a session among hits."""
    own = (hit.ref for hit in hits if hit.session == info.name)
    return [int(ref[1:]) for ref in own if ref.startswith("m")]


def _scope_to_search(info: SessionInfo | None, scope: SearchScope, project: str | None) -> Scope:
    match scope:
        case "all":
            return Scope(project=None)
        case "project" if project is not None or info is not None:
            return Scope(project=project or (info.project if info else None))
        case "session" if info is not None:
            return scope_of(info)
        case _:
            raise InputError("name the session to look in, or the project.")


async def _search(work: Workspace, scope: Scope, question: Question) -> SearchResult:
    """Drive a recall: the store answers what it asks."""
    steps = search(question)
    request = await work.threads.run(next, steps)
    while not isinstance(request, SearchResult):
        match request:
            case Find():
                answer = await work.store.find(scope, request.query)
            case Read():
                answer = await work.store.read(scope, request.query, request.passages)
            case ListAll():
                answer = await work.store.list_passages(scope, request.query, request.limit)
        request = await work.threads.run(_send, steps, answer)
    return request


def _send(
    steps: Generator[Find | Read | ListAll, Any, SearchResult], answer: object
) -> Find | Read | ListAll | SearchResult:
    """What a recall asks next, or what it found; a thread cannot raise StopIteration."""
    try:
        return steps.send(answer)
    except StopIteration as done:
        return done.value


async def _note_regret(work: Workspace, info: SessionInfo, seqs: Sequence[int]) -> None:
    """Note which of the messages that were recalled had left the window."""
    gone = await work.store.not_shown(info.id, seqs) if seqs else ()
    if gone:
        await work.note(info, REGRET, " ".join(f"m{seq}" for seq in gone))


async def originals(work: Workspace, info: SessionInfo, refs: str) -> tuple[Original, ...]:
    """Messages, byte for byte: `m42`, `m42~3`, `m12..m40`, or by the id of a tool call."""
    asked = parse_refs(refs)
    if asked.digests or asked.pins:
        raise InputError(f"{refs!r} names more than messages; write m42 or m12..m40.")
    return await _find_originals(work, info, asked)


async def quote(work: Workspace, info: SessionInfo, refs: str) -> tuple[Quote, ...]:
    """The texts that refs name, word for word: messages in order, then digests, then pins."""
    asked = parse_refs(refs)
    has_messages = asked.messages or asked.calls
    messages = await _find_originals(work, info, asked) if has_messages else ()
    messages = (*messages, *await _find_edits(work, info, messages))
    digests = await _find_digests(work, info, asked.digests) if asked.digests else ()
    pins = await _quote_pins(work, info, asked.pins) if asked.pins else ()
    heard = await tell_programs(work, info, [one.message for one in messages])
    calls = calls_by_id([*heard, *await _find_callers(work, info, heard)])
    said = [
        Quote(ref=message.ref, of=of, at=message.at, text=text, source=original)
        for original, message in zip(messages, heard, strict=True)
        for of, text in texts_by_speaker(message, calls)
    ]
    written = (
        Quote(ref=one.ref, of="digest", at=one.ended, text=render_or_label(one), source=one)
        for one in digests
    )
    return (*said, *written, *pins)


async def recall_refs(work: Workspace, info: SessionInfo, refs: str) -> tuple[Quote, ...]:
    """The quotes of refs, as a recall: messages that had left the window count as regret."""
    found = await quote(work, info, refs)
    sources = [one.source for one in found]
    seqs = sorted({one.message.seq for one in sources if isinstance(one, Original)})
    await _note_regret(work, info, seqs)
    return found


async def _find_originals(work: Workspace, info: SessionInfo, asked: Refs) -> tuple[Original, ...]:
    scope = scope_of(info)
    of_calls = await work.store.messages_of_calls(scope, asked.calls) if asked.calls else ()
    unknown = [call for call, seqs in zip(asked.calls, of_calls, strict=True) if not seqs]
    if unknown:
        raise UnknownRef(f"no ref or tool call {', '.join(unknown)} in {info.name}; {HOW}")
    seqs = sorted({*asked.seqs, *(seq for seqs in of_calls for seq in seqs)})
    found = await work.store.originals(scope, seqs)
    there = {one.message.seq for one in found}
    missing = [
        ref.text for ref in asked.messages if there.isdisjoint(range(ref.first, ref.last + 1))
    ]
    if missing:
        newest = (await work.read_window(info)).session.info.messages
        raise UnknownRef(
            f"no message {', '.join(missing)} in {info.name}, which has {newest}; "
            "search by words instead."
        )
    return found


async def _find_edits(
    work: Workspace, info: SessionInfo, messages: Sequence[Original]
) -> tuple[Original, ...]:
    """The messages that say what some of these say since their caller edited them."""
    seqs = {original.message.seq for original in messages}
    view = (await work.read_window(info)).session.view
    words = {one.words for one in view.reworded if one.seq in seqs} - seqs
    return await work.store.originals(scope_of(info), sorted(words)) if words else ()


async def _find_digests(
    work: Workspace, info: SessionInfo, numbers: Sequence[int]
) -> tuple[Digest, ...]:
    known = {digest.number: digest for digest in await work.store.digests(info.id)}
    unknown = ", ".join(f"d{number}" for number in numbers if number not in known)
    if unknown:
        names = ", ".join(digest.ref for digest in known.values()) or "none yet"
        raise UnknownRef(f"no digest {unknown} in {info.name}; there are: {names}.")
    return tuple(known[number] for number in numbers)


async def _quote_pins(
    work: Workspace, info: SessionInfo, numbers: Sequence[int]
) -> tuple[Quote, ...]:
    """Pins that hold or once held in this session: a release leaves the text findable."""
    now = work.now()
    in_force = await work.store.pins(scope_of(info), now)
    ever = await work.store.pins(scope_of(info), now, released=True)
    known = {pin.number: pin for pin in ever}
    unknown = ", ".join(f"p{number}" for number in numbers if number not in known)
    if unknown:
        names = ", ".join(pin.ref for pin in in_force) or "none"
        raise UnknownRef(f"no pin {unknown} in {info.name}; in force are: {names}.")
    return tuple(_quote_pin(known[n], known[n] in in_force) for n in numbers)


async def _find_callers(
    work: Workspace, info: SessionInfo, messages: Sequence[Message]
) -> list[Message]:
    """Earlier messages with calls whose results these hold."""
    known = calls_by_id(messages)
    away = [one.call for m in messages for one in m.results if one.call not in known]
    found = await work.store.messages_of_calls(scope_of(info), away) if away else ()
    seqs = sorted({seq for seqs in found for seq in seqs[:1]})
    return [o.message for o in await work.store.originals(scope_of(info), seqs)] if seqs else []


def _quote_pin(pin: Pin, is_in_force: bool) -> Quote:
    what = f"{pin.kind.replace('_', ' ')}, {pin.scope}, by {pin.author}"
    of = what if is_in_force else f"{what}, no longer in force"
    return Quote(ref=pin.ref, of=of, at=pin.at, text=pin.text, source=pin)


async def brief(work: Workspace, info: SessionInfo) -> Brief:
    """Pins, the digests of the view as they are shown, the first request and the newest words."""
    session = await work.load(info)
    told = ((digest.ref, render_digest(digest)) for digest in session.digests)
    digests = tuple((ref, text) for ref, text in told if text)
    spoken = [m for m in conversation_of(session.messages) if m.text.strip()]
    ends = {m.seq: m for m in (*[m for m in spoken if m.is_request][:1], *spoken[-_NEWEST:])}
    heard = await tell_programs(work, info, list(ends.values()))
    said = tuple((f"{m.ref} {speaker_of(m)}", m.text) for m in heard)
    return Brief(info=session.info, pins=session.pins, digests=digests, said=said)
