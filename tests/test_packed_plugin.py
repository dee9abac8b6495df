"""The plugin with its own wheel says what it needs; a PATH of a few programs stands for a machine.

No network is used: a Python whose pip fails stands for one that fetches nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from packages.write import PACKAGES, PLUGIN

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the script is one for sh")

FIRST: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {}}
PLAIN = ("cat", "cp", "ln", "mkdir", "rm", "sed", "sh", "sleep")


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A plugin as it is packed, with a wheel that needs a package that is nowhere."""
    folder = tmp_path / "plugin"
    (folder / "wheel").mkdir(parents=True)
    shutil.copy(PACKAGES / "claude-code/start", folder)
    (folder / "wheel/needy-1.0-py3-none-any.whl").write_bytes(b"")
    (tmp_path / "bin").mkdir()
    for name in PLAIN:
        found = shutil.which(name)
        assert found
        (tmp_path / "bin" / name).symlink_to(found)
    return folder


def put_program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def start(plugin: Path, folder: Path | None = None, **environ: str) -> tuple[dict[str, Any], str]:
    """What a host reads of a server that could not start, and what stands on stderr."""
    own = {"PATH": str(plugin.parent / "bin"), "HOME": str(plugin.parent)}
    ran = subprocess.run(
        ["/bin/sh", str(plugin / "start"), "serve"],
        input=json.dumps(FIRST) + "\n",
        capture_output=True,
        text=True,
        env=own | environ,
        cwd=folder,
        check=False,
    )
    assert ran.returncode == 1
    return json.loads(ran.stdout), ran.stderr


def test_a_machine_without_uv_and_python_is_told_what_to_install(plugin: Path) -> None:
    said, complaint = start(plugin)
    assert said["id"] == 7
    assert "neither uv nor Python 3.11 or newer" in said["error"]["message"]
    assert said["error"]["message"] in complaint


def test_a_python_that_is_too_old_is_as_good_as_none(plugin: Path) -> None:
    put_program(plugin.parent / "bin", "python3", "exit 1")
    said, _ = start(plugin)
    assert "Python 3.11 or newer" in said["error"]["message"]


def test_a_machine_without_a_network_is_told_and_nothing_half_made_stays(plugin: Path) -> None:
    (plugin.parent / "false").symlink_to(shutil.which("false") or "")
    makes_one = f'mkdir -p "$4/bin"; ln -s {plugin.parent}/false "$4/bin/python"'
    tells = "echo no address for the name >&2"
    put_program(plugin.parent / "bin", "python3", f'[ "$2" = -c ] || {{ {tells}; {makes_one}; }}')
    said, complaint = start(plugin)
    assert "is there a network?" in said["error"]["message"]
    assert "no address for the name" in complaint
    left = sorted(one.name for one in plugin.iterdir())
    assert left == ["needy-1.0-py3-none-any.log", "start", "wheel"]


def test_what_a_host_began_to_set_up_is_made_whole_when_the_host_has_ended(plugin: Path) -> None:
    """It says something on the way, to nobody, and what a zip held is gone with the host."""
    os.mkfifo(plugin.parent / "gone")
    makes = 'mkdir -p "$5/bin"; ln -s "$(command -v started)" "$5/bin/mcp-compaction"'
    waits = f"read -r _ <{plugin.parent}/gone; echo fetching; echo fetching >&2"
    put_program(plugin.parent / "bin", "started", 'echo "started $*"')
    does = f'case $1 in venv) {waits}; {makes} ;; pip) [ -f "$6" ] ;; esac'
    put_program(plugin.parent / "bin", "uv", does)
    data = plugin.parent / "data"
    host = subprocess.Popen(
        ["/bin/sh", str(plugin / "start"), "serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": str(plugin.parent / "bin"), "COMPACTION_PLUGIN_DATA": str(data)},
    )
    assert host.stderr is not None
    assert "is set up once" in host.stderr.readline()
    for end in (host.stdin, host.stdout, host.stderr):
        assert end is not None
        end.close()
    with (plugin.parent / "gone").open("w") as told:  # once the setting up reads there
        shutil.rmtree(plugin)
        told.write("now\n")
    host.wait()
    assert (data / "needy-1.0-py3-none-any/bin/mcp-compaction").exists()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A stranger's repository, in which every file that a start could run notes that it was run."""
    folder = tmp_path / "repository"
    noting = f"open({str(tmp_path / 'ran')!r}, 'a').write(__file__ + chr(10))\n"
    for name in (*HOSTILE, "encodings/__init__"):
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(noting, encoding="utf-8")
    (folder / "bin").mkdir()
    for name in (*PLAIN, *("basename", "dirname", "grep", "python3.14", "uv", "mcp-compaction")):
        put_program(folder / "bin", name, f'echo "$0" >>{tmp_path}/ran; exit 1')
    return folder


HOSTILE = ("ensurepip", "pip", "venv", "json", "subprocess", "sitecustomize", "usercustomize")


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {
            "PYTHONPATH": ":.",
            "PYTHONHOME": ".",
            "PYTHONSTARTUP": "json.py",
            "COMPACTION_PLUGIN_DATA": "${CLAUDE_PLUGIN_DATA}",  # of a host that does not know it
        },
    ],
    ids=["bare", "with its variables"],
)
def test_nothing_of_the_folder_that_a_host_works_in_is_run(
    plugin: Path, repository: Path, environ: dict[str, str]
) -> None:
    python = Path(sys.executable).resolve()
    (plugin.parent / "bin" / "python3").symlink_to(python)
    theirs = repository / "${CLAUDE_PLUGIN_DATA}" / "needy-1.0-py3-none-any"
    theirs.mkdir(parents=True)
    (theirs / "bin").symlink_to(repository / "bin")
    path = f"bin:{plugin.parent}/bin"
    said, complaint = start(plugin, repository, PATH=path, **environ)
    assert "packages that are needed" in said["error"]["message"], complaint
    assert not (plugin.parent / "ran").exists()


def test_a_hook_of_the_plugin_runs_nothing_of_the_folder_either(
    plugin: Path, repository: Path
) -> None:
    (plugin.parent / "bin/grep").symlink_to(shutil.which("grep") or "")
    put_program(plugin.parent / "bin", "mcp-compaction", 'echo "ours $*"')
    rules = plugin.parent / "store/checks/rules.json"
    rules.parent.mkdir(parents=True)
    rules.write_text("{}")
    place = {"MCP_COMPACTION_HOME": str(plugin.parent / "store")}
    for event in EVENTS:
        assert run_event(event, plugin, repository, **place) == f"ours hook claude-code {event}\n"
    assert not (plugin.parent / "ran").exists()


EVENTS = ("SessionStart", "PreToolUse", "SessionEnd")


def run_event(event: str, plugin: Path, repository: Path, **more: str) -> str:
    """What the plugin's own hook for an event says, in a stranger's repository."""
    told = json.loads((PLUGIN / "hooks/hooks.json").read_text(encoding="utf-8"))
    command = told["hooks"][event][0]["hooks"][0]["command"]
    path = f"bin::.:{plugin.parent}/bin:bin"
    ran = subprocess.run(
        ["/bin/sh", "-c", command],
        capture_output=True,
        text=True,
        env={
            "HOME": str(plugin.parent),
            "PATH": path,
            "CLAUDE_PROJECT_DIR": str(repository),
            **more,
        },
        cwd=repository,
        check=True,
    )
    return ran.stdout


@pytest.mark.parametrize("event", EVENTS)
def test_beside_the_hooks_that_install_wrote_the_plugins_own_do_nothing(
    event: str, plugin: Path, repository: Path
) -> None:
    (plugin.parent / "bin/grep").symlink_to(shutil.which("grep") or "")
    put_program(plugin.parent / "bin", "mcp-compaction", 'echo "ours $*"')
    written = plugin.parent / ".claude/settings.json"
    written.parent.mkdir()
    written.write_text(json.dumps({"command": f"/bin/mcp-compaction hook claude-code {event}"}))
    assert run_event(event, plugin, repository) == ""


def test_uv_is_run_where_no_repository_says_what_it_fetches(plugin: Path, repository: Path) -> None:
    put_program(plugin.parent / "bin", "uv", f'echo "$PWD" >>{plugin.parent}/ran')
    start(plugin, repository)
    assert set((plugin.parent / "ran").read_text().splitlines()) == {str(plugin)}


def test_a_program_that_is_installed_already_is_started(plugin: Path) -> None:
    put_program(plugin.parent / "bin", "mcp-compaction", 'echo "started $*" >&2; exit 1')
    ran = subprocess.run(
        ["/bin/sh", str(plugin / "start"), "serve"],
        capture_output=True,
        text=True,
        env={"PATH": str(plugin.parent / "bin")},
        check=False,
    )
    assert ran.stderr == "started serve\n"


def test_the_packed_plugin_differs_from_the_plain_one_by_what_starts_the_server() -> None:
    plain = json.loads((PLUGIN / ".mcp.json").read_text(encoding="utf-8"))["mcpServers"]
    packed = json.loads((PACKAGES / "claude-code/.mcp.json").read_text(encoding="utf-8"))[
        "mcpServers"
    ]
    assert plain.keys() == packed.keys()
    assert plain["compaction"]["env"].items() <= packed["compaction"]["env"].items()
    assert packed["compaction"]["args"] == ["${CLAUDE_PLUGIN_ROOT}/start", "serve"]
