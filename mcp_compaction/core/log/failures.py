"""Tells which failures are still open: nothing since reached what they were to reach, by the same
command, address, file or tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from mcp_compaction.core.log.call_entries import CHANGES, CallEntry
from mcp_compaction.core.log.commands import is_search, main_command_of, only_reads, program_of
from mcp_compaction.core.log.effects import effects_of
from mcp_compaction.core.log.endings import failed_tests_in, has_not_begun, is_run_of_tests
from mcp_compaction.shell import Command, commands_of, programs

_ALL = frozenset((".", "./..."))
_PASSED = frozenset(("PASS", "PASSED", "PASS:", "ok", "✓", "✔"))
_ONLY_ASKS = frozenset(("-I", "--head", "--spider"))  # of an address, and does not get it


class Failure(NamedTuple):
    """The last call of a form that failed, and how often in a row it did."""

    entry: CallEntry
    times: int


_MOST_OPEN = 12  # failures that a later call is held against: a digest tells of fewer


def open_failures(entries: Iterable[CallEntry], changed: Mapping[str, int]) -> Iterator[Failure]:
    """The last failure of each form whose aim was not reached since; a search that found nothing,
    or a look at what is not there, is none, and what a script did that was written anew since, or
    another in its place, is past. `changed`: the message in which each file was changed
    last."""
    standing: dict[str, Failure] = {}
    left: dict[str, set[Command]] = {}  # of each, the commands that were not done since
    written: dict[str, int] = {}  # the files written anew, by their names
    newest: dict[frozenset[str], str] = {}  # the script that was run last with the same words
    for entry in entries:
        if entry.ending != "refused":
            written |= dict.fromkeys(_written_by(entry), int(entry.ref[1:]))
            script, words = _script_of(entry)
            newest[words] = script
        if entry.ending in ("failed", "timed out") and not _only_looks(entry):
            before = standing.pop(entry.form, None)
            standing[entry.form] = Failure(entry, before.times + 1 if before else 1)
            left[entry.form] = {*_works_of(_line_of(entry))}
        elif entry.ending == "done" and standing:
            standing.pop(entry.form, None)
            if not _line_of(entry) and not any(_addresses(entry)):
                continue  # no aim is reached so but that of the same call
            for form, one in [*standing.items()][-_MOST_OPEN:]:
                left[form] -= {*_done_of(left[form], entry)}
                is_done = bool(_line_of(one.entry)) and not left[form]
                if is_done or _is_reached(one.entry, entry):
                    del standing[form]
    for one in standing.values():
        place = int(one.entry.ref[1:])
        path = one.entry.action.target.removeprefix("./")
        is_changed = changed.get(path, 0) > place  # by whatever call
        script, words = _script_of(one.entry)
        scripts = {script, newest[words]} if words else {script}
        is_written = any(written.get(name, 0) > place for name in scripts)
        if not is_written and not (one.entry.action.kind in CHANGES and is_changed):
            yield one


def _written_by(entry: CallEntry) -> Iterator[str]:
    """The names of the files that a call wrote anew or took away."""
    if entry.action.kind == "write":
        yield _name_of(entry.action.target)
    for effect in effects_of(_line_of(entry)):
        if effect.does in ("write", "delete"):
            yield _name_of(effect.path)


def _script_of(entry: CallEntry) -> tuple[str, frozenset[str]]:
    """The name of the script that a line runs, and the words that it is given."""
    script = program_of(_line_of(entry)).rpartition(" ")[2]
    given = (
        one
        for one in _words_of(_line_of(entry))
        if not one.startswith("-") and _name_of(one) != script
    )
    return (script, frozenset(given)) if "." in script else ("", frozenset())


def _only_looks(entry: CallEntry) -> bool:
    """Whether a call only looked, or ran code that stands in its own line and is never run again as
    it is: neither leaves anything open."""
    line = _line_of(entry)
    if entry.action.kind in ("read", "search") or is_search(line) or only_reads(line):
        return True
    main = main_command_of(line)
    is_code = main is not None and main.name.rstrip("0123456789.") in programs().interpreters
    is_inline = main is not None and bool(main.given or not {"-c", "-e"}.isdisjoint(main.words))
    return is_code and is_inline and not effects_of(line)


def _is_reached(failed: CallEntry, done: CallEntry) -> bool:
    """Whether a call reached what an earlier one of another form was to reach."""
    return (
        _gets_the_same(failed, done)
        or _runs_the_same(failed, done)
        or _tests_the_same(failed, done)
    )


def _line_of(entry: CallEntry) -> str:
    return entry.action.target if entry.action.kind == "run" else ""


@lru_cache(maxsize=2_048)
def _works_of(line: str) -> tuple[Command, ...]:
    """The commands of a line that do its work; all, where all only look."""
    commands = [one for one in commands_of(line) or () if one.words]
    working = [one for one in commands if one.name not in programs().beside]
    return tuple(working or commands)


def _done_of(left: set[Command], done: CallEntry) -> Iterator[Command]:
    """The commands that a call ran as they were, perhaps by a newer program or through another."""
    others = _works_of(_line_of(done))
    yield from (one for one in left if any(_ends_in(other, one) for other in others))


def _ends_in(one: Command, other: Command) -> bool:
    is_only_named = one.name != other.name and one.name in programs().beside
    if is_only_named or (one.folder, one.given) != (other.folder, other.given):
        return False
    words = (other.name.rstrip("0123456789."), *other.words[1:])
    last = one.words[-len(words) :]
    is_all = len(one.words) == len(words)
    last = (last[0].rpartition("/")[2].rstrip("0123456789."), *last[1:])
    return last == words and (is_all or len(words) > 1)


def _gets_the_same(failed: CallEntry, done: CallEntry) -> bool:
    """Whether the same addresses were got, with all that was asked of them."""
    wanted = set(_addresses(failed))
    if not wanted or not wanted.issubset(_addresses(done)):
        return False
    words = _words_of(_line_of(done))
    return _ONLY_ASKS.isdisjoint(words) and words.issuperset(
        word
        for command in _works_of(_line_of(failed))
        for word in command.words[1:]
        if not word.startswith("-") and "." not in word
    )


def _addresses(entry: CallEntry) -> Iterator[str]:
    line = _line_of(entry)
    words = _words_of(line) if line else map(str, entry.call.arguments.values())
    return (word for word in words if word.startswith(("http://", "https://")))


@lru_cache(maxsize=2_048)
def _words_of(line: str) -> frozenset[str]:
    return frozenset(word for command in _works_of(line) for word in command.words[1:])


def _runs_the_same(failed: CallEntry, done: CallEntry) -> bool:
    """Whether a program ran with all that it was given before, by name, whatever its options and
    from wherever, or a later commit was made: no run of tests, nor one that gets an address."""
    program = program_of(_line_of(failed))
    if not program or program != program_of(_line_of(done)):
        return False
    if _is_run(failed) or any(_addresses(failed)):
        return False
    wanted, given = (
        {_name_of(word) for word in _words_of(_line_of(one)) if not word.startswith("-")}
        for one in (failed, done)
    )
    return program == "git commit" or (wanted <= given if wanted else not given)


def _name_of(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _tests_the_same(failed: CallEntry, done: CallEntry) -> bool:
    """Whether tests that failed, or did not begin, passed in a run of more or of fewer."""
    line, later = _line_of(failed), _line_of(done)
    has_begun = failed.result is None or not has_not_begun(failed.result)
    if not (line and later and (_is_run(failed) or not has_begun) and _is_run(done)):
        return False
    if program_of(line) == program_of(later) and _is_wider(_targets(later), _targets(line)):
        return True
    names = failed_tests_in(failed.result) if failed.result is not None else ()
    targets = [one for one in _targets(later) if not one.startswith("-")]
    said = done.result.text.split("\n") if done.result is not None else ()
    passed = [one for one in said if not _PASSED.isdisjoint(one.split())]
    return bool(names) and all(
        any(target in name or name in target for target in targets)
        or any(word.endswith(name.lstrip("./")) for line in passed for word in line.split())
        for name in names
    )


def _is_run(entry: CallEntry) -> bool:
    return entry.result is not None and is_run_of_tests(entry.result)


@lru_cache(maxsize=2_048)
def _targets(line: str) -> frozenset[str]:
    """What a run of tests was to run; none: all. What it was to leave out stands behind its
    option, as no name of a test does."""
    found: set[str] = set()
    option = ""
    last = _works_of(line)[-1:]
    is_module = any(one.words[1:2] == ("-m",) and program_of(line) != one.name for one in last)
    for word in (word for one in last for word in one.words[3 if is_module else 1 :]):
        name, sign, value = word.partition("=")
        is_left_out = option in programs().leaves_out
        if name in programs().selects:
            found |= {name, value}
        elif sign and name in programs().leaves_out:
            found.add(f"{name} {value}")
        elif not word.startswith("-") and not word.isdigit():
            found.add(f"{option} {word}" if is_left_out else word)
        option = "" if sign else word
    return frozenset(found) - {"", "test", "run", "pytest"}


def _is_wider(some: frozenset[str], others: frozenset[str]) -> bool:
    """Whether a run of some tests runs all that a run of others does."""
    if some <= _ALL:
        return True
    return (
        bool(others)
        and all(any(_is_in(other, one) for one in some) for other in others)
        and all(any(_is_in(other, one) for other in others) for one in some)
    )


def _is_in(target: str, other: str) -> bool:
    return (
        target == other
        or other in _ALL
        or target.startswith((f"{other.rstrip('/')}/", f"{other}::"))
    )
