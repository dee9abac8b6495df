"""The MCP App of context_stats: what a host is told, and what the page makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_compaction.core.tokens import estimate
from mcp_compaction.server.resources import KEY, MIME_TYPE, URI, read_app
from tests.server.talking import talk
from tests.viewer.browser import needs_browser, start_browser

pytestmark = pytest.mark.anyio

HOSTILE = "Never <img src=x onerror=\"document.title='broken into'\"> x"
HOST = """<!doctype html><title>host</title>
<iframe sandbox="allow-scripts" srcdoc="{page}"></iframe>
<script>
const params = {result};
const frame = document.querySelector('iframe').contentWindow;
addEventListener('message', ({{ data }}) => {{
  if (data.method === 'ui/initialize') {{
    document.title = `asked ${{data.params.protocolVersion}}`;
    frame.postMessage({{ jsonrpc: '2.0', id: data.id, result: {{}} }}, '*');
  }}
  if (data.method === 'ui/notifications/initialized')
    frame.postMessage({{ jsonrpc: '2.0', method: 'ui/notifications/tool-result', params }}, '*');
  if (data.method === 'ui/notifications/size-changed') document.title += ', shown';
}});
</script>"""


async def test_a_host_is_told_of_the_page_for_few_tokens_and_reads_it(tmp_path: Path) -> None:
    async with talk(tmp_path) as chat:
        tools = (await chat.client.list_tools()).tools
        told = {tool.name: (tool.meta or {}).get("ui") for tool in tools}
        assert told["context_stats"] == {"resourceUri": URI}
        assert [name for name, ui in told.items() if ui] == ["context_stats"]
        assert estimate(json.dumps({"ui": told["context_stats"]})) <= 60
        (page,) = (await chat.client.read_resource(URI)).contents
        assert page.mime_type == MIME_TYPE


async def test_the_result_carries_what_the_page_shows_and_the_text_stays(
    tmp_path: Path,
) -> None:
    async with talk(tmp_path) as chat:
        await chat.say("pin_constraint", text="Never push to main.", session="loop")
        result = await chat.client.call_tool("context_stats", {"session": "loop"})
        told = (result.meta or {})[KEY]
        assert [pin["text"] for pin in told["pins"]] == ["Never push to main."]
        assert "Never push to main." in str(result.content)


@pytest.mark.thorough
@needs_browser
async def test_in_a_browser_it_shows_the_fill_and_hostile_pins_as_text(tmp_path: Path) -> None:
    pin = {"ref": "p1", "kind": "constraint", "by": "user", "text": HOSTILE}
    shown = {"percent": 42.0, "window": 200_000, "pins": [pin], "last": ""}
    page = read_app().replace("&", "&amp;").replace('"', "&quot;")
    result = json.dumps({"_meta": {KEY: shown}}).replace("<", "\\u003c")
    host = tmp_path / "host.html"
    host.write_text(HOST.format(page=page, result=result), encoding="utf-8")
    with start_browser(tmp_path / "profile") as browser:
        browser.open(host.as_uri())
        browser.wait_for("document.title.endsWith('shown')")
        assert browser.run("document.title") == "asked 2026-01-26, shown"
