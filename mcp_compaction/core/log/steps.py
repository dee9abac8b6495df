"""Cuts a conversation into steps, so that a call and its result are never separated."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_compaction.core.log.conversation import has_request
from mcp_compaction.model import Message, Step, Thinking

_DIRECTIVES = ('"tool_addition"', '"tool_removal"', '"clear_at"')  # as they stand in JSON
_MOST_GREETING = 200  # tokens


def steps(messages: Sequence[Message]) -> tuple[Step, ...]:
    """The steps of a conversation, in order; together they hold every message once."""
    reach, waiting = _reach(messages)
    found: list[Step] = []
    start = 0
    while start < len(messages):
        end, position = reach[start], start
        while position <= end:
            end = max(end, reach[position])
            position += 1
        is_open = end == len(messages) - 1 and any(start <= call <= end for call in waiting)
        found.append(Step(messages=tuple(messages[start : end + 1]), is_open=is_open))
        start = end + 1
    return tuple(found)


def _reach(messages: Sequence[Message]) -> tuple[list[int], list[int]]:
    """For each message the last one bound to it, and the messages whose calls still wait."""
    reach = list(range(len(messages)))
    waiting: dict[str, int] = {}
    turn: int | None = None  # where an assistant's turn began that is logged piece by piece
    for position, message in enumerate(messages):
        for result in message.results:
            caller = waiting.pop(result.call, None)
            if caller is not None:
                reach[caller] = position
        if message.role != "assistant":
            turn = None
        elif turn is not None:
            reach[turn] = position
        elif message.calls or _is_only_thinking(message):
            turn = position
        for call in message.calls:
            waiting[call.id] = position
    return reach, list(waiting.values())


def _is_only_thinking(message: Message) -> bool:
    # Some hosts log a turn's thinking, and each of its calls, as messages of their own: providers
    # want them together.
    return all(isinstance(part, Thinking) for part in message.parts)


def _is_greeting(message: Message) -> bool:
    """Whether an assistant only said a few words."""
    return not message.calls and message.tokens <= _MOST_GREETING


def is_directive(message: Message) -> bool:
    """Whether a message tells the provider and not only the model: which tools there are from then
    on, or until when it is shown."""
    return message.role == "system" and any(key in message.raw for key in _DIRECTIVES)


def count_head(messages: Sequence[Message], keep_first_request: bool) -> int:
    """How many leading messages are the head: system messages and the first request, with what a
    host put before it and the words that an agent greets with."""
    system = 0
    while system < len(messages) and messages[system].role == "system":
        system += 1
    if keep_first_request:
        for place, message in enumerate(messages[system:], start=system + 1):
            if has_request(message):
                return place
            if message.results or (message.role == "assistant" and not _is_greeting(message)):
                break
    return system
