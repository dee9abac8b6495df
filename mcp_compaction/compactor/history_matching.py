"""Finds what each message of a caller's history is: one of the log, a cut of one, or ours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mcp_compaction.compactor.workspace import Workspace, scope_of
from mcp_compaction.core.log.pinned import PINNED_LABEL, is_pinned_block
from mcp_compaction.core.window.history import (
    CallerMessage,
    LogPlace,
    find_places,
    is_in,
    is_record,
)
from mcp_compaction.errors import UnknownRef
from mcp_compaction.formats import FORMATS, normalize
from mcp_compaction.formats.content import parse_object
from mcp_compaction.formats.identity import content_hash, hash_of, normalize_answer, words_hash
from mcp_compaction.formats.thinking import thinking_in, without_thinking
from mcp_compaction.lexicon.models import rule_of
from mcp_compaction.model import (
    JsonObject,
    Logged,
    Message,
    NewMessage,
    Pin,
    Session,
    Trimmed,
    View,
)
from mcp_compaction.ports import EARLIER_VIEWS

_NOTE = re.compile(r"\[[^\[\]\n]*\b(?:m\d+|recall_archived)\b[^\[\]\n]*\]")
_MOST_COMPARED = 200  # messages of the log whose words are read, to find those of another form


class Placing(NamedTuple):
    """A history beside the log."""

    messages: Sequence[NewMessage]
    contents: list[str]  # by which each is looked for in the log
    whole: list[bool]  # False: our cut of a message
    ours: list[int]  # the places in the history that hold records of ours
    said: list[int]  # and all others
    found: tuple[LogPlace | None, ...]  # the messages of the log that those are; None: it is new

    @property
    def known(self) -> list[tuple[int, LogPlace]]:
        """The messages that have a place in the log, by their places in the history."""
        return [(n, p) for n, p in zip(self.said, self.found, strict=True) if p is not None]

    @property
    def has_ours(self) -> bool:
        """Whether the caller goes on with what it was given."""
        return bool(self.ours) or not all(self.whole)


async def place_history(
    work: Workspace, session: Session, log: Sequence[Logged], messages: Sequence[NewMessage]
) -> Placing:
    """Lay a history beside the log, as the view of the session words it."""
    now = _log_as_worded(log, session.view)
    cuts = await _find_cuts(work, session, now, messages)
    ended = await work.store.pins(scope_of(session.info), work.now(), released=True)
    may_be_bare = rule_of(session.info.traits.model or "") != "free"
    bare = await work.threads.run(_hashes_without_thinking, session) if may_be_bare else {}
    contents = await work.threads.run(_contents_of, now, messages, cuts, bare)
    contents = await _match_by_words(work, session, now, messages, contents)
    pins = (*session.pins, *ended)

    def place() -> Placing:
        whole = [content_hash(message) not in cuts for message in messages]
        return _place(now, session.view, messages, contents, whole, pins)

    return await work.threads.run(place)


def _log_as_worded(log: Sequence[Logged], view: View) -> list[Logged]:
    """The log with each message as its caller has worded it last."""
    words = {one.seq: one.words for one in view.reworded}
    if not words:
        return list(log)
    content = {row.seq: row.content for row in log}
    stand_ins = set(words.values())
    return [
        row._replace(content=content[words.get(row.seq, row.seq)])
        for row in log
        if row.seq not in stand_ins or not is_in(view.gone, row.seq)
    ]


def _place(
    log: Sequence[Logged],
    view: View,
    messages: Sequence[NewMessage],
    contents: list[str],
    whole: list[bool],
    pins: Sequence[Pin],
) -> Placing:
    known = {row.content for row in log}
    ids = {message.host_id for message in messages} & {row.host_id for row in log} - {None}
    same = _names_of_content(messages)
    log = [
        row._replace(
            content=(row.host_id or "")
            if row.host_id in ids
            else same.get(row.content, row.content)
        )
        for row in log
    ]
    ours = [
        n
        for n, message in enumerate(messages)
        if contents[n] not in known and view.is_begun and _is_ours_of(message, pins)
    ]
    said = sorted({*range(len(messages))} - {*ours})
    given = [_caller_message(messages[n], same.get(contents[n], contents[n]), ids) for n in said]
    order = [entry.seq for entry in (*view.head, *view.body) if entry.kind != "digested"]
    return Placing(messages, contents, whole, ours, said, find_places(log, view.gone, given, order))


def _names_of_content(messages: Sequence[NewMessage]) -> dict[str, str]:
    """One name for each content, by the hashes that it has in the log where its shape was not yet
    known, and where it was."""
    names: dict[str, str] = {}
    for one in messages:
        hashes = [hash_of(shape, one.role, one.normal) for shape in FORMATS]
        names |= dict.fromkeys(hashes, hashes[0])
    return names


def _caller_message(message: NewMessage, content: str, ids: set[str | None]) -> CallerMessage:
    """A message by its host's own id, where the log has it, else by its content."""
    if message.host_id in ids:
        return CallerMessage(message.role, message.host_id or "", has_id=True)
    is_step = any(part.kind in ("call", "result") for part in message.parts)
    return CallerMessage(message.role, content, has_id=is_step)


def _contents_of(
    log: Sequence[Logged],
    messages: Sequence[NewMessage],
    cuts: dict[str, int],
    bare: dict[str, int],
) -> list[str]:
    """The contents to look for: a host's id, or what we showed of a message, means the known one.

    `cuts`, `bare`: the messages that were shown shorter, or without their thinking, by the hash of
    what was shown.
    """
    by_id = {row.host_id: row.content for row in log if row.host_id is not None}
    by_seq = {row.seq: row.content for row in log}
    known = set(by_seq.values())
    shown = bare | cuts
    contents: list[str] = []
    for message in messages:
        content = content_hash(message)
        if message.host_id in by_id:
            contents.append(by_id[message.host_id])
        elif content in cuts:
            contents.append(by_seq[cuts[content]])
        elif content in known or not known:
            contents.append(content)
        else:
            others = [*_other_hashes(message)]
            forms = (*others, _hash_without_thinking(message))
            cut = next((by_seq[shown[form]] for form in forms if form in shown), content)
            contents.append(next((other for other in others if other in known), cut))
    return contents


def _other_hashes(message: NewMessage) -> Iterator[str]:
    """The hashes that a message has in the log when more was known of it, or less.

    A plain text fits several shapes until a call tells which it is; an answer that was recorded
    before the caller sent it back may have other keys.
    """
    for normal in (message.normal, normalize_answer(message.raw_to_compare, message.shape)):
        for shape in FORMATS:
            yield hash_of(shape, message.role, normal)


async def _match_by_words(
    work: Workspace,
    session: Session,
    log: Sequence[Logged],
    messages: Sequence[NewMessage],
    contents: list[str],
) -> list[str]:
    """The contents, with the known one where a message says the same in another form, or only what
    a host put into it has changed."""
    view = session.view
    known, sent = {row.content for row in log}, set(contents)
    unknown = [n for n, content in enumerate(contents) if content not in known]
    words = {one.seq: one.words for one in view.reworded}
    left = {
        words.get(row.seq, row.seq): row.content
        for row in log
        if row.content not in sent and not is_in(view.gone, row.seq)
    }
    if not unknown or not left:
        return contents
    compared = sorted(left)[-_MOST_COMPARED:]
    found = await work.store.originals(scope_of(session.info), compared)

    def match() -> list[str]:
        by_words: dict[str, list[str]] = {}
        for original in found:
            words = words_hash(original.message)
            by_words.setdefault(words, []).append(left[original.message.seq])
        matched = list(contents)
        for n in unknown:
            if same := by_words.get(words_hash(messages[n])):
                matched[n] = same.pop(0)
        return matched

    return await work.threads.run(match)


async def _find_cuts(
    work: Workspace, session: Session, log: Sequence[Logged], messages: Sequence[NewMessage]
) -> dict[str, int]:
    """The messages that a view shows shorter, by the hash of what it shows.

    A caller that goes on with what it was given may have cuts that the view shows no more.
    """
    known = {row.content for row in log}
    found = await work.threads.run(_hashes_of_cuts, session)
    view = session.view
    noted = {content_hash(message) for message in messages if _has_note(message)} - known
    for version in range(view.version - 1, max(0, view.version - EARLIER_VIEWS), -1):
        if noted <= found.keys():
            break
        try:
            earlier = await work.store.view(session.info.id, version)
        except UnknownRef:  # others have changed the view meanwhile, and this one is left behind
            break
        seen = await work.store.load(session.info.id, work.now(), earlier)
        found = {**await work.threads.run(_hashes_of_cuts, seen), **found}
    return found


def _has_note(message: NewMessage) -> bool:
    """Whether a note of ours may stand in a message, as in one that was cut."""
    said = (part for part in message.parts if part.kind == "text" or part.kind == "result")
    return any(_NOTE.search(part.text) for part in said)


def _hashes_of_cuts(session: Session) -> dict[str, int]:
    """The messages that the view shows shorter, by the hash of what it shows."""
    view = session.view
    messages = {message.seq: message for message in session.messages}
    found: dict[str, int] = {}
    for entry in (*view.head, *view.body, *view.since):
        if isinstance(entry, Trimmed):
            message = messages[entry.seq]
            form = FORMATS[message.shape]
            original = parse_object(message.raw, message.ref)
            # As a view of own objects shows it, and as one of stored ones does.
            for shown in (form.cut(original, entry.cuts), *form.keep(original, entry.cuts)):
                for one in (shown, _bare(shown)):
                    found[hash_of(message.shape, message.role, normalize(one))] = entry.seq
    return found


def _hashes_without_thinking(session: Session) -> dict[str, int]:
    """The messages of the view that hold thinking, by the hash of what else they hold."""
    originals = (
        (message, parse_object(message.raw, message.ref))
        for message in session.messages
        if message.role == "assistant"
    )
    return {
        hash_of(message.shape, message.role, normalize(_bare(original))): message.seq
        for message, original in originals
        if thinking_in(original)
    }


def _hash_without_thinking(message: NewMessage) -> str:
    said = parse_object(message.raw_to_compare, "the message")
    return hash_of(message.shape, message.role, normalize(_bare(said)))


def _bare(message: JsonObject) -> JsonObject:
    return (without_thinking(message) or message) if thinking_in(message) else message


def may_be_our_record(message: NewMessage | Message) -> bool:
    """Whether a message may be a record of ours that a caller sends back."""
    return message.role == "user" and len(message.parts) == 1 and is_record(first_text(message))


def _is_ours_of(message: NewMessage, pins: Sequence[Pin]) -> bool:
    """Whether a message is a record of ours; the pinned block only if it is of these pins."""
    text = first_text(message)
    is_block = text.startswith(PINNED_LABEL)
    return may_be_our_record(message) and (not is_block or is_pinned_block(text, pins))


def first_text(message: NewMessage | Message) -> str:
    """The first text of a message; empty where it has none."""
    return next((part.text for part in message.parts if part.kind == "text"), "")
