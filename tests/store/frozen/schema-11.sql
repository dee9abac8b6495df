-- A store as schema 11 made it. Frozen: never edited, nor made anew.
PRAGMA application_id = 1835233379;
PRAGMA user_version = 11;
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
CREATE UNIQUE INDEX session_of_host ON session (project, host, host_session, agent)
        WHERE host_session IS NOT NULL;
CREATE INDEX session_of_parent ON session (parent) WHERE parent IS NOT NULL;
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
        raw TEXT NOT NULL, speaker TEXT NOT NULL DEFAULT '',
        UNIQUE (session, seq),
        UNIQUE (session, chain)
    );
CREATE UNIQUE INDEX message_of_host ON message (session, host_id) WHERE host_id IS NOT NULL;
CREATE INDEX message_branch ON message (session, follows) WHERE follows IS NOT NULL;
CREATE TABLE tool_call (                       -- which tool a later result answers for
        session INTEGER NOT NULL REFERENCES session (id),
        call TEXT NOT NULL,
        tool TEXT NOT NULL,
        PRIMARY KEY (session, call)
    ) WITHOUT ROWID;
CREATE TABLE section (                         -- a history; the newest row counts
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES session (id),
        at TEXT NOT NULL,
        section_tokens INTEGER NOT NULL,
        memory_tokens INTEGER NOT NULL,
        json TEXT NOT NULL
    );
CREATE INDEX section_of_session ON section (session);
CREATE TABLE view (
        session INTEGER NOT NULL REFERENCES session (id),
        version INTEGER NOT NULL,
        json TEXT NOT NULL,
        PRIMARY KEY (session, version)
    );
CREATE TABLE digest (
        session INTEGER NOT NULL REFERENCES session (id),
        number INTEGER NOT NULL,
        tokens INTEGER NOT NULL,
        json TEXT NOT NULL,
        PRIMARY KEY (session, number)
    );
CREATE TABLE receipt (
        session INTEGER NOT NULL REFERENCES session (id),
        number INTEGER NOT NULL,
        base_version INTEGER NOT NULL,
        json TEXT NOT NULL,
        PRIMARY KEY (session, number)
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
    , channel TEXT NOT NULL DEFAULT '', used TEXT, checks TEXT NOT NULL DEFAULT '');
CREATE INDEX pin_of_session ON pin (session);
CREATE INDEX pin_of_scope ON pin (scope, project);
CREATE INDEX pin_superseded ON pin (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE TABLE event (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL REFERENCES session (id),
        name TEXT NOT NULL,
        at TEXT NOT NULL,
        detail TEXT NOT NULL
    );
CREATE INDEX event_of_session ON event (session);
CREATE TABLE tombstone (                       -- that something was forgotten, and its hash
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        ref TEXT NOT NULL,
        sha256 TEXT NOT NULL,
        at TEXT NOT NULL,
        purged INTEGER NOT NULL DEFAULT 0          -- 1 once no byte of it is left
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
    , keys TEXT NOT NULL DEFAULT '', marks TEXT NOT NULL DEFAULT '');
CREATE INDEX passage_of_session ON passage (session, kind, number);
CREATE VIRTUAL TABLE passage_index USING fts5 (
        text, keys, marks, content = 'passage', content_rowid = 'id', tokenize = 'porter unicode61'
    );
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
        );
CREATE INDEX model_call_of_session ON model_call (session, at);
CREATE TABLE announced (
            pin INTEGER NOT NULL REFERENCES pin (number),
            project TEXT NOT NULL,
            PRIMARY KEY (pin, project)
        ) WITHOUT ROWID;
CREATE TABLE transcript (
            address TEXT PRIMARY KEY,              -- hash of where it is: a path tells too much
            session INTEGER REFERENCES session (id),   -- NULL once that session is forgotten
            position INTEGER NOT NULL,             -- what comes before it is recorded
            tail TEXT NOT NULL                     -- what stands just before the position
        ) WITHOUT ROWID;
CREATE INDEX transcript_of_session ON transcript (session);
CREATE TABLE call_message (
            session INTEGER NOT NULL REFERENCES session (id),
            call TEXT NOT NULL,
            seq INTEGER NOT NULL,
            PRIMARY KEY (session, call, seq)
        ) WITHOUT ROWID;
CREATE TABLE thinking (
            session INTEGER NOT NULL REFERENCES session (id),
            block TEXT NOT NULL,                   -- or what a caller's request was sent as
            beginning TEXT NOT NULL,               -- '': it was left out, and never comes back
            PRIMARY KEY (session, block)
        ) WITHOUT ROWID;
INSERT INTO session (id, name, project, agent, host, host_session, parent, created, updated, last_seq, last_chain, view_version, next_digest, next_compaction, counted, reported, traits) VALUES
    (1, 'checkout', '/home/ann/shop', '', '', NULL, NULL, '2026-11-15T12:00:00.000000+00:00', '2026-11-15T12:00:00.000000+00:00', 6, 'b2:89f5e81c6398018efa0400c6e774ada6', 2, 2, 2, 0, 0, '{"model":null,"window_tokens":null,"complexity":null,"agent_profile":null,"owns_window":true,"pins_put_back":null}');
INSERT INTO message (id, session, seq, follows, role, shape, host_id, content, chain, at, recorded, tokens, counter, via, raw) VALUES
    (1, 1, 1, NULL, 'user', 'anthropic', NULL, 'b2:cbf807d0b45a4dbd57cfcd4c3ddc06ce', 'b2:709ef02d84bec42ba4da41eaaba7e8fe', NULL, '2026-11-15T12:00:00.000000+00:00', 31, 'test', 'host', '{"role": "user", "content": "Deploy retryLater on port 8443."}');
INSERT INTO message (id, session, seq, follows, role, shape, host_id, content, chain, at, recorded, tokens, counter, via, raw) VALUES
    (2, 1, 2, NULL, 'assistant', 'anthropic', NULL, 'b2:9d4135bef1da373117903fc7eefd43d7', 'b2:356d08eeac15594cb5b64b6bfc206eb0', NULL, '2026-11-15T12:00:00.000000+00:00', 20, 'test', 'host', '{"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "Bash", "input": {"cmd": "ls src"}}]}');
INSERT INTO message (id, session, seq, follows, role, shape, host_id, content, chain, at, recorded, tokens, counter, via, raw) VALUES
    (3, 1, 3, NULL, 'user', 'anthropic', NULL, 'b2:c6d3371829a497f0b892a6e23decb281', 'b2:e7f1dc74a1c69dfd3d0a97c1c82e1204', NULL, '2026-11-15T12:00:00.000000+00:00', 11, 'test', 'host', '{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "cart.py \u6570\u636e\u5e93"}]}');
INSERT INTO message (id, session, seq, follows, role, shape, host_id, content, chain, at, recorded, tokens, counter, via, raw) VALUES
    (4, 1, 4, NULL, 'assistant', 'anthropic', NULL, 'b2:5968aee7e9b56d7c22ecd64d3574cd2a', 'b2:4bfb7cdf78135f0f34216e2bee5a8cdc', NULL, '2026-11-15T12:00:00.000000+00:00', 18, 'test', 'host', '{"role": "assistant", "content": "It''s done: ünïcode"}');
INSERT INTO message (id, session, seq, follows, role, shape, host_id, content, chain, at, recorded, tokens, counter, via, raw) VALUES
    (5, 1, 5, NULL, 'user', 'anthropic', NULL, 'b2:3b5d627abf66e8ea9d54dfcc4140c504', 'b2:6133441a3a2b8ddbddfe4af2245b0c1e', NULL, '2026-11-15T12:00:00.000000+00:00', 10, 'test', 'host', '{"role":"user","content":"[forgotten]"}');
INSERT INTO message (id, session, seq, follows, role, shape, host_id, content, chain, at, recorded, tokens, counter, via, raw) VALUES
    (6, 1, 6, NULL, 'user', 'anthropic', NULL, 'b2:330e497bc88032b582b8e96598d90dfc', 'b2:89f5e81c6398018efa0400c6e774ada6', NULL, '2026-11-15T12:00:00.000000+00:00', 9, 'test', 'host', '{"role": "user", "content": "the sixth"}');
INSERT INTO tool_call (session, call, tool) VALUES
    (1, 'c1', 'Bash');
INSERT INTO call_message (session, call, seq) VALUES
    (1, 'c1', 2),
    (1, 'c1', 3);
INSERT INTO thinking (session, block, beginning) VALUES
    (1, '0f0e0d0c0b0a09080706050403020100', ''),
    (1, '1f1e1d1c1b1a19181716151413121110', '2f2e2d2c2b2a29282726252423222120');
INSERT INTO view (session, version, json) VALUES
    (1, 1, '{"version":1,"compaction":1,"head":[{"kind":"kept","seq":1}],"pinned":[],"body":[{"kind":"digested","digest":1,"thin":false},{"kind":"kept","seq":5},{"kind":"kept","seq":6}],"promoted":[],"upto":6,"memory_in":null,"index_most":null}');
INSERT INTO view (session, version, json) VALUES
    (1, 2, '{"version":2,"compaction":1,"head":[{"kind":"kept","seq":1}],"pinned":[],"body":[{"kind":"digested","digest":1,"thin":false},{"kind":"kept","seq":5},{"kind":"kept","seq":6}],"promoted":[],"upto":6,"memory_in":null,"index_most":null}');
INSERT INTO digest (session, number, tokens, json) VALUES
    (1, 1, 30, '{"number":1,"first":2,"last":4,"messages":3,"sections":[["FACTS",[{"text":"the port is 8443","refs":["m3"],"provenance":"extracted","superseded":false,"must_stay":false},{"text":"all went well","refs":[],"provenance":"extracted","superseded":false,"must_stay":false}]],["NEXT",[{"text":"ship it","refs":["m4"],"provenance":"extracted","superseded":false,"must_stay":false}]]],"index":[{"kind":"file","text":"src/cart.py","note":"","refs":["m2..m3"]}],"author":"extractive","checked":true,"began":null,"ended":null,"merged":[],"tokens":30}');
INSERT INTO receipt (session, number, base_version, json) VALUES
    (1, 1, 0, '{"compaction":1,"kind":"compress","reason":"test","at":"2026-11-15T12:00:00Z","strategy":"summarize","before":100,"after":40,"window":200,"precision":"estimate","freed":[],"replaced":[],"pins":0,"tallies":[],"target":null,"shortfall":null,"author":"extractive","checked":true,"notes":["rule not pinned? m3 user: \"use port 8443\"","nothing else"],"offer":{"candidates":[],"more":0}}');
INSERT INTO pin (number, session, project, kind, scope, author, at, expires, released, superseded_by, source, checksum, text, channel) VALUES
    (1, 1, '/home/ann/shop', 'constraint', 'project', 'user', '2026-11-15T12:00:00.000000+00:00', NULL, NULL, NULL, 'm1', 'sha256:695364029cf5e6f144057970c1d7c9b8a684aea97dfcfa7bd8dc1db327732773', 'Never push to main.', '');
INSERT INTO pin (number, session, project, kind, scope, author, at, expires, released, superseded_by, source, checksum, text, channel) VALUES
    (2, 1, '/home/ann/shop', 'open_task', 'session', 'agent', '2026-11-15T12:00:00.000000+00:00', NULL, NULL, NULL, NULL, 'sha256:114bd10da8007caca0fffdf410f71c9eb670f5d2d07e9d5e8778d5d090da67ba', 'Look at the cart.', '');
INSERT INTO pin (number, session, project, kind, scope, author, at, expires, released, superseded_by, source, checksum, text, channel, used) VALUES
    (3, 1, '/home/ann/shop', 'fact', 'project', 'user', '2026-08-01T12:00:00.000000+00:00', '2026-11-01T12:00:00.000000+00:00', NULL, NULL, 'm1', 'sha256:e0378b4c5ac5e9238d2afa0590f0831b80b19d4b2af1fb67e59cae6e425bfc68', 'The rates are in data/rates.csv.', 'terminal', '2026-08-03T12:00:00.000000+00:00');
INSERT INTO event (id, session, name, at, detail) VALUES
    (1, 1, 'seen', '2026-11-15T12:00:00.000000+00:00', 'm1');
INSERT INTO tombstone (id, session, ref, sha256, at, purged) VALUES
    (1, 1, 'm5', '720aef0d47d2899bd35e0e7ea26dde2012931fae59a94c1c40c8429fead259cf', '2026-11-15T12:00:00.000000+00:00', 1);
INSERT INTO passage (id, session, project, kind, number, ordinal, role, at, tools, text, keys, marks) VALUES
    (1, 1, '/home/ann/shop', 'm', 1, 0, 'user', '2026-11-15T12:00:00.000000+00:00', '', 'Deploy retryLater on port 8443.', 'retry Later', 'session1 roleuser');
INSERT INTO passage (id, session, project, kind, number, ordinal, role, at, tools, text, keys, marks) VALUES
    (2, 1, '/home/ann/shop', 'm', 2, 0, 'assistant', '2026-11-15T12:00:00.000000+00:00', ''||char(10)||'bash'||char(10)||'', '{"cmd": "ls src"}', '', 'session1 roleassistant toolbash');
INSERT INTO passage (id, session, project, kind, number, ordinal, role, at, tools, text, keys, marks) VALUES
    (3, 1, '/home/ann/shop', 'm', 3, 0, 'tool', '2026-11-15T12:00:00.000000+00:00', ''||char(10)||'bash'||char(10)||'', 'cart.py 数据库', '数据 据库 库', 'session1 roletool toolbash');
INSERT INTO passage (id, session, project, kind, number, ordinal, role, at, tools, text, keys, marks) VALUES
    (4, 1, '/home/ann/shop', 'm', 4, 0, 'assistant', '2026-11-15T12:00:00.000000+00:00', '', 'It''s done: ünïcode', '', 'session1 roleassistant');
INSERT INTO passage (id, session, project, kind, number, ordinal, role, at, tools, text, keys, marks) VALUES
    (6, 1, '/home/ann/shop', 'm', 6, 0, 'user', '2026-11-15T12:00:00.000000+00:00', '', 'the sixth', '', 'session1 roleuser');
INSERT INTO passage (id, session, project, kind, number, ordinal, role, at, tools, text, keys, marks) VALUES
    (7, 1, '/home/ann/shop', 'd', 1, 0, 'digest', '2026-11-15T12:00:00.000000+00:00', '', 'FACTS: the port is 8443'||char(10)||'all went well', '', 'session1 roledigest');
INSERT INTO passage (id, session, project, kind, number, ordinal, role, at, tools, text, keys, marks) VALUES
    (8, 1, '/home/ann/shop', 'd', 1, 1, 'digest', '2026-11-15T12:00:00.000000+00:00', '', 'NEXT: ship it', '', 'session1 roledigest');
INSERT INTO passage (id, session, project, kind, number, ordinal, role, at, tools, text, keys, marks) VALUES
    (9, 1, '/home/ann/shop', 'p', 1, 0, 'pin', '2026-11-15T12:00:00.000000+00:00', '', 'Never push to main.', '', 'session1 rolepin');
INSERT INTO passage (id, session, project, kind, number, ordinal, role, at, tools, text, keys, marks) VALUES
    (10, 1, '/home/ann/shop', 'p', 2, 0, 'pin', '2026-11-15T12:00:00.000000+00:00', '', 'Look at the cart.', '', 'session1 rolepin');
INSERT INTO passage (id, session, project, kind, number, ordinal, role, at, tools, text, keys, marks) VALUES
    (11, 1, '/home/ann/shop', 'p', 3, 0, 'pin', '2026-08-01T12:00:00.000000+00:00', '', 'The rates are in data/rates.csv.', '', 'session1 rolepin');
INSERT INTO model_call (id, session, category, at, model, seconds, input_tokens, output_tokens, cached_tokens, cost, failed) VALUES
    (1, 1, 'system', '2026-11-15T12:00:00.000000+00:00', 'small', 1.5, 10, 2, 0, 0.25, '');
INSERT INTO transcript (address, session, position, tail) VALUES
    ('sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef', 1, 2048, 'b2:9d5b');
INSERT INTO transcript (address, session, position, tail) VALUES
    ('sha256:ef2d127de37b942baad06145e54b0c619a1f22327b2ebbcfbec78f5564afe39d', NULL, 512, 'b2:11aa');
INSERT INTO passage_index (passage_index, rank) VALUES ('rank', 'bm25(1.0, 0.6, 0.0)');
INSERT INTO passage_index (passage_index) VALUES ('rebuild');
UPDATE pin SET checks = 'deny Bash: git push main' WHERE text = 'Never push to main.';
UPDATE message SET speaker = 'host' WHERE seq = 6;
