"""A session in a small window on a real store, and what is said in it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from mcp_compaction import compactor
from mcp_compaction.compactor.results import FitOptions, PinWish
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.window.history import is_record
from mcp_compaction.counters.o200k import EstimateCounter
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Ask, SessionInfo, Shape
from mcp_compaction.ports import SessionKey, Store, Summarizer, TokenCounter
from mcp_compaction.store.sqlite import open_store
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer
from tests.sessions import NOW
from tests.strategies import coding_session

WINDOW_FULL = Ask(reason="test", force=True, target_percent=20)

SMALL = Policy(window_tokens=6_000)


class StepClock:
    """A clock that moves a second at each look."""

    def __init__(self) -> None:
        self.moment = NOW

    def now(self) -> datetime:
        self.moment += timedelta(seconds=1)
        return self.moment


@asynccontextmanager
async def open_session(
    folder: Path,
    *,
    policy: Policy = SMALL,
    summarizer: Summarizer | None = None,
    name: str = "work",
    wrap: Callable[[Store], Store] | None = None,
    counter: TokenCounter | None = None,
) -> AsyncGenerator[tuple[Workspace, SessionInfo]]:
    """A session in the store of that folder, and the compactor that has it.

    `wrap`: what stands between the compactor and that store.
    """
    store: Store = await open_store(folder / "store.db")
    store = wrap(store) if wrap is not None else store
    work = Workspace(
        store=store,
        summarizer=summarizer or ExtractiveSummarizer(),
        counter=counter or EstimateCounter(),
        clock=StepClock(),
        policy=policy,
    )
    try:
        info, _ = await compactor.open_session(work, SessionKey(project="/p", name=name))
        yield work, info
    finally:
        await work.store.close()


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


async def record_long(work: Workspace, info: SessionInfo, steps: int = 40) -> int:
    done = await compactor.record(work, info, read_incoming(list(coding_session(steps, 300))))
    return len(done.seqs)


async def record_long_with(work: Workspace, info: SessionInfo, text: str) -> None:
    """A long session in which the agent says something early on, in m4."""
    first, *rest = coding_session(40, 300)
    await compactor.record(
        work, info, read_incoming([first, *rest[:2], assistant(text), *rest[2:]])
    )


def called(call: str, result: str) -> list[dict[str, Any]]:
    """A tool call with its result."""
    use = {"type": "tool_use", "id": call, "name": "Read", "input": {"path": "a.py"}}
    answer = {"type": "tool_result", "tool_use_id": call, "content": result}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [answer]}]


def ours(messages: list[dict[str, Any]]) -> list[str]:
    """The records of ours among messages."""
    texts = (message.get("content") for message in messages)
    return [text for text in texts if isinstance(text, str) and is_record(text)]


async def fit(
    work: Workspace, info: SessionInfo, sent: object, options: FitOptions | None = None
) -> list[Any]:
    """The messages to send in place of a history."""
    return [*(await compactor.fit(work, info, sent, options)).messages]


async def pin_from_terminal(work: Workspace, info: SessionInfo, text: str) -> str:
    done = await compactor.pin(work, info, PinWish(text, by="user", channel="terminal"))
    return done.pin.ref


async def count_log(work: Workspace, info: SessionInfo) -> int:
    return (await work.load(info)).info.messages


def long_history(shape: Shape = "anthropic", steps: int = 16) -> list[dict[str, Any]]:
    return list(coding_session(steps, 300, shape=shape))
