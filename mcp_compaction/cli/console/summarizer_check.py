"""Asks the summarizers that the settings name for a small digest each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mcp_compaction.cli.console.screen import Tell
from mcp_compaction.core.compaction.receipt import notes_of_check
from mcp_compaction.core.digest.check.draft import Stripped, check_draft
from mcp_compaction.core.digest.extract import must_keep
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.errors import SummarizerError
from mcp_compaction.lexicon.models import SummaryPrice
from mcp_compaction.model import Message, SummaryRequest, Text, Value
from mcp_compaction.settings import Settings
from mcp_compaction.summarizers.calling import Backend, CallFailed, CallingSummarizer, Terms
from mcp_compaction.summarizers.endpoint import Endpoint
from mcp_compaction.wiring import backend_of, terms_of

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
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckedModel:
    """A model under the doctor's hands."""

    backend: Backend
    terms: Terms
    count: CountTokens


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
    return await _try_digest(found, subject)


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
