"""Reads command lines: the program that does the work, and the line as it is told."""

from __future__ import annotations

from functools import lru_cache

from mcp_compaction.core.log.shell import Part, parts_of
from mcp_compaction.core.text.patterns import pattern_of
from mcp_compaction.core.text.words import one_line, shorten
from mcp_compaction.lexicon.tools import programs

_LONGEST = 2_000
_PREPARES = pattern_of(r"^(?:(?:cd|source|\.|export|set|sudo)\s[^&;|\n]*(?:&&|;)\s*)+(?=\S)")
_ASSIGNMENTS = pattern_of(r"^(?:[A-Za-z_]\w*=(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s\"';&|]*)\s*[\n;]\s*)+")


def is_search(command: str) -> bool:
    """Whether a command only looks for something: that there is none is no failure."""
    part = main_part_of(command)
    return part is not None and _searches(part)


def _searches(part: Part) -> bool:
    does_more = any(word in programs().does_with_found for word in part.words)
    return _name_of(part) in programs().searches and not does_more


def only_looks(command: str) -> bool:
    """Whether a command only shows what is there: a search, a file, what git has."""
    part = main_part_of(command)
    if part is None or _name_of(part) == "git":
        return True
    return _name_of(part) in programs().beside or _searches(part)


@lru_cache(maxsize=2_048)
def program_of(command: str) -> str:
    """The program of a command, with its subcommand or its script: `pip install`, `python a.py`."""
    part = main_part_of(command)
    if part is None:
        return ""
    name = _name_of(part)
    words, rest = part.words, [word for word in part.words[1:] if not word.startswith("-")]
    if name.rstrip("0123456789.") in programs().interpreters:
        if "-m" in words[:-1]:
            name = words[words.index("-m") + 1]
            rest = rest[1:]
        else:
            script = "-c" if "-c" in words else next(iter(rest), "")
            return f"{name.rstrip('0123456789.')} {script.rpartition('/')[2]}".strip()
    has_subcommand = name in programs().with_subcommand and rest
    return f"{name.rstrip('3')} {rest[0]}" if has_subcommand else name


def subcommand_of(command: str) -> str:
    """The program and the subcommand that a command runs: `npm publish`; "" where its program has
    none."""
    program = program_of(command)
    has_one = program.partition(" ")[0] in programs().with_subcommand and " " in program
    return program if has_one else ""


def main_part_of(command: str) -> Part | None:
    """The command of a line that does the work: the last that does not only prepare or filter."""
    parts = [part for part in parts_of(command[:_LONGEST]) if part.words]
    working = [part for part in parts if _name_of(part) not in programs().beside]
    return working[-1] if working else parts[-1] if parts else None


def _name_of(part: Part) -> str:
    return part.words[0].rpartition("/")[2]


def command_line_of(command: str, most: int = 100) -> str:
    """The first line of a command without what only prepares it, shortened."""
    work = _PREPARES.sub("", command.strip())
    work = _ASSIGNMENTS.sub("", work) or work
    line = one_line(work.split("\n", 1)[0])
    if line.endswith((' "', " '")):  # the code of `python -c` begins on the next line
        line = one_line(work[:_LONGEST])
    short = shorten(line, most)
    # A long path says more cut in the middle than not at all.
    return short if len(short) > most // 2 or len(line) <= most else f"{line[:most]}…"
