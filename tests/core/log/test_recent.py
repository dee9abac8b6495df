"""What was read of the last windows is kept, by the messages themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mcp_compaction.core.log.recent import read_recent_once
from mcp_compaction.model import Message
from tests.sessions import messages_of

SAID = [{"role": "user", "content": "Hello there."}, {"role": "assistant", "content": "Hello."}]


def counting_reader() -> tuple[Callable[[Iterable[Message]], int], list[int]]:
    """A reader that gives the number of messages, and what it was really run on."""
    runs: list[int] = []

    @read_recent_once
    def count(messages: Sequence[Message]) -> int:
        runs.append(len(messages))
        return len(messages)

    return count, runs


def test_a_part_of_them_and_equal_messages_of_another_session_are_read_anew() -> None:
    count, runs = counting_reader()
    messages = messages_of(SAID)
    assert [count(messages), count(messages[:1]), count(messages_of(SAID))] == [2, 1, 2]
    assert runs == [2, 1, 2]
