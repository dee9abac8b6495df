"""Makes filled stores larger: each message stands there several times, copied by SQL.

To record a million messages takes an hour; a recall meets as many rows where they are copies.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg

_GROW = "UPDATE session SET last_seq = last_seq * {n}, last_chain = last_chain || '#' || ({n} - 1)"
_MESSAGE = (
    "follows, role, shape, host_id, content, at, recorded, tokens, counter, via, raw, session, seq,"
    " chain"
)
_MESSAGES = f"""
    INSERT INTO message ({{owner}}{_MESSAGE})
    SELECT {{message}}follows, role, shape, message.host_id, content, at, recorded, tokens, counter,
        via, raw, message.session, seq + {{n}} * last_seq, chain || '#' || {{n}}
    FROM message JOIN session ON session.id = message.session WHERE seq <= last_seq {{and}}
"""
_PASSAGES = """
    INSERT INTO passage ({owner}id, {shared}, session, number){override}
    SELECT {passage}passage.id + {n} * {top}, {passage_shared}, passage.session,
        number + {n} * last_seq
    FROM passage JOIN session ON session.id = passage.session
    WHERE kind = 'm' AND passage.id <= {top} {and} ORDER BY passage.id
"""
_SHARED = ("project", "kind", "ordinal", "role", "at", "tools", "text")


def copy_file(path: Path, copies: int) -> None:
    """Have each message so many times in a file's store."""
    columns = (*_SHARED, "keys", "marks")
    with closing(sqlite3.connect(path)) as store, store:
        (top,) = store.execute("SELECT max(id) FROM passage").fetchone()
        for n in range(1, copies):
            store.execute(_MESSAGES.format(n=n, owner="", message="", **{"and": ""}))
            filled = {"n": n, "top": top, "owner": "", "passage": "", "override": "", "and": ""}
            named = ", ".join(f"passage.{column}" for column in columns)
            store.execute(
                _PASSAGES.format(**filled, shared=", ".join(columns), passage_shared=named)
            )
            store.execute(
                "INSERT INTO passage_index (rowid, text, keys, marks)"
                " SELECT id, text, keys, marks FROM passage WHERE id > ? ORDER BY id",
                (n * top,),
            )
        store.execute(_GROW.format(n=copies))


def copy_rows(address: str, owner: str, copies: int) -> None:
    """Have each message of an owner so many times in a team's store."""
    columns = (*_SHARED, "size", "chars")
    own = {"owner": owner}
    with psycopg.connect(address) as store:
        (top,) = store.execute(b"SELECT max(id) FROM passage").fetchone() or (0,)
        for n in range(1, copies):
            filled = {"n": n, "top": top, "owner": "owner, ", "message": "message.owner, "}
            filled |= {"passage": "passage.owner, ", "override": " OVERRIDING SYSTEM VALUE"}
            for table, statement in (("message", _MESSAGES), ("passage", _PASSAGES)):
                of = f"AND session.owner = %(owner)s AND {table}.owner = %(owner)s"
                named = ", ".join(f"passage.{column}" for column in columns)
                text = statement.format(
                    **filled, shared=", ".join(columns), passage_shared=named, **{"and": of}
                )
                store.execute(text.encode(), own)
            store.execute(
                f"INSERT INTO posting SELECT owner, term, session, passage + {n * top}, places"
                f" FROM posting WHERE owner = %(owner)s AND passage <= {top}".encode(),
                own,
            )
        store.execute(f"{_GROW.format(n=copies)} WHERE owner = %(owner)s".encode(), own)
        store.execute(
            b"SELECT setval(pg_get_serial_sequence('passage', 'id'), max(id)) FROM passage"
        )
