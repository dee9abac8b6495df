"""Writes seeded sessions of four kinds of work by the wordings of `wordings.toml`, and knows what
was planted in them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from mcp_compaction.evals.corpora import (
    FIELDS,
    EvalCase,
    Field,
    Probe,
    fill_blanks,
    line_of,
    make_noise,
    shuffle_things,
)
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import JsonObject, JsonValue

CORPUS = "generated"
EPISODE_TOKENS = 2_000  # about; a session is a row of episodes
MOST_EPISODES = 60  # of one session; after a few more there are no new names for things
_NOISE_CHARS = 1_500  # beside what matters, in each tool result
_MOST_OPEN = 6  # items of a plan that are open at once


class Wordings(NamedTuple):
    """Ways to say one kind of thing: common ones, and ones no pattern is likely to know."""

    common: tuple[str, ...]
    apart: tuple[str, ...]


_FILE = Path(__file__).with_name("wordings.toml")
_READ: dict[str, Any] = tomllib.loads(_FILE.read_text(encoding="utf-8"))


def _kinds(name: str) -> Wordings:
    return Wordings(tuple(_READ[name]["common"]), tuple(_READ[name]["apart"]))


def _list(name: str) -> tuple[str, ...]:
    return tuple(_READ[name])


RULES = _kinds("rules")
DECISIONS = _kinds("decisions")
REVERSALS = _kinds("reversals")
TASKS = _kinds("tasks")
DOUBTS = _kinds("doubts")
IDLE = _list("idle")  # What sounds like a rule and is none.
CHATTER = _list("chatter")  # What an agent says along the way and nobody will ask for.
REASONS = _list("reasons")
PEOPLE = _list("people")
TEAMS = _list("teams")
DATES = _list("dates")


@dataclass(frozen=True, slots=True)
class Span:
    """The messages one round adds to a session, and all that is to be known after it."""

    messages: tuple[JsonObject, ...]
    probes: tuple[Probe, ...]  # of all rounds so far


@dataclass(frozen=True, slots=True)
class _Finding:
    """A line planted in a tool's answer, and how it is looked for."""

    line: str
    probe: Probe


@dataclass
class _Writer:
    """A session in the making."""

    work: Field
    random: Random
    messages: list[JsonObject] = field(default_factory=list[JsonObject])
    planted: list[Probe] = field(default_factory=list[Probe])
    plan: list[tuple[str, str, bool]] = field(default_factory=list[tuple[str, str, bool]])
    plan_at: int = 0
    settled: list[tuple[str, str, Probe]] = field(default_factory=list[tuple[str, str, Probe]])
    pinned: str = ""
    _calls: int = 0
    _things: Iterator[str] = field(init=False)

    def __post_init__(self) -> None:
        self._things = iter(shuffle_things(self.work, self.random))

    def probes(self) -> tuple[Probe, ...]:
        """The things that should be known by now, without what was taken back or is done."""
        still_open = (
            Probe(
                kind="task",
                test="words",
                needle=text,
                questions=(f"What is left to do for the {thing}?",),
                source=self.plan_at,
            )
            for text, thing, is_done in self.plan
            if not is_done
        )
        return (*self.planted, *still_open)

    def episode(self, number: int) -> None:
        """One request of the user, and what the agent does about it."""
        thing = next(self._things)
        self._ask(thing, number)
        if self.work.has_plan:
            self._update_plan(number)
        self._read()
        if number % 3 == 1:
            self._interject(number)
        self._run(number)
        self._read(with_page=number % 3 == 0)
        self._close(thing, number)

    # Who says what

    def _ask(self, thing: str, number: int) -> None:
        parts = [fill_blanks(self.random.choice(self.work.requests), self.random, thing=thing)]
        if number % 5 in (0, 3):
            parts.insert(
                self.random.choice((0, 1)), self._state_rule(number, is_apart=number % 5 == 3)
            )
        if number % 4 == 2:
            parts.append(self._state_task(is_apart=number % 8 == 2))
        if self.random.random() < 0.5:
            parts.append(self.random.choice(IDLE))
        self._user(" ".join(parts))

    def _interject(self, number: int) -> None:
        said = self._state_rule(number, is_apart=number % 2 == 0)
        if number % 2:
            said = f"{said} {self._state_task(is_apart=number % 4 == 1)}"
        self._user(f"{self.random.choice(IDLE)} {said}")

    def _read(self, *, with_page: bool = False) -> None:
        thing = next(self._things)
        words = fill_blanks(self.random.choice(self.work.looks), self.random, thing=thing)
        tool, argument = self.work.reader
        asked, lines = self._choose_source(thing, with_page)
        if with_page:
            tool, argument = "fetch_page", "url"
        results = [*lines, self._make_number(thing)]
        if self.random.random() < 0.5:
            results.append(self._make_id_line(thing))
        self._take_step(words, tool, {argument: asked}, results)

    def _choose_source(self, thing: str, is_page: bool) -> tuple[str, list[_Finding]]:
        """The source of a reading step: a page, a file, or a mail with a file."""
        here = len(self.messages)
        if is_page:
            url = fill_blanks(self.random.choice(self.work.sites), self.random)
            self._plant("url", url, f"Which page did we read on the {thing}?", here)
            return url, []
        path = self._make_path()
        question = f"Which file is about the {thing}?"
        if self.work.reader[1] != "query":
            self._plant("path", path, question, here)
            return path, []
        probe = Probe(kind="path", test="exact", needle=path, questions=(question,))
        return thing, [_Finding(f"attached on the {thing}: {path}", probe)]

    def _run(self, number: int) -> None:
        thing = next(self._things)
        purpose, line = self.random.choice(self.work.commands)
        purpose = fill_blanks(purpose, self.random, thing=thing)
        command = fill_blanks(line, self.random, path=self._make_path())
        self._plant(
            "command", command, f"Which command did we use to {purpose}?", len(self.messages)
        )
        results = [self._make_number(thing)]
        if number % 2:
            error = fill_blanks(self.random.choice(self.work.errors), self.random)
            question = f"Which error did we see when we wanted to {purpose}?"
            results.append(_Finding(error, _exact_probe("error", error, question)))
        ending = f"exit code {number % 2}"
        self._take_step(f"Now I {purpose}.", "bash", {"command": command}, results, ending)

    def _close(self, thing: str, number: int) -> None:
        said = [f"I went through what there is on the {thing}."]
        here = len(self.messages)
        if number % 2 == 0:
            said.append(self._state_decision(thing, here))
        if number % 4 == 3 and self.settled:
            said.append(self._reverse_decision(here))
        if number % 3 == 2:
            about = f"the {next(self._things)}"
            is_apart = number % 2 == 0
            text = self._fill_wording(DOUBTS, about, is_apart=is_apart)
            self._plant("doubt", text, f"What were we unsure about with {about}?", here, "words")
            self._make_mark(is_apart)
            said.append(text)
        if number % 2:
            finding = self._make_id_line(thing)
            self.planted.append(finding.probe.model_copy(update={"source": here}))
            said.append(f"For the record: {finding.line}.")
        for sentence in self._make_chatter(8):
            said.insert(self.random.randrange(1, len(said) + 1), sentence)
        self._say([{"type": "text", "text": " ".join(said)}])

    # What is planted

    def _state_rule(self, number: int, *, is_apart: bool) -> str:
        about = f"the {next(self._things)}"
        text = self._fill_wording(RULES, about, is_apart=is_apart)
        self._plant("rule", text, f"What did I say about {about}?", len(self.messages), "words")
        if number == 0:
            self.pinned = text
        self._make_mark(is_apart)
        return text

    def _state_task(self, *, is_apart: bool) -> str:
        about = f"the {next(self._things)}"
        text = self._fill_wording(TASKS, about, is_apart=is_apart)
        question = f"What is left to do for {about}?"
        self._plant("task", text, question, len(self.messages), "words")
        self._make_mark(is_apart)
        return text

    def _state_decision(self, thing: str, here: int) -> str:
        choice, other = self.random.sample(self.work.choices, 2)
        is_apart = self.random.random() < 0.35
        text = self._fill_wording(
            DECISIONS, f"the {thing}", is_apart=is_apart, choice=choice, other=other
        )
        self._plant("decision", text, f"What did we decide about the {thing}?", here, "words")
        self._make_mark(is_apart)
        self.settled.append((thing, choice, self.planted[-1]))
        return text

    def _reverse_decision(self, here: int) -> str:
        thing, old, probe = self.settled.pop(0)
        self.planted.remove(probe)
        choice = self.random.choice([c for c in self.work.choices if c != old])
        is_apart = self.random.random() < 0.35
        text = self._fill_wording(
            REVERSALS, f"the {thing}", is_apart=is_apart, choice=choice, old=old
        )
        self._plant("reversal", text, f"What did we decide about the {thing}?", here, "words")
        self._make_mark(is_apart)
        return text

    def _make_number(self, thing: str) -> _Finding:
        key = self.random.choice(self.work.measures)
        value = str(self.random.randrange(1_013, 98_765))
        line = self.random.choice(
            (f"{key}: {value}", f"{key}={value}", f'  "{key}": {value},',
             f"{key} of the {thing} is {value}", f"[{thing}] {key} = {value}")
        )  # fmt: skip
        question = f"What was {key} of the {thing}?"
        return _Finding(
            line, Probe(kind="number", test="keyed", needle=value, key=key, questions=(question,))
        )

    def _make_id_line(self, thing: str) -> _Finding:
        label = self.random.choice(self.work.labels)
        name = self.random.choice(
            (
                f"{''.join(self.random.choices('ABCDEFGHKLMNPRST', k=3))}-{self._make_digits(4)}",
                "".join(self.random.choices("0123456789abcdef", k=8)) + "a1",
                "Q"
                + "".join(self.random.choices("ABCDEFGHJKLMNP", k=2))
                + self._make_digits(2)
                + "KX",
            )
        )
        question = f"What is the {label} of the {thing}?"
        return _Finding(f"the {label} of the {thing} is {name}", _exact_probe("id", name, question))

    def _update_plan(self, number: int) -> None:
        thing = next(self._things)
        opened = [n for n, (_, _, is_done) in enumerate(self.plan) if not is_done]
        if len(opened) >= _MOST_OPEN or (opened and number % 3 == 2):
            text, about, _ = self.plan[opened[0]]
            self.plan[opened[0]] = (text, about, True)
        job = self.random.choice(self.work.jobs)
        self.plan.append((f"{job} for the {thing}", thing, False))
        self.plan_at = len(self.messages)
        todos: list[JsonValue] = [
            {"content": text, "status": "completed" if is_done else "pending"}
            for text, _, is_done in self.plan
        ]
        self._call("", "todo_write", {"todos": todos})
        self._answer("The list is saved.")

    # How it is written down

    def _fill_wording(self, ways: Wordings, about: str, *, is_apart: bool, **known: str) -> str:
        pattern = self.random.choice(ways.apart if is_apart else ways.common)
        blanks = {
            "act": self.random.choice(self.work.acts),
            "job": self.random.choice(self.work.jobs),
            "person": self.random.choice(PEOPLE),
            "team": self.random.choice(TEAMS),
            "when": self.random.choice(DATES),
            "why": self.random.choice(REASONS),
            "amount": str(self.random.randrange(120, 9_900)),
        }
        return fill_blanks(pattern, self.random, **{**blanks, "thing": about, **known})

    def _plant(
        self, kind: str, needle: str, question: str, source: int, test: str = "exact"
    ) -> None:
        probe = _exact_probe(kind, needle, question)
        update = {"source": source, "test": test}
        self.planted.append(probe.model_copy(update=update))

    def _make_mark(self, is_apart: bool) -> None:
        self.planted[-1] = self.planted[-1].model_copy(update={"is_apart": is_apart})

    def _take_step(
        self,
        words: str,
        tool: str,
        arguments: JsonObject,
        results: list[_Finding],
        ending: str = "",
    ) -> None:
        self._call(" ".join([words, *self._make_chatter(2)]), tool, arguments)
        lines = make_noise(self.work, self.random, _NOISE_CHARS)
        for finding in results:
            lines.insert(self.random.randrange(len(lines)), finding.line)
            probe = finding.probe.model_copy(update={"source": len(self.messages)})
            self.planted.append(probe)
        self._answer("\n".join([*lines, ending] if ending else lines))

    def _call(self, words: str, tool: str, arguments: JsonObject) -> None:
        self._calls += 1
        call: JsonObject = {
            "type": "tool_use",
            "id": f"toolu_{self._calls:05}",
            "name": tool,
            "input": arguments,
        }
        said: list[JsonValue] = [{"type": "text", "text": words}] if words else []
        self._say([*said, call])

    def _say(self, content: list[JsonValue]) -> None:
        self.messages.append({"role": "assistant", "content": content})

    def _answer(self, text: str) -> None:
        result: JsonObject = {
            "type": "tool_result",
            "tool_use_id": f"toolu_{self._calls:05}",
            "content": text,
        }
        self.messages.append({"role": "user", "content": [result]})

    def _user(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def _make_chatter(self, number: int) -> list[str]:
        return [
            fill_blanks(pattern, self.random) for pattern in self.random.sample(CHATTER, number)
        ]

    def _make_path(self) -> str:
        folder = self.random.choice(self.work.folders)
        name = fill_blanks("{word}_{noun}", self.random)
        return f"{folder}/{name}{self._make_digits(2)}{self.random.choice(self.work.endings)}"

    def _make_digits(self, size: int) -> str:
        return "".join(self.random.choices("123456789", k=size))


def make_sessions(seed: int, number: int, tokens: int) -> tuple[EvalCase, ...]:
    """Sessions of about that many tokens each, the kinds of work in turn."""
    cases: list[EvalCase] = []
    for n in range(number):
        writer = _make_writer(seed, n, "session")
        for episode in range(max(1, round(tokens / EPISODE_TOKENS))):
            writer.episode(episode)
        case = EvalCase(
            corpus=CORPUS,
            name=f"{writer.work.name} {n + 1}",
            came=read_incoming([*writer.messages]),
            lines=tuple(line_of(message) for message in writer.messages),
            probes=writer.probes(),
            pins=(writer.pinned,),
        )
        cases.append(case)
    return tuple(cases)


def grow_session(seed: int, work: int, rounds: int, episodes: int) -> Iterator[Span]:
    """One session that grows by a span of equal size in every round."""
    writer = _make_writer(seed, work, "growing")
    for number in range(rounds):
        start = len(writer.messages)
        for episode in range(number * episodes, (number + 1) * episodes):
            writer.episode(episode)
        yield Span(tuple(writer.messages[start:]), writer.probes())


def _make_writer(seed: int, number: int, what: str) -> _Writer:
    return _Writer(FIELDS[number % len(FIELDS)], Random(f"{seed}/{what}/{number}"))


def _exact_probe(kind: str, needle: str, question: str) -> Probe:
    return Probe(kind=kind, test="exact", needle=needle, questions=(question,))
