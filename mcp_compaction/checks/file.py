"""The small files of checks beside the store, which hooks read without it.

`rules.json` has the pins with checks and is gone where there are none; `held.jsonl` notes what was
held; `once-p2` lets one call past a pin. Only the user's own account may read or write them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from mcp_compaction.checks.check import is_below, read_checks
from mcp_compaction.checks.judge import HeldCall, Rule
from mcp_compaction.git_folders import home_of
from mcp_compaction.home import HELD, ONCE, RULES
from mcp_compaction.lexicon import host_names, read_table, stamp_of, table_of, take_table

_ONCE_SECONDS = 600.0
_SAME_SECONDS = 5.0
_PATIENCE = 0.5  # seconds for another hook
_PAUSE = 0.01  # seconds
_TYPES = [*map(type, Rule(0, "", ()))]
_TABLES = ["tools.toml", "checks.toml"]  # which go with the rules, as those of hosts do


class UnreadableRulesError(Exception):
    """The rules are there, and they, or some of them, cannot be read."""


class HeldNote(NamedTuple):
    """One call that was held."""

    at: float  # seconds since 1970
    pin: int
    verdict: str
    host: str
    session: str  # the host's own id
    call: str  # the host's id of the call
    way: str = ""  # by which of two hooks


def rules_path(home: Path) -> Path:
    """The file of the rules."""
    return RULES.path(home)


def write_rules(home: Path, rules: Iterable[Rule]) -> None:
    """Write the rules anew; whoever reads them finds them whole."""
    told = [{**rule._asdict(), "checks": [*map(str, rule.checks), *rule.unread]} for rule in rules]
    for one in told:
        del one["unread"]  # which is read from the lines again
    if not told:
        rules_path(home).unlink(missing_ok=True)
        return
    tables = {name: [stamp_of(name), read_table(name)] for name in _tables()}
    text = json.dumps({"version": 1, "rules": told, "tables": tables}, ensure_ascii=False)
    RULES.write(home, text)


def read_rules(home: Path) -> list[Rule]:
    """The rules with checks; none where there is no file. What is no rule or no check stands in
    `unread`, and the others hold."""
    try:
        text = rules_path(home).read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise UnreadableRulesError(str(error)) from error
    try:
        told: Any = json.loads(text)
        known = _tables()
        for name, (stamp, table) in told.get("tables", {}).items():
            if name in known and stamp == stamp_of(name):
                take_table(name, table)
        return [_rule_of(one) for one in told["rules"]]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnreadableRulesError(str(error)) from error


def _tables() -> list[str]:
    """The files of data that hooks read beside the rules."""
    return [*_TABLES, *map(table_of, host_names())]


def _rule_of(told: Any) -> Rule:
    with suppress(TypeError, KeyError):
        checks, unread = read_checks(told["checks"])
        others: dict[str, Any] = {name: told[name] for name in Rule._fields if name in told}
        rule = Rule(**others)._replace(checks=checks, unread=unread)
        if [*map(type, rule)] == _TYPES:
            return rule
    return Rule(0, "", (), scope="global", unread=(json.dumps(told)[:80],))


def refuse_unread(rules: Iterable[Rule]) -> None:
    """Say which lines are no checks, where there are any."""
    if lines := [f"{rule.ref}: {line}" for rule in rules for line in rule.unread]:
        raise UnreadableRulesError(f"no check is {'; '.join(lines)}")


def rules_for(rules: Iterable[Rule], folders: Iterable[str], session: str) -> list[Rule]:
    """The rules that hold in a chat: everywhere, in its project, or in it alone. A worktree is its
    repository's, whichever of the two a rule was made in."""
    now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    real = [home_of(os.path.realpath(folder)) for folder in folders if folder]
    known = {"": ""}
    found: list[Rule] = []
    for rule in rules:
        if rule.project not in known:
            path = rule.project  # or a name, as a team's server has it
            known[path] = home_of(os.path.realpath(path) if Path(path).is_absolute() else path)
        home = known[rule.project]
        is_here = rule.scope == "project" and any(is_below(one, home) for one in real)
        is_of_chat = rule.scope == "session" and rule.session and rule.session == session
        if not (rule.expires and rule.expires <= now) and (
            rule.scope == "global" or is_here or is_of_chat
        ):
            found.append(rule._replace(project=home))
    return found


def note_held(
    home: Path, held: HeldCall, host: str, session: str, call: str, way: str = ""
) -> None:
    """Note that a call was held, and nothing of what it was to do; never fails."""
    note = HeldNote(round(time.time(), 3), held.rule.pin, held.verdict, host, session, call, way)
    with suppress(OSError):  # a hook never stops its host
        HELD.add(home, note._asdict())


def read_held(home: Path) -> Iterator[HeldNote]:
    """The calls that were held, the oldest first."""
    yield from HELD.read(home, HeldNote)


def notes_of(home: Path, session: str, call: str, way: str) -> list[HeldNote]:
    """The notes that other hooks of ours have just made of this very call."""
    since = time.time() - _SAME_SECONDS
    return [
        note
        for note in read_held(home)
        if call and (note.session, note.call) == (session, call)
        if note.way != way and note.at > since
    ]


@contextmanager
def one_at_a_time(home: Path) -> Generator[bool]:
    """Have the hooks of one call answer one after another, where the system can; False: another one
    does not go on, and is not waited for any longer."""
    end = time.monotonic() + _PATIENCE
    with rules_path(home).open("rb") as file:
        while not (is_ours := _try_to_lock(file)) and time.monotonic() < end:
            time.sleep(_PAUSE)
        yield is_ours


def _try_to_lock(file: BinaryIO) -> bool:
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, ImportError) as error:
        return isinstance(error, ImportError)  # Windows has none, and nobody waits there
    return True


def allow_once(home: Path, pin: int) -> None:
    """Let the next call past a pin, within ten minutes."""
    ONCE.write(home, "", str(pin))


def take_once(home: Path, pin: int) -> bool:
    """Whether the user lets this call past a pin; it counts for one."""
    path = ONCE.path(home, str(pin))
    try:
        is_fresh = time.time() - path.stat().st_mtime < _ONCE_SECONDS
        path.unlink()
    except OSError:
        return False
    return is_fresh
