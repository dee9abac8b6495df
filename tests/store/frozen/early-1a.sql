-- A store as an early schema 1 made it, before steps were frozen; its search index left out. Never edited.
PRAGMA application_id = 1835233379;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE digest (
        session INTEGER NOT NULL REFERENCES session (id),
        number INTEGER NOT NULL,
        tokens INTEGER NOT NULL,
        json TEXT NOT NULL,
        PRIMARY KEY (session, number)
    );
CREATE TABLE event (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES session (id),
        name TEXT NOT NULL,
        at TEXT NOT NULL,
        detail TEXT NOT NULL
    );
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
        raw TEXT NOT NULL,
        UNIQUE (session, seq),
        UNIQUE (session, chain)
    );
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
    );
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
    );
CREATE TABLE receipt (
        session INTEGER NOT NULL REFERENCES session (id),
        number INTEGER NOT NULL,
        base_version INTEGER NOT NULL,
        json TEXT NOT NULL,
        PRIMARY KEY (session, number)
    );
CREATE TABLE section (                         -- a history; the newest row counts
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES session (id),
        at TEXT NOT NULL,
        section_tokens INTEGER NOT NULL,
        memory_tokens INTEGER NOT NULL,
        json TEXT NOT NULL
    );
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
    );
CREATE TABLE tombstone (                       -- that something was forgotten, and its hash
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        ref TEXT NOT NULL,
        sha256 TEXT NOT NULL,
        at TEXT NOT NULL,
        purged INTEGER NOT NULL DEFAULT 0          -- 1 once the log file was emptied after it
    );
CREATE TABLE tool_call (                       -- which tool a later result answers for
        session INTEGER NOT NULL REFERENCES session (id),
        call TEXT NOT NULL,
        tool TEXT NOT NULL,
        PRIMARY KEY (session, call)
    ) WITHOUT ROWID
    ;
CREATE TABLE view (
        session INTEGER NOT NULL REFERENCES session (id),
        version INTEGER NOT NULL,
        json TEXT NOT NULL,
        PRIMARY KEY (session, version)
    );
CREATE UNIQUE INDEX session_of_host ON session (project, host, host_session, agent)
        WHERE host_session IS NOT NULL
    ;
CREATE INDEX session_of_parent ON session (parent) WHERE parent IS NOT NULL;
CREATE UNIQUE INDEX message_of_host ON message (session, host_id) WHERE host_id IS NOT NULL
    ;
CREATE INDEX message_branch ON message (session, follows) WHERE follows IS NOT NULL;
CREATE INDEX section_of_session ON section (session);
CREATE INDEX pin_of_session ON pin (session);
CREATE INDEX pin_of_scope ON pin (scope, project);
CREATE INDEX pin_superseded ON pin (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX event_of_session ON event (session);
DELETE FROM "sqlite_sequence";
COMMIT;
