"""Asks the model of a loop for the handover of a compaction, over the request as it stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import isawaitable
from typing import Any, Literal

from mcp_compaction.adapters.dialects import Request, has_open_calls, plain_messages
from mcp_compaction.api.handles import OpenSession
from mcp_compaction.errors import InputError, SummarizerError
from mcp_compaction.formats.turns import plain_of
from mcp_compaction.model import Shape
from mcp_compaction.summarizers.session_model import (
    Answered,
    SessionModel,
    read_answered,
    with_question,
)

SummarizerName = Literal["session"] | None
"""Who writes the handover: the session's own model, or as the store's settings say."""


def find_own_model(session: OpenSession, summarizer: SummarizerName) -> SessionModel | None:
    """The model of a session's own, which writes its handovers from now on; None: it is not to."""
    if summarizer is None:
        return None
    if summarizer != "session":
        raise InputError(f'summarizer is {summarizer!r}; use "session", or leave it out.')
    work = session.store.workspace
    work.own_models[session.info.id] = model = SessionModel(work.counter.count)
    return model


async def ask_caller(
    call: Callable[[Any], Any], given: Request, messages: Sequence[Any], shape: Shape
) -> Answered:
    """What the model of a home-made loop answers; `call` sends a request of it."""
    plain = plain_messages(messages)
    if not plain or has_open_calls(plain, shape):
        raise SummarizerError("a call waits for its result")
    response = call(given.with_messages(with_question(plain, shape)))
    return read_answered(plain_of(await response if isawaitable(response) else response), shape)


def as_it_stands(
    messages: Sequence[Any], last: tuple[Sequence[Any], Sequence[Any]]
) -> Sequence[Any]:
    """A history unfitted: what was sent last for its beginning, and behind it what is new.

    `last`: what came last, and what was sent for it.
    """
    came, sent = last
    is_longer = len(messages) >= len(came) and all(
        one is other or one == other for one, other in zip(came, messages, strict=False)
    )
    return [*sent, *messages[len(came) :]] if is_longer else messages
