"""The table of shapes: a module is the plugin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from mcp_compaction.formats import anthropic, openai, responses
from mcp_compaction.formats.arrange import RenderedMessage
from mcp_compaction.model import Cut, JsonObject, Part, Role, Shape


class Format(Protocol):
    """The rules of one provider's messages."""

    def read(self, obj: JsonObject, where: str) -> tuple[Role, tuple[Part, ...]]:
        """The role and parts of one message."""
        ...

    def cut(self, obj: JsonObject, cuts: Sequence[Cut]) -> JsonObject:
        """A message with some parts shown shorter, and everything else in it as it was."""
        ...

    def keep(self, obj: JsonObject, cuts: Sequence[Cut]) -> list[JsonObject]:
        """An original of this shape with its cuts, as the provider accepts it."""
        ...

    def build(self, role: Role, parts: Sequence[Part]) -> list[JsonObject]:
        """A message of another shape in this one."""
        ...

    def piece_of(self, obj: JsonObject) -> RenderedMessage:
        """A message with the ids of its calls and results."""
        ...

    def merge(self, objs: Sequence[JsonObject]) -> list[JsonObject]:
        """The assistant's messages of one turn, or all results of it, as the provider has them."""
        ...

    def make_result(self, obj: JsonObject, call: str) -> list[JsonObject]:
        """A stand-in for the result that a call never got."""
        ...

    def unpair(self, obj: JsonObject, numbers: set[int]) -> list[JsonObject]:
        """A message in which results whose call is not shown are plain text."""
        ...

    def finish(self, objs: Sequence[JsonObject]) -> list[JsonObject]:
        """The messages, changed where the provider demands something of them as a whole."""
        ...

    def validate(self, messages: Sequence[JsonObject]) -> tuple[str, ...]:
        """The faults that the provider would refuse, in words."""
        ...


FORMATS: Final[dict[Shape, Format]] = {
    "anthropic": anthropic,
    "openai": openai,
    "responses": responses,
}
