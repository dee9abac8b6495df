"""Names the family of a command, by which a run that failed and one that passed are compared."""

from __future__ import annotations

from functools import lru_cache

from mcp_compaction.core.log.given import Given, given_in
from mcp_compaction.core.log.shell import Part, parts_of
from mcp_compaction.core.text.paths import ends_with_path
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


_HERE_DOCUMENT = pattern_of(r"<<-?\s*['\"]?(\w+)")
_CHECKERS = word_set(
    "pytest unittest tox nox jest vitest mocha rspec phpunit ctest make ruff flake8 pylint mypy "
    "pyright eslint tsc"
)
_CHECKS = word_set("test tests check build lint vet clippy verify")
_FETCHES = word_set("install i add get pull download uninstall remove")
_FINDERS = word_set("find fd")
_DOES_WITH_FOUND = frozenset(
    ("-exec", "-execdir", "-ok", "-okdir", "-delete", "-x", "-X", "--exec")
)
_SEARCHES = word_set("grep egrep fgrep rg ag ack find fd pgrep diff cmp which ls test")


def is_search(command: str) -> bool:
    """Whether a command only looks for something: that there is none is no failure."""
    part = main_part_of(command)
    return part is not None and _searches(part)


def _searches(part: Part) -> bool:
    """Whether a command is a search that does nothing with what it finds."""
    name = part.words[0].rpartition("/")[2]
    does_more = name in _FINDERS and not _DOES_WITH_FOUND.isdisjoint(part.words)
    return name in _SEARCHES and not does_more


def only_looks(command: str) -> bool:
    """Whether a command only shows what is there: a search, a file, what git has."""
    part = main_part_of(command)
    name = part.words[0].rpartition("/")[2] if part else ""
    return part is None or name == "git" or name in _BESIDE or _searches(part)


def runs_checks(command: str) -> bool:
    """Whether a command tests, checks or builds: where it names nothing, all there is."""
    words = family_of(command).split()
    return bool(words) and (words[0] in _CHECKERS or words[-1] in _CHECKS)


def takes_each_alone(command: str) -> bool:
    """Whether the things a command is given could as well be given one by one: packages, tests; not
    a request's number and what is done to it."""
    return runs_checks(command) or family_of(command).rpartition(" ")[2] in _FETCHES


def is_inline_code(command: str) -> bool:
    """Whether a command runs code that it holds itself, as an argument or as a here-document:
    nobody runs it a second time."""
    part = main_part_of(command)
    words = part.words if part else ("",)
    name = words[0].rpartition("/")[2]
    if not _INTERPRETERS.match(name):
        return False
    if "-c" in words or ("-e" in words and not name.endswith("sh")):
        return True
    ends = frozenset(_HERE_DOCUMENT.findall(command[:_LONGEST]))
    given = [word for word in words[1:] if word not in ends]
    return bool(ends) and all(word.startswith("-") and word != "-m" for word in given)


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
_ASSIGNMENTS = pattern_of(r"^(?:[A-Za-z_]\w*=(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s\"';&|]*)\s*[\n;]\s*)+")
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
    work = _ASSIGNMENTS.sub("", work) or work
    line = one_line(work.split("\n", 1)[0])
    if line.endswith((' "', " '")):  # the code of `python -c` begins on the next line
        line = one_line(work[:_LONGEST])
    short = shorten(line, most)
    # A long path says more cut in the middle than not at all.
    return short if len(short) > most // 2 or len(line) <= most else f"{line[:most]}…"


@lru_cache(maxsize=2_048)
def given_of(command: str) -> Given:
    """What the command that does the work is given beside its name: packages, files, a query."""
    part = main_part_of(command)
    words = part.words if part else ("",)
    if "-m" in words[:-1] and _INTERPRETERS.match(words[0].rpartition("/")[2]):
        words = words[words.index("-m") + 1 :]
    family = family_of(command).split()
    things, limits = given_in(words)
    return Given(frozenset(w for w in things if w.rpartition("/")[2] not in family), limits)


def options_of(command: str) -> tuple[str, ...]:
    """The options of the command that does the work."""
    part = main_part_of(command)
    return tuple(w for w in part.words[1:] if w.startswith("-") and len(w) > 1) if part else ()


_ALL_HERE = frozenset((".", "./..."))
_LOOKS_LIKE_PATH = pattern_of(r"\./|[\w@+-][\w.@+-]*[/.]")
_WAY_UP = pattern_of(r"^(?:\.{1,2}/)+")
_VERSION = pattern_of(
    r"(?<=[\w\])])(?:[<>~!=]=[^/:]*|@(?:[~^]?v?\d+(?:\.\d+){0,2}(?:-[\w.]+)?|latest|next))$"
)
_HAS_NO_PARTS = pattern_of(r"\s|://")  # a query, an address
_PART = pattern_of(r"[/:\[]+")  # a file of a folder, a test of a file


def covers(given: Given, other: Given) -> bool:
    """Whether a run that was given some things is also of those of another; a run that names none
    is of all there are, but for the options that limit it."""
    is_of_all = bool(other.things) or given.things <= _ALL_HERE
    return is_of_all and given.limits <= other.limits and not not_given(other.things, given.things)


def not_given(things: frozenset[str], given: frozenset[str]) -> frozenset[str]:
    """The things of one run that another was not given, neither themselves nor what they are a
    part of. Versions make no difference, nor does the way to a file."""
    if not given:
        return frozenset()
    names: dict[str, list[str]] = {}
    for known in map(_plain_name_of, filter(_has_parts, given)):
        names.setdefault(known.rpartition("/")[2], []).append(known)
    has_all_here = not given.isdisjoint(_ALL_HERE)
    return frozenset(
        thing
        for thing in things - given
        if not (has_all_here and _LOOKS_LIKE_PATH.match(thing))
        and not (_has_parts(thing) and any(_is_among(one, names) for one in _wholes_of(thing)))
    )


def _has_parts(thing: str) -> bool:
    return not _HAS_NO_PARTS.search(thing)


def _is_among(thing: str, names: dict[str, list[str]]) -> bool:
    known = names.get(thing.rpartition("/")[2], ())
    return any(ends_with_path(one, thing) or ends_with_path(thing, one) for one in known)


def _plain_name_of(thing: str) -> str:
    """A thing without its version, a path without the way up to where it begins."""
    return _WAY_UP.sub("", _VERSION.sub("", thing)) or thing


@lru_cache(maxsize=2_048)
def _wholes_of(thing: str) -> tuple[str, ...]:
    """A thing and what it is a part of: `tests/spec.py::it_reads`, `tests/spec.py`, `tests`."""
    name = _plain_name_of(thing)
    cuts = (cut.start() for cut in _PART.finditer(name))
    return (name, *(name[:cut] for cut in cuts if cut))
