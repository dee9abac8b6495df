"""Ten turns through the gateway to a real provider: says what it accepted, and what it counted.

    ANTHROPIC_API_KEY=… python examples/gateway_live/gateway_live.py messages
    OPENAI_API_KEY=… python examples/gateway_live/gateway_live.py responses
    OPENAI_API_KEY=… python examples/gateway_live/gateway_live.py chat

Each turn asks the model to read two files at once; the fifth one is followed by a compaction. It
costs a few cents. The gateway is the command `mcp-compaction gateway`, its store in a temporary
folder.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

Json = dict[str, Any]

TURNS = 10
CALLS = 4  # in one turn, at most
COMPACTS_AFTER = 5
CHAT = "gateway-live"
RULE = "Answer in one short sentence, always."
READ = "Read a file. Call it for several files at once."
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


class Api(NamedTuple):
    """One way of calling a model, with what this program has to know of it."""

    base_url: str
    path: str
    key: str  # the environment variable
    model: str
    headers: Callable[[str], dict[str, str]]
    body: Callable[[str, list[Json]], Json]
    said: Callable[[Json], list[Json]]  # the messages of an answer
    results: Callable[[Json], list[Json]]  # what a host sends back for its calls


def read_file(path: str) -> str:
    """A file of the project, made up."""
    return "\n".join(
        f"{path}, line {n}: total_{n} = round(price_{n} * 1.19, 2)" for n in range(120)
    )


def _messages_body(model: str, messages: list[Json]) -> Json:
    tool = {"name": "read_file", "description": READ, "input_schema": SCHEMA}
    thinking = {"type": "enabled", "budget_tokens": 1024}
    body = {"model": model, "max_tokens": 3000, "thinking": thinking, "system": RULE}
    return {**body, "tools": [tool], "messages": messages}


def _messages_results(answer: Json) -> list[Json]:
    blocks = [
        {"type": "tool_result", "tool_use_id": one["id"], "content": read_file(str(one["input"]))}
        for one in answer["content"]
        if one["type"] == "tool_use"
    ]
    return [{"role": "user", "content": blocks}] if blocks else []


def _responses_body(model: str, items: list[Json]) -> Json:
    tool = {"type": "function", "name": "read_file", "description": READ, "parameters": SCHEMA}
    body: Json = {"model": model, "instructions": RULE, "tools": [tool], "input": items}
    return {**body, "store": False, "include": ["reasoning.encrypted_content"]}


def _responses_results(answer: Json) -> list[Json]:
    return [
        {
            "type": "function_call_output",
            "call_id": one["call_id"],
            "output": read_file(one["arguments"]),
        }
        for one in answer["output"]
        if one["type"] == "function_call"
    ]


def _chat_body(model: str, messages: list[Json]) -> Json:
    function = {"name": "read_file", "description": READ, "parameters": SCHEMA}
    tools = [{"type": "function", "function": function}]
    return {"model": model, "tools": tools, "messages": messages}


def _chat_results(answer: Json) -> list[Json]:
    return [
        {
            "role": "tool",
            "tool_call_id": one["id"],
            "content": read_file(one["function"]["arguments"]),
        }
        for one in _calls_in_chat(answer)
    ]


def _calls_in_chat(answer: Json) -> list[Json]:
    return answer["choices"][0]["message"].get("tool_calls") or []


def _messages_headers(key: str) -> dict[str, str]:
    named = {"anthropic-version": "2023-06-01", "x-claude-code-session-id": CHAT}
    return {"x-api-key": key, **named}


def _messages_said(answer: Json) -> list[Json]:
    return [{"role": "assistant", "content": answer["content"]}]


def _responses_headers(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}", "thread-id": CHAT, "user-agent": "codex_live"}


def _responses_said(answer: Json) -> list[Json]:
    return answer["output"]


def _chat_headers(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}", "x-session-id": CHAT}


def _chat_said(answer: Json) -> list[Json]:
    return [answer["choices"][0]["message"]]


APIS = {
    "messages": Api(
        base_url="https://api.anthropic.com",
        path="/v1/messages",
        key="ANTHROPIC_API_KEY",
        model="claude-sonnet-4-5",
        headers=_messages_headers,
        body=_messages_body,
        said=_messages_said,
        results=_messages_results,
    ),
    "responses": Api(
        base_url="https://api.openai.com",
        path="/v1/responses",
        key="OPENAI_API_KEY",
        model="gpt-5-mini",
        headers=_responses_headers,
        body=_responses_body,
        said=_responses_said,
        results=_responses_results,
    ),
    "chat": Api(
        base_url="https://api.openai.com",
        path="/v1/chat/completions",
        key="OPENAI_API_KEY",
        model="gpt-5-mini",
        headers=_chat_headers,
        body=_chat_body,
        said=_chat_said,
        results=_chat_results,
    ),
}


class Talk(NamedTuple):
    """A conversation through a gateway."""

    api: Api
    model: str
    client: httpx2.AsyncClient
    gateway: Process
    place: tuple[str, ...]  # the flags that name the store
    history: list[Json]

    async def ask(self) -> Json | None:
        """Send the history; the answer, or None where it was refused."""
        body = self.api.body(self.model, self.history)
        response = await self.client.post(self.api.path, json=body)
        if response.status_code != 200:
            print(f"  refused: {response.status_code} {response.text[:300]}")
            return None
        answer: Json = response.json()
        self.history.extend(self.api.said(answer))
        usage = json.dumps(answer.get("usage"))
        print(f"  accepted: {len(self.history)} messages in the history, usage {usage}")
        return answer

    async def take_turn(self, number: int) -> bool:
        """One turn of the user; says whether all of it was accepted."""
        text = f"Read a_{number}.py and b_{number}.py at once. Which is the last line of each?"
        self.history.append({"role": "user", "content": text})
        for _ in range(CALLS):
            answer = await self.ask()
            if answer is None:
                return False
            results = self.api.results(answer)
            if not results:
                break
            self.history.extend(results)
        return True

    async def compact(self) -> None:
        """Compress what was said, as an agent does by our server, which is another process."""
        words = ("compress", "--reason", "half is done", "--force", "--target-percent", "3")
        words += ("--window-tokens", "200000")  # whatever the model's own holds
        compressing = await start(*words, *self.place)
        told, _ = await compressing.communicate()
        print(f"  {told.decode().partition(chr(10))[0]}")

    async def end(self) -> list[str]:
        """End the gateway; the lines in which it says what was paid."""
        self.gateway.send_signal(signal.SIGINT)
        told, _ = await self.gateway.communicate()
        return [line for line in told.decode().splitlines() if "token" in line]


async def start(*words: str) -> Process:
    """Start a command of mcp-compaction, whose output can be read."""
    command = Path(sys.executable).with_name("mcp-compaction")
    return await asyncio.create_subprocess_exec(command, *words, stdout=PIPE)


@asynccontextmanager
async def open_talk(api: Api, model: str, upstream: str, key: str) -> AsyncGenerator[Talk]:
    """A conversation through a gateway with a store of its own."""
    with tempfile.TemporaryDirectory() as home:
        place = ("--home", home, "--project", home)
        gateway = await start("gateway", "--upstream", upstream, *place)
        assert gateway.stdout is not None
        url = (await gateway.stdout.readline()).decode().split()[-1]
        headers = api.headers(key)
        client = httpx2.AsyncClient(base_url=url, headers=headers, timeout=300, trust_env=False)
        async with client:
            yield Talk(api, model, client, gateway, place, [])


async def run(given: argparse.Namespace) -> int:
    """Ten turns; 0 where all were accepted."""
    api = APIS[given.api]
    key = os.environ.get(api.key)
    if not key:
        print(f"set {api.key}", file=sys.stderr)
        return 2
    upstream = given.upstream or api.base_url
    accepted = 0
    async with open_talk(api, given.model or api.model, upstream, key) as talk:
        for number in range(1, TURNS + 1):
            print(f"turn {number}")
            if not await talk.take_turn(number):
                break
            accepted += 1
            if number == COMPACTS_AFTER:
                await talk.compact()
        print(f"{given.api}: {accepted} of {TURNS} turns accepted")
        for line in await talk.end():
            print(line)
    return 0 if accepted == TURNS else 1


def read_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The API that is meant, and where it is."""
    parser = argparse.ArgumentParser(description=__doc__, prog=Path(__file__).name)
    parser.add_argument("api", choices=APIS)
    parser.add_argument("--model", help="another model than the usual one")
    parser.add_argument("--upstream", metavar="URL", help="another provider of the same API")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(asyncio.run(run(read_arguments())))
