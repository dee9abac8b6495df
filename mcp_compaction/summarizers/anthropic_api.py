"""Asks a model by the Messages API: Anthropic's own, or any server that speaks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_compaction.core.digest.prompt import Prompt, answer_room
from mcp_compaction.summarizers.calling import CallFailed, ModelAnswer, failure_of_status
from mcp_compaction.summarizers.endpoint import BackendOfEndpoint, Endpoint, make_http_client

if TYPE_CHECKING:  # the SDK takes half a second to import: only a call needs it
    import httpx2
    from anthropic import AsyncAnthropic, AsyncStream
    from anthropic.types import RawMessageStreamEvent, Usage

BASE_URL = "https://api.anthropic.com"
_HEADERS = frozenset(
    (
        *("accept", "accept-encoding", "connection", "content-length", "content-type", "host"),
        *("anthropic-version", "transfer-encoding", "user-agent"),
    )
)


class AnthropicBackend(BackendOfEndpoint):
    """Streams the answer, so that a server notices at once when nobody wants it any more."""

    name = "anthropic"
    library = "anthropic"

    async def ask(self, prompt: Prompt) -> ModelAnswer:
        """The model's answer; raises CallFailed."""
        import anthropic
        import httpx2

        try:
            async with _make_client(self.endpoint) as client:
                events = await client.messages.create(
                    model=self.model,
                    max_tokens=answer_room(prompt.limit),
                    system=prompt.system,
                    messages=[{"role": "user", "content": prompt.user}],
                    stream=True,
                )
                async with events:
                    return await _gather_answer(events)
        except anthropic.APIStatusError as error:
            # An error inside of a stream comes with the status of the stream, which is 200.
            status = 529 if error.type == "overloaded_error" else error.status_code
            wait = error.response.headers.get("retry-after")
            raise failure_of_status(500 if status == 200 else status, wait) from None
        except anthropic.APITimeoutError:
            raise CallFailed("the connection could not be made in time", may_retry=True) from None
        except (anthropic.APIConnectionError, httpx2.TransportError):
            raise CallFailed("the connection failed or broke off", may_retry=True) from None
        except (anthropic.AnthropicError, httpx2.HTTPError, ValueError, TypeError, AttributeError):
            raise CallFailed("the answer was not one of the Messages API") from None


def _make_client(endpoint: Endpoint) -> AsyncAnthropic:
    import anthropic

    key = endpoint.needed_key()

    async def keep_our_headers(request: httpx2.Request) -> None:
        """Take out what the SDK adds from the environment: it may be a key for somebody else."""
        for name, value in list(request.headers.items()):
            is_ours = name in _HEADERS or name.startswith("x-stainless") or key in value
            if not is_ours:
                del request.headers[name]

    return anthropic.AsyncAnthropic(
        api_key=key,
        base_url=endpoint.base_url,
        max_retries=0,
        open_telemetry=False,
        http_client=make_http_client(endpoint, [keep_our_headers]),
    )


async def _gather_answer(events: AsyncStream[RawMessageStreamEvent]) -> ModelAnswer:
    texts: list[str] = []
    usage: ModelAnswer | None = None
    stop: str | None = None
    async for event in events:
        match event.type:
            case "message_start":
                usage = _read_usage(event.message.usage)
            case "content_block_delta":
                if event.delta.type == "text_delta":
                    texts.append(event.delta.text)
            case "message_delta" if usage is not None:
                stop = event.delta.stop_reason
                usage = usage.model_copy(update={"output_tokens": event.usage.output_tokens or 0})
                if event.usage.input_tokens and not usage.input_tokens:  # some servers know it late
                    usage = usage.model_copy(update={"input_tokens": event.usage.input_tokens})
            case _:
                pass
    if usage is None:
        raise CallFailed("the answer was not one of the Messages API")
    if stop is None:
        raise CallFailed("the connection failed or broke off", may_retry=True)
    return usage.model_copy(
        update={
            "text": "".join(texts),
            "refused": stop == "refusal",
            "is_cut": stop == "max_tokens",
        }
    )


def _read_usage(usage: Usage) -> ModelAnswer:
    cached = usage.cache_read_input_tokens or 0
    written = usage.cache_creation_input_tokens or 0
    return ModelAnswer(
        text="",
        input_tokens=(usage.input_tokens or 0) + cached + written,
        output_tokens=usage.output_tokens or 0,
        cached_tokens=cached,
    )


def make_backend(endpoint: Endpoint) -> AnthropicBackend:
    """The backend for an endpoint."""
    return AnthropicBackend(endpoint)
