"""Plans what installing and uninstalling change, says what is installed where, and writes a host's
files: whole or not at all, with a copy of what was there.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import unified_diff
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from mcp_compaction.errors import InputError
from mcp_compaction.home import make_folder, write_whole
from mcp_compaction.hosts.setup.edits import parse_file, put_in, take_out
from mcp_compaction.hosts.setup.entries import (
    MARKETPLACE,
    PLUGIN_FILE,
    Held,
    HostSetup,
    Launch,
    PluginNote,
    Scope,
    SetupFile,
    entries_for,
    find_note,
    find_ours,
    whose_prompt,
)
from mcp_compaction.hosts.setup.json_text import remove
from mcp_compaction.hosts.transcripts.pieces import value_at
from mcp_compaction.program import lasting_command

_FOLDER = "installed"


@dataclass(frozen=True, slots=True)
class Change:
    """A file as it is and as it is to be; None: it is not there."""

    path: Path
    before: str | None
    after: str | None
    is_copy: bool = False  # a file of ours that is put in a folder of ours

    @property
    def is_one(self) -> bool:
        """Whether anything changes."""
        return self.before != self.after

    def diff(self) -> str:
        """The change as `diff -u` shows it; of a copy only that it comes or goes."""
        if self.is_copy:
            return f"{'+++' if self.after is not None else '---'} {self.path} (of the plugin)\n"
        lines = unified_diff(
            (self.before or "").splitlines(keepends=True),
            (self.after or "").splitlines(keepends=True),
            str(self.path),
            str(self.path),
        )
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def read_file(path: Path) -> str | None:
    """The text of a file, with its line ends as they are; None where there is none."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def backup_path(home: Path, host: str, path: Path) -> Path:
    """The place of the copy of a host's file as it was before."""
    return home / _FOLDER / host / f"{short_name(path)}-{path.name}"


def plugin_folder(home: Path, host: str, project: Path | None) -> Path:
    """The folder for the copy of a plugin, for one project or for all."""
    owner = "all" if project is None else short_name(project)
    return home.absolute() / _FOLDER / host / owner


def short_name(path: Path) -> str:
    """A few characters that stand for a path."""
    return sha256(os.fsencode(path)).hexdigest()[:12]


def back_up(home: Path, host: str, change: Change) -> None:
    """Keep what is in a file now; the copy is the user's alone, since it may hold keys."""
    copy = backup_path(home, host, change.path)
    if change.before is None:
        copy.unlink(missing_ok=True)
        return
    make_folder(copy.parent)
    write_whole(copy, change.before)


def write_changes(changes: Iterable[Change]) -> None:
    """Write all files or none; one that was changed meanwhile is not written."""
    done: list[Change] = []
    try:
        for change in changes:
            if read_file(change.path) != change.before:
                raise InputError(
                    f"{change.path} was changed meanwhile; nothing was done: run again"
                )
            if change.is_copy:
                make_folder(change.path.parent)
            _put(change.path, change.after)
            done.append(change)
    except (InputError, OSError) as error:
        for change in done:
            with suppress(OSError):
                _put(change.path, change.before)
        if isinstance(error, InputError):
            raise
        raise InputError(f"{error.filename} cannot be written: {error.strerror}") from None


def _put(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
    write_whole(Path(os.path.realpath(path)), text, mode)  # a link to it stays one


@dataclass(frozen=True, slots=True)
class SetupFolders:
    """Where files are looked for."""

    environ: Mapping[str, str]
    project: Path
    home: Path  # the folder of the store, which keeps the copies
    named_home: str = ""  # that folder, where the user has named it
    server: str = ""  # the team's server that the store is sent on to
    prompt: str = ""  # by which hosts are to ask for their own summaries


@dataclass(frozen=True, slots=True)
class Installed:
    """Our entries in the files of a host."""

    host: HostSetup
    scope: Scope
    paths: tuple[Path, ...]
    has_server: bool
    hooks: int
    is_current: bool  # as this version would write it
    prompt: Literal["ours", "theirs", ""] = ""  # whose the host asks for its own summaries by
    missing_program: str = ""  # the program that the host is to start, where it is gone


def launch_for(host: HostSetup, scope: Scope, place: SetupFolders) -> Launch:
    """How a host starts us: by whole paths, since it may look for programs elsewhere."""
    program, *rest = lasting_command()
    found = shutil.which(program, path=place.environ.get("PATH", "")) or program
    env = {name: place.environ[name] for name in host.passes if place.environ.get(name)}
    words = (str(Path(found).absolute()), *rest)
    own = f"{MARKETPLACE}-{short_name(place.project)}"
    name = own if scope == "project" else MARKETPLACE
    copy = str(plugin_copy(host, scope, place))
    store = str(place.home.absolute())
    return Launch(words, env, place.named_home, copy, name, place.server, store, place.prompt)


def _plugin_folder(host: HostSetup, scope: Scope, place: SetupFolders) -> Path:
    """The folder for a plugin's copy, which outlives the folder of this version."""
    return plugin_folder(place.home, host.name, place.project if scope == "project" else None)


def plugin_copy(host: HostSetup, scope: Scope, place: SetupFolders) -> Path:
    """The copy of a plugin, a file or a folder, which the host reads."""
    folder = _plugin_folder(host, scope, place)
    is_file = bool(host.plugin) and host.plugin_source.is_file()
    return folder / PLUGIN_FILE if is_file else folder


def _plan_copy(host: HostSetup, scope: Scope, place: SetupFolders) -> Iterator[Change]:
    """The changes that make a plugin's copy that of this version."""
    copy, name = plugin_copy(host, scope, place), launch_for(host, scope, place).marketplace
    texts = {
        copy / below: text.replace(f'"{MARKETPLACE}"', f'"{name}"')
        for below, text in host.read_plugin().items()
    }
    for path in sorted({*texts, *_files_of_copy(host, scope, place)}):
        yield Change(path, read_file(path), texts.get(path), is_copy=True)


def _files_of_copy(host: HostSetup, scope: Scope, place: SetupFolders) -> Iterator[Path]:
    """The files that are there now, without those that a running server has put there."""
    folder = _plugin_folder(host, scope, place)
    views = folder / host.views if host.views else None
    for path in folder.rglob("*") if host.plugin else ():
        if path.is_file() and not (views is not None and path.is_relative_to(views)):
            yield path


def plan_install(host: HostSetup, scope: Scope, place: SetupFolders) -> list[Change]:
    """The changes that set a host up; of files that are already so, none."""
    launch = launch_for(host, scope, place)
    changes = [_plan_file(host, file, launch, place) for file in _files_of(host, scope)]
    return [*changes, *_plan_copy(host, scope, place)]


def _plan_file(host: HostSetup, file: SetupFile, launch: Launch, place: SetupFolders) -> Change:
    path = file.find(place.environ, place.project)
    before = read_file(path)
    wanted = list(entries_for(host, file.holds, launch))
    after = put_in(host, file.holds, wanted, before or "", str(path))
    _check_reversible(host, file, before, after, path)
    return Change(path, before, after)


def _check_reversible(
    host: HostSetup, file: SetupFile, before: str | None, after: str, path: Path
) -> None:
    """Refuse an edit that would change more than our own entries."""
    name, was = str(path), before
    if find_ours(host, file.holds, parse_file(host, before or "", name)):
        was = take_out(host, file.holds, before or "", name, None)
    now = take_out(host, file.holds, after, name, was)
    if parse_file(host, was or "", name) != parse_file(host, now or "", name):
        raise InputError(f"{path} could not be edited without changing what is not ours")


def _files_of(host: HostSetup, scope: Scope) -> tuple[SetupFile, ...]:
    files = host.files(scope)
    if not files:
        where = "for one project" if scope == "project" else "on this system"
        raise InputError(f"{host.title} cannot be set up {where}, as far as is known.")
    return files


def install(host: HostSetup, scope: Scope, place: SetupFolders, changes: list[Change]) -> None:
    """Make the changes, with a copy of each file as it was before the first of them."""
    for file, change in zip(_files_of(host, scope), changes, strict=False):  # not of the copy
        data = parse_file(host, change.before or "", str(change.path))
        # With ours in it, it is not as it was; a permission may have been the user's own.
        told: list[Held] = [held for held in file.holds if held != "permissions"]
        if change.is_one and not find_ours(host, told, data):
            back_up(place.home, host.name, change)
    if host.plugin:
        make_folder(_plugin_folder(host, scope, place))
    # The copy first: a host that is running may read its files at any moment.
    wanted = [change for change in changes if change.is_one]
    write_changes(sorted(wanted, key=lambda change: not change.is_copy))


def plan_uninstall(host: HostSetup, scope: Scope, place: SetupFolders) -> list[Change]:
    """The changes that take what is ours out of a host's files."""
    changes: dict[Path, Change] = {}
    for file in _files_of(host, scope):
        path = file.find(place.environ, place.project)
        before = read_file(path)
        base = read_file(backup_path(place.home, host.name, path))
        after = before
        if before is not None:
            after = take_out(host, file.holds, before, str(path), base)
        changes[path] = Change(path, before, after)
    launch = launch_for(host, scope, place)
    for note in host.note:
        path = note.find_of_user(place.environ)
        before = read_file(path)
        change = changes.get(path, Change(path, before, before))
        changes[path] = replace(change, after=_without_note(host, note, launch, change))
    copied = sorted(_files_of_copy(host, scope, place))
    removed = [Change(path, read_file(path), None, is_copy=True) for path in copied]
    return [*changes.values(), *removed]


def _without_note(host: HostSetup, note: PluginNote, launch: Launch, change: Change) -> str | None:
    """A text from which our plugin is taken out that the host has noted there by itself."""
    if change.after is None:
        return None
    at = find_note(note, launch, parse_file(host, change.after, str(change.path)))
    return change.after if at is None else remove(change.after, at)


def uninstall(host: HostSetup, scope: Scope, place: SetupFolders, changes: list[Change]) -> None:
    """Make the changes, and remove the copies."""
    write_changes(change for change in changes if change.is_one)
    for change in changes:
        backup_path(place.home, host.name, change.path).unlink(missing_ok=True)
    if host.plugin:
        shutil.rmtree(_plugin_folder(host, scope, place), ignore_errors=True)


def find_installed(host: HostSetup, scope: Scope, place: SetupFolders) -> Installed | None:
    """Our entries in the files of a host; None where there are none."""
    paths: list[Path] = []
    hooks, server, prompt = 0, None, ""
    for file in host.files(scope):
        path = file.find(place.environ, place.project)
        data = parse_file(host, read_file(path) or "", str(path))
        ours = find_ours(host, file.holds, data)
        paths += [path] if ours else []
        hooks += sum(_count_handlers(value_at(data, at)) for at in ours if at[0] == "hooks")
        server = value_at(data, host.server.at) if host.server.at in ours else server
        prompt = whose_prompt(host, data) if "prompt" in file.holds else prompt
    if not paths:
        return None
    changes = plan_install(host, scope, place) if host.is_edited else []
    return Installed(
        host=host,
        scope=scope,
        paths=tuple(paths),
        has_server=server is not None,
        hooks=hooks,
        is_current=not any(change.is_one for change in changes),
        prompt=prompt,
        missing_program=_find_missing_program(server),
    )


def _count_handlers(hook: Any) -> int:
    """The handlers of a group of hooks; what is no group is one handler."""
    return len(value_at(hook, ("hooks",)) or (hook,))


def _find_missing_program(server: Any) -> str:
    command: Any = value_at(server, ("command",))
    program = str(value_at(command, (0,)) or command or "")
    return program if program and shutil.which(program) is None else ""
