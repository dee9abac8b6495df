"""What the server asks the user to run works as it stands, in the user's own terminal."""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from mcp_compaction.settings import load_settings
from mcp_compaction.tools.place import CallPlace
from tests.cli.conftest import Shell
from tests.server.talking import ERAS, Era, talk

pytestmark = pytest.mark.anyio

SCRIPT = Path(sys.executable).with_name("mcp-compaction")
RULE = "Never push to main; only the staging key."

both_eras = pytest.mark.parametrize("era", ERAS)


def run_as_user(said: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the command at the end of an answer prints to a user in another folder."""
    program, *words = shlex.split(said.split("run: ")[1])
    assert program == str(SCRIPT)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    monkeypatch.chdir(elsewhere)
    user = Shell(folder).as_user().with_environ({"MCP_COMPACTION_PROJECT": ""})
    ran = user.bare(*[RULE if word == "TEXT" else word for word in words])
    assert (ran.code, ran.err) == (0, "")
    return ran.out


async def refused(folder: Path, era: Era, tool: str, **arguments: str) -> str:
    """What an agent is told whose call needs the user."""
    async with talk(folder, era, project=str(folder / "shop")) as chat:
        messages = [{"role": "user", "content": RULE}]
        await chat.say("record_messages", messages=messages, session="other")
        await chat.say("record_messages", messages=messages, session="tax 1")
        return await chat.fail(tool, **arguments, session="tax 1")


@both_eras
def test_a_users_pin_of_one_session_is_released_by_the_command_as_printed(
    tmp_path: Path, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ("--project", str(tmp_path / "shop"), "--session", "tax 1")
    Shell(tmp_path).as_user().done("pin", RULE, "--scope", "session", *place)
    said = asyncio.run(refused(tmp_path, era, "unpin_constraint", ref="p1"))
    assert re.search(r"unpin --home \S+ --project \S+ --session 'tax 1' p1$", said)
    assert run_as_user(said, tmp_path, monkeypatch) == f"p1 released: {RULE}\n"


def test_the_commands_of_a_teams_server_name_no_folder_of_its_machine(tmp_path: Path) -> None:
    told = {"MCP_COMPACTION_HOME": str(tmp_path / "elsewhere")}
    for store, has_home in (("", True), ("postgresql://box.lan/team", False)):
        environ = {**told, "MCP_COMPACTION_STORE": store} if store else told
        place = SimpleNamespace(settings=load_settings(environ), project="shop", environ={})
        told_user = "only the user can: mcp-compaction unpin p1"
        said = CallPlace.complete_commands(cast("CallPlace", place), told_user, None)
        assert ("--home" in said) is has_home, said
