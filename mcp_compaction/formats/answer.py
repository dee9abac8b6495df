"""Answers of a provider: the messages that they add to a history, and what they report."""

from __future__ import annotations

from mcp_compaction.errors import MalformedMessage
from mcp_compaction.formats.arrival import Incoming, read_incoming, reported_tokens_of
from mcp_compaction.formats.content import objects_in, text_or_empty
from mcp_compaction.formats.detection import sure_shape
from mcp_compaction.model import JsonObject, Shape

_SAID = ("content", "tool_calls")


def messages_of_answer(
    answer: JsonObject, known: Shape | None = None
) -> tuple[Shape, list[JsonObject]]:
    """The messages that a caller adds to its history when it got this answer, and their shape.

    `known`: the shape of its history, for an answer that would fit several.
    """
    answer = answer if isinstance(answer, dict) else {}  # pyright: ignore[reportUnnecessaryIsInstance]
    choices = objects_in(answer.get("choices"))
    message = choices[0].get("message") if choices else None
    if isinstance(message, dict):
        return "openai", [message]
    if "output" in answer:
        return "responses", objects_in(answer["output"])
    if answer.get("role") == "assistant" and not answer.keys().isdisjoint(_SAID):
        shape = sure_shape(answer) or known or "anthropic"
        if shape == "anthropic":
            return shape, [{"role": "assistant", "content": answer.get("content")}]
        return shape, [answer]
    raise MalformedMessage(
        "this is no answer of a model; pass the response of the Messages API, of chat completions "
        "or of the Responses API, as a dict or as the object of an SDK."
    )


def read_answer(answer: JsonObject, known: Shape | None = None) -> Incoming:
    """The messages of an answer, with the model and the usage that it names."""
    shape, messages = messages_of_answer(answer, known)
    came = read_incoming(messages, shape) if messages else Incoming(messages=())
    return came.model_copy(
        update={
            "model": text_or_empty(answer.get("model")) or came.model,
            "reported": reported_tokens_of(answer) or came.reported,
        }
    )
