"""Shows what a room holds of a session, for the tests of excerpts."""

from __future__ import annotations

from mcp_compaction.core.excerpts.choose import Sources, choose_excerpts
from mcp_compaction.core.excerpts.render import excerpts_block
from mcp_compaction.core.tokens import estimate
from mcp_compaction.model import Excerpt
from tests.core.saying import Json, ran
from tests.sessions import messages_of

WORK = ran("w", "make", "built in 3 seconds")


def block(session: list[Json], room: int, shown: str = "", *earlier: Excerpt) -> str:
    """What a room shows of a session, as one record."""
    return excerpts_block(
        choose_excerpts(Sources(messages_of(session), earlier), shown, room, estimate).excerpts
    )
