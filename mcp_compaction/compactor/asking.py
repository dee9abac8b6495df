"""Makes the request for a compaction of what a caller passed, or says what is wrong with it."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from mcp_compaction.core.text.refs import parse_span
from mcp_compaction.errors import InputError
from mcp_compaction.model import Ask


def make_ask(*, span: str | None = None, **given: Any) -> Ask:
    """The request of a caller's arguments; `span` as it is written, m12..m40."""
    if span is not None and not isinstance(span, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"span is {span!r}; write it as m12..m40.")
    try:
        ask = Ask(span=parse_span(span) if span is not None else None, **given)
    except ValidationError as error:
        fault = error.errors()[0]
        name, value = ".".join(map(str, fault["loc"])), fault["input"]
        raise InputError(
            f"{name} is {value!r}: {fault['msg'].lower()}; pass another value, or leave it out."
        ) from None
    check_ask(ask)
    return ask


def check_ask(ask: Ask) -> None:
    """Refuse what can be seen to be wrong before anything is looked at."""
    if not ask.reason.strip():
        raise InputError("the reason is blank; say in a few words why now.")
    if ask.target_percent is not None and not 0 < ask.target_percent < 100:
        raise InputError(
            f"{ask.target_percent:g} is no target; pass a percentage above 0 and below 100."
        )
    if ask.room_tokens is not None and ask.room_tokens <= 0:
        raise InputError(f"{ask.room_tokens} is no room; pass how many tokens shall be free.")
    if ask.room_tokens is not None and (ask.target_percent is not None or ask.span is not None):
        raise InputError("room_tokens says how far to go by itself; leave out the other.")
    if ask.digest is not None and not ask.digest.strip():
        raise InputError("the digest is blank; leave it out, or write lines under its headings.")
