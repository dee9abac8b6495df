"""A compaction is saved whole, on the view it was made from, and can be looked back at."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest
from given_store import (
    NOW,
    batch,
    compaction,
    history,
    new_session,
    opened,
    rows,
    said,
    with_store,
)

from mcp_compaction.model import (
    Compaction,
    Cut,
    IndexItem,
    Item,
    Text,
    Trimmed,
    View,
)
from mcp_compaction.store.database import Database
from mcp_compaction.store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio


SIX = history("one", "two", "three", "four", "five", "six")


def preview(seq: int, size: int = 30) -> Trimmed:
    cut = Cut(part=0, shown=Text(text="x" * size), why="preview")
    return Trimmed(seq=seq, cuts=(cut,), tokens=4)


@pytest.mark.thorough
async def test_two_thousand_previews_on_arrival_take_less_than_twenty_megabytes(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path / "store.db") as store:
        session = await new_session(store)
        # As many as two thousand results leave behind them, in the last sixty steps.
        since = tuple(preview(seq, 200) for seq in range(1, 1941))
        for version in range(60):
            since = (*since, preview(1941 + version, 200))
            assert await store.save_view(session, View(since=since), version)
        assert (await store.view(session, 60)).since == since
        assert (await store.view(session, 51)).since == since[:-9]
    sizes = rows(tmp_path / "store.db", "SELECT sum(length(json)) FROM view")
    assert int(str(sizes[0][0])) < 20_000_000


async def test_views_of_an_earlier_version_go_little_by_little(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(path) as store:
        session = await new_session(store)
        assert await store.save_view(session, View(), 0)
    with closing(sqlite3.connect(path)) as connection, connection:
        (text,) = connection.execute("SELECT json FROM view").fetchone()
        connection.executemany(
            "INSERT INTO view VALUES (?1, ?2, json_set(?3, '$.version', ?2))",
            [(session, n, text) for n in range(2, 501)],
        )
        connection.execute("UPDATE session SET view_version = 500")
    async with opened(path) as store:
        for version in range(500, 520):
            assert await store.save_view(session, View(), version)
    ((left, oldest),) = rows(path, "SELECT count(*), min(version) FROM view")
    assert (left, oldest) == (11, 510)


def with_long_digest(facts: list[str], files: list[str]) -> Compaction:
    """A compaction whose digest has these facts and this index."""
    made = compaction()
    digest = made.digests[0].model_copy(
        update={
            "sections": (("FACTS", tuple(Item(text=fact) for fact in facts)),),
            "index": tuple(IndexItem(kind="file", text=file, note="read") for file in files),
        }
    )
    return made.model_copy(update={"digests": (digest,)})


async def digest_passages(path: Path, made: Compaction) -> list[str]:
    """What the search finds of a saved compaction's digest, in order."""
    async with opened(path) as store:
        session = await new_session(store)
        await store.append(session, batch(*SIX), NOW)
        assert await store.save(session, made)
    found = rows(path, "SELECT text FROM passage WHERE kind = 'd' ORDER BY ordinal")
    return [str(text) for (text,) in found]


async def test_a_long_digest_is_found_in_short_pieces_and_not_by_its_index(tmp_path: Path) -> None:
    facts = [f"fact number {number} of the long list" for number in range(60)]
    files = [f"src/part{number}/module.py" for number in range(200)]
    pieces = await digest_passages(tmp_path / "store.db", with_long_digest(facts, files))
    assert max(map(len, pieces)) <= 600
    sections = [piece for piece in pieces if piece.startswith("FACTS: ")]
    assert "\n".join(piece.removeprefix("FACTS: ") for piece in sections).split("\n") == facts
    assert pieces == sections
    assert len(pieces) < 20


async def test_only_an_item_too_long_for_a_piece_is_cut_and_between_words(tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(300)]
    text = "\n".join([" ".join(words), "short\nlines " * 3, "x" * 1500])
    pieces = await digest_passages(tmp_path / "store.db", with_long_digest(["a", text, "z"], []))
    assert max(map(len, pieces)) <= 600
    said = [piece.removeprefix("FACTS: ") for piece in pieces]
    assert "\n".join(said).split()[:301] == ["a", *words]
    assert "".join("".join(said).split()) == "".join(f"a{text}z".split())


async def test_what_is_loaded_is_of_one_moment_although_another_writes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    plain_open = Database.open
    selects: list[str] = []

    def write_before_the_second_select(statement: str) -> None:
        if statement.lstrip().startswith("SELECT"):
            selects.append(statement)
            if len(selects) == 2:
                writer = Thread(target=with_store, args=(path, say_more))
                writer.start()
                writer.join()

    async def say_more(store: SqliteStore) -> None:
        await store.append(await new_session(store), batch(said("meanwhile")), NOW)

    databases: list[Database] = []

    async def open_and_note(self: Database) -> None:
        await plain_open(self)
        databases.append(self)

    monkeypatch.setattr(Database, "open", open_and_note)
    async with opened(path) as store:
        session = await new_session(store)
        await store.append(session, batch(*history("a", "b")), NOW)
        for database in databases:
            await database.run(lambda c: c.set_trace_callback(write_before_the_second_select))
        loaded = await store.load(session, NOW)
        first, second = loaded, await store.load(session, NOW)
    assert (first.info.messages, len(first.messages)) == (2, 2)
    assert (second.info.messages, len(second.messages)) == (3, 3)
