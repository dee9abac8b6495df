"""A memory of what was kept last, so that a process which runs for long does not grow."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

_MOST_KNOWN = 64  # sessions, chats or the like


class Newest(dict[K, V]):
    """The values that were kept last, by their keys; the newest is the last."""

    def keep(self, key: K, value: V) -> V | None:
        """Keep a value as the newest one; gives the oldest where there are too many."""
        self.pop(key, None)
        self[key] = value
        return self.pop(next(iter(self))) if len(self) > _MOST_KNOWN else None
