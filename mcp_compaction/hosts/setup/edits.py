"""The texts of a host's files with our entries in them, and without them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_compaction.errors import InputError
from mcp_compaction.hosts.setup import json_text, toml_text
from mcp_compaction.hosts.setup.entries import Entry, find_ours, is_ours, server_places
from mcp_compaction.hosts.setup.hosts import Held, HostSetup
from mcp_compaction.hosts.transcripts.pieces import value_at

_EMPTY_JSON = "{}\n"


def parse_file(host: HostSetup, text: str, name: str) -> Any:
    """The values that a file of a host holds, read as strictly as the host does."""
    try:
        if name.endswith(".toml"):
            return toml_text.parse(text)
        return json_text.parse(
            text if text.strip() else _EMPTY_JSON, allow_comments=host.has_comments
        ).data
    except (json_text.UnreadableJson, toml_text.UnreadableToml) as error:
        raise InputError(f"{name} cannot be read as {host.title} reads it: {error}") from None


def put_in(
    host: HostSetup, holds: Sequence[Held], wanted: list[Entry], text: str, name: str
) -> str:
    """The text with what is wanted in it; what of ours is out of date gives way."""
    data = parse_file(host, text, name)
    for at in server_places(host) if "server" in holds else ():
        there: Any = value_at(data, at)
        if there is not None and not is_ours(there):
            place = ".".join(map(str, at))
            raise InputError(f"{name} has a server of another program at {place}; rename that one")
    if name.endswith(".toml"):
        return _put_table_in(host, wanted, text, data)
    return _put_entries_in(host, holds, wanted, text if text.strip() else _EMPTY_JSON, name)


def _put_table_in(host: HostSetup, wanted: list[Entry], text: str, data: Any) -> str:
    tables = {entry.at: entry.value for entry in wanted}
    for at in server_places(host):
        table = tables.get(at)
        if value_at(data, at) == table:
            continue
        names = [str(name) for name in at]
        text = toml_text.remove_table(text, names, tag_of(host))
        if table is not None:
            try:
                text = toml_text.insert_table(text, names, table, tag_of(host))
            except toml_text.UnreadableToml as error:
                raise InputError(f"the server cannot be added: {error}") from None
    return text


def _put_entries_in(
    host: HostSetup, holds: Sequence[Held], wanted: list[Entry], text: str, name: str
) -> str:
    text = _remove_outdated(host, holds, wanted, text)
    for entry in wanted:
        data = json_text.parse(text).data
        is_item = entry.at[-1] == -1
        place: Any = value_at(data, entry.at[:-1] if is_item else entry.at)
        if is_item and isinstance(place, list) and entry.value in place:
            continue
        if not is_item and place is not None:
            continue  # the user's own word on it
        try:
            text = json_text.insert(text, entry.at, entry.value)
        except ValueError:
            if entry.at[0] in {permission.at[0] for permission in host.permission}:
                continue  # permissions of another kind, such as one word for all tools
            where = ".".join(str(key) for key in entry.at if key != -1)
            raise InputError(
                f"{name} has something else at {where}, so that nothing fits"
            ) from None
    return text


def _remove_outdated(host: HostSetup, holds: Sequence[Held], wanted: list[Entry], text: str) -> str:
    values = [entry.value for entry in wanted]
    while True:
        data = json_text.parse(text).data
        ours = find_ours(host, holds, data)
        outdated = [at for at in ours if not _may_stay(value_at(data, at), values)]
        if not outdated:
            return text
        text = json_text.remove(text, outdated[-1])


def _may_stay(value: Any, wanted: list[Any]) -> bool:
    return value in wanted or value is False  # by which the user has switched a plugin off


def take_out(
    host: HostSetup, holds: Sequence[Held], text: str, name: str, base: str | None
) -> str | None:
    """The text without what is ours; None where nothing is left of a file that we have made.

    `base` is the file as it was before: what was empty or allowed there stays so.
    """
    before = _try_to_parse(host, base, name)
    data = parse_file(host, text, name)
    if name.endswith(".toml"):
        for at in find_ours(host, holds, data):
            text = toml_text.remove_table(text, [str(name) for name in at], tag_of(host))
        return text if base is not None or text.strip() else None
    if not text.strip():
        return text
    text = _take_entries_out(host, holds, text, before)
    has_more = text.strip("\ufeff \t\r\n") != "{}" or (base or "").strip()
    return text if has_more else base


def _take_entries_out(host: HostSetup, holds: Sequence[Held], text: str, before: Any) -> str:
    stays = [_identify(before, at) for at in find_ours(host, ["permissions"], before)]
    while True:
        data = json_text.parse(text).data
        ours = [at for at in find_ours(host, holds, data) if _identify(data, at) not in stays]
        if not ours:
            return text
        at = ours[-1]
        while len(at) > 1 and len(value_at(data, at[:-1])) == 1 and not _has(before, at[:-1]):
            at = at[:-1]
        text = json_text.remove(text, at)


def _identify(data: Any, at: json_text.Path) -> tuple[json_text.Path, Any]:
    """What is known of an entry whatever its number in a list."""
    return at[:-1] if isinstance(at[-1], int) else at, value_at(data, at)


def _has(before: Any, at: json_text.Path) -> bool:
    return value_at(before, at) is not None


def _try_to_parse(host: HostSetup, base: str | None, name: str) -> Any:
    try:
        return parse_file(host, base or "", name)
    except InputError:
        return {}


def tag_of(host: HostSetup) -> str:
    """The comment above our table."""
    return f"Written by: mcp-compaction install {host.name}"
