"""Finds the user messages that may hold a text, by the index instead of by reading them all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import singledispatch

from mcp_compaction.core.limits import LONGEST_SENTENCE
from mcp_compaction.ports import Original, PinFacts, Scope
from mcp_compaction.store import sessions
from mcp_compaction.store.log import originals
from mcp_compaction.store.marks import role_mark, session_mark
from mcp_compaction.store.scope import one_session
from mcp_compaction.store.sql import Tx

_SCANNED = 1_000  # newest passages with a piece of the text that are looked at
# Cuts between passages are half of one apart or more: of pieces half as long one is whole.
_PIECE_CHARS = LONGEST_SENTENCE // 4
_JOINT = re.compile(r"\s+|(?<=[。！？])")

_WITH_ALL = (
    "SELECT DISTINCT message.seq FROM passage_index"
    " CROSS JOIN passage ON passage.id = passage_index.rowid"
    " CROSS JOIN message ON message.session = passage.session AND message.seq = passage.number"
    " WHERE passage_index MATCH ? AND passage.session = ? AND passage.kind = 'm'"
    " AND message.role = 'user' ORDER BY message.via, message.seq LIMIT ?"
)
# Only a message of several passages can hold the text across a cut.
_WITH_A_PIECE = (
    "SELECT DISTINCT message.seq FROM (SELECT rowid AS id FROM passage_index"
    f" WHERE passage_index MATCH ? ORDER BY rowid DESC LIMIT {_SCANNED}) AS found"
    " CROSS JOIN passage ON passage.id = found.id"
    " CROSS JOIN message ON message.session = passage.session AND message.seq = passage.number"
    " WHERE passage.session = ? AND passage.kind = 'm' AND message.role = 'user'"
    " AND EXISTS (SELECT 1 FROM passage AS other"
    " WHERE other.session = passage.session AND other.kind = 'm'"
    " AND other.number = passage.number AND other.ordinal <> passage.ordinal)"
    " ORDER BY message.via, message.seq LIMIT ?"
)


def requests_with(tx: Tx, scope: Scope, text: str, limit: int) -> tuple[Original, ...]:
    """User messages of one session that may hold a text, those with all of it in one place first.

    Of each kind at most `limit`: the host's before an agent's, the oldest first.
    """
    session = one_session(tx, scope)
    pieces = pieces_of(text)
    seqs = list(dict.fromkeys(find_requests(tx, session, pieces, limit))) if pieces else []
    if not seqs:
        return ()
    found = originals(tx, scope, seqs, 0, len(seqs))
    by_seq = {original.message.seq: original for original in found}
    return tuple(by_seq[seq] for seq in seqs)


@singledispatch
def find_requests(tx: Tx, session: int, pieces: Sequence[str], limit: int) -> Iterator[int]:
    """The user messages with all pieces of a text together, then those with one of them."""
    for select, phrases in ((_WITH_ALL, [" ".join(pieces)]), (_WITH_A_PIECE, pieces)):
        rows = tx.execute(select, (_expression_of(phrases, session), session, limit))
        yield from (seq for (seq,) in rows)


def pin_facts(
    tx: Tx, scope: Scope, words: Sequence[str], limit: int, events: Sequence[str]
) -> PinFacts:
    """What decides about a pin of one session."""
    session = one_session(tx, scope)
    found = [one for text in words for one in requests_with(tx, scope, text, limit)]
    return PinFacts(
        info=sessions.session_info(tx, session),
        said=tuple({one.message.seq: one.message for one in found}.values()),
        events=tuple(e for name in events for e in sessions.events(tx, session, name)),
    )


def _expression_of(phrases: Sequence[str], session: int) -> str:
    quoted = " OR ".join(f'"{phrase}"' for phrase in phrases)
    # What a host put into a user's message has passages of the system's.
    by = f"({role_mark('user')} OR {role_mark('system')})"
    marks = f"marks : {session_mark(session)} AND marks : {by}"
    return f"text : ({quoted}) AND {marks}"


def pieces_of(text: str) -> list[str]:
    """The text in pieces, two at least where it has two words, without quotation marks."""
    words = [word for word in _JOINT.split(text.replace('"', " ")) if _has_letter(word)]
    most = min(_PIECE_CHARS, len(" ".join(words)) // 2)
    pieces: list[str] = []
    for word in words:
        if pieces and len(pieces[-1]) < most:
            pieces[-1] += f" {word}"
        else:
            pieces.append(word)
    return pieces


def _has_letter(word: str) -> bool:
    return any(sign.isalnum() for sign in word)
