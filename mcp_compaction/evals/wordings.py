"""Reads the wordings of rules, decisions, tasks and doubts that sessions are made of."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple


class Wordings(NamedTuple):
    """Ways to say one kind of thing: common ones, and ones no pattern is likely to know."""

    common: tuple[str, ...]
    apart: tuple[str, ...]


_FILE = Path(__file__).with_suffix(".toml")
_READ: dict[str, Any] = tomllib.loads(_FILE.read_text(encoding="utf-8"))


def _kinds(name: str) -> Wordings:
    return Wordings(tuple(_READ[name]["common"]), tuple(_READ[name]["apart"]))


def _list(name: str) -> tuple[str, ...]:
    return tuple(_READ[name])


RULES = _kinds("rules")
DECISIONS = _kinds("decisions")
REVERSALS = _kinds("reversals")
TASKS = _kinds("tasks")
DOUBTS = _kinds("doubts")
IDLE = _list("idle")  # What sounds like a rule and is none.
CHATTER = _list("chatter")  # What an agent says along the way and nobody will ask for.
REASONS = _list("reasons")
PEOPLE = _list("people")
TEAMS = _list("teams")
DATES = _list("dates")
