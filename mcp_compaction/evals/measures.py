"""Tests of whether something survived: pure functions of a text and what is looked for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, assert_never

from mcp_compaction.model import Value

Test = Literal["words", "exact", "keyed", "evidence"]

_WORD = re.compile(r"\w+")
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_EVIDENCE_SHARE = 0.6
_KEY_REACH = 60  # characters between a number and the name it goes by
_STOP = frozenset(
    """a about above after again all am an and any are aren't as at be because been before being
    below between both but by can can't could couldn't did didn't do does doesn't doing don't down
    during each few for from further had hadn't has hasn't have haven't having he her here hers
    herself him himself his how i if in into is isn't it its itself just let's me more most mustn't
    my myself no nor not of off on once only or other ought our ours ourselves out over own same
    shan't she should shouldn't so some such than that the their theirs them themselves then there
    these they this those through to too under until up very was wasn't we were weren't what when
    where which while who whom why will with won't would wouldn't you your yours yourself
    yourselves s t d ll m re ve""".split()  # noqa: SIM905  # a page of quotes would not read better
)


class Probe(Value):
    """One thing that stood in a session and is looked for afterwards."""

    kind: str
    test: Test
    needle: str
    key: str = ""  # the name a number goes by
    questions: tuple[str, ...] = ()  # what an agent that misses it would ask the archive
    source: int | None = None  # the position of the message it stood in
    is_apart: bool = False  # worded in a way no detector was written for


class PlainLine(Value):
    """One message, or a sentence of it, as a simple strategy handles it."""

    role: str
    text: str


@dataclass(frozen=True)
class Context:
    """The text a model works with, made ready for many tests."""

    lines: tuple[str, ...]

    @cached_property
    def raw(self) -> str:
        """All of it in one line."""
        return " ".join(self.lines)

    @cached_property
    def normal(self) -> str:
        """The words alone, with a space on both sides."""
        return f" {normalize(self.raw)} "

    @cached_property
    def word_sets(self) -> tuple[frozenset[str], ...]:
        """The content words of each line, and of each two and three lines that follow another."""
        one = [frozenset(content_words_of(line)) for line in self.lines]
        two = [first | second for first, second in pairwise(one)]
        three = [pair | last for pair, last in zip(two, one[2:], strict=False)]
        return (*one, *two, *three)


@dataclass(frozen=True)
class Recollection:
    """The result of one recall: its passages, and the positions of their messages."""

    context: Context
    sources: frozenset[int]


def normalize(text: str) -> str:
    """A text as answers are compared: lower case, words only, no articles."""
    return " ".join(_WORD.findall(_ARTICLE.sub(" ", text.lower())))


def content_words_of(text: str) -> list[str]:
    """The words of a text that say something."""
    return [w for w in _WORD.findall(text.lower()) if len(w) > 1 and w not in _STOP]


def survives(probe: Probe, context: Context) -> bool:
    """Whether it can still be read in this context."""
    match probe.test:
        case "words":
            return f" {normalize(probe.needle)} " in context.normal
        case "exact":
            return probe.needle in context.raw
        case "keyed":
            return any(_has_keyed(line, probe.key, probe.needle) for line in context.lines)
        case "evidence":
            wanted = frozenset(content_words_of(probe.needle))
            need = max(1, _EVIDENCE_SHARE * len(wanted))
            return any(len(wanted & words) >= need for words in context.word_sets)
        case _:
            assert_never(probe.test)


def comes_back(probe: Probe, answers: Iterable[Recollection]) -> bool:
    """Whether some recall brought it: the very message for evidence, else the thing itself."""
    if probe.test == "evidence":
        return any(probe.source in answer.sources for answer in answers)
    return any(survives(probe, answer.context) for answer in answers)


def _has_keyed(line: str, key: str, number: str) -> bool:
    name = key.lower()
    for found in re.finditer(rf"(?<![\w.]){re.escape(number)}(?!\w|\.\d)", line):
        near = line[max(0, found.start() - _KEY_REACH) : found.end() + _KEY_REACH]
        if name in near.lower():
            return True
    return False
