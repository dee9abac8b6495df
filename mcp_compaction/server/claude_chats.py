"""Follows the chats of Claude Code that our module serves: what it tells of them, and what the host
has written down, which alone is recorded as anybody's words."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from typing import Any

from pydantic import TypeAdapter, ValidationError

from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.errors import CompactionError, InputError
from mcp_compaction.hosts.chat import HostChat
from mcp_compaction.hosts.claude_code.rows import ChatRows
from mcp_compaction.hosts.finding import subagents_of
from mcp_compaction.hosts.serving import ServedChat, note_chat, read_chat
from mcp_compaction.hosts.transcripts.claude_code import NAME
from mcp_compaction.hosts.transcripts.files import FileTranscript
from mcp_compaction.model import HostJobs, SessionInfo
from mcp_compaction.server.claude_prose import ChatProse
from mcp_compaction.server.state import ModChat, State
from mcp_compaction.store.connect import store_path
from mcp_compaction.store.database import take
from mcp_compaction.store.lockfile import LockFile, busy_error

logger = logging.getLogger(__name__)

MOST_LOOKS, PAUSE = 15, 0.1  # for rows that the host has not written down yet
_PATIENCE_FOR_STORE = 2.5  # seconds until a compaction is left to the host


def hear_of(state: State, session: str, body: dict[str, Any]) -> ModChat:
    """The chat that a question of the module is about, with what the question tells of it."""
    chat = state.mod.known.get(session)
    if chat is None:
        chat = state.mod.known[session] = ModChat(
            state.chats.hear_of(NAME, session),
            prose=ChatProse(state.settings.prose),
        )
        state.follow_chat(NAME, session)
    if isinstance(body.get("interactive"), bool):
        chat.is_interactive = body["interactive"]
    if "running" in body:
        chat.running = _jobs_told(body["running"])
    falls = body.get("falls")
    if chat.served is not None and isinstance(falls, int) and falls > chat.served.hosts:
        note_served(state, chat, hosts=falls - chat.served.hosts)
        chat.compactions = (chat.rows.compactions if chat.rows is not None else 0) + 1
    if "limit_tokens" in body:  # null where the host does not compact by itself
        limit = body["limit_tokens"]
        chat.limit = limit if isinstance(limit, int) and limit > 0 else None
    if chat.served is None:
        version = str(body.get("version") or "")[:40]
        before = read_chat(state.settings.home, session)  # and a server that died
        hosts = min(before.hosts, falls) if before and isinstance(falls, int) else 0
        chat.served = ServedChat(session, os.getpid(), version, hosts=hosts)
        note_served(state, chat)
    return chat


def note_served(
    state: State, chat: ModChat, *, ours: int = 0, hosts: int = 0, why: str = ""
) -> None:
    """Note beside the store that the module serves a chat, and how it went."""
    chat = chat.starter or chat  # which a hook looks up after a subagent's compaction, too
    served = chat.served or ServedChat(chat.recorded.session, os.getpid())
    if hosts:
        cause = why or served.why or "no view in time"
        state.note_trouble(NAME, "session.compact", f"left to the host: {cause}")
    chat.served = served._replace(
        ours=served.ours + ours,
        hosts=served.hosts + hosts,
        why=why or served.why,
        is_interactive=chat.is_interactive,
        viewed=time.time() if ours else served.viewed,
    )
    if state.fault:
        return  # nobody knows where the user wants the store
    try:
        note_chat(state.settings.home, chat.served)
    except OSError as error:  # others do not know of it then
        logger.warning("that the module serves a chat was not noted: %s", error)


async def find_subagent(state: State, chat: ModChat, agent: str) -> ModChat:
    """The window of a subagent that a chat has started; InputError where it has no transcript."""
    if agent not in chat.agents:
        started = await state.chats.find_transcript(chat.recorded)
        below = (
            await state.threads.run(subagents_of, started, state.chats.environ)
            if isinstance(started, FileTranscript)
            else []
        )
        found = [one for one in below if (await state.threads.run(one.chat)).agent == agent]
        if not found:
            raise InputError("the subagent has no transcript yet.")
        # What records the chat records its subagents, too.
        recorded = HostChat(NAME, chat.recorded.session, agent, found[0], lock=chat.recorded.lock)
        chat.agents[agent] = ModChat(recorded, starter=chat)
    return chat.agents[agent]


async def find_rows(state: State, chat: ModChat) -> ChatRows | None:
    """The rows of a chat's transcript, where the host has begun to write one."""
    found = await state.chats.find_transcript(chat.recorded)
    if chat.rows is None and found is not None:
        chat.rows = ChatRows(found.path, chat.recorded.agent)
    return chat.rows


async def record_beside(state: State, chat: ModChat) -> None:
    """Record what is new while the host goes on; what waits already records this, too."""
    if chat.recording.locked():
        return
    async with chat.recording:
        await asyncio.sleep(PAUSE)  # a host writes a moment later, and mostly several rows
    try:
        work = await state.workspace()
        info = await record(state, work, chat)
        if info is not None and chat.prose.setting == "ahead" and chat.limit:
            tokens = (await work.read_window(info)).fill.tokens
            chat.prose.measure(100 * tokens / chat.limit, in_turn=True)
    except CompactionError as error:
        logger.warning("a chat was not recorded: %s", error)


async def record(state: State, work: Workspace, chat: ModChat) -> SessionInfo | None:
    """Record what is new of a chat; its session, where there is one."""
    await state.chats.record(work, chat.recorded)
    return chat.recorded.info


async def open_session(
    state: State, work: Workspace, chat: ModChat, body: dict[str, Any]
) -> SessionInfo:
    """The session of a chat, with all that its transcript tells; its window is the host's."""
    state.check_records()
    chats = state.chats
    await chats.record_locked(work, chat.recorded)
    return await chats.open_with_history(work, chat.recorded, body.get("window_tokens"))


async def open_as_read(
    state: State, work: Workspace, chat: ModChat, rows: ChatRows, body: dict[str, Any]
) -> SessionInfo:
    """The session of a chat with just the rows that were read: the host writes them down while
    it waits, and one that is only recorded would be taken for what the host has dropped."""
    while True:
        await state.threads.run(rows.read)
        position = rows.position
        info = await open_session(state, work, chat, body)
        await state.threads.run(rows.read)
        if rows.position == position:
            return info


async def read_rows(state: State, chat: ModChat, handles: list[str]) -> list[str]:
    """Read the rows that the host names; gives those that its transcript does not tell of."""
    for _ in range(MOST_LOOKS):
        rows = await find_rows(state, chat)
        if rows is not None:
            await state.threads.run(rows.read)
            if rows.has_all(handles):
                return []
        await asyncio.sleep(PAUSE)
    return [one for one in handles if chat.rows is None or not chat.rows.has_all([one])]


async def wait_for_store(state: State) -> Workspace:
    """The workspace, once nobody holds its store; StoreBusy where the host had better not wait:
    each write by itself would wait ten times as long."""
    lock = LockFile(store_path(state.settings.home))
    try:
        async with asyncio.timeout(_PATIENCE_FOR_STORE):
            work = await state.workspace()
            if state.settings.store is None:
                await take(lock, math.inf, _PATIENCE_FOR_STORE)
            return work
    except TimeoutError:
        raise busy_error(lock.path, _PATIENCE_FOR_STORE) from None
    finally:
        lock.close()


def _jobs_told(told: object) -> tuple[HostJobs, ...]:
    """What the module says of the background; where that cannot be read, nothing is known."""
    try:
        return TypeAdapter(tuple[HostJobs, ...]).validate_python(told)
    except ValidationError as error:
        logger.warning("what runs in the background was not understood: %s", error)
        return ()
