"""Damage of every kind to a store with rows: it is not written onto, and `doctor` tells it."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mcp_compaction import open_store
from mcp_compaction.cli.main import STORE_UNUSABLE
from mcp_compaction.errors import StoreDamaged

from .conftest import Shell, json_lines

PAGE = 4096
PROJECT = "/test/project"
MORE = json_lines([{"role": "user", "content": "The ferry to Texel leaves at nine."}])
REMARKABLE = {"role": "user", "content": "Mind that the harbor is called Oudeschild."}

RECORD_AND_DIE = """
import os, sys
from mcp_compaction import open_store
with open_store(home=sys.argv[1], project=sys.argv[2]) as store:
    session = store.session("tax-2026")
    for number in range(20):
        session.record([{"role": "user", "content": f"Stop {number} is on the island. " * 40}])
    os._exit(0)
"""

Spoil = Callable[[Path], None]


def record_and_die(store: Path) -> None:
    """Record in a process that ends without closing the store, as by a kill."""
    words = [sys.executable, "-c", RECORD_AND_DIE, str(store.parent), PROJECT]
    subprocess.run(words, check=True, env={**os.environ, "MCP_COMPACTION_COUNTER": "estimate"})
    assert log_of(store).stat().st_size > 20 * PAGE


def log_of(store: Path) -> Path:
    return store.with_name("store.db-wal")


# Where things lie in the file


def root_of(store: Path, name: str) -> int:
    with closing(sqlite3.connect(store)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        return connection.execute(query, (name,)).fetchone()[0]


def tree(data: bytes, root: int) -> Iterator[int]:
    """The pages of a b-tree, the root first."""
    yield root
    page = data[(root - 1) * PAGE : root * PAGE]
    head = 100 if root == 1 else 0
    if page[head] not in (2, 5):
        return
    cells = int.from_bytes(page[head + 3 : head + 5], "big")
    places = [head + 8]
    for number in range(cells):
        at = head + 12 + 2 * number
        places.append(int.from_bytes(page[at : at + 2], "big"))
    for place in places:
        yield from tree(data, int.from_bytes(page[place : place + 4], "big"))


def overflow_pages(store: Path) -> list[int]:
    data = store.read_bytes()
    with closing(sqlite3.connect(store)) as connection:
        roots = [n for (n,) in connection.execute("SELECT rootpage FROM sqlite_master") if n]
        assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)
    in_trees = {page for root in (1, *roots) for page in tree(data, root)}
    return [page for page in range(2, len(data) // PAGE + 1) if page not in in_trees]


def write_at(file: Path, place: int, data: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(place)
        opened.write(data)


def zero_page(store: Path, page: int) -> None:
    write_at(store, (page - 1) * PAGE, bytes(PAGE))


def flip(file: Path, place: int, length: int = 1) -> None:
    data = file.read_bytes()[place : place + length]
    write_at(file, place, bytes(byte ^ 1 for byte in data))


def run_behind_our_back(store: Path, *statements: str) -> None:
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


# The damage


def _table(store: Path) -> None:
    zero_page(store, list(tree(store.read_bytes(), root_of(store, "message")))[2])


def _table_of_sessions(store: Path) -> None:
    zero_page(store, root_of(store, "session"))


def _index(store: Path) -> None:
    zero_page(
        store, list(tree(store.read_bytes(), root_of(store, "sqlite_autoindex_message_1")))[-1]
    )


def _search_index(store: Path) -> None:
    zero_page(store, list(tree(store.read_bytes(), root_of(store, "passage_index_data")))[-1])


def _text_of_a_message(store: Path) -> None:
    said = json.dumps(REMARKABLE).encode()
    flip(store, store.read_bytes().index(said) + said.index(b"Oudeschild"))


def _hash_of_a_message(store: Path) -> None:
    run_behind_our_back(store, "UPDATE message SET content = 'b2:0' WHERE seq = 3")


def _magic(store: Path) -> None:
    flip(store, 0, 16)


def _page_size(store: Path) -> None:
    write_at(store, 16, b"\x20\x00")


def _schema(store: Path) -> None:
    data = store.read_bytes()
    flip(store, data.index(b"CREATE TABLE message"), 12)


def _truncated(store: Path) -> None:
    os.truncate(store, store.stat().st_size // PAGE // 2 * PAGE)


def _truncated_in_a_page(store: Path) -> None:
    os.truncate(store, store.stat().st_size - PAGE // 2)


def _loop_in_the_freelist(store: Path) -> None:
    pages = store.stat().st_size // PAGE + 1
    with store.open("ab") as file:
        file.write(pages.to_bytes(4, "big") + bytes(PAGE - 4))
    write_at(store, 28, pages.to_bytes(4, "big") * 2 + (2).to_bytes(4, "big"))


def _overflow_page(store: Path) -> None:
    pages = overflow_pages(store)
    zero_page(store, pages[len(pages) // 2])


def _entry_of_the_schema(store: Path) -> None:
    gone = "DELETE FROM sqlite_master WHERE name = 'event_of_session'"
    run_behind_our_back(store, "PRAGMA writable_schema = ON", gone)


def _table_gone(store: Path) -> None:
    run_behind_our_back(store, "DROP TABLE receipt")


def _table_emptied(store: Path) -> None:
    run_behind_our_back(store, "DELETE FROM message")


def _row_deleted(store: Path) -> None:
    run_behind_our_back(store, "DELETE FROM message WHERE seq = 5")


def _newest_rows_deleted(store: Path) -> None:
    run_behind_our_back(store, "DELETE FROM message WHERE seq > 20")


def _view_gone(store: Path) -> None:
    run_behind_our_back(store, "DELETE FROM view")


def _view_emptied(store: Path) -> None:
    run_behind_our_back(store, "UPDATE view SET json = '{}'")


def _digests_gone(store: Path) -> None:
    run_behind_our_back(store, "DELETE FROM digest")


def _trigger_of_another(store: Path) -> None:
    gone = "DELETE FROM message WHERE id < new.id"
    run_behind_our_back(store, f"CREATE TRIGGER theirs AFTER INSERT ON message BEGIN {gone}; END")


def _values_of_another_kind(store: Path) -> None:
    """As where pages of two tables changed places."""
    run_behind_our_back(
        store,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '') WHERE name = 'message'",
    )
    run_behind_our_back(store, "UPDATE message SET seq = NULL, content = x'ff' WHERE seq = 5")


def _log_truncated(store: Path) -> None:
    record_and_die(store)
    os.truncate(log_of(store), log_of(store).stat().st_size // 2)


def _log_removed(store: Path) -> None:
    record_and_die(store)
    log_of(store).unlink()


def _frame_of_the_log(store: Path) -> None:
    record_and_die(store)
    flip(log_of(store), 32 + (24 + PAGE) * 3 + 1000)


def _log_of_another(store: Path) -> None:
    other = store.parent.with_name("other") / "store.db"
    record_and_die(other)
    log_of(store).write_bytes(log_of(other).read_bytes())


def _log_of_another_after_a_kill(store: Path) -> None:
    record_and_die(store)
    other = store.parent.with_name("other") / "store.db"
    record_and_die(other)
    log_of(other).replace(log_of(store))


def _swapped_beside_its_log(store: Path) -> None:
    record_and_die(store)
    other = store.with_name("other.db")
    shutil.copy(store, other)
    os.utime(other, (0, 0))
    other.replace(store)


HARMFUL: list[Spoil] = [
    *(_table, _table_of_sessions, _index, _search_index, _text_of_a_message, _hash_of_a_message),
    *(_magic, _page_size, _schema, _truncated, _truncated_in_a_page, _loop_in_the_freelist),
    *(_overflow_page, _entry_of_the_schema, _table_gone, _table_emptied, _row_deleted),
    *(_view_gone, _view_emptied, _digests_gone, _trigger_of_another, _values_of_another_kind),
    *(_newest_rows_deleted, _log_truncated, _log_removed, _frame_of_the_log),
    *(_log_of_another, _log_of_another_after_a_kill, _swapped_beside_its_log),
]


def _shared_memory(store: Path) -> None:
    record_and_die(store)
    store.with_name("store.db-shm").write_bytes(os.urandom(32 * 1024))


def _search_index_out_of_step(store: Path) -> None:
    run_behind_our_back(store, "DELETE FROM passage_index_data WHERE id > 10")


def _another_store(store: Path) -> None:
    other = store.with_name("other.db")
    shutil.copy(store, other)
    run_behind_our_back(other, "UPDATE pin SET used = at")
    other.replace(store)


def put_back_from_a_copy(store: Path, reused: str) -> None:
    """Save the folder and put it back, where the number of one file went to its new one."""
    record_and_die(store)
    saved = store.parent.with_name("saved")
    shutil.copytree(store.parent, saved)
    shutil.rmtree(store.parent)
    shutil.copytree(saved, store.parent)
    numbers = {"database": store.stat().st_ino, "log": log_of(store).stat().st_ino}
    lock = store.with_name("store.db.lock")
    text = re.sub(r"database \d+, log \d+", "database 1, log 1", lock.read_text())
    lock.write_text(text.replace(f"{reused} 1,", f"{reused} {numbers[reused]},"))


def _put_back_with_the_number_of_the_log(store: Path) -> None:
    put_back_from_a_copy(store, "log")


def _put_back_with_the_number_of_the_file(store: Path) -> None:
    put_back_from_a_copy(store, "database")


HARMLESS: list[Spoil] = [
    *(_shared_memory, _search_index_out_of_step, _another_store),
    *(_put_back_with_the_number_of_the_log, _put_back_with_the_number_of_the_file),
]


@pytest.fixture
def kept(recorded: Shell) -> Shell:
    """A shell whose store was used where it lies, and left by its last user."""
    recorded.done("record", "--session", "tax-2026", stdin=json_lines([REMARKABLE]))
    assert not log_of(recorded.home / "store.db").exists()
    return recorded


def bytes_of(store: Path) -> list[bytes]:
    return [file.read_bytes() if file.exists() else b"" for file in (store, log_of(store))]


def rows_of(store: Path) -> set[str]:
    with closing(sqlite3.connect(store)) as connection:
        tables = ("session", "message", "view", "digest", "receipt", "pin", "passage")
        return {
            f"{table} {row}"
            for table in tables
            for row in connection.execute(f"SELECT * FROM {table}")
            if table != "session"  # whose newest number changes with each record
        }


@pytest.mark.parametrize("spoil", HARMFUL, ids=lambda spoil: spoil.__name__.strip("_"))
def test_a_damaged_store_is_not_written_onto_and_doctor_tells_it(kept: Shell, spoil: Spoil) -> None:
    store = kept.home / "store.db"
    spoil(store)
    before = bytes_of(store)
    recording = kept("record", "--session", "tax-2026", stdin=MORE)
    for ran in (recording, kept.as_user()("pin", "Ask before you sail.")):
        assert ran.code == STORE_UNUSABLE, ran
        assert "store restore" in ran.err
    kept("recall", "harbor", "--session", "tax-2026")
    told = kept("doctor")
    assert told.code in (1, STORE_UNUSABLE), told  # the latter where it cannot even be opened
    assert "problem: " in told.out or "store restore" in told.err
    assert bytes_of(store) == before


@pytest.mark.parametrize("spoil", HARMLESS, ids=lambda spoil: spoil.__name__.strip("_"))
def test_a_store_that_lost_no_row_is_written_on_rightly_and_doctor_tells_what_was_found(
    kept: Shell, spoil: Spoil
) -> None:
    store = kept.home / "store.db"
    spoil(store)
    told = kept("doctor")
    is_found = "search index is out of step" in told.out or "its last user" in told.out
    assert is_found or "another file lies in its place" in told.out
    before = rows_of(store)
    kept.done("record", "--session", "tax-2026", stdin=MORE)
    assert before < rows_of(store)
    kept("doctor", "--fix")
    assert "no problems found" in kept.done("doctor")


def test_after_the_loss_of_a_log_work_goes_on_once_the_user_has_given_it_up(kept: Shell) -> None:
    store = kept.home / "store.db"
    _log_truncated(store)
    ran = kept("record", "--session", "tax-2026", stdin=MORE)
    assert "the newest messages are missing" in ran.err
    assert "--fix" in ran.err
    assert "no problems found" in kept.done("doctor", "--fix")
    kept.done("record", "--session", "tax-2026", stdin=MORE)


def test_a_backup_mends_a_damaged_store(kept: Shell, tmp_path: Path) -> None:
    store = kept.home / "store.db"
    kept.done("store backup", str(tmp_path / "good.db"))
    _table(store)
    assert kept("record", "--session", "tax-2026", stdin=MORE).code == STORE_UNUSABLE
    kept.as_user().done("store restore", str(tmp_path / "good.db"), "--yes")
    kept.done("record", "--session", "tax-2026", stdin=MORE)
    assert "no problems found" in kept.done("doctor")


def test_after_a_read_that_failed_a_store_in_use_is_looked_over_before_it_is_written(
    kept: Shell,
) -> None:
    store = kept.home / "store.db"
    pages = list(tree(store.read_bytes(), root_of(store, "passage")))[1:-1]
    zero = f"import os; f = os.open({str(store)!r}, os.O_RDWR)\n" + "".join(
        f"os.pwrite(f, bytes({PAGE}), {(page - 1) * PAGE})\n" for page in pages
    )
    with open_store(home=kept.home, project=PROJECT) as opened:
        session = opened.session("tax-2026")
        session.record([{"role": "user", "content": "All is well."}], after="m82")
        # By another process: closing the file here would drop SQLite's locks.
        subprocess.run([sys.executable, "-c", zero], check=True)
        with pytest.raises(StoreDamaged):
            session.recall("harbor limiter")
        with pytest.raises(StoreDamaged, match="is damaged"):
            session.record([{"role": "user", "content": "All is lost."}], after="m83")
