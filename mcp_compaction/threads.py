"""Runs pure functions in a thread, so that the event loop answers others meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from anyio import CapacityLimiter

P = ParamSpec("P")
T = TypeVar("T")

_AT_ONCE = 4  # they share one interpreter: more would only slow each other down


class Threads:
    """A few threads of their own, so that nobody else's work has to wait for them."""

    def __init__(self) -> None:
        self._limiter: CapacityLimiter | None = None

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of a pure function; a caller that is cancelled does not wait for its end."""
        import anyio.to_thread  # which a process that only looks something up does without

        self._limiter = self._limiter or anyio.CapacityLimiter(_AT_ONCE)
        work = partial(function, *args, **kwargs)
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._limiter)
