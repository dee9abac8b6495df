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


def test_the_same_messages_are_read_once_however_they_are_passed() -> None:
    count, runs = counting_reader()
    messages = messages_of(SAID)
    assert [count(messages), count(list(messages)), count(m for m in messages)] == [2, 2, 2]
    assert runs == [2]


def test_a_part_of_them_and_equal_messages_of_another_session_are_read_anew() -> None:
    count, runs = counting_reader()
    messages = messages_of(SAID)
    assert [count(messages), count(messages[:1]), count(messages_of(SAID))] == [2, 1, 2]
    assert runs == [2, 1, 2]


def test_only_what_was_read_of_the_last_few_windows_is_kept() -> None:
    count, runs = counting_reader()
    windows = [messages_of(SAID) for _ in range(6)]
    for window in windows:
        count(window)
    count(windows[-1])
    assert len(runs) == 6
    count(windows[0])
    assert len(runs) == 7
