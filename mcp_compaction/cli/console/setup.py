"""What the commands on hosts share: the host that is meant, where its files are,
and what is wrong with its hooks."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from mcp_compaction.checks.file import UnreadableRulesError, read_rules
from mcp_compaction.cli.console.invocation import Invocation, add_store
from mcp_compaction.cli.console.opening import settings_of
from mcp_compaction.core.wording import plural
from mcp_compaction.errors import InputError
from mcp_compaction.hosts.claude_code.surroundings import Surroundings, look_around
from mcp_compaction.hosts.hook_notes import MODULE, WITHOUT, Run, read_run, read_trouble
from mcp_compaction.hosts.setup.entries import HostSetup, Scope, find_host, known_setups
from mcp_compaction.hosts.setup.installing import Change, Installed, SetupFolders, find_installed
from mcp_compaction.hosts.transcripts.claude_code import NAME as CLAUDE_CODE
from mcp_compaction.lexicon import read_host
from mcp_compaction.model import Value
from mcp_compaction.projects import find_folder
from mcp_compaction.store.outbox import Outbox


def add_host(parser: ArgumentParser) -> None:
    """Declare the host, the scope, and what both commands share."""
    names = ", ".join(host.name for host in known_setups())
    parser.add_argument("host", metavar="HOST", nargs="?", help=f"one of {names}")
    parser.add_argument(
        "--project",
        metavar="PATH",
        nargs="?",
        const="",
        help="only for one project: PATH, else the git top of this folder (default: for all)",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the changes, make none")
    add_store(parser)


def host_of(call: Invocation) -> HostSetup:
    """The host that was typed."""
    name: str | None = call.args.host
    if name is None:
        names = ", ".join(host.name for host in known_setups())
        raise InputError(f"name a host: {names}.")
    return find_host(name)


def scope_of(call: Invocation) -> Scope:
    """The scope that was typed."""
    return "user" if call.args.project is None else "project"


def place_of(call: Invocation) -> SetupFolders:
    """Where the files of hosts and the copies of them are looked for."""
    typed: str | None = call.args.project
    settings = settings_of(call)
    target = Outbox(settings.home).read()
    named = call.args.home is not None or bool(call.environ.get("MCP_COMPACTION_HOME"))
    return SetupFolders(
        environ=call.environ,
        project=Path(find_folder(typed or None)),
        home=settings.home,
        named_home=str(settings.home.absolute()) if named else "",
        server="" if target is None else target.server,
        prompt=_prompt_of_hosts() if settings.prose != "off" else "",
    )


def _prompt_of_hosts() -> str:
    # Loaded only where it is wished: doctor is to be there at once.
    from mcp_compaction.summarizers.session_model import QUESTION

    return QUESTION


def describe_scope(host: HostSetup, scope: Scope, place: SetupFolders) -> str:
    """The host and the projects that are meant."""
    where = "all projects" if scope == "user" else str(place.project)
    return f"{host.title}, for {where}"


def describe_installed(installed: Installed, environ: Mapping[str, str]) -> str:
    """A line on our entries in the files of a host."""
    parts = ["the server"] if installed.has_server else []
    parts += [plural(installed.hooks, "hook")] if installed.hooks else []
    where = ", ".join(shorten(path, environ) for path in installed.paths)
    told = "; it is asked for its own summaries by our prompt" * (installed.prompt == "ours")
    return f"{' and '.join(parts) or 'permissions'} in {where}{told}"


def shorten(path: Path, environ: Mapping[str, str]) -> str:
    """A path as a person writes it."""
    home = environ.get("HOME", "")
    is_below = bool(home) and path.is_relative_to(home)
    return str(Path("~") / path.relative_to(home)) if is_below else str(path)


def say_diffs(call: Invocation, changes: list[Change]) -> None:
    """Print what would change."""
    for change in changes:
        if change.is_one:
            call.screen.say(change.diff().rstrip("\n"))


def changes_as_json(changes: list[Change]) -> list[dict[str, object]]:
    """The changes for programs."""
    return [
        {"path": str(change.path), "is_changed": change.is_one, "diff": change.diff()}
        for change in changes
    ]


_MOST_TROUBLES = 5  # kinds that are listed
_DAYS = 30


class HostCheck(Value):
    """What was found about one host."""

    host: str
    title: str
    state: str
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def check_hosts(place: SetupFolders) -> Iterator[HostCheck]:
    """The hosts whose files hold something of ours, or cannot be read."""
    for host in known_setups():
        for scope in ("user", "project"):
            found = _check_host(host, scope, place)
            if found is not None:
                yield found


def _check_host(host: HostSetup, scope: Scope, place: SetupFolders) -> HostCheck | None:
    try:
        installed = find_installed(host, scope, place)
    except InputError as error:
        return HostCheck(
            host=host.name, title=host.title, state="not known", notes=(f"{error}; mend the file",)
        )
    around = look_around(place.environ, place.project) if host.name == CLAUDE_CODE else None
    if installed is None:
        is_alone = around is not None and scope == "user" and bool(around.plugins)
        return _check_plugin_alone(host, around, place) if around and is_alone else None
    last = read_run(place.environ, host.name)
    state = describe_installed(installed, place.environ)
    if installed.hooks:
        state += f"; a hook last ran {_write_moment(last)}" if last else "; not seen yet"
    if around is not None and (last or around.why_no_module()):
        state += f"; {_describe_module(around, place)}"
    is_hindered = around is not None and bool(around.switch)
    is_unseen = installed.hooks and last is None and not is_hindered
    steps = "; ".join(host.steps(scope))
    unseen = (f"{host.title} is not seen yet: {steps}",) if is_unseen else ()
    beside = find_beside(around, has_setup=True) if around is not None else ()
    return HostCheck(
        host=host.name,
        title=host.title,
        state=state,
        problems=tuple(_find_problems(installed)),
        notes=(*_find_notes(installed, place), *unseen, *beside),
    )


# The module inside Claude Code


def _check_plugin_alone(host: HostSetup, around: Surroundings, place: SetupFolders) -> HostCheck:
    """What was found where the plugin came from a marketplace, and nothing by `install`."""
    state = f"the plugin {', '.join(around.plugins)}; {_describe_module(around, place)}"
    notes = (*_find_troubles(host, place), *find_beside(around, has_setup=False))
    return HostCheck(host=host.name, title=host.title, state=state, notes=notes)


def _describe_module(around: Surroundings, place: SetupFolders) -> str:
    """A line that says which of our parts compacts, and why."""
    why, last = around.why_no_module(), read_run(place.environ, MODULE.format(CLAUDE_CODE))
    if around.switch:
        return f"only the server is at work: {why}"
    if why:
        return f"hooks are at work: {why}"
    if last is None:
        return "hooks are at work: the module has not run yet"
    without = read_run(place.environ, WITHOUT.format(CLAUDE_CODE))
    if without is not None and without.at > last.at:
        return (
            f"hooks are at work: the module ran last {_write_moment(last)}, but not in the turn of "
            f"{_write_moment(without)}; `claude --debug-file FILE` writes why it was not loaded"
        )
    return f"the module is at work, last {_write_moment(last)}"


def find_beside(around: Surroundings, *, has_setup: bool) -> Iterator[str]:
    """What of others, or of ours a second time, stands beside us in Claude Code."""
    doubles = around.doubles if has_setup else around.plugins[1:]
    for one in doubles:
        other = "mcp-compaction uninstall claude-code" if has_setup else "keep the other one"
        yield (
            f"the plugin {one} is there twice, so that two servers run; take one out: "
            f"`claude plugin uninstall {one}`, or: {other}"
        )
    for one in around.compactors:
        yield (
            f"the plugin {one} compacts, too; of two the one that the host asks first answers: "
            f"keep one, as by `claude plugin disable {one}`"
        )
    for name in around.held_back:
        yield (
            f"Claude Code has noted that the server {name} did not start once, and leaves it out "
            f"for a quarter of an hour; to have it at once remove {around.cache} and start anew"
        )


def checks_in_force(home: Path) -> Iterator[str]:
    """The checks of pins that hold calls, and which hosts can hold them."""
    try:
        rules = read_rules(home)
    except UnreadableRulesError as error:
        yield f"the checks of pins cannot be read, so that no call is held: {error}"
        return
    for rule in rules:
        where = "everywhere" if rule.scope == "global" else rule.project
        where = f"one chat of {where}" if rule.scope == "session" else where
        for check in rule.checks:
            yield f"{rule.ref} holds in {where}: {check}"
        for line in rule.unread:
            way = f"write it anew: mcp-compaction pins check {rule.ref} --set"
            yield f"{rule.ref} has a line that is no check and holds nothing: {line}; {way}"
    if rules:
        able = [host.title for host in known_setups() if "answers" in read_host(host.name)]
        others = [host.title for host in known_setups() if host.title not in able]
        yield (
            f"checks hold in {', '.join(able)}, where its hooks or plugin are installed; "
            f"{', '.join(others)} cannot hold a call"
        )


def _find_problems(installed: Installed) -> Iterator[str]:
    host = installed.host
    if installed.missing_program:
        yield (
            f"{host.title} is to start {installed.missing_program}, which is not there; "
            f"run: mcp-compaction install {host.name}"
        )
    elif installed.hooks and not installed.is_current:
        yield (
            f"the setup of {host.title} is not that of this version and your settings; "
            f"run: mcp-compaction install {host.name}"
        )


def _find_notes(installed: Installed, place: SetupFolders) -> Iterator[str]:
    host = installed.host
    if installed.has_server and not installed.hooks and any("hooks" in f.holds for f in host.file):
        yield (
            f"{host.title} has the server without its hooks, which record what is said and put "
            f"pins back; to add them: mcp-compaction install {host.name}"
        )
    folders = (file.find(place.environ, place.project).parent for file in host.files("user"))
    fetched = (folder / "node_modules" / host.fetches for folder in folders)
    if host.fetches and not any(folder.exists() for folder in fetched):
        yield (
            f"{host.title} has not fetched {host.fetches} yet, as it does where a plugin is set; "
            "without a network its start hangs for about two minutes: start it once with one"
        )
    if installed.prompt == "theirs" and place.prompt:
        yield (
            f"{host.title} has a compaction prompt of your own, which stays; for ours take that "
            f"one out and run: mcp-compaction install {host.name}"
        )
    yield from _find_troubles(host, place)


def _find_troubles(host: HostSetup, place: SetupFolders) -> Iterator[str]:
    since = time.time() - _DAYS * 86_400
    found = (one for one in read_trouble(place.environ) if one.at >= since)
    counted = Counter(one.what for one in found if one.host == host.name)
    for what, times in counted.most_common(_MOST_TROUBLES):
        yield f"a hook of {host.title}, in {_DAYS} days {plural(times, 'time')}: {what}"


def _write_moment(run: Run) -> str:
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.at))
    return f"{at} ({run.event})"
