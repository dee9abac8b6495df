"""A loop on a server that speaks chat completions, on this machine; a script stands in for one."""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from mcp_compaction import open_store
from mcp_compaction.adapters.loop import LoopKit

Json = dict[str, Any]
RULE = "Never change a lot number."
READ: Json = {
    "type": "function",
    "function": {
        "name": "read_shelf",
        "description": "List what stands on a shelf.",
        "parameters": {"type": "object", "properties": {"shelf": {"type": "integer"}}},
    },
}


async def agent(kit: LoopKit, base_url: str, model: str, task: str) -> list[Json]:
    """Work on a task until the model calls no tool any more; gives all requests' sizes."""
    messages: list[Any] = [{"role": "user", "content": task}]
    sizes: list[Json] = []

    async def ask(sent: list[Any]) -> Json:
        body = {"model": model, "messages": sent, "tools": [READ, *kit.tools]}
        sizes.append({"messages": len(sent), "characters": len(json.dumps(sent))})
        return await asyncio.to_thread(post, f"{base_url}/chat/completions", body)

    while True:
        response = await kit.send(ask, messages)
        messages += kit.answer_of(response)
        calls: list[Any] = [*kit.calls_of(response)]
        if not calls:
            return sizes
        for call in calls:
            messages.append(await kit.call(call) if kit.owns(call) else read_shelf(call))
            if kit.owns(call):
                name, said = call["function"]["name"], messages[-1]["content"].partition(";")[0]
                print(f"{name}: {said.splitlines()[0]}")
        messages = await kit.apply(messages)


def post(url: str, body: Json) -> Json:
    """What a server answers to a request."""
    asked = urllib.request.Request(
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=600) as answer:
        return json.load(answer)


def read_shelf(call: Any) -> Json:
    """The only tool of this loop: what stands on a shelf."""
    shelf = json.loads(call["function"]["arguments"])["shelf"]
    text = "\n".join(f"lot {shelf}-{n:03}: {n * shelf} boxes of glass" for n in range(40))
    return {"role": "tool", "tool_call_id": call["id"], "content": text}


class Script(BaseHTTPRequestHandler):
    """A server whose model reads 18 shelves, and looks after its window as a good agent would."""

    def do_POST(self) -> None:
        """Answer one request; the number of the last call tells how far the model is."""
        length = int(self.headers["Content-Length"])
        messages: list[Json] = json.loads(self.rfile.read(length))["messages"]
        calls = [call for message in messages for call in message.get("tool_calls") or ()]
        step = 1 + max((int(call["id"].removeprefix("call_")) for call in calls), default=0)
        answer = json.dumps({"choices": [{"message": self._answer(step)}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _answer(self, step: int) -> Json:
        match step:
            case 1:
                name, given = "pin_constraint", {"text": RULE}
            case 10 | 19:
                name, given = "compress_context", {"reason": "shelves counted", "force": True}
            case 20:
                name, given = "recall_archived", {"query": "lot 4-007"}
            case 21:
                return {"role": "assistant", "content": "All shelves are counted."}
            case _:
                name, given = "read_shelf", {"shelf": step}
        function = {"name": name, "arguments": json.dumps(given)}
        call = {"id": f"call_{step}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def scripted_server() -> Generator[str]:
    """The base URL of the scripted server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Script)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


async def run(base_url: str, model: str, window: int) -> None:
    """Play the loop and show what it did."""
    with tempfile.TemporaryDirectory() as home:
        async with open_store(home=home, project="/stock", window_tokens=window) as store:
            kit = LoopKit(await store.session("stocktaking"), shape="openai")
            sizes = await agent(kit, base_url, model, f"Count shelves 2 to 18. {RULE}")
            largest = max(size["characters"] for size in sizes)
            print(f"{len(sizes)} requests, the largest of {largest:,} characters")
            print(f"the last one: {sizes[-1]['messages']} messages")
            print(f"failures inside the kit: {kit.failures}")


def main() -> None:
    """Use the server that is named, or the scripted one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-url", help="as http://127.0.0.1:11434/v1; without: a script")
    parser.add_argument("--model", default="scripted", help="as the server calls it")
    parser.add_argument("--window", type=int, default=12_000, help="tokens the model can read")
    args = parser.parse_args()
    if args.base_url:
        asyncio.run(run(args.base_url, args.model, args.window))
        return
    with scripted_server() as base_url:
        asyncio.run(run(base_url, args.model, args.window))


if __name__ == "__main__":
    main()
