"""What the package says about itself agrees everywhere and is what registries accept."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from mcp_compaction.lexicon.host_texts import own_tools

ROOT = Path(__file__).parents[1]
MARKETPLACE = ROOT / "mcp_compaction/hosts/claude_code/marketplace"
PLUGIN = MARKETPLACE / "mcp-compaction"

# The rules of the registry's 2025-12-11 schema for what this server publishes, restated.
Specific = Annotated[str, StringConstraints(pattern=r"^\d[\w.+-]*$", max_length=255)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Variable(Strict):
    name: str
    description: str = ""
    isRequired: bool = False
    isSecret: bool = False
    format: Literal["string", "number", "boolean", "filepath"] = "string"
    default: str = ""
    choices: list[str] = []


class Stdio(Strict):
    type: Literal["stdio"]


class Package(Strict):
    registryType: Literal["npm", "pypi", "oci", "nuget", "mcpb", "cargo"]
    identifier: str
    version: Specific
    transport: Stdio
    runtimeHint: str = ""
    environmentVariables: list[Variable] = []


class Repository(Strict):
    url: Annotated[str, StringConstraints(pattern=r"^https://")]
    source: Literal["github", "gitlab"]


class Icon(Strict):
    src: Annotated[str, StringConstraints(pattern=r"^https://", max_length=255)]
    mimeType: Literal["image/png", "image/jpeg", "image/jpg", "image/svg+xml", "image/webp"]
    sizes: list[Annotated[str, StringConstraints(pattern=r"^(\d+x\d+|any)$")]]


class ServerDetail(Strict):
    schema_: Literal[
        "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
    ] = Field(alias="$schema")
    name: Annotated[
        str,
        StringConstraints(
            pattern=r"^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$", min_length=3, max_length=200
        ),
    ]
    title: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    description: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    version: Specific
    repository: Repository
    websiteUrl: Annotated[str, StringConstraints(pattern=r"^https://")]
    icons: list[Icon]
    packages: list[Package]


def server_json() -> dict[str, Any]:
    return json.loads((ROOT / "server.json").read_text(encoding="utf-8"))


def test_server_json_is_what_the_registry_accepts() -> None:
    ServerDetail.model_validate(server_json())


@pytest.mark.parametrize(
    "fault",
    [
        {"description": "x" * 101},
        {"version": "^1.2.3"},
        {"name": "no-slash"},
        {"packages": [{"registryType": "pypi", "identifier": "x", "version": "latest"}]},
        {"surprise": True},
    ],
)
def test_the_check_of_server_json_can_fail(fault: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ServerDetail.model_validate(server_json() | fault)


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    released = re.search(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert released is not None
    server = server_json()
    numbers = {
        project["version"],
        released.group(1),
        server["version"],
        server["packages"][0]["version"],
        json.loads((PLUGIN / ".claude-plugin/plugin.json").read_text("utf-8"))["version"],
        version("mcp-compaction"),
    }
    assert len(numbers) == 1


def test_the_readme_ties_the_package_to_its_registry_name_and_gives_both_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"mcp-name: {server_json()['name']}" in readme
    assert "\npip install -e . && mcp-compaction demo\n" in readme
    assert '\npip install -e ".[dev]" && pytest\n' in readme


@pytest.mark.parametrize("place", [ROOT, MARKETPLACE])
def test_a_marketplace_names_the_plugin_where_it_is(place: Path) -> None:
    told = json.loads((place / ".claude-plugin/marketplace.json").read_text(encoding="utf-8"))
    (plugin,) = told["plugins"]
    assert (place / plugin["source"]).resolve() == PLUGIN
    manifest = json.loads((PLUGIN / ".claude-plugin/plugin.json").read_text(encoding="utf-8"))
    assert (plugin["name"], plugin["description"]) == (manifest["name"], manifest["description"])


def test_the_plugin_folder_can_stand_alone() -> None:
    """It needs no build step: its modules are there, and its licence is the package's."""
    for module in json.loads((PLUGIN / "hooks/hooks.json").read_text("utf-8"))["modules"]:
        assert (PLUGIN / "hooks" / module).is_file()
    assert (PLUGIN / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    server = json.loads((PLUGIN / ".mcp.json").read_text("utf-8"))["mcpServers"]["compaction"]
    assert (server["command"], server["args"]) == ("mcp-compaction", ["serve"])
    skill = (PLUGIN / "skills/context/SKILL.md").read_text("utf-8")
    for tool in own_tools("core"):
        assert f"`{tool}`" in skill


def test_the_tree_in_contributing_names_every_module_folder() -> None:
    tree = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    package = ROOT / "mcp_compaction"
    rooms = [*package.iterdir(), *(package / "core").iterdir(), *(package / "cli").iterdir()]
    for entry in rooms:
        if entry.name.startswith("_") or entry.name == "py.typed":
            continue
        name = f"{entry.name}/" if entry.is_dir() else entry.name
        assert name in tree, f"CONTRIBUTING.md does not name {name}"


def test_every_file_that_contributing_sends_to_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.(?:py|toml|md))?)`", text)
    assert len(named) > 20
    for path in named:
        places = (ROOT / path, ROOT / "mcp_compaction" / path)
        assert any(place.exists() for place in places), f"there is no {path}"
