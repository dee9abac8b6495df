"""A turn as the application asks it, whatever of it may fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from mcp_compaction.gateway.forwarding import Headers
from mcp_compaction.gateway.turns import CallTurn

T = TypeVar("T")


class SafeTurn:
    """A turn whose faults are counted and change nothing of what passes."""

    def __init__(self, turn: CallTurn, note_fault: Callable[[Exception], None]) -> None:
        self._turn: CallTurn | None = turn  # None: it has failed
        self._note_fault = note_fault
        self.body = turn.body

    def narrow(self, headers: Headers) -> Headers:
        """The headers to send."""
        return self._try(lambda turn: turn.narrow(headers), headers)

    def begin_answer(self, status: int, headers: Mapping[str, str]) -> None:
        """Have the turn hear that the provider answers."""
        self._try(lambda turn: turn.begin_answer(status, headers), None)

    def hear(self, piece: bytes) -> None:
        """Have the turn hear a piece of the answer."""
        self._try(lambda turn: turn.hear(piece), None)

    def end(self, *, is_whole: bool) -> None:
        """Have the turn hear that nothing more comes."""
        self._try(lambda turn: turn.end(is_whole=is_whole), None)

    async def mend(
        self, status: int, error: bytes, headers: Mapping[str, str], *, is_again: bool
    ) -> bool:
        """Have the turn make another request after an error; says whether it has."""
        if self._turn is None:
            return False
        try:
            is_mended = await self._turn.mend(status, error, headers, is_again=is_again)
        except Exception as fault:  # noqa: BLE001  # the provider's error passes as it is
            self._note_fault(fault)
            return False
        self.body = self._turn.body
        return is_mended

    def _try(self, work: Callable[[CallTurn], T], otherwise: T) -> T:
        if self._turn is None:
            return otherwise
        try:
            return work(self._turn)
        except Exception as fault:  # noqa: BLE001  # what the host gets does not depend on it
            self._turn = None
            self._note_fault(fault)
            return otherwise
