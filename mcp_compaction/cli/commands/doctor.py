"""The command that looks everything over: `mcp-compaction doctor`."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from mcp_compaction.cli.console.invocation import Invocation, add_place
from mcp_compaction.cli.console.opening import (
    flags_of,
    has_store,
    open_place,
    project_of,
    settings_of,
)
from mcp_compaction.cli.console.options import describe_value
from mcp_compaction.cli.console.screen import Screen, make_teller
from mcp_compaction.cli.console.setup import HostCheck, check_hosts, checks_in_force, place_of
from mcp_compaction.core.policy import PRESETS
from mcp_compaction.core.text.secrets import counts_by_kind
from mcp_compaction.core.wording import plural
from mcp_compaction.errors import StoreError
from mcp_compaction.home import default_home, mode_problems, state_folder
from mcp_compaction.model import Value
from mcp_compaction.ports import Health
from mcp_compaction.program import as_typed, lasting_command
from mcp_compaction.settings import GONE, NAMES, POLICY, Settings
from mcp_compaction.settings_file import PREFIX, TOKEN, given_settings
from mcp_compaction.store.noted import headless_projects
from mcp_compaction.wiring import counter_of

if TYPE_CHECKING:
    from mcp_compaction.server.probe import Checked
from mcp_compaction.store.outbox import MOST_WAITING, Outbox
from mcp_compaction.wiring import SystemClock

DESCRIPTION = """\
Look over the store, the token counter, the settings and the hosts that this is plugged into, and
say in words what is wrong. With --server: start the server as a host would, too. With --summarizer:
make a real call to the model that is to write digests, and say what works.
Changes: nothing without --fix; ends with code 1 when a problem is found."""
EXAMPLES = (
    "doctor",
    "doctor --summarizer",
    "doctor --server --json",
    "doctor --home /srv/agents/compaction",
)

_PATIENCE_MS = 3_000
_COUNTERS = {
    "exact": "exact for models that count in o200k",
    "scaled": "scaled by what the provider reported",
    "estimate": "an estimate, a few percent off",
}


class Setting(Value):
    """A setting that is not at its default, and where it comes from."""

    name: str
    value: str
    source: str


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_place(parser)
    parser.add_argument("--server", action="store_true", help="start the server as a host would")
    parser.add_argument("--fix", action="store_true", help="build the search index anew first")
    parser.add_argument(
        "--summarizer", action="store_true", help="ask the summarizer instead, with real calls"
    )


async def run(call: Invocation) -> int:
    """Print what is wrong, then the state of everything."""
    settings = settings_of(call)
    if call.args.summarizer:
        return await _report_summarizer(call, settings)
    listed = tuple(_list_settings(call, settings))
    project = project_of(call, settings)
    try:
        health = await _read_health(call, settings)
    except StoreError:  # the settings hold even for a broken store
        if not call.args.json:
            _say_settings(call.screen, listed, project)
        raise
    notes = list(health.notes) if health else []
    notes += [
        f"{name} is no longer a setting, and nothing comes of it: remove it"
        for name in sorted(GONE.intersection(given_settings(call.environ)))
    ]
    problems = list(health.problems) if health else list(_explain_unwritable(settings.home))
    for folder in (settings.home, state_folder(call.environ)):
        problems += mode_problems(folder)
    checks = await _try_server(call.environ) if call.args.server else ()
    problems += _faults_of(checks)
    notes += _notes_on_slowness(checks)
    hosts = tuple(check_hosts(place_of(call)))
    problems += [problem for host in hosts for problem in host.problems]
    notes += [note for host in hosts for note in host.notes]
    notes += checks_in_force(settings.home)
    trusted = sorted(headless_projects(settings.home))
    notes += (f"headless prompts count as yours in {project}" for project in trusted)
    sent = look_at_sending(settings, call.environ)
    problems += sent.problems if sent is not None else ()
    counter = counter_of(settings)
    if call.args.json:
        call.screen.write_json(
            {
                "store": health.model_dump(mode="json") if health else None,
                "problems": problems,
                "notes": notes,
                "counter": {"id": counter.id, "precision": counter.precision},
                "team": sent.model_dump(mode="json") if sent else None,
                "server": [check.model_dump(mode="json") for check in checks],
                "hosts": [host.model_dump(mode="json") for host in hosts],
                "command": lasting_command(),
                "project": project,
                "settings": [setting.model_dump(mode="json") for setting in listed],
            }
        )
    else:
        _say_verdict(call.screen, *(list(map(call.complete, told)) for told in (problems, notes)))
        _say_settings(call.screen, listed, project)
        _say_store(call.screen, settings, health)
        if sent is not None:
            call.screen.say(f"{call.screen.bold('team')} {sent.state}")
        _say_server(call.screen, checks)
        _say_hosts(call.screen, hosts)
        call.screen.say(f"{call.screen.bold('for a host')} {as_typed(lasting_command())}")
    return 1 if problems else 0


async def _report_summarizer(call: Invocation, settings: Settings) -> int:
    """Print what the model that is to write digests can do."""
    # Only who asks for a model waits for what speaks to one.
    from mcp_compaction.cli.console.summarizer_check import (
        check_summarizers,
        explain_choice,
        rows_of_checkup,
    )

    tell = make_teller(quiet=call.args.json)
    count = counter_of(settings).count
    found = await check_summarizers(settings, call.environ, count, tell)
    tell("")
    problems = [f"{one.name}: {problem}" for one in found for problem in one.problems]
    if call.args.json:
        call.screen.write_json(
            {
                "chosen": explain_choice(settings),
                "summarizers": [one.model_dump(mode="json") for one in found],
                "problems": problems,
            }
        )
        return 1 if problems else 0
    screen = call.screen
    screen.say(f"{screen.bold('summarizer')} {explain_choice(settings)}")
    for one in found:
        screen.say(screen.bold(one.name))
        screen.say_rows([(f"  {title}", words) for title, words in rows_of_checkup(one)])
    _say_verdict(screen, problems, list(_advice_on(settings)))
    return 1 if problems else 0


def _advice_on(settings: Settings) -> Iterator[str]:
    if settings.summarizers == ("extractive",):
        yield "no model is asked and nothing leaves this machine"
        yield (
            "to have a model write: set summarizer_model, and for a server of your own"
            " summarizer_base_url, such as http://127.0.0.1:11434"
        )


async def _read_health(call: Invocation, settings: Settings) -> Health | None:
    if not has_store(settings):
        return None
    async with open_place(call) as place:
        if call.args.fix:
            await place.workspace.store.repair()
        return await place.workspace.store.health()


def _explain_unwritable(home: Path) -> Iterator[str]:
    """The reason why the first record could not make the store there."""
    place = next(folder for folder in (home, *home.parents) if folder.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        yield f"{place} cannot be written; set MCP_COMPACTION_HOME to a folder of yours"


async def _try_server(environ: Mapping[str, str]) -> tuple[Checked, ...]:
    """The server is tried with the user's settings, on a temporary store of its own."""
    # The SDK takes longer to load than all else: only who asks for the server waits for it.
    from mcp_compaction.server.probe import look_over

    with TemporaryDirectory(prefix="mcp-compaction-") as folder:
        own = {"MCP_COMPACTION_HOME": folder, "MCP_COMPACTION_PROJECT": folder}
        own |= {"MCP_COMPACTION_STORE": "none", "MCP_COMPACTION_RECORD": "true"}
        return await look_over({**environ, **own})


def _faults_of(checks: Iterable[Checked]) -> list[str]:
    """The server's problems, each once with the protocols that show it."""
    found: dict[str, list[str]] = {}
    for check in checks:
        for problem in check.problems:
            found.setdefault(problem, []).append(check.protocol)
    return [f"{problem} (protocol {', '.join(eras)})" for problem, eras in found.items()]


def _notes_on_slowness(checks: Iterable[Checked]) -> list[str]:
    slowest = max((check.first_answer_ms or 0 for check in checks), default=0)
    if slowest <= _PATIENCE_MS:
        return []
    return [f"the server took {slowest:,} ms to its first answer; some hosts wait no longer"]


def _say_server(screen: Screen, checks: Iterable[Checked]) -> None:
    for check in checks:
        if check.first_answer_ms is None:
            continue
        what = f"{plural(len(check.tools), 'tool')}, {plural(check.calls, 'call')} made"
        when = f"first answer after {check.first_answer_ms:,} ms"
        screen.say(f"{screen.bold('server')} over MCP {check.protocol}: {when}, {what}")


def _say_hosts(screen: Screen, hosts: Iterable[HostCheck]) -> None:
    rows = [(f"  {host.title}", host.state) for host in hosts]
    screen.say(screen.bold("hosts"))
    screen.say_rows(rows or [("  none", "plug one in with install")])


def _say_settings(screen: Screen, listed: tuple[Setting, ...], project: str) -> None:
    screen.say(f"{screen.bold('project here')} {project}")
    others = "the others at their defaults" if listed else "all at their defaults"
    screen.say(f"{screen.bold('settings')} {others}")
    screen.say_rows([(f"  {s.name}", s.value, s.source) for s in listed])


def _say_store(screen: Screen, settings: Settings, health: Health | None) -> None:
    counter = counter_of(settings)
    screen.say(f"{screen.bold('token counter')} {counter.id}: {_COUNTERS[counter.precision]}")
    screen.say(screen.bold("store"))
    if health is None:
        screen.say(f"  none yet in {settings.home}; the first record makes it")
        return
    screen.say(f"  {health.place}: {health.size_bytes:,} bytes")
    if settings.store is not None:
        screen.say(f"  the rows of {settings.owner}, in bytes of messages")
    screen.say(f"  schema {health.schema_version}, {health.engine}")
    sessions, messages = plural(health.sessions, "session"), plural(health.messages, "message")
    screen.say(f"  {sessions}, {messages}")
    if health.masked:
        screen.say(f"  masked on disk: {counts_by_kind(health.masked)}")


def _say_verdict(screen: Screen, problems: list[str], notes: list[str]) -> None:
    for problem in problems:
        screen.say(screen.bold(f"problem: {problem}"))
    if not problems:
        screen.say(screen.bold("no problems found"))
    for note in notes:
        screen.say(f"note: {note}")


def _list_settings(call: Invocation, settings: Settings) -> Iterator[Setting]:
    """The settings that are not at their defaults."""
    flags = flags_of(call)
    for name in NAMES:
        holder = settings.policy if name in POLICY else settings
        value: object = getattr(holder, name)
        default: object = type(holder).model_fields[name].default
        if name == "home":
            default = default_home(call.environ)
        if value == default:
            continue
        variable = f"{PREFIX}{name.upper()}"
        if name in flags:
            source = "--" + name.replace("_", "-")
        elif call.environ.get(variable, "").strip():
            source = variable
        elif name in POLICY and value == getattr(PRESETS[settings.preset], name):
            source = f"preset {settings.preset}"
        else:
            source = "settings file"
        yield Setting(name=name, value=describe_value(value), source=source)


class SendingCheck(Value):
    """How far a store was sent on, and what keeps it from going."""

    server: str
    messages_waiting: int
    bytes_waiting: int
    pins_waiting: int
    state: str
    problems: tuple[str, ...] = ()


def look_at_sending(settings: Settings, environ: Mapping[str, str]) -> SendingCheck | None:
    """A look at what waits to be sent; None where nothing is sent."""
    outbox = Outbox(settings.home)
    target = outbox.read() if settings.store is None else None
    if target is None:
        return None
    waiting = outbox.count_waiting(target, SystemClock().now())
    size = f"{waiting.bytes / 1e6:,.1f} MB"
    waits = [f"{plural(waiting.messages, 'message')} ({size})"] if waiting.messages else []
    waits += [plural(waiting.pins, "pin")] if waiting.pins else []
    what = f"{' and '.join(waits)} wait" if waits else "all sent"
    whose = "" if target.project is None else f" of {target.project}"
    last = f", the last at {target.done[:16]}Z" if target.done else ", none so far"
    problems = list(target.refused)
    if waiting.is_too_much:
        problems.append(
            f"{size} wait for {target.server}, over {MOST_WAITING // 10**6} MB; the store keeps "
            "them and nothing is lost, but see why they do not go: mcp-compaction team send"
        )
    if target.trouble and waits:
        problems.append(f"nothing goes to the team's server: {target.trouble}")
    elif target.trouble:
        problems.append(f"the team's server: {target.trouble}")
    elif waits and not environ.get(TOKEN):
        problems.append(f"{TOKEN} is not set here; set it where hosts are started")
    return SendingCheck(
        server=target.server,
        messages_waiting=waiting.messages,
        bytes_waiting=waiting.bytes,
        pins_waiting=waiting.pins,
        state=f"{target.server}: {what}{whose}{last}",
        problems=tuple(problems),
    )
