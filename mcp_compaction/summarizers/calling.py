"""Model calls of every summarizer: limits in time, retries, a fuse, accounts; one summarizer after
another."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import anyio
import anyio.to_thread

from mcp_compaction.core.digest.extract import extract
from mcp_compaction.core.digest.prompt import (
    Prompt,
    Unusable,
    answer_room,
    merge_parts,
    prompts_for,
    read_answer,
)
from mcp_compaction.core.text.secrets import redact
from mcp_compaction.core.tokens import CountTokens, family_factor, precision_of
from mcp_compaction.errors import SummarizerError
from mcp_compaction.lexicon.models import SummaryPrice
from mcp_compaction.model import Draft, ModelCall, SummaryRequest, Value
from mcp_compaction.ports import Summarizer

CONNECT_SECONDS = 5.0

_MOST_RETRIES = 2
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 8.0  # a server that wants to be left alone for longer is left alone
_FAILURES_TO_BLOW = 3
_FUSE_SECONDS = 60.0
HARDLY_LESS = 0.9  # reported input under this share of what was sent: the server cut it
_CLEARLY_LESS = 0.7
_UNKNOWN_FAMILY = 1.35  # SmolLM2 needs a third more than o200k for the same prompt


class ModelAnswer(Value):
    """The answer of a model, with the tokens that its server counted."""

    text: str
    input_tokens: int = 0  # 0: it does not say; with what came from a cache
    output_tokens: int = 0
    cached_tokens: int = 0
    refused: bool = False
    is_cut: bool = False  # it came to the end of its room before its own


class CallFailed(Exception):
    """A call that gave no answer; the words are ours and fit for a receipt."""

    def __init__(self, reason: str, *, may_retry: bool = False, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.may_retry = may_retry
        self.wait = wait  # seconds the server asked for


class Backend(Protocol):
    """One way to ask a model."""

    @property
    def name(self) -> str:
        """The backend's name in the settings."""
        ...

    @property
    def model(self) -> str:
        """The model that is asked."""
        ...

    def load(self) -> None:
        """Import what a call needs; slow the first time."""
        ...

    async def ask(self, prompt: Prompt) -> ModelAnswer:
        """The model's answer; raises CallFailed."""
        ...


@dataclass(frozen=True, slots=True)
class Terms:
    """The window, time and price of one summarizer."""

    window_tokens: int
    timeout_seconds: float = 120.0  # for one call; a local model may have to be loaded first
    total_seconds: float = 300.0  # for one summary with all its calls and pauses
    price: SummaryPrice | None = None


@dataclass(frozen=True, slots=True)
class Time:
    """The clock, pauses and chance; a test replaces them."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    chance: Callable[[], float] = random.random


@dataclass(slots=True)
class Fuse:
    """Stops asking for a while what failed several times in a row."""

    failures: int = 0
    until: float = 0.0
    last: str = ""

    def check(self, now: float) -> None:
        """Raise if the fuse has blown and the time is not over."""
        if now < self.until:
            raise SummarizerError(
                f"not asked: it failed {self.failures} times in a row ({self.last}); it is tried"
                f" again in {self.until - now:.0f} s"
            )

    def note(self, reason: str, now: float) -> None:
        """Count a failure; no reason: it went well."""
        self.failures = self.failures + 1 if reason else 0
        self.last = reason
        if self.failures >= _FAILURES_TO_BLOW:
            self.until = now + _FUSE_SECONDS


@dataclass(slots=True)
class _Summary:
    """One summary under way."""

    calls_left: int | None
    cost_left: float | None
    calls: list[ModelCall] = field(default_factory=list[ModelCall])
    drafts: list[Draft] = field(default_factory=list[Draft])

    @property
    def may_call(self) -> bool:
        return self.calls_left is None or len(self.calls) < self.calls_left


class CallingSummarizer:
    """Asks a model for each part of a span; what fails is said in words and accounted for."""

    def __init__(
        self, backend: Backend, terms: Terms, count: CountTokens, clock: Time | None = None
    ):
        self._backend = backend
        self._terms = terms
        self._count = count
        self._time = clock or Time()
        self._fuse = Fuse()
        self._owed: tuple[ModelCall, ...] = ()  # of summaries whose caller went away

    @property
    def name(self) -> str:
        """The summarizer's name on a receipt."""
        return self._backend.name

    async def summarize(self, request: SummaryRequest) -> Draft:
        """A draft from all parts that were answered; raises SummarizerError where none was."""
        self._fuse.check(self._time.now())
        prompts = self._make_prompts(request)
        # Importing a client may take seconds: neither the endpoint's fault nor other callers' wait.
        await anyio.to_thread.run_sync(self._backend.load)
        summary = _Summary(request.calls_left, request.cost_left)
        reason = await self._ask_and_note_failure(prompts, summary)
        calls, self._owed = (*self._owed, *summary.calls), ()
        if not summary.drafts:
            raise SummarizerError(reason, calls)
        span = sum(message.tokens for message in request.messages)
        draft = merge_parts(summary.drafts, min(2 * request.max_tokens, span), self._count)
        left = f"{len(prompts) - len(summary.drafts)} of {len(prompts)} parts of the span"
        note = f"{self.name}: {reason}; {left} were extracted only" if reason else ""
        return draft.model_copy(update={"note": note, "calls": calls})

    def _make_prompts(self, request: SummaryRequest) -> tuple[Prompt, ...]:
        window = self._terms.window_tokens
        # The window is in the model's own tokens, our count is not.
        counted = int(window / tokens_per_count(self._backend.model))
        prompts = prompts_for(request, counted, self._count)
        if not prompts:
            raise SummarizerError(f"a window of {window} tokens is too small for any summary")
        left = request.calls_left
        if left is not None and len(prompts) > left:
            raise SummarizerError(
                f"not asked: the span needs {len(prompts)} calls, {left} are left"
            )
        return prompts

    async def _ask_and_note_failure(self, prompts: tuple[Prompt, ...], summary: _Summary) -> str:
        """Ask, and count a caller that does not wait as a failure: its calls were made."""
        try:
            reason = await self._ask_all(prompts, summary)
        except anyio.get_cancelled_exc_class():
            self._owed += tuple(summary.calls)
            self._fuse.note("its caller did not wait", self._time.now())
            raise
        self._fuse.note(reason, self._time.now())
        return reason

    async def _ask_all(self, prompts: tuple[Prompt, ...], summary: _Summary) -> str:
        """Ask for one part after another until one fails; the reason of that failure, if any."""
        reason = f"not done within {self._terms.total_seconds:g} s"
        with anyio.move_on_after(self._terms.total_seconds):
            try:
                for prompt in prompts:
                    self._check_cost(prompt, summary)
                    summary.drafts.append(await self._ask_with_retries(prompt, summary))
            except CallFailed as failed:
                return failed.reason
            return ""
        return reason

    def _check_cost(self, prompt: Prompt, summary: _Summary) -> None:
        """Stop before a call that could go beyond what may be spent."""
        price = self._terms.price
        if price is None or summary.cost_left is None:
            return
        spent = sum(call.cost or 0.0 for call in summary.calls)
        needed = price.cost_of(prompt.tokens, 0, answer_room(prompt.limit))
        if spent + needed > summary.cost_left:
            raise CallFailed(f"a call may cost ${needed:.2f}, more than is left of the limit")

    async def _ask_with_retries(self, prompt: Prompt, summary: _Summary) -> Draft:
        """The draft of one part, with a pause and another try where that may help."""
        for retry in range(_MOST_RETRIES + 1):
            try:
                return await self._ask_once(prompt, summary)
            except CallFailed as failed:
                pause = _FIRST_PAUSE * 2**retry * (0.5 + self._time.chance() / 2)
                pause = max(pause, failed.wait or 0.0)
                if not failed.may_retry or retry == _MOST_RETRIES or not summary.may_call:
                    raise
                if pause > _LONGEST_PAUSE:
                    asked = f"{failed.reason}, and asks to wait {failed.wait:g} s"
                    raise CallFailed(asked) from failed
            await self._time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    async def _ask_once(self, prompt: Prompt, summary: _Summary) -> Draft:
        """The draft of one call, which is accounted for even where it fails."""
        began = self._time.now()
        answer, failed = ModelAnswer(text=""), "given up"
        try:
            with anyio.fail_after(self._terms.timeout_seconds):
                answer = await self._backend.ask(prompt)
            draft = self._read_draft(answer, prompt)
            failed = ""
        except TimeoutError:
            failed = f"no answer within {self._terms.timeout_seconds:g} s"
            answer = ModelAnswer(
                text="", input_tokens=prompt.tokens
            )  # it was sent, and will be billed
            raise CallFailed(failed) from None
        except CallFailed as error:
            error.reason = failed = redact(error.reason).text
            raise
        finally:
            seconds = self._time.now() - began
            summary.calls.append(self._account_for(answer, seconds, failed))
        return draft

    def _read_draft(self, answer: ModelAnswer, prompt: Prompt) -> Draft:
        if answer.refused:
            raise CallFailed("the model refused")
        # Servers that cut a long prompt say so by nothing but this number.
        if 0 < answer.input_tokens < _fewest_tokens(prompt):
            raise CallFailed(
                f"the server read {answer.input_tokens} of {prompt.tokens} tokens:"
                " its window is smaller than summarizer_window_tokens"
            )
        # The last line of an answer that was cut off says something else than was meant.
        text = answer.text.rpartition("\n")[0] if answer.is_cut else answer.text
        if answer.is_cut and not text.strip():
            raise CallFailed("the answer was cut off before it said anything")
        read = read_answer(text, self._backend.model, prompt.limit, self._count)
        if isinstance(read, Unusable):
            raise CallFailed(read.reason)
        return read

    def _account_for(self, answer: ModelAnswer, seconds: float, failed: str) -> ModelCall:
        return ModelCall(
            model=self._backend.model,
            seconds=seconds,
            input_tokens=answer.input_tokens,
            output_tokens=answer.output_tokens,
            cached_tokens=answer.cached_tokens,
            cost=self._cost_of(answer),
            failed=failed,
        )

    def _cost_of(self, answer: ModelAnswer) -> float | None:
        price = self._terms.price
        if price is None:
            return None
        return price.cost_of(answer.input_tokens, answer.cached_tokens, answer.output_tokens)


def tokens_per_count(model: str) -> float:
    """The most tokens of a model's own for one that we count; more for an unknown model."""
    is_known = precision_of("exact", model) == "exact"
    return family_factor(model) if is_known else max(family_factor(model), _UNKNOWN_FAMILY)


def _fewest_tokens(prompt: Prompt) -> float:
    """The fewest tokens a server counts that has read a whole prompt.

    Of English and code no vocabulary in use makes a tenth less than ours; of other scripts some do.
    """
    foreign = sum(not sign.isascii() for sign in prompt.user)
    is_foreign = 4 * foreign > len(prompt.user)
    return prompt.tokens * (_CLEARLY_LESS if is_foreign else HARDLY_LESS)


def failure_of_status(status: int, wait: str | None) -> CallFailed:
    """The failure an HTTP status means, in words for whoever set up the endpoint."""
    known = {
        400: "the endpoint did not understand the request (HTTP 400)",
        401: "the endpoint refused the key (HTTP 401)",
        403: "the endpoint refused the key (HTTP 403)",
        404: "the endpoint knows no such model or address (HTTP 404)",
        413: "the request was too large (HTTP 413)",
        429: "the endpoint has too many requests (HTTP 429)",
        529: "the endpoint is overloaded (HTTP 529)",
    }
    if 300 <= status < 400:
        return CallFailed(f"the endpoint points elsewhere (HTTP {status}), which is not followed")
    reason = known.get(status, f"the endpoint failed (HTTP {status})")
    seconds = float(wait) if wait is not None and wait.strip().isdigit() else None
    return CallFailed(reason, may_retry=status in (408, 429) or status >= 500, wait=seconds)


logger = logging.getLogger(__name__)

Link = Callable[[], Summarizer]


class Chain:
    """Summarizers in the order they are asked; each is made when it is first needed."""

    def __init__(self, links: Sequence[tuple[str, Link]]) -> None:
        self._links = tuple(links)
        self._made: dict[str, Summarizer] = {}

    @property
    def name(self) -> str:
        """All of them, in order."""
        return ", ".join((*(name for name, _ in self._links), "extractive"))

    async def summarize(self, request: SummaryRequest) -> Draft:
        """The first draft there is, with the reason for every fall before it."""
        reasons: list[str] = []
        calls: list[ModelCall] = []
        for name, link in self._links:
            left = {
                "calls_left": _count_calls_left(request, calls),
                "cost_left": _find_cost_left(request, calls),
            }
            asked = request.model_copy(update=left)
            try:
                draft = await self._find_summarizer(name, link).summarize(asked)
            except SummarizerError as error:
                reasons.append(f"{name}: {error}")
                calls += error.calls
            except (MemoryError, RecursionError):
                raise
            except Exception as error:  # noqa: BLE001  # the next one may do better
                logger.warning("%s failed (%s)", name, type(error).__name__)
                reasons.append(f"{name} failed ({type(error).__name__})")
            else:
                return _with_notes(draft, (*reasons, draft.note), (*calls, *draft.calls))
        return _with_notes(extract(request), (*reasons, "extracted instead"), calls)

    def _find_summarizer(self, name: str, link: Link) -> Summarizer:
        if name not in self._made:
            self._made[name] = link()
        return self._made[name]


def _count_calls_left(request: SummaryRequest, calls: Sequence[ModelCall]) -> int | None:
    return None if request.calls_left is None else max(0, request.calls_left - len(calls))


def _find_cost_left(request: SummaryRequest, calls: Sequence[ModelCall]) -> float | None:
    spent = sum(call.cost or 0.0 for call in calls)
    return None if request.cost_left is None else max(0.0, request.cost_left - spent)


def _with_notes(draft: Draft, reasons: Sequence[str], calls: Sequence[ModelCall]) -> Draft:
    note = "; ".join(filter(None, reasons))
    return draft.model_copy(update={"note": note, "calls": tuple(calls)})
