"""What a host put into a message and writes anew, on a real store: only a clock is no news."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction import compactor
from mcp_compaction.formats.identity import without_clock
from tests.compactor.small_session import (
    assistant,
    called,
    count_log,
    fit,
    open_session,
    pin_from_terminal,
    user,
)

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


def with_clock(kind: str, number: int) -> list[Json]:
    """The start of a history in which a host tells the time."""
    day = f"2026-11-16T{number // 60:02}:{number % 60:02}"
    environment = f"<environment_context>\n  <now>{day}</now>\n</environment_context>"
    reminder = f"<system-reminder>\nIt is {day}.\n</system-reminder>"
    match kind:
        case "a message of its own":
            return [user(environment), user("Sort the parcels.")]
        case "before the words":
            return [user(f"{reminder}\nSort the parcels.")]
        case "a block of its own":
            texts = (reminder, "Sort the parcels.") if number % 3 else ("Sort the parcels.",)
            return [{"role": "user", "content": [{"type": "text", "text": t} for t in texts]}]
        case "behind a result":
            return [user("Sort them."), *called("t0", f"41 parcels\n{reminder}")]
        case _:
            return [{"role": "system", "content": f"It is {day}."}, user("Sort the parcels.")]


KINDS = (
    "a message of its own",
    "before the words",
    "a block of its own",
    "behind a result",
    "system",
)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_clock_that_a_host_writes_anew_makes_no_new_message(
    tmp_path: Path, kind: str
) -> None:
    news: list[Json] = []
    for start in (0, 5):  # the second process remembers nothing
        async with open_session(tmp_path) as (work, info):
            for number in range(start, start + 5):
                news += [assistant(f"Parcel {number}."), user("Go on.")]
                history = [*with_clock(kind, number), *news]
                fitted = await compactor.fit(work, info, history)
                assert [id(obj) for obj in fitted.messages] == [id(obj) for obj in history]
                assert await count_log(work, info) == len(history)
            view = (await work.load(info)).view
            assert (view.version, view.gone) == (1, ())


async def test_a_hundred_requests_with_a_changing_clock_leave_a_hundred_messages(
    tmp_path: Path,
) -> None:
    async with open_session(tmp_path) as (work, info):
        await pin_from_terminal(work, info, "Never push.")
        news: list[Json] = []
        for number in range(100):
            history = [*with_clock("before the words", number), *news]
            sent = await fit(work, info, history)
            assert sent[0] is history[0]
            news = [*news, user(f"Parcel {number}.")]
        assert await count_log(work, info) == 100
        versions = (await work.load(info)).view.version
    with sqlite3.connect(tmp_path / "store.db") as connection:
        (views,) = connection.execute("SELECT count(*) FROM view").fetchone()
    connection.close()
    assert versions == views == 1


NUMBERS = [("10 euros", "5000 euros"), ("2026-12-01", "2027-12-01")]


@pytest.mark.parametrize("numbers", NUMBERS)
async def test_a_system_message_with_another_number_is_another(
    tmp_path: Path, numbers: tuple[str, str]
) -> None:
    async with open_session(tmp_path) as (work, info):
        news: list[Json] = []
        for number in numbers:
            news = [*news, user(f"Next: {number}"), assistant("Done.")]
            rule = f"It is 09:30. Nothing over {number}."
            history = [{"role": "system", "content": rule}, *news]
            assert await fit(work, info, history) == history
            assert (await work.load(info)).messages[0].text == rule
        said = [quote.text for quote in await compactor.quote(work, info, "m1")]
        assert [number in text for number, text in zip(numbers, said, strict=True)] == [True, True]


@pytest.mark.parametrize(
    ("text", "other", "is_same"),
    [
        ("Now: 2026-11-16T09:05:11.250Z", "Now: 2026-11-16T18:40:02.001Z", True),
        ("It is 9:05 AM.", "It is 12:41 pm.", True),
        ("Mon Nov 16 04:07:58 UTC 2026", "Mon Nov 16 14:08:01 UTC 2026", True),
        ("Mon Nov 16 04:07:58 UTC 2026", "Mon Nov 17 04:07:58 UTC 2026", False),
        ("Listen on 127.0.0.1:8080.", "Listen on 127.0.0.1:9090.", False),
        ("Bible 119:105", "Bible 119:106", False),
        ("main.c:10:20", "main.c:10:21", False),
    ],
)
def test_only_the_time_of_day_is_a_clock(text: str, other: str, is_same: bool) -> None:
    assert (without_clock(text) == without_clock(other)) == is_same
