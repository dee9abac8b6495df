"""Asks the summarizers that the settings name, and finds out what each of them can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import anyio
import anyio.to_thread

from mcp_compaction.cli.console.waiting import Tell
from mcp_compaction.core.compaction.receipt.notes import notes_of_check
from mcp_compaction.core.digest.check.draft import Stripped, check_draft
from mcp_compaction.core.digest.extract import must_keep
from mcp_compaction.core.digest.prompt import Prompt, answer_room
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.errors import SummarizerError
from mcp_compaction.model import Message, SummaryRequest, Text, Value
from mcp_compaction.settings import Settings
from mcp_compaction.summarizers.calling import (
    HARDLY_LESS,
    Backend,
    CallFailed,
    CallingSummarizer,
    ModelAnswer,
    Terms,
    tokens_per_count,
)
from mcp_compaction.summarizers.endpoint import Endpoint
from mcp_compaction.summarizers.price import SummaryPrice
from mcp_compaction.wiring import backend_of, terms_of

_ANSWER = 64  # tokens that naming the codes takes
_BESIDE = answer_room(_ANSWER) + 32  # what a window holds beside a prompt
_MOST_HALVINGS = 2

_DEPTHS = (0.02, 0.25, 0.5, 0.75, 0.98)
_CODES = ("KESTREL-4183", "LAGOON-7052", "MARBLE-2967", "NUTMEG-8341", "ORCHID-5718")
_QUESTION = (
    "Somewhere in the log that follows, some lines name a code. Answer with all the codes that are"
    " named in it, one on each line, and with nothing else."
)

_TALK = (
    ("user", "The limiter in src/limiter.py lets bursts through. Find out why and mend it."),
    ("assistant", "I read src/limiter.py. The bucket is filled by the clock of each worker, and "
     "four workers run, so that a client gets four times its rate. I will keep the bucket in "
     "Redis under the key rate:{client}, and fill it there by one script."),
    ("user", "Good. Never touch config/production.yaml, whatever the tests say."),
    ("assistant", "I wrote the script to src/limiter.lua and changed src/limiter.py to call it. "
     "pytest tests/test_limiter.py gave 2 failed, 11 passed: test_burst expects 40 requests a "
     "second where the limit is 10, and test_idle waits for a clock that no longer exists."),
    ("assistant", "I decided to change test_burst, since its number came from the fault itself: "
     "four workers of ten. test_idle now moves the clock of the fake Redis. pytest "
     "tests/test_limiter.py gave 13 passed in 4.2 s."),
    ("user", "What is left?"),
    ("assistant", "The load test at 200 clients is still to be run, and I am not sure whether "
     "the script is fast enough there: one call took 0.8 ms on this machine. After that the "
     "change can be merged."),
)  # fmt: skip


class ModelWindow(Value):
    """The window of a model: how much of a long prompt it really reads."""

    configured: int
    largest: int  # the largest prompt that was tried, by our count
    reads: int | None = None  # None: all of it, as far as can be told
    found: tuple[str, ...] = ()  # which codes of the largest prompt it named
    is_counted: bool = False  # the server says how much it read
    problem: str = ""


class Checkup(Value):
    """The result of checking one summarizer."""

    name: str
    endpoint: str
    is_local: bool
    model: str
    key: str  # where it comes from, never the key
    price: SummaryPrice | None
    seconds: float | None = None  # of the small call
    is_usable: bool = False  # it answered with a digest that parsed and verified
    left_out: tuple[str, ...] = ()  # what of its lines was not believed
    window: ModelWindow | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckedModel:
    """A model under the doctor's hands."""

    backend: Backend
    terms: Terms
    count: CountTokens


@dataclass(frozen=True, slots=True)
class _Reading:
    """The answer to one long prompt."""

    sent: int
    reported: int  # 0: the server does not say
    found: tuple[str, ...]

    @property
    def is_cut(self) -> bool:
        """Whether the server left out a part without a word."""
        if self.reported:
            return self.reported < HARDLY_LESS * self.sent
        return _CODES[0] not in self.found and _CODES[-1] in self.found


async def check_summarizers(
    settings: Settings, environ: Mapping[str, str], count: CountTokens, tell: Tell
) -> tuple[Checkup, ...]:
    """A checkup of every summarizer that calls an endpoint, in the order they are asked."""
    names = [name for name in settings.summarizers if name in ("anthropic", "openai")]
    found: list[Checkup] = []
    for name in names:
        endpoint, backend = backend_of(name, settings, environ)
        subject = CheckedModel(backend, terms_of(settings), count)
        found.append(await _check_endpoint(endpoint, subject, tell))
    return tuple(found)


async def _check_endpoint(endpoint: Endpoint, subject: CheckedModel, tell: Tell) -> Checkup:
    name = subject.backend.name
    key, problem = _source_of_key(endpoint, name)
    found = Checkup(
        name=name,
        endpoint=endpoint.base_url,
        is_local=endpoint.is_local,
        model=endpoint.model,
        key=key,
        price=subject.terms.price,
        problems=(problem,) if problem else (),
    )
    if problem:
        return found
    tell(f"{name}: a small digest")
    found = await _try_digest(found, subject)
    if found.seconds is None:
        return found  # nobody is there, or nobody lets us in: a longer prompt would not help
    window = await measure_window(subject, tell)
    problems = (*found.problems, *((window.problem,) if window.problem else ()))
    return found.model_copy(update={"window": window, "problems": problems})


def _source_of_key(endpoint: Endpoint, name: str) -> tuple[str, str]:
    """The source of the key, and what is wrong with it."""
    try:
        key = endpoint.key()
        endpoint.needed_key()
    except CallFailed as failed:
        return "none", failed.reason
    if not key:
        return "none is sent", ""
    of_file = endpoint.key_file is not None
    return ("from summarizer_key_file" if of_file else f"from {name.upper()}_API_KEY"), ""


# A small digest


async def _try_digest(found: Checkup, subject: CheckedModel) -> Checkup:
    request = _make_request(subject.count)
    asked = CallingSummarizer(subject.backend, subject.terms, subject.count)
    try:
        draft = await asked.summarize(request)
    except SummarizerError as error:
        answered = [call.seconds for call in error.calls if call.output_tokens]
        return found.model_copy(
            update={
                "seconds": answered[-1] if answered else None,
                "problems": (*found.problems, str(error)),
            }
        )
    checked = check_draft(draft, request, subject.count)
    is_usable, notes = isinstance(checked, Stripped), notes_of_check(checked)
    return found.model_copy(
        update={
            "seconds": draft.calls[-1].seconds,
            "is_usable": is_usable,
            "left_out": notes if is_usable else (),
            "problems": found.problems if is_usable else (*found.problems, *notes),
        }
    )


def _make_request(count: CountTokens) -> SummaryRequest:
    messages = tuple(
        Message(
            seq=seq,
            role="user" if role == "user" else "assistant",
            parts=(Text(text=text),),
            shape="anthropic",
            raw="{}",
            tokens=count(text),
        )
        for seq, (role, text) in enumerate(_TALK, start=1)
    )
    return SummaryRequest(
        first=1,
        last=len(messages),
        messages=messages,
        must_keep=must_keep(messages, ""),
        max_tokens=300,
    )


# Its true window


async def measure_window(subject: CheckedModel, tell: Tell) -> ModelWindow:
    """The window a model really reads: tried by a quarter of it, all of it, then in between."""
    configured = subject.terms.window_tokens
    most = int((configured - _BESIDE) / tokens_per_count(subject.backend.model))
    whole, reading, problem = 0, None, ""
    for size in (most // 4, most):
        reading, problem = await _read(subject, size, tell)
        if reading is None or reading.is_cut:
            break
        whole = size
    if whole == most:
        found, is_counted = (reading.found, reading.reported > 0) if reading else ((), False)
        return ModelWindow(configured=configured, largest=most, found=found, is_counted=is_counted)
    if reading is not None and reading.reported:
        reads = reading.reported
    else:
        whole = await _search_between(subject, whole, most, tell)
        # A window that keeps the summarizer's prompts as small as the one that was read.
        reads = int(whole * tokens_per_count(subject.backend.model)) + _BESIDE if whole else 0
    return ModelWindow(
        configured=configured,
        largest=reading.sent if reading else most,
        reads=reads,
        found=reading.found if reading else (),
        problem=_explain_limit(reads, problem),
    )


async def _search_between(subject: CheckedModel, whole: int, cut: int, tell: Tell) -> int:
    """The largest prompt read whole that a few more calls find."""
    for _ in range(_MOST_HALVINGS if whole else 0):
        size = (whole + cut) // 2
        reading, _problem = await _read(subject, size, tell)
        if reading is None or reading.is_cut:
            cut = size
        else:
            whole = size
    return whole


def _explain_limit(reads: int, problem: str) -> str:
    if not reads:
        return problem or "even a short prompt was cut silently: give the model a larger window"
    how = f"a longer prompt failed: {problem}" if problem else "a longer prompt was cut silently"
    return f"reads {reads:,} tokens; {how}: set summarizer_window_tokens = {reads}"


async def _read(subject: CheckedModel, size: int, tell: Tell) -> tuple[_Reading | None, str]:
    """The codes a model finds in a prompt of that size, or why it did not answer."""
    prompt = _make_haystack(size, subject.count)
    tell(f"{subject.backend.name}: a prompt of {prompt.tokens:,} tokens")
    try:
        answer = await _ask(subject, prompt)
    except CallFailed as failed:
        return None, failed.reason
    found = tuple(code for code in _CODES if code.lower() in answer.text.lower())
    return _Reading(prompt.tokens, answer.input_tokens, found), ""


async def _ask(subject: CheckedModel, prompt: Prompt) -> ModelAnswer:
    await anyio.to_thread.run_sync(subject.backend.load)
    try:
        with anyio.fail_after(subject.terms.timeout_seconds):
            return await subject.backend.ask(prompt)
    except TimeoutError:
        reason = f"no answer within {subject.terms.timeout_seconds:g} s"
        raise CallFailed(reason) from None


def _make_haystack(size: int, count: CountTokens) -> Prompt:
    """A log of that many tokens in which five lines, from its start to its end, name a code."""
    per_line = count(_log_line_of(10_000)) + 1
    lines = [
        _log_line_of(10_000 + n) for n in range(max(10, (size - count(_QUESTION)) // per_line))
    ]
    for depth, code in zip(_DEPTHS, _CODES, strict=True):
        at = int(depth * len(lines))
        lines[at] = f"{lines[at].partition(' ')[0]} the code is {code}"
    user = "\n".join(lines)
    tokens = count(_QUESTION) + count(user)
    return Prompt(system=_QUESTION, user=user, limit=_ANSWER, tokens=tokens)


def _log_line_of(number: int) -> str:
    return f"{number} the night job copied one batch and found nothing new in it"


# In words


def explain_choice(settings: Settings) -> str:
    """The summarizers that write digests, and the setting that says so."""
    order = [name for name in settings.summarizers if name != "extractive"]
    chosen = ", then ".join((*order, "what is extracted by rules"))
    if settings.summarizer.strip() != "auto":
        return f"{chosen} (summarizer = {settings.summarizer})"
    model = "summarizer_model is set" if order else "no summarizer_model is set"
    return f"{chosen} (summarizer = auto, and {model})"


def rows_of_checkup(found: Checkup) -> Sequence[tuple[str, str]]:
    """A checkup as rows: what was looked at, and what was found."""
    where = "on this machine" if found.is_local else "it leaves this machine"
    rows = [
        ("endpoint", f"{found.endpoint} ({where})"),
        ("model", found.model),
        ("key", found.key),
        ("price", _describe_price(found)),
    ]
    if found.seconds is not None:
        rows.append(("small call", f"{1000 * found.seconds:,.0f} ms; {_describe_digest(found)}"))
    if found.window is not None:
        rows.append(("window", _describe_window(found.window)))
    return rows


def _describe_price(found: Checkup) -> str:
    if found.price is None:
        return (
            "unknown, so that no cost is counted: write "
            f'[summarizer_prices."{found.model}"] to the settings file'
        )
    cached = "" if found.price.cached is None else f", ${found.price.cached:g} cached"
    return f"${found.price.input:g} in, ${found.price.output:g} out{cached} a million tokens"


def _describe_digest(found: Checkup) -> str:
    if not found.is_usable:
        return "the answer was no digest"
    less = f", but {'; '.join(found.left_out)}" if found.left_out else ""
    return f"the answer parsed and verified{less}"


def _describe_window(window: ModelWindow) -> str:
    if window.problem:
        return f"not the {window.configured:,} tokens that are set, see below"
    if not window.found:
        counted = "counted it whole" if window.is_counted else "counts nothing"
        return (
            f"of a prompt of {window.largest:,} tokens the model named none of {len(_CODES)} codes;"
            f" the server {counted}"
        )
    said = f"a prompt of {window.largest:,} tokens was read whole, as {window.configured:,} promise"
    missed = [
        f"{100 * depth:.0f} %"
        for depth, code in zip(_DEPTHS, _CODES, strict=True)
        if code not in window.found
    ]
    if missed:
        said += f"; it overlooked what stands at {', '.join(missed)} of it"
    return said
