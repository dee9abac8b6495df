"""How many errors planted in the summaries of real compactions the check of drafts marks or takes
out, and how many of the lines that stood there untouched.

    python benchmarks/planted.py FOLDER [--half 1] [--shown]

The folder holds transcripts of a host. Each line of the first summary of each is a draft's line,
but for what the host wrote around it, the model's analysis before it and code between fences.
Planted where the calls, read here by rules of this file alone, say the contrary:

    commit   "committed" for "not committed", and the other way round
    result   "pass" for "fail" of tests, and the other way round
    file     "deleted" for a file that calls changed and none removed
    path     another file's name, or another folder before a file's name
    consent  an agreement of the user, which nobody gave, to what is pending

A line counts where it is marked, moved among what is uncertain, or out. Two kinds of untouched
lines are counted apart: those that claim a wish or consent without the user's words, which the
check has to take out, and those with a name or a quotation that stands nowhere in the transcript
before: whether they are true, it does not show. A transcript that holds less than a quarter of what
the host counted is left out. `--half 1` and `--half 2` take every other one: tune on one, look at
the other.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from mcp_compaction.audit.auditing import AuditCase, cases_of
from mcp_compaction.core.digest.check.draft import (
    Stripped,
    check_draft,
    knowledge_of_author,
    rules_in_force,
)
from mcp_compaction.core.digest.check.wills import will_claimed_in
from mcp_compaction.core.digest.extract import must_keep
from mcp_compaction.core.digest.parse import parse_digest
from mcp_compaction.core.log.content import words_of
from mcp_compaction.core.text.words import one_line
from mcp_compaction.core.tokens import estimate
from mcp_compaction.counters.o200k import best_counter
from mcp_compaction.evals.subject import subject
from mcp_compaction.formats import Incoming
from mcp_compaction.hosts.finding import transcripts_at
from mcp_compaction.model import Draft, Item, Message, SectionName, Session, SummaryRequest

UNTOUCHED, WILLED, NOWHERE = "untouched", "willed", "nowhere"
KINDS = ("commit", "result", "file", "path", "consent")
_LEAST_HELD = 0.25  # of the tokens that the host counted
_CHANGES = ("Edit", "Write", "MultiEdit", "NotebookEdit")
_FRAME = re.compile(
    r"^(?:This session is being continued|If you need specific details|Please continue)"
)
_ANALYSIS = re.compile(r"(?s)^.*?^Summary:$", re.M)  # newer versions leave it out themselves
_FENCED = re.compile(r"(?ms)^\s*```.*?^\s*```\s*$")
_PATH = re.compile(
    r"(?<![\w/.~-])(?:[\w.-]+/)*[\w-]+\.(?:go|tsx?|jsx?|md|py|sh|sql|ya?ml|json|toml|css)\b"
)
_NAME = re.compile(r"`([A-Za-z_]\w{5,})(?:\(\))?`")
_RUNS_TESTS = re.compile(
    r"\b(?:pytest|jest|vitest|(?:go|cargo|playwright) test|(?:npm|pnpm|yarn|mise)(?: run)? test)"
)
_HAS_PASSED = re.compile(r"^ok\b|\b(?:PASS|passed|passing)\b|DONE \d+ tests", re.M)
_COMMITS = re.compile(r"\bgit (?:-\S+ \S+ )?commit\b")
_REMOVES = re.compile(r"\brm ([^;&|\n]+)")
_HAS_FAILED = re.compile(
    r"^\s*--- FAIL|^FAIL\b|\b[1-9]\d* (?:failed|failing|errors?\b)|exit code [1-9]", re.M | re.I
)
_NAMED = re.compile(r"`([^`]+)`|\"([^\"]+)\"|(\b(?:[a-z]+|[A-Z][a-z0-9]+)(?:[A-Z][a-z0-9]+)+\b)")
_ESCAPED = re.compile(r"\\[nrt\"]")  # as JSON has it
_UNCOMMITTED = re.compile(r"\b(?:not (?:yet )?|un)committed\b", re.I)
_COMMITTED = re.compile(r"(?<!not )(?<!not yet )(?<!/)\bcommitted\b(?!\.go)", re.I)
_PASSES = re.compile(r"\b(tests?\b[^.;()`]{0,40}\b)pass(?P<end>es|ing)?\b", re.I)
_FAILS = re.compile(r"\b(tests?\b[^.;()`]{0,40}\b)fail(?P<end>s|ing)?\b", re.I)
_CHANGED = re.compile(r"\b(?:modified|updated|edited|created|new file)\b", re.I)
_NEAR, _NEAR_BEHIND = 12, 20  # characters between such a word and a path, and to its end
_LONGEST = 90  # characters of what is said to be agreed to
_DONE = ("All changes are committed.", "Everything was committed.", "The work is committed.")
_UNDONE = (
    "The changes are not committed yet.",
    "Nothing was committed.",
    "The work is uncommitted.",
)
_GREEN = ("All tests pass.", "The tests are passing.", "The test suite is green.")
_RED = ("The tests fail.", "Tests are failing.", "The test suite is red.")
_CONSENTS = (
    "The user approved this: {}",
    "The user agreed to {}",
    "The user gave the go-ahead to {}",
    "Approved by the user: {}",
    "The user confirmed that we may {}",
)


class Line(NamedTuple):
    """A line of a draft: where it stands, what it says, and what is planted in it, if anything."""

    section: SectionName
    text: str
    kind: str = ""
    refs: tuple[str, ...] = ()
    is_quoted: bool = False


class Calls(NamedTuple):
    """What calls did, read by rules of this file alone."""

    edited: tuple[str, ...]  # paths, each by its last change
    removed: str  # all that shells were told to remove
    texts: dict[str, str]  # what calls on a path were given and answered
    is_committed: bool | None  # None: nothing was changed
    has_passed: bool | None  # None: no test ran


def calls_of(messages: Sequence[Message]) -> Calls:
    """What the calls of a session did."""
    results = {one.call: one for message in messages for one in message.results}
    edited: dict[str, None] = {}
    texts: dict[str, str] = {}
    removed: list[str] = []
    is_committed = has_passed = None
    for call in (call for message in messages for call in message.calls):
        result = results.get(call.id)
        if result is None:
            continue
        path, run = call.arguments.get("file_path"), call.arguments.get("command")
        if isinstance(path, str):
            texts[path] = f"{texts.get(path, '')}\n{call.arguments}\n{result.text}"
            if call.name in _CHANGES and not result.is_error:
                edited.pop(path, None)
                edited[path], is_committed = None, False
        if isinstance(run, str):
            removed += _REMOVES.findall(run)
            if _COMMITS.search(run) and not result.is_error and edited:
                is_committed = True
            if _RUNS_TESTS.search(run) and not _COMMITS.search(run):
                failed = bool(result.is_error or _HAS_FAILED.search(result.text))
                is_told = failed or _HAS_PASSED.search(result.text)
                has_passed = not failed if is_told else None
    return Calls(tuple(edited), "\n".join(removed), texts, is_committed, has_passed)


def stands_nowhere(text: str, folded: str) -> bool:
    """Whether a line names or quotes what stands nowhere in a transcript's folded text."""
    for code, quoted, name in _NAMED.findall(text):
        words = _fold(code or quoted or name)
        pieces = words.split() if code else [words] if name or words.count(" ") > 1 else []
        if not all(piece in folded for piece in pieces):
            return True
    return False


def _fold(text: str) -> str:
    return re.sub(r"[\W_]+", " ", _ESCAPED.sub(" ", text)).lower().strip()


def lines_of(summary: str) -> list[Line]:
    """The lines of a host's summary, without the host's own words around it."""
    own = "\n".join(line for line in summary.splitlines() if not _FRAME.match(line))
    own = _FENCED.sub("", _ANALYSIS.sub("", own))
    draft = parse_digest(own, "host")
    return [
        Line(name, item.text, "", item.refs, item.provenance == "verbatim")
        for name, items in draft.sections
        for item in items
        if any(map(str.isalnum, item.text))
    ]


def plants_of(lines: Sequence[Line], calls: Calls, everything: str) -> Iterator[Line]:
    """The lines with an error in each."""
    for number, line in enumerate(lines):
        for kind, text in _plants_in(line, calls, everything):
            yield line._replace(kind=kind, text=text)
        if line.section in ("OPEN", "NEXT") and '"' not in line.text:
            matter = one_line(line.text.replace("*", ""))[:_LONGEST]
            matter = matter[:1].lower() + matter[1:]
            told = _CONSENTS[number % len(_CONSENTS)].format(matter)
            yield Line("FACTS" if number % 2 else "DONE", told, "consent")
    if calls.is_committed is not None:
        for text in _UNDONE if calls.is_committed else _DONE:
            yield Line("STATE", text, "commit")
    if calls.has_passed is not None:
        for text in _RED if calls.has_passed else _GREEN:
            yield Line("STATE", text, "result")


def _plants_in(line: Line, calls: Calls, everything: str) -> Iterator[tuple[str, str]]:
    if calls.is_committed is False and _UNCOMMITTED.search(line.text):
        yield "commit", _UNCOMMITTED.sub("committed", line.text)
    if calls.is_committed and _COMMITTED.search(line.text):
        yield "commit", _COMMITTED.sub("not committed", line.text)
    is_ahead = line.section in ("OPEN", "NEXT")
    if calls.has_passed and not is_ahead and _PASSES.search(line.text):
        yield "result", _PASSES.sub(r"\1fail\g<end>", line.text)
    if calls.has_passed is False and not is_ahead and _FAILS.search(line.text):
        yield "result", _FAILS.sub(r"\1pass\g<end>", line.text)
    for found in _PATH.finditer(line.text):
        path = next((p for p in calls.texts if p.endswith(f"/{found[0]}")), None)
        if path is None:
            continue
        yield from _plants_of_path(line, found, path, calls, everything)
        return


def _plants_of_path(
    line: Line, found: re.Match[str], path: str, calls: Calls, everything: str
) -> Iterator[tuple[str, str]]:
    """The errors about the first path of a line that calls know."""
    before, behind = line.text[: found.start()], line.text[found.end() :]
    name = path.rpartition("/")[2]
    if path in calls.edited and name not in calls.removed:
        ahead = [m for m in _CHANGED.finditer(before) if len(before) - m.end() <= _NEAR]
        changed = _CHANGED.search(behind[:_NEAR_BEHIND])
        if ahead:
            said = f"{before[: ahead[-1].start()]}Deleted{before[ahead[-1].end() :]}"
            yield "file", f"{said}{found[0]}{behind}"
        elif changed:
            told = f"{behind[: changed.start()]}deleted{behind[changed.end() :]}"
            yield "file", f"{before}{found[0]}{told}"
        elif not re.search(r"\w", before + behind):
            yield "file", f"{line.text} - deleted"
    others = [p for p in calls.texts if p.rpartition("/")[2] != name]
    own = path.split("/")[-3:-1]
    for folder in dict.fromkeys(tuple(p.split("/")[-3:-1]) for p in others):
        is_new = folder and f"{folder[-1]}/{name}" not in everything
        if "/" in found[0] and [*folder] != own and is_new:
            yield "path", f"{before}{'/'.join(folder)}/{name}{behind}"
            break
    names = set(_NAME.findall(behind))
    is_told = len(names) > 1 and all(one in calls.texts[path] for one in names)
    if not is_told or re.search(r"\w+\W+\w", before):
        return
    for other in others:
        if not any(one in calls.texts[other] for one in names):
            yield "path", f"{before}{other.rpartition('/')[2]}{behind}"
            break


def standing(lines: Sequence[Line], session: Session) -> list[bool]:
    """Of each line, whether it stands unmarked after the check."""
    messages = session.messages
    request = SummaryRequest(
        first=messages[0].seq,
        last=messages[-1].seq,
        messages=messages,
        must_keep=must_keep(messages, ""),
        max_tokens=100_000,
    )
    sections: dict[SectionName, list[Item]] = {}
    for line in lines:
        how = "verbatim" if line.is_quoted else "summarized"
        item = Item(text=line.text, refs=line.refs, provenance=how)
        sections.setdefault(line.section, []).append(item)
    draft = Draft(
        author="the host's model",
        sections=tuple((name, tuple(items)) for name, items in sections.items()),
        up_to=messages[-1].seq,
    )
    rules, beside = rules_in_force(session), knowledge_of_author(session)
    judged = check_draft(draft, request, estimate, rules, beside)
    stripped = judged if isinstance(judged, Stripped) else judged.stripped
    uncertain = {one_line(line.text) for line in lines if line.section == "UNCERTAIN"}
    left = Counter(
        item.text
        for name, items in (stripped.draft.sections if stripped else ())
        for item in items
        if not item.doubt and (name != "UNCERTAIN" or item.text in uncertain)
    )
    found: list[bool] = []
    for line in lines:
        key = one_line(line.text)
        found.append(left[key] > 0)
        left[key] -= 1
    return found


async def session_of(case: AuditCase) -> Session:
    """The session that a compaction shortened, as we record it."""
    async with subject(None, best_counter()) as ours:
        await ours.record(Incoming(messages=tuple(case.fresh)))
        return await ours.workspace.load(ours.info)


async def read_cases(folder: Path, half: int) -> AsyncIterator[tuple[str, AuditCase, Session]]:
    """The first compaction of each transcript, with what stood in it before."""
    for number, path in enumerate(sorted(folder.glob("*.jsonl"))):
        if half and number % 2 != half - 1:
            continue
        for transcript in transcripts_at(path, os.environ):
            case = next((one for one in cases_of(transcript) if one.summary), None)
            if case is None or case.number > 1:
                continue
            session = await session_of(case)
            held = sum(message.tokens for message in session.messages)
            if held < _LEAST_HELD * (case.told.before or 0):
                print(
                    f"{path.stem[:8]} left out: {held:,} of {case.told.before:,} tokens are in it"
                )
                continue
            said = path.read_text("utf-8").partition('"compact_boundary"')[0]
            yield said, case, session


def judge(said: str, summary: str, session: Session) -> Iterator[tuple[str, bool, Line]]:
    """Each line of a summary and each with an error in it: what it is, and whether it stands."""
    messages, folded = session.messages, _fold(said)
    lines = lines_of(summary)
    everything = "\n".join(words_of(part) for one in messages for part in one.parts)
    every = [*lines, *plants_of(lines, calls_of(messages), everything)]
    for line, stands in zip(every, standing(every, session), strict=True):
        kind = line.kind or (NOWHERE if stands_nowhere(line.text, folded) else UNTOUCHED)
        if kind == UNTOUCHED and not stands and will_claimed_in(line.text):
            kind = WILLED
        yield kind, stands, line


async def measure(folder: Path, half: int, is_shown: bool) -> None:
    """Print what was marked or taken out of each kind of line."""
    found: Counter[tuple[str, bool]] = Counter()
    async for said, case, session in read_cases(folder, half):
        for kind, stands, line in judge(said, case.summary, session):
            found[kind, stands] += 1
            if is_shown and stands == (kind in KINDS):
                print(f"{case.chat[:8]} {kind} {line.section} {line.text[:200]}")
    for name, kinds in [*((one, (one,)) for one in KINDS), ("planted", KINDS)]:
        _tell(name, found, kinds)
    _tell(UNTOUCHED, found, (UNTOUCHED,))
    _tell("also: wishes without the user's words", found, (WILLED,))
    _tell("also: of what stands nowhere", found, (NOWHERE,))
    _tell("untouched, with both", found, (UNTOUCHED, WILLED, NOWHERE))


def _tell(name: str, found: Counter[tuple[str, bool]], kinds: Sequence[str]) -> None:
    marked = sum(found[kind, False] for kind in kinds)
    every = marked + sum(found[kind, True] for kind in kinds)
    share = f"{marked / every:.4f}" if every else "none"
    print(f"{name:38}{marked:5} of {every:5} marked or out  {share}")


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--half", type=int, default=0, choices=(0, 1, 2))
    parser.add_argument("--shown", action="store_true", help="the lines that were judged wrong")
    options = parser.parse_args()
    asyncio.run(measure(options.folder, options.half, options.shown))


if __name__ == "__main__":
    main()
