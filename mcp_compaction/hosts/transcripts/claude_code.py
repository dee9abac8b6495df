"""Transcripts of Claude Code: one JSON object a line, messages in a tree by their uuids.

Nothing leaves the file when Claude Code compacts: a boundary is written, the summary follows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Final

from mcp_compaction.core.log.conversation import users_words_in
from mcp_compaction.core.text.host_texts import without_host_texts
from mcp_compaction.core.window.history import is_record
from mcp_compaction.errors import InputError, MalformedMessage
from mcp_compaction.formats import IncomingMessage
from mcp_compaction.formats.arrival import parse_moment, reported_tokens_of
from mcp_compaction.formats.content import blocks_of, objects_in, parse_object
from mcp_compaction.formats.identity import unwrap_text
from mcp_compaction.hosts.transcripts.files import open_regular
from mcp_compaction.hosts.transcripts.pieces import (
    NOTHING,
    Chat,
    Compacted,
    TranscriptLine,
    count_at,
    message_of,
    object_at,
    text_at,
)
from mcp_compaction.lexicon.host_texts import is_printed
from mcp_compaction.model import Event, HeardVia, JsonObject, JsonValue, Speaker
from mcp_compaction.ports import HOST_COMPACTED, OUR_VIEW

NAME: Final = "claude-code"
_NO_MODEL = "<synthetic>"  # the host's own words, as for an error of the service
_CUT_RESULT = "<persisted-output>"  # begins what stands for a result that was put into a file
SUBAGENTS = "subagents"  # the folder of their transcripts
_FOLDER_OF_RESULTS = "tool-results"
_LARGEST_RESULT = 2**21  # bytes
_MOST_LOOKED_THROUGH = 2**18  # bytes around a line, for what it means
_WRITES_QUEUED = (2, 1, 100)  # from then on, surely, a prompt that waited has a line of its own
_SIGNS_PROMPTS = (2, 1, 325)  # from then on, surely, it says of each prompt where that came from
_TYPED = ("typed", "queued", "suggestion_accepted")  # how a person's prompt came
_ALLOWED = ("user_temporary", "user_permanent")  # a call that a person allowed, maybe with words
_TYPED_COMMANDS = ("<command-name>", "<command-message>")  # of which it says nothing
_SKILL = "Base directory for this skill: "
_SIDECHAIN = "sidechain"  # older versions do not say which subagent it was
_WRITTEN = ("isMeta", "isCompactSummary", "textNotTyped", "handedOff")
_TEAM = ("<teammate-message", "<agent-message", "<cross-session-message")  # another agent speaks
_REFUSED = "user-rejected"
_REFUSAL = "The user doesn't want to proceed with this tool use."
_TELLS_REFUSALS = (2, 1, 325)  # from then on, surely, it says who refused a call
_VERSION = re.compile(r"v?([0-9]{1,9}(?:\.[0-9]{1,9})*)")
_WAKES = ("wakeupSource", "scheduledTaskId")  # an agent may have set the time and the words


def chat_of(lines: Iterator[JsonObject], path: Path) -> Chat:
    """The chat of a file, whose name is the session; a subagent's is in the session it serves."""
    for line in lines:
        if line.get("type") not in ("user", "assistant"):
            continue
        agent, folder = agent_of(line), text_at(line, "cwd")
        if not agent:
            # A chat that goes on with another one may begin with lines of that one.
            return Chat(session=path.stem, folder=folder)
        parent = _parent_file_of(path, text_at(line, "sessionId"))
        return Chat(session=parent.stem, agent=agent, parent_file=parent, folder=folder)
    return Chat(session=path.stem)


def _parent_file_of(path: Path, session: str | None) -> Path:
    folder = path.parent
    if folder.name == SUBAGENTS:
        return folder.parent.with_name(f"{folder.parent.name}.jsonl")
    return folder / f"{session}.jsonl"


def read_line(obj: JsonObject, line: bytes, at: int, path: Path) -> TranscriptLine:
    """What a line tells: a message, a prompt that waited, or a compaction."""
    host_id = text_at(obj, "uuid") or f"@{at}"
    when, agent = obj.get("timestamp"), agent_of(obj)
    match obj.get("type"):
        case "user":
            message = message_in(obj, path)
            speaker = "host" if is_printed(_first_text_of(message)) else _speaker_of(obj)
            is_known = is_built(obj) and is_skill(message)
            if speaker and (is_known or _is_record(message)):
                return NOTHING  # after a compaction from inside
            summary = _first_text_of(message) if obj.get("isCompactSummary") is True else ""
            speaks, via = speaker or _speaks_in_result(obj), _via_of(obj)
            is_signed = obj.get("promptSource") is not None
            said = message_of(
                message, "anthropic", host_id, when, via, speaker=speaks, is_signed=is_signed
            )
            return TranscriptLine(said, agent, summary=summary)
        case "assistant":
            return _read_answer(obj, host_id, agent)
        case "attachment":
            return TranscriptLine(_read_queued(obj, host_id), agent)
        case "queue-operation":
            return TranscriptLine(_read_removed(obj, host_id, at, path))
        case "custom-title":
            return TranscriptLine(title=text_at(obj, "customTitle"))
        case "ai-title":
            return TranscriptLine(title=text_at(obj, "aiTitle"))
        case "system" if is_boundary(obj):
            return _read_boundary(obj, agent, is_ours=_is_ours_behind(path, at + len(line)))
        case _:
            return NOTHING


def message_in(obj: JsonObject, path: Path) -> JsonObject:
    """The message that a line of a transcript holds, as it is recorded; empty where it has none."""
    match obj.get("type"):
        case "user":
            return _with_whole_result(object_at(obj, "message"), obj.get("toolUseResult"), path)
        case "assistant":
            return object_at(obj, "message")
        case "attachment" if is_queued(obj):
            return _queued_message(obj)
        case _:
            return {}


def is_built(obj: JsonObject) -> bool:
    """Whether a line was neither said by a model nor sent by anybody: a compaction built it."""
    if obj.get("type") == "assistant":
        return obj.get("madeBy") == "other"
    is_meta = obj.get("isMeta") is True
    return obj.get("type") == "user" and not is_meta and _is_unsigned(obj)


def is_skill(message: JsonObject) -> bool:
    """Whether a message in the user's role is the text of a skill that was invoked."""
    content = unwrap_text(message.get("content"))
    return isinstance(content, str) and content.startswith(_SKILL)


def is_boundary(obj: JsonObject) -> bool:
    """Whether a line tells that the chat was compacted."""
    return obj.get("type") == "system" and obj.get("subtype") == "compact_boundary"


def is_queued(obj: JsonObject) -> bool:
    """Whether a line holds a prompt that waited while the agent was at work."""
    return object_at(obj, "attachment").get("type") == "queued_command"


def told_by_hooks(obj: JsonObject) -> list[str]:
    """What a line holds that hooks, or hooks of modules, have told the model."""
    match object_at(obj, "attachment"):
        case {"type": "hook_additional_context", "content": list() as content}:
            return [one for one in content if isinstance(one, str)]
        case _:
            return []


def agent_of(obj: JsonObject) -> str:
    """The subagent that a line is about; the main agent has no name."""
    return (text_at(obj, "agentId") or _SIDECHAIN) if obj.get("isSidechain") is True else ""


def _via_of(obj: JsonObject) -> HeardVia | None:
    """`program` where a program sent a prompt without a word of who typed it, `tool` where the
    user's words in it are only likely; None: a person typed it, or somebody else speaks."""
    if _is_only_likely(obj):
        return "tool"
    source = obj.get("promptSource")
    # The entry point is a variable, which may say less of a prompt, and never more.
    entry = text_at(obj, "entrypoint") or ""
    is_command = _version_of(obj) >= _SIGNS_PROMPTS and _is_command(obj)
    is_sent = source is not None or entry.startswith("sdk") or (is_command and entry != "cli")
    is_programs = is_sent and source not in _TYPED and obj.get("origin") is None
    return "program" if is_programs else None


def _speaker_of(obj: JsonObject) -> Speaker:
    """Who wrote what stands in the user's role, where it was not the user."""
    is_of_team = _first_text_of(object_at(obj, "message")).startswith(_TEAM)
    if is_of_team or obj.get("isSidechain") is True:
        return "agent"
    is_written = any(obj.get(key) is True for key in _WRITTEN) or any(map(obj.get, _WAKES))
    origin = obj.get("origin")
    is_others = origin is not None and object_at(obj, "origin").get("kind") != "human"
    is_hosts = obj.get("promptSource") == "system" or _is_unsigned(obj)
    return "host" if is_written or is_others or is_hosts else ""


def _speaks_in_result(obj: JsonObject) -> Speaker:
    """`user` where the host says that a result holds words of the user: the answer to a question,
    or what was said when a call was refused."""
    match obj.get("toolUseResult"):
        case {"questions": list(), "answers": dict()} as told:
            return "user" if _was_said(object_at(obj, "message"), told) else ""
        case _:
            is_refused = obj.get("toolDenialKind") == _REFUSED or _is_only_likely(obj)
            return "user" if is_refused else ""


def _was_said(message: JsonObject, told: JsonObject) -> bool:
    """Whether all that reads like a user's words in a result is what the host says was said: the
    preview of an option, which the agent writes, may read so too."""
    notes = [one.get("notes") for one in objects_in([*object_at(told, "annotations").values()])]
    said = [*object_at(told, "answers").values(), told.get("response"), *notes]
    texts = [",".join(map(str, one)) if isinstance(one, list) else str(one) for one in said]
    results = [str(block.get("content")) for block in blocks_of(message)]
    found = [one.words for result in results for one in users_words_in(result)]
    return all(any(words in text for text in texts) for words in found)


def _is_only_likely(obj: JsonObject) -> bool:
    """Whether a call was refused by all that an older host tells; another tool's error may read so
    too, so that the words are the user's by hearsay."""
    told = obj.get("toolUseResult")
    is_like = isinstance(told, str) and told.removeprefix("Error: ").startswith(_REFUSAL)
    return is_like and obj.get("toolDenialKind") is None and _version_of(obj) < _TELLS_REFUSALS


def _first_text_of(message: JsonObject) -> str:
    """The text that a message begins with, whether it is a string or has blocks."""
    first = next(iter(blocks_of(message)), JsonObject())
    return (text_at(first, "text") or "").lstrip()


def _is_unsigned(obj: JsonObject) -> bool:
    """Whether a line in the user's role has words that nobody sent, by a host that tells."""
    is_allowed = object_at(obj, "permissionDecision").get("source") in _ALLOWED
    if _version_of(obj) < _SIGNS_PROMPTS or is_allowed or obj.get("promptSource") is not None:
        return False
    texts = [text_at(block, "text") or "" for block in blocks_of(object_at(obj, "message"))]
    return not _is_command(obj) and any(without_host_texts(text).strip() for text in texts)


def _is_command(obj: JsonObject) -> bool:
    return _first_text_of(object_at(obj, "message")).startswith(_TYPED_COMMANDS)


def _version_of(obj: JsonObject) -> tuple[int, ...]:
    """The version of the host that wrote a line; empty where it does not say."""
    found = _VERSION.match(text_at(obj, "version") or "")
    return tuple(map(int, found[1].split("."))) if found else ()


def _is_record(message: JsonObject) -> bool:
    content = unwrap_text(message.get("content"))
    return isinstance(content, str) and is_record(content)


def _with_whole_result(message: JsonObject, told: JsonValue, path: Path) -> JsonObject:
    """The message with its result as the tool gave it, of which the host shows only a beginning."""
    match message.get("content"):
        case [{"type": "tool_result", "content": str() as shown, **rest}] if shown.startswith(
            _CUT_RESULT
        ):
            whole = _whole_result(told, path)
            block: JsonObject = {"type": "tool_result", **rest, "content": whole}
            return {**message, "content": [block]} if whole else message
        case _:
            return message


def _whole_result(told: JsonValue, path: Path) -> str:
    """A result as the line tells it, or as the file that the host has put it into; else nothing."""
    match told:
        case {"persistedOutputPath": str() as named}:
            return _read_result(path, PurePath(named).name)
        case list() as blocks:
            texts = [text_at(block, "text") for block in blocks if isinstance(block, dict)]
            return "\n".join(filter(None, texts)) if len(texts) == len(blocks) else ""
        case _:
            return ""


def _read_result(path: Path, name: str) -> str:
    """What a file in the session's own folder holds, by its name; nothing where it leads away."""
    is_agents = path.parent.name == SUBAGENTS
    session = path.parent.parent if is_agents else path.with_suffix("")
    found = session / _FOLDER_OF_RESULTS / name
    try:
        if Path(os.path.realpath(found)) != found:
            return ""
        with open_regular(found) as file:
            data = file.read(_LARGEST_RESULT + 1)
    except (InputError, ValueError):
        return ""
    return data.decode(errors="replace") if len(data) <= _LARGEST_RESULT else ""


def _read_answer(obj: JsonObject, host_id: str, agent: str) -> TranscriptLine:
    message = object_at(obj, "message")
    if is_built(obj) and obj.get("isApiErrorMessage") is not True:  # no model has said it now
        return NOTHING
    said = message_of(message, "anthropic", host_id, obj.get("timestamp"))
    model = text_at(message, "model")
    if model == _NO_MODEL:
        return TranscriptLine(said, agent)
    return TranscriptLine(said, agent, reported=reported_tokens_of(message), model=model)


def _read_queued(obj: JsonObject, host_id: str) -> tuple[IncomingMessage, ...]:
    """The prompt that a user typed while the agent was at work."""
    if not is_queued(obj):
        return ()
    attachment = object_at(obj, "attachment")
    is_prompt = attachment.get("commandMode", "prompt") == "prompt"
    is_written = not is_prompt or _speaker_of(obj) or _speaker_of(attachment)
    via = _via_of(obj) or _via_of(attachment)
    speaker = "host" if is_written else ""
    return message_of(
        _queued_message(obj), "anthropic", host_id, obj.get("timestamp"), via, speaker=speaker
    )


def _read_removed(
    obj: JsonObject, host_id: str, at: int, path: Path
) -> tuple[IncomingMessage, ...]:
    """What was typed within a turn and handed to the agent there, by a host that says no more of it
    than that it left the queue."""
    if obj.get("operation") != "remove":
        return ()
    typed = _removed_from_queue(_lines_before(path, at))
    if typed is None or typed.startswith(("<", "{", "/")):  # a notice, or a command of the host
        return ()
    return message_of(
        {"role": "user", "content": typed}, "anthropic", host_id, obj.get("timestamp")
    )


def _removed_from_queue(lines: Sequence[JsonObject]) -> str | None:
    """The prompt that leaves the queue next, by the lines before; None where the host writes down
    what it hands over, as newer ones do."""
    versions = [version for line in lines if (version := _version_of(line))]
    if versions and versions[-1] >= _WRITES_QUEUED:
        return None
    waiting: list[str] = []
    for line in lines:
        match line:
            case {"type": "queue-operation", "operation": "enqueue", "content": str() as content}:
                waiting.append(content)
            case {"type": "queue-operation", "operation": "popAll"}:
                waiting.clear()
            case {"type": "queue-operation"}:
                del waiting[:1]
            case _:
                pass
    return waiting[0] if waiting else None


def _lines_before(path: Path, at: int) -> list[JsonObject]:
    """The last lines of a file before a place in it."""
    start = max(0, at - _MOST_LOOKED_THROUGH)
    whole = _read_bytes(path, start, at - start).split(b"\n")
    return [*_objects_in(whole[1 if start else 0 :])]


def _read_bytes(path: Path, start: int, size: int) -> bytes:
    """A part of a file; nothing where the file is gone meanwhile."""
    with suppress(InputError), open_regular(path) as file:
        file.seek(start)
        return file.read(size)
    return b""


def _objects_in(lines: Sequence[bytes]) -> Iterator[JsonObject]:
    for line in lines:
        with suppress(MalformedMessage):
            yield parse_object(line.decode(errors="replace"), "the line")


def _queued_message(obj: JsonObject) -> JsonObject:
    return {"role": "user", "content": object_at(obj, "attachment").get("prompt")}


def _read_boundary(obj: JsonObject, agent: str, *, is_ours: bool) -> TranscriptLine:
    told = object_at(obj, "compactMetadata")
    before, after = count_at(told, "preTokens"), count_at(told, "postTokens")
    moment = parse_moment(obj.get("timestamp"))
    if moment is None:
        return NOTHING
    detail = f"{text_at(told, 'trigger') or 'unknown'}, {before} -> {after} tokens"
    detail = f"{OUR_VIEW}, {detail}" if is_ours else detail
    line = TranscriptLine((), agent, (Event(name=HOST_COMPACTED, at=moment, detail=detail),))
    return line._replace(reported=after or None, compacted=_compacted(obj), is_ours=is_ours)


def _is_ours_behind(path: Path, at: int) -> bool:
    """Whether a view stands behind a boundary that ends at a place, as a plugin's module hands it
    over: ours, or another's. The host's own summary would stand first there."""
    rows = _objects_in(_read_bytes(path, at, _MOST_LOOKED_THROUGH).split(b"\n"))
    first = next((row for row in rows if row.get("type") == "user"), None)
    return first is not None and first.get("isCompactSummary") is not True


def preserved_by(obj: JsonObject) -> tuple[str, ...]:
    """The ids of the lines that a compaction of the host's own left in the window."""
    kept = object_at(object_at(obj, "compactMetadata"), "preservedMessages").get("uuids")
    return tuple(one for one in kept if isinstance(one, str)) if isinstance(kept, list) else ()


def _compacted(obj: JsonObject) -> Compacted:
    told = object_at(obj, "compactMetadata")
    waited = count_at(told, "durationMs")
    return Compacted(
        trigger=text_at(told, "trigger") or "",
        before=count_at(told, "preTokens") or None,
        after=count_at(told, "postTokens") or None,
        seconds=waited / 1_000 if waited else None,
        kept=preserved_by(obj),
    )
