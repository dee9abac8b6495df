"""Reduces what tools answered to what went wrong and how it ended: causes and result lines."""

from __future__ import annotations

import re

from mcp_compaction.core.log.identifiers import (
    COUNT,
    COUNT_END,
    error_lines,
    exit_code,
    outcome_of,
)
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.words import one_line
from mcp_compaction.model import ToolResult

_MOST_CHARS = 4_000  # at either end of an answer; what sums it up stands there
_MOST_TESTS = 5

_TRACEBACK = "Traceback (most recent call last)"
_PYTHON_CAUSE = pattern_of(r"^(?:E  +)?([A-Za-z_][\w.]*(?:: .+)?)$")
_CAUSED_BY = pattern_of(r"^[ \t]*Caused by: (\S.*)$", re.M)
_JAVA = pattern_of(
    r"^(?:Exception in thread \"[^\"\n]*\" )?([\w.$]+(?:Exception|Error)\b.*)\n\s+at ", re.M
)
_RUST = pattern_of(
    r"^thread '[^'\n]*'(?: \(\d+\))? panicked at [^\n]+(?:\n(?!note:|stack)[^\n]+)?", re.M
)
_GO = pattern_of(r"^(?:panic|fatal error): .+$", re.M)
_COMPILER = pattern_of(
    r"^(?:error(?:\[\w+\])?: (?!could not compile|aborting|build failed|process).+"
    r"|\S+[:(]\d+[:,)].{0,12}? (?:fatal )?error(?: [A-Z]+\d+)?: .+"
    r"|\S+:\d+: error: .+)$",
    re.M,
)
_FAILED_TEST = pattern_of(r"^(?:FAILED|FAIL:) \S")
_ASSERTED = pattern_of(r"^E\s+")  # pytest's sign for the lines of a failed assertion
# Source that names an error has not met one.
_IS_CODE = pattern_of(
    r"^(?:\d+[\s:|→-]+)?(?:@|except|raise|catch|throw|throws|elif|if|assert|return|import|from|class"
    r"|def|case|#|//|\*|/\*|print|log|console|[\w.]*log\w*\.)(?:\b|\W)|[{;]$"
)
_HAS_PASSED = pattern_of(r"(?<!\.)\.{4,}+.{0,40}(?:Passed|Skipped)$")  # a check among others
# What says that a command failed and not why: its exit code, a bare "Error", a host's fold.
_NO_CAUSE = pattern_of(
    r"^\W*(?:exit(?:ed)?|return ?code|process (?:exited|finished))\b"
    r"|.*\b(?:exited|executed|finished) with (?:exit )?(?:code|status) \d+\W*$"
    r"|(?:\W*\berrors?\b)+\W*$|^… \+\d+ lines\b",
    re.I,
)


def causes_of(result: ToolResult) -> tuple[str, ...]:
    """The lines that say why a tool's answer is a failure: most often one, or none."""
    text = result.text
    traced = _cause_in_trace(text)
    if traced:
        return (traced,)
    lines = [
        line
        for line in error_lines(text)
        if not (_IS_CODE.search(line) or _HAS_PASSED.search(line) or _NO_CAUSE.match(line))
    ]
    if lines and _FAILED_TEST.match(lines[-1]):
        return tuple(dict.fromkeys(filter(_FAILED_TEST.match, lines)))[:_MOST_TESTS]
    if lines:
        return (_ASSERTED.sub("", lines[-1]),)
    told = _first_words(text) if result.is_error else _last_words(text) if exit_code(result) else ""
    return (told,) if told else ()


def _cause_in_trace(text: str) -> str:
    """The cause that a stack trace or a compiler names."""
    if _TRACEBACK in text:
        found = _cause_in_python_trace(text)
        if found:
            return found
    chain = _CAUSED_BY.findall(text) if "Caused by: " in text else ()
    if chain:
        return chain[-1].strip()
    for hint, pattern in (("at ", _JAVA), ("panicked at", _RUST), ("goroutine ", _GO)):
        found = pattern.search(text) if hint in text else None
        if found:
            return one_line(found[found.re.groups])
    found = _COMPILER.search(text) if "error" in text else None
    return found[0].strip() if found else ""


def _cause_in_python_trace(text: str) -> str:
    """The line after the last frame of the last trace: earlier ones led to it."""
    for line in text[text.rfind(_TRACEBACK) :].split("\n")[1:]:
        if line.strip() and not line[0].isspace():
            found = _PYTHON_CAUSE.match(line.strip())
            return found[1] if found else ""
    return ""


def _first_words(text: str) -> str:
    lines = (line.strip() for line in text[:_MOST_CHARS].split("\n"))
    return next((line for line in lines if line and not _NO_CAUSE.match(line)), "")


def _last_words(text: str) -> str:
    lines = [line.strip() for line in text[-_MOST_CHARS:].split("\n")]
    told = [line for line in lines if line and not _NO_CAUSE.match(line)]
    return "" if not told or _sums_up(told[-1]) else told[-1]


# How a run ended

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
_COUNTED = pattern_of(rf"{COUNT}(?:passed|failed|errors?){COUNT_END}")
_COUNTS_TESTS = pattern_of(rf"{COUNT}(?:passed|failed){COUNT_END}")
_MOST_SUMMARY = 100


def ending_of(result: ToolResult) -> str:
    """How a command ended: its exit code, and the line that sums up a test run or a build."""
    how = outcome_of(result)
    if _COUNTED.search(how):
        return how
    summary = one_line(_summary_in(result.text).strip(" \t="))[:_MOST_SUMMARY]
    return ", ".join(part for part in (how, summary) if part)


def is_run_of_tests(result: ToolResult) -> bool:
    """Whether a result sums up a run of tests, checks or a build."""
    return bool(_COUNTED.search(outcome_of(result)) or _summary_in(result.text))


def _summary_in(text: str) -> str:
    """The last line of a text that sums up a test run or a build; blank where none does."""
    lines = reversed(text[-_MOST_CHARS:].split("\n"))
    return next(filter(_sums_up, lines), "")


def _sums_up(line: str) -> bool:
    if ("passed" in line or "failed" in line) and _COUNTS_TESTS.search(line):
        return True
    return bool(_SUMMARY.match(line))


def is_failure(result: ToolResult) -> bool:
    """Whether a command plainly failed."""
    if result.is_error or exit_code(result):
        return True
    end = result.text[-_MOST_CHARS:]
    return any(sign in end for sign in _FAILED_SIGNS) and bool(_FAILED.search(ending_of(result)))


_FAILED = pattern_of(
    r"\b[1-9]\d* (?:failed|failing|errors?|failures?|problems?)\b(?![./_-]\w)|FAIL"
    r"|could not compile"
    r"|build failed|\*\*\*|npm (?:ERR!|error)|[Cc]ompilation failed"
)
_FAILED_SIGNS = ("fail", "FAIL", "error", "ERR!", "problem", "compile", "***")
