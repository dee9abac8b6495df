"""The room that an agent needs for what comes next is made, however full the window is."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_compaction.compactor.results import make_ask
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import estimate
from mcp_compaction.core.window.fill import measure
from mcp_compaction.errors import InputError
from mcp_compaction.model import Compaction, Session
from tests.core.saying import chatter, user
from tests.sessions import after, compress, session_of

_WINDOW = Policy(window_tokens=4_000)


def _half_full() -> Session:
    return session_of([user("go"), *chatter(24)])


def test_room_is_made_below_the_mark_at_which_a_plain_call_is_refused() -> None:
    session = _half_full()
    assert measure(session, _WINDOW, estimate).percent < _WINDOW.release_percent
    done = compress(session, _WINDOW, room_tokens=3_200)
    assert isinstance(done, Compaction)
    assert measure(after(session, done), _WINDOW, estimate).room >= 3_200


def test_more_room_than_the_window_has_frees_what_can_be_freed() -> None:
    done = compress(_half_full(), _WINDOW, room_tokens=90_000)
    assert isinstance(done, Compaction)
    assert done.receipt.after < done.receipt.before


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"room_tokens": 0}, "pass how many tokens shall be free"),
        ({"room_tokens": 500, "target_percent": 20.0}, "leave out the other"),
        ({"room_tokens": 500, "span": "m2..m4"}, "leave out the other"),
    ],
)
def test_room_that_cannot_be_meant_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        make_ask(reason="now", **given)
