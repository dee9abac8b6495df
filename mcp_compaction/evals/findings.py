"""Writes seeded sessions in which each finding is told once: what searches answered, what stands on
receipts, what was said in an office; and knows what to ask of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from mcp_compaction.evals.corpora import FIELDS, EvalCase, Probe, Test, line_of, make_noise
from mcp_compaction.evals.scenarios import DATES, PEOPLE
from mcp_compaction.formats import read_incoming
from mcp_compaction.model import JsonObject

CORPUS = "findings"
_STEPS = 40
_NOISE_CHARS = 400  # beside a finding
_NOISE = {field.name: field for field in FIELDS}
_PARTS = (("mill", "wheels"), ("weighhouse", "scales"), ("granary", "lofts"), ("lock", "gates"))
_SHOPS = ("Orchard Paper", "Tessel & Daughter", "Bergmann Tools", "Café Lind", "North Optics")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")


class _Step(NamedTuple):
    """What was asked of a tool or, where there is none, by the user; and what was answered."""

    tool: str
    asked: str
    answer: str
    probe: Probe


def _probe(kind: str, question: str, needle: str, test: Test = "exact") -> Probe:
    return Probe(kind=kind, test=test, needle=needle, questions=(question,))


def _search(random: Random, number: int) -> _Step:
    building, parts = _PARTS[number % len(_PARTS)]
    year, count = 1700 + 3 * number, random.randrange(3, 90)
    lines = make_noise(_NOISE["research"], random, _NOISE_CHARS)
    found = f"In {year} the {building} of Wexmouth was given {count} {parts}, the surveyor wrote."
    lines.insert(random.randrange(len(lines)), found)
    question = f"How many {parts} was the {building} of Wexmouth given in {year}?"
    # As a word: the year, which may be told beside it, has the same digits in it.
    probe = _probe("search", question, str(count), "words")
    return _Step("search", f"Wexmouth {building} {year}", " ".join(lines), probe)


def _receipt(random: Random, number: int) -> _Step:
    shop = f"{random.choice(_SHOPS)}, branch {number + 3}"
    total = f"{random.randrange(1_000, 9_999)}.{random.randrange(10, 99)}"
    items = (f"item {random.randrange(10_000, 99_999)} {n}.50" for n in range(1, 25))
    answer = "\n".join((shop, *items, f"total {total} EUR"))
    question = f"What is the total of the receipt of {shop}?"
    return _Step("read_receipt", f"R{number}", answer, _probe("receipt", question, total))


def _talk(random: Random, number: int) -> _Step:
    who = f"{PEOPLE[number % len(PEOPLE)]} {chr(65 + number // len(PEOPLE))}."
    when = f"{random.choice(_DAYS)} at {8 + number % 9}:{random.randrange(10, 60)}"
    noise = " ".join(make_noise(_NOISE["assistant"], random, _NOISE_CHARS))
    answer = f"Done: {who} comes on {when}, by {random.choice(DATES)} we decide. {noise}"
    question = f"On which day and at what time does {who} come?"
    return _Step("", f"Then invite {who}", answer, _probe("talk", question, when))


KINDS: dict[str, Callable[[Random, int], _Step]] = {
    "research": _search,
    "documents": _receipt,
    "office": _talk,
}


def make_findings(seed: int, number: int) -> Iterator[EvalCase]:
    """So many sessions, the kinds in turn."""
    for n in range(number):
        name, make = [*KINDS.items()][n % len(KINDS)]
        random = Random(f"{seed}/{CORPUS}/{n}")
        messages: list[JsonObject] = [{"role": "user", "content": "I will ask at the end."}]
        probes: list[Probe] = []
        for step in (make(random, at) for at in range(_STEPS)):
            messages += _written(step, len(messages))
            probes.append(step.probe.model_copy(update={"source": len(messages) - 1}))
        came, lines = read_incoming([*messages]), tuple(map(line_of, messages))
        yield EvalCase(CORPUS, f"{name} {n + 1}", came, lines, tuple(probes))


def _written(step: _Step, number: int) -> list[JsonObject]:
    if not step.tool:
        asked: JsonObject = {"role": "user", "content": step.asked}
        return [asked, {"role": "assistant", "content": step.answer}]
    name, given = f"toolu_{number}", {"asked": step.asked}
    call: JsonObject = {"type": "tool_use", "id": name, "name": step.tool, "input": {**given}}
    result: JsonObject = {"type": "tool_result", "tool_use_id": name, "content": step.answer}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
