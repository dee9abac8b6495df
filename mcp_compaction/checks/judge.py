"""What the pins say of a call before it runs, in words that quote them byte for byte."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, NamedTuple

from mcp_compaction.checks.check import RUNS, VERDICTS, PinCheck, look_anew
from mcp_compaction.checks.lines import kind_of, tables
from mcp_compaction.checks.match import (
    Call,
    MatchedPart,
    find_match,
    find_run,
    has_own_words,
    lines_of,
    paths_of,
    texts_in,
)
from mcp_compaction.home import mask

_WRITES = PinCheck("ask", ("Write", "Edit"), "**")
_WRITES_CODE = _WRITES._replace(unless="*.md|*.mdx|*.rst|*.adoc|docs/**")

_SHOWS_ONLY = "* --version|* --help|* -h|* --collect-only|* --co|* --list"  # and runs nothing
_CUT = re.compile(r"[;|&\n]")
_LEFT = re.compile(r"(?<!&)&\s*$")  # to run while the agent goes on


class Rule(NamedTuple):
    """A pin with its checks."""

    pin: int
    text: str
    checks: tuple[PinCheck, ...]
    author: str = "user"
    scope: str = "project"
    project: str = ""
    session: str = ""  # the host's own id of it
    expires: str = ""
    unread: tuple[str, ...] = ()  # lines beside it that are no checks

    @property
    def ref(self) -> str:
        """The short id: `p2`."""
        return f"p{self.pin}"


class Deed(NamedTuple):
    """A call that was made, and whether it came out well; None: that is not known."""

    tool: str
    given: dict[str, Any]
    is_green: bool | None = None


class HeldCall(NamedTuple):
    """A call that a pin speaks of: what to do with it, and why."""

    rule: Rule
    check: PinCheck
    verdict: str
    part: str
    is_sure: bool = True

    @property
    def text(self) -> str:
        """What the model, or the user, is told; a script may hold secrets that neither has seen."""
        rule, part = self.rule, " ".join(mask(self.part).split())
        lines = [f"pin {rule.ref}, by {rule.author}: {rule.text}"]
        if part:
            lines.append(f"It means: {part}")
        if self.check.run:
            lines.append(
                f"A green run of {self.check.run} was not seen since the last change of a file; "
                "changes by other means than the agent's tools are not seen."
            )
        elif not self.is_sure:
            lines.append("The line cannot be read as far as that; write it plainly.")
        return "\n".join(lines)

    @property
    def way_past(self) -> str:
        """The sentence that says how the user lets a call past the pin."""
        way = f"mcp-compaction pins check {self.rule.ref} --once"
        return f"Only the user can lift it, for one call: {way}"


def judge(
    call: Call, rules: Iterable[Rule], deeds: Callable[[], Iterable[Deed]] = tuple
) -> list[HeldCall]:
    """What the rules say of a call, the strictest first; `deeds`: the calls before it, the newest
    first."""
    held: list[HeldCall] = []
    look_anew()
    call = call._replace(read={})
    for rule in rules:
        for check in rule.checks:
            here = call._replace(root=rule.project or call.root)
            found = find_match(check, here)
            if found is not None and not (check.run and _was_run(check.run, here, deeds())):
                held.append(_hold(rule, check, found))
                break
    return sorted(held, key=lambda one: -VERDICTS.index(one.verdict))


def is_named(call: Call, rules: Iterable[Rule]) -> bool:
    """Whether a call, which there is no time to read, holds all words of a check that holds."""
    checks = (check for rule in rules for check in rule.checks if check.verdict != "remind")
    said = "\n".join(texts_in(call.given))
    return any(has_own_words(check.glob, said) for check in checks)


def _hold(rule: Rule, check: PinCheck, found: MatchedPart) -> HeldCall:
    """A check that is not sure of a line asks about it, and does not stop it."""
    is_doubt = check.verdict == "deny" and not found.is_sure
    verdict = "ask" if is_doubt else check.verdict
    return HeldCall(rule, check, verdict, found.part, found.is_sure)


def _was_run(run: str, call: Call, deeds: Iterable[Deed]) -> bool:
    """Whether a command was run, and green, since the last change of a file. For tests, lint, types
    and build a change of documents alone is none; what a command of the user's looks at only they
    know."""
    globs = tables().runs.get(run, run.split("|"))
    change = _WRITES_CODE if run in RUNS else _WRITES
    if _runs(globs, Deed(call.tool, dict(call.given)), call, before_own=True):
        return True
    for deed in deeds:
        made = Call(deed.tool, deed.given, call.folder, call.root, {})
        is_left = deed.given.get("run_in_background") or _LEFT.search(" ".join(lines_of(made)))
        if deed.is_green and not is_left and _runs(globs, deed, call):
            return True
        is_unknown = kind_of(deed.tool) in ("write", "edit") and not any(paths_of(made))
        if is_unknown or find_match(change, made) is not None:
            return False
    return False


def _runs(globs: Iterable[str], deed: Deed, call: Call, *, before_own: bool = False) -> bool:
    made = Call(deed.tool, deed.given, call.folder, call.root, {})
    if kind_of(deed.tool) != "run":
        return False
    for line in lines_of(made):
        # In one line with the call itself it counts only where it decides whether that is run.
        chain = line.split("&&")[:-1]
        texts = [_CUT.split(part)[-1] for part in chain] if before_own else [line]
        for glob, said in product(globs, texts):
            found = find_run(glob, said, made, _SHOWS_ONLY) if said else None
            if found is not None and found.is_sure:
                return True
    return False


def is_green(failed: bool | None, output: str) -> bool | None:
    """Whether a run came out well, as its host says and as it printed."""
    if failed:
        return False
    return not tables().is_red.search(output[-20_000:])
