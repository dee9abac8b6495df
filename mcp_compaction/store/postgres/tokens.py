"""The tokens that tell a server whose rows a call means; only their hashes are kept."""

from __future__ import annotations

import hmac
import secrets
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from mcp_compaction.errors import InputError, UnknownRef
from mcp_compaction.store.postgres.database import PgTx
from mcp_compaction.store.postgres.dialect import plain
from mcp_compaction.store.sql import stamp

_PREFIX = "mct_"


class TokenIdentity(NamedTuple):
    """Whose rows a token opens, and the one project that it reaches; empty: all of the owner's."""

    owner: str
    project: str


class TokenLine(NamedTuple):
    """A token as a list shows it."""

    name: str
    owner: str
    project: str
    made: str
    revoked: str | None


def hash_token(token: str) -> str:
    """What is kept of a token: it is random and long, so that a plain hash tells nothing of it."""
    return sha256(token.encode("utf-8", "replace")).hexdigest()


def add_token(tx: PgTx, name: str, identity: TokenIdentity, now: datetime) -> str:
    """Make a token; it is shown once and kept nowhere."""
    if not name.strip() or not identity.owner.strip():
        raise InputError("A token needs a name; write it as ann-laptop.")
    token = _PREFIX + secrets.token_urlsafe(32)
    made = tx.run(
        "INSERT INTO token (name, hash, belongs_to, project, made)"
        " VALUES (%(name)s, %(hash)s, %(belongs_to)s, %(project)s, %(made)s)"
        " ON CONFLICT (name) DO NOTHING",
        name=plain(name),
        hash=hash_token(token),
        belongs_to=plain(identity.owner),
        project=plain(identity.project),
        made=stamp(now),
    )
    if not made:
        raise InputError(f"There is a token {name} already; choose another name.")
    return token


def find_identity(tx: PgTx, token: str) -> TokenIdentity | None:
    """Whose token it is; None where it is nobody's, or was revoked."""
    wanted = hash_token(token)
    row = tx.one(
        "SELECT hash, belongs_to, project FROM token WHERE hash = %(hash)s AND revoked IS NULL",
        hash=wanted,
    )
    if row is None or not hmac.compare_digest(row["hash"], wanted):
        return None
    return TokenIdentity(row["belongs_to"], row["project"])


def list_hashes(tx: PgTx) -> list[str]:
    """The hashes of the tokens in force."""
    return [row["hash"] for row in tx.all("SELECT hash FROM token WHERE revoked IS NULL")]


def list_tokens(tx: PgTx) -> list[TokenLine]:
    """All tokens, the revoked ones too."""
    rows = tx.all(
        "SELECT name, belongs_to AS owner, project, made, revoked FROM token ORDER BY name"
    )
    return [TokenLine(**row) for row in rows]


def revoke_token(tx: PgTx, name: str, now: datetime) -> None:
    """Let a token open nothing any more."""
    revoked = tx.run(
        "UPDATE token SET revoked = %(now)s WHERE name = %(name)s AND revoked IS NULL",
        name=plain(name),
        now=stamp(now),
    )
    if not revoked:
        raise UnknownRef(f"There is no token {name} in force; run: mcp-compaction team token list")


def has_tokens(tx: PgTx) -> bool:
    """Whether any token is in force."""
    return tx.one("SELECT 1 FROM token WHERE revoked IS NULL LIMIT 1") is not None
