"""Looks over the hosts that we are plugged into: whether they start us, and whether hooks run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

from mcp_compaction.cli.console.setup import describe_installed
from mcp_compaction.core.wording import plural
from mcp_compaction.errors import InputError
from mcp_compaction.hosts.hook_runs import Run, read_run
from mcp_compaction.hosts.setup.hosts import HostSetup, Scope, known_setups
from mcp_compaction.hosts.setup.installing import Installed, Place, find_installed
from mcp_compaction.hosts.trouble import read_trouble
from mcp_compaction.model import Value

_MOST_TROUBLES = 5  # kinds that are listed
_DAYS = 30


class HostCheck(Value):
    """What was found about one host."""

    host: str
    title: str
    state: str
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def check_hosts(place: Place) -> Iterator[HostCheck]:
    """The hosts whose files hold something of ours, or cannot be read."""
    for host in known_setups():
        for scope in ("user", "project"):
            found = _check_host(host, scope, place)
            if found is not None:
                yield found


def _check_host(host: HostSetup, scope: Scope, place: Place) -> HostCheck | None:
    try:
        installed = find_installed(host, scope, place)
    except InputError as error:
        return HostCheck(
            host=host.name, title=host.title, state="not known", notes=(f"{error}; mend the file",)
        )
    if installed is None:
        return None
    last = read_run(place.environ, host.name)
    state = describe_installed(installed, place.environ)
    if installed.hooks:
        state += f"; a hook last ran {_write_moment(last)}" if last else "; no hook has run yet"
    return HostCheck(
        host=host.name,
        title=host.title,
        state=state,
        problems=tuple(_find_problems(installed, last)),
        notes=tuple(_find_notes(installed, place)),
    )


def _find_problems(installed: Installed, last: Run | None) -> Iterator[str]:
    host = installed.host
    if installed.missing_program:
        yield (
            f"{host.title} is to start {installed.missing_program}, which is not there; "
            f"run: mcp-compaction install {host.name}"
        )
    elif installed.hooks and not installed.is_current:
        yield (
            f"the setup of {host.title} is not that of this version; "
            f"run: mcp-compaction install {host.name}"
        )
    if installed.hooks and last is None:
        steps = "; ".join(host.next)
        yield f"no hook of {host.title} has run yet: {steps}; then send a first prompt"


def _find_notes(installed: Installed, place: Place) -> Iterator[str]:
    host = installed.host
    if installed.has_server and not installed.hooks and any("hooks" in f.holds for f in host.file):
        yield (
            f"{host.title} has the server without its hooks, which record what is said and put "
            f"pins back; to add them: mcp-compaction install {host.name}"
        )
    if host.fetches and not _has_fetched(host, place):
        yield (
            f"{host.title} has not fetched {host.fetches} yet, as it does where a plugin is set; "
            "without a network its start hangs for about two minutes: start it once with one"
        )
    since = time.time() - _DAYS * 86_400
    found = (one for one in read_trouble(place.environ) if one.at >= since)
    counted = Counter(one.what for one in found if one.host == host.name)
    for what, times in counted.most_common(_MOST_TROUBLES):
        yield f"a hook of {host.title}, in {_DAYS} days {plural(times, 'time')}: {what}"


def _has_fetched(host: HostSetup, place: Place) -> bool:
    folders = (file.find(place.environ, place.project).parent for file in host.files("user"))
    return any((folder / "node_modules" / host.fetches).exists() for folder in folders)


def _write_moment(run: Run) -> str:
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.at))
    return f"{at} ({run.event})"
