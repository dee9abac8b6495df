"""Reads sessions into lines of an account, for its tests."""

from __future__ import annotations

from collections.abc import Iterable

from mcp_compaction.core.account.lines import Line, lines_of
from mcp_compaction.core.excerpts.render import line_of
from mcp_compaction.core.log.ledger import ledger_of
from mcp_compaction.model import Excerpt
from tests.core.saying import Json
from tests.sessions import messages_of


def read(session: list[Json], *earlier: Excerpt, shown: str = "") -> list[Line]:
    """The lines of a session that has left the window as a whole."""
    messages = messages_of(session)
    return lines_of(messages, earlier, ledger_of(messages), 3, shown)


def told(lines: Iterable[Line], level: int = 9) -> list[str]:
    """The lines as an account shows them, in one of their forms."""
    return [line_of(one) for line in lines for one in line.form(level)]
