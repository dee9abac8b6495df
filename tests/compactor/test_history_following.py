"""A history that its caller cut, cleared, rewound or edited, on a real store: it is followed."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor import history_following
from mcp_compaction.compactor.results import FitOptions
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.policy import Policy
from mcp_compaction.errors import StoreError
from mcp_compaction.model import Ask, Compaction, SessionInfo
from mcp_compaction.ports import Batch, Recorded, Scope, Store
from tests.checkers import problems
from tests.compactor.small_session import (
    WINDOW_FULL,
    assistant,
    called,
    count_log,
    fit,
    long_history,
    open_session,
    ours,
    pin_from_terminal,
    user,
)

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
OFFLOADING = FitOptions(offload_over_tokens=500)


# Histories that a caller changed by itself


CONTINUED = "This session is being continued from a previous conversation.\n\nSummary:\n"
CODEX = "Another language model started to solve this problem and produced a summary. Use it:\n"
SUMMED_UP = "The rows of file 3 are sorted."


@pytest.mark.parametrize(
    "summary",
    [
        f"{CONTINUED}{SUMMED_UP}\n\nIf you need specific details from before compaction, read it.",
        f"{CODEX}{SUMMED_UP}",
        f"<state_snapshot>\n<key_knowledge>{SUMMED_UP}</key_knowledge>\n</state_snapshot>",
    ],
)
async def test_what_the_callers_host_summed_up_is_told_of_by_our_next_compaction_from_the_log(
    tmp_path: Path, summary: str
) -> None:
    rule = "Never push on a Friday."
    history = [user(f"{rule} Sort the parcels."), *read_files(4)[1:], assistant("47 are sorted.")]
    async with open_session(tmp_path, policy=Policy(window_tokens=40_000)) as (work, info):
        taken_back = [*history, user("Use the zebra."), assistant("I use the zebra.")]
        await compactor.fit(work, info, taken_back)
        await compactor.fit(work, info, history)
        reads = [one for n in range(4, 12) for one in called(f"t{n}", f"row {n}\n" * 90)]
        after = [user(summary), assistant("I go on."), user("Go on."), *reads]
        assert await fit(work, info, after) == after
        shown = (await work.read_window(info)).fill
        done = await compactor.compress(work, info, Ask(reason="x", force=True))
        assert isinstance(done, Compaction)
        assert done.receipt.before == shown.tokens  # not of all that came back for it
        told = json.dumps(await fit(work, info, after))
        for words in (rule, "47 are sorted.", f"{SUMMED_UP} [model says, in the host's summary"):
            assert words in told
        assert "zebra" not in told
        later = [*after, assistant("Done."), user("What is next?")]
        assert json.dumps(await fit(work, info, later)).startswith(told[:-1])
        rewound = after[:3]
        assert rule in json.dumps(await fit(work, info, rewound))
        await compactor.restore(work, info, done.receipt.ref, force=True)
        assert await fit(work, info, after) == after


async def test_a_rewound_history_goes_on_from_there(tmp_path: Path) -> None:
    history = long_history()
    async with open_session(tmp_path) as (work, info):
        await compactor.fit(work, info, history)
        back = [*history[:5], user("No, do the zebra first.")]
        fitted = await compactor.fit(work, info, back)
        assert fitted.messages == back
        assert fitted.recorded.seqs == (1, 2, 3, 4, 5, len(history) + 1)
        again = await compactor.fit(work, info, history)
        assert again.messages == history
        assert again.recorded.new == 0


async def test_an_edited_message_keeps_its_place_and_both_wordings_are_found(
    tmp_path: Path,
) -> None:
    history = [user("Begin."), assistant("Begun."), user("Feed the zebra."), assistant("Fed.")]
    history += [user("Thanks.")]
    async with open_session(tmp_path) as (work, info):
        await compactor.fit(work, info, history)
        edited = [*history[:2], user("Feed the giraffe."), *history[3:]]
        fitted = await compactor.fit(work, info, edited)
        assert fitted.messages == edited
        assert fitted.recorded.seqs == (1, 2, 3, 4, 5)
        for word in ("zebra", "giraffe"):
            assert (await compactor.recall(work, info, word)).hits


async def test_undoing_a_compaction_does_not_bring_back_what_the_caller_dropped(
    tmp_path: Path,
) -> None:
    history = long_history()
    async with open_session(tmp_path) as (work, info):
        await compactor.fit(work, info, history)
        done = await compactor.compress(work, info, WINDOW_FULL)
        assert isinstance(done, Compaction)
        rewound = history[:5]
        await compactor.fit(work, info, rewound)
        await compactor.restore(work, info, done.receipt.ref, force=True)
        assert await fit(work, info, rewound) == rewound


async def test_two_processes_may_send_the_same_history_at_once(tmp_path: Path) -> None:
    async with (
        open_session(tmp_path) as (one, info),
        open_session(tmp_path) as (other, same),
    ):
        history = [user("Begin.")]
        for number in range(4):
            history += [*called(f"t{number}", f"result {number}")]
            sent = await asyncio.gather(
                compactor.fit(one, info, history), compactor.fit(other, same, history)
            )
            assert [fitted.messages for fitted in sent] == [history, history]
        assert await count_log(one, info) == len(history)


@pytest.mark.parametrize("is_pinned", [False, True])
async def test_of_two_processes_each_is_given_its_own_history(
    tmp_path: Path, is_pinned: bool
) -> None:
    begun = [user("Begin.")]
    longer = [*begun, assistant("Begun."), user("Feed the zebra.")]
    other_way = [*begun, assistant("Yes?"), user("Feed the giraffe.")]
    async with (
        open_session(tmp_path) as (one, info),
        open_session(tmp_path) as (other, same),
    ):
        assert await fit(one, info, begun) == begun
        assert await fit(other, same, longer) == longer
        pinned = 0
        if is_pinned:  # which makes another view
            await pin_from_terminal(other, same, "Never push.")
            pinned = 1
        for history in (begun, begun, other_way):
            sent = await fit(one, info, history)
            assert [m for m in sent if m in history] == history
            assert len(sent) == len(history) + pinned
        sent = await fit(other, same, longer)
        assert [m for m in sent if m in longer] == longer
        assert len(sent) == len(longer) + pinned


# Edited where they stand


async def test_a_message_edited_behind_a_digest_is_told_in_its_new_words(tmp_path: Path) -> None:
    history = [user("Begin."), assistant("Begun."), user("Paint the barn blue.")]
    history += [*long_history()[1:], user("And now?")]
    edited = [*history[:2], user("Leave the barn alone."), *history[3:]]
    async with open_session(tmp_path) as (work, info):
        await compactor.fit(work, info, history)
        await compactor.compress(work, info, WINDOW_FULL)
        digested = await fit(work, info, history)
        assert all(obj is not history[2] for obj in digested)
        fitted = await compactor.fit(work, info, edited)
        said = json.dumps(fitted.messages)
        assert ("Leave the barn alone." in said, "blue" in said) == (True, False)
        assert fitted.fill.percent < 95
        await compactor.compress(work, info, WINDOW_FULL)
        said = json.dumps(await fit(work, info, edited))
        assert ("Leave the barn alone." in said, "blue" in said) == (True, False)
        back = json.dumps(await fit(work, info, history))
        assert ("Leave the barn alone." in back, "blue" in back) == (False, True)


@pytest.mark.parametrize("is_compacted", [False, True])
async def test_a_result_that_is_edited_to_something_large_is_offloaded(
    tmp_path: Path, is_compacted: bool
) -> None:
    text = "\n".join(f"parcel {n} for zebra {n * 7}" for n in range(500))
    history = [*long_history(), *called("t1", "3 rows"), *called("t2", "4 rows")]
    edited = [*history[:-3], called("t1", text)[1], *history[-2:]]
    async with open_session(tmp_path) as (work, info):
        await compactor.fit(work, info, history, OFFLOADING)
        if is_compacted:
            await compactor.compress(work, info, WINDOW_FULL)
        fitted = await compactor.fit(work, info, edited, OFFLOADING)
        shown = json.dumps(fitted.messages[-3])
        ref = f"m{len(history) - 2}"
        assert f"recall_archived refs {ref}" in shown
        assert len(shown) < 1_000
        assert problems(fitted.messages, "anthropic") == []
        assert fitted.fill.tokens < 6_000
        assert text in (await compactor.quote(work, info, ref))[-1].text
        assert json.dumps(await fit(work, info, edited)) == json.dumps(fitted.messages)


async def test_nothing_is_left_of_an_edited_message_that_is_forgotten(tmp_path: Path) -> None:
    history = [user("Count."), *called("t1", "a zebra"), *called("t2", "4 rows")]
    edited = [*history[:2], called("t1", "two giraffes\n" * 500)[1], *history[3:]]
    async with open_session(tmp_path) as (work, info):
        await compactor.fit(work, info, history)
        await compactor.fit(work, info, edited, OFFLOADING)
        await compactor.forget(work, Scope(project=info.project, session=info.id), "m3")
    with sqlite3.connect(tmp_path / "store.db") as connection:
        dump = "\n".join(connection.iterdump())
    connection.close()
    assert "zebra" not in dump
    assert "giraffes" not in dump


# Rewound to before a compaction


def read_files(count: int) -> list[Json]:
    history = [user("Sort the parcels.")]
    for number in range(count):
        rows = "\n".join(f"{n} parcel {n * 7919 % 10007}" for n in range(100))
        history += called(f"t{number}", f"file {number}\n{rows}")
    return history


async def test_a_history_rewound_to_before_a_compaction_is_whole_again(tmp_path: Path) -> None:
    history = read_files(8)
    async with open_session(tmp_path) as (work, info):
        first = await compactor.fit(work, info, history[:5])
        assert isinstance((await compactor.fit(work, info, history)).outcome, Compaction)
        await pin_from_terminal(work, info, "Never push.")
        await compactor.compress(work, info, WINDOW_FULL)
        back = await compactor.fit(work, info, history[:5])
        said = [obj for obj in back.messages if any(obj is own for own in history)]
        assert [id(obj) for obj in said] == [id(obj) for obj in history[:5]]
        assert "Never push." in "".join(ours(back.messages))
        assert abs(back.fill.tokens - first.fill.tokens) < 60
        on = [*history[:5], assistant("Read."), user("Good.")]
        assert (await fit(work, info, on))[-3] is history[4]


async def test_an_earlier_compaction_stays_when_only_a_later_one_is_rewound(tmp_path: Path) -> None:
    history = read_files(14)
    async with open_session(tmp_path) as (work, info):
        await compactor.fit(work, info, history[:9])
        await compactor.compress(work, info, WINDOW_FULL)
        middle = await fit(work, info, history[:11])
        await compactor.fit(work, info, history)
        await compactor.compress(work, info, WINDOW_FULL)
        assert json.dumps(await fit(work, info, history[:11])) == json.dumps(middle)
        assert middle != history[:11]


async def test_a_stale_result_is_whole_again_when_it_is_the_newest(tmp_path: Path) -> None:
    history = read_files(6)
    history[1:1] = [assistant("Sure."), user("Begin.")]
    shortening = FitOptions(microcompact=True)
    async with open_session(tmp_path, policy=Policy(window_tokens=20_000)) as (work, info):
        for said in range(4):
            history += [assistant(f"Read {said}."), user("Go on.")]
        cut = await fit(work, info, history, shortening)
        assert cut[4] is not history[4]
        back = await fit(work, info, history[:5], shortening)
        assert back[-1] is history[4]


# In parts


class FailingStore:
    """A store that takes so many batches, and then no more."""

    def __init__(self, store: Store, batches: int) -> None:
        self._store = store
        self._left = batches
        self.largest = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, session: int, batch: Batch, now: datetime) -> Recorded:
        if not self._left:
            raise StoreError("the disk is full; free some space.")
        self._left -= 1
        self.largest = max(self.largest, len(batch.messages))
        return await self._store.append(session, batch, now)


async def send_through(folder: Path, history: list[Json], batches: int) -> FailingStore | None:
    """Fit a history on a store that fails; None where it does not come to that."""
    stores: list[FailingStore] = []

    def wrap(store: Store) -> Store:
        stores.append(FailingStore(store, batches))
        return cast("Store", stores[-1])

    async with open_session(folder, wrap=wrap) as (work, info):
        try:
            await compactor.fit(work, info, history)
        except StoreError:
            return stores[0]
    return None


async def logged(work: Workspace, info: SessionInfo) -> list[Json]:
    newest = await count_log(work, info)
    found = await compactor.originals(work, info, f"m1..m{newest}")
    return [json.loads(original.message.raw) for original in found]


async def test_a_history_that_is_stopped_between_two_batches_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_following, "MOST_ROWS", 10)
    history = long_history(steps=24)
    edited = [user("Other words."), *history[1:9], user("A word between."), *history[9:]]
    count = -(-len(history) // 10)
    for batches in range(count):
        folder = tmp_path / str(batches)
        folder.mkdir()
        store = await send_through(folder, history, batches)
        assert store is not None
        assert store.largest <= 10
        async with open_session(folder) as (work, info):
            known = await count_log(work, info)
            assert known == 10 * batches
            fitted = await compactor.fit(work, info, history, FitOptions(relieve=False))
            assert fitted.messages == history
            assert fitted.recorded.new == len(history) - known
            assert await logged(work, info) == history
            again = await fit(work, info, edited, FitOptions(relieve=False))
            assert again == edited
    assert await send_through(tmp_path, history, count) is None
