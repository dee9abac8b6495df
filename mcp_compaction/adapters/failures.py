"""Counts what failed inside an adapter, and reads what a provider's error says."""

from __future__ import annotations

import logging
from contextlib import suppress
from types import TracebackType
from typing import Any

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


def text_of_error(error: Exception) -> str:
    """All that a provider's error says: its text, its body and its status."""
    response = getattr(error, "response", None)
    status = getattr(error, "status_code", None) or getattr(response, "status_code", "")
    texts = [str(error), _read_text(error, "body"), _read_text(response, "text"), f"HTTP {status}"]
    return " ".join(texts)


def _read_text(source: Any, name: str) -> str:
    """An attribute as text; empty where it cannot be read, as that of an unread stream."""
    with suppress(Exception):
        return str(getattr(source, name, ""))
    return ""
