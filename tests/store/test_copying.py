"""All sessions of a store copied into another one: whole, the same, and once."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from mcp_compaction.ports import Scope, Store
from mcp_compaction.store.postgres.database import opened as opened_database
from mcp_compaction.store.postgres.schema import TABLES
from mcp_compaction.store.postgres.store import open_store as open_rows
from mcp_compaction.store.sqlite import open_store
from tests.cli.conftest import CHAT, Ran, Shell
from tests.hosts.terminal import user_input
from tests.store.given_store import NOW, PATIENCE, state
from tests.store.postgres_server import Server

PROJECT = "/test/project"
PAIRS = [
    pytest.param(("file", "file"), id="file to file"),
    pytest.param(("file", "team"), id="file to team", marks=pytest.mark.thorough),
    pytest.param(("team", "file"), id="team to file", marks=pytest.mark.thorough),
]


@dataclass(frozen=True)
class Place:
    """A store that commands are run on."""

    shell: Shell
    address: str
    owner: str = ""

    async def open(self) -> Store:
        """The store there."""
        if self.owner:
            return await open_rows(self.address, self.owner)
        return await open_store(Path(self.address), PATIENCE)

    def rows(self) -> object:
        """All rows there, in a form to be compared."""
        return asyncio.run(self._dump()) if self.owner else state(Path(self.address))

    async def _dump(self) -> list[list[str]]:
        async with opened_database(self.address) as database:
            return [
                [
                    row["row"]
                    for row in await database.read(
                        self.owner,
                        lambda tx, table=table: tx.all(
                            f"SELECT t::text AS row FROM {table} AS t WHERE owner = %(owner)s"
                            " ORDER BY 1"
                        ),
                    )
                ]
                for table in TABLES
            ]


@pytest.fixture(params=PAIRS)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Place, Place]:
    """A full store and an empty one."""
    makers: dict[str, Callable[[Path], Place]] = {
        "file": file_place,
        "team": lambda folder: team_place(folder, request.getfixturevalue("postgres")),
    }
    first, second = request.param
    source, target = makers[first](tmp_path / "source"), makers[second](tmp_path / "target")
    fill(source.shell)
    return source, target


def shell_in(folder: Path) -> Shell:
    (folder / "store").mkdir(parents=True, mode=0o700)
    return Shell(folder).with_environ(
        {"MCP_COMPACTION_PROJECT": PROJECT, "MCP_COMPACTION_OWNER": f"owner-{uuid4().hex}"}
    )


def file_place(folder: Path) -> Place:
    shell = shell_in(folder)
    return Place(shell, str(shell.home / "store.db"))


def team_place(folder: Path, server: Server) -> Place:
    shell = shell_in(folder).with_environ({"MCP_COMPACTION_STORE": server.address})
    return Place(shell, server.address, shell.environ["MCP_COMPACTION_OWNER"])


def fill(shell: Shell) -> None:
    """Record two sessions and a forgotten one; compress one; pin, release and forget."""
    person = shell.as_user()
    note = (
        b'{"role":"user","content":"Gr\\u00fc\\u00dfe \\u0000 \\u5c71: the staging key is k%d"}\n'
    )
    for name in ("notes", "gone"):
        shell.done("record", "--session", name, stdin=b"".join(note % n for n in range(5)))
    person.done("pin", "Ship on Fridays only.", "--session", "gone")
    shell.as_user().done("store forget", "gone", "--yes")
    shell.as_user().done("store forget", "notes", "m2", "--yes")
    shell.done("record", "--session", "tax-2026", stdin=CHAT)
    person.done("pin", "Never push to main; only the staging key.", "--session", "tax-2026")
    person.done("pin", "Ask before a deploy.", "--session", "notes")
    person.done("unpin", "p3", "--session", "notes")
    shell.done("compress", "--window-tokens", "12000", "--session", "tax-2026")


def copy(source: Place, target: Place) -> Ran:
    team = source if source.owner else target
    return team.shell.as_user().bare(
        "team", "copy", "--from", source.address, "--to", target.address, "--json"
    )


def killed_copy(source: Place, target: Place, call: int) -> int:
    team = source if source.owner else target
    script = Path(__file__).with_name("killed_copy.py")
    command = [sys.executable, str(script), str(call), source.address, target.address]
    with user_input() as stdin:
        ran = subprocess.run(command, stdin=stdin, env=team.shell.environ, check=False)
    return ran.returncode


def test_nothing_is_copied_where_nobody_speaks_as_the_user(tmp_path: Path) -> None:
    shell = shell_in(tmp_path / "a")
    shell.done("record", stdin=CHAT)
    new = tmp_path / "new.db"
    ran = shell.bare("team", "copy", "--from", str(shell.home), "--to", str(new))
    assert ran.code == 2
    assert ran.err.endswith("only the user can do this: run it in a terminal.\n")
    assert not new.exists()


def answers(place: Place) -> list[object]:
    """What commands tell of a store."""
    asked = [
        ["recall", "staging", "key", "--scope", "all", "--json"],
        ["recall", "limiter", "--session", "tax-2026", "--json"],
        ["recall", "--refs", "d1,m3,p2", "--session", "tax-2026"],
    ]
    kept = asyncio.run(contents(place))  # first: a recall is an event
    told = [place.shell.done(*words) for words in asked]
    assert len(json.loads(told[0])["hits"]) > 3
    _, *exported = place.shell.done("store export", "--session", "tax-2026").splitlines()
    return [kept, *told, exported]


async def contents(place: Place) -> list[object]:
    """All that the port tells of each session, but for the store's own number of it."""
    store = await place.open()
    try:
        told: list[object] = []
        for info in reversed(await store.sessions(Scope(project=None), 99)):
            scope = Scope(project=info.project, session=info.id)
            loaded = await store.load(info.id, NOW)
            told += [
                info.model_dump(exclude={"id"}),
                await store.history(info.id),
                await store.originals(scope),
                await store.digests(info.id),
                await store.receipts(info.id),
                await store.events(info.id),
                await store.pins(scope, NOW, released=True),
                await store.view(info.id, loaded.view.version),
                loaded.model_dump(exclude={"info"}),
            ]
        return told
    finally:
        await store.close()


@pytest.mark.thorough
def test_a_copy_killed_in_a_session_goes_on_and_both_stores_answer_the_same(
    pair: tuple[Place, Place],
) -> None:
    source, target = pair
    before = source.rows()
    in_second_session = 2
    assert killed_copy(source, target, in_second_session) == -signal.SIGKILL
    listed = target.shell("sessions", "--json").json()
    assert [one["name"] for one in listed] == ["notes"]

    went_on = copy(source, target)
    assert (went_on.code, went_on.err) == (0, "")
    done = {"sessions": 1, "messages": 81, "already": 1, "pins": 3}
    assert went_on.json() == done
    assert source.rows() == before
    assert answers(target) == answers(source)

    kept = target.rows()
    again = copy(source, target).json()
    assert again == {**done, "sessions": 0, "messages": 0, "already": 2, "pins": 0}
    assert target.rows() == kept

    # Numbers go on where they were, and the copy is a store like any other.
    assert target.shell.as_user().done("pin", "New.", "--session", "notes").startswith("p4 ")
    assert target.shell.done("restore", "c1", "--session", "tax-2026", "--force")
    assert target.shell.done("doctor")


def test_another_session_of_the_same_name_is_refused_before_anything_is_written(
    pair: tuple[Place, Place],
) -> None:
    source, target = pair
    target.shell.done("record", "--session", "tax-2026", stdin=b'{"role":"user","content":"Hi"}')
    kept = target.rows()
    ran = copy(source, target)
    assert ran.code == 2
    assert "already holds a session tax-2026 of /test/project, and it is another one" in ran.err
    assert "message" in ran.err
    assert "nothing was copied" in ran.err
    assert "forget NAME" in ran.err.splitlines()[-1]
    assert target.rows() == kept


def test_another_pin_of_the_same_number_is_refused_before_anything_is_written(
    pair: tuple[Place, Place],
) -> None:
    source, target = pair
    target.shell.done("record", "--session", "other", stdin=b'{"role":"user","content":"Hi"}')
    target.shell.as_user().done("pin", "Something else.", "--session", "other")
    kept = target.rows()
    ran = copy(source, target)
    assert ran.code == 2
    assert "p1 is another pin in the target" in ran.err
    assert ran.err.rstrip().endswith("another file, or another MCP_COMPACTION_OWNER.")
    assert target.rows() == kept


def test_a_copy_makes_no_source(tmp_path: Path) -> None:
    shell = shell_in(tmp_path / "empty")
    missing = tmp_path / "missing.db"
    ran = shell.as_user().bare(
        "team", "copy", "--from", str(missing), "--to", str(tmp_path / "new.db")
    )
    assert ran.code == 2
    assert "there is no store" in ran.err
    assert list(tmp_path.glob("*.db*")) == []
