"""Grades a compaction by what the agent did after it: what it used, read again, recalled, asked or
was told again, and how much of that its view held, beside other views of the same size. What
another view would have led to, nobody knows: the agent followed the one that it was shown."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from mcp_compaction.core.account.telling import LINE_NUMBER
from mcp_compaction.core.compaction import plain_views
from mcp_compaction.core.log.content import shown_parts, words_of
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.log.tool_calls import action_of
from mcp_compaction.core.log.used_names import used_names
from mcp_compaction.core.text.injection import BAR
from mcp_compaction.core.text.sentences import split_sentences
from mcp_compaction.core.text.words import fold, lower_words
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.render import lay_out_frame
from mcp_compaction.core.wording import kilo, plural
from mcp_compaction.model import (
    Digest,
    Digested,
    Grade,
    Kept,
    Message,
    Part,
    Session,
    Shown,
    ShownMessage,
    WayGrade,
)

OURS, NO_PROSE = "our view", "ours without its prose"
NEWEST, ACCOUNT, TICKETS = "the newest lines", "a plain account", "tickets"
_REACH = 40  # answers of the agent after a compaction
_FEWEST = 8  # of them, for a grade to tell anything
_SHORTEST_LINE = 12  # characters of a line that tells one file from another
_MOST_SEEN = 0.5  # of a result's lines, from which on it was read before
_MOST_NAMES = 100
_MOST_WORDS = 2_000  # characters of what somebody typed; what is longer is pasted
_FEWEST_WORDS, _SAME_WORDS = 5, 0.8  # of a sentence that is said again


class _Use(NamedTuple):
    """A file that a call reads or changes, with what came of a read."""

    path: str
    is_read: bool
    seq: int  # of the message with the result
    text: str


class _Needed(NamedTuple):
    """What the agent needed after a compaction of that which stood before it."""

    names: Sequence[str]
    files: Mapping[str, _Use]  # the last read of each, before
    recalled: Sequence[str]  # the texts of messages
    told: Sequence[str]  # the sentences, as they were said before


def grade_last(
    session: Session,
    messages: Sequence[Message],
    recalled: Collection[int],
    index_limit: int,
    count: CountTokens,
) -> Grade | None:
    """The grade of the last compaction; None where none was made or too little was said since.

    `messages`: those of the log from before it, also where the view has them no more, and since;
    `recalled`: the numbers of those that were recalled since.
    """
    last, view = session.last_compaction, session.view
    if last is None or not may_grade(session):
        return None
    before = [message for message in messages if message.seq <= view.upto]
    since = _until_reached([message for message in messages if message.seq > view.upto])
    answers = sum(message.role == "assistant" for message in since)
    if answers < _FEWEST:
        return None
    reads: dict[str, list[_Use]] = {}
    for use in _list_uses(before):
        if use.is_read and use.text:
            reads.setdefault(use.path, []).append(use)
    shown = {entry.seq for entry in (*view.head, *view.body) if isinstance(entry, Kept)}
    again: dict[str, str] = {}
    used: dict[str, _Use] = {}
    for use in _list_uses(since):
        known = reads.get(use.path, ())
        if not known or use.path in again or (use.is_read and not _was_read(use.text, known)):
            continue
        used[use.path] = known[-1]
        if use.is_read and shown.isdisjoint(one.seq for one in known):
            again[use.path] = use.text
    texts = [words_of(part) for message in before for part in message.parts]
    needed = _Needed(
        names=_known_names(since, texts),
        files=used,
        recalled=[_text_in(one.parts) for one in before if one.seq in recalled],
        told=_said_again(before, since),
    )
    chars = sum(map(len, texts)) / max(1, sum(message.tokens for message in before))
    score = partial(_score, needed, {path: count(use.text) for path, use in used.items()}, chars)
    return Grade(
        compaction=last.compaction,
        answers=answers,
        files=len(used),
        again=len(again),
        again_tokens=sum(map(count, again.values())),
        names=len(needed.names),
        recalled=len(needed.recalled),
        told=len(needed.told),
        ways=tuple(
            score(way, text)
            for way, text in _views(_at_compaction(session, messages), before, index_limit, count)
        ),
    )


def may_grade(session: Session) -> bool:
    """Whether the last compaction may have a grade, as is told without reading the log."""
    last, view = session.last_compaction, session.view
    is_last = last is not None and last.kind == "compress" and view.compaction == last.compaction
    return is_last and session.info.messages - view.upto >= _FEWEST


def describe_grade(grade: Grade) -> str:
    """A grade in a line, as receipts and statistics tell it."""
    said = f"since c{grade.compaction} ({plural(grade.answers, 'answer')}): "
    if not (grade.files or grade.names or grade.recalled or grade.told):
        return f"{said}nothing was used that had been known before it"
    again = f", {kilo(grade.again_tokens)} tokens" if grade.again else ""
    deeds = [f"{grade.again} of {plural(grade.files, 'file')} read again{again}"]
    deeds += [f"{plural(grade.recalled, 'message')} recalled"] if grade.recalled else []
    deeds += [f"{plural(grade.told, 'sentence')} said again"] if grade.told else []
    ours, *others = grade.ways
    held = f"{_describe_way(ours)}; in its size {', '.join(map(_describe_way, others))}"
    return (
        f"{said}{', '.join(deeds)}. Of {plural(grade.names, 'known name')} used {held}. The agent "
        "followed our view; where another had led, nobody knows"
    )


def _describe_way(one: WayGrade) -> str:
    lacked = f"lacked {plural(one.lacks, 'file')}, {kilo(one.lacks_tokens)} tokens"
    return f"{one.way} had {one.names}{f' ({lacked})' if one.lacks else ''}"


def _at_compaction(session: Session, messages: Sequence[Message]) -> Session:
    """The session with the messages at hand, and of its view what shows them."""
    there, view = {message.seq for message in messages}, session.view
    head = tuple(entry for entry in view.head if entry.seq in there)
    body = tuple(e for e in view.body if isinstance(e, Digested) or e.seq in there)
    seen = view.model_copy(update={"head": head, "body": body})
    return session.model_copy(update={"messages": tuple(messages), "view": seen})


def _views(
    session: Session, before: Sequence[Message], index_limit: int, count: CountTokens
) -> Iterator[tuple[str, str]]:
    """The view that was shown and others in as many characters, each with its name."""
    ours = _read(lay_out_frame(session, index_limit, count))
    yield OURS, ours
    plain = tuple(map(_without_prose, session.digests))
    if plain != session.digests:
        others = session.model_copy(update={"digests": plain})
        yield NO_PROSE, _read(lay_out_frame(others, index_limit, count))
    yield NEWEST, plain_views.newest_lines(before, len(ours), len)
    yield ACCOUNT, plain_views.talk_and_steps(before, len(ours), len)
    yield TICKETS, plain_views.tickets(before, len(ours), len)


def _without_prose(digest: Digest) -> Digest:
    sections = tuple(
        (name, tuple(item for item in items if not item.by)) for name, items in digest.sections
    )
    return digest.model_copy(update={"sections": sections})


def _read(frame: Sequence[Shown]) -> str:
    return "\n".join(
        _text_in(shown_parts(one.message, one.cuts)) if isinstance(one, ShownMessage) else one.text
        for one in frame
    )


def _text_in(parts: Sequence[Part]) -> str:
    return "\n".join(map(words_of, parts))


def _score(
    needed: _Needed, sizes: Mapping[str, int], chars: float, way: str, text: str
) -> WayGrade:
    lines = _lines_of(text)
    folded = fold(text) if needed.told else ""
    lacking = [path for path, use in needed.files.items() if not _stands_in(use.text, lines)]
    return WayGrade(
        way=way,
        tokens=round(len(text) / chars) if chars else 0,
        names=sum(name in text for name in needed.names),
        lacks=len(lacking),
        lacks_tokens=sum(sizes[path] for path in lacking),
        recalled=sum(one in text for one in needed.recalled),
        told=sum(one in folded for one in needed.told),
    )


def _until_reached(messages: Sequence[Message]) -> list[Message]:
    """The messages up to the last answer that is looked at, and what came of its calls."""
    taken: list[Message] = []
    answers = 0
    for message in messages:
        answers += message.role == "assistant"
        if answers > _REACH:
            break
        taken.append(message)
    return taken


def _list_uses(messages: Sequence[Message]) -> Iterator[_Use]:
    came = {r.call: (message.seq, r.text) for message in messages for r in message.results}
    for message in messages:
        for call in message.calls:
            action = action_of(call)
            if action.target and action.kind in ("read", "edit", "write"):
                seq, text = came.get(call.id, (0, ""))
                yield _Use(action.target, action.kind == "read", seq, text)


def _known_names(since: Sequence[Message], before: Sequence[str]) -> list[str]:
    """The names that calls passed and that had stood in the texts before; the newest first."""
    asked = (one.text for one in sorted(used_names(since), key=lambda one: one.last)[:_MOST_NAMES])
    everything = "\n".join(reversed(before))
    return [name for name in asked if name in everything]


def _said_again(before: Sequence[Message], since: Sequence[Message]) -> list[str]:
    """The sentences of the user, and the agent's questions, that were said once more, as they were
    compared when they were said first."""
    again = [(one, set(lower_words(one))) for one in _telling_sentences(since)]
    if not again:
        return []
    said = {one: set(lower_words(one)) for one in _telling_sentences(before)}
    found = (_find_alike(words, said) for _, words in again)
    return list(dict.fromkeys(one for one in found if one))


def _find_alike(words: Collection[str], said: Mapping[str, Collection[str]]) -> str:
    for one, others in said.items():
        most = max(len(words), len(others))
        if len({*words} & {*others}) >= _SAME_WORDS * most:
            return one
    return ""


def _telling_sentences(messages: Sequence[Message]) -> Iterator[str]:
    """What users typed, and what the agent asked them, sentence by sentence."""
    for message in conversation_of([one for one in messages if _may_tell(one)]):
        for sentence in split_sentences(message.text):
            is_told = message.role == "user" or sentence.endswith("?")
            if is_told and len(sentence.split()) >= _FEWEST_WORDS:
                yield fold(sentence)


def _may_tell(message: Message) -> bool:
    is_theirs = message.is_request or (message.role == "assistant" and "?" in message.text)
    return is_theirs and len(message.text) <= _MOST_WORDS


def _was_read(text: str, known: Sequence[_Use]) -> bool:
    """Whether most of what a read gave had been read before: not another part of the file."""
    return _stands_in(text, {line for one in known for line in _lines_of(one.text)})


def _stands_in(text: str, seen: Collection[str]) -> bool:
    """Whether most lines of a text are among those seen."""
    lines = _lines_of(text)
    return bool(lines) and sum(line in seen for line in lines) >= _MOST_SEEN * len(lines)


def _lines_of(text: str) -> set[str]:
    """The lines of a text that tell it from another, without what stands before them."""
    plain = LINE_NUMBER.sub("", f"\n{text}".replace(f"\n{BAR}", "\n"))
    return {line for line in map(str.strip, plain.splitlines()) if len(line) >= _SHORTEST_LINE}
