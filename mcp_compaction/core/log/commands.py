"""Tells command lines: the program that does the work, whether it searches, how it is written."""

from __future__ import annotations

from functools import lru_cache

from mcp_compaction.core.limits import LONGEST_ANSWER
from mcp_compaction.core.text.words import one_line, shorten
from mcp_compaction.shell import Command, commands_of, programs, subcommand_of

_PREPARES = frozenset(("source", ".", "export", "set"))  # and what only goes to a folder


def main_command_of(line: str) -> Command | None:
    """The command of a line that does the work: the last that does not only prepare or filter;
    None where the line cannot be read."""
    commands = [one for one in commands_of(line) or () if one.words]
    working = [one for one in commands if one.name not in programs().beside]
    return working[-1] if working else commands[-1] if commands else None


def is_search(line: str, *, by_output: bool = False) -> bool:
    """Whether a line only looks for something: that there is none is no failure.

    `by_output`: where it prints nothing, it found nothing.
    """
    main, known = main_command_of(line), programs()
    if main is None or main.name not in known.searches:
        return False
    if by_output and main.name in known.compares:
        return False
    return known.does_with_found.isdisjoint(main.words)


@lru_cache(maxsize=2_048)
def only_reads(line: str) -> bool:
    """Whether a line only shows what stands in a file, a log or a record: what this tells of
    failures happened elsewhere."""
    main = main_command_of(line) if line else None
    if main is None or main.written:
        return False
    words = subcommand_of(main.name, main.words[1:]) or main.words[1:]
    plain = [main.name, *(word for word in words if not word.startswith("-"))]
    return any(" ".join(plain[:count]) in programs().reads for count in (1, 2, 3))


@lru_cache(maxsize=2_048)
def program_of(line: str) -> str:
    """The program of a line, with its subcommand or its script: `pip install`, `python a.py`."""
    main = main_command_of(line)
    if main is None:
        return ""
    name, words = main.name, main.words[1:]
    if name.rstrip("0123456789.") in programs().interpreters:
        if "-m" not in words[:-1]:
            plain = [word for word in words if not word.startswith("-")]
            script = "-c" if "-c" in words else next(iter(plain), "")
            return f"{name.rstrip('0123456789.')} {script.rpartition('/')[2]}".strip()
        name, words = words[words.index("-m") + 1], words[words.index("-m") + 2 :]
    found = subcommand_of(name, words)
    return f"{name.rstrip('3')} {found[0]}" if found else name


def last_line_of(command: str) -> str:
    """What of a command ran last and tells its end: no script that it wrote before."""
    main = main_command_of(command)
    return command[command.rfind("\n", 0, main.start) + 1 :] if main is not None else command


def command_line_of(command: str, most: int = 100) -> str:
    """The first line of a command without what only prepares it, shortened."""
    begins = (
        one.start for one in commands_of(command) or () if one.words and one.name not in _PREPARES
    )
    work = command[next(begins, 0) :].strip()
    line = one_line(work.split("\n", 1)[0])
    if line.endswith((' "', " '")):  # the code of `python -c` begins on the next line
        line = one_line(work[:LONGEST_ANSWER])
    short = shorten(line, most)
    # A long path says more cut in the middle than not at all.
    return short if len(short) > most // 2 or len(line) <= most else f"{line[:most]}…"
