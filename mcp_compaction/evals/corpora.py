"""The sessions to measure with: LoCoMo chats and tau-bench runs from a path, the material of the
generated ones, and what of each a view still shows.
"""

from __future__ import annotations

import gzip
import json
import re
import tomllib
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Literal, assert_never, cast

from mcp_compaction.core.log.content import text_of
from mcp_compaction.errors import InputError
from mcp_compaction.formats import Incoming, read, read_incoming
from mcp_compaction.model import JsonObject, ToolCall, Value

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

_CUT = 0.6  # how much of a run is compacted; what comes later asks for it
_FEWEST_MESSAGES = 6
_ADVERSARIAL = "5"  # LoCoMo's questions without an answer
_TURN = re.compile(r"D:?(\d+):(\d+)")  # some are joined or misspelled: D8:6; D9:17, D:11:26
_TELLING = re.compile(r"\d|_")

_Json = dict[str, Any]


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


@dataclass(frozen=True, slots=True)
class Field:
    """One kind of work."""

    name: str
    things: tuple[str, ...]  # each becomes unique by a word before it
    acts: tuple[str, ...]
    jobs: tuple[str, ...]
    choices: tuple[str, ...]
    requests: tuple[str, ...]
    looks: tuple[str, ...]  # what an agent says before it reads something
    folders: tuple[str, ...]
    endings: tuple[str, ...]  # of file names
    commands: tuple[tuple[str, str], ...]  # what for, and the line
    measures: tuple[str, ...]
    errors: tuple[str, ...]
    labels: tuple[str, ...]  # what an id is of
    sites: tuple[str, ...]
    noise: tuple[str, ...]
    reader: tuple[str, str]  # the tool that reads, and its argument
    has_plan: bool = True


def _freeze(value: Any) -> Any:
    return tuple(map(_freeze, cast("list[Any]", value))) if isinstance(value, list) else value


_READ = tomllib.loads(Path(__file__).with_name("material.toml").read_text(encoding="utf-8"))
_COLORS, _NOUNS = _freeze(_READ["colors"]), _freeze(_READ["nouns"])
# Real output is full of names that stand in it once; without them a rare word would give away
# what was planted.
_SYLLABLES = _freeze(_READ["syllables"])
FIELDS = tuple(
    Field(**{key: _freeze(value) for key, value in told.items()}) for told in _READ["field"]
)


def shuffle_things(field: Field, random: Random) -> list[str]:
    """Names for the field's things, no two alike, in a shuffled order."""
    names = [f"{color} {thing}" for color in _COLORS for thing in field.things]
    random.shuffle(names)
    return names


def make_noise(field: Field, random: Random, chars: int) -> list[str]:
    """Lines of no importance as tools print them, about that long together."""
    lines: list[str] = []
    used = 0
    while used < chars:
        line = fill_blanks(random.choice(field.noise), random)
        lines.append(line)
        used += len(line) + 1
    return lines


def fill_blanks(pattern: str, random: Random, **known: str) -> str:
    """A pattern with its blanks filled: a word, a noun, a number, a digit, or what is known."""
    values = {
        "word": random.choice(_COLORS),
        "noun": random.choice(_NOUNS),
        "n": str(random.randrange(11, 9_999)),
        "d": str(random.randrange(1, 9)),
        "made": "".join(random.choices(_SYLLABLES, k=3)),
        **known,
    }
    while "{made}" in pattern:
        pattern = pattern.replace("{made}", "".join(random.choices(_SYLLABLES, k=3)), 1)
    for name, value in values.items():
        pattern = pattern.replace("{" + name + "}", value)
        pattern = pattern.replace("{" + name.capitalize() + "}", value[:1].upper() + value[1:])
    return pattern


@dataclass(frozen=True, slots=True)
class EvalCase:
    """One session as the product records it and the baselines read it, and what to look for."""

    corpus: str
    name: str
    came: Incoming
    lines: tuple[PlainLine, ...]
    probes: tuple[Probe, ...]
    pins: tuple[str, ...] = ()


def locomo(path: Path) -> tuple[EvalCase, ...]:
    """LoCoMo's chats: answers that stand word for word in them, and the turns that hold them."""
    with _refuse_other_files(path, "a file of LoCoMo"):
        return tuple(_read_chat(chat) for chat in cast(list[_Json], _load(path)))


def tau(path: Path) -> tuple[EvalCase, ...]:
    """tau-bench runs cut at 60 %: the values that later calls pass and that were named before."""
    cases: list[EvalCase] = []
    with _refuse_other_files(path, "a file of tau-bench"):
        for number, run in enumerate(cast(list[_Json], _load(path))):
            messages = [m for m in cast(list[JsonObject], run["traj"]) if m["role"] != "system"]
            case = _read_run(f"task {run['task_id']} run {number}", messages)
            cases += [case] if case else []
    return tuple(cases)


def line_of(message: JsonObject) -> PlainLine:
    """A message as one line: its role, its words and its calls."""
    one = read_incoming([message]).messages[0]
    role, parts = read(one.shape, one.raw)
    texts = [
        f"{part.name}({json.dumps(part.arguments, ensure_ascii=False)})"
        if isinstance(part, ToolCall)
        else text_of(part)
        for part in parts
    ]
    return PlainLine(role=role, text=f"{role}: {' '.join(texts)}")


# LoCoMo


def _read_chat(chat: _Json) -> EvalCase:
    talk = cast(_Json, chat["conversation"])
    turns = [(turn, when) for session, when in _sessions_of(talk) for turn in session]
    speakers = list(dict.fromkeys(turn["speaker"] for turn, _ in turns))
    captions = [turn.get("blip_caption") for turn, _ in turns]
    texts = [
        turn["text"] + (f" [image: {caption}]" if caption else "")
        for (turn, _), caption in zip(turns, captions, strict=True)
    ]
    lines = tuple(
        PlainLine(
            role="user" if turn["speaker"] == speakers[0] else "assistant",
            text=f"{turn['speaker']}: {text}",
        )
        for (turn, _), text in zip(turns, texts, strict=True)
    )
    messages = read_incoming([{"role": line.role, "content": line.text} for line in lines]).messages
    dated = tuple(
        message.model_copy(update={"at": when})
        for message, (_, when) in zip(messages, turns, strict=True)
    )
    places = {turn["dia_id"]: n for n, (turn, _) in enumerate(turns)}
    return EvalCase(
        corpus="LoCoMo",
        name=chat["sample_id"],
        came=Incoming(messages=dated),
        lines=lines,
        probes=tuple(_read_questions(chat["qa"], places, texts)),
    )


def _sessions_of(talk: _Json) -> Iterator[tuple[list[_Json], datetime | None]]:
    number = 1
    while f"session_{number}" in talk or f"session_{number}_date_time" in talk:
        when = _parse_moment(talk.get(f"session_{number}_date_time", ""))
        yield talk.get(f"session_{number}") or [], when
        number += 1


def _parse_moment(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
    except ValueError:
        return None


def _read_questions(
    asked: Iterable[_Json], places: Mapping[str, int], texts: Sequence[str]
) -> Iterator[Probe]:
    whole = f" {normalize(' '.join(texts))} "
    for qa in asked:
        found = [(int(a), int(b)) for e in qa.get("evidence", []) for a, b in _TURN.findall(e)]
        turns = list(dict.fromkeys(places[f"D{a}:{b}"] for a, b in found if f"D{a}:{b}" in places))
        if not turns or str(qa["category"]) == _ADVERSARIAL:
            continue
        answer = normalize(str(qa.get("answer", "")))
        if answer and f" {answer} " in whole:
            yield Probe(kind="answer", test="words", needle=answer, questions=(qa["question"],))
        for turn in turns:
            yield Probe(
                kind="evidence",
                test="evidence",
                needle=texts[turn],
                questions=(qa["question"],),
                source=turn,
            )


# Runs with tool calls


def _read_run(name: str, messages: Sequence[JsonObject]) -> EvalCase | None:
    cut = int(len(messages) * _CUT)
    early, later = messages[:cut], messages[cut:]
    if len(early) < _FEWEST_MESSAGES:
        return None
    said = map(line_of, early)
    lines = tuple(PlainLine(role=o.role, text=o.text.replace("\n", " ")) for o in said)
    known = " ".join(line.text for line in lines)
    came = read_incoming([*later]).messages
    parts = [part for one in came for part in read(one.shape, one.raw)[1]]
    passed = (part.arguments for part in parts if isinstance(part, ToolCall))
    values = {value for arguments in passed for value in leaves_of(arguments)}
    wanted = sorted(v for v in values if len(v) >= 3 and v in known and _TELLING.search(v))
    asked = tuple(dict.fromkeys(q for message in later if (q := _read_request(message))))
    probes = tuple(
        Probe(kind="argument", test="exact", needle=value, questions=asked) for value in wanted
    )
    return EvalCase("tau", name, read_incoming([*early]), lines, probes) if probes else None


def leaves_of(value: object) -> Iterator[str]:
    """The texts and numbers in a JSON value, however deep."""
    if isinstance(value, dict):
        for inner in cast(dict[str, object], value).values():
            yield from leaves_of(inner)
    elif isinstance(value, list):
        for inner in cast(list[object], value):
            yield from leaves_of(inner)
    elif isinstance(value, str | int) and not isinstance(value, bool):
        yield str(value)


def _read_request(message: JsonObject) -> str:
    line = line_of(message)
    said = line.text.removeprefix("user: ").strip()
    return said if line.role == "user" and any(map(str.isalnum, said)) else ""


# Files


@contextmanager
def _refuse_other_files(path: Path, kind: str) -> Generator[None]:
    """Refuse JSON in which something is missing that every file of the kind has."""
    try:
        yield
    except (AttributeError, LookupError, TypeError):
        raise InputError(f"{path} is not {kind}; pass the file as it was published.") from None


def _load(path: Path) -> Any:
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
        return json.loads(text)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot read {path}: {error}; pass a UTF-8 file, or one with gzip."
        ) from None
    except ValueError as error:
        raise InputError(
            f"{path} is no JSON ({error}); pass the file as it was published."
        ) from None
