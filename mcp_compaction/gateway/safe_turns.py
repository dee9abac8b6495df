"""What the application asks of those who look at calls of models, whatever of that may fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from mcp_compaction.gateway.forwarding import Headers

T = TypeVar("T")


class GatewayTurn(Protocol):
    """One call of a model on its way through the gateway."""

    @property
    def body(self) -> bytes:
        """The body to send."""
        ...

    def narrow(self, headers: Headers) -> Headers:
        """The headers to send: an answer that is read has to be readable."""
        ...

    def begin_answer(self, status: int, headers: Mapping[str, str]) -> None:
        """Hear that the provider answers."""
        ...

    def hear(self, piece: bytes) -> None:
        """Hear a piece of the answer, as it is passed on."""
        ...

    def end(self, *, is_whole: bool) -> None:
        """Hear that nothing more comes."""
        ...

    async def mend(
        self, status: int, error: bytes, headers: Mapping[str, str], *, is_again: bool
    ) -> bool:
        """Make another request after an error; says whether there is one to send.

        `is_again`: it is the error of such a request: there is none, and that is to be noted.
        """
        ...


class Turns(Protocol):
    """What looks at calls of models before they are passed on."""

    def is_model_call(self, path: str) -> bool:
        """Whether a path is one of a model, so that the body is looked at."""
        ...

    async def begin(self, path: str, headers: Mapping[str, str], body: bytes) -> GatewayTurn | None:
        """The call as it should be sent; None: as it came."""
        ...

    def note_fault(self, fault: Exception) -> None:
        """Hear that a turn has failed."""
        ...


class SafeTurn:
    """A turn whose faults are counted and change nothing of what passes."""

    def __init__(self, turn: GatewayTurn, note_fault: Callable[[Exception], None]) -> None:
        self._turn: GatewayTurn | None = turn  # None: it has failed
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

    def _try(self, work: Callable[[GatewayTurn], T], otherwise: T) -> T:
        if self._turn is None:
            return otherwise
        try:
            return work(self._turn)
        except Exception as fault:  # noqa: BLE001  # what the host gets does not depend on it
            self._turn = None
            self._note_fault(fault)
            return otherwise
