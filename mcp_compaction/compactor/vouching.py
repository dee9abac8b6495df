"""Counts messages as the user's that only a process told of, once the host tells of them too."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mcp_compaction.compactor.events import HEADLESS
from mcp_compaction.compactor.masking import known_secrets, mask_text
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.text.host_texts import without_host_texts
from mcp_compaction.core.text.wholes import unify_lines
from mcp_compaction.model import Event, Message, SessionInfo, Text

_MASK = "[masked:"


async def vouch(work: Workspace, info: SessionInfo, prompts: Mapping[str, bool]) -> None:
    """Count those messages as the user's that hold nothing but texts that were typed, and those as
    a program's that hold other prompts. `prompts`: whether a person has typed each."""
    told = await work.store.hearsay(info.id)
    said = {_fold(text) for text in prompts}
    typed = {_fold(text) for text, is_typed in prompts.items() if is_typed}
    if any(_MASK in message.text for message in told):  # then what was typed is masked alike
        secrets = await known_secrets(work, info)
        masked = await work.threads.run(lambda: {one: mask_text(one, secrets) for one in prompts})
        said |= {_fold(text) for text in masked.values()}
        typed |= {_fold(masked[text]) for text, is_typed in prompts.items() if is_typed}
    known = [one for one in told if _is_among(said, one)]
    for one in known:
        if not _is_among(typed, one):  # noted first: until then it is hearsay
            event = Event(name=HEADLESS, at=work.now(), detail=one.ref)
            await work.store.add_event(info.id, event)
    await work.store.vouch(info.id, [one.seq for one in known])


def _is_among(said: Collection[str], message: Message) -> bool:
    """Whether every text of a message is one of these, but for what the host put in."""
    texts = (part.text for part in message.parts if isinstance(part, Text))
    return all(text in said for text in map(_fold, texts) if text)


def _fold(text: str) -> str:
    """A text without what a host put in; its lines count, since they tell what is a sentence."""
    lines = unify_lines(without_host_texts(text)).split("\n")
    return "\n".join(line.rstrip() for line in lines).strip()
