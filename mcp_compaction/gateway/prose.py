"""Has the model that a host calls write its handovers, with the API key of the host."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager

from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.gateway.calls import Api
from mcp_compaction.model import SessionInfo
from mcp_compaction.summarizers.session_model import (
    Answered,
    SessionModel,
    read_answered,
    with_question,
)

AskModel = Callable[[], Awaitable[Answered]]
AskProvider = Callable[[bytes], Awaitable[bytes]]

_LONGEST = 120.0  # seconds
_OF_LOGIN = "sk-ant-oat"  # begins a token of Anthropic's that the login of a subscription gives


def is_paid_by_key(headers: Mapping[str, str]) -> bool:
    """Whether a request comes with an API key, and not with the login of a subscription."""
    bearer = headers.get("authorization", "").removeprefix("Bearer ")
    keys = (headers.get("x-api-key", ""), bearer if bearer.startswith("sk-") else "")
    return any(keys) and not any(key.startswith(_OF_LOGIN) for key in keys)


async def ask_model(api: Api, body: bytes, send: AskProvider) -> Answered:
    """What the model answers to our question behind a request as it was sent."""
    sent = json.loads(body)
    asked = {**sent, api.key: with_question(sent[api.key], api.shape), "stream": False}
    for key in ("stream_options", "thread"):
        asked.pop(key, None)
    async with asyncio.timeout(_LONGEST):  # the next request may wait for what is made ready
        answer = await send(json.dumps(asked).encode())
    return read_answered(json.loads(answer), api.shape)


@contextmanager
def written_by(
    model: SessionModel, ask: AskModel | None, work: Workspace, info: SessionInfo
) -> Generator[None]:
    """A time in which a conversation's own model writes its handovers; None: it does not."""
    if ask is None:
        yield
        return
    model.ask, model.unseen = ask, 1  # the request has not the answer that came for it
    work.own_models[info.id] = model
    try:
        yield
    finally:
        work.own_models.pop(info.id, None)  # another request of it may have ended meanwhile
