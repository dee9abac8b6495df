"""Reads what git keeps in folders, without starting it: the top of a repository, its branch, its
settings, and whose a worktree is; and any file of a repository, so that none holds up its reader.
Standard library only, so that hooks may use it.
"""

from __future__ import annotations

import re
from os import F_OK, access
from os.path import expanduser, realpath, relpath, split
from pathlib import Path

WORKTREES_OF_HOSTS = "/.claude/worktrees/"
"""Where Claude Code makes worktrees in a repository; it removes them itself."""
_MOST_READ = 4_096  # bytes of a file that names another
_MOST_SETTINGS = 2**20
_SECTION = r'\s*\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]'  # compiled where it is needed
_VALUE = r'(?:"(?:[^"\\]|\\.)*"|[^"#;])*'
_GONE = re.compile(rf"(?P<worktree>(?P<top>.*){WORKTREES_OF_HOSTS}[^/]+)(?P<inside>/.*)?", re.S)


def read_plain_file(path: Path, most: int) -> bytes:
    """The first bytes of a file. A pipe, a terminal or a device, or a link to one, is as if it were
    not there: it might never end, or hold what another reader waits for."""
    if not path.is_file():
        raise FileNotFoundError(path)
    with path.open("rb") as file:
        return file.read(most)


def git_top_of(folder: str) -> str:
    """The nearest folder, itself or above, that git keeps something in; blank: there is none."""
    here = folder.rstrip("/") if folder.startswith("/") else str(Path(folder or ".").absolute())
    while not access(f"{here}/.git", F_OK):  # a hook has no time for a path each
        here, last = split(here)
        if not last:
            return ""
    return here


def branch_of(folder: str) -> str:
    """The branch that a folder is on; blank where it is in no repository."""
    top = git_top_of(folder)
    head = _line_in(_git_folder_of(Path(top)) / "HEAD") if top else ""
    return head.partition("refs/heads/")[2]


def settings_of(folder: str) -> dict[str, list[str]]:
    """What git is set to in a folder, by the user and then by the repository: `push.default`. What
    these files include is not read."""
    top = git_top_of(folder)
    kept = _git_folder_of(Path(top)) if top else Path("-")
    own = (kept / (_line_in(kept / "commondir") or ".") / "config", kept / "config.worktree")
    found: dict[str, list[str]] = {}
    for path in (*map(Path, map(expanduser, ("~/.config/git/config", "~/.gitconfig"))), *own):
        section = ""
        for line in _text_in(path, _MOST_SETTINGS).replace("\\\n", "").splitlines():
            head = re.match(_SECTION, line)
            if head:
                section = head[1].lower() + ("" if head[2] is None else f".{head[2]}")
            name, _, said = line[head.end() if head else 0 :].partition("=")
            value = (re.match(_VALUE, said) or [""])[0].replace('"', "").strip()
            found.setdefault(f"{section}.{name.strip().lower()}", []).append(value)
    return found


def home_of(path: str) -> str:
    """A path inside of a worktree as it is called in the repository; any other as it is."""
    if not Path(path).is_absolute():
        return path  # a name, as a team's server has it
    top = git_top_of(path)
    if top and Path(top, ".git").is_file():
        home = _repository_of(Path(top))
        return str(Path(home, relpath(realpath(path), realpath(top)))) if home else path
    gone = _GONE.fullmatch(path)  # which its host removes with its chat
    if gone and gone["top"] == top and not Path(gone["worktree"]).exists():
        return top + (gone["inside"] or "")
    return path


def paths_of(project: str) -> list[str]:
    """All that a project is called by: its repository's path first, and those of its worktrees."""
    home = home_of(project)
    if not Path(home).is_absolute():
        return [home]
    top = git_top_of(home)
    kept = (_git_folder_of(Path(top)) if top else Path(home)) / "worktrees"
    try:
        backs = [Path(one, _line_in(one / "gitdir")) for one in sorted(kept.iterdir())]
    except OSError:
        backs = []
    named = (realpath(back.parent / (relpath(home, top) if top else ".")) for back in backs)
    return list(dict.fromkeys((home, project, *(one for one in named if home_of(one) == home))))


def _repository_of(worktree: Path) -> str:
    """The repository of a worktree; blank where it is none. Whoever wrote the `.git` file is not
    believed alone: the repository has to keep the worktree, and to name it in its turn."""
    kept = Path(realpath(_git_folder_of(worktree)))
    common = Path(realpath(kept / (_line_in(kept / "commondir") or "-")))
    back = realpath(kept / (_line_in(kept / "gitdir") or "-"))
    if kept.parent != common / "worktrees" or back != realpath(worktree / ".git"):
        return ""
    return str(common.parent if common.name == ".git" else common)  # one that has no files


def _git_folder_of(top: Path) -> Path:
    git = top / ".git"
    return top / _line_in(git).removeprefix("gitdir:").strip() if git.is_file() else git


def _line_in(path: Path) -> str:
    return _text_in(path, _MOST_READ).strip()


def _text_in(path: Path, most: int) -> str:
    try:
        return read_plain_file(path, most).decode(errors="surrogateescape")
    except (OSError, ValueError):
        return ""
