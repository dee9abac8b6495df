"""A server that compacts goes on answering; one session is compacted once, whoever is killed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import Ask, Compaction, SessionInfo, Traits
from mcp_compaction.ports import SessionKey
from mcp_compaction.settings import load_settings
from mcp_compaction.wiring import open_workspace
from tests.models.server import DIGEST, Asked, Endpoint, endpoint
from tests.server.host import PATIENCE, Host, call, request, toy
from tests.strategies import coding_session

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.thorough,
    pytest.mark.skipif(sys.platform == "win32", reason="pipes and signals of POSIX"),
]
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="finds a child in /proc")

T = TypeVar("T")
SERVER = [str(Path(sys.executable).with_name("mcp-compaction")), "serve", "--project", "/busy"]
SMALL, LARGE = 60, 300  # steps: the larger ones are compacted by a process of their own
in_process = pytest.mark.parametrize("steps", [SMALL, pytest.param(LARGE, marks=pytest.mark.slow)])
in_child = pytest.mark.parametrize("steps", [pytest.param(SMALL, marks=pytest.mark.slow), LARGE])
MORE = [{"role": "user", "content": "And then?"}]


class Waiting:
    """A model that is asked, and answers when a test lets it."""

    def __init__(self, served: Endpoint) -> None:
        self.served = served
        self.may_answer = Event()
        served.answer = self._answer

    def _answer(self, _: Asked) -> str:
        assert self.may_answer.wait(PATIENCE)
        return DIGEST

    def wait_until_asked(self) -> None:
        assert self.served.has_come.wait(PATIENCE)


@contextmanager
def waiting_model() -> Generator[Waiting]:
    with endpoint() as served:
        model = Waiting(served)
        try:
            yield model
        finally:
            model.may_answer.set()


def environ(home: Path, model: Waiting | None = None) -> dict[str, str]:
    found = {"MCP_COMPACTION_HOME": str(home), "MCP_COMPACTION_COUNTER": "estimate"}
    if model is not None:
        found |= {
            "ANTHROPIC_API_KEY": "none",
            "MCP_COMPACTION_SUMMARIZER": "anthropic",
            "MCP_COMPACTION_SUMMARIZER_MODEL": "model-x",
            "MCP_COMPACTION_SUMMARIZER_BASE_URL": model.served.url,
            "MCP_COMPACTION_SUMMARIZER_WINDOW_TOKENS": "500000",
        }
    return found


@asynccontextmanager
async def workspace_of(home: Path) -> AsyncGenerator[Workspace]:
    work = await open_workspace(load_settings(environ(home)))
    try:
        yield work
    finally:
        await work.store.close()


async def fill_store(home: Path, steps: int, percent: int) -> None:
    """Record a session of so many steps that is so full, and a small one beside it."""
    async with workspace_of(home) as work:
        for name, size in (("work", steps), ("other", 3)):
            key, own = SessionKey(project="/busy", name=name), Traits(owns_window=True)
            info, _ = await compactor.open_session(work, key, own)
            await compactor.record(work, info, read_incoming(coding_session(size, 300)))
            tokens = (await work.read_window(info)).fill.tokens * 100 // percent
            await work.store.set_traits(info.id, own.model_copy(update={"window_tokens": tokens}))


async def receipts_of(home: Path) -> list[str]:
    async with workspace_of(home) as work:
        info = await compactor.find_session(work, "/busy", "work")
        return [receipt.ref for receipt in await compactor.receipts(work, info)]


async def compact_now(home: Path) -> tuple[bool, bool]:
    """Whether somebody else compacts the session, and whether it can be compacted."""
    async with workspace_of(home) as work:
        info: SessionInfo = await compactor.find_session(work, "/busy", "work")
        was_claimed = await work.store.is_compacting(info.id)
        outcome = await compactor.compress(work, info, Ask(reason="x", force=True))
        return was_claimed, isinstance(outcome, Compaction)


def compress(**arguments: Any) -> dict[str, Any]:
    asked = call("compress", "compress_context", reason="x", session="work", **arguments)
    asked["params"]["_meta"] = {"progressToken": "compress"}
    return asked


def text_of(reply: dict[str, Any]) -> str:
    assert not reply["result"].get("isError"), reply
    return reply["result"]["content"][0]["text"]


def record(host: Host, messages: list[dict[str, Any]] = MORE) -> str:
    host.send(call("record", "record_messages", messages=messages, session="work"))
    return text_of(host.reply_to("record"))


def check_is_answering(host: Host) -> None:
    """A ping and another session's recall come before anything that is under way."""
    host.send(request("ping", "ping"))
    assert host.reply_to("ping")["result"] == {}
    host.send(call("recall", "recall_archived", query="limiter", session="other"))
    assert "passage" in text_of(host.reply_to("recall"))


def child_of(host: Host) -> int:
    """The process that compacts for a server."""
    pid = host.process.pid
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def wait_until_reading(host: Host) -> None:
    """Return once a compaction has begun to read its session."""
    while host.receive().get("params", {}).get("message") != "reading the session":
        pass


@pytest.mark.slow
@pytest.mark.parametrize("steps", [SMALL, LARGE])
async def test_others_are_answered_while_a_model_writes_a_digest(
    tmp_path: Path, steps: int
) -> None:
    await fill_store(tmp_path, steps, 90)
    with waiting_model() as model, toy(command=SERVER, env=environ(tmp_path, model)) as host:
        host.greet()
        host.send(compress(force=True))
        model.wait_until_asked()
        check_is_answering(host)
        model.may_answer.set()
        assert text_of(host.reply_to("compress")).startswith("c1 done: ")


@on_linux
async def test_others_are_answered_while_a_large_window_is_computed(tmp_path: Path) -> None:
    await fill_store(tmp_path, LARGE, 90)
    with toy(command=SERVER, env=environ(tmp_path)) as host:
        host.greet()
        host.send(compress(force=True))
        wait_until_reading(host)
        child = child_of(host)
        os.kill(child, signal.SIGSTOP)  # it computes for as long as a test wants
        check_is_answering(host)
        os.kill(child, signal.SIGCONT)
        assert text_of(host.reply_to("compress")).startswith("c1 done: ")


@in_child
async def test_a_full_window_is_compacted_beside_the_calls_and_told_once(
    tmp_path: Path, steps: int
) -> None:
    await fill_store(tmp_path, steps, 97)
    with waiting_model() as model, toy(command=SERVER, env=environ(tmp_path, model)) as host:
        host.greet()
        assert "% full: a compaction is under way; go on" in record(host)
        model.wait_until_asked()
        check_is_answering(host)
        assert "% full: a compaction is under way; go on" in record(host)
        model.may_answer.set()
        host.send(compress(dry_run=True))  # which waits for it
        told = host.reply_to("compress")
        assert "the window was full:\nc1 done: " in text_of(told)
        directive = told["result"]["_meta"]
        assert directive["compaction_directive"] is True
        assert directive["compaction"] == "c1"
        async with workspace_of(tmp_path) as work:
            newest = await _newest(work)
        assert directive["keep"][-2:] == [f"m{newest - 1}", f"m{newest}"]
        host.send(call("again", "recall_archived", query="limiter", session="work"))
        again = host.reply_to("again")
        assert "the window was full" not in text_of(again)
        assert not again["result"].get("_meta")
    assert await receipts_of(tmp_path) == ["c1"]


async def _newest(work: Workspace) -> int:
    return (await compactor.find_session(work, "/busy", "work")).messages


@in_process
async def test_three_servers_of_a_full_session_make_one_compaction(
    tmp_path: Path, steps: int
) -> None:
    await fill_store(tmp_path, steps, 97)
    with waiting_model() as model, ExitStack() as stack:
        env = environ(tmp_path, model)
        first, *others = [stack.enter_context(toy(command=SERVER, env=env)) for _ in range(3)]
        for host in (first, *others):
            host.greet()
        assert "a compaction is under way" in record(first)
        model.wait_until_asked()
        for host in others:
            assert "% full: another process is compacting it; go on" in record(host)
        model.may_answer.set()
        first.send(compress(dry_run=True))
        assert "the window was full:\nc1 done: " in text_of(first.reply_to("compress"))
        for host in (first, *others):
            assert "full" not in record(host)
    assert len(model.served.asked) == 1
    assert await receipts_of(tmp_path) == ["c1"]


async def test_three_servers_that_record_at_the_same_moment_make_one_compaction(
    tmp_path: Path,
) -> None:
    await fill_store(tmp_path, SMALL, 97)
    with ExitStack() as stack:
        env = environ(tmp_path)
        hosts = [stack.enter_context(toy(command=SERVER, env=env)) for _ in range(3)]
        for host in hosts:
            host.greet()
        for host in hosts:
            host.send(call("record", "record_messages", messages=MORE, session="work"))
        for host in hosts:
            assert "recorded 1 new" in text_of(host.reply_to("record"))
            host.send(compress(dry_run=True))
        for host in hosts:
            host.reply_to("compress")
    assert await receipts_of(tmp_path) == ["c1"]


@in_process
async def test_a_killed_servers_session_is_free_for_others(tmp_path: Path, steps: int) -> None:
    await fill_store(tmp_path, steps, 97)
    with waiting_model() as model, toy(command=SERVER, env=environ(tmp_path, model)) as host:
        host.greet()
        record(host)
        model.wait_until_asked()
        host.process.kill()
        host.process.wait(PATIENCE)
        was_claimed, is_compacted = await compact_now(tmp_path)
        assert is_compacted
        assert steps == LARGE or not was_claimed  # a child notices the end a moment later
    assert await receipts_of(tmp_path) == ["c1"]


@in_child
async def test_a_cancelled_compaction_leaves_the_session_as_it_was(
    tmp_path: Path, steps: int
) -> None:
    await fill_store(tmp_path, steps, 90)
    with waiting_model() as model, toy(command=SERVER, env=environ(tmp_path, model)) as host:
        host.greet()
        host.send(compress(force=True))
        model.wait_until_asked()
        cancelled = {"requestId": "compress", "reason": "a test"}
        host.send(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled},
        )
        model.may_answer.set()
        check_is_answering(host)
        host.send(call("again", "compress_context", reason="x", session="work", force=True))
        assert text_of(host.reply_to("again")).startswith("c1 done: ")
    assert await receipts_of(tmp_path) == ["c1"]


@pytest.mark.parametrize(
    ("steps", "way"), [pytest.param(SMALL, "EOF", marks=pytest.mark.slow), (LARGE, "SIGTERM")]
)
async def test_a_server_that_leaves_leaves_a_session_whole(
    tmp_path: Path, steps: int, way: str
) -> None:
    await fill_store(tmp_path, steps, 97)
    with waiting_model() as model, toy(command=SERVER, env=environ(tmp_path, model)) as host:
        host.greet()
        record(host)
        model.wait_until_asked()
        if way == "EOF":
            host.close_stdin()
        else:
            host.process.send_signal(signal.SIGTERM)
        assert host.process.wait(PATIENCE) == 0
        assert await receipts_of(tmp_path) == []
        was_claimed, is_compacted = await compact_now(tmp_path)
        assert is_compacted
        assert not was_claimed
    assert await receipts_of(tmp_path) == ["c1"]


@on_linux
async def test_a_process_that_dies_of_a_compaction_is_told(tmp_path: Path) -> None:
    await fill_store(tmp_path, LARGE, 90)
    with toy(command=SERVER, env=environ(tmp_path)) as host:
        host.greet()
        host.send(compress(force=True))
        wait_until_reading(host)
        os.kill(child_of(host), signal.SIGKILL)
        told = text_of(host.reply_to("compress"))
        assert told.startswith("not compressed: the process that did it ended before it was done")
        check_is_answering(host)
    assert await compact_now(tmp_path) == (False, True)
