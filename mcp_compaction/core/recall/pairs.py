"""Brings together what belongs together: a call with its result, and a call's own passages."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_compaction.core.limits import MOST_TRIED
from mcp_compaction.core.recall.query import Question
from mcp_compaction.core.recall.rank import IN_WORDS
from mcp_compaction.model import Hit


def bring_together(
    question: Question, hits: Sequence[Hit], others: Sequence[Hit]
) -> tuple[Hit, ...]:
    """The hits, each of the first with the message that answers or made its call behind it.

    `others`: of use only there, since they hold no word of the query themselves. A question in
    words brings all that was found of a call where its best passage stands: who describes a call
    wants what it was given, and a part of a script is of little use.
    """
    calls: dict[tuple[str, str, str], list[Hit]] = {}
    for hit in hits if len(question.terms) >= IN_WORDS else ():
        if hit.has_tool and hit.role != "tool":
            calls.setdefault(_key_of(hit)[:3], []).append(hit)
    brought: dict[tuple[str, str, str, int], Hit] = {}
    for position, hit in enumerate(hits):
        if _key_of(hit) in brought:
            continue
        call = calls.get(_key_of(hit)[:3], ())
        near = [hit, *sorted(call, key=lambda one: one.ordinal)]
        if position < MOST_TRIED and hit.has_tool:
            near += [one for one in (*hits, *others) if _are_pair(hit, one)][:1]
        for one in near:
            moved = one if one is hit else one.model_copy(update={"score": hit.score})
            brought.setdefault(_key_of(one), moved)
    return tuple(brought.values())


def _key_of(hit: Hit) -> tuple[str, str, str, int]:
    return hit.project, hit.session, hit.ref, hit.ordinal


def _are_pair(hit: Hit, other: Hit) -> bool:
    """Whether one of two messages, which stand next to each other, answers a call of the other."""
    if not (hit.has_tool and other.has_tool) or (hit.project, hit.session) != (
        other.project,
        other.session,
    ):
        return False
    step = -1 if hit.role == "tool" else 1
    is_answer = (hit.role == "tool") != (other.role == "tool")
    return is_answer and other.ref == f"m{int(hit.ref[1:]) + step}"
