"""Tells whose a token is, at a price to the store that strangers cannot raise.

A token that is not on the list has the list read again, for all who wait at once and only so
often: one made a moment ago is known at its first call, and many wrong ones cost no more reads than
one does. A token on the list is looked up by itself, so that a revoked one opens nothing any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

import anyio

from mcp_compaction.errors import StoreBusy
from mcp_compaction.store.postgres.tokens import TokenIdentity, hash_token

_BETWEEN = 0.25  # seconds from one reading of the list to the next


@dataclass(slots=True)
class KnownTokens:
    """The hashes of the tokens in force when the list was last read."""

    read_list: Callable[[], Awaitable[Iterable[str]]]
    find: Callable[[str], Awaitable[TokenIdentity | None]]
    between: float = _BETWEEN
    _hashes: set[str] = field(default_factory=set[str])
    _readings: int = 0  # begun so far
    _has_failed: bool = False  # the last one
    _turn: anyio.Lock = field(default_factory=anyio.Lock)
    _next: float = 0.0

    async def identify(self, token: str) -> TokenIdentity | None:
        """Whose token it is; None where it is nobody's, or was revoked."""
        wanted = hash_token(token)
        if wanted not in self._hashes:
            await self.read()
        if wanted not in self._hashes:
            return None
        found = await self.find(token)
        if found is None:
            self._hashes.discard(wanted)
        return found

    async def read(self) -> None:
        """Read the list, or wait for somebody who has begun to since; StoreBusy if that failed."""
        asked = self._readings
        async with self._turn:
            if self._readings == asked:
                await anyio.sleep(max(0.0, self._next - anyio.current_time()))
                self._readings += 1
                self._has_failed = True
                self._hashes = set(await self.read_list())
                self._has_failed = False
                self._next = anyio.current_time() + self.between
        if self._has_failed:
            raise StoreBusy("The tokens cannot be read; try again later.")
