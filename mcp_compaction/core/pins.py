"""The rules of pinning: who said it, who may release it, what the block has room for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from mcp_compaction.core.parts import Count
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.quoting import has_label, is_forged
from mcp_compaction.core.redact import redact
from mcp_compaction.core.render import pinned_block
from mcp_compaction.errors import InputError, NeedsUser, PinRefused
from mcp_compaction.model import Author, Message, Pin, PinKind, PinScope

_LEAST_CHARS = 8
_BULLET = re.compile(r"(?:[-*•>]|\d+[.)]) ")
_BEFORE = tuple(".!?。！？")
_AFTER = tuple(".!?;。！？；")
_REACH: tuple[PinScope, ...] = ("session", "project", "global")


def check_text(text: str) -> str:
    """The text of a pin as it will be shown, or why it cannot be one."""
    if not text.strip():
        raise PinRefused("the text is blank; pass the rule word for word.")
    if "\x00" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
        raise PinRefused("the text holds a NUL or half a character; pass it as plain text.")
    # The first line stands behind the pin's own label: a voice in it is plainly the pin's.
    if has_label(text) or any(map(is_forged, text.splitlines()[1:])):
        raise PinRefused(
            "a line of the text looks like another pin, a label or another speaker; pass it "
            "without that line."
        )
    secrets = redact(text).counts
    if secrets:
        raise PinRefused(
            f"the text holds a secret ({', '.join(secrets)}); pin the rule without it, and name "
            "where the secret is kept."
        )
    return text


def covers(known: Pin, wanted: Pin) -> bool:
    """Whether a pin in force already does all that a new one would."""
    same = (known.text, known.kind) == (wanted.text, wanted.kind)
    by_user = known.author == "user" or wanted.author != "user"
    return same and by_user and _REACH.index(known.scope) >= _REACH.index(wanted.scope)


def source_of(text: str, messages: Iterable[Message]) -> str | None:
    """The ref of the user message in which these words stand as whole sentences or lines."""
    wanted = " ".join(text.split())
    if len(wanted) < _LEAST_CHARS:
        return None
    for message in messages:
        if message.via == "host" and message.is_request and _stands_in(wanted, message.text):
            return message.ref
    return None


def default_scope(author: Author) -> PinScope:
    """A user's rule holds in the project, an agent's in its session."""
    return "project" if author == "user" else "session"


def check_scope(scope: PinScope, author: Author, by: Author) -> None:
    """An agent's own words may bind no other session."""
    if scope != "session" and "user" not in (author, by):
        raise NeedsUser(
            f"a {scope} pin needs the user: the text stands in no user message. Pin it for this "
            f"session, or ask the user to run: mcp-compaction pin --scope {scope} TEXT"
        )


def check_release(pin: Pin, by: Author) -> None:
    """A user's pin is released by the user alone."""
    if pin.author == "user" and by != "user":
        raise NeedsUser(
            f"{pin.ref} is the user's: only the user releases it. Ask them to run: "
            f"mcp-compaction unpin {pin.ref}"
        )


def check_expiry(expires: datetime | None, now: datetime) -> None:
    """A pin that is over before it begins is a mistake."""
    if expires is not None and expires <= now:
        raise InputError(f"{expires:%Y-%m-%d %H:%M} is past; pass a moment to come, or none.")


def check_budget(pins: Sequence[Pin], kind: PinKind, policy: Policy, count: Count) -> int:
    """The tokens of the pinned block with the newest pin in it, or why there is no room."""
    block = pinned_block(pin for pin in pins if pin.kind != "note")
    tokens = count(block) if block else 0
    if kind != "note" and (tokens > policy.pinned_limit or len(block) > policy.pinned_max_chars):
        raise PinRefused(
            f"the pinned block would take {tokens} tokens and {len(block)} characters; its limit "
            f"is {policy.pinned_limit} and {policy.pinned_max_chars}. Release a pin that is done, "
            "shorten this one, or keep it with kind=note: searchable, not shown."
        )
    return tokens


def _stands_in(wanted: str, text: str) -> bool:
    # Half a sentence may say the opposite: "share the key" stands in "never share the key".
    lines = [line for line in (" ".join(line.split()) for line in text.splitlines()) if line]
    flat = " ".join(lines)
    starts, ends = {0}, {len(flat)}
    position = 0
    for line in lines:
        bullet = _BULLET.match(line)
        starts |= {position, position + (bullet.end() if bullet else 0)}
        position += len(line) + 1
        ends.add(position - 1)
    start = flat.find(wanted)
    while start >= 0:
        end = start + len(wanted)
        begins = start in starts or flat[:start].rstrip().endswith(_BEFORE)
        if begins and (end in ends or flat.startswith(_AFTER, end) or wanted.endswith(_AFTER)):
            return True
        start = flat.find(wanted, start + 1)
    return False
