"""The public API without asyncio: any thread may use it, and none that runs an event loop."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any, cast

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

from mcp_compaction import BlockingSession, Compaction, OpenSession, OpenStore, errors, open_store
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.model import Pin, SessionInfo
from mcp_compaction.settings import load_settings
from tests.sessions import NOW
from tests.strategies import coding_session


def test_both_forms_give_the_same_for_the_same_session(tmp_path: Path) -> None:
    messages = list(coding_session(40, 300))

    async def wait() -> tuple[object, ...]:
        async with open_store(home=tmp_path / "a", window_tokens=12_000) as store:
            session = await store.session("work")
            recorded = await session.record(messages)
            done = await session.compress("all read")
            assert isinstance(done, Compaction)
            return recorded, done.view, await session.request("openai"), session.name

    with open_store(home=tmp_path / "b", window_tokens=12_000) as store:
        session = store.session("work")
        recorded = session.record(messages)
        done = session.compress("all read")
        assert isinstance(done, Compaction)
        plain = recorded, done.view, session.request("openai"), session.name
    assert plain == asyncio.run(wait())


def test_many_threads_may_use_one_store(tmp_path: Path) -> None:
    with open_store(home=tmp_path) as store, ThreadPoolExecutor(8) as threads:

        def work(number: int) -> list[Any]:
            session = store.session(f"s{number % 4}")
            session.record({"role": "user", "content": f"message {number}"})
            return session.request()["messages"]

        list(threads.map(work, range(40)))
        kept = [store.session(f"s{n}").request("responses")["input"] for n in range(4)]
    texts = [item["content"][0]["text"] for items in kept for item in items]
    assert sorted(texts) == sorted(f"message {number}" for number in range(40))


def _new_threads(before: set[threading.Thread]) -> list[threading.Thread]:
    """The threads that were begun since and have not ended; those about to end are waited for."""
    new = [thread for thread in threading.enumerate() if thread not in before]
    for thread in new:
        thread.join(20)
    return [thread for thread in new if thread.is_alive()]


def test_the_thread_ends_with_the_block_though_it_fails(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with ExitStack() as stack:
        stack.enter_context(pytest.raises(errors.UnknownRef))
        store = stack.enter_context(open_store(home=tmp_path))
        session = store.session("work")
        assert set(threading.enumerate()) - before  # those of earlier tests may end meanwhile
        session.restore("c9")
    assert _new_threads(before) == []
    with pytest.raises(errors.StoreError, match="open it again"):
        session.pins()
    with pytest.raises(errors.StoreError, match="open it again"):
        store.session("work")


def test_a_store_that_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_text("this is no database, and long enough to say so" * 100)
    before = set(threading.enumerate())
    with pytest.raises(errors.StoreDamaged), open_store(home=tmp_path):
        pass
    assert _new_threads(before) == []


def test_a_coroutine_is_refused_with_the_next_step_and_may_use_a_thread(tmp_path: Path) -> None:
    def open_here() -> int:
        with open_store(home=tmp_path) as store:
            return len(store.session("work").pins())

    async def main(session: BlockingSession) -> None:
        for call in (open_store(home=tmp_path).__enter__, open_here, session.pins):
            with pytest.raises(errors.InputError, match="write `async with open_store") as caught:
                call()
            assert str(caught.value).endswith("or call from another thread.")
        assert await asyncio.to_thread(open_here) == 0
        assert await asyncio.to_thread(session.pins) == ()

    with open_store(home=tmp_path) as store:
        asyncio.run(main(store.session("work")))


class EndlessWorkspace:
    """A workspace that never answers, and presses Ctrl-C once the caller waits."""

    def __init__(self) -> None:
        self.is_cancelled = threading.Event()

    async def pins(self, info: SessionInfo) -> tuple[Pin, ...]:
        main = threading.main_thread().ident
        assert main is not None
        while not _is_waiting(sys._current_frames()[main]):  # pyright: ignore[reportPrivateUsage]
            await asyncio.sleep(0)
        signal.pthread_kill(main, signal.SIGINT)
        try:
            await anyio.sleep_forever()
        finally:
            self.is_cancelled.set()
        return ()


def _is_waiting(frame: FrameType | None) -> bool:
    names: list[str] = []
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names[:3] == ["wait", "result", "_wait_for"]


def test_what_is_interrupted_by_ctrl_c_does_not_go_on(tmp_path: Path) -> None:
    endless = EndlessWorkspace()
    settings = load_settings({"HOME": str(tmp_path)})
    store = OpenStore(cast(Workspace, endless), settings, "/p")
    info = SessionInfo(id=1, name="work", project="/p", created=NOW, updated=NOW)
    with start_blocking_portal() as portal:
        session = BlockingSession(OpenSession(store, info), portal)
        with pytest.raises(KeyboardInterrupt):
            session.pins()
        assert endless.is_cancelled.wait(20)
