"""Shows what a room holds of a session, for the tests of excerpts."""

from __future__ import annotations

from mcp_compaction.core.excerpts.choose import choose_excerpts
from mcp_compaction.core.excerpts.render import excerpts_block
from mcp_compaction.core.tokens import CountTokens, estimate
from mcp_compaction.model import Excerpt
from tests.core.saying import Json, assistant, ran, used, user
from tests.sessions import messages_of

SESSION: list[Json] = [
    user("Find out why the nightly upload to Lisbon hangs. Never restart the gateway."),
    *ran("a", "curl -v gateway", "connect to 10.0.4.7 port 8443\nTLS handshake\nidle timeout 30"),
    assistant("The nightly upload hangs, because the gateway drops idle connections."),
    *used("b", "Lookup", '{"host": "lisbon-3", "owner": "Anna Kowalska", "quota": 4096}'),
    user("Then raise the timeout to 90 seconds. Anna must agree first."),
    assistant("We decided to keep the timeout in gateway.toml, because it is read at start."),
]
AGAIN = Excerpt(seq=1, by="wanted", role="tool", pieces=("gone at 10:42\nand back",))
COUNTS: dict[str, CountTokens] = {
    "estimate": estimate,
    "words": lambda text: len(text.split()),
    "characters": len,
}


def block(session: list[Json], room: int, shown: str = "", *earlier: Excerpt) -> str:
    """What a room shows of a session, as one record."""
    return excerpts_block(choose_excerpts(messages_of(session), earlier, shown, room, estimate))
