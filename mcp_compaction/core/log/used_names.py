"""Keeps account of the names that an agent typed in its calls, by how often and how lately, and of
the ids that calls made, which later calls need until something deletes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from mcp_compaction.core.limits import LONGEST_ANSWER, LONGEST_TEXT
from mcp_compaction.core.log.call_entries import CallEntry
from mcp_compaction.core.log.commands import is_search, only_reads
from mcp_compaction.core.log.content import compact_json
from mcp_compaction.core.log.identifiers import Finding, find_identifiers, without_rows
from mcp_compaction.core.log.tool_calls import values_of
from mcp_compaction.core.text.patterns import pattern_of, without_examples
from mcp_compaction.lexicon.tools import known_tools
from mcp_compaction.model import Message
from mcp_compaction.shell import commands_of

_NAME = pattern_of(
    r"https?://[^\s\"'`<>()\[\]{}\\|]+"
    # A path, and a file or a name with parts: not from the middle of one, which takes the square.
    r"|(?<![\w@+-])(?<!\w\.)(?<!\w\.\.)(?:~|\.{1,2})?/?[\w@+-][\w.@+-]*(?:/[\w.@+-]+)+"
    r"|/[\w.@+-]+(?:/[\w.@+-]+)*"
    # No attribute that code calls or looks up, as `stack.pop()` does.
    r"|\b(?<!\w[.-])(?<!\w--)(?=\w)(?!self\.)[\w-]++(?:\.[\w-]++)*\.[A-Za-z]\w{0,9}\b(?!\.\w|[(\[])"
    r"|\b[A-Za-z]+(?:_[A-Za-z0-9]+)+\b|\b[A-Z][a-z0-9]+[A-Z]\w+\b"
    r"|\b[a-z]+[A-Z][A-Za-z0-9]+\b"
    r"|\b(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b|\b\d+\.\d+(?:\.\d+)+\b"
    r"|\b\d{4}-\d\d-\d\d\b|\b\d{4,}\b|\b(?=[A-Z]*\d)(?=\d*[A-Z])[A-Z0-9]{5,16}\b"
)
_SIGN_OF_NAME = pattern_of(r"[\d/_]|\.\w|[a-z][A-Z]")  # without one nothing is a name
_WHITE_SPACE = pattern_of(r"\\[nrt]")  # as code writes it: "\nLayer"
_DRIVE = pattern_of(
    r"\b[A-Za-z]:\\|\\\\\w+\\\w"
)  # of a Windows path, whose folders begin with n, too
_DEVICE = pattern_of(r"/(?:dev|proc)/|/(?:usr/)?bin/(?:env|(?:ba)?sh)$")
_OF_LIBRARIES = pattern_of(
    r"/(?:site|dist)-packages/|(?:^|/)node_modules/|^/(?:usr|opt)/(?:local/)?(?:lib|share)/"
    r"|/\.(?:cargo|rustup|gradle|m2|npm|nuget)/"
)
_UNTYPABLE = pattern_of(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{32,}")
_DATE = pattern_of(r"\d{4}-\d\d-\d\d")
_END = ".,:;)"
_SHORTEST, _LONGEST = 5, 100


class UsedName(NamedTuple):
    """A name, its worth, and where it was typed last or else named first: the message, and the
    place in it."""

    text: str
    worth: float
    last: tuple[int, int]


def used_names(
    messages: Sequence[Message],
    met: Mapping[int, Iterable[Finding]] = MappingProxyType({}),
    earlier: Sequence[str] = (),
) -> list[UsedName]:
    """The names that an agent typed in its calls, most often and most lately first.

    Names known from `earlier` messages were used at least once, before all others. Paths, ids and
    dates of fields that messages only named, given by their numbers, may be typed next: they come
    after all that was used, the newest first, and dates last.
    """
    worth: dict[str, float] = dict.fromkeys(earlier, 1.0)
    last = {name: (-1, place) for place, name in enumerate(earlier)}
    total = max(1, len(messages))
    for number, message in enumerate(messages):
        for place, name in enumerate(_names_in(message)):
            worth[name] = worth.get(name, 0.0) + 1 + number / total
            last[name] = (message.seq, place)
        for place, name in enumerate(_names_met(message, met.get(message.seq, ()))):
            # A date that nobody typed is worth less than any name: there are so many of them.
            worth_met = 0.0 if _DATE.fullmatch(name) else (number + 1) / (total + 1)
            worth[name] = max(worth.get(name, 0.0), worth_met)
            last.setdefault(name, (message.seq, place))
    found = (UsedName(name, value, last[name]) for name, value in worth.items())
    return sorted(found, key=lambda one: (-one.worth, one.last, one.text))


def _names_met(message: Message, found: Iterable[Finding]) -> Iterator[str]:
    """The names that a message met in passing: paths, ids, and the dates of fields; of a request
    none that only its examples hold, nor the rows of a listing."""
    named = list(_each_met(message, found))
    dates = [name for name in named if _DATE.fullmatch(name)]
    yield from without_rows(name for name in named if name not in dates)
    yield from dates


def _each_met(message: Message, found: Iterable[Finding]) -> Iterator[str]:
    is_spoken = message.is_request and not message.results
    told = without_examples(message.text) if is_spoken else ""
    for one in found:
        name = one.text.rpartition("=")[2] if one.kind == "number" else one.text
        is_date = one.kind == "number" and bool(_DATE.fullmatch(name))
        is_named = is_date or (one.kind in ("file", "id") and _may_be_typed(name))
        if is_named and (not told or name in told):
            yield name


def _names_in(message: Message) -> list[str]:
    """The names that the calls of a message typed, each once, in the order they stand."""
    values = (value for call in message.calls for value in values_of(call.arguments))
    return list(dict.fromkeys(filter(_is_name, chain.from_iterable(map(_cut_names, values)))))


def _cut_names(text: str) -> list[str]:
    text = text[:LONGEST_TEXT]
    if "\\" in text and not _DRIVE.search(text):
        text = _WHITE_SPACE.sub(" ", text)
    words = dict.fromkeys(text.split())
    may_name = filter(_SIGN_OF_NAME.search, words)
    return [name.rstrip(_END) for word in may_name for name in _NAME.findall(word)]


def _is_name(text: str) -> bool:
    return _SHORTEST <= len(text) <= _LONGEST and not _DEVICE.match(text)


def _may_be_typed(text: str) -> bool:
    """Whether a name that was only met may be typed next: hardly what belongs to a library, a
    whole hash, or a bare number, of which data are full."""
    if text.isdecimal() or _OF_LIBRARIES.search(text) or _UNTYPABLE.fullmatch(text):
        return False
    return _is_name(text)


_KEYED_ID = pattern_of(r"(?:(?<![^\W_])(?:id|Id|ID)|(?<=\w)Id)\"?[ :=]{1,3}\"?(#?[\w-]{2,64})")
_WORD = pattern_of(r"[A-Z]?[a-z]+")


class MadeId(NamedTuple):
    """An id that a call made."""

    text: str
    by: str  # the tool, or the command
    ref: str  # the message whose result has it
    used: str = ""  # the newest call that was given it


def made_ids(entries: Iterable[CallEntry]) -> tuple[MadeId, ...]:
    """The ids that calls made and no later call deleted, the oldest first: of each call the first
    that its result has, and all that a later call was given."""
    found: dict[str, MadeId] = {}
    first: set[str] = set()
    for entry in entries:
        if entry.ending != "done":
            continue
        typed, (name, does) = compact_json(entry.call.arguments), _deed_of(entry)
        for one in [one for one in found.values() if one.text in typed]:
            if does & known_tools().verbs["unmakes"]:
                del found[one.text]
            else:
                found[one.text] = one._replace(used=entry.ref)
        if does & known_tools().verbs["makes"]:
            new = [text for text in _ids_in(entry) if text not in typed and text not in found]
            first.update(new[:1])
            found |= {text: MadeId(text, name, entry.result_ref) for text in new}
    return tuple(one for one in found.values() if one.used or one.text in first)


def _ids_in(entry: CallEntry) -> Iterator[str]:
    text = entry.result.text[:LONGEST_ANSWER] if entry.result is not None else ""
    yield from _KEYED_ID.findall(text)
    kinds = ("id", "url") if entry.action.kind == "run" else ("id",)
    yield from (one.text for one in find_identifiers(text) if one.kind in kinds)


def _deed_of(entry: CallEntry) -> tuple[str, set[str]]:
    """What a call does by its name: of its tool, or of the first command that makes or deletes."""
    if entry.action.kind in ("other", "agent", "stop"):
        name = entry.call.name.rpartition("__")[2]
        return name, {word.lower() for word in _WORD.findall(name)}
    known = known_tools().verbs["makes"] | known_tools().verbs["unmakes"]
    line = entry.action.target if entry.action.kind == "run" else ""
    for command in commands_of(line) or ():
        plain = [word for word in command.words[:4] if _is_plain(word)][:3]
        does = {*_WORD.findall(" ".join(plain)), " ".join(plain[:2])} & known
        if does and command.name != "git" and not is_search(line) and not only_reads(line):
            return " ".join(plain), does
    return "", set()


def _is_plain(word: str) -> bool:
    """Whether a word is no option and no script."""
    return word.replace("-", "").isalpha() and not word.startswith("-")
