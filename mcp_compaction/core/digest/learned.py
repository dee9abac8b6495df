"""Reads what failed and what ended it: runs of one kind that failed and later passed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from mcp_compaction.core.digest.reading import Reading, short
from mcp_compaction.core.log.endings import has_not_begun
from mcp_compaction.core.log.failures import causes_of, ending_of, is_run_of_tests
from mcp_compaction.core.log.families import (
    command_line_of,
    covers,
    family_of,
    given_of,
    is_inline_code,
    is_search,
    not_given,
    options_of,
    preparation_of,
    runs_checks,
    subcommand_of,
    takes_each_alone,
)
from mcp_compaction.core.log.given import Given
from mcp_compaction.core.log.ledger import (
    CHANGED,
    CallEntry,
    FileState,
    Ledger,
    may_be_one_place,
)
from mcp_compaction.core.text.paths import ends_with_path
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.words import first_line
from mcp_compaction.model import Item

_MOST_SOLVED = 8
_MOST_OPEN = 8
_MOST_BETWEEN = 3
_MOST_COMPARED = 20
_FAILED = ("failed", "timed out")
_COMMIT = "run git commit"  # as a kind of call
_WORD = pattern_of(r"[\w.-]{2,}\w")
_CHANGES = ("write", "edit")


class _Failure(NamedTuple):
    """A run that failed, how often its kind did in a row, and the run that passed after it."""

    entry: CallEntry
    place: int  # among all calls
    times: int
    left: frozenset[str]  # of what it was given, what did not pass since
    parts: tuple[tuple[str, str], ...] = ()  # and what did, each with the run that passed
    passed: CallEntry | None = None
    passed_at: int = 0


_Standing = dict[Given, _Failure]  # by what the run was given
_Places = dict[str, _Standing]  # by the folder in which it ran


def learned_items(reading: Reading) -> list[Item]:
    """What still fails first, then what failed and passed since; each the newest first, but
    inline code behind what will be run again, and what passed without a known cause at the end."""
    found = [one for one in _failures(reading) if reading.is_in_span(one.entry.ref)]
    found.sort(key=lambda one: (not _is_inline(one.entry), one.place), reverse=True)
    left = [_open_item(one) for one in found if one.passed is None]
    passed = [one for one in found if one.passed is not None]
    passed.sort(key=lambda one: not _cause(one.entry))
    solved = [item for one in passed if (item := _solved_item(one, reading.ledger)) is not None]
    return [*_once(left)[:_MOST_OPEN], *_once(solved)[:_MOST_SOLVED]]


def still_failing(reading: Reading) -> list[Item]:
    """The calls that failed and were not done since, the newest first; no searches, which leave
    nothing to do, nor inline code after which another run was done."""
    entries = reading.ledger.entries
    runs = (at for at, e in enumerate(entries) if e.action.kind == "run" and e.ending == "done")
    last_done = max(runs, default=-1)
    found = [
        one
        for one in _failures(reading)
        if one.passed is None
        and not _is_search(one.entry)
        and not (_is_inline(one.entry) and one.place < last_done)
    ]
    found.sort(key=lambda one: one.place, reverse=True)
    return [_open_item(one) for one in found]


def _failures(reading: Reading) -> Iterator[_Failure]:
    """Each run of failures of one kind of call, closed by the call of that kind that was done;
    failed commits by any call that made one. A failed edit of a file that was changed since has
    nothing to tell."""
    standing: dict[str, _Places] = {}
    committed = {commit.ref for commit in reading.ledger.commits}
    for place, entry in enumerate(reading.ledger.entries):
        kind = _kind_of(entry)
        has_failed = entry.ending in _FAILED and not _has_searched(entry)
        if entry.result_ref in committed and "commit" in entry.action.target:
            for alike in _may_be_there(standing.get(_COMMIT, {}), entry.folder):
                yield from (f._replace(passed=entry, passed_at=place) for f in alike.values())
                alike.clear()
            has_failed = has_failed and kind != _COMMIT
        if not kind or not (has_failed or entry.ending == "done"):
            continue
        places = standing.setdefault(kind, {})
        if has_failed:
            _note_failure(places.setdefault(entry.folder, {}), entry, place)
            continue
        for alike in _may_be_there(places, entry.folder):
            yield from _settle(alike, entry, place)
    changed = _changed_by_end(reading.ledger)
    left = (one for places in standing.values() for a in places.values() for one in a.values())
    yield from (one for one in left if not _is_changed_since(one, changed))


def _may_be_there(places: _Places, folder: str) -> list[_Standing]:
    """What failed in a folder, or may have: of many others the newest."""
    own = (folder,) if folder in places else ()
    others = dict.fromkeys((*own, *islice(reversed(places), _MOST_COMPARED)))
    return [places[one] for one in others if may_be_one_place(one, folder)]


def _settle(alike: _Standing, entry: CallEntry, place: int) -> Iterator[_Failure]:
    """The failures that a run which was done ends; of others it may end a part."""
    given = _given_to(entry)
    for known in _newest_of(alike, given):
        if not given.limits <= known.limits:
            continue
        if _is_settled(alike[known], given):
            yield alike.pop(known)._replace(passed=entry, passed_at=place)
        elif takes_each_alone(entry.action.target):
            alike[known] = _without_passed(alike[known], entry)


def _is_settled(one: _Failure, given: Given) -> bool:
    """Whether a run that was done, and is not limited more, shows by what it was given that what
    failed passes: any does, where that named nothing and is no check of all there is."""
    entry = one.entry
    is_check = runs_checks(entry.action.target) or _sums_up_tests(entry)
    is_of_all = is_check and _has_begun(entry)
    return covers(given, Given(one.left, given.limits)) or (not one.left and not is_of_all)


def _changed_by_end(ledger: Ledger) -> dict[str, list[FileState]]:
    """The files that were changed, by how their paths end."""
    found: dict[str, list[FileState]] = {}
    for path, state in ledger.files.items():
        if state.word in CHANGED:
            found.setdefault(_end_of(path), []).append(state)
    return found


def _end_of(path: str) -> str:
    """The last two parts of a path: a bare name is not enough to know a file in a folder by."""
    return "/".join(path.removeprefix("./").split("/")[-2:])


def _is_changed_since(one: _Failure, changed: dict[str, list[FileState]]) -> bool:
    """Whether a file that could not be changed was changed after all, by whatever call."""
    path = one.entry.action.target.removeprefix("./")
    return one.entry.action.kind in _CHANGES and any(
        int(state.ref[1:]) > int(one.entry.ref[1:])
        for state in changed.get(_end_of(path), ())
        if ends_with_path(state.path, path) or ends_with_path(path, state.path)
    )


def _without_passed(one: _Failure, passed: CallEntry) -> _Failure:
    """A failure of which some things passed by themselves."""
    left = not_given(one.left, _given_to(passed).things)
    new = tuple((thing, passed.ref) for thing in sorted(one.left - left))
    return one._replace(left=left, parts=(*one.parts, *new))


def _with_failed(one: _Failure, given: frozenset[str]) -> _Failure:
    """A failure of which some things had passed by themselves, and failed again."""
    passed = frozenset(thing for thing, _ in one.parts)
    still = not_given(passed, given)
    parts = tuple(part for part in one.parts if part[0] in still)
    return one._replace(left=one.left | (passed - still), parts=parts)


def _note_failure(alike: _Standing, entry: CallEntry, place: int) -> None:
    """Take down a failed run in place of those that were given no more than it."""
    given, times = _given_to(entry), 1
    for known in _newest_of(alike, given):
        old = alike[known]
        if not covers(given, known):
            alike[known] = _with_failed(old, given.things)
            continue
        del alike[known]
        if covers(known, given) and _has_failed_alike(old.entry, entry):
            times += old.times
    alike[given] = _Failure(entry, place, times, given.things)


def _has_failed_alike(one: CallEntry, other: CallEntry) -> bool:
    return one.ending == other.ending and _has_begun(one) == _has_begun(other)


def _has_begun(entry: CallEntry) -> bool:
    """Whether what was called did run: a program that is not there says nothing of its work."""
    return entry.result is None or not has_not_begun(entry.result)


def _given_to(entry: CallEntry) -> Given:
    """What a command was given; nothing for other calls, nor for a commit, as any later one
    settles it."""
    command = entry.action.target if entry.action.kind == "run" else ""
    given = given_of(command)
    return given if family_of(command) != "git commit" else Given(limits=given.limits)


def _newest_of(alike: _Standing, given: Given) -> tuple[Given, ...]:
    """What failed runs were given that a run may be of: the newest, and the same; of many a run
    of named things is compared with these only."""
    newest = islice(reversed(alike), _MOST_COMPARED) if any(given) else reversed(alike)
    same = (given,) if given in alike else ()
    return tuple(dict.fromkeys((*same, *newest)))


def _has_searched(entry: CallEntry) -> bool:
    """Whether a search did run: that it found nothing, or not all was there, is no failure."""
    return _is_search(entry) and _has_begun(entry)


def _is_search(entry: CallEntry) -> bool:
    return entry.action.kind == "run" and is_search(entry.action.target)


def _is_inline(entry: CallEntry) -> bool:
    return entry.action.kind == "run" and is_inline_code(entry.action.target)


def _kind_of(entry: CallEntry) -> str:
    command = entry.action.target
    if entry.action.kind == "run":
        # One piece of inline code, or one search, tells nothing of another.
        is_single = _is_inline(entry) or _is_search(entry)
        return f"run {command if is_single else family_of(command)}"
    # Who has read a file has not changed it.
    does = "change" if entry.action.kind in _CHANGES else f"{entry.call.name} {entry.action.kind}"
    return f"{does} {entry.action.target}"


def _what(entry: CallEntry) -> str:
    if entry.action.kind == "run":
        return f"{command_line_of(entry.action.target, 80)}{entry.where}"
    return f"{entry.call.name} {first_line(entry.action.target, 80)}".strip()


def _cause(entry: CallEntry) -> str:
    if entry.ending == "timed out":
        return "timed out"
    found = causes_of(entry.result) if entry.result is not None else ()
    return short("; ".join(dict.fromkeys(found)), 160)


def _summary(entry: CallEntry) -> str:
    """How a run of tests or a build says itself that it failed."""
    return ending_of(entry.result) if entry.result and _sums_up_tests(entry) else ""


def _sums_up_tests(entry: CallEntry) -> bool:
    return entry.result is not None and is_run_of_tests(entry.result)


def _refs_of(*entries: CallEntry) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ref for entry in entries for ref in (entry.ref, entry.result_ref)))


def _open_item(one: _Failure) -> Item:
    is_late = one.entry.ending == "timed out"
    cause = "" if is_late else _cause(one.entry)
    is_failing = not is_late and (one.times > 1 or _sums_up_tests(one.entry))
    how = "still failing" if is_failing else one.entry.ending
    often = f" {one.times} times" if one.times > 1 else ""
    text = f"{how}{often}: {_what(one.entry)}{f': {cause}' if cause else ''}{_passed_since(one)}"
    return Item(text=text, refs=_refs_of(one.entry))


def _passed_since(one: _Failure) -> str:
    """Which things of a failed run passed by themselves, where they are surely things and no
    pieces of a query: packages, say."""
    if not subcommand_of(one.entry.action.target):
        return ""
    passed = ", ".join(f"{thing} {ref}" for thing, ref in one.parts[:_MOST_BETWEEN])
    return f"; passed since: {passed}" if passed else ""


def _solved_item(one: _Failure, ledger: Ledger) -> Item | None:
    """A failure and what came between it and the run that passed; none where that was nothing."""
    assert one.passed is not None
    cause = _cause(one.entry) or _summary(one.entry)
    between = ledger.entries[one.place + 1 : one.passed_at]
    changed = {
        e.action.target: e
        for e in between
        if e.action.kind in _CHANGES and e.ending == "done" and e.action.target
    }
    is_alike = _kind_of(one.entry) == _kind_of(one.passed)
    options = options_of(one.passed.action.target) if is_alike else ()
    new = [option for option in options if option not in one.entry.action.target]
    steps = [f"edited {path}{_since(path, ledger)}" for path in list(changed)[-_MOST_BETWEEN:]]
    steps += [f"with {' '.join(new[:_MOST_BETWEEN])}"] if new else []
    if not steps:
        runs = (e for e in between if e.action.kind == "run" and e.ending == "done")
        others = [e for e in runs if may_be_one_place(e.folder, one.entry.folder)]
        told = [e for e in others if _is_named(e, cause)][-_MOST_BETWEEN:] or others[-1:]
        steps = [f"ran {command_line_of(e.action.target, 60)}" for e in told]
        changed = {e.action.target: e for e in told}
    if not cause or (not steps and one.entry.action.kind != "run"):
        return None
    way = f"; between: {', '.join(steps)}" if steps else ""
    failed = f"failed {one.entry.ref}{f', {one.times} times' if one.times > 1 else ''}"
    text = f"{_what(one.entry)}: {failed} ({cause}){_words_of_pass(one.entry, one.passed)}{way}"
    used = list(changed.values())[-_MOST_BETWEEN:]
    refs = dict.fromkeys((one.entry.result_ref, *(e.ref for e in used)))
    return Item(text=text, refs=tuple(refs))


def _is_named(entry: CallEntry, cause: str) -> bool:
    """Whether a cause names what a run was given: a module that is missing, a file."""
    words = frozenset(_WORD.findall(cause))
    return not words.isdisjoint(thing.rpartition("/")[2] for thing in _given_to(entry).things)


def _words_of_pass(failed: CallEntry, passed: CallEntry) -> str:
    """Which call passed, in its own words where it was given other things than the one before, or
    was prepared otherwise; not where more of the call failed."""
    if passed.ending != "done":
        return f", passed {passed.ref}"
    before, after = _given_to(failed), _given_to(passed)
    is_more = before.limits == after.limits and before.things and before.things <= after.things
    is_prepared_alike = preparation_of(failed.action.target) == preparation_of(passed.action.target)
    if is_prepared_alike and (before == after or is_more):
        return f", passed {passed.ref}"
    return f"; {_what(passed)} passed {passed.ref}"


def _since(path: str, ledger: Ledger) -> str:
    """What became of a file that was edited then, where it is no longer there."""
    state = ledger.files.get(path)
    is_gone = state is not None and state.word in ("deleted", "moved", "reverted")
    return f" ({state.word} since)" if state is not None and is_gone else ""


def _once(items: Sequence[Item]) -> list[Item]:
    return list({item.text: item for item in reversed(items)}.values())[::-1]
