"""Tells what the calls of a window show against a line of a draft: `log: tests failed, m409`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from mcp_compaction.core.digest.check.deeds import (
    TELLS_DEEDS,
    TELLS_OF_THE_PAST,
    Claim,
    by_languages,
    called_text,
    claims_in,
    denials_in,
    has_gone_well,
    is_run_of,
    says_that_all_is_well,
    tells_of_before,
)
from mcp_compaction.core.digest.check.evidence import Evidence
from mcp_compaction.core.digest.render import FROM_LOG
from mcp_compaction.core.log.ledger import (
    CHANGED,
    CallEntry,
    Commit,
    FileState,
    FileWord,
    Ledger,
    ledger_of,
)
from mcp_compaction.core.text.exact_words import exact_words
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.sentences import split_sentences
from mcp_compaction.lexicon.deeds import known_deeds
from mcp_compaction.model import Item, Message, SectionName

_PATH = pattern_of(r"(?<![\w/.@~+-])[\w.@~+-]*(?:/[\w.@+-]+)*\.?\w+(?![\w/])")
_PATH_END = pattern_of(r"\.[a-z]{1,5}$")
_HASH = pattern_of(r"\b(?=\w*\d)[0-9a-f]{7,40}\b")
_PLANS = (".md", ".txt")  # they name what stands in other files
_WORDS_BEFORE = pattern_of(r"\w\W+\w")
_GOES_ON = pattern_of(r"[*_]*\s+[^\W\d_`(]|\s+`")
_ENDS = pattern_of(r"[.;!?]")


@dataclass(frozen=True)
class Record:
    """The calls of a window, and all that was said in it."""

    messages: Sequence[Message]
    said: Evidence

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
                if since is not None and not _HASH.search(claim.clause):
                    yield f"{since.path} {since.word} after, {since.ref}"

    def _of_denials(self, section: SectionName, item: Item) -> Iterator[str]:
        """What was done, though a line says that it was not; what went well and never failed,
        or in a line of the present the last time."""
        for claim in denials_in(item.text) if section != "GOAL" else ():
            if claim.deed.about:
                run = self._last_run(claim, item)
                runs = self._runs(claim) if tells_of_before(claim.clause) else [run]
                if run and all(says_that_all_is_well(one, claim.deed) for one in runs if one):
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
                if name and self._contradicts(state, name):
                    yield f"{_say(state)}, {state.ref}"

    def _contradicts(self, state: FileState, name: str) -> bool:
        """Whether calls did something else to a file; what only was read another agent may have
        changed."""
        if state.word == "read" and any(e.action.kind == "agent" for e in self._ledger.entries):
            return False
        return state.word in _BY_WORD[name]

    def _of_places(self, section: SectionName, item: Item) -> Iterator[str]:
        """Where a file stands that a line puts elsewhere; in which file the names of a line stand,
        if few of them stand in the one with which it begins."""
        for match in _PATH.finditer(item.text):
            path = match[0].removeprefix("./")
            same = [p for p in self._ledger.files if p.endswith(f"/{path.rpartition('/')[2]}")]
            if "/" in path and same and not self.said.holds_words(_last_parts(path)):
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
        runs = [e for e in self._ledger.entries if is_run_of(e, claim.deed) and e.result]
        names = exact_words(claim.clause)
        named = [e for e in runs if Evidence([(called_text(e), None)]).hold(names)] if names else []
        return named or runs

    def _last_run(self, claim: Claim, item: Item) -> CallEntry | None:
        runs = self._runs(claim)
        told = [e for e in runs if {e.ref, e.result_ref} & {*item.refs}]
        return next(reversed(told or runs), None)

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
    if _ENDS.search(text):
        return False
    return not re.search(r"\w", by_languages(known_deeds().between).sub(" ", text).replace("_", ""))


def _say(state: FileState) -> str:
    return "only read" if state.word == "read" else state.text


def _last_parts(path: str) -> str:
    return "/".join(path.split("/")[-2:])


def _seq(ref: str) -> int:
    return int(ref[1:])
