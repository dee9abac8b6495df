"""Judges what a view's digests claim: what is next, and how files stand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from mcp_compaction.core.digest.render import words_of_item
from mcp_compaction.core.log.conversation import conversation_of
from mcp_compaction.core.log.ledger import ledger_of
from mcp_compaction.core.log.tool_calls import action_of
from mcp_compaction.evals.handover.turns import Turn, names_in
from mcp_compaction.model import Digest, Item, Message

Claim = Literal[
    "files whose state is told", "files told of falsely", "NEXT that is not stale",
    "NEXT that comes true", "views that say what is next",
]  # fmt: skip

_SOON = 10  # messages of the agent that NEXT is to be about
_OLD = 10  # messages after which nobody's plan is no longer next
_SHORTEST_NAME = 7  # of a file, by which it is known without its folder
_THERE = re.compile(r"\b(?:created|wr(?:ote|itten)|edited|changed|added|saved|updated)\b", re.I)
_GONE = re.compile(r"\b(?:deleted|removed|moved|renamed|gone|reverted|unknown)\b", re.I)
_STATE_OF = {
    "created": _THERE,
    "written": _THERE,
    "edited": _THERE,
    "deleted": _GONE,
    "moved": _GONE,
}

Tallies = dict[Claim, tuple[int, int]]  # how many hold, of how many


def judge_claims(
    early: Sequence[Message], later: Sequence[Turn], digests: Sequence[Digest]
) -> Tallies:
    """What holds of that which digests of the early messages claim."""
    ahead = [item for digest in digests for item in digest.items("NEXT")]
    open_tasks = [item for digest in digests for item in digest.items("OPEN")]
    by_ref = {message.ref: message for message in early}
    answers = [turn for turn in later if turn.role == "assistant"][:_SOON]
    soon = frozenset[str]().union(*(names_in(f"{turn.typed}\n{turn.said}") for turn in answers))
    fresh = sum(not _is_stale(item, by_ref, early[-1].seq) for item in ahead)
    true = sum(not soon.isdisjoint(names_in(words_of_item(item))) for item in ahead)
    right, false, known = _judge_files(early, digests)
    return {
        "files whose state is told": (right, known),
        "files told of falsely": (false, known),
        "NEXT that is not stale": (fresh, len(ahead)),
        "NEXT that comes true": (true, len(ahead)),
        "views that say what is next": (int(bool(ahead or open_tasks)), 1),
    }


def _is_stale(item: Item, by_ref: Mapping[str, Message], last: int) -> bool:
    """Whether a NEXT item names no message, was done by the very message that it names, or is old
    and nobody's wish or plan."""
    named = [by_ref[ref] for ref in item.refs if ref in by_ref]
    if not named:
        return True
    message = named[-1]
    if message.is_request or any(action_of(c).kind in ("plan", "task") for c in message.calls):
        return False
    typed = Turn(message.role, message.parts).typed
    return last - message.seq > _OLD or not names_in(words_of_item(item)).isdisjoint(
        names_in(typed)
    )


def _judge_files(early: Sequence[Message], digests: Sequence[Digest]) -> tuple[int, int, int]:
    """The files told of rightly, those told of as if they were still there, and all whose last
    state is certain."""
    items = [item for one in digests for _, items in one.sections for item in items]
    index = [f"{item.text} {item.note}" for one in digests for item in one.index]
    lines = (*map(words_of_item, items), *index)
    told = [piece for line in lines for piece in line.split("; ")]
    counted: Counter[str] = Counter()
    for path, state in ledger_of(conversation_of(early)).files.items():
        sign = _STATE_OF.get(state.word)
        if sign is None:
            continue
        named = [piece for piece in told if _names(path, piece)]
        counted["known"] += 1
        counted["right"] += any(sign.search(piece) for piece in named)
        is_gone = sign is _GONE
        counted["false"] += is_gone and any(
            _THERE.search(piece) and not _GONE.search(piece) for piece in named
        )
    return counted["right"], counted["false"], counted["known"]


def _names(path: str, line: str) -> bool:
    """Whether a line names a file, by its path or by its name alone."""
    name = path.rpartition("/")[2]
    if re.search(rf"(?<![\w.-]){re.escape(path)}(?![\w/-])", line):
        return True
    alone = rf"(?<![\w./-]){re.escape(name)}(?![\w/-])"
    return len(name) >= _SHORTEST_NAME and bool(re.search(alone, line))
