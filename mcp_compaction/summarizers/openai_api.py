"""Asks a model by chat completions: any server that is compatible with OpenAI's."""

from __future__ import annotations

from pydantic import BaseModel, ValidationError

from mcp_compaction.core.digest.prompt import Prompt, answer_room
from mcp_compaction.summarizers.calling import CallFailed, ModelAnswer, failure_of_status
from mcp_compaction.summarizers.endpoint import BackendOfEndpoint, Endpoint, make_http_client

BASE_URL = "https://api.openai.com/v1"


class _Details(BaseModel):
    cached_tokens: int | None = 0


class _Usage(BaseModel):
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    prompt_tokens_details: _Details | None = None


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Completion(BaseModel):
    """The few fields of a chat completion that are read."""

    choices: list[_Choice]
    usage: _Usage | None = None


class OpenAiBackend(BackendOfEndpoint):
    """Asks by plain HTTP, with the client that the MCP SDK brings along."""

    name = "openai"

    async def ask(self, prompt: Prompt) -> ModelAnswer:
        """The model's answer; raises CallFailed."""
        import httpx2

        body = {
            "model": self.model,
            # Not max_completion_tokens: servers on this machine know only the older word.
            "max_tokens": answer_room(prompt.limit),
            "messages": [
                {"role": "system", "content": prompt.system},
                {"role": "user", "content": prompt.user},
            ],
        }
        url = self.endpoint.base_url.rstrip("/") + "/chat/completions"
        headers = {"authorization": f"Bearer {self.endpoint.needed_key()}"}
        try:
            async with make_http_client(self.endpoint) as client:
                response = await client.post(url, json=body, headers=headers)
        except httpx2.ConnectTimeout:
            raise CallFailed("the connection could not be made in time", may_retry=True) from None
        except httpx2.TransportError:
            raise CallFailed("the connection failed or broke off", may_retry=True) from None
        if response.status_code != 200:
            raise failure_of_status(response.status_code, response.headers.get("retry-after"))
        return _read_answer(response.content)


def _read_answer(content: bytes) -> ModelAnswer:
    try:
        completion = _Completion.model_validate_json(content)
        choice = completion.choices[0]
    except (ValidationError, IndexError):
        raise CallFailed("the answer was not one of chat completions") from None
    usage = completion.usage or _Usage()
    details = usage.prompt_tokens_details or _Details()
    message = choice.message
    return ModelAnswer(
        text=message.content or "",
        input_tokens=usage.prompt_tokens or 0,
        output_tokens=usage.completion_tokens or 0,
        cached_tokens=details.cached_tokens or 0,
        refused=bool(message.refusal) or choice.finish_reason == "content_filter",
        is_cut=choice.finish_reason == "length",
    )


def make_backend(endpoint: Endpoint) -> OpenAiBackend:
    """The backend for an endpoint."""
    return OpenAiBackend(endpoint)
