"""A line of a host with an odd value anywhere is read, left out or refused, and breaks nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction.errors import MalformedMessage
from mcp_compaction.formats.foreign import FOREIGN
from mcp_compaction.hosts import finding
from mcp_compaction.hosts.transcripts import own_export
from mcp_compaction.hosts.transcripts.files import LineFormat
from tests.hosts.given_hosts import REAL

FORMATS: tuple[LineFormat, ...] = tuple(finding.line_formats().values())
CHAT = Path("/chats/5a1c.jsonl")
ODD: tuple[Any, ...] = (None, True, -1, 1e300, "", "x", "user", [], [[{}]], {}, {"type": []})


def lines_of(form: LineFormat) -> list[Any]:
    """The lines that a host wrote; an export has those of any host's messages."""
    folder = REAL if form is own_export else REAL / form.NAME
    files = sorted(folder.rglob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each place in a value: what holds it, and its key or number."""
    keys: Any = tuple(value) if hasattr(value, "keys") else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places_in(value[key])


def test_every_format_goes_by_the_name_that_a_file_of_it_is_given() -> None:
    assert finding.line_formats().keys() <= {foreign.name for foreign in FOREIGN}


@pytest.mark.thorough
@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.NAME)
def test_an_odd_value_at_any_place_breaks_nothing(form: LineFormat) -> None:
    shapes: set[str] = set()
    for line in lines_of(form):
        odd_line = deepcopy(line)
        for number, (holder, key) in enumerate(places_in(odd_line)):
            shape = f"{line.get('type')} {number} {key}"
            if shape in shapes:
                continue
            shapes.add(shape)
            kept = holder[key]
            for odd in ODD:
                holder[key] = odd
                with suppress(MalformedMessage):
                    told = form.read_line(odd_line, json.dumps(odd_line).encode(), 7, CHAT)
                    assert all(message.host_id for message in told.messages)
                form.chat_of(iter([odd_line]), CHAT)
            holder[key] = kept
    assert len(shapes) > 10
