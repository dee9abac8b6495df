"""A view as the whole body of a request, as each provider takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pydantic import JsonValue

from mcp_compaction.model import JsonObject, Shape


def make_request_body(
    system: JsonValue, messages: Sequence[JsonObject], shape: Shape
) -> JsonObject:
    """The messages with the system prompt where the provider wants it."""
    shown: list[JsonValue] = [*messages]
    if shape == "responses":
        return {**({"instructions": text_of_system(system)} if system else {}), "input": shown}
    if shape == "openai":
        first: list[JsonValue] = (
            [{"role": "system", "content": text_of_system(system)}] if system else []
        )
        return {"messages": [*first, *shown]}
    return {**({"system": system} if system else {}), "messages": shown}


def text_of_system(system: JsonValue) -> str:
    """A system prompt as plain text, whether it came as text or as blocks."""
    if isinstance(system, str):
        return system
    blocks = cast("list[JsonValue]", system) if isinstance(system, list) else []
    texts = (block.get("text") for block in blocks if isinstance(block, dict))
    return "\n".join(text for text in texts if isinstance(text, str))
