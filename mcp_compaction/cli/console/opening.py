"""Opens what a command works on: the settings, the store, the project and the session; and tells
the outcome of a compaction or its undoing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from mcp_compaction import compactor
from mcp_compaction.cli.console.invocation import MOST_SESSIONS, Invocation
from mcp_compaction.cli.console.screen import Screen
from mcp_compaction.cli.console.wording import for_person
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import InputError, UnknownSession
from mcp_compaction.model import Outcome, Pin, SessionInfo, Traits
from mcp_compaction.ports import SessionKey
from mcp_compaction.projects import find_project
from mcp_compaction.settings import POLICY, Settings, load_settings
from mcp_compaction.store.connect import store_path
from mcp_compaction.wiring import open_workspace


@dataclass(frozen=True, slots=True)
class OpenedPlace:
    """A workspace as the settings want it, and where it is asked to look."""

    workspace: Workspace
    settings: Settings
    project: str
    name: str | None  # of the session, as it was typed

    async def session(self, *, by_title: bool = True) -> SessionInfo:
        """The session of that name or, but for what cannot be undone, with those words in its
        title; else the only one there is."""
        try:
            return await compactor.find_session(
                self.workspace, self.project, self.name, by_title=by_title
            )
        except UnknownSession as unknown:
            raise await self._look_elsewhere(unknown) from None

    async def _look_elsewhere(self, unknown: UnknownSession) -> UnknownSession:
        """Where a session may be that this project does not have; else what is known of it."""
        found = (
            None
            if self.name is None
            else await compactor.find_named(self.workspace, None, self.name)
        )
        if found is not None:
            return UnknownSession(
                f"no session {found.name} in {self.project}; it is one of another project: "
                f"pass --project {quote(found.project)}"
            )
        has_any = await compactor.list_sessions(self.workspace, self.project, 1)
        if has_any or not await compactor.list_sessions(self.workspace, None, 1):
            return unknown
        return UnknownSession(
            f"no session of {self.project} is recorded yet; "
            "see those of every project: mcp-compaction sessions --all"
        )

    async def open_session(
        self, traits: Traits | None = None, host: str = ""
    ) -> tuple[SessionInfo, bool]:
        """The session of that name, made where it is new; and whether it is."""
        return await compactor.open_session(
            self.workspace, SessionKey(project=self.project, name=self.name, host=host), traits
        )

    async def session_or_newest(self) -> SessionInfo:
        """The session of that name, or the newest, for commands about the whole project."""
        if self.name is None and (newest := await self._newest(1)):
            return newest[0]
        return await self.session()

    async def session_told(self, screen: Screen) -> SessionInfo:
        """The session of that name, or the newest, which is said where there are others."""
        info = await self.session_or_newest()
        if self.name is None and len(await self._newest(2)) > 1:
            title = f' "{info.title}"' if info.title else ""
            screen.say(screen.dim(f"the newest of this project, {info.name}{title}:"))
        return info

    async def _newest(self, number: int) -> tuple[SessionInfo, ...]:
        return await compactor.list_sessions(self.workspace, self.project, number)

    async def pins_in_force(self) -> dict[int, tuple[Pin, SessionInfo]]:
        """Each pin of the session that was named, or of all of the project, by its number, with a
        session it holds in."""
        if self.name is not None:
            sessions = (await self.session(),)
        else:
            sessions = await compactor.list_sessions(self.workspace, self.project, MOST_SESSIONS)
        found: dict[int, tuple[Pin, SessionInfo]] = {}
        for info in sessions:
            for pin in await self.workspace.pins(info):
                found.setdefault(pin.number, (pin, info))
        return dict(sorted(found.items()))


@asynccontextmanager
async def open_place(call: Invocation, *, makes_store: bool = False) -> AsyncGenerator[OpenedPlace]:
    """The place a command works at, closed at the end; only a few commands make a new store."""
    settings = settings_of(call)
    check_home(settings.home)
    if not makes_store and not has_store(settings):
        raise UnknownSession(
            f"nothing is recorded in {settings.home} yet; first run: mcp-compaction record FILE"
        )
    work = await open_workspace(settings)
    try:
        name: str | None = getattr(call.args, "session", None)
        yield OpenedPlace(work, settings, project_of(call, settings), name)
    finally:
        await work.store.close()


def settings_of(call: Invocation) -> Settings:
    """The settings in force for this run."""
    return load_settings(call.environ, flags_of(call))


def flags_of(call: Invocation) -> Mapping[str, object]:
    """The settings that were typed."""
    typed: Mapping[str, object] = vars(call.args)
    names = ("preset", *POLICY)
    flags = {name: typed[name] for name in names if typed.get(name) is not None}
    home: str | None = call.args.home
    return flags if home is None else {**flags, "home": Path(home).expanduser().absolute()}


def check_home(home: Path) -> None:
    """Refuse a folder for the store that is a file, or would have to be made inside one."""
    with suppress(PermissionError):  # opening the store says what may not be entered
        if file := next((path for path in (home, *home.parents) if path.is_file()), None):
            raise InputError(
                f"{file} is a file, and the store needs a folder; "
                "pass a folder to --home, or set MCP_COMPACTION_HOME to one."
            )


def has_store(settings: Settings) -> bool:
    """Whether a store is there already."""
    return settings.store is not None or store_path(settings.home).exists()


def project_of(call: Invocation, settings: Settings) -> str:
    """The project that is meant: as typed, as set, else the git top of the working directory."""
    typed: str | None = getattr(call.args, "project", None)
    return find_project(typed or settings.project)


def tell_outcome(call: Invocation, outcome: Outcome, info: SessionInfo) -> int:
    """Write the outcome, and answer with the code: 1 for what was refused or came to nothing."""
    if call.args.json:
        document = outcome.model_dump(mode="json")
        if outcome.kind == "compaction":  # a receipt is stored without what holds the window
            document["receipt"]["held_by"] = [list(held) for held in outcome.receipt.held_by]
        call.screen.write_json(document)
    else:
        from mcp_compaction.core.compaction.receipt import outcome_text  # most commands have none

        text = outcome_text(outcome, info.traits.mode, info.name)
        first, *rest = call.complete(for_person(text)).split("\n")
        call.screen.say("\n".join([call.screen.bold(first), *rest]))
    return 1 if outcome.kind in ("refusal", "failed") else 0
