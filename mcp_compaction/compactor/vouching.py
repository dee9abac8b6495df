"""Counts messages as the user's that only a process told of, once the host tells of them too."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mcp_compaction.compactor.masking import known_secrets, mask_text
from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.text.host_texts import without_host_texts
from mcp_compaction.core.text.pasted import unify_lines
from mcp_compaction.model import Message, SessionInfo, Text

_MASK = "[masked:"


async def vouch(work: Workspace, info: SessionInfo, typed: Sequence[str]) -> None:
    """Count those messages as the user's that hold nothing but texts that were typed."""
    told = await work.store.hearsay(info.id)
    said = set(map(_fold, typed))
    if any(_MASK in message.text for message in told):  # then what was typed is masked alike
        secrets = await known_secrets(work, info)
        said |= await work.threads.run(lambda: {_fold(mask_text(one, secrets)) for one in typed})
    await work.store.vouch(info.id, [one.seq for one in told if _is_typed(one, said)])


def _is_typed(message: Message, said: Collection[str]) -> bool:
    """Whether every text of a message was typed, but for what the host put in."""
    texts = (part.text for part in message.parts if isinstance(part, Text))
    return all(text in said for text in map(_fold, texts) if text)


def _fold(text: str) -> str:
    """A text without what a host put in; its lines count, since they tell what is a sentence."""
    lines = unify_lines(without_host_texts(text)).split("\n")
    return "\n".join(line.rstrip() for line in lines).strip()
