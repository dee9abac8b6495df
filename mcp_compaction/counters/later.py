"""A counter that is looked for when something is first counted: most commands count nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp_compaction.model import Precision
    from mcp_compaction.ports import TokenCounter


class LaterCounter:
    """The counter that `find` gives, found at its first use."""

    def __init__(self, find: Callable[[], TokenCounter]) -> None:
        self._find = find

    @cached_property
    def _found(self) -> TokenCounter:
        return self._find()

    @property
    def id(self) -> str:
        """The found counter's id."""
        return self._found.id

    @property
    def precision(self) -> Precision:
        """The found counter's precision."""
        return self._found.precision

    def count(self, text: str) -> int:
        """The tokens of a text, by the found counter."""
        return self._found.count(text)
