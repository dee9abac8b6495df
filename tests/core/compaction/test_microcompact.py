"""Stale results become previews where they stand, and nothing else changes."""

from __future__ import annotations

from hypothesis import given

from mcp_compaction.core.compaction.ladder.shrink import microcompact
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import estimate
from mcp_compaction.core.window.render import entries_of
from mcp_compaction.model import Digested, Trimmed
from tests.checkers import Json, problems
from tests.sessions import after, compress, said, session_of, view_messages
from tests.strategies import sessions

POLICY = Policy(window_tokens=20_000, shrink_over_tokens=40)


def history(steps: int, first: int = 0) -> list[Json]:
    """A request, and calls with results of a hundred lines."""
    said: list[Json] = [] if first else [{"role": "user", "content": "Read on."}]
    for n in range(first, first + steps):
        call = {"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {"path": f"{n}.py"}}
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"row {n}\n" * 100}
        said += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return said


def test_results_outside_the_recent_turns_are_shortened_once() -> None:
    session = session_of(history(8))
    view = microcompact(session, POLICY, estimate)
    assert view is not None
    assert [entry.seq for entry in view.since] == [3, 5, 7, 9, 11]
    seen = session.model_copy(update={"view": view})
    assert microcompact(seen, POLICY, estimate) is None
    assert microcompact(session_of(history(3)), POLICY, estimate) is None


def test_a_digest_stays_where_it_is_and_what_the_view_kept_is_shortened() -> None:
    early = history(12)
    first = session_of(early)
    session = after(first, compress(first, POLICY, force=True))
    session = said(session, history(6, first=12), len(early))
    view = microcompact(session, POLICY, estimate)
    assert view is not None
    assert [type(entry) for entry in view.body if isinstance(entry, Digested)] == [Digested]
    assert any(isinstance(entry, Trimmed) for entry in view.body)
    assert all(entry.seq > view.upto for entry in view.since)
    assert microcompact(session.model_copy(update={"view": view}), POLICY, estimate) is None


@given(sessions(min_steps=4))
def test_every_message_stays_in_its_place_and_what_is_shown_is_valid(originals: list[Json]) -> None:
    session = session_of(originals)
    view = microcompact(session, POLICY, estimate)
    if view is not None:
        seen = session.model_copy(update={"view": view})
        assert len(entries_of(view, seen.messages)) == len(originals)
        assert not problems(view_messages(seen, POLICY, "anthropic"), "anthropic")
