"""A check: which calls of tools a pin remarks on, asks about or stops, as one line of text.

deny Bash: git push --force
ask Write|Edit: migrations/** unless migrations/drafts/**
must tests before Bash: git commit
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

VERDICTS: Final = ("remind", "ask", "deny")
"""What a check says of a call, the gentlest first; none allows what a host would not."""

RUNS: Final = ("tests", "lint", "types", "build")
"""What may be said for all commands of a kind."""

_TOOL = r"(?:mcp:[\w.*-]+|[A-Za-z*][\w.*-]*)"
_LINE = re.compile(
    rf"(?P<verdict>{'|'.join(VERDICTS)})\s+(?P<tools>{_TOOL}(?:\|{_TOOL})*)\s*:\s*(?P<glob>\S.*)",
    re.S,
)
_MUST = re.compile(
    r"(?:(?P<verdict>ask|deny)\s+)?must\s+(?P<run>\"[^\"]+\"|[a-z]+)\s+before\s+"
    rf"(?P<tools>{_TOOL}(?:\|{_TOOL})*)\s*:\s*(?P<glob>\S.*)",
    re.S,
)
_MOST_CHARS = 500


class NoCheckError(ValueError):
    """A line that is no check; the text says how one is written."""


class PinCheck(NamedTuple):
    """One check; with `run` it holds only where such a command was not run, and green, since the
    last change of a file."""

    verdict: str
    tools: tuple[str, ...]
    glob: str
    unless: str = ""
    run: str = ""

    @property
    def excepted(self) -> list[str]:
        """The globs of what it lets pass."""
        return [glob.strip() for glob in self.unless.split("|") if glob.strip()]

    def __str__(self) -> str:
        """The line that it is written as."""
        what = f"{'|'.join(self.tools)}: {self.glob}"
        what += f" unless {self.unless}" if self.unless else ""
        if not self.run:
            return f"{self.verdict} {what}"
        run = self.run if self.run in RUNS else f'"{self.run}"'
        return f"{'deny ' if self.verdict == 'deny' else ''}must {run} before {what}"


def parse_check(line: str) -> PinCheck:
    """The check that a line says."""
    said = line.strip()
    is_line = len(said) <= _MOST_CHARS and "\n" not in said  # or no pattern looks at it
    found = (_LINE.fullmatch(said) or _MUST.fullmatch(said)) if is_line else None
    if found is None:
        raise NoCheckError(
            f"{said[:80]!r} is no check; write: deny Bash: git push --force, or: ask Write|Edit: "
            'migrations/** unless migrations/drafts/**, or: must "pytest" before Bash: git commit'
        )
    glob, _, unless = found["glob"].partition(" unless ")
    run = found.groupdict().get("run") or ""
    is_quoted = run.startswith('"')
    if not is_quoted and run and run not in RUNS:
        raise NoCheckError(f"{run}: quote the command, or say tests, lint, types or build.")
    return PinCheck(
        found["verdict"] or "ask",
        tuple(found["tools"].split("|")),
        glob.strip(),
        unless.strip(),
        run.strip('"').strip(),
    )


def read_checks(lines: Iterable[str]) -> tuple[tuple[PinCheck, ...], tuple[str, ...]]:
    """The checks of lines that were kept, and those lines that are none: they lift no other."""
    checks: list[PinCheck] = []
    unread: list[str] = []
    for line in lines:
        try:
            checks.append(parse_check(line))
        except (NoCheckError, AttributeError):
            unread.append(str(line))
    return tuple(checks), tuple(unread)


def parse_checks(text: str) -> tuple[PinCheck, ...]:
    """The checks of a text, one a line."""
    return tuple(parse_check(line) for line in text.splitlines() if line.strip())
