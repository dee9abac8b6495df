"""Remembers which secrets were masked in a session, so that they are masked when they come again.

Events of the session hold digests of the values, never the values themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from hashlib import blake2b

from mcp_compaction.compactor.results import MASKED
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.text.repeats import KnownSecret, KnownSecrets, mask_repeats
from mcp_compaction.core.text.secrets import redact
from mcp_compaction.model import Event, SessionInfo


async def known_secrets(work: Workspace, info: SessionInfo) -> KnownSecrets:
    """The secrets that were masked in a session, by any process until now."""
    # Read each time: a hook or another server may have noted one since.
    return secrets_in(info, await work.store.events(info.id, MASKED))


def secrets_in(info: SessionInfo, events: Iterable[Event]) -> KnownSecrets:
    """The secrets that the events of a session tell of."""
    noted = _noted_in(events)
    salt = blake2b(f"{info.id} {info.created.isoformat()}".encode(), digest_size=16).digest()
    return KnownSecrets(salt, {secret.word: secret for secret in noted})


async def note_secrets(
    work: Workspace, info: SessionInfo, told: Collection[KnownSecret]
) -> tuple[Event, ...]:
    """The events that keep these secrets; one that is stored already is the same event again."""
    if not told:  # as in most batches, which need no look at the store
        return ()
    noted = _noted_in(await work.store.events(info.id, MASKED))
    now = work.now()
    return tuple(
        Event(name=MASKED, at=noted.get(secret, now), detail=" ".join(map(str, secret)))
        for secret in told
    )


def mask_text(text: str, known: KnownSecrets) -> str:
    """A text without the secrets that it tells and those that were masked in the session."""
    return mask_repeats(redact(text).text, known).text


def _noted_in(events: Iterable[Event]) -> dict[KnownSecret, datetime]:
    """The secrets of a session, and when each was noted."""
    return {_secret_of(event.detail): event.at for event in events}


def _secret_of(detail: str) -> KnownSecret:
    kind, start, size, word, whole = detail.split()
    return KnownSecret(kind, int(start), int(size), word, whole)
