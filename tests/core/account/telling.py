"""Reads sessions into lines of an account, for its tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mcp_compaction.core.account.lines import AccountLines, Line
from mcp_compaction.core.excerpts.render import line_of
from mcp_compaction.model import Excerpt, Message
from tests.core.saying import Json
from tests.sessions import messages_of


def read(session: list[Json], *earlier: Excerpt, shown: str = "") -> list[Line]:
    """The lines of a session that has left the window as a whole."""
    messages = messages_of(session)
    return left(messages, *earlier, markers=3, shown=shown)


def left(
    messages: Sequence[Message], *earlier: Excerpt, markers: int | None = None, shown: str = ""
) -> list[Line]:
    """The lines of messages that have all left the window."""
    gone = frozenset(one.seq for one in messages)
    return AccountLines(messages, markers).of(gone, earlier, shown)


def told(lines: Iterable[Line], level: int = 9) -> list[str]:
    """The lines as an account shows them, in one of their forms."""
    return [line_of(one) for line in lines for one in line.form(level)]
