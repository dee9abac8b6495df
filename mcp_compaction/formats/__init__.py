"""Provider message shapes and the model: reading, identity, showing, checking.

What takes a caller's history in, or shows a view, is loaded when it is first named: it needs the
window, and a store that reads a message does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from mcp_compaction.formats.content import parse_object
from mcp_compaction.formats.identity import normalize
from mcp_compaction.formats.show import FORMATS
from mcp_compaction.model import JsonObject, Part, Role, Shape

if TYPE_CHECKING:
    from mcp_compaction.formats.arrival import (
        Incoming,
        IncomingMessage,
        read_incoming,
        read_incoming_text,
    )
    from mcp_compaction.formats.show import render

__all__ = [
    "FORMATS",
    "Incoming",
    "IncomingMessage",
    "normalize",
    "read",
    "read_incoming",
    "read_incoming_text",
    "render",
    "validate",
]


def read(shape: Shape, raw: str) -> tuple[Role, tuple[Part, ...]]:
    """The role and parts of one original JSON message."""
    where = "the message"
    return FORMATS[shape].read(parse_object(raw, where), where)


def validate(messages: Sequence[JsonObject], shape: Shape) -> tuple[str, ...]:
    """The faults for which the provider would refuse these messages, in words."""
    return FORMATS[shape].validate(messages)


def __getattr__(name: str) -> object:
    """A name that is loaded now."""
    if name not in __all__:
        raise AttributeError(f"mcp_compaction.formats has no {name!r}")
    module = "show" if name == "render" else "arrival"
    return getattr(import_module(f"mcp_compaction.formats.{module}"), name)
