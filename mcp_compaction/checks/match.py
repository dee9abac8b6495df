"""Whether a call of a tool is one that a check means."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from glob import iglob
from itertools import islice, pairwise, product, takewhile
from posixpath import isabs, join, normpath
from typing import Any, NamedTuple, cast

from mcp_compaction.checks.check import PinCheck, is_path_in, is_text_like, own_words
from mcp_compaction.checks.lines import (
    UNREAD,
    ReadLines,
    branch_at,
    goals_of_push,
    kind_of,
    runs_of,
    tables,
)
from mcp_compaction.git_folders import home_of
from mcp_compaction.shell import Command, programs, read_options, run_with_found, subcommand_of

_PATHS = (
    *("file_path", "path", "filePath", "notebook_path", "filename", "file", "target_file"),
    *("source", "destination", "paths", "include", "files"),
)
_LINES = ("command", "cmd", "script", "line", "input", "chars", "code")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.M)
_GLOBBED = re.compile(r"[*?\[]")
_MOST_FILES = 200
_LETTERS = re.compile(r"-[A-Za-z]+")
_ON_BRANCH = frozenset(
    f"git {one}" for one in ("commit", "merge", "rebase", "reset", "revert", "cherry-pick")
)
_QUOTES = re.compile(r"['\"\\]|\$(?=['\"])")


class Call(NamedTuple):
    """A call of a tool, the folder that it runs in, and the project's."""

    tool: str
    given: Mapping[str, Any]
    folder: str = ""
    root: str = ""
    read: ReadLines | None = None  # what was read for it; each that is judged has its own


class MatchedPart(NamedTuple):
    """The part of a call that a check means; not sure: the line could not be read so far."""

    part: str
    is_sure: bool = True


def find_match(check: PinCheck, call: Call) -> MatchedPart | None:
    """The part of a call that a check means; None where it means none. What is excepted is that
    part alone: a call that does more is looked at further."""
    kind = kind_of(call.tool)
    if any(_is_named(tool, call.tool, kind) for tool in check.tools):
        if kind == "run":
            runs = (find_run(check.glob, line, call, check.unless) for line in lines_of(call))
            return next(filter(None, runs), None)
        paths = list(paths_of(call))
        if paths and kind in ("read", "write", "edit"):
            return _find_path(check, paths, call.folder, call)
        return _find_text(check, call.given)
    kinds = {kind_of(tool) for tool in check.tools}
    if kind == "run" and kinds & {"read", "write", "edit"}:
        for line in lines_of(call):
            if found := _find_in_line(check, line, call, reads="read" in kinds):
                return found
    return None


def _is_named(wanted: str, tool: str, kind: str) -> bool:
    """Whether a check's word for a tool means this one: by its name, or by what it does."""
    if wanted == "*":
        return True
    if wanted.startswith("mcp:"):
        server, _, name = wanted.removeprefix("mcp:").partition(".")
        shapes = ("mcp__{}__{}", "mcp_{}_{}", "{}_{}", "{}.{}", "mcp__{}.{}")
        return any(
            fnmatchcase(tool.lower(), shape.format(server, name or "*").lower()) for shape in shapes
        )
    meant = kind_of(wanted)
    is_patch = kind == "edit" and "patch" in tool.lower()
    return (bool(meant) and (meant == kind or (meant == "write" and is_patch))) or (
        fnmatchcase(tool.lower(), wanted.lower())
    )


def lines_of(call: Call) -> Iterator[str]:
    """The lines of a shell that a call runs."""
    for name in _LINES:
        said: Any = call.given.get(name)
        if isinstance(said, str):
            yield said
        elif isinstance(said, list) and said:
            words = [str(word) for word in cast("list[Any]", said)]
            if len(words) == 3 and words[1].startswith("-") and words[1].endswith("c"):
                yield words[2]
            else:
                yield " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)


def paths_of(call: Call) -> Iterator[str]:
    """The files that a call names."""
    for name in _PATHS:
        said: Any = call.given.get(name)
        names = cast("list[Any]", said) if isinstance(said, list) else [said]
        yield from (one for one in names if isinstance(one, str) and one)
    for said in call.given.values():
        if isinstance(said, str) and "*** " in said:
            yield from (found[1] or found[2] for found in _PATCHED.finditer(said))
    for one in cast("list[Any]", call.given.get("edits") or []):
        if isinstance(one, dict):
            yield from paths_of(Call("", cast("dict[str, Any]", one)))


# Texts


def _find_text(check: PinCheck, given: Mapping[str, Any]) -> MatchedPart | None:
    for text in texts_in(given):
        excepted = any(_is_said(glob, text) for glob in check.excepted)
        if _is_said(check.glob, text) and not excepted:
            return MatchedPart(text[:200])
    return MatchedPart("") if check.glob == "*" and not check.unless else None


def _is_said(glob: str, text: str) -> bool:
    if is_text_like(glob, text):
        return True
    found = re.match(r"[a-z]+://(?:[^/@]*@)?([^/:?#]+)", text, re.I)
    host = found[1].lower().rstrip(".") if found else ""
    return bool(host) and (is_text_like(glob.lower(), host) or host.endswith(f".{glob.lower()}"))


def texts_in(value: Any) -> Iterator[str]:
    """The texts in what a call is given, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in cast("Mapping[str, Any]", value).values():
            yield from texts_in(one)
    elif isinstance(value, list):
        for one in cast("list[Any]", value):
            yield from texts_in(one)


# Paths


def _find_path(
    check: PinCheck, paths: Iterable[str], folder: str, call: Call
) -> MatchedPart | None:
    for path in paths:
        found = [path]
        if _GLOBBED.search(path):
            start = path if isabs(path) else join(folder or ".", path)
            found += islice(iglob(start), _MOST_FILES)  # noqa: PTH207  # of any root
        if "**" in path:  # a search, which may find the very file that is meant
            near = call.root if "/" in check.glob else join(folder, path.partition("**")[0])
            meant, sought = join(near, check.glob), normpath(join(home_of(folder), path))
            found += [meant] if is_path_in(sought, meant, folder) else []
        for one in found:
            excepted = any(is_path_in(glob, one, folder, call.root) for glob in check.excepted)
            if is_path_in(check.glob, one, folder, call.root) and not excepted:
                return MatchedPart(path)
    return None


def _find_in_line(check: PinCheck, line: str, call: Call, *, reads: bool) -> MatchedPart | None:
    """The file of a glob that a line changes, or reads."""
    doubt: MatchedPart | None = None
    for run in runs_of(line, call.folder, {} if call.read is None else call.read):
        paths = [*run.written, *_changed_by(run), *(_read_by(run) if reads else ())]
        if found := _find_path(check, paths, run.folder, call):
            return found
        code = "\n".join((*run.words[1:], run.given))
        is_code = run.name.rstrip("0123456789.") in programs().interpreters
        does = is_code and (reads or tables().changes_files.search(code))
        if any(map(UNREAD.search, paths)):
            does, code = True, line
        is_unread = not (run.words or paths)
        if not doubt and (does or is_unread) and has_own_words(check.glob, code):
            doubt = MatchedPart(code[:200], is_sure=False)
    return doubt


@lru_cache(maxsize=256)  # each check of a call asks
def _changed_by(run: Command) -> tuple[str, ...]:
    return tuple(_list_changed(run))


def _list_changed(run: Command) -> Iterator[str]:
    """The files that a command changes, as its table says."""
    name, rest = _split_git(run)
    if name == "apply_patch":
        yield from paths_of(Call("", {"patch": "\n".join((*rest, run.given))}))
    elif name == "find":
        yield from _found_by(run, _list_changed)
    for known in tables().changes.get(name, ()):
        if known.does != "forget" and known.is_done(rest):
            files = known.files_in(rest)
            yield from files
            if known.takes == "last" and files and ":" not in files[-1]:  # which may be a folder
                yield from (join(files[-1], re.split("[/:]", word)[-1]) for word in rest)


def _found_by(run: Command, done: Callable[[Command], Iterator[str]]) -> Iterator[str]:
    """What a search finds, where something is done to it: by its names, else where it looks."""
    words = run.words[1:]
    inner = run._replace(words=run_with_found(words), written=(), taken=())
    if any(done(inner)) or (done is _list_changed and "-delete" in words):
        places = list(takewhile(lambda word: not word.startswith(("-", "(", "!")), words)) or ["."]
        names = [name for option, name in pairwise(words) if option in tables().finds]
        for place, name in product(places, names or [""]):
            inside = join(place, "**", name) if name else place
            yield name.replace("*", "**") if "/" in name else inside


def _read_by(run: Command) -> Iterator[str]:
    yield from run.taken
    name, words = _split_git(run)
    if name == "find":
        yield from _found_by(run, _read_by)
    elif run.words and (name in tables().reads or run.name not in tables().looks_past):
        reads, valued = tables().reads.get(name, []), tables().valued.get(name, [])
        plain, options = read_options(words, (*valued, *reads))
        yield from (value for option, value in options if option in reads)
        is_search = name.removeprefix("git ") in programs().searches - programs().compares
        is_search = is_search and "-e" not in words
        yield from plain[1:] if is_search else plain  # the first is what is looked for


def _split_git(run: Command) -> tuple[str, tuple[str, ...]]:
    """The name of a command, of git with its subcommand, and the words behind it."""
    found = subcommand_of("git", run.words[1:]) if run.name == "git" else ()
    return (f"git {found[0]}", found[1:]) if found else (run.name, run.words[1:])


# Commands


def find_run(glob: str, line: str, call: Call, unless: str = "") -> MatchedPart | None:
    """The command of a line that a glob means, and what is excepted does not."""
    globs, others = glob.split(), [one.split() for one in unless.split("|") if one.strip()]
    doubt: MatchedPart | None = None
    for run in runs_of(line, call.folder, {} if call.read is None else call.read):
        if not run.words:
            if run.given and has_own_words(glob, run.given):
                doubt = doubt or MatchedPart(run.given[:200], is_sure=False)
            continue
        found = _match_words(globs, run, line)
        excepted = (_match_words(words, run, line) for words in others) if found else ()
        if any(one is not None and one.is_sure for one in excepted):
            continue
        if found is not None and found.is_sure:
            return found
        doubt = doubt or found
    return doubt


def has_own_words(glob: str, text: str) -> bool:
    """Whether a text that cannot be read holds all that a glob says."""
    plain = _QUOTES.sub("", text)
    words = own_words(glob)
    return bool(words) and all(word in plain for word in words)


def _match_words(globs: Sequence[str], run: Command, line: str) -> MatchedPart | None:
    """Whether a command is one that the words of a glob mean: the program, its subcommand, and the
    others among its words, wherever they stand."""
    glob, first = " ".join(globs), globs[0]
    part = MatchedPart(" ".join(run.words)[:200])
    doubt = part._replace(is_sure=False)
    name = run.name
    if first.startswith("*"):
        if _only_names(run):
            return None
        is_data = run.name in programs().beside  # what is printed into a file
        told = (*run.words, *run.written, *(() if is_data else run.given.splitlines()))
        said = any(fnmatchcase(one, first) for word in told for one in _pieces(word))
        rest, operands = globs[1:], list(told)
        if not said:
            is_unread = any(UNREAD.search(word) for word in run.words)
            return doubt if is_unread and has_own_words(glob, line) else None
    else:
        if not (fnmatchcase(name, first) or fnmatchcase(name.rstrip("0123456789."), first)):
            return doubt if _may_be(run, glob, line) else None
        rest, operands = list(globs[1:]), list(run.words[1:])
        if rest and not rest[0].startswith("-") and name in programs().with_subcommand:
            found = subcommand_of(name, run.words[1:])
            if not found or not fnmatchcase(found[0], rest[0]):
                is_unread = bool(found) and UNREAD.search(found[0]) is not None
                return doubt if is_unread and has_own_words(glob, line) else None
            name, rest, operands = f"{name} {found[0]}", rest[1:], list(found[1:])
    missing = [one for one in rest if one != "*" and not _has_word(one, operands, name, run)]
    if not missing:
        return part
    is_unread = any(UNREAD.search(word) for word in operands)
    said = all(has_own_words(one, line) for one in missing)
    return doubt if is_unread and said else None


def _only_names(run: Command) -> bool:
    """Whether a command only looks for a word, or prints it: it does nothing to what that names."""
    if run.name != "git":
        return run.name in programs().searches | programs().beside and not run.written
    found = subcommand_of("git", run.words[1:])
    return not found or found[0] not in ("push", "pull", "fetch", "clone", "remote", "merge")


def _may_be(run: Command, glob: str, line: str) -> bool:
    """Whether a command that looks like another may be the one: its name is only known at the run,
    or it is code that starts programs."""
    if UNREAD.search(run.words[0]):
        return has_own_words(glob, line)
    if run.name.rstrip("0123456789.") not in programs().interpreters:
        return False
    code = "\n".join((*run.words[1:], run.given))
    return has_own_words(glob, code) and tables().starts.search(code) is not None


def _has_word(wanted: str, operands: Sequence[str], name: str, run: Command) -> bool:
    if wanted.startswith("-"):
        return _has_option(wanted, operands, name)
    if name == "git push":
        return _is_pushed(wanted, operands, run)
    if any(fnmatchcase(one, wanted) for word in operands for one in _pieces(word)):
        return True
    if ("/" in wanted or "." in wanted) and wanted.strip("./"):
        named = (word for word in operands if not word.startswith("-"))
        if any(is_path_in(wanted, word, run.folder) for word in named):
            return True
    return name in _ON_BRANCH and fnmatchcase(branch_at(run), wanted)


def _is_pushed(wanted: str, operands: Sequence[str], run: Command) -> bool:
    """Whether a push goes to a remote, or to a branch: of `main:topic` that is the second."""
    if not tables().pushes_all.isdisjoint(operands):
        return True
    plain, _ = read_options(operands, tables().valued["git push"])
    told = [*plain[1:], *goals_of_push("".join(plain[:1]), plain[1:], run)]
    told += (one for word in plain[:1] for one in _pieces(word))
    return any(fnmatchcase(one, wanted) or fnmatchcase(wanted, one) for one in told)


def _has_option(wanted: str, operands: Sequence[str], name: str) -> bool:
    """Whether an option is there, by its long name or by its letter, also among others."""
    same = tables().same_options.get(name, {})
    letters = {letter for word in operands if _LETTERS.fullmatch(word) for letter in word[1:]}
    long = [word.partition("=")[0] for word in operands if word.startswith("--")]
    for word in long:
        letters |= set(same.get(word, ""))
    if _LETTERS.fullmatch(wanted):
        both = {letter for known in same.values() if len(known) > 1 for letter in known}
        return all(one in letters or (one in both and letters & both) for one in wanted[1:])
    if name == "git push" and wanted.startswith("--force"):
        letters |= {"f"} if any(word.startswith("+") for word in operands) else set()
    if name.startswith("git ") and any(_is_short_for(word, wanted) for word in long):
        return True
    by_letter = same.get(wanted.rstrip("*"), "")
    return any(fnmatchcase(word, wanted) for word in (*long, *operands)) or bool(
        letters & set(by_letter)
    )


def _is_short_for(word: str, wanted: str) -> bool:
    """Whether git takes an option for a longer one: `--no-veri`."""
    return len(word) > len("--fo") and wanted.rstrip("*").startswith(word)


def _pieces(word: str) -> Iterator[str]:
    """A word, and the parts of it that name a thing: behind `=`, of `a:b`, of a branch."""
    yield word
    if "@" in word or "://" in word:
        yield from re.split(r"[@/:?]+", word)
    for part in (word.lstrip("+"), *re.split(r"[=:]", word.lstrip("+"))):
        if part:
            yield part.removeprefix("refs/heads/")
            yield part.rstrip("/")
