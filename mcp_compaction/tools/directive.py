"""The directive for programs: which messages to keep, and what stands for the others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Literal, cast

from mcp_compaction.core.digest.render import render_digest
from mcp_compaction.core.excerpts.render import excerpts_block
from mcp_compaction.core.log.pinned import pinned_block
from mcp_compaction.core.tokens import CountTokens
from mcp_compaction.core.window.render import (
    entries_of,
    index_in_view,
    late_pin_blocks,
    memory_block,
    pins_in_view,
)
from mcp_compaction.formats import FORMATS
from mcp_compaction.formats.content import objects_in, parse_object
from mcp_compaction.formats.thinking import without_thinking
from mcp_compaction.model import (
    Compaction,
    Digested,
    Entry,
    Failed,
    JsonObject,
    JsonValue,
    Kept,
    Message,
    Outcome,
    Receipt,
    Refusal,
    Session,
    Trimmed,
)

DIRECTIVE_ID = "io.github.mcp-compaction/directive"
"""What the directive is called among the extensions of MCP."""
DIRECTIVE_VERSION = 1
"""It changes with the meaning of a key."""


def directive(
    session: Session,
    receipt: Receipt | None,
    preserve_markers: bool,
    limit: int,
    count: CountTokens,
) -> JsonObject:
    """The `_meta` of a changed view; `session` is the session as it is now.

    `receipt`: of the compaction that changed it; None where something else did. `layout` is all
    that is shown, in order: refs of messages that stay, places in `replace`, and texts of ours.
    `without_thinking`, where it is there: the messages of it whose thinking has to be left out,
    since the model has bound that to what stood before it.
    """
    replace = list(_replacements(session, limit, count))
    entries = entries_of(session.view, session.messages)
    return {
        "compaction_directive": True,
        "id": DIRECTIVE_ID,
        "version": DIRECTIVE_VERSION,
        "session": session.info.name,
        "compaction": receipt.ref if receipt is not None else None,
        "strategy": receipt.strategy if receipt is not None else None,
        "preserve_markers": preserve_markers,
        "keep": [f"m{entry.seq}" for entry in entries if isinstance(entry, Kept)],
        "replace": [*replace],
        "pinned": pinned_block(session.pins),
        "layout": [*_layout(session, entries)],
        "view": session.view.version,
        "upto": session.view.upto,
        "pins": [pin.number for pin in session.pins],
        "newest": max((message.seq for message in session.messages), default=session.view.upto),
    }


def receipt_meta(
    outcome: Outcome, trigger: Literal["agent", "auto"], seconds: float | None = None
) -> JsonObject:
    """The `_meta` that tells of one compaction in numbers, also of one that came to nothing.

    `trigger`: who began it. `seconds`: how long it took, where that was measured.
    """
    receipt = outcome.receipt if isinstance(outcome, Compaction) else None
    is_failure = isinstance(outcome, Failed | Refusal)
    told: JsonObject = {
        "trigger": trigger,
        "tokens_before": receipt.before if receipt is not None else None,
        "tokens_after": receipt.after if receipt is not None else None,
        "duration_ms": round(1000 * seconds) if seconds is not None else None,
        "error": outcome.reason if is_failure else None,
    }
    return {"receipt": told}


def words_of_layout(told: JsonObject) -> list[str]:
    """The layout of a directive as texts: a ref for a message that stays whole or cut, and what
    stands there for anything else."""
    replace = objects_in(told["replace"])
    layout = cast("list[JsonValue]", told["layout"])
    return [_word_of(item, replace) for item in layout]


def _word_of(item: JsonValue, replace: list[JsonObject]) -> str:
    if isinstance(item, str):
        return item
    change = replace[item] if isinstance(item, int) else item
    text = json.dumps(change, sort_keys=True)
    is_cut = isinstance(change, dict) and "cuts" in change
    return f"{change['from']} {text}" if isinstance(change, dict) and is_cut else text


def without_thinking_of(told: JsonObject, refs: Sequence[str]) -> JsonObject:
    """The directive for a program that has to leave out the thinking of some messages."""
    replace: list[JsonValue] = []
    for change in objects_in(told["replace"]):
        if "cuts" in change and change["from"] in refs:
            bare = map(without_thinking, objects_in(change["with"]))
            stands: list[JsonValue] = [one for one in bare if one is not None]
            replace.append({**change, "with": stands})
        else:
            replace.append(change)
    return {**told, "replace": replace, "without_thinking": [*refs]}


def _replacements(session: Session, limit: int, count: CountTokens) -> Iterator[JsonObject]:
    view = session.view
    messages = {message.seq: message for message in session.messages}
    digests = {digest.number: digest for digest in session.digests}
    extras = (index_in_view(session, limit, count), excerpts_block(view.promoted))
    entries = entries_of(view, session.messages)
    for entry, following in zip_longest(entries, entries[1:]):
        if isinstance(entry, Digested):
            digest = digests[entry.digest]
            texts = [render_digest(digest)]
            if not isinstance(following, Digested):  # the index stands behind the first digests
                texts += (text for text in extras if text)
                extras = ()
            stands: list[JsonValue] = [{"role": "user", "content": text} for text in texts if text]
            yield _make_replacement(digest.first, digest.last, stands)
        elif isinstance(entry, Trimmed):
            change = _make_replacement(entry.seq, entry.seq, _trim(messages[entry.seq], entry))
            yield {**change, "cuts": [cut.model_dump(mode="json") for cut in entry.cuts]}


def _layout(session: Session, entries: tuple[Entry, ...]) -> Iterator[JsonValue]:
    """All messages and records that a view shows, in order."""
    view = session.view
    late_pins = late_pin_blocks(session)
    changed = 0
    yield from _texts(session.sections.task)
    for place, entry in enumerate(entries):
        yield from _texts_before(session, place)
        if isinstance(entry, Kept):
            yield f"m{entry.seq}"
        else:
            yield changed
            changed += 1
        if not isinstance(entry, Digested) and entry.seq > view.upto:
            yield from _texts(*late_pins.get(entry.seq, ()))
    for place in range(len(entries), len(view.head) + len(view.body) + 1):
        yield from _texts_before(session, place)


def _texts_before(session: Session, place: int) -> Iterator[JsonValue]:
    """The texts of ours before an entry: behind the head, and behind the whole frame."""
    view = session.view
    if place == len(view.head):
        yield from _beside_head(session)
    if place == len(view.head) + len(view.body):
        for after, texts in late_pin_blocks(session).items():
            yield from _texts(*(texts if after <= view.upto else ()))


def _beside_head(session: Session) -> Iterator[JsonValue]:
    yield from _texts(memory_block(session))
    yield from _texts(pinned_block(pins_in_view(session)))


def _texts(*texts: str | None) -> Iterator[JsonValue]:
    for text in texts:
        if text:
            yield {"text": text}


def _make_replacement(first: int, last: int, stands: list[JsonValue]) -> JsonObject:
    return {"from": f"m{first}", "to": f"m{last}", "with": stands}


def _trim(message: Message, entry: Trimmed) -> list[JsonValue]:
    original = parse_object(message.raw, message.ref)
    return [*FORMATS[message.shape].keep(original, entry.cuts)]
