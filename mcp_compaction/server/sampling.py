"""The host's model as a summarizer, for a client that still offers sampling; never the default.

The protocol lets a tool ask its host only before it has done anything: in the modern era a call
that needs an answer is made again from its start. So the first digest a compaction would ask for
is foreseen, the host is asked for that one alone, and its answer is a draft like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import anyio
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp.types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)

from mcp_compaction.compactor import Compactor
from mcp_compaction.core.digest.prompt import (
    Prompt,
    Unusable,
    answer_room,
    prompts_for,
    read_answer,
)
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.errors import SummarizerError
from mcp_compaction.model import Ask, Draft, ModelCall, SessionInfo, SummaryRequest
from mcp_compaction.ports import Summarizer
from mcp_compaction.settings import Settings
from mcp_compaction.summarizers.chain import Chain
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer

NAME = "sampling"

_MODERN = "2026-07-28"
_QUESTION = "digest"
_MOST_ROUNDS = 3  # a session that keeps changing changes the question each time
_USUAL_WINDOW = 32_000  # no host says how much its model reads
_OTHER_SPAN = "the host's model was asked for another span"


@dataclass(slots=True)
class HostModel:
    """The answer of the host's model, as a summarizer for the one span it was asked for."""

    prompt: Prompt
    window: int
    count: CountTokens
    answer: CreateMessageResult | None = None
    failed: str = ""
    seconds: float = 0.0
    name: str = NAME
    _unpaid: bool = field(default=True)

    async def summarize(self, request: SummaryRequest) -> Draft:
        """The answer as a draft; raises SummarizerError where it is none for this span."""
        if prompts_for(request, self.window, self.count) != (self.prompt,):
            raise SummarizerError(_OTHER_SPAN)
        draft = self._read_draft()
        if isinstance(draft, Unusable):
            raise SummarizerError(draft.reason, self._account(draft.reason))
        return draft.model_copy(update={"calls": self._account("")})

    def _read_draft(self) -> Draft | Unusable:
        if self.answer is None:
            return Unusable(reason=self.failed)
        return read_answer(_text_of(self.answer), self.answer.model, self.prompt.limit, self.count)

    def _account(self, failed: str) -> tuple[ModelCall, ...]:
        """The call, given only once; hosts report no tokens, so these are counted here."""
        if not self._unpaid:
            return ()
        self._unpaid = False
        said = _text_of(self.answer) if self.answer else ""
        model = self.answer.model if self.answer else NAME
        return (
            ModelCall(
                model=model,
                seconds=self.seconds,
                input_tokens=self.prompt.tokens,
                output_tokens=self.count(said),
                failed=failed,
            ),
        )


@dataclass(frozen=True, slots=True)
class NotAsked:
    """The host's model where it was not asked, and why."""

    reason: str
    name: str = NAME

    async def summarize(self, request: SummaryRequest) -> Draft:
        """No draft, whatever the request."""
        raise SummarizerError(self.reason)


async def compactor_asking_host(
    ctx: Context[Any], settings: Settings, compactor: Compactor, info: SessionInfo, ask: Ask
) -> Compactor | InputRequiredResult:
    """The compactor that asks the host's model first, where that is wanted and needed.

    An InputRequiredResult is the tool's answer: the client answers it and calls again.
    """
    if settings.summarizers[:1] != (NAME,) or ask.digest is not None:
        return compactor
    request = await compactor.foresee(info, ask)
    if request is None:
        return compactor
    if not _has_sampling(ctx):
        return _put_first(compactor, NotAsked("this host offers no sampling"))
    count = compactor.index_terms(await compactor.load(info))[1]
    window = settings.summarizer_window_tokens or _USUAL_WINDOW
    prompts = prompts_for(request, window, count)
    if len(prompts) != 1:
        return _put_first(
            compactor, NotAsked(f"the span does not fit into {window} tokens at once")
        )
    model = HostModel(prompts[0], window, count)
    if not _is_modern(ctx):
        await _ask_during_call(ctx, model, settings.summarizer_timeout_seconds)
        return _put_first(compactor, model)
    return _take_answer_or_ask(ctx, model) or _put_first(compactor, model)


def _put_first(compactor: Compactor, host: Summarizer) -> Compactor:
    def chain(own: Summarizer) -> Summarizer:
        links = [(NAME, lambda: host)]
        if not isinstance(own, ExtractiveSummarizer):  # which ends every chain anyway
            links.append((own.name, lambda: own))
        return Chain(links)

    return compactor.with_summarizer(chain)


def _has_sampling(ctx: Context[Any]) -> bool:
    capabilities = ctx.client_capabilities
    return capabilities is not None and capabilities.sampling is not None


def _is_modern(ctx: Context[Any]) -> bool:
    return (ctx.protocol_version or "") >= _MODERN


async def _ask_during_call(ctx: Context[Any], model: HostModel, seconds: float) -> None:
    """Ask in the middle of the call, as older revisions of the protocol do."""
    began = anyio.current_time()
    try:
        with anyio.fail_after(seconds):
            model.answer = await ctx.session.send_request(
                _make_request(model.prompt),
                CreateMessageResult,
                metadata=ServerMessageMetadata(related_request_id=ctx.request_id),
            )
    except TimeoutError:
        model.failed = f"no answer within {seconds:g} s"
    except (MCPError, ValueError):
        model.failed = "the host did not let its model answer"
    model.seconds = anyio.current_time() - began


def _take_answer_or_ask(ctx: Context[Any], model: HostModel) -> InputRequiredResult | None:
    """Take the answer of this round; where there is none for this very question, ask it."""
    question = sha256(_make_request(model.prompt).model_dump_json().encode()).hexdigest()
    asked, _, rounds = (ctx.request_state or "").partition(" ")
    answer = (ctx.input_responses or {}).get(_QUESTION)
    if asked == question and isinstance(answer, CreateMessageResult):
        model.answer = answer
        return None
    number = int(rounds) + 1 if rounds.isdecimal() else 1
    if number > _MOST_ROUNDS or asked == question:
        model.failed = _OTHER_SPAN if asked != question else "the host gave no answer of its model"
        return None
    return InputRequiredResult(
        input_requests={_QUESTION: _make_request(model.prompt)},
        request_state=f"{question} {number}",
    )


def _make_request(prompt: Prompt) -> CreateMessageRequest:
    # A lone surrogate in what a tool printed cannot be sent as JSON.
    said = TextContent(type="text", text=prompt.user.encode(errors="replace").decode())
    return CreateMessageRequest(
        params=CreateMessageRequestParams(
            messages=[SamplingMessage(role="user", content=said)],
            system_prompt=prompt.system,
            max_tokens=answer_room(prompt.limit),
            include_context="none",
        )
    )


def _text_of(answer: CreateMessageResult) -> str:
    return answer.content.text if isinstance(answer.content, TextContent) else ""
