"""The tools that pin and release, and the questions that only the user may answer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from mcp_compaction import compactor
from mcp_compaction.compactor.results import PinWish
from mcp_compaction.core.log.pinned import shown_text
from mcp_compaction.core.pins import check_question
from mcp_compaction.errors import InputError
from mcp_compaction.model import Author, Channel
from mcp_compaction.tools import answers
from mcp_compaction.tools.arguments import PinConstraint, UnpinConstraint
from mcp_compaction.tools.place import CallAnswer, CallPlace

UserWord = Literal["yes", "no", "unanswered", "unasked"]


def wish_of(asked: PinConstraint, by: Author = "agent", channel: Channel | None = None) -> PinWish:
    """The wish for a pin that a tool's arguments are."""
    given: dict[str, Any] = {**dict(asked), "expires": parse_time(asked.expires)}
    return PinWish(by=by, channel=channel, **given)


async def question_for_pin(place: CallPlace, asked: PinConstraint) -> str | None:
    """The question whether an agent may bind other sessions or change a user's pin."""
    wish, info = wish_of(asked), await place.session_if_any()
    work = await place.workspace()
    if info is not None:
        await place.hear_words(info, asked.text)
    question = await compactor.pin_question(work, place.project, info, wish)
    return None if question is None else question.text


async def pin_constraint(
    place: CallPlace, asked: PinConstraint, allowed: UserWord = "unasked"
) -> CallAnswer:
    """Pin, and say where the pin will be seen.

    `allowed`: the user's word on what an agent may not do alone.
    """
    place.check_records()
    by = _author_of(allowed)
    wish = wish_of(asked, by, "dialog" if by == "user" else None)
    work = await place.workspace()
    wider = asked.scope if allowed == "unanswered" else None
    if wider is not None:
        wish = wish._replace(scope=None)
    known = await place.session_if_any() if by == "agent" else None
    if by == "agent" and known is None:
        with place.asking_user(None):  # what is refused begins no session
            check_question(await compactor.pin_question(work, place.project, None, wish))
    info, is_new = await place.session_to_pin(known)
    if by == "agent":
        await place.hear_words(info, asked.text)
    with place.asking_user(info):
        done = await compactor.pin(work, info, wish)
    said = answers.pin_text(done, place.mode(info), info.traits.pins_put_back)
    if wider is not None:
        told = answers.unanswered_line(done.pin, wider)
        said = f"{said}\n{place.complete_commands(told, info)}"
    if offered := await compactor.describe_check(work, info, done.pin):
        said = f"{said}\n{place.complete_commands(offered, info)}"
    return CallAnswer(said, info, done, is_new)


async def question_for_release(place: CallPlace, asked: UnpinConstraint) -> str | None:
    """The question whether an agent may release a user's pin."""
    info = await place.session_if_any()
    if info is None:
        return None
    work = await place.workspace()
    pin = next((pin for pin in await work.pins(info) if pin.ref == asked.ref), None)
    if pin is None or await compactor.owner_of(work, info, pin) != "user":
        return None
    return f"The agent wants to release your pin {pin.ref}: {shown_text(pin.text)}"


async def unpin_constraint(
    place: CallPlace, asked: UnpinConstraint, allowed: UserWord = "unasked"
) -> CallAnswer:
    """Release a pin, where the caller may."""
    work = await place.workspace()
    info, _ = await place.session("look")
    with place.asking_user(info):
        pin = await compactor.unpin(work, info, asked.ref, by=_author_of(allowed))
    return CallAnswer(answers.release_text(pin), info, pin)


def _author_of(word: UserWord) -> Author:
    return "user" if word == "yes" else "agent"


def parse_time(text: str | None) -> datetime | None:
    """The moment that an ISO time names, in UTC; without a zone it is the local time."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):  # the year 1 has no local time, nor 9999 all of UTC
        raise InputError(f"{text!r} is no time; write it as 2026-11-30T18:00.") from None
