"""Where a user's settings are, and whether there are any: standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mcp_compaction.errors import SettingsError
from mcp_compaction.home import xdg_folder

PREFIX: Final = "MCP_COMPACTION_"
CONFIG: Final = "MCP_COMPACTION_CONFIG"
TOKEN: Final = "MCP_COMPACTION_TOKEN"
"""The variable with the token for a team's server; its value is written to no file and no argv."""

VIEWS: Final = "MCP_COMPACTION_VIEWS"
VIEW_SECONDS: Final = "MCP_COMPACTION_VIEW_TIMEOUT_SECONDS"
NO_SETTINGS: Final = (
    CONFIG,
    "MCP_COMPACTION_DEBUG",  # how the command line complains
    "MCP_COMPACTION_HOOK_SECONDS",  # how long a command of a host may hold it
    TOKEN,  # what a team's server knows this machine by
    VIEW_SECONDS,  # how long a plugin waits for a view, on a machine that is very busy
    VIEWS,  # the file in which a plugin looks for the view service's address
)


def settings_path(environ: Mapping[str, str], config_dir: Path | None = None) -> Path:
    """The file with the user's settings, which need not be there."""
    if named := environ.get(CONFIG):
        path = at_home(named, environ)
        if not path.is_absolute():
            raise SettingsError(f"{CONFIG} is {named!r}: write the whole path, from / on.")
        return path
    if config_dir is None:
        config_dir = xdg_folder(environ, "XDG_CONFIG_HOME", ".config")
    return config_dir / "config.toml"


def at_home(path: str, environ: Mapping[str, str]) -> Path:
    """A path whose ~ is the home folder of that environment."""
    home = environ.get("HOME")
    if home and (path == "~" or path.startswith("~/")):
        return Path(home, path[2:])
    return Path(path).expanduser()


def view_seconds(environ: Mapping[str, str]) -> float:
    """The longest a plugin waits for a view before it sends its own."""
    return float(environ.get(VIEW_SECONDS) or 0.3)


def given_settings(environ: Mapping[str, str]) -> dict[str, Any]:
    """What the user has set, by the names of settings and unchecked: variables before the file."""
    path, table = settings_path(environ), dict[str, Any]()
    if path.exists():
        import tomllib  # only who has settings waits for it

        table = tomllib.loads(path.read_text(encoding="utf-8"))
    said = {name: value for name, value in environ.items() if name.startswith(PREFIX)}
    return table | {
        name.removeprefix(PREFIX).lower(): value
        for name, value in said.items()
        if value.strip() and name not in NO_SETTINGS
    }


def has_settings(environ: Mapping[str, str]) -> bool:
    """Whether the user has set more than where the store is and which project is meant."""
    places = {f"{PREFIX}HOME", f"{PREFIX}PROJECT"}
    said = {name for name, value in environ.items() if name.startswith(PREFIX) and value.strip()}
    if CONFIG in said or said - places - set(NO_SETTINGS):
        return True
    try:
        return settings_path(environ).exists()
    except OSError:  # it may not be looked at
        return True
