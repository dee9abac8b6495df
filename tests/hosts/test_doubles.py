"""What earlier versions recorded twice stays in the log, and counts once."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from mcp_compaction import compactor
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.hosts.finding import transcripts_at
from mcp_compaction.model import Ask, Compaction, SessionInfo
from mcp_compaction.store.align import chain_hash
from tests.hosts.given_hosts import record, said_in, workspace_in, write_chat
from tests.hosts.test_once import CHAT, answered, boundary, typed

pytestmark = pytest.mark.anyio

TALK = [
    *CHAT,
    *(line for n in range(10, 40, 2) for line in (typed(n, f"Report {n}."), answered(n + 1, "…"))),
]
LONG = [line.replace("Report", "A word of the report. " * 40) for line in TALK]


@asynccontextmanager
async def chat_in(
    folder: Path, lines: Sequence[str]
) -> AsyncGenerator[tuple[Workspace, SessionInfo]]:
    """A chat that is recorded from its host's transcript as far as it goes."""
    environ = {"HOME": str(folder / "home")}
    (transcript,) = transcripts_at(write_chat(environ, lines), environ)
    async with workspace_in(folder) as work:
        taken = await record(work, transcript)
        assert taken.session is not None
        yield work, taken.session


def repeat(
    folder: Path, seqs: range, host_id: str | None = None, recorded: str | None = None
) -> None:
    """Write messages down once more, as earlier versions did: without an id of the host, or with a
    new one."""
    with closing(sqlite3.connect(folder / "store/store.db")) as store, store:
        last, chain = store.execute("SELECT last_seq, last_chain FROM session").fetchone()
        for number, seq in enumerate(seqs, start=1):
            (content,) = store.execute(
                "SELECT content FROM message WHERE seq = ?", (seq,)
            ).fetchone()
            chain = chain_hash(chain, content)
            store.execute(
                "INSERT INTO message (session, seq, role, shape, host_id, content, chain, at,"
                " recorded, tokens, counter, via, speaker, raw) SELECT session, ?1, role, shape,"
                " ?2 || seq, content, ?3, iif(?2 IS NULL, NULL, at), coalesce(?5, at),"
                " tokens, counter, via, speaker, raw FROM message WHERE seq = ?4",
                (last + number, host_id, chain, seq, recorded),
            )
            end = (last + number, chain)
            store.execute("UPDATE session SET last_seq = ?, last_chain = ?", end)
        store.execute("PRAGMA user_version = 10")


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("host_id", [None, "new"])
async def test_what_a_store_holds_more_than_once_counts_once_in_fill_stats_and_receipts(
    tmp_path: Path, host_id: str | None, times: int
) -> None:
    lines = [*LONG, boundary("2026-11-15T14:04:00.002Z")]
    ask = Ask(reason="test", force=True, target_percent=1)
    dry_run = ask.model_copy(update={"dry_run": True})
    async with chat_in(tmp_path, lines) as (work, info):
        fill, stats = (await work.read_window(info)).fill, await compactor.read_stats(work, info)
        log = await said_in(work, info)
        alone = await compactor.compress(work, info, dry_run)
    for time in range(times):
        repeat(tmp_path, range(8, 31), host_id and f"{host_id} {time} ")
    async with chat_in(tmp_path, lines) as (work, info):
        assert len(await said_in(work, info)) == len(log) + 23 * times
        assert (await work.read_window(info)).fill == fill
        again = await compactor.read_stats(work, info)
        assert (again.shown, again.fill) == (stats.shown, stats.fill)
        assert await compactor.compress(work, info, dry_run) == alone
        made = await compactor.compress(work, info, ask)
        assert isinstance(made, Compaction)
        assert made.receipt.before == fill.tokens
    more = [
        *lines,
        *(one.replace("14:03", "14:05") for one in (typed(50, "Yes."), answered(51, "ok"))),
    ]
    async with chat_in(tmp_path, more) as (work, info):
        shown = (await work.load(info)).messages
        assert [one.text for one in shown[-2:]] == ["Yes.", "ok"]


async def test_equal_turns_and_what_the_transcript_has_not_told_yet_are_no_doubles(
    tmp_path: Path,
) -> None:
    lines = [*CHAT, boundary()]
    async with chat_in(tmp_path, lines) as (work, info):
        shown = (await compactor.read_stats(work, info)).shown
    repeat(tmp_path, range(3, 5), recorded="2026-11-15T14:06:00.000000+00:00")
    async with chat_in(tmp_path, lines) as (work, info):
        assert (await compactor.read_stats(work, info)).shown == shown + 2
