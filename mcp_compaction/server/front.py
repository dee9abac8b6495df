"""Answers what every host asks first, from answers written down beforehand, without the SDK.

Hosts ask a server for its tools while they start, and some do not wait: what comes late is missing
from the first request, or changes it afterwards. The SDK takes most of a second to load.
Standard library only. `first_answers/` has the answers and `writing.py` writes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

OUT_OF_ORDER = "Out of order until a setting is mended; tell the user: "

FOLDER = Path(__file__).with_name("first_answers")

HANDSHAKE = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
NEWEST_HANDSHAKE = "2025-11-25"
MODERN = "2026-07-28"

_VERSION = "io.modelcontextprotocol/protocolVersion"
_CLIENT = "io.modelcontextprotocol/clientInfo"
_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
# Their hooks call with the first prompt, and the user waits for them.
_CALLS_SOON = frozenset({"codex-mcp-client"})
_HOOK = "host_event"
_LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_CHANGES = {"toolsListChanged", "promptsListChanged", "resourcesListChanged"}
_NOTHING = {"content": [{"type": "text", "text": "{}"}], "isError": False}  # as a hook hears it
_LONGEST = 65_536  # bytes; what a host asks first is short

Era = Literal["legacy", "modern"]
Answers = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Taken:
    """What is done with a line: the reply to send, and whether the SDK is to read it, and now."""

    reply: str | None = None
    is_passed_on: bool = True
    is_urgent: bool = True


FOR_SDK = Taken()


def file_of(only_core: bool, by_agent: bool) -> Path:
    """The file with the answers of one set of tools."""
    return FOLDER / f"{'core' if only_core else 'all'}-{'agent' if by_agent else 'system'}.json"


class Front:
    """Knows the answers of one set of tools, and in which era a host has opened.

    The first request goes to the SDK as well, which so learns of the client and of the era; its
    own answer to that one is for nobody. So do the hooks with which a new chat begins: `has_pins`
    tells whether they would have to be told anything. `quiet` names the events whose hooks hear
    nothing before the SDK is there: commands of ours show the pins at a start, and record the end.
    """

    def __init__(
        self,
        answers: Mapping[Era, Answers],
        has_pins: Callable[[], bool] = lambda: True,
        quiet: Container[str] = (),
    ) -> None:
        self._answers = answers
        self._has_pins = has_pins
        self._quiet = quiet
        self._era: Era | None = None
        self._is_over = False
        self._is_new_chat = False  # in a project without pins
        self._unheard: list[object] = []

    def is_for_nobody(self, id: object) -> bool:
        """Whether what the SDK first says to that request is for nobody."""
        if id not in self._unheard:
            return False
        self._unheard.remove(id)
        return True

    def take(self, line: str, is_cold: bool = True) -> Taken:
        """Answer a line where its answer is known; all else is for the SDK.

        `is_cold`: the SDK is not there yet.
        """
        if self._is_over:
            return FOR_SDK
        read: object = json.loads(line) if len(line) <= _LONGEST else None
        fields = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
        if "method" in fields and "id" not in fields:  # a notification needs no answer
            return Taken(is_urgent=fields["method"] != "notifications/initialized")
        era = _era_of(fields)
        if is_cold and era is not None and era == self._era:
            taken = self._take_call(era, fields)
            if taken is not None:
                return taken
        method = str(fields.get("method"))
        known = self._answers[era].get(method) if era and _asks_plainly(fields) else None
        is_again = method == "initialize" and self._era is not None
        if known is None or is_again or (self._era or era) != era:
            self._is_over = self._era is None  # whatever opens it is the SDK's to judge
            return FOR_SDK
        is_urgent = False
        if method == "initialize":
            known = {**known, "protocolVersion": _negotiate(fields["params"])}
            is_urgent = fields["params"]["clientInfo"]["name"] in _CALLS_SOON
        is_opening = self._era is None
        if is_opening:
            self._era = era
            self._unheard.append(fields["id"])
        return Taken(_reply(fields["id"], known), is_opening, is_urgent)

    def _take_call(self, era: Era, fields: Mapping[str, Any]) -> Taken | None:
        """Answer a hook that has nothing to hear, and the wish to hear of changes."""
        if era == "modern" and (wished := _read_wishes(fields)):
            self._unheard.append(fields["id"])
            return Taken(_acknowledge(fields["id"], wished), is_urgent=False)
        event = _read_event(fields)
        if str(event.get("event")) in self._quiet:
            # What it might have been told is looked for again at the next event.
            return Taken(self._say_nothing(era, fields["id"]), is_passed_on=False, is_urgent=False)
        if self._begins_without_pins(event):
            self._unheard.append(fields["id"])
            return Taken(self._say_nothing(era, fields["id"]))
        return None

    def _say_nothing(self, era: Era, id: object) -> str:
        """The answer by which a hook hears that there is nothing to tell."""
        listed = self._answers[era]["tools/list"]
        of_era = {name: listed[name] for name in ("resultType", "_meta") if name in listed}
        return _reply(id, {**_NOTHING, **of_era})

    def _begins_without_pins(self, event: Mapping[str, Any]) -> bool:
        """Whether a hook tells of a new chat, or of its first prompt, and has nothing to hear."""
        if event.get("event") == "SessionStart":
            self._is_new_chat = event.get("source") == "startup" and not self._has_pins()
            return self._is_new_chat
        return event.get("event") == "UserPromptSubmit" and self._is_new_chat


def _read_event(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What a hook tells; empty where a request is no call of a hook."""
    params: object = fields.get("params")
    if fields.get("method") != "tools/call" or not isinstance(params, dict):
        return {}
    call = cast("dict[str, Any]", params)
    told: object = call.get("arguments")
    is_hook = call.get("name") == _HOOK and isinstance(told, dict)
    return cast("dict[str, Any]", told) if is_hook else {}


def _read_wishes(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The changes that a host wishes to hear of; empty where it asks something else, or more."""
    if fields.get("method") != _LISTEN:
        return {}
    params = cast("dict[str, Any]", fields["params"])
    told: object = params.get("notifications")
    wished = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
    is_plain = params.keys() == {"_meta", "notifications"} and wished.keys() <= _CHANGES
    return wished if is_plain and all(one is True for one in wished.values()) else {}


def _acknowledge(id: object, wished: Mapping[str, Any]) -> str:
    params = {"_meta": {SUBSCRIPTION: id}, "notifications": wished}
    return json.dumps({"jsonrpc": "2.0", "method": ACKNOWLEDGED, "params": params})


def _reply(id: object, result: Mapping[str, Any]) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": result}, ensure_ascii=False)


def read_front(
    only_core: bool,
    by_agent: bool,
    fault: str = "",
    has_pins: Callable[[], bool] = lambda: True,
    quiet: Container[str] = (),
) -> Front:
    """A front for that set of tools; `fault`: what is wrong with the settings, told at once."""
    answers: dict[Era, dict[str, dict[str, Any]]] = json.loads(
        file_of(only_core, by_agent).read_bytes()
    )
    if fault:
        for opening in (answers["legacy"]["initialize"], answers["modern"]["server/discover"]):
            opening["instructions"] = f"{OUT_OF_ORDER}{fault}"
    return Front(answers, has_pins, quiet)


def _era_of(fields: Mapping[str, Any]) -> Era | None:
    """The era in which a request is asked; None: something about it is for the SDK to judge."""
    params: object = fields.get("params") or {}
    if not isinstance(params, dict):
        return None
    asked = cast("dict[str, Any]", params)
    meta: object = asked.get("_meta") or {}
    if not isinstance(meta, dict):
        return None
    if fields.get("method") == "initialize":
        return "legacy" if _is_greeting(asked) and _VERSION not in meta else None
    envelope = cast("dict[str, Any]", meta)
    if _VERSION not in envelope:
        return "legacy"
    is_whole = envelope[_VERSION] == MODERN and isinstance(envelope.get(_CAPABILITIES), dict)
    return "modern" if is_whole and _is_client(envelope.get(_CLIENT, _NOBODY)) else None


def _asks_plainly(fields: Mapping[str, Any]) -> bool:
    """Whether a request says no more than what it asks for; a greeting says who asks."""
    told = cast("dict[str, Any]", fields.get("params") or {})
    return fields.get("method") == "initialize" or told.keys() <= {"_meta"}


_NOBODY = {"name": "", "version": ""}  # a client of the modern era need not say who it is


def _is_greeting(params: Mapping[str, Any]) -> bool:
    return (
        isinstance(params.get("protocolVersion"), str)
        and isinstance(params.get("capabilities"), dict)
        and _is_client(params.get("clientInfo"))
    )


def _is_client(told: object) -> bool:
    if not isinstance(told, dict):
        return False
    client = cast("dict[str, Any]", told)
    return all(isinstance(client.get(name), str) for name in ("name", "version"))


def _negotiate(params: Mapping[str, Any]) -> str:
    asked = str(params["protocolVersion"])
    return asked if asked in HANDSHAKE else NEWEST_HANDSHAKE
