"""Generated agent sessions in every shape: scripts drawn by Hypothesis, and one long fixed one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import strategies as st

from mcp_compaction.model import Shape

Json = dict[str, Any]

SHAPES: tuple[Shape, ...] = ("anthropic", "openai", "responses")
PATHS = ("src/auth/session.py", "src/api/limits.py", "tests/test_limits.py", "README.md")
TEXTS = (
    "continue",
    "continue",
    "Never touch the production key; only the staging key.",
    "I think the limit is 20,000 requests, but I am not sure.",
    "Decision: keep the token bucket in Redis, because it survives a restart.",
    "Die Prüfung läuft, Größe 42 µm – Straße",
    "上下文窗口快满了，请继续。",
    "שלום עולם — مرحبا بالعالم",
    "a NUL \u0000, a line separator \u2028 and a family 👩‍👩‍👧‍👦",
    "TODO: rotate build-id 7f3a91c2 before Friday.",
    'quotes " and \\ backslashes\tand tabs',
)
ERRORS = (
    "Traceback (most recent call last):\nKeyError: 'tenant_id'",
    "bash: make: command not found\nexit code 127",
    "FAILED tests/test_limits.py::test_burst - assert 429 == 200\n1 failed\nexit code 1",
)


# A script: what happened, in no provider's shape


@dataclass(frozen=True)
class Ask:
    """A user says something."""

    text: str


@dataclass(frozen=True)
class Say:
    """The assistant says something and calls nothing."""

    text: str
    thinking: str | None = None


@dataclass(frozen=True)
class Call:
    """One tool call and what came of it."""

    id: str
    name: str
    arguments: Json
    result: str = ""
    is_error: bool = False
    in_blocks: bool = False


@dataclass(frozen=True)
class Batch:
    """The assistant calls tools; perhaps the user adds words to the results."""

    calls: tuple[Call, ...]
    text: str | None = None
    thinking: str | None = None
    is_answered: bool = True
    interjection: str | None = None


Scene = Ask | Say | Batch


# Writing a script in a shape


def write(script: Iterable[Scene], shape: Shape) -> list[Json]:
    """The script as a provider's messages."""
    writer = {"anthropic": _anthropic, "openai": _openai, "responses": _responses}[shape]
    return [message for number, scene in enumerate(script) for message in writer(scene, number)]


def _anthropic(scene: Scene, number: int) -> list[Json]:
    if isinstance(scene, Ask):
        return [{"role": "user", "content": scene.text}]
    content: list[Json] = []
    if scene.thinking:
        content.append(
            {"type": "thinking", "thinking": scene.thinking, "signature": f"s{number}=="}
        )
    if scene.text:
        content.append({"type": "text", "text": scene.text})
    if isinstance(scene, Say):
        return [{"role": "assistant", "content": content}]
    for call in scene.calls:
        content.append(
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        )
    said: Json = {"role": "assistant", "content": content}
    if not scene.is_answered:
        return [said]
    answer: list[Json] = [_anthropic_result(call) for call in scene.calls]
    if scene.interjection:
        answer.append({"type": "text", "text": scene.interjection})
    return [said, {"role": "user", "content": answer}]


def _anthropic_result(call: Call) -> Json:
    content = [{"type": "text", "text": call.result}] if call.in_blocks else call.result
    result: Json = {"type": "tool_result", "tool_use_id": call.id, "content": content}
    return {**result, "is_error": True} if call.is_error else result


def _openai(scene: Scene, number: int) -> list[Json]:
    if isinstance(scene, Ask):
        return [{"role": "user", "content": scene.text}]
    said: Json = {"role": "assistant", "content": scene.text}
    if scene.thinking:
        said["reasoning_content"] = scene.thinking
    if isinstance(scene, Say):
        return [said]
    said["tool_calls"] = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for call in scene.calls
    ]
    if not scene.is_answered:
        return [said]
    answers: list[Json] = [
        {
            "role": "tool",
            "tool_call_id": call.id,
            "content": [{"type": "text", "text": call.result}] if call.in_blocks else call.result,
        }
        for call in scene.calls
    ]
    if scene.interjection:
        answers.append({"role": "user", "content": scene.interjection})
    return [said, *answers]


def _responses(scene: Scene, number: int) -> list[Json]:
    if isinstance(scene, Ask):
        return [_item("user", scene.text)]
    items: list[Json] = []
    if scene.thinking:
        summary = [{"type": "summary_text", "text": scene.thinking}]
        items.append(
            {
                "type": "reasoning",
                "id": f"rs_{number}",
                "summary": summary,
                "encrypted_content": f"e{number}==",
            }
        )
    if scene.text:
        items.append(_item("assistant", scene.text))
    if isinstance(scene, Say):
        return items
    items += [_responses_call(call) for call in scene.calls]
    if not scene.is_answered:
        return items
    items += [_responses_output(call) for call in scene.calls]
    if scene.interjection:
        items.append(_item("user", scene.interjection))
    return items


def _responses_call(call: Call) -> Json:
    if call.name == "apply_patch":
        text = call.arguments["input"]
        return {"type": "custom_tool_call", "call_id": call.id, "name": call.name, "input": text}
    return {
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": json.dumps(call.arguments),
    }


def _responses_output(call: Call) -> Json:
    kind = "custom_tool_call" if call.name == "apply_patch" else "function_call"
    output = [{"type": "input_text", "text": call.result}] if call.in_blocks else call.result
    return {"type": f"{kind}_output", "call_id": call.id, "output": output}


def _item(role: str, text: str) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def scattered(messages: Sequence[Json]) -> list[Json]:
    """Anthropic messages as transcripts store them: one call, thought or result a line."""
    found: list[Json] = []
    for message in messages:
        content: Any = message["content"]
        blocks: list[Json] = [] if isinstance(content, str) else content
        kinds = {block["type"] for block in blocks}
        if kinds.isdisjoint(("tool_use", "tool_result", "thinking")):
            found.append(message)
        else:
            found += [{"role": message["role"], "content": [block]} for block in blocks]
            if "tool_result" in kinds and blocks[-1]["type"] == "text":
                found.pop()
                found[-1]["content"].append(blocks[-1])
    return found


# Drawing a script


def _read(random: Random) -> tuple[str, Json]:
    return "Read", {"file_path": random.choice(PATHS)}


def _edit(random: Random) -> tuple[str, Json]:
    value = random.randrange(1000)
    return "Edit", {
        "file_path": random.choice(PATHS),
        "old_string": f"LIMIT = {value}",
        "new_string": f"LIMIT = {value + 1}",
    }


def _bash(random: Random) -> tuple[str, Json]:
    return "Bash", {"command": f"pytest -q {random.choice(PATHS)}"}


def _todo(random: Random) -> tuple[str, Json]:
    status = random.choice(("pending", "in_progress", "completed"))
    return "TodoWrite", {"todos": [{"content": "rotate the key", "status": status}]}


def _plan(random: Random) -> tuple[str, Json]:
    return "update_plan", {"plan": [{"step": "measure the burst", "status": "pending"}]}


def _recall(random: Random) -> tuple[str, Json]:
    return "recall_archived", {"query": "staging key", "refs": [f"m{random.randrange(1, 9)}"]}


def _patch(random: Random) -> tuple[str, Json]:
    path = random.choice(PATHS)
    return "apply_patch", {"input": f"*** Begin Patch\n*** Update File: {path}\n*** End Patch"}


_TOOLS = (_read, _edit, _bash, _todo, _plan, _recall, _patch)


def _call(random: Random, call_id: str) -> Call:
    name, arguments = random.choice(_TOOLS)(random)
    is_error = random.random() < 0.15
    result = random.choice(ERRORS if is_error else (*TEXTS, "def limit():\n    return 20000\n"))
    if random.random() < 0.2:
        result *= 4000 // len(result)
    in_blocks = random.random() < 0.3
    return Call(call_id, name, arguments, result, is_error, in_blocks)


def _scene(kind: str, size: int, salt: int, number: int) -> Scene:
    random = Random(salt)
    text = random.choice(TEXTS)
    thinking = f"Let me see: {text}" if random.random() < 0.5 else None
    if kind == "ask":
        return Ask(text)
    if kind == "say":
        return Say(text, thinking)
    # Some providers number the calls of each turn anew.
    prefix = "call" if random.random() < 0.3 else f"toolu_{number}"
    return Batch(
        calls=tuple(_call(random, f"{prefix}_{n}") for n in range(size)),
        text=text if random.random() < 0.5 else None,
        thinking=thinking,
        is_answered=kind != "open",
        interjection=random.choice(TEXTS) if random.random() < 0.2 else None,
    )


_SALTS = st.integers(0, 2**20)
_STEPS = st.tuples(
    st.sampled_from(("batch", "ask", "batch", "say")),
    st.sampled_from((1, 1, 2, 3, 4, 6)),
    _SALTS,
)


def _script(first: int, steps: Sequence[tuple[str, int, int]], open_batch: int) -> list[Scene]:
    scenes: list[Scene] = [_scene("ask", 0, first, 0)]
    for number, (kind, size, salt) in enumerate(steps, 1):
        # Two turns of an assistant never meet: what it says and then calls is one turn.
        follows_words = kind == "say" and isinstance(scenes[-1], Say)
        if follows_words or (kind == "batch" and isinstance(scenes[-1], Say)):
            scenes.append(Ask("continue"))
        scenes.append(_scene(kind, size, salt, number))
    if open_batch:
        if isinstance(scenes[-1], Say):
            scenes.append(Ask("continue"))
        scenes.append(_scene("open", open_batch, first, len(steps) + 1))
    return scenes


def scripts(min_steps: int = 0, max_steps: int = 12) -> st.SearchStrategy[list[Scene]]:
    """Scripts of valid sessions, sometimes with calls in flight at their end."""
    return st.builds(
        _script,
        _SALTS,
        st.lists(_STEPS, min_size=min_steps, max_size=max_steps),
        st.sampled_from((0, 0, 0, 1, 3)),
    )


def sessions(
    shape: Shape = "anthropic", min_steps: int = 0, max_steps: int = 12
) -> st.SearchStrategy[list[Json]]:
    """Valid sessions as lists of original messages of a shape."""
    return scripts(min_steps, max_steps).map(lambda script: write(script, shape))


# One long session, always the same

_LINES = tuple(
    f"{n:5d}\t    {verb}_{noun}(tenant_id={n * 37 % 1009}, retries={n % 7})  # {noun} of {verb}\n"
    for n, (verb, noun) in enumerate(
        (verb, noun)
        for verb in ("load", "check", "write", "merge", "limit", "rotate", "sign", "parse")
        for noun in ("session", "bucket", "token", "header", "tenant", "quota", "window", "key")
    )
)
_DECISIONS = (
    "Decision: the limiter stays in Redis, because a restart must not reset a tenant's quota.",
    "I am not sure whether the burst is 20,000 or 25,000; let me verify before changing it.",
    "The header test fails since the clock is read twice. I will pass it in.",
    "All green. Next: rotate the staging key and update the changelog.",
    "We agreed not to touch src/auth/keys.py, so I work around it in the caller.",
)


def coding_session(
    steps: int, tokens_per_step: int = 400, shape: Shape = "anthropic", seed: int = 7
) -> list[Json]:
    """One request followed by that many tool steps, each of about so many tokens."""
    random = Random(seed)
    task = (
        "Fix the rate limiter in src/api/limits.py. Never push to main; only the staging key. "
        "When all tests are green, update the changelog and tell me the numbers."
    )
    script: list[Scene] = [Ask(task)]
    script += [_coding_step(random, number, tokens_per_step) for number in range(1, steps + 1)]
    return write(script, shape)


def _coding_step(random: Random, number: int, tokens: int) -> Batch:
    size = random.choice((1, 1, 1, 2, 3))
    room = max(40, tokens * 4 // size - 200)
    calls = tuple(_coding_call(random, f"toolu_{number}_{n}", number, room) for n in range(size))
    return Batch(
        calls=calls,
        text=random.choice(_DECISIONS) if number % 5 == 0 else None,
        thinking=f"Step {number}: what does the limiter do now?" if number % 3 == 0 else None,
        interjection="Mind the build id 7f3a91c2." if number % 50 == 0 else None,
    )


def _coding_call(random: Random, call_id: str, number: int, room: int) -> Call:
    kind = random.random()
    if kind < 0.4:
        path = f"src/api/part{random.randrange(40)}.py"
        return Call(call_id, "Read", {"file_path": path}, _listing(random, room))
    if kind < 0.6:
        _, arguments = _edit(random)
        return Call(call_id, "Edit", arguments, f"The file {arguments['file_path']} was updated.")
    if kind < 0.65:
        return Call(call_id, *_todo(random), "Todos have been modified.")
    if kind < 0.72:
        return Call(call_id, "Bash", {"command": "make check"}, random.choice(ERRORS), True)
    failed = random.choice((0, 0, 1, 3))
    end = f"{failed} failed, {100 + number} passed in 4.{number % 10}s\nexit code {int(failed > 0)}"
    command = f"pytest -q tests/test_part{random.randrange(40)}.py"
    return Call(call_id, "Bash", {"command": command}, _listing(random, room) + end)


def _listing(random: Random, room: int) -> str:
    start = random.randrange(len(_LINES))
    count = room // 70 + 1
    turned = _LINES[start:] + _LINES[:start]
    return "".join(turned * (count // len(turned) + 1))[:room] + f"\n# seen {random.random()}\n"
