"""Tells which lines of a draft claim a deed that no call of the window shows, and what calls show
against a line: `log: tests failed, m409`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

from mcp_compaction.core.digest.check.evidence import Evidence
from mcp_compaction.core.digest.render import FROM_LOG
from mcp_compaction.core.limits import LONGEST_ANSWER
from mcp_compaction.core.log.commands import is_search
from mcp_compaction.core.log.content import compact_json
from mcp_compaction.core.log.ledger import (
    CHANGED,
    CallEntry,
    Commit,
    FileState,
    FileWord,
    Ledger,
    ledger_of,
)
from mcp_compaction.core.text.all_languages import pattern_of_kind
from mcp_compaction.core.text.patterns import any_of, pattern_of
from mcp_compaction.core.text.sentences import split_sentences
from mcp_compaction.core.text.words import exact_words, telling_words
from mcp_compaction.lexicon.tools import ByLanguage, KnownDeed, known_deeds
from mcp_compaction.model import Item, Message, SectionName
from mcp_compaction.shell import Command, commands_of, programs

TELLS_DEEDS: tuple[SectionName, ...] = ("STATE", "DONE", "PROGRESS")
"""The sections of which every line tells what was done."""
TELLS_OF_THE_PAST: tuple[SectionName, ...] = (*TELLS_DEEDS, "ERRORS", "FACTS", "DECISIONS")
"""The sections whose lines tell what has happened or been found."""
_CLAUSE_END = pattern_of(r"[,;，；、。]\s*|(?<=\w)[.:!] +|\s[–—-]\s")
_NO_SPACES = ("zh", "ja", "ko")


class Claim(NamedTuple):
    """A deed that a clause of a line claims."""

    deed: KnownDeed
    clause: str


def claims_in(text: str) -> list[Claim]:
    """The deeds that a line claims were done, clause by clause."""
    return [
        Claim(deed, clause) for clause in clauses_of(text) for deed in _deeds_claimed_in(clause)
    ]


def clauses_of(text: str) -> list[str]:
    """The clauses of a line."""
    return _CLAUSE_END.split(text)


def denials_in(text: str) -> list[Claim]:
    """The deeds of which a line says that they were not done or went wrong, clause by clause."""
    return [
        Claim(deed, clause)
        for clause in clauses_of(text)
        for deed in known_deeds().deed
        if deed.result or deed.denies
        if _denies(clause, deed)
    ]


def _denies(clause: str, deed: KnownDeed) -> bool:
    known, negation = known_deeds(), pattern_of_kind("negation")
    if deed.about:
        thing = by_languages(deed.about).search(clause)
        said = by_languages(known.broken).search(clause, thing.end()) if thing else None
        return said is not None and not _awaits(clause[: said.start()])
    if by_languages(deed.denies).search(clause):
        return True
    said = by_languages(deed.claims).search(clause)
    return said is not None and negation.search(clause[: said.start()]) is not None


def _deeds_claimed_in(clause: str) -> Iterator[KnownDeed]:
    """The deeds that a clause claims, unless it says before that they were not done or are still
    to come."""
    known = known_deeds()
    for deed in known.deed:
        said = by_languages(known.fine if deed.about else deed.claims).search(clause)
        if said is None or (deed.about and not by_languages(deed.about).search(clause)):
            continue
        if not _awaits(clause[: said.start()]):
            yield deed


def _awaits(before: str) -> bool:
    """Whether what follows is denied, depends on something or is still to come."""
    return any(
        p.search(before) for p in (pattern_of_kind("negation"), by_languages(known_deeds().unless))
    )


def has_gone_well(entry: CallEntry, deed: KnownDeed) -> bool:
    """Whether a call was done, and found nothing that is out of order."""
    return entry.ending == "done" and not _pattern(deed.spoiled_by).search(_result_of(entry))


def _line_of(entry: CallEntry) -> str:
    """What was called with what, as deeds are known by it: folders are no deeds, nor are the texts
    that a line of a shell or a prompt passes on."""
    name, called = entry.call.name, entry.action.target
    if entry.action.kind == "run":
        ran = map(_words_run, commands_of(called) or ())
        called = "; ".join(filter(None, ran)) or called.partition("<<")[0]
    elif entry.action.kind not in ("read", "write", "edit", "agent"):
        called = compact_json(entry.call.arguments).replace("_", " ")
    return f"{name} {called}\n{name.replace('_', ' ')} {called}".lower()


def _words_run(command: Command) -> str:
    """The words of a command that tell what it does; behind `git` stand branches and messages."""
    if command.name in programs().reads | programs().searches:
        return command.name
    is_git = command.name == "git"
    words = (w for w in command.words[1:] if not is_git or w.isalpha() or w[:1] == "-")
    said = (word.rpartition("/")[2] for word in words if " " not in word)
    return " ".join((command.name, *said)).replace("_", " ")


def called_text(entry: CallEntry) -> str:
    """What was called with what, and what it answered."""
    return f"{entry.call.name} {compact_json(entry.call.arguments)} {_result_of(entry)}"


def _result_of(entry: CallEntry) -> str:
    text = entry.result.text if entry.result is not None else ""
    is_read_whole = len(text) <= 2 * LONGEST_ANSWER
    return text if is_read_whole else text[:LONGEST_ANSWER] + text[-LONGEST_ANSWER:]


@cache
def _pattern(source: str) -> re.Pattern[str]:
    return re.compile(source or "(?!)", re.I | re.M)


def by_languages(ways: ByLanguage) -> re.Pattern[str]:
    """A pattern for the words of several languages; those of some have no edges."""
    return _compile_ways(tuple(ways.items()))


@cache
def _compile_ways(ways: tuple[tuple[str, str], ...]) -> re.Pattern[str]:
    return any_of(
        *(w if code in _NO_SPACES else rf"(?<![\w/])(?:{w})(?![\w/]|\.\w)" for code, w in ways)
    )


_PATH = pattern_of(r"(?<![\w/.@~+-])[\w.@~+-]*(?:/[\w.@+-]+)*\.?\w+(?![\w/])")
_PATH_END = pattern_of(r"\.[a-z]{1,5}$")
_HASH = pattern_of(r"\b(?=\w*\d)[0-9a-f]{7,40}\b")
_PLANS = (".md", ".txt")  # they name what stands in other files
_WORDS_BEFORE = pattern_of(r"\w\W+\w")
_LOOKS = ("read", "search", "plan", "task")  # they do nothing
# What is no name of its own: a line of a file, a span of time; a field is named beside its owner.
_PLACE = pattern_of(r"(?<=\w)\.(?=[A-Z])|:\d+|\b\d+-\d+\b|\b\d+(?:min|sec)s?\b")
_CODE = pattern_of(r"`([^`]+)`")
_GOES_ON = pattern_of(r"[*_]*\s+[^\W\d_`(]|\s+`")


@dataclass(frozen=True)
class Record:
    """The calls of a window, and all that was said in it."""

    messages: Sequence[Message]
    said: Evidence
    known: Sequence[str] = ()  # what is told of earlier messages

    def shows(self, section: SectionName, item: Item) -> bool:
        """Whether every deed that a line claims is shown by a call; a line that is told word for
        word among what is known is believed."""
        if section not in TELLS_OF_THE_PAST or item.provenance == "verbatim":
            return True
        claims = claims_in(item.text)
        is_shown = all(self._shows(claim, item) for claim in claims)
        is_deed = bool(claims or denials_in(item.text))
        is_told = section not in TELLS_DEEDS or is_deed or self._tells(item.text)
        is_known = any(item.text in known or known in item.text for known in self.known if known)
        return is_known or (is_shown and is_told)

    def _shows(self, claim: Claim, item: Item) -> bool:
        """Whether a call did it, and of things in order whether the last call that looked did find
        them so, or the last of those that the line names; calls hold all that the clause names, and
        so does one call that may do other things too."""
        names = exact_words(claim.clause) | {*_CODE.findall(claim.clause)}
        if not self._called.hold(names):
            return False
        deed = claim.deed
        sure, may = _pattern(deed.shown_by), _pattern(deed.may_show)
        calls = [
            e
            for e in self._ledger.entries
            if (e.action.kind not in _LOOKS and sure.search(_line_of(e)))
            or (
                names and may.search(_line_of(e)) and Evidence([(called_text(e), None)]).hold(names)
            )
        ]
        if not deed.about:
            return any(entry.ending == "done" for entry in calls)
        last = ([e for e in calls if {e.ref, e.result_ref} & {*item.refs}] or calls)[-1:]
        return any(has_gone_well(entry, deed) for entry in last)

    def _tells(self, text: str) -> bool:
        """Whether the record speaks of what a line tells, though not as a deed of a known kind:
        it has all its names, and one of its words where it has no names."""
        names, told = exact_words(_PLACE.sub(" ", text)), telling_words(text)
        is_named = bool(names) or not told or not self._ledger.entries
        return self._told.hold(names) and (is_named or any(w in self._told.text for w in told))

    def against(self, section: SectionName, item: Item) -> str:
        """What the log shows against a line, blank where it shows nothing."""
        if item.provenance == "verbatim":
            return ""
        found: Iterator[str] = (
            said
            for look in (self._of_claims, self._of_denials, self._of_files, self._of_places)
            for said in look(section, item)
        )
        return next((f"{FROM_LOG}{said}" for said in found), "")

    def _of_claims(self, section: SectionName, item: Item) -> Iterator[str]:
        """What was claimed to be in order, and was not when it was last looked at; what was
        committed, and changed since."""
        for claim in claims_in(item.text):
            if claim.deed.about and (run := self._last_run(claim, item)):
                if not has_gone_well(run, claim.deed) and section in TELLS_DEEDS:
                    yield f"{claim.deed.result} failed, {run.result_ref}"
            elif claim.deed.name == "commit" and self._commits:
                since = self._changed_since(self._commits[-1].ref, claim)
                is_of_one = any(f'"{one.subject}"' in item.text for one in self._commits)
                if since and not (is_of_one or _HASH.search(claim.clause)):
                    yield f"{since.path} {since.word} after, {since.ref}"

    def _of_denials(self, section: SectionName, item: Item) -> Iterator[str]:
        """What was done, though a line says that it was not; what went well and never failed,
        or in a line of the present the last time."""
        for claim in denials_in(item.text) if section != "GOAL" else ():
            if claim.deed.about:
                run = self._last_run(claim, item)
                is_past = by_languages(known_deeds().once).search(claim.clause)
                runs = self._runs(claim) if is_past else [run]
                fine = by_languages(known_deeds().fine)
                if run and all(
                    has_gone_well(one, claim.deed) and fine.search(_result_of(one))
                    for one in runs
                    if one
                ):
                    yield f"{claim.deed.result} passed, {run.result_ref}"
            elif done := self._done_since_changes(claim):
                yield done

    def _done_since_changes(self, claim: Claim) -> str:
        """How a commit or a push was made behind which nothing was changed."""
        if claim.deed.name == "commit":
            last = self._commits[-1] if self._commits else None
            is_clean = last is not None and self._changed_since(last.ref, claim) is None
            return f"committed as {last.id[:8]}, {last.ref}" if last and is_clean else ""
        runs = [one for one in self._runs(claim) if one.ending == "done"]
        newest = self._commits[-1].ref if self._commits else "m0"
        if not runs or _seq(runs[-1].result_ref) < _seq(newest):
            return ""
        return f"{claim.deed.result}, {runs[-1].result_ref}"

    def _of_files(self, section: SectionName, item: Item) -> Iterator[str]:
        """What calls did to a file of which a line tells another thing."""
        for sentence in split_sentences(item.text) if section in TELLS_OF_THE_PAST else ():
            for state, before, behind in self._files_in(sentence):
                name = next((n for n in _BY_WORD if _stands_beside(n, before, behind)), "")
                is_read = state.word == "read"
                # Another agent may have changed what only was read.
                entries = self._ledger.entries if is_read else ()
                is_sure = all(entry.action.kind != "agent" for entry in entries)
                if name and is_sure and state.word in _BY_WORD[name]:
                    yield f"{'only read' if is_read else state.text}, {state.ref}"

    def _of_places(self, section: SectionName, item: Item) -> Iterator[str]:
        """Where a file stands that a line puts elsewhere; in which file the names of a line stand,
        if few of them stand in the one with which it begins."""
        for match in _PATH.finditer(item.text):
            path = match[0].removeprefix("./")
            same = [p for p in self._ledger.files if p.endswith(f"/{path.rpartition('/')[2]}")]
            last = "/".join(path.split("/")[-2:])
            if "/" in path and same and not self.said.holds_words(last):
                yield f"{same[-1]}, {self._ledger.files[same[-1]].ref}"
        first = next(self._files_in(item.text), None) if section in TELLS_OF_THE_PAST else None
        if first is None or _WORDS_BEFORE.search(first[1]):
            return
        own = self._texts.get(first[0].path)
        names = [w for w in exact_words(first[2]) if not _PATH_END.search(w) and w[0].isalpha()]
        if own is None or 2 * sum(map(own.holds_name, names)) >= len(names):
            return
        held = [path for path, text in self._texts.items() if text.hold(names)]
        if held:
            yield f"in {held[-1]}, {self._by_path[held[-1]][-1].result_ref}"

    def _files_in(self, sentence: str) -> Iterator[tuple[FileState, str, str]]:
        """The files that a sentence names, each with what stands before and behind it."""
        for match in _PATH.finditer(sentence):
            state = self._state_of(match[0])
            if state is not None:
                yield state, sentence[: match.start()], sentence[match.end() :]

    def _state_of(self, path: str) -> FileState | None:
        """The state of the one file that is written so, in whole or by its end."""
        path = path.removeprefix("./")
        if "." not in path and "/" not in path:
            return None
        states = self._ledger.files
        if path in states:
            return states[path]
        same = [p for p in states if p.endswith(f"/{path}") or path.endswith(f"/{p}")]
        return states[same[0]] if len(same) == 1 else None

    def _changed_since(self, ref: str, claim: Claim) -> FileState | None:
        """A file that was changed behind a message: one of those that a clause names, where it
        names some."""
        named = [state for state, _, _ in self._files_in(claim.clause)]
        states = named or self._ledger.files.values()
        since = [s for s in states if s.word in CHANGED and _seq(s.ref) > _seq(ref)]
        return since[-1] if since else None

    def _runs(self, claim: Claim) -> list[CallEntry]:
        """The calls that do what a clause tells of; those that hold its names, where some do."""
        shown_by = _pattern(claim.deed.shown_by)
        runs = [
            e
            for e in self._ledger.entries
            if e.action.kind == "run" and not is_search(e.action.target)  # which only read of it
            if e.result and shown_by.search(_line_of(e))
        ]
        names = exact_words(claim.clause)
        named = [e for e in runs if Evidence([(called_text(e), None)]).hold(names)] if names else []
        return named or runs

    def _last_run(self, claim: Claim, item: Item) -> CallEntry | None:
        runs = self._runs(claim)
        told = [e for e in runs if {e.ref, e.result_ref} & {*item.refs}]
        return next(reversed(told or runs), None)

    @cached_property
    def _called(self) -> Evidence:
        return Evidence([(called_text(entry), None) for entry in self._ledger.entries])

    @cached_property
    def _told(self) -> Evidence:
        """What calls hold and what assistants said."""
        said = [message.text for message in self.messages if message.role == "assistant"]
        return Evidence([*self._called.said, *((text, None) for text in (*said, *self.known))])

    @cached_property
    def _texts(self) -> dict[str, Evidence]:
        return {
            path: Evidence([(called_text(entry), None) for entry in entries])
            for path, entries in self._by_path.items()
        }

    @cached_property
    def _by_path(self) -> dict[str, list[CallEntry]]:
        """The calls of the tools that read and change files, by file."""
        found: dict[str, list[CallEntry]] = {}
        for entry in self._ledger.entries:
            is_told = entry.action.kind in ("read", "write", "edit") and entry.ending == "done"
            state = self._state_of(entry.action.target) if is_told else None
            if state is not None and not state.path.endswith(_PLANS):
                found.setdefault(state.path, []).append(entry)
        return found

    @property
    def _commits(self) -> tuple[Commit, ...]:
        return self._ledger.commits

    @cached_property
    def _ledger(self) -> Ledger:
        return ledger_of(self.messages)


_THERE: frozenset[FileWord] = frozenset(("created", "written", "edited"))
# The states that contradict a word of a kind; the first kind that stands beside a file counts.
_BY_WORD: dict[str, frozenset[FileWord]] = {
    "kept": CHANGED,
    "removed": _THERE,
    "changed": frozenset(("deleted", "read")),
}


def _stands_beside(name: str, before: str, behind: str) -> bool:
    """Whether a word of a kind stands close before a file or close behind it."""
    word = by_languages(known_deeds().files[name])
    ahead = list(word.finditer(before))
    if ahead and _is_gap(before[ahead[-1].end() :]):
        return True
    first = word.search(behind)
    if first is None or not _is_gap(behind[: first.start()]):
        return False
    # "a.py: removed the cache" removes no file.
    return name != "removed" or not _GOES_ON.match(behind, first.end())


def _is_gap(text: str) -> bool:
    """Whether a stretch holds no more than signs and words that may stand between."""
    if any(stop in text for stop in ".;!?"):
        return False
    return not re.search(r"\w", by_languages(known_deeds().between).sub(" ", text).replace("_", ""))


def _seq(ref: str) -> int:
    return int(ref[1:])
