"""Tells how calls ended by their results: done, refused, interrupted, failed, not yet known; how a
run of tests or a build sums itself up, and why it failed."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from mcp_compaction.core.limits import LONGEST_ANSWER, LONGEST_LINE, LONGEST_TEXT, MOST_TRIED
from mcp_compaction.core.log.identifiers import error_lines
from mcp_compaction.core.reading import read_once
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.words import one_line
from mcp_compaction.lexicon.tools import Ending, EndingSign, known_tools
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


def ending_of_call(result: ToolResult, *, reads: bool = False) -> CallEnding:
    """How a call ended, by what its result says; of one that only `reads`, what was read says
    nothing of it."""
    # A host repeats a whole command before it says that it timed out.
    opening = result.text[:LONGEST_ANSWER].lstrip()
    if _any_sign().match(opening):
        return next(sign.kind for sign in known_tools().ending if is_said(sign, opening))
    has_failed = result.is_error or has_not_begun(result) or bool(_TOLD_FIRST.match(opening))
    if not reads:
        ends_in_trace = f"\n{_TRACE}" in f"\n{result.text[-LONGEST_ANSWER:]}"
        has_failed = has_failed or is_failure(result) or ends_in_trace
    return "failed" if has_failed else "done"


def has_not_begun(result: ToolResult) -> bool:
    """Whether a result says that the program to run was not found."""
    end = result.text[-LONGEST_ANSWER:]
    return any(sign in end for sign in _NOT_FOUND_SIGNS) and bool(_NOT_FOUND.search(end))


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
        "|".join(f"(?:{sign.says or re.escape(sign.begins)})" for sign in known_tools().ending),
        re.S,
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
    r"|failed|completed).*|no tests (?:ran|collected)\b.*)[ \t=]*$",
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
# By a host, before what was printed; or behind it in brackets.
_TOLD_FIRST = pattern_of(r"(?:Exit code |<returncode>|(?s:.*)\n\[[^\n]{0,40}exit code:? )[1-9]")


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
    summary = one_line(_summary_in(result.text, is_failure(result)).strip(" \t="))[:LONGEST_LINE]
    return ", ".join(filter(None, (how, summary))) or ("failed" if failed_tests_in(result) else "")


def is_run_of_tests(result: ToolResult) -> bool:
    """Whether a result sums up a run of tests, checks or a build, or names tests that failed."""
    return bool(_summary_in(result.text) or failed_tests_in(result))


def _summary_in(text: str, has_failed: bool = False) -> str:
    """The last line of a text that sums up a test run or a build, of one that failed the last that
    says so, and none that says the contrary; blank where none does."""
    lines = _lines_that_sum_up(text[-LONGEST_ANSWER:])
    if has_failed and lines:
        bad = [one for one in lines if _FAILED.search(one)]
        lines = tuple(bad or [one for one in lines if not one.lstrip().startswith("ok")])
    return lines[0] if lines else ""


@read_once
def _lines_that_sum_up(text: str) -> tuple[str, ...]:
    """The lines that sum up a test run or a build, the last one first."""
    return tuple(one for one in reversed(text.split("\n")) if _sums_up(one))


def _sums_up(line: str) -> bool:
    if any(word in line for word in ("passed", "failed", "error")) and _COUNTS_TESTS.search(line):
        return True
    return bool(_SUMMARY.match(line))


def is_failure(result: ToolResult) -> bool:
    """Whether a command plainly failed."""
    if result.is_error or exit_code(result):
        return True
    end = result.text[-LONGEST_ANSWER:]
    has_sign = any(sign in end for sign in _FAILED_SIGNS)
    return has_sign and bool(_FAILED.search(_summary_in(result.text)) or failed_tests_in(result))


_FAILED = pattern_of(
    r"\b[1-9]\d* (?:failed|failing|errors?|failures?|problems?)\b(?![./_-]\w)|FAIL"
    r"|could not compile"
    r"|build failed|\*\*\*|npm (?:ERR!|error)|[Cc]ompilation failed"
)
_FAILED_SIGNS = ("fail", "FAIL", "error", "ERR!", "problem", "compile", "***")


# Why it failed

# Source that names an error has not met one.
_IS_CODE = pattern_of(
    r"^(?:\d+[\s:|→-]+)?(?:@|except|raise|catch|throw|throws|elif|if|assert|return|import|from|class"
    r"|def|case|#|//|\*|/\*|print|log|console|[\w.]*log\w*\.)(?:\b|\W)|[{;]$"
    r"|(?<!\.)\.{4,}+.{0,40}(?:Passed|Skipped)$"  # nor has a check among others that passed
)
# What says that a command failed and not why: its exit code, a bare "Error", a host's fold, a
# heading, a line without a letter.
_NO_CAUSE = pattern_of(
    r"^\W*(?:exit(?:ed)?|return ?code|process (?:exited|finished))\b"
    r"|.*\b(?:exited|executed|finished) with (?:exit )?(?:code|status) \d+\W*$"
    r"|(?:\W*\berrors?\b)+\W*$|^… \+\d+ lines\b|[\W\d_]+$|(?:error: )?={3,}[^\d\n]+={3,}$"
    r"|^error: (?:could not compile|aborting|build failed)"
    r"|^total \d+$|^# [\w.-]+(?:/[\w.-]+)+$",  # heads a listing; a package that is compiled
    re.I,
)
_PLACED = pattern_of(r"[\w./@+-]+\.\w{1,5}:\d+:(?:\d+:)? ")  # as compilers begin what they say


def causes_of(result: ToolResult) -> tuple[str, ...]:
    """The lines that say why a tool's answer is a failure: the tests that failed, with what was
    asserted first, or the last that names an error, or else the last words."""
    found = [
        line
        for line in error_lines(result.text)
        if not (_IS_CODE.search(line) or _NO_CAUSE.match(line))
    ]
    if failed := [line for line, _ in _failed_tests(result.text)]:
        lines = map(str.strip, result.text[-LONGEST_TEXT:].split("\n"))
        said = next((one for one in lines if one.startswith("E ") or _PLACED.match(one)), "")
        told = [one for one in (_asserted_in(said),) if one and one not in failed[0]]
        return (failed[0], *told, *failed[1:])[:MOST_TRIED]
    if found:
        return (_asserted_in(found[-1]),)
    if not result.is_error and not exit_code(result):
        return ()
    text = result.text[:LONGEST_ANSWER] if result.is_error else result.text[-LONGEST_ANSWER:]
    told = telling_lines(text)
    told = [line for line in told if _PLACED.match(line)] or told
    last = told[0] if told and result.is_error else told[-1] if told else ""
    return (last,) if last and not _sums_up(last) else ()


def _asserted_in(line: str) -> str:
    """A line without pytest's sign for a failed assertion."""
    return line[1:].lstrip() if line.startswith("E ") else line


def failed_tests_in(result: ToolResult) -> tuple[str, ...]:
    """The tests, or else the files or packages of tests, that a result says failed."""
    return tuple(dict.fromkeys(name for _, name in _failed_tests(result.text)))


@read_once
def _failed_tests(text: str) -> tuple[tuple[str, str], ...]:
    """The lines that name what failed, by the first way of saying it that a text has, each with
    that name."""
    lines = [
        one
        for one in text[-LONGEST_TEXT:].split("\n")
        if "FAIL" in one or "ERROR" in one or one.startswith("rspec")
    ]
    for sign in known_tools().failed_test if lines else ():
        says = _pattern(sign.says)
        if found := {line.strip(): m["name"] for line in lines if (m := says.match(line))}:
            return tuple(found.items())
    return ()


def telling_lines(text: str) -> list[str]:
    """The lines of an answer that say more than how its command ended."""
    lines = (line.strip() for line in text.split("\n"))
    return [line for line in lines if line and not _NO_CAUSE.match(line)]
