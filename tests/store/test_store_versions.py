"""Stores of every earlier schema are opened as they were left, and no step is edited afterwards."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from given_store import NOW, answered, batch, called, damage, here, matching, opened, rows, said

from mcp_compaction.errors import StoreEarly
from mcp_compaction.store.schema import MIGRATIONS

pytestmark = pytest.mark.anyio

FROZEN = Path(__file__).parent / "frozen"
# Of the statements of each step, in order. A step that is out in the world is never edited: append
# a new one, its checksum here and a store made by it, with rows, as frozen/schema-N.sql.
CHECKSUMS = (
    "1097cecd09dd7d74",
    "292219ca333fbeda",
    "03c11ed7d53b404b",
    "3bae3a036a4b5a61",
    "cdb22f6497778e51",
    "12bf3f619fa70b17",
    "935a6171fe955464",
    "7fd1a36195a3208c",
    "865bb64fbb09b09c",
    "f88933bd6e2601ad",
    "cb412a4c8459aafb",
)
VERSIONS = range(1, len(MIGRATIONS) + 1)


class Recording(sqlite3.Connection):
    """A connection that notes the statements it is given."""

    statements: list[str]

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        """Note and execute a statement."""
        self.statements.append(sql)
        return super().execute(sql, *parameters)


def checksums() -> list[str]:
    found: list[str] = []
    with closing(sqlite3.connect(":memory:", factory=Recording)) as connection:
        for step in MIGRATIONS:
            connection.statements = []
            step(connection)
            found.append(sha256("\n".join(connection.statements).encode()).hexdigest()[:16])
    return found


def test_no_step_of_the_schema_is_edited() -> None:
    assert tuple(checksums()) == CHECKSUMS


def frozen_store(version: int, path: Path) -> None:
    script = (FROZEN / f"schema-{version}.sql").read_text(encoding="utf-8")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    path.chmod(0o600)


def tables(connection: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    names = [
        name
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'passage_%'"
        )
    ]
    return {name: connection.execute(f"PRAGMA table_info({name})").fetchall() for name in names}


@pytest.mark.thorough
@pytest.mark.parametrize("version", VERSIONS)
def test_a_frozen_store_has_the_tables_its_steps_make(version: int, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    frozen_store(version, path)
    with closing(sqlite3.connect(path)) as frozen, closing(sqlite3.connect(":memory:")) as made:
        for step in MIGRATIONS[:version]:
            step(made)
        assert tables(frozen) == tables(made)
        assert frozen.execute("PRAGMA user_version").fetchone() == (version,)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_store_of_an_earlier_version_keeps_what_it_holds(
    version: int, tmp_path: Path
) -> None:
    path = tmp_path / "store.db"
    frozen_store(version, path)
    async with opened(path) as store:
        (info,) = await store.sessions(here(), 9)
        assert (info.name, info.messages) == ("checkout", 6)
        kept = [original.message for original in await store.originals(here(info.id))]
        assert kept[0].raw == '{"role": "user", "content": "Deploy retryLater on port 8443."}'
        assert kept[1].calls[0].name == "Bash"
        assert "forget" not in kept[4].raw.replace("forgotten", "")
        pins = await store.pins(here(info.id), NOW)
        assert [pin.text for pin in pins] == ["Never push to main.", "Look at the cart."]
        loaded = await store.load(info.id, NOW)
        assert loaded.view.compaction == 1
        assert [digest.number for digest in await store.digests(info.id)] == [1]
        assert [receipt.compaction for receipt, _ in await store.receipts(info.id)] == [1]
        assert [event.name for event in await store.events(info.id)] == ["seen"]
    assert rows(path, "PRAGMA user_version") == [(len(MIGRATIONS),)]
    assert damage(path) == []


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_store_of_an_earlier_version_is_searched_and_goes_on(
    version: int, tmp_path: Path
) -> None:
    path = tmp_path / "store.db"
    frozen_store(version, path)
    async with opened(path) as store:
        for word, ref in (("retry_later", "m1"), ("据库", "m3"), ("main", "p1"), ("ship", "d1")):
            assert ref in [hit.ref for hit in await matching(store, here(1), word)], word
        assert (await store.append(1, batch(said("and on it goes")), NOW)).seqs == (7,)
        assert [hit.ref for hit in await matching(store, here(1), "goes")] == ["m7"]
        await store.append(1, batch(answered("c1", "late"), called("c2", "Bash", {})), NOW)
        found = await store.messages_of_calls(here(1), ("c1", "c2", "c3"))
        assert found == ((2, 3, 8), (9,), ())
    assert damage(path) == []


@pytest.mark.parametrize("name", ["early-1a", "early-1b", "early-2"])
async def test_a_store_from_before_the_steps_were_frozen_is_refused_with_the_way_out(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((FROZEN / f"{name}.sql").read_text(encoding="utf-8"))
    path.chmod(0o600)
    before = rows(path, "SELECT * FROM message"), rows(path, "PRAGMA user_version")
    with pytest.raises(StoreEarly, match=r"nothing was changed. Move the file away"):
        async with opened(path):
            pass
    assert (rows(path, "SELECT * FROM message"), rows(path, "PRAGMA user_version")) == before
