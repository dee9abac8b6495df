"""Holds calls of a program's own tools, as the checks of pins say, before they run; counts what
failed inside an adapter, and reads what a provider's error says.

    guard = CallGuard(home, project=".")
    refusal = guard.hold("Bash", {"command": "git push origin main"})
    if refusal is None:
        guard.note("Bash", {"command": …}, output=run(…))

It reads the file that hooks read, at each call: a check counts from when its user takes it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from mcp_compaction.checks.file import (
    UnreadableRulesError,
    note_held,
    read_rules,
    refuse_unread,
    rules_for,
    take_once,
)
from mcp_compaction.checks.judge import Deed, is_green, judge
from mcp_compaction.checks.match import Call

__all__ = ["CallGuard"]

logger = logging.getLogger(__name__)

_MOST_DEEDS = 500


class Failures:
    """The failures of one adapter; each is logged, and whatever it is a part of goes on."""

    def __init__(self, part_of: str) -> None:
        """Count for an adapter that is part of a "loop", a "graph" or a "run"."""
        self.count = 0
        self.part_of = part_of

    def isolate(self, doing: str) -> _Isolation:
        """A block that the program goes on after, whatever fails inside."""
        return _Isolation(self, doing)


class _Isolation:
    # A class: of a generator's context manager a type checker does not know that it may swallow.
    def __init__(self, failures: Failures, doing: str) -> None:
        self._failures = failures
        self._doing = doing

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception) or isinstance(error, MemoryError | RecursionError):
            return False
        part_of = self._failures.part_of
        logger.error("%s failed; the %s goes on without it", self._doing, part_of, exc_info=error)
        self._failures.count += 1
        return True


def text_of_error(error: Exception) -> str:
    """All that a provider's error says: its text, its body and its status."""
    response = getattr(error, "response", None)
    status = getattr(error, "status_code", None) or getattr(response, "status_code", "")
    texts = [str(error), _read_text(error, "body"), _read_text(response, "text"), f"HTTP {status}"]
    return " ".join(texts)


def _read_text(source: Any, name: str) -> str:
    """An attribute as text; empty where it cannot be read, as that of an unread stream."""
    with suppress(Exception):
        return str(getattr(source, name, ""))
    return ""


class CallGuard:
    """The checks of pins for one program: what may run, and what was run before."""

    def __init__(
        self,
        home: Path | str,
        *,
        project: Path | str = ".",
        session: str = "",
        ask: Callable[[str], bool] | None = None,
    ) -> None:
        """A guard on the folder of a store.

        `project`: the folder that the tools work in. `session`: the id by which pins of one chat
        are known. `ask`: puts a question to the user; without it an ask is a refusal.
        """
        self._home, self._project = Path(home), os.path.realpath(project)
        self._session, self._ask = session, ask
        self._deeds: list[Deed] = []
        self.failures = (
            0  # calls that were not checked as a whole, since some checks could not be read
        )

    def hold(self, tool: str, arguments: Mapping[str, Any], call: str = "") -> str | None:
        """What to answer in place of a result; None: the tool may run."""
        try:
            rules = rules_for(read_rules(self._home), [self._project], self._session)
            made = Call(tool, arguments, self._project, self._project)
            found = judge(made, rules, lambda: reversed(self._deeds))
            if not found:
                refuse_unread(rules)
        except UnreadableRulesError as error:
            if not self.failures:
                logger.warning("not all checks of pins can be read; calls go on: %s", error)
            self.failures += 1
            return None
        for held in found:
            if held.verdict == "remind":
                continue
            is_past = take_once(self._home, held.rule.pin) or (
                held.verdict == "ask" and self._ask is not None and self._ask(held.text)
            )
            verdict = "allowed" if is_past else held.verdict
            note = held._replace(verdict=verdict)
            note_held(self._home, note, "program", self._session, call)
            if not is_past:
                return f"{held.text}\n{held.way_past}"
        return None

    def note(
        self, tool: str, arguments: Mapping[str, Any], output: str = "", *, failed: bool = False
    ) -> None:
        """Note that a tool was run, for what must run before another."""
        self._deeds.append(Deed(tool, dict(arguments), is_green(failed, output)))
        del self._deeds[:-_MOST_DEEDS]
