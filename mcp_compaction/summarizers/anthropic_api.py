"""Asks a model by the Messages API: Anthropic's own, or any server that speaks it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from pydantic import BaseModel

from mcp_compaction.core.digest.prompt import Prompt, answer_room
from mcp_compaction.summarizers.calling import CallFailed, ModelAnswer, failure_of_status
from mcp_compaction.summarizers.endpoint import BackendOfEndpoint, Endpoint, make_http_client

if TYPE_CHECKING:  # only a call needs the client
    import httpx2

BASE_URL = "https://api.anthropic.com"
_NOT_MESSAGES = "the answer was not one of the Messages API"
_VERSION = "2023-06-01"
_STATUS_OF_ERROR = {"overloaded_error": 529, "rate_limit_error": 429}  # that comes in a stream


class _Usage(BaseModel):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Begun(BaseModel):
    usage: _Usage


class _Delta(BaseModel):
    text: str = ""
    stop_reason: str | None = None


class _Fault(BaseModel):
    type: str = ""


class _Event(BaseModel):
    """The few fields of a stream's events that are read."""

    type: str
    message: _Begun | None = None  # of message_start
    delta: _Delta | None = None  # of content_block_delta and message_delta
    usage: _Usage | None = None  # of message_delta
    error: _Fault | None = None


class AnthropicBackend(BackendOfEndpoint):
    """Streams the answer, so that a server notices at once when nobody wants it any more."""

    name = "anthropic"

    async def ask(self, prompt: Prompt) -> ModelAnswer:
        """The model's answer; raises CallFailed."""
        import httpx2

        body = {
            "model": self.model,
            "max_tokens": answer_room(prompt.limit),
            "system": prompt.system,
            "messages": [{"role": "user", "content": prompt.user}],
            "stream": True,
        }
        url = self.endpoint.base_url.rstrip("/") + "/v1/messages"
        headers = {"x-api-key": self.endpoint.needed_key(), "anthropic-version": _VERSION}
        try:
            async with (
                make_http_client(self.endpoint) as client,
                client.stream("POST", url, json=body, headers=headers) as response,
            ):
                if response.status_code != 200:
                    wait = response.headers.get("retry-after")
                    raise failure_of_status(response.status_code, wait)
                return await _gather_answer(_read_events(response))
        except httpx2.ConnectTimeout:
            raise CallFailed("the connection could not be made in time", may_retry=True) from None
        except httpx2.SSEError:
            raise CallFailed(_NOT_MESSAGES) from None
        except httpx2.TransportError:
            raise CallFailed("the connection failed or broke off", may_retry=True) from None
        except (httpx2.HTTPError, ValueError):
            raise CallFailed(_NOT_MESSAGES) from None


async def _read_events(response: httpx2.Response) -> AsyncIterator[_Event]:
    import httpx2

    async for told in httpx2.EventSource(response):
        if told.data:
            yield _Event.model_validate_json(told.data)


async def _gather_answer(events: AsyncIterator[_Event]) -> ModelAnswer:
    texts: list[str] = []
    usage: _Usage | None = None
    stop: str | None = None
    async for event in events:
        if event.error is not None:
            raise failure_of_status(_STATUS_OF_ERROR.get(event.error.type, 500), None)
        if event.message is not None:
            usage = event.message.usage
        if event.delta is not None:
            texts.append(event.delta.text)
            stop = event.delta.stop_reason or stop
        if event.usage is not None and usage is not None:
            usage.output_tokens = event.usage.output_tokens
            usage.input_tokens = usage.input_tokens or event.usage.input_tokens  # some know it late
    if usage is None:
        raise CallFailed(_NOT_MESSAGES)
    if stop is None:
        raise CallFailed("the connection failed or broke off", may_retry=True)
    cached = usage.cache_read_input_tokens or 0
    written = usage.cache_creation_input_tokens or 0
    return ModelAnswer(
        text="".join(texts),
        input_tokens=(usage.input_tokens or 0) + cached + written,
        output_tokens=usage.output_tokens or 0,
        cached_tokens=cached,
        refused=stop == "refusal",
        is_cut=stop == "max_tokens",
    )


def make_backend(endpoint: Endpoint) -> AnthropicBackend:
    """The backend for an endpoint."""
    return AnthropicBackend(endpoint)
