"""Has a model answer questions from views, and grades its answers by rule: what a reader finds in
each of them, with and without one recall of its own."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Literal, NamedTuple

import anyio

from mcp_compaction.core.digest.prompt import Prompt, answer_room
from mcp_compaction.core.text.secrets import redact
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.wording import kilo, plural
from mcp_compaction.evals.corpora import content_words_of, normalize
from mcp_compaction.evals.pages import Table
from mcp_compaction.evals.results import PRODUCT, format_share
from mcp_compaction.lexicon.models import SummaryPrice
from mcp_compaction.model import JsonValue, Value
from mcp_compaction.summarizers.calling import Backend, CallFailed, ModelAnswer, tokens_per_count

WITH_RECALL = f"{PRODUCT}, may recall"
_ANSWER_TOKENS = 80
_MOST_TRIES = 3
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0  # seconds
_CLOSE = 0.6  # of the telling words of what was said
_SHORTEST_NAME = 5  # of a file, by which it is known without its folder
_ASKS = "RECALL:"
_TASK = (
    "You take over a piece of work. All that you know of it stands between the two lines below. "
    "Answer the question in one line, with what is asked and nothing else, in the words that stand "
    "there. Where nothing there tells it, answer UNKNOWN."
)
_MAY_RECALL = (
    f" Before that you may answer once with {_ASKS} and a few words to look for: the passages of "
    "the whole record that fit them best are then added."
)

Recall = Callable[[str], Awaitable[str]]
Tell = Callable[[float, str], None]


class AskedOfView(Value):
    """What is asked, and by which rule an answer is right."""

    kind: str
    text: str
    answer: str
    test: Literal["words", "exact", "path", "close"] = "words"

    def is_answered_by(self, said: str) -> bool:
        """Whether the first line that was said has the answer."""
        line = next((line.strip() for line in said.splitlines() if line.strip()), "")
        match self.test:
            case "words":
                return f" {normalize(self.answer)} " in f" {normalize(line)} "
            case "exact":
                return self.answer in line
            case "path":
                name = self.answer.rpartition("/")[2]
                return self.answer in line or (len(name) >= _SHORTEST_NAME and name in line)
            case "close":
                wanted = frozenset(content_words_of(self.answer))
                return len(wanted & {*content_words_of(line)}) >= max(1, _CLOSE * len(wanted))


class ReadCase(NamedTuple):
    """One session: its questions, the views of it by the way they were made, and its archive."""

    name: str
    questions: Sequence[AskedOfView]
    views: Mapping[str, str]
    recall: Recall


class ModelSaid(Value):
    """What a model said, and what it took."""

    text: str
    read: int  # tokens, with what came from a provider's cache
    cached: int
    wrote: int
    cost: float | None  # dollars; None: nobody knows its price
    seconds: float


class ReadOfView(Value):
    """What became of one question asked of one view."""

    case: str
    number: int  # of the question
    kind: str
    way: str
    is_right: bool
    recalled: bool
    took: tuple[ModelSaid, ...]

    @property
    def cost(self) -> float:
        """Dollars, as far as the price is known."""
        return sum(one.cost or 0.0 for one in self.took)


class ReadingReport(Value):
    """All answers, and why no more were asked for."""

    model: str
    readings: tuple[ReadOfView, ...]
    ways: tuple[tuple[str, int], ...]  # how many views each case has
    calls: int  # made now
    known: int  # answers that an earlier run had paid for
    spent: float | None
    stopped: str = ""

    @property
    def whole(self) -> tuple[ReadOfView, ...]:
        """The answers to questions that were asked of every view: only these are compared."""
        ways = dict(self.ways)
        had = Counter((one.case, one.number) for one in self.readings)
        return tuple(o for o in self.readings if had[o.case, o.number] == ways[o.case])


class Stopped(Exception):
    """Why no more is asked; the answers so far are kept."""


@dataclass
class Reader:
    """One model, what may be spent on it, and the answers that are known already."""

    backend: Backend
    count: CountTokens
    price: SummaryPrice | None = None
    most_cost: float | None = None  # dollars
    most_calls: int | None = None
    only: Sequence[str] = ()  # the ways whose views are read; all, where none is named
    answers: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    keep: Callable[[], None] = lambda: None  # the answers, where they outlast the run
    seconds: float = 300.0  # for one call
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    calls: int = 0
    known: int = 0
    spent: float = 0.0

    async def ask(self, system: str, user: str) -> ModelSaid:
        """The answer of the model, or the one it gave before; raises Stopped. Secrets of known
        kinds are masked before they leave."""
        system, user = redact(system).text, redact(user).text
        asked = json.dumps((self.backend.name, self.backend.model, system, user, _ANSWER_TOKENS))
        name = hashlib.sha256(asked.encode()).hexdigest()
        if name in self.answers:
            self.known += 1
            return ModelSaid.model_validate(self.answers[name])
        tokens = ceil(self.count(f"{system}\n{user}") * tokens_per_count(self.backend.model))
        self._check_room(tokens)
        prompt = Prompt(system=system, user=user, limit=_ANSWER_TOKENS, tokens=tokens)
        began = time.perf_counter()
        answer = await self._ask_with_retries(prompt)
        cost = self._cost_of(answer)
        self.spent += cost or 0.0
        answered = ModelSaid(
            text=redact(answer.text).text,
            read=answer.input_tokens,
            cached=answer.cached_tokens,
            wrote=answer.output_tokens,
            cost=cost,
            seconds=round(time.perf_counter() - began, 3),
        )
        self.answers[name] = answered.model_dump(mode="json")
        self.keep()
        return answered

    def _check_room(self, tokens: int) -> None:
        if self.most_calls is not None and self.calls >= self.most_calls:
            raise Stopped(f"{plural(self.calls, 'call')} were made, as many as may be")
        if self.most_cost is None or self.price is None:
            return
        needed = self.price.cost_of(tokens, 0, answer_room(_ANSWER_TOKENS))
        if self.spent + needed > self.most_cost:
            raise Stopped(
                f"${self.spent:.4f} of ${self.most_cost:.2f} are spent, and the next call may "
                f"cost ${needed:.4f}"
            )

    def _cost_of(self, answer: ModelAnswer) -> float | None:
        if self.price is None:
            return None
        return self.price.cost_of(answer.input_tokens, answer.cached_tokens, answer.output_tokens)

    async def _ask_with_retries(self, prompt: Prompt) -> ModelAnswer:
        for number in range(_MOST_TRIES):
            if number:
                self._check_room(prompt.tokens)
            self.calls += 1
            try:
                with anyio.fail_after(self.seconds):
                    return await self.backend.ask(prompt)
            except TimeoutError:
                # It was sent, and will be billed.
                sent = ModelAnswer(text="", input_tokens=prompt.tokens)
                self.spent += self._cost_of(sent) or 0.0
                raise Stopped(f"no answer within {self.seconds:g} s") from None
            except CallFailed as failed:
                pause = max(_FIRST_PAUSE * 2**number, failed.wait or 0.0)
                may_retry = failed.may_retry and number + 1 < _MOST_TRIES
                if not may_retry or pause > _LONGEST_PAUSE:
                    raise Stopped(redact(failed.reason).text) from None
            await self.sleep(pause)
        raise AssertionError("the last try returns or raises")


async def read_cases(cases: AsyncIterator[ReadCase], reader: Reader, tell: Tell) -> ReadingReport:
    """Ask every question of every view, one view after another, as far as the budget reaches."""
    readings: list[ReadOfView] = []
    number_of_ways: dict[str, int] = {}
    stopped = ""
    await anyio.to_thread.run_sync(reader.backend.load)
    try:
        async for case in cases:
            ways = reader.only or [*case.views, *([WITH_RECALL] if PRODUCT in case.views else [])]
            number_of_ways[case.name] = len(ways)
            for place, way in enumerate(ways):
                spent = f", ${reader.spent:.2f}" if reader.price is not None else ""
                tell(100 * place / len(ways), f"{case.name}: {way}{spent}")
                for number, question in enumerate(case.questions):
                    took = await _read(case, way, question, reader)
                    readings.append(
                        ReadOfView(
                            case=case.name,
                            number=number,
                            kind=question.kind,
                            way=way,
                            is_right=question.is_answered_by(took[-1].text),
                            recalled=len(took) > 1,
                            took=took,
                        )
                    )
    except Stopped as stop:
        stopped = str(stop)
    return ReadingReport(
        model=reader.backend.model,
        readings=tuple(readings),
        ways=tuple(number_of_ways.items()),
        calls=reader.calls,
        known=reader.known,
        spent=None if reader.price is None else reader.spent,
        stopped=stopped,
    )


async def _read(
    case: ReadCase, way: str, question: AskedOfView, reader: Reader
) -> tuple[ModelSaid, ...]:
    """The answers to one question of one view: a second one where the model wants to recall."""
    may_recall = way == WITH_RECALL
    view = case.views[PRODUCT if may_recall else way]
    task = _TASK + (_MAY_RECALL if may_recall else "")
    system = f"{task}\n-----\n{view}\n-----"
    first = await reader.ask(system, question.text)
    wanted = _wanted_in(first.text) if may_recall else ""
    if not wanted:
        return (first,)
    passages = await case.recall(wanted)
    more = f"{question.text}\n\nThe record has on {wanted!r}:\n{passages}\n\nAnswer now."
    return first, await reader.ask(f"{_TASK}\n-----\n{view}\n-----", more)


def _wanted_in(said: str) -> str:
    """The words that the model wants to have looked for."""
    line = said.strip().partition("\n")[0]
    return line.removeprefix(_ASKS).strip() if line.startswith(_ASKS) else ""


def table_of(report: ReadingReport) -> Table:
    """A row for each way: what was answered rightly by kind of question, and what it took."""
    found = report.whole
    asked = Counter(one.kind for one in found if one.way == found[0].way)
    costs = ["dollars"] if report.spent is not None else []
    titles = [f"{kind} ({asked[kind]})" for kind in asked]
    rows = [("", *titles, "all", "recalled", "tokens read", "written", "seconds", *costs)]
    for way in dict.fromkeys(one.way for one in found):
        of_way = [one for one in found if one.way == way]
        took = [answered for one in of_way for answered in one.took]
        rows.append(
            (
                way,
                *(_share([one for one in of_way if one.kind == kind]) for kind in asked),
                _share(of_way),
                str(sum(one.recalled for one in of_way)),
                kilo(sum(one.read for one in took)),
                kilo(sum(one.wrote for one in took)),
                f"{sum(one.seconds for one in took):.1f}",
                *(f"{sum(one.cost for one in of_way):.4f}" for _ in costs),
            )
        )
    return rows


def _share(found: Sequence[ReadOfView]) -> str:
    return format_share(sum(one.is_right for one in found) / len(found)) if found else ""
