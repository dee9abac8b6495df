"""Brings the result of a tool call that was found, and the call of a result."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_compaction.model import Hit

_MOST_PAIRED = 3  # of the first hits; more would leave an answer no room for others


def bring_partners(hits: Sequence[Hit], others: Sequence[Hit]) -> tuple[Hit, ...]:
    """The hits, with the message that answers or made the call right behind each of the first.

    `others`: of use only as such, since they hold no word of the query themselves.
    """
    paired: dict[tuple[str, str, str, int], Hit] = {}
    for position, hit in enumerate(hits):
        paired.setdefault(_key_of(hit), hit)
        if position < _MOST_PAIRED and hit.has_tool:
            partner = next((one for one in (*hits, *others) if _are_pair(hit, one)), None)
            if partner is not None:
                near = partner.model_copy(update={"score": hit.score})
                paired.setdefault(_key_of(partner), near)
    return tuple(paired.values())


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
