"""The tables in PostgreSQL, and the numbered steps that lead to them; appended, never edited.

Every primary key begins with the owner, so that the tables can be distributed or partitioned by it.
Times are ISO-8601 in UTC with microseconds, as in SQLite, so that text order is time order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from psycopg import Connection, errors, sql

from mcp_compaction.errors import StoreError, StoreNewer, StoreReadOnly

OWNER_SETTING: Final = "mcp_compaction.owner"
LOCK: Final = 0x6D637063  # of migrations, among the advisory locks of the database

TABLES: Final = (
    *("counter", "session", "message", "tool_call", "call_message", "section", "view", "digest"),
    *("receipt", "pin", "announced", "event", "model_call", "transcript", "thinking", "tombstone"),
    *("passage", "posting", "claim"),
)

READ_ONLY: Final = ("migration", "token")  # for the server's role

_FIRST = (
    """
    CREATE TABLE counter (                         -- numbers are never given twice
        owner text COLLATE "C" PRIMARY KEY,
        sessions bigint NOT NULL DEFAULT 0,
        pins bigint NOT NULL DEFAULT 0
    )
    """,
    """
    CREATE TABLE session (
        owner text COLLATE "C" NOT NULL,
        id bigint NOT NULL,
        name text COLLATE "C" NOT NULL,
        project text COLLATE "C" NOT NULL,
        agent text COLLATE "C" NOT NULL,
        host text COLLATE "C" NOT NULL,
        host_session text COLLATE "C",
        parent bigint,
        created text COLLATE "C" NOT NULL,
        updated text COLLATE "C" NOT NULL,
        last_seq bigint NOT NULL DEFAULT 0,
        last_chain text COLLATE "C" NOT NULL DEFAULT '',
        view_version bigint NOT NULL DEFAULT 0,    -- 0: the view that shows everything
        next_digest bigint NOT NULL DEFAULT 1,
        next_compaction bigint NOT NULL DEFAULT 1,
        counted bigint NOT NULL DEFAULT 0,
        reported bigint NOT NULL DEFAULT 0,
        traits text NOT NULL,
        PRIMARY KEY (owner, id),
        UNIQUE (owner, project, name)
    )
    """,
    """
    CREATE UNIQUE INDEX session_of_host ON session (owner, project, host, host_session, agent)
        WHERE host_session IS NOT NULL
    """,
    "CREATE INDEX session_of_parent ON session (owner, parent) WHERE parent IS NOT NULL",
    """
    CREATE TABLE message (
        owner text COLLATE "C" NOT NULL,
        session bigint NOT NULL,
        seq bigint NOT NULL,                       -- 1, 2, 3 ...: the order, never the clock
        follows bigint,
        role text COLLATE "C" NOT NULL CHECK (role IN ('system', 'user', 'assistant', 'tool')),
        shape text COLLATE "C" NOT NULL,
        host_id text COLLATE "C",
        content text COLLATE "C" NOT NULL,
        chain text COLLATE "C" NOT NULL,
        at text COLLATE "C",
        recorded text COLLATE "C" NOT NULL,
        tokens bigint NOT NULL,
        counter text COLLATE "C" NOT NULL,
        via text COLLATE "C" NOT NULL CHECK (via IN ('host', 'tool')),
        raw bytea NOT NULL,                        -- bytes: text refuses some that JSON may hold
        PRIMARY KEY (owner, session, seq)
    )
    """,
    """
    CREATE UNIQUE INDEX message_of_host ON message (owner, session, host_id)
        WHERE host_id IS NOT NULL
    """,
    "CREATE INDEX message_of_content ON message (owner, session, content)",
    """
    CREATE TABLE tool_call (
        owner text COLLATE "C" NOT NULL,
        session bigint NOT NULL,
        call text COLLATE "C" NOT NULL,
        tool text COLLATE "C" NOT NULL,
        PRIMARY KEY (owner, session, call)
    )
    """,
    """
    CREATE TABLE call_message (
        owner text COLLATE "C" NOT NULL,
        session bigint NOT NULL,
        call text COLLATE "C" NOT NULL,
        seq bigint NOT NULL,
        PRIMARY KEY (owner, session, call, seq)
    )
    """,
    """
    CREATE TABLE section (                         -- a history; the newest row counts
        owner text COLLATE "C" NOT NULL,
        session bigint NOT NULL,
        number bigint NOT NULL,
        at text COLLATE "C" NOT NULL,
        section_tokens bigint NOT NULL,
        memory_tokens bigint NOT NULL,
        json text NOT NULL,
        PRIMARY KEY (owner, session, number)
    )
    """,
    """
    CREATE TABLE view (
        owner text COLLATE "C" NOT NULL,
        session bigint NOT NULL,
        version bigint NOT NULL,
        json text NOT NULL,
        PRIMARY KEY (owner, session, version)
    )
    """,
    """
    CREATE TABLE digest (
        owner text COLLATE "C" NOT NULL,
        session bigint NOT NULL,
        number bigint NOT NULL,
        tokens bigint NOT NULL,
        json text NOT NULL,
        PRIMARY KEY (owner, session, number)
    )
    """,
    """
    CREATE TABLE receipt (
        owner text COLLATE "C" NOT NULL,
        session bigint NOT NULL,
        number bigint NOT NULL,
        base_version bigint NOT NULL,
        json text NOT NULL,
        PRIMARY KEY (owner, session, number)
    )
    """,
    """
    CREATE TABLE pin (
        owner text COLLATE "C" NOT NULL,
        number bigint NOT NULL,
        session bigint,                            -- NULL once that session is forgotten
        project text COLLATE "C",                  -- NULL once that project is forgotten
        kind text COLLATE "C" NOT NULL,
        scope text COLLATE "C" NOT NULL,
        author text COLLATE "C" NOT NULL,
        at text COLLATE "C" NOT NULL,
        expires text COLLATE "C",
        released text COLLATE "C",
        superseded_by bigint,
        source text COLLATE "C",
        channel text COLLATE "C" NOT NULL,
        used text COLLATE "C",
        checksum text COLLATE "C" NOT NULL,
        text bytea NOT NULL,
        PRIMARY KEY (owner, number)
    )
    """,
    "CREATE INDEX pin_of_session ON pin (owner, session)",
    """
    CREATE TABLE announced (
        owner text COLLATE "C" NOT NULL,
        pin bigint NOT NULL,
        project text COLLATE "C" NOT NULL,
        PRIMARY KEY (owner, pin, project)
    )
    """,
    """
    CREATE TABLE event (
        owner text COLLATE "C" NOT NULL,
        session bigint NOT NULL,
        id bigint GENERATED ALWAYS AS IDENTITY,
        name text COLLATE "C" NOT NULL,
        at text COLLATE "C" NOT NULL,
        detail text COLLATE "C" NOT NULL,
        PRIMARY KEY (owner, session, id)
    )
    """,
    """
    CREATE TABLE model_call (
        owner text COLLATE "C" NOT NULL,
        session bigint NOT NULL,
        id bigint GENERATED ALWAYS AS IDENTITY,
        at text COLLATE "C" NOT NULL,
        model text COLLATE "C" NOT NULL,
        seconds double precision NOT NULL,
        input_tokens bigint NOT NULL,
        output_tokens bigint NOT NULL,
        cached_tokens bigint NOT NULL,
        cost double precision,                     -- dollars; NULL: no price is known
        failed text COLLATE "C" NOT NULL,          -- '' where it gave an answer
        PRIMARY KEY (owner, session, id)
    )
    """,
    """
    CREATE TABLE transcript (
        owner text COLLATE "C" NOT NULL,
        address text COLLATE "C" NOT NULL,
        session bigint,                            -- NULL once that session is forgotten
        position bigint NOT NULL,
        tail text COLLATE "C" NOT NULL,
        PRIMARY KEY (owner, address)
    )
    """,
    """
    CREATE TABLE thinking (
        owner text COLLATE "C" NOT NULL,
        session bigint NOT NULL,
        block text COLLATE "C" NOT NULL,
        beginning text COLLATE "C" NOT NULL,       -- '': it was left out, and never comes back
        PRIMARY KEY (owner, session, block)
    )
    """,
    """
    CREATE TABLE tombstone (                       -- that something was forgotten, and its hash
        owner text COLLATE "C" NOT NULL,
        session bigint NOT NULL,
        id bigint GENERATED ALWAYS AS IDENTITY,
        ref text COLLATE "C" NOT NULL,
        sha256 text COLLATE "C" NOT NULL,
        at text COLLATE "C" NOT NULL,
        PRIMARY KEY (owner, session, id)
    )
    """,
    """
    CREATE TABLE passage (                         -- what the search finds
        owner text COLLATE "C" NOT NULL,
        id bigint GENERATED ALWAYS AS IDENTITY,
        session bigint NOT NULL,                   -- 0: a pin that has outlived its session
        project text COLLATE "C",
        kind text COLLATE "C" NOT NULL,
        number bigint NOT NULL,
        ordinal bigint NOT NULL,
        size bigint NOT NULL,                      -- how many passages its message has
        chars bigint NOT NULL,
        role text COLLATE "C" NOT NULL,
        at text COLLATE "C" NOT NULL,
        tools text COLLATE "C" NOT NULL,           -- lower case, each between line feeds
        text bytea NOT NULL,
        PRIMARY KEY (owner, id)
    )
    """,
    "CREATE INDEX passage_of_session ON passage (owner, session, kind, number, ordinal)",
    # Operators of arrays, tsvector and trigrams are not leakproof: under row-level security no
    # index of theirs is used. Equality and order of text are.
    """
    CREATE TABLE posting (
        owner text COLLATE "C" NOT NULL,
        term text COLLATE "C" NOT NULL,
        session bigint NOT NULL,
        passage bigint NOT NULL,
        places bytea NOT NULL,                     -- two bytes each; from 32,768 on those of keys
        PRIMARY KEY (owner, term, session, passage)
    )
    """,
    "CREATE INDEX posting_of_passage ON posting (owner, session, passage)",
    """
    CREATE TABLE claim (                           -- who compacts a session now
        owner text COLLATE "C" NOT NULL,
        session bigint NOT NULL,
        holder text COLLATE "C" NOT NULL,
        beat timestamptz NOT NULL,
        expires timestamptz NOT NULL,
        PRIMARY KEY (owner, session)
    )
    """,
    *(
        statement
        for table in TABLES
        for statement in (
            f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
            f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
            # An unset setting is empty or NULL; neither is anybody's name.
            f"CREATE POLICY own_rows ON {table}"
            f" USING (owner = NULLIF(current_setting('{OWNER_SETTING}', true), ''))"
            f" WITH CHECK (owner = NULLIF(current_setting('{OWNER_SETTING}', true), ''))",
        )
    ),
)

# Not under the policies: a token is looked up before anybody knows whose it is.
_TOKENS = (
    """
    CREATE TABLE token (
        name text COLLATE "C" PRIMARY KEY,
        hash text COLLATE "C" NOT NULL UNIQUE,
        belongs_to text COLLATE "C" NOT NULL,
        project text COLLATE "C" NOT NULL,
        made text COLLATE "C" NOT NULL,
        revoked text COLLATE "C"
    )
    """,
)

# It took a third of the room; who forgets a text knows its terms.
_ONE_INDEX = ("DROP INDEX posting_of_passage",)

_CHECKS = ("ALTER TABLE pin ADD COLUMN checks text COLLATE \"C\" NOT NULL DEFAULT ''",)

_SPEAKERS = ("ALTER TABLE message ADD COLUMN speaker text COLLATE \"C\" NOT NULL DEFAULT ''",)

MIGRATIONS: tuple[Sequence[str], ...] = (_FIRST, _TOKENS, _ONE_INDEX, _CHECKS, _SPEAKERS)
SCHEMA_VERSION = len(MIGRATIONS)


def grant_tables(connection: Connection[Any], role: str) -> None:
    """Let a server's role use the rows of the tables; it is made where it is not there yet."""
    cursor = connection.execute(b"SELECT 1 FROM pg_roles WHERE rolname = %s", (role,))
    name = sql.Identifier(role)
    if cursor.fetchone() is None:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN NOSUPERUSER NOBYPASSRLS").format(name))
    for table in TABLES:
        connection.execute(
            sql.SQL("GRANT SELECT, INSERT, UPDATE, DELETE ON {} TO {}").format(
                sql.Identifier(table), name
            )
        )
    for table in READ_ONLY:
        connection.execute(sql.SQL("GRANT SELECT ON {} TO {}").format(sql.Identifier(table), name))


def migrate_tables(connection: Connection[Any], place: str, *, may_migrate: bool = True) -> None:
    """Bring the tables up to date; whoever comes second waits and finds it done."""
    version = _read_version(connection)
    connection.rollback()
    if version > SCHEMA_VERSION:
        raise StoreNewer(f"{place} was made by a newer mcp-compaction; update this one.")
    if version == SCHEMA_VERSION:
        return
    if not may_migrate:
        raise StoreError(
            f"The tables of {place} are of schema {version}, and {SCHEMA_VERSION} is needed; "
            "run as their owner: mcp-compaction team migrate"
        )
    try:
        connection.execute(f"SELECT pg_advisory_xact_lock({LOCK})".encode())
        connection.execute(b"CREATE TABLE IF NOT EXISTS migration (version bigint PRIMARY KEY)")
        for number in range(_read_version(connection), SCHEMA_VERSION):
            for statement in MIGRATIONS[number]:
                connection.execute(statement.encode())
            connection.execute(b"INSERT INTO migration (version) VALUES (%s)", (number + 1,))
        connection.commit()
    except errors.InsufficientPrivilege:
        raise StoreReadOnly(
            f"The tables of {place} are of schema {version}, {SCHEMA_VERSION} is needed, and this "
            "role may not make them; run once as their owner: mcp-compaction team migrate --store …"
        ) from None


def _read_version(connection: Connection[Any]) -> int:
    cursor = connection.execute(b"SELECT to_regclass('migration') IS NOT NULL AS is_there")
    row = cursor.fetchone()
    if row is None or not row["is_there"]:
        return 0
    cursor = connection.execute(b"SELECT coalesce(max(version), 0) AS v FROM migration")
    row = cursor.fetchone()
    return 0 if row is None else int(row["v"])
