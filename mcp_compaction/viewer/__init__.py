"""One local page that shows sessions: fill, compactions, pins, digests, receipts, the archive. It
is written to a file, or served to this machine's user: on loopback, facts only to who holds the
token.

The page itself holds nothing and is given to anybody; the facts are plain data, which nobody
changes by looking at them. A request by GET changes nothing; undo is a POST with the token in a
header, which another site's page cannot send.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, request_response
from starlette.types import Scope

from mcp_compaction import compactor
from mcp_compaction.compactor.grading import read_grade
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.compaction.grading import describe_grade
from mcp_compaction.core.compaction.ladder import shown_as
from mcp_compaction.core.compaction.receipt import outcome_text, receipt_text
from mcp_compaction.core.digest.render import words_of_item
from mcp_compaction.core.log.content import calls_by_id, texts_by_speaker
from mcp_compaction.core.text.words import one_line
from mcp_compaction.door import Door, bearer_of, is_secret, own_names, read_object, without_header
from mcp_compaction.errors import CompactionError, InputError
from mcp_compaction.model import Logged, Message, Receipt, SessionInfo

MOST_SESSIONS = 500
PAGE_OF_MESSAGES = 500
_BEGIN = 200  # characters of a message in a list
_MOST_POINTS = 300  # of a curve between two compactions

Facts = dict[str, Any]

_WHAT = {"compress": "compaction", "digest": "the agent's own digest"}  # else the reason says it

PAGE_FILES: Mapping[str, str] = MappingProxyType(
    {"index.html": "text/html", "app.js": "text/javascript", "style.css": "text/css"}
)
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_MOST_BODY = 2**14
_MOST_DIGITS = 18  # of a number that a store can hold
_CODE_SECONDS = 60.0
_TOKEN_PATH = "/api/token"

Handler = Callable[[Request], Awaitable[Response]]
Audit = Callable[[], Awaitable[dict[str, Any]]]


class _Moment(NamedTuple):
    at: datetime
    tokens: int
    compaction: str = ""


async def list_sessions(work: Workspace) -> list[Facts]:
    """The sessions of all projects, the newest first."""
    return [_session(info) for info in await compactor.list_sessions(work, None, MOST_SESSIONS)]


def _session(info: SessionInfo) -> Facts:
    return {
        "id": info.id,
        "name": info.name,
        "title": info.title,
        "project": info.project,
        "messages": info.messages,
        "updated": info.updated.isoformat(),
        "host": info.host or "",
        "model": info.traits.model or "",
    }


async def find_session(work: Workspace, number: int) -> SessionInfo:
    """The session of that id; LookupError where there is none."""
    every = await compactor.list_sessions(work, None, MOST_SESSIONS)
    found = next((info for info in every if info.id == number), None)
    if found is None:
        raise LookupError(number)
    return found


async def describe_session(work: Workspace, info: SessionInfo) -> Facts:
    """All of one session but its messages."""
    session, past = await work.load_with_past(info)
    fill = (await work.read_window(info)).fill
    receipts = await compactor.receipts(work, info)
    grade = await read_grade(work, session, past.events)
    now = _Moment(info.updated, min(fill.tokens, fill.view_tokens) if receipts else fill.tokens)
    curve = _curve_of(await work.store.history(info.id), receipts, now)
    return {
        **_session(info),
        "fill": {
            "tokens": fill.tokens,
            "percent": round(fill.percent, 1),
            "window": fill.window,
            "view": fill.view_tokens,
        },
        "curve": [[one.at.isoformat(), one.tokens, one.compaction] for one in curve],
        "pins": [
            {
                "ref": pin.ref,
                "kind": pin.kind,
                "by": pin.author,
                "scope": pin.scope,
                "at": pin.at.isoformat(),
                "text": pin.text,
            }
            for pin in await work.pins(info)
        ],
        "digests": [
            {
                "ref": digest.ref,
                "span": f"m{digest.first}..m{digest.last}",
                "author": digest.author,
                "sections": [
                    [name, [{"text": words_of_item(one), "refs": list(one.refs)} for one in items]]
                    for name, items in digest.sections
                ],
            }
            for digest in reversed(await work.store.digests(info.id))
        ],
        "grade": "" if grade is None else describe_grade(grade),
        "receipts": [
            {
                "ref": receipt.ref,
                "kind": receipt.kind,
                "what": _WHAT.get(receipt.kind, receipt.reason),
                "at": receipt.at.isoformat(),
                "before": receipt.before,
                "after": receipt.after,
                "freed": [[shown_as(rung), tokens] for rung, tokens in receipt.freed if tokens > 0],
                "text": receipt_text(receipt),
            }
            for receipt in reversed(receipts)
        ],
    }


async def list_messages(work: Workspace, info: SessionInfo, after: int) -> list[Facts]:
    """A page of the messages behind a number, each by its beginning."""
    page = await read_messages(work, info, after)
    return begins_of(page)


async def read_messages(work: Workspace, info: SessionInfo, after: int) -> list[Message]:
    """The messages behind a number, a page of them; those that were forgotten are not there."""
    try:
        found = await compactor.originals(work, info, f"m{after + 1}..m{after + PAGE_OF_MESSAGES}")
    except InputError:
        return []
    return [one.message for one in found]


def whole_text(message: Message) -> str:
    """All that a message says, with whose words it is where more than one speaks."""
    said = texts_by_speaker(message, {})
    return "\n".join(f"{who}:\n{text}" if len(said) > 1 else text for who, text in said)


def begins_of(messages: Sequence[Message]) -> list[Facts]:
    """Messages by their beginnings, each with whose words it holds."""
    begins: list[Facts] = []
    calls = calls_by_id(messages)
    for one in messages:
        role = ", ".join(dict(texts_by_speaker(one, calls)))
        text = one_line(whole_text(one)[: 4 * _BEGIN])
        shown = text if len(text) <= _BEGIN else f"{text[:_BEGIN]}…"
        begins.append({"ref": one.ref, "seq": one.seq, "role": role, "text": shown})
    return begins


def _curve_of(log: Sequence[Logged], receipts: Sequence[Receipt], now: _Moment) -> list[_Moment]:
    """The window's size as messages came and at each compaction, as the receipts have it."""
    said = sorted(_Moment(datetime.fromisoformat(one.at), one.tokens) for one in log)
    curve = [_Moment(said[0].at, 0)] if said else []
    for one in receipts:
        before = [message for message in said if message.at <= one.at]
        said = said[len(before) :]
        curve += _growth(curve[-1:], before, one.before)
        curve += [_Moment(one.at, one.before), _Moment(one.at, one.after, one.ref)]
    return [*curve, *_growth(curve[-1:], said, now.tokens), now]


def _growth(begun: Sequence[_Moment], said: Sequence[_Moment], end: int) -> Iterator[_Moment]:
    """How a window came to hold so much: each message has its share of what was added."""
    counted, every = 0, sum(message.tokens for message in said)
    step = max(1, len(said) // _MOST_POINTS)
    for number, message in enumerate(said):
        counted += message.tokens
        if number % step == 0 and every:
            grown = begun[0].tokens + (end - begun[0].tokens) * counted // every
            yield _Moment(message.at, grown)


def read_page(name: str) -> str:
    """A file of the page."""
    return files("mcp_compaction.viewer").joinpath("page", name).read_text(encoding="utf-8")


@dataclass(slots=True)
class PageKey:
    """The token of a page, and a code that is exchanged for it once.

    A browser is started with the code, since others may read its command line.
    """

    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    now: Callable[[], float] = time.monotonic
    _codes: dict[str, float] = field(default_factory=dict[str, float], repr=False)

    def make_code(self) -> str:
        """A code that opens the page once, within a minute."""
        code = secrets.token_urlsafe(24)
        self._codes[code] = self.now() + _CODE_SECONDS
        return code

    async def admit(self, scope: Scope) -> Scope | None:
        """A request with the token, or one for the token with a code; None without either."""
        given = bearer_of(scope)
        if is_secret(given, self.token) or (scope["path"] == _TOKEN_PATH and self._spend(given)):
            return without_header(scope, b"authorization")
        return None

    def _spend(self, given: str) -> bool:
        found = next((code for code in self._codes if is_secret(given, code)), None)
        return found is not None and self._codes.pop(found) >= self.now()


def build_app(work: Workspace, key: PageKey, port: int, audit: Audit) -> Starlette:
    """The application that serves the page and the facts of one store.

    `audit` tells what past compactions of hosts lost, when somebody asks for it.
    """
    api = _Api(work, key, audit)
    names = own_names(port, has_pages=True)

    def route(path: str, handle: Handler, method: str = "GET", *, is_open: bool = False) -> Route:
        admit = None if is_open else key.admit
        door = Door(request_response(handle), names, admit, None if is_open else _MOST_BODY)
        return Route(path, door, methods=[method])

    return Starlette(
        routes=[
            route("/", _serve_page, is_open=True),
            route("/{name:str}", _serve_page, is_open=True),
            route(_TOKEN_PATH, api.give_token, "POST"),
            route("/api/sessions", api.sessions),
            route("/api/session/{id}", api.session),
            route("/api/session/{id}/messages/{after}", api.messages),
            route("/api/session/{id}/message/{seq}", api.message),
            route("/api/session/{id}/search", api.search, "POST"),
            route("/api/session/{id}/undo", api.undo, "POST"),
            route("/api/audit", api.audit),
        ],
        exception_handlers={LookupError: _say_error, CompactionError: _say_error},
    )


async def _say_error(_: Request, error: Exception) -> Response:
    if isinstance(error, LookupError):
        return _plain("there is no such thing; load the page again.", 404)
    return _plain(str(error), 400)


async def _serve_page(request: Request) -> Response:
    name = request.path_params.get("name", "index.html")
    if name not in PAGE_FILES:
        return _plain("there is no such page; open the address as it was printed.", 404)
    return Response(read_page(name), media_type=PAGE_FILES[name], headers=HEADERS)


def _plain(text: str, status: int) -> Response:
    return PlainTextResponse(text, status, headers=HEADERS)


class _Api:
    """What the page may ask."""

    def __init__(self, work: Workspace, key: PageKey, audit: Audit) -> None:
        self._work = work
        self._key = key
        self._audit = audit

    async def audit(self, _: Request) -> Response:
        """What past compactions of hosts lost."""
        return _json(await self._audit())

    async def give_token(self, _: Request) -> Response:
        """The token, for who came with a code."""
        return _json({"token": self._key.token})

    async def sessions(self, _: Request) -> Response:
        """The sessions there are."""
        return _json(await list_sessions(self._work))

    async def session(self, request: Request) -> Response:
        """One session without its messages."""
        return _json(await describe_session(self._work, await self._info(request)))

    async def messages(self, request: Request) -> Response:
        """A page of messages."""
        after = _number_in(request, "after")
        return _json(await list_messages(self._work, await self._info(request), after))

    async def message(self, request: Request) -> Response:
        """One message, whole."""
        ref = f"m{_number_in(request, 'seq')}"
        (found,) = await compactor.originals(self._work, await self._info(request), ref)
        return _json({"text": whole_text(found.message)})

    async def search(self, request: Request) -> Response:
        """What the archive has; looking here is not counted as the agent's recall."""
        info = await self._info(request)
        words = str((await _body_of(request)).get("words") or "")
        found = await compactor.recall(
            self._work, None, words, scope="project", project=info.project
        )
        own = [hit for hit in found.hits if hit.session == info.name]
        return _json([{"ref": hit.ref, "role": hit.role, "text": hit.text} for hit in own])

    async def undo(self, request: Request) -> Response:
        """Go back to the view before a compaction."""
        info = await self._info(request)
        ref = str((await _body_of(request)).get("ref") or "")
        outcome = await compactor.restore(self._work, info, ref)
        return _json({"text": outcome_text(outcome, session=info.name)})

    async def _info(self, request: Request) -> SessionInfo:
        return await find_session(self._work, _number_in(request, "id"))


def _number_in(request: Request, name: str) -> int:
    text: str = request.path_params[name]
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise LookupError(text)
    return int(text)


def _json(told: Any) -> Response:
    return JSONResponse(told, headers=HEADERS)


async def _body_of(request: Request) -> dict[str, Any]:
    told = read_object(await request.body())
    if told is None:
        raise InputError("the request is no JSON object; load the page again.")
    return told


async def write_page(work: Workspace, info: SessionInfo) -> str:
    """The whole page of one session."""
    messages: list[Message] = []
    while page := await read_messages(work, info, messages[-1].seq if messages else 0):
        messages += page
    told = await describe_session(work, info)
    own = f"session/{info.id}"
    facts: Facts = {
        "sessions": [told],
        own: told,
        f"{own}/messages/0": begins_of(messages),
    }
    for message in messages:
        facts[f"{own}/message/{message.seq}"] = {"text": whole_text(message)}
    script, style = read_page("app.js"), read_page("style.css")
    # Within a script element only "<" could end it.
    data = json.dumps(facts, ensure_ascii=False).replace("<", "\\u003c")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    page = read_page("index.html").replace(
        '<meta charset="utf-8">', f'<meta charset="utf-8">\n{head}'
    )
    page = page.replace('<link rel="stylesheet" href="style.css">', f"<style>{style}</style>")
    stored = f'<script type="application/json" id="data">{data}</script>'
    return page.replace('<script src="app.js"></script>', f"{stored}\n<script>{script}</script>")
