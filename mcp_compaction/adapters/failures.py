"""Counts what failed inside an adapter, so that the program around it goes on without it."""

from __future__ import annotations

import logging
from types import TracebackType

logger = logging.getLogger(__name__)


class Failures:
    """The failures of one adapter; each is logged, and whatever it is a part of goes on."""

    def __init__(self, part_of: str) -> None:
        """Count for an adapter that is part of a "loop", a "graph" or a "run"."""
        self.count = 0
        self.part_of = part_of

    def isolate(self, doing: str) -> _Isolation:
        """A block that the program goes on after, whatever fails inside."""
        return _Isolation(self, doing)


class _Isolation:
    # A class: of a generator's context manager a type checker does not know that it may swallow.
    def __init__(self, failures: Failures, doing: str) -> None:
        self._failures = failures
        self._doing = doing

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception) or isinstance(error, MemoryError | RecursionError):
            return False
        part_of = self._failures.part_of
        logger.error("%s failed; the %s goes on without it", self._doing, part_of, exc_info=error)
        self._failures.count += 1
        return True
