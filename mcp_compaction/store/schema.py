"""The tables, and the numbered steps that lead to them; steps are appended, never edited."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path

from mcp_compaction.errors import StoreEarly
from mcp_compaction.store.connect import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    check_pages,
    connect,
    pragma,
    store_errors,
)
from mcp_compaction.store.identity import identity_of, mark_of_store
from mcp_compaction.store.lockfile import LockFile
from mcp_compaction.store.marks import mark_all

Migration = Callable[[sqlite3.Connection], None]

# Small columns come before long texts, so that counting never reads a text's overflow pages.
# Times are ISO-8601 in UTC with microseconds, so that text order is time order.
_FIRST = (
    """
    CREATE TABLE session (
        id INTEGER PRIMARY KEY AUTOINCREMENT,      -- never given twice, not even after a forget
        name TEXT NOT NULL,
        project TEXT NOT NULL,
        agent TEXT NOT NULL,
        host TEXT NOT NULL,
        host_session TEXT,
        parent INTEGER REFERENCES session (id),
        created TEXT NOT NULL,
        updated TEXT NOT NULL,
        last_seq INTEGER NOT NULL DEFAULT 0,
        last_chain TEXT NOT NULL DEFAULT '',
        view_version INTEGER NOT NULL DEFAULT 0,   -- 0: the view that shows everything
        next_digest INTEGER NOT NULL DEFAULT 1,
        next_compaction INTEGER NOT NULL DEFAULT 1,
        counted INTEGER NOT NULL DEFAULT 0,        -- our count of the window when ...
        reported INTEGER NOT NULL DEFAULT 0,       -- ... the provider reported this one
        traits TEXT NOT NULL,
        UNIQUE (project, name)
    )
    """,
    """
    CREATE UNIQUE INDEX session_of_host ON session (project, host, host_session, agent)
        WHERE host_session IS NOT NULL
    """,
    "CREATE INDEX session_of_parent ON session (parent) WHERE parent IS NOT NULL",
    """
    CREATE TABLE message (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES session (id),
        seq INTEGER NOT NULL,                      -- 1, 2, 3 ...: the order, never the clock
        follows INTEGER,                           -- set where a whole history left the known one
        role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant', 'tool')),
        shape TEXT NOT NULL,
        host_id TEXT,
        content TEXT NOT NULL,                     -- hash of what identity is judged by
        chain TEXT NOT NULL,                       -- hash of the chain before and the content
        at TEXT,
        recorded TEXT NOT NULL,
        tokens INTEGER NOT NULL,
        counter TEXT NOT NULL,
        via TEXT NOT NULL CHECK (via IN ('host', 'tool')),
        raw TEXT NOT NULL,
        UNIQUE (session, seq),
        UNIQUE (session, chain)
    )
    """,
    """
    CREATE UNIQUE INDEX message_of_host ON message (session, host_id) WHERE host_id IS NOT NULL
    """,
    "CREATE INDEX message_branch ON message (session, follows) WHERE follows IS NOT NULL",
    """
    CREATE TABLE tool_call (                       -- which tool a later result answers for
        session INTEGER NOT NULL REFERENCES session (id),
        call TEXT NOT NULL,
        tool TEXT NOT NULL,
        PRIMARY KEY (session, call)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE section (                         -- a history; the newest row counts
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES session (id),
        at TEXT NOT NULL,
        section_tokens INTEGER NOT NULL,
        memory_tokens INTEGER NOT NULL,
        json TEXT NOT NULL
    )
    """,
    "CREATE INDEX section_of_session ON section (session)",
    """
    CREATE TABLE view (
        session INTEGER NOT NULL REFERENCES session (id),
        version INTEGER NOT NULL,
        json TEXT NOT NULL,
        PRIMARY KEY (session, version)
    )
    """,
    """
    CREATE TABLE digest (
        session INTEGER NOT NULL REFERENCES session (id),
        number INTEGER NOT NULL,
        tokens INTEGER NOT NULL,
        json TEXT NOT NULL,
        PRIMARY KEY (session, number)
    )
    """,
    """
    CREATE TABLE receipt (
        session INTEGER NOT NULL REFERENCES session (id),
        number INTEGER NOT NULL,
        base_version INTEGER NOT NULL,
        json TEXT NOT NULL,
        PRIMARY KEY (session, number)
    )
    """,
    """
    CREATE TABLE pin (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        session INTEGER REFERENCES session (id),   -- NULL once that session is forgotten
        project TEXT,                              -- NULL once that project is forgotten
        kind TEXT NOT NULL CHECK (kind IN ('constraint', 'open_task', 'fact', 'note')),
        scope TEXT NOT NULL CHECK (scope IN ('session', 'project', 'global')),
        author TEXT NOT NULL CHECK (author IN ('user', 'agent')),
        at TEXT NOT NULL,
        expires TEXT,
        released TEXT,
        superseded_by INTEGER REFERENCES pin (number),
        source TEXT,
        checksum TEXT NOT NULL,
        text TEXT NOT NULL
    )
    """,
    "CREATE INDEX pin_of_session ON pin (session)",
    "CREATE INDEX pin_of_scope ON pin (scope, project)",
    "CREATE INDEX pin_superseded ON pin (superseded_by) WHERE superseded_by IS NOT NULL",
    """
    CREATE TABLE event (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES session (id),
        name TEXT NOT NULL,
        at TEXT NOT NULL,
        detail TEXT NOT NULL
    )
    """,
    "CREATE INDEX event_of_session ON event (session)",
    """
    CREATE TABLE tombstone (                       -- that something was forgotten, and its hash
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        ref TEXT NOT NULL,
        sha256 TEXT NOT NULL,
        at TEXT NOT NULL,
        purged INTEGER NOT NULL DEFAULT 0          -- 1 once no byte of it is left
    )
    """,
    """
    CREATE TABLE passage (                         -- what the search finds
        id INTEGER PRIMARY KEY,
        session INTEGER REFERENCES session (id),
        project TEXT,
        kind TEXT NOT NULL CHECK (kind IN ('m', 'd', 'p')),
        number INTEGER NOT NULL,
        ordinal INTEGER NOT NULL,
        role TEXT NOT NULL,
        at TEXT NOT NULL,
        tools TEXT NOT NULL,                       -- lower case, each between line feeds
        text TEXT NOT NULL
    )
    """,
    "CREATE INDEX passage_of_session ON passage (session, kind, number)",
    """
    CREATE VIRTUAL TABLE passage_index USING fts5 (
        text, content = 'passage', content_rowid = 'id', tokenize = 'porter unicode61'
    )
    """,
)


def _first(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    for statement in _FIRST:
        connection.execute(statement)


_KEYS_AND_MARKS = (
    # What a passage is found by besides its words: parts of names, pairs of letters; and whose.
    "ALTER TABLE passage ADD COLUMN keys TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE passage ADD COLUMN marks TEXT NOT NULL DEFAULT ''",
    "DROP TABLE passage_index",
    """
    CREATE VIRTUAL TABLE passage_index USING fts5 (
        text, keys, marks, content = 'passage', content_rowid = 'id', tokenize = 'porter unicode61'
    )
    """,
    "INSERT INTO passage_index (passage_index, rank) VALUES ('rank', 'bm25(1.0, 0.6, 0.0)')",
)


def _index_keys_and_marks(connection: sqlite3.Connection) -> None:
    """Give the index of passages its columns for keys and marks, and fill them."""
    for statement in _KEYS_AND_MARKS:
        connection.execute(statement)
    mark_all(connection)


def _model_calls(connection: sqlite3.Connection) -> None:
    """The cost of summaries; `category` leaves room for the cost of a user's own calls."""
    connection.execute(
        """
        CREATE TABLE model_call (
            id INTEGER PRIMARY KEY,
            session INTEGER NOT NULL REFERENCES session (id),
            category TEXT NOT NULL DEFAULT 'system' CHECK (category = 'system'),
            at TEXT NOT NULL,
            model TEXT NOT NULL,
            seconds REAL NOT NULL,
            input_tokens INTEGER NOT NULL,
            output_tokens INTEGER NOT NULL,
            cached_tokens INTEGER NOT NULL,
            cost REAL,                             -- dollars; NULL: no price is known
            failed TEXT NOT NULL                   -- '' where it gave an answer
        )
        """
    )
    connection.execute("CREATE INDEX model_call_of_session ON model_call (session, at)")


def _channels(connection: sqlite3.Connection) -> None:
    """The channel of each pin, and the projects that were told of it; old pins count as told."""
    connection.execute("ALTER TABLE pin ADD COLUMN channel TEXT NOT NULL DEFAULT ''")
    connection.execute(
        """
        CREATE TABLE announced (
            pin INTEGER NOT NULL REFERENCES pin (number),
            project TEXT NOT NULL,
            PRIMARY KEY (pin, project)
        ) WITHOUT ROWID
        """
    )
    connection.execute(
        "INSERT INTO announced (pin, project)"
        " SELECT pin.number, known.project FROM pin, (SELECT DISTINCT project FROM session) known"
        " WHERE pin.scope != 'session'"
    )


def _transcripts(connection: sqlite3.Connection) -> None:
    """How far each transcript of a host is recorded; it outlives a session that is forgotten."""
    connection.execute(
        """
        CREATE TABLE transcript (
            address TEXT PRIMARY KEY,              -- hash of where it is: a path tells too much
            session INTEGER REFERENCES session (id),   -- NULL once that session is forgotten
            position INTEGER NOT NULL,             -- what comes before it is recorded
            tail TEXT NOT NULL                     -- what stands just before the position
        ) WITHOUT ROWID
        """
    )
    connection.execute("CREATE INDEX transcript_of_session ON transcript (session)")


def _project_facts(connection: sqlite3.Connection) -> None:
    """When a session last used a fact of the project; NULL: a pin that does not end unused."""
    connection.execute("ALTER TABLE pin ADD COLUMN used TEXT")


def _messages_of_calls(connection: sqlite3.Connection) -> None:
    """The messages that make or answer each tool call; those recorded before have no rows."""
    connection.execute(
        """
        CREATE TABLE call_message (
            session INTEGER NOT NULL REFERENCES session (id),
            call TEXT NOT NULL,
            seq INTEGER NOT NULL,
            PRIMARY KEY (session, call, seq)
        ) WITHOUT ROWID
        """
    )


def _bound_thinking(connection: sqlite3.Connection) -> None:
    """The beginning that each thinking block was made behind, both by their fingerprints."""
    connection.execute(
        """
        CREATE TABLE thinking (
            session INTEGER NOT NULL REFERENCES session (id),
            block TEXT NOT NULL,                   -- or what a caller's request was sent as
            beginning TEXT NOT NULL,               -- '': it was left out, and never comes back
            PRIMARY KEY (session, block)
        ) WITHOUT ROWID
        """
    )


def _checks(connection: sqlite3.Connection) -> None:
    """The checks beside a pin, one a line: what it holds before a tool runs."""
    connection.execute("ALTER TABLE pin ADD COLUMN checks TEXT NOT NULL DEFAULT ''")


def _speakers(connection: sqlite3.Connection) -> None:
    """Who speaks in a message in the user's role, where its host says so."""
    connection.execute("ALTER TABLE message ADD COLUMN speaker TEXT NOT NULL DEFAULT ''")


def _doubles(connection: sqlite3.Connection) -> None:
    """Leave what earlier versions recorded twice out of the windows that show it twice."""
    compacted = "SELECT session FROM event WHERE name = 'CONTEXT_BUDGET_HOST_COMPACTED'"
    found = connection.execute(
        "SELECT session FROM message GROUP BY session, role, content HAVING count(*) > 1"
        f" AND (count(host_id) BETWEEN 1 AND count(*) - 1 OR session IN ({compacted}))"
        " UNION SELECT session FROM message WHERE host_id IS NOT NULL AND at IS NOT NULL"
        f" AND session IN ({compacted}) GROUP BY session, role, at HAVING count(*) > 1"
    )
    if sessions := [session for (session,) in found]:
        # A process that only starts does without what tells whether two messages are the same.
        import_module("mcp_compaction.store.doubles").leave_out(connection, sessions)


MIGRATIONS: tuple[Migration, ...] = (
    _first,
    _index_keys_and_marks,
    _model_calls,
    _channels,
    _transcripts,
    _project_facts,
    _messages_of_calls,
    _bound_thinking,
    _checks,
    _speakers,
    _doubles,
)
assert len(MIGRATIONS) == SCHEMA_VERSION


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring the schema up to date, each step in one transaction; the caller holds the lock file."""
    for number, step in enumerate(migrations, start=1):
        try:
            connection.execute("BEGIN IMMEDIATE")
            version = pragma(connection, "user_version")
            if isinstance(version, int) and version < number:
                step(connection)
                connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def open_migrated(
    path: Path,
    *,
    deadline: float,
    lock: LockFile | None = None,
    migrations: Sequence[Migration] = MIGRATIONS,
) -> sqlite3.Connection:
    """A connection to a store whose schema is up to date."""
    connection = connect(path, deadline=deadline, newest=len(migrations), lock=lock)
    try:
        with store_errors(path):
            version = pragma(connection, "user_version")
            if version != len(migrations):
                refuse_other_tables(connection, path, migrations)
                if version:
                    _prepare_upgrade(connection, path, lock)
                _migrate_locked(connection, path, deadline, lock, migrations)
    except BaseException:
        connection.close()
        raise
    return connection


def refuse_other_tables(
    connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration] = MIGRATIONS
) -> None:
    """Refuse a store whose tables are not those that its own steps make: the first two steps were
    edited before they were frozen."""
    taken = migrations[: int(str(pragma(connection, "user_version")))]
    with closing(sqlite3.connect(":memory:")) as made:
        for step in taken:
            step(made)
        if taken and _columns_of(made) != _columns_of(connection):
            raise StoreEarly(
                f"{path} was made by an early version whose tables this one cannot read; nothing "
                "was changed. Move the file away, and a new store is begun; the transcripts of "
                "your hosts can be read again: mcp-compaction import"
            )


def _prepare_upgrade(connection: sqlite3.Connection, path: Path, lock: LockFile | None) -> None:
    """Refuse a store with bad pages; what a step that is killed leaves in the log is its own."""
    check_pages(connection, "quick_check")
    if lock is not None:
        lock.mark(mark_of_store(path, identity_of(path), "open").to_bytes())


def _columns_of(connection: sqlite3.Connection) -> dict[str, list[str]]:
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'passage%'"
        " AND name NOT LIKE 'sqlite%'"
    ).fetchall()
    return {
        name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
        for (name,) in tables
    }


def _migrate_locked(
    connection: sqlite3.Connection,
    path: Path,
    deadline: float,
    lock: LockFile | None,
    migrations: Sequence[Migration],
) -> None:
    if lock is not None:
        migrate(connection, migrations)
        return
    own = LockFile(path)
    try:
        with own.hold(deadline):
            migrate(connection, migrations)
    finally:
        own.close()
