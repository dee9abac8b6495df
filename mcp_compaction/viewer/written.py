"""Writes the page with the facts of one session in it to one file that loads nothing."""

from __future__ import annotations

import base64
import hashlib
import json

from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.model import Message, SessionInfo
from mcp_compaction.viewer.facts import (
    Facts,
    begins_of,
    describe_session,
    read_messages,
    whole_text,
)
from mcp_compaction.viewer.serving import read_page


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
