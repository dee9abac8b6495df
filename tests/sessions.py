"""Sessions without a store: what the core is given in tests, and an outside that answers it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from mcp_compaction.core.compaction.flow import flow
from mcp_compaction.core.digest.extract import extract
from mcp_compaction.core.log.content import tokens_of
from mcp_compaction.core.log.identifiers import find_identifiers
from mcp_compaction.core.policy import Policy
from mcp_compaction.core.tokens import estimate
from mcp_compaction.core.window.render import lay_out
from mcp_compaction.formats import read, read_incoming, render
from mcp_compaction.model import (
    Ask,
    Compaction,
    Draft,
    Found,
    JsonObject,
    Message,
    Outcome,
    Pin,
    SearchRequest,
    Session,
    SessionInfo,
    Shape,
    SummaryRequest,
)

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


def messages_of(originals: Sequence[dict[str, Any]], first: int = 1) -> tuple[Message, ...]:
    """Originals as recorded messages."""
    came = read_incoming(list(originals)) if originals else None
    found: list[Message] = []
    for seq, message in enumerate(came.messages if came else (), first):
        role, parts = read(message.shape, message.raw)
        found.append(
            Message(
                seq=seq,
                role=role,
                parts=parts,
                shape=message.shape,
                raw=message.raw,
                at=NOW + timedelta(seconds=seq),
                tokens=tokens_of(parts, estimate),
            )
        )
    return tuple(found)


def run(
    command: str, result: str = "12 passed in 0.4s", name: str = "t1", *, failed: bool = False
) -> list[dict[str, Any]]:
    """A command line that a shell ran, and what came."""
    call = {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": command}}
    answer = {"type": "tool_result", "tool_use_id": name, "content": result, "is_error": failed}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [answer]}]


def proved(command: str) -> list[dict[str, Any]]:
    """A run of tests that passed twice: what is offered as a fact."""
    return [one for time in "12" for one in run(command, name=f"{command} {time}")]


def session_of(
    originals: Sequence[dict[str, Any]], pins: Sequence[Pin] = (), **fields: Any
) -> Session:
    """A session that has never been compacted."""
    info = SessionInfo(id=1, name="test", project="/p", created=NOW, updated=NOW)
    return Session(info=info, messages=messages_of(originals), pins=tuple(pins), **fields)


def pin(number: int, text: str, **fields: Any) -> Pin:
    """A pin of the user's."""
    return Pin(number=number, text=text, author="user", session="test", at=NOW, **fields)


class Outside:
    """Answers a flow: drafts by extraction, searches by looking."""

    def __init__(self, archive: Sequence[Message]) -> None:
        self.archive = archive
        self.summaries: list[SummaryRequest] = []
        self.searches: list[SearchRequest] = []

    def answer(self, request: SummaryRequest | SearchRequest) -> Draft | Found:
        """What the outside has to say."""
        if isinstance(request, SummaryRequest):
            self.summaries.append(request)
            return extract(request)
        self.searches.append(request)
        return Found(hits=tuple(self._hits(query, request.limit) for query in request.queries))

    def _hits(self, query: str, limit: int) -> tuple[int, ...]:
        holds = (
            m.seq
            for m in self.archive
            if query in m.raw or any(f.text == query for f in find_identifiers(m.raw))
        )
        return tuple(seq for seq, _ in zip(holds, range(limit), strict=False))


def compress(
    session: Session, policy: Policy, outside: Outside | None = None, **ask: Any
) -> Outcome:
    """One compaction, answered by the outside."""
    world = outside or Outside(session.messages)
    wanted = Ask(reason="test", **ask)
    running = flow(session, policy, wanted, NOW, estimate, "estimate")
    try:
        request = next(running)
        while True:
            request = running.send(world.answer(request))
    except StopIteration as stop:
        return stop.value


def after(session: Session, outcome: Outcome) -> Session:
    """The session as a store would load it after saving the outcome."""
    if not isinstance(outcome, Compaction):
        return session
    view = outcome.view
    shown = {e.seq for e in (*view.head, *view.body) if e.kind != "digested"}
    digests = {d.number: d for d in (*session.digests, *outcome.digests)}
    in_view = [e.digest for e in view.body if e.kind == "digested"]
    return session.model_copy(
        update={
            "view": view,
            "messages": tuple(m for m in session.messages if m.seq in shown or m.seq > view.upto),
            "digests": tuple(digests[number] for number in in_view),
            "next_digest": session.next_digest + len(outcome.digests),
            "next_compaction": session.next_compaction + 1,
            "last_compaction": outcome.receipt,
        }
    )


def said(session: Session, originals: Sequence[dict[str, Any]], known: int) -> Session:
    """The session with more messages; `known` is how many were ever recorded."""
    more = messages_of(originals, known + 1)
    return session.model_copy(update={"messages": (*session.messages, *more)})


def view_messages(session: Session, policy: Policy, shape: Shape) -> list[JsonObject]:
    """What a provider would be sent."""
    return render(lay_out(session, policy.index_limit, estimate), shape)
