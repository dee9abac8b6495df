"""Tells how calls ended by their results: done, refused, interrupted, failed, not yet known; how a
run of tests or a build sums itself up, and why it failed."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from mcp_compaction.core.limits import LONGEST_ANSWER, LONGEST_LINE, MOST_TRIED
from mcp_compaction.core.log.identifiers import error_lines
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.words import one_line
from mcp_compaction.lexicon.tools import Ending, EndingSign, known_endings
from mcp_compaction.model import ToolResult

CallEnding = Ending | Literal["done"]

_TRACE = "Traceback (most recent call last)"
_RUNS_OTHERS = (  # a shell, by its name or its script's, or sudo
    r"(?:-?(?:\S*/)?(?:(?:ba|z|da|k|a)?sh|sudo)|\S+\.(?:ba|z)?sh|\(eval\))(?::\d+)?"
)
_NOT_FOUND = pattern_of(  # what a shell says of a program, and Python of a module to run
    rf"^(?:Error: )?{_RUNS_OTHERS}: (?:(?:line )?\d+: )?\S+: (?:command )?not found$"
    r"|^(?:Error: )?\S+: (?:line \d+: \S+: )?command not found(?:: \S+)?$"
    r"|^(?:\S+: )?\S*python[\d.]*: No module named \S+$",
    re.M,
)
_NOT_FOUND_SIGNS = ("not found", ": No module named")


def ending_of_call(result: ToolResult) -> CallEnding:
    """How a call ended, by what its result says."""
    # A host repeats a whole command before it says that it timed out.
    opening = result.text[:LONGEST_ANSWER].lstrip()
    if _any_sign().match(opening):
        return next(sign.kind for sign in known_endings() if is_said(sign, opening))
    has_failed = is_failure(result) or _ends_in_trace(result.text) or has_not_begun(result)
    return "failed" if has_failed else "done"


def has_not_begun(result: ToolResult) -> bool:
    """Whether a result says that the program to run was not found."""
    end = result.text[-LONGEST_ANSWER:]
    return any(sign in end for sign in _NOT_FOUND_SIGNS) and bool(_NOT_FOUND.search(end))


def _ends_in_trace(text: str) -> bool:
    return f"\n{_TRACE}" in f"\n{text[-LONGEST_ANSWER:]}"


def is_said(sign: EndingSign, opening: str) -> bool:
    """Whether a result that opens so says that its call ended in this way."""
    if sign.begins:
        return opening.startswith(sign.begins)
    return bool(_pattern(sign.says).match(opening))


@cache
def _pattern(source: str) -> re.Pattern[str]:
    return re.compile(source, re.S)


@cache
def _any_sign() -> re.Pattern[str]:
    """What any of the known endings begins with: most results match none of them."""
    return re.compile(
        "|".join(f"(?:{sign.says or re.escape(sign.begins)})" for sign in known_endings()), re.S
    )


# How a run sums itself up

# Of a whole line.
_SUMMARY = pattern_of(
    r"[ \t=]*(?:\[[A-Z]+\] )?(?:"
    r"Tests?: +\d.+|\d+ (?:passing|failing)\b.*|\d+ examples?, \d+ failures?.*"
    r"|test result: .+|BUILD (?:FAILED|FAILURE|SUCCESS\w*)\b.*|FAILED \(\w+=.+\)|Ran \d+ tests? .+"
    r"|error: could not compile .+|error: build failed.*|make(?:\[\d+\])?: \*\*\* .+"
    r"|npm ERR! code .+|npm error code .+|Found \d+ (?:errors?|problems?)\b.*|[✖✗] \d+ problems?.*"
    r"|Success: no issues found.*|\d+ errors?, \d+ warnings?.*|All checks passed!"
    r"|(?:webpack|vite|Compiled).{0,40}(?:compiled|built|success\w*|with \d+ (?:error|warning)).*"
    r"|Compilation (?:failed|succeeded).*|ok  ?\t?\S+\t[\d.(]+.*|FAIL\t\S+.*|\d+ tests? (?:passed"
    r"|failed|completed).*|no tests ran\b.*)[ \t=]*$",
)
# Counts of tests: no port, as in "0.0.0.0:8080 failed", no "Aug 12 error.log", as a listing has it,
# no "6 failed password attempts".
_COUNTS_TESTS = pattern_of(
    r"(?<![.:])\b\d+ (?:passed|failed|errors?)\b(?![./_-]\w)"
    r"(?! +(?!in [\d.<~]|(?:and|with|of|out of) \d|(?:in total|in the same|total|skipped|found"
    r"|(?:test|check|spec|suite|case|example|assertion|scenario|warning)s?"
    r"|generated|detected|during collection)\b)[^\W\d])"
)
_EXIT_CODE = pattern_of(
    r"(?:\b(?:exit(?:ed)?(?: with)?(?: code| status)?|returncode)[ :=]{1,3}|<returncode>)"
    r"(\d{1,3})\b"
)


def exit_code(result: ToolResult) -> int | None:
    """The exit code a shell's result names, where it does."""
    for part in (result.text[-400:].lower(), result.text[:200].lower()):
        if ("exit" in part or "returncode" in part) and (found := _EXIT_CODE.search(part)):
            return int(found.group(1))
    return None


def ending_of(result: ToolResult) -> str:
    """How a command ended: its exit code, and the line that sums up a test run or a build."""
    code = exit_code(result)
    how = f"exit {code}" if code is not None else "failed" if result.is_error else ""
    summary = one_line(_summary_in(result.text).strip(" \t="))[:LONGEST_LINE]
    return ", ".join(filter(None, (how, summary)))


def is_run_of_tests(result: ToolResult) -> bool:
    """Whether a result sums up a run of tests, checks or a build."""
    return bool(_summary_in(result.text))


def _summary_in(text: str) -> str:
    """The last line of a text that sums up a test run or a build; blank where none does."""
    lines = reversed(text[-LONGEST_ANSWER:].split("\n"))
    return next(filter(_sums_up, lines), "")


def _sums_up(line: str) -> bool:
    if any(word in line for word in ("passed", "failed", "error")) and _COUNTS_TESTS.search(line):
        return True
    return bool(_SUMMARY.match(line))


def is_failure(result: ToolResult) -> bool:
    """Whether a command plainly failed."""
    if result.is_error or exit_code(result):
        return True
    end = result.text[-LONGEST_ANSWER:]
    return any(sign in end for sign in _FAILED_SIGNS) and bool(_FAILED.search(ending_of(result)))


_FAILED = pattern_of(
    r"\b[1-9]\d* (?:failed|failing|errors?|failures?|problems?)\b(?![./_-]\w)|FAIL"
    r"|could not compile"
    r"|build failed|\*\*\*|npm (?:ERR!|error)|[Cc]ompilation failed"
)
_FAILED_SIGNS = ("fail", "FAIL", "error", "ERR!", "problem", "compile", "***")


# Why it failed

_FAILED_TEST = pattern_of(r"^(?:FAILED|FAIL:) \S")
_ASSERTED = pattern_of(r"^E\s+")  # pytest's sign for the lines of a failed assertion
# Source that names an error has not met one.
_IS_CODE = pattern_of(
    r"^(?:\d+[\s:|→-]+)?(?:@|except|raise|catch|throw|throws|elif|if|assert|return|import|from|class"
    r"|def|case|#|//|\*|/\*|print|log|console|[\w.]*log\w*\.)(?:\b|\W)|[{;]$"
    r"|(?<!\.)\.{4,}+.{0,40}(?:Passed|Skipped)$"  # nor has a check among others that passed
)
# What says that a command failed and not why: its exit code, a bare "Error", a host's fold.
_NO_CAUSE = pattern_of(
    r"^\W*(?:exit(?:ed)?|return ?code|process (?:exited|finished))\b"
    r"|.*\b(?:exited|executed|finished) with (?:exit )?(?:code|status) \d+\W*$"
    r"|(?:\W*\berrors?\b)+\W*$|^… \+\d+ lines\b"
    r"|^error: (?:could not compile|aborting|build failed)",
    re.I,
)


def causes_of(result: ToolResult) -> tuple[str, ...]:
    """The lines that say why a tool's answer is a failure: the tests that failed, or the last that
    names an error, or else the last words."""
    found = [
        line
        for line in error_lines(result.text)
        if not (_IS_CODE.search(line) or _NO_CAUSE.match(line))
    ]
    if found and _FAILED_TEST.match(found[-1]):
        return tuple(dict.fromkeys(filter(_FAILED_TEST.match, found)))[:MOST_TRIED]
    if found:
        return (_ASSERTED.sub("", found[-1]),)
    if not result.is_error and not exit_code(result):
        return ()
    text = result.text[:LONGEST_ANSWER] if result.is_error else result.text[-LONGEST_ANSWER:]
    told = telling_lines(text)
    last = told[0] if told and result.is_error else told[-1] if told else ""
    return (last,) if last and not _sums_up(last) else ()


def telling_lines(text: str) -> list[str]:
    """The lines of an answer that say more than how its command ended."""
    lines = (line.strip() for line in text.split("\n"))
    return [line for line in lines if line and not _NO_CAUSE.match(line)]
