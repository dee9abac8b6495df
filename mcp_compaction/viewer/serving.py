"""Serves the page to this machine's user: on loopback, facts only to who holds the token.

The page itself holds nothing and is given to anybody. A request by GET changes nothing; undo is a
POST with the token in a header, which another site's page cannot send.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Any, cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from mcp_compaction.compactor import Compactor
from mcp_compaction.connections import TOO_MANY, may_stay
from mcp_compaction.core.compaction.receipt.text import outcome_text
from mcp_compaction.errors import CompactionError, InputError
from mcp_compaction.model import SessionInfo
from mcp_compaction.viewer.facts import (
    describe_session,
    find_session,
    list_messages,
    list_sessions,
    whole_text,
)

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
_LOOPBACK = re.compile(r"(?:127\.0\.0\.1|localhost)(?::\d+)?")
_MOST_BODY = 2**14

Handler = Callable[[Request], Awaitable[Response]]
Audit = Callable[[], Awaitable[dict[str, Any]]]


def read_page(name: str) -> str:
    """A file of the page."""
    return files("mcp_compaction.viewer").joinpath("page", name).read_text(encoding="utf-8")


def build_app(compactor: Compactor, token: str, audit: Audit) -> Starlette:
    """The application that serves the page and the facts of one store.

    `audit` tells what past compactions of hosts lost, when somebody asks for it.
    """
    api = _Api(compactor, audit)

    def guarded(handle: Handler) -> Handler:
        async def answer(request: Request) -> Response:
            given = request.headers.get("authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(given.encode(), token.encode()):
                return _plain("the token is missing; open the page by the command.", 401)
            if not may_stay(request.scope):
                return _plain(TOO_MANY, 503)
            try:
                return await handle(request)
            except LookupError:
                return _plain("there is no such thing; load the page again.", 404)
            except CompactionError as error:
                return _plain(str(error), 400)

        return _of_this_machine(answer)

    routes = [
        Route("/", _of_this_machine(_serve_page)),
        Route("/{name:str}", _of_this_machine(_serve_page)),
        Route("/api/sessions", guarded(api.sessions)),
        Route("/api/session/{id:int}", guarded(api.session)),
        Route("/api/session/{id:int}/messages/{after:int}", guarded(api.messages)),
        Route("/api/session/{id:int}/message/{seq:int}", guarded(api.message)),
        Route("/api/session/{id:int}/search", guarded(api.search), methods=["POST"]),
        Route("/api/session/{id:int}/undo", guarded(api.undo), methods=["POST"]),
        Route("/api/audit", guarded(api.audit)),
    ]
    return Starlette(routes=routes)


def _of_this_machine(handle: Handler) -> Handler:
    """Refuse names that another site may have for this address."""

    async def answer(request: Request) -> Response:
        if not _LOOPBACK.fullmatch(request.headers.get("host", "")):
            return _plain("open the page as 127.0.0.1.", 421)
        return await handle(request)

    return answer


async def _serve_page(request: Request) -> Response:
    name = request.path_params.get("name", "index.html")
    if name not in PAGE_FILES:
        return _plain("there is no such page; open the address as it was printed.", 404)
    return Response(read_page(name), media_type=PAGE_FILES[name], headers=HEADERS)


def _plain(text: str, status: int) -> Response:
    return PlainTextResponse(text, status, headers=HEADERS)


class _Api:
    """What the page may ask."""

    def __init__(self, compactor: Compactor, audit: Audit) -> None:
        self._compactor = compactor
        self._audit = audit

    async def audit(self, _: Request) -> Response:
        """What past compactions of hosts lost."""
        return _json(await self._audit())

    async def sessions(self, _: Request) -> Response:
        """The sessions there are."""
        return _json(await list_sessions(self._compactor))

    async def session(self, request: Request) -> Response:
        """One session without its messages."""
        return _json(await describe_session(self._compactor, await self._info(request)))

    async def messages(self, request: Request) -> Response:
        """A page of messages."""
        after = request.path_params["after"]
        return _json(await list_messages(self._compactor, await self._info(request), after))

    async def message(self, request: Request) -> Response:
        """One message, whole."""
        ref = f"m{request.path_params['seq']}"
        (found,) = await self._compactor.originals(await self._info(request), ref)
        return _json({"text": whole_text(found.message)})

    async def search(self, request: Request) -> Response:
        """What the archive has; looking here is not counted as the agent's recall."""
        info = await self._info(request)
        words = str((await _body_of(request)).get("words") or "")
        found = await self._compactor.recall(None, words, scope="project", project=info.project)
        own = [hit for hit in found.hits if hit.session == info.name]
        return _json([{"ref": hit.ref, "role": hit.role, "text": hit.text} for hit in own])

    async def undo(self, request: Request) -> Response:
        """Go back to the view before a compaction."""
        info = await self._info(request)
        ref = str((await _body_of(request)).get("ref") or "")
        outcome = await self._compactor.restore(info, ref)
        return _json({"text": outcome_text(outcome, session=info.name)})

    async def _info(self, request: Request) -> SessionInfo:
        return await find_session(self._compactor, request.path_params["id"])


def _json(told: Any) -> Response:
    return JSONResponse(told, headers=HEADERS)


async def _body_of(request: Request) -> dict[str, Any]:
    if int(request.headers.get("content-length") or 0) > _MOST_BODY:
        raise InputError("the request is too large; ask with fewer words.")
    try:
        told: Any = await request.json()
    except ValueError:
        raise InputError("the request is no JSON; load the page again.") from None
    return cast("dict[str, Any]", told) if isinstance(told, dict) else {}
