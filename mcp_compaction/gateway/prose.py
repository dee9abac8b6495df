"""Has the model that a host calls write its handovers, with the API key of the host."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager

from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import SummarizerError
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
_MOST_OF_LIMIT = 0.8
_OF_LOGIN = "sk-ant-oat"  # begins a token of Anthropic's that the login of a subscription gives


def is_paid_by_key(headers: Mapping[str, str]) -> bool:
    """Whether a request comes with an API key, and not with the login of a subscription."""
    bearer = headers.get("authorization", "").removeprefix("Bearer ")
    keys = (headers.get("x-api-key", ""), bearer if bearer.startswith("sk-") else "")
    return any(keys) and not any(key.startswith(_OF_LOGIN) for key in keys)


def unless_limited(send: AskProvider | None, headers: Mapping[str, str]) -> AskProvider | None:
    """The way to ask behind an answer, which says why it does not where the answer's headers tell
    that a limit of the rate is near."""
    near = next(_limits_near(headers), "")

    async def refuse(_: bytes) -> bytes:
        raise SummarizerError(near)

    return refuse if send and near else send


def _limits_near(headers: Mapping[str, str]) -> Iterator[str]:
    for name in (one for one in headers if "ratelimit" in one and "remaining" in one):
        left, limit = headers[name], headers.get(name.replace("remaining", "limit"), "")
        if left.isdecimal() and limit.isdecimal() and int(left) < (1 - _MOST_OF_LIMIT) * int(limit):
            yield f"{1 - int(left) / int(limit):.0%} of a rate limit ({name}) are used"


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
