"""Names the family of a command, by which a run that failed and one that passed are compared."""

from __future__ import annotations

from functools import lru_cache

from mcp_compaction.core.log.shell import Part, parts_of
from mcp_compaction.core.text.patterns import pattern_of, word_set
from mcp_compaction.core.text.words import one_line, shorten

_LONGEST = 2_000
# What only prepares, or only looks at what another command prints.
_BESIDE = word_set(
    "source export set echo printf grep egrep rg tail head cat less wc sort uniq tee awk cut tr "
    "sleep pwd ls true test mkdir which xargs jq"
)
_WITH_SUBCOMMAND = word_set(
    "git pip pip3 npm yarn pnpm cargo go docker kubectl make apt uv poetry conda brew dotnet mvn "
    "gradle bundle systemctl service tmux"
)
_INTERPRETERS = pattern_of(r"(?:python|node|ruby|perl|bash|sh|deno|bun|php)[\d.]*$")


_SEARCHES = word_set("grep egrep fgrep rg ag ack find fd pgrep diff cmp which ls test")


def is_search(command: str) -> bool:
    """Whether a command only looks for something: that there is none is no failure."""
    part = main_part_of(command)
    return part is not None and part.words[0].rpartition("/")[2] in _SEARCHES


def only_looks(command: str) -> bool:
    """Whether a command only shows what is there: a search, a file, what git has."""
    part = main_part_of(command)
    name = part.words[0].rpartition("/")[2] if part else ""
    return not name or name == "git" or name in _SEARCHES or name in _BESIDE


@lru_cache(maxsize=2_048)
def family_of(command: str) -> str:
    """The program of a command, with its subcommand or its script: `pip install`, `python a.py`."""
    part = main_part_of(command)
    if part is None:
        return ""
    name = part.words[0].rpartition("/")[2]
    rest = [word for word in part.words[1:] if not word.startswith("-")]
    if _INTERPRETERS.match(name):
        if "-m" in part.words[:-1]:
            module = part.words[part.words.index("-m") + 1]
            following = rest[1:2] if module in _WITH_SUBCOMMAND else []
            return " ".join((module, *following))
        script = "-c" if "-c" in part.words else next(iter(rest), "")
        return f"{name.rstrip('0123456789.')} {script.rpartition('/')[2]}".strip()
    if name in _WITH_SUBCOMMAND and rest:
        return f"{name.rstrip('3')} {rest[0]}"
    return name


def subcommand_of(command: str) -> str:
    """The program and the subcommand that a command runs: `npm publish`; "" where its program has
    none."""
    family = family_of(command)
    return family if family.partition(" ")[0] in _WITH_SUBCOMMAND and " " in family else ""


def main_part_of(command: str) -> Part | None:
    """The command of a line that does the work: the last that does not only prepare or filter."""
    parts = [part for part in parts_of(command[:_LONGEST]) if part.words]
    working = [part for part in parts if part.words[0].rpartition("/")[2] not in _BESIDE]
    return working[-1] if working else parts[-1] if parts else None


_PREPARES = pattern_of(r"^(?:(?:cd|source|\.|export|set|sudo)\s[^&;|\n]*(?:&&|;)\s*)+(?=\S)")
_CHANGES_FOLDER = pattern_of(r"(^|(?:&&|;)\s*)(?:cd\s[^&;|\n]*(?:&&|;)\s*)+")


def preparation_of(command: str) -> str:
    """What a command does before its work, but for changing the folder."""
    found = _PREPARES.match(command.strip())
    return one_line(_CHANGES_FOLDER.sub(r"\1", found[0])) if found else ""


def command_line_of(command: str, most: int = 100) -> str:
    """The first line of a command as it was run, without changes of the folder; without what
    prepares it where there is no room."""
    before, work = preparation_of(command), work_of(command, most)
    return f"{before} {work}" if before and len(before) + len(work) < most else work


def work_of(command: str, most: int = 100) -> str:
    """The first line of a command without what only prepares it, shortened."""
    work = _PREPARES.sub("", command.strip())
    line = one_line(work.split("\n", 1)[0])
    if line.endswith((' "', " '")):  # the code of `python -c` begins on the next line
        line = one_line(work[:_LONGEST])
    short = shorten(line, most)
    # A long path says more cut in the middle than not at all.
    return short if len(short) > most // 2 or len(line) <= most else f"{line[:most]}…"


@lru_cache(maxsize=2_048)
def operands_of(command: str) -> frozenset[str]:
    """What the command that does the work is given beside options: packages, files, no prose."""
    part = main_part_of(command)
    words = part.words[1:] if part else ()
    family = family_of(command).split()
    given = (w for w in words if not w.startswith("-") and " " not in w)
    return frozenset(w for w in given if w.rpartition("/")[2] not in family)


def options_of(command: str) -> tuple[str, ...]:
    """The options of the command that does the work."""
    part = main_part_of(command)
    return tuple(w for w in part.words[1:] if w.startswith("-") and len(w) > 1) if part else ()
