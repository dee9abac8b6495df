"""Reports of how far a compaction has come, to whoever wants to read them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

Progress = Callable[[str], Awaitable[None]]


async def ignore_progress(_: str) -> None:
    """Take a report of progress that nobody wants to read."""
