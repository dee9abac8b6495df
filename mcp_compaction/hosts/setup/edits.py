"""The texts of a host's files with our entries in them, and without them again; TOML is edited as
text: one table is added at the end or taken out, all else stays byte for byte.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from mcp_compaction.errors import InputError
from mcp_compaction.hosts.setup import json_text
from mcp_compaction.hosts.setup.entries import (
    Entry,
    Held,
    HostSetup,
    find_ours,
    runs_our_program,
    server_places,
    whose_prompt,
)
from mcp_compaction.hosts.transcripts.pieces import value_at

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\''
    r"|#[^\n]*|[^\"'#\[\]{}\n]+|.",
    re.DOTALL,
)
_HEADER = re.compile(
    r"[ \t]*\[\[?(?P<name>(?:\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'|[^\]\"'\n])+)\]\]?[^\n]*\n?"
)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")

_EMPTY_JSON = "{}\n"


class UnreadableToml(Exception):
    """The text is not TOML, or the table has no place in it; the reason is fit for a person."""


class _Table(NamedTuple):
    """A table as it stands in a text, from its header to the end of its last value."""

    names: tuple[str, ...]
    start: int
    end: int


def parse(text: str) -> dict[str, Any]:
    """The values that a text holds."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnreadableToml(str(error)) from None


def insert_table(text: str, path: Sequence[str], table: Mapping[str, Any], tag: str) -> str:
    """The text with a table at its end, below a comment that says whose it is."""
    newline = "\r\n" if "\r\n" in text else "\n"
    head = ".".join(map(_write_key, path))
    block = "\n".join([f"# {tag}", f"[{head}]", *_write_values(table)])
    if text:
        block = f"\n{block}" if text.endswith("\n") else f"\n\n{block}"
    is_ended = text.endswith("\n") or not text
    new = text + (block + "\n" * is_ended).replace("\n", newline)
    try:
        parse(new)
    except UnreadableToml:
        raise UnreadableToml(f"it has no place for the table [{head}]") from None
    return new


def remove_table(text: str, path: Sequence[str], tag: str) -> str:
    """The text without a table and the tables below it, as if they had never been inserted."""
    for table in reversed(_find_tables(text)):
        if table.names[: len(path)] == tuple(path):
            text = _cut(text, table, tag)
    return text


def insert_text(text: str, key: str, value: str, tag: str) -> str:
    """The text with a key of several lines before all else, below a comment that says whose it
    is."""
    newline = "\r\n" if "\r\n" in text else "\n"
    block = f"# {tag}\n{key} = '''\n{value}'''\n" + "\n" * bool(text)
    new = block.replace("\n", newline) + text
    if parse(new) != {**parse(text), key: value}:
        raise UnreadableToml(f"it has no place for {key}")
    return new


def remove_text(text: str, key: str, tag: str) -> str:
    """The text without a key that stands before all tables, as if it had never been inserted."""
    begin = re.search(rf"^{re.escape(key)}[ \t]*=[ \t]*", text, re.MULTILINE)
    value = _TOKEN.match(text, begin.end()) if begin else None
    if begin is None or value is None:
        raise UnreadableToml(f"{key} was not found")
    lines = _LINE.findall(text[: begin.start()])
    if lines and lines[-1].strip() == f"# {tag}":
        lines.pop()
    behind = text[value.end() :].lstrip(" \t")
    for _ in range(2):  # the end of its line, and the empty one behind it
        behind = behind.removeprefix("\r").removeprefix("\n")
    new = "".join(lines) + behind
    expected = {name: one for name, one in parse(text).items() if name != key}
    if parse(new) != expected:
        raise UnreadableToml(f"{key} cannot be taken out")
    return new


def _cut(text: str, table: _Table, tag: str) -> str:
    lines = _LINE.findall(text[: table.start])
    if lines and lines[-1].strip() == f"# {tag}":
        lines.pop()
    if lines and not lines[-1].strip():
        lines.pop()
    before = "".join(lines)
    if not text[: table.end].endswith("\n"):  # the end of a text without a last newline
        before = before.removesuffix("\n").removesuffix("\r")
    return before + text[table.end :]


def _find_tables(text: str) -> list[_Table]:
    """The tables of a text; comments and blank lines after a table's last value belong to none."""
    found: list[_Table] = []
    depth, at, begins_line = 0, 0, True
    while at < len(text):
        header = _HEADER.match(text, at) if begins_line and depth == 0 else None
        if header is not None:
            found.append(_Table(_names_of(header["name"]), at, header.end()))
            at = header.end()
            continue
        token = _TOKEN.match(text, at)
        assert token is not None  # the last alternative takes any sign
        word, at = token.group(), token.end()
        depth += (word in "[{") - (word in "]}")
        begins_line = word == "\n"
        if found and not word.isspace() and not word.startswith("#"):
            end = text.find("\n", at) + 1
            found[-1] = found[-1]._replace(end=end or len(text))
    return found


def _names_of(header: str) -> tuple[str, ...]:
    data: Any = tomllib.loads(f"[{header}]")
    names: list[str] = []
    while data:
        ((name, data),) = data.items()
        names.append(name)
    return tuple(names)


def _write_values(table: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[str]:
    for key, value in table.items():
        path = (*above, key)
        if isinstance(value, Mapping):
            yield from _write_values(cast("Mapping[str, Any]", value), path)
        else:
            yield f"{'.'.join(map(_write_key, path))} = {_write_value(value)}"


def _write_key(key: str) -> str:
    return key if _BARE_KEY.match(key) else _write_value(key)


def _write_value(value: Any) -> str:
    # JSON's strings, numbers, lists and words are TOML's too, but for one control sign.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def parse_file(host: HostSetup, text: str, name: str) -> Any:
    """The values that a file of a host holds, read as strictly as the host does."""
    try:
        if name.endswith(".toml"):
            return parse(text)
        return json_text.parse(
            text if text.strip() else _EMPTY_JSON, allow_comments=host.has_comments
        ).data
    except (json_text.UnreadableJson, UnreadableToml) as error:
        raise InputError(f"{name} cannot be read as {host.title} reads it: {error}") from None


def put_in(
    host: HostSetup, holds: Sequence[Held], wanted: list[Entry], text: str, name: str
) -> str:
    """The text with what is wanted in it; what of ours is out of date gives way."""
    data = parse_file(host, text, name)
    for at in server_places(host) if "server" in holds else ():
        there: Any = value_at(data, at)
        if there is not None and not runs_our_program(there):
            place = ".".join(map(str, at))
            raise InputError(f"{name} has a server of another program at {place}; rename that one")
    if name.endswith(".toml"):
        try:
            text = _put_prompt_in(host, wanted, text, data) if "prompt" in holds else text
        except UnreadableToml as error:
            raise InputError(f"the prompt cannot be set: {error}") from None
        return _put_table_in(host, wanted, text, data)
    return _put_entries_in(host, holds, wanted, text if text.strip() else _EMPTY_JSON, name)


def _put_prompt_in(host: HostSetup, wanted: list[Entry], text: str, data: Any) -> str:
    """The text with our prompt as it is wanted; one of the user's stays."""
    if host.prompt is None:
        return text
    key = host.prompt.at
    prompt = next((entry.value for entry in wanted if entry.at == (key,)), None)
    match whose_prompt(host, data):
        case "ours" if data[key] != prompt:
            text = remove_text(text, key, tag_of(host))
        case "ours" | "theirs":
            return text
        case "":
            pass
    return text if prompt is None else insert_text(text, key, prompt, tag_of(host))


def _put_table_in(host: HostSetup, wanted: list[Entry], text: str, data: Any) -> str:
    tables = {entry.at: entry.value for entry in wanted}
    for at in server_places(host):
        table = tables.get(at)
        if value_at(data, at) == table:
            continue
        names = [str(name) for name in at]
        text = remove_table(text, names, tag_of(host))
        if table is not None:
            try:
                text = insert_table(text, names, table, tag_of(host))
            except UnreadableToml as error:
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
            text = _take_out_of_toml(host, text, [str(name) for name in at], name)
        return text if base is not None or text.strip() else None
    if not text.strip():
        return text
    text = _take_entries_out(host, holds, text, before)
    has_more = text.strip("\ufeff \t\r\n") != "{}" or (base or "").strip()
    return text if has_more else base


def _take_out_of_toml(host: HostSetup, text: str, at: list[str], name: str) -> str:
    if host.prompt is None or at != [host.prompt.at]:
        return remove_table(text, at, tag_of(host))
    try:
        return remove_text(text, host.prompt.at, tag_of(host))
    except UnreadableToml as error:
        raise InputError(f"{name}: {error}; take it out by hand") from None


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


def _identify(data: Any, at: json_text.KeyPath) -> tuple[json_text.KeyPath, Any]:
    """The parts of an entry that stay the same whatever its number in a list."""
    return at[:-1] if isinstance(at[-1], int) else at, value_at(data, at)


def _has(before: Any, at: json_text.KeyPath) -> bool:
    return value_at(before, at) is not None


def _try_to_parse(host: HostSetup, base: str | None, name: str) -> Any:
    try:
        return parse_file(host, base or "", name)
    except InputError:
        return {}


def tag_of(host: HostSetup) -> str:
    """The comment above our table."""
    return f"Written by: mcp-compaction install {host.name}"
