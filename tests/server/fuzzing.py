"""Calls and lines that no good host would send, from a seeded generator."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.server.host import call
from tests.strategies import coding_session

WORDS = (
    "", " ", "m1", "m1..m9", "m42~3", "p1", "c1", "d1", "fuzz", "other", "never push", "role:user",
    "tool:Bash", "since:2026-11-01", "since:nonsense", "'; DROP TABLE session; --", '" OR 1=1',
    "NEAR(a b)", "a* AND (b", "\x00nul", "\ud83d", "‮rtl", "é" * 50, "中文 查询", "{}", "[1,2]",
    "../../etc/passwd", "m" + "9" * 400, "-1", "null", "x" * 5_000, "OPEN\n- a\nCONSTRAINTS\n- b",
    "2026-11-30T18:00", "0001-01-01", "archive", "global", "note",
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 10**30, 0.5, 1e308, [], [[]], {}, {"a": {"b": []}}, "text", ["m1"],
)  # fmt: skip


def any_value(random: Random, schema: dict[str, Any]) -> Any:
    """Something the schema allows, or, one time in five, something else."""
    if random.random() < 0.2:
        return random.choice((*ODD, random.choice(WORDS)))
    if "enum" in schema:
        return random.choice(schema["enum"])
    match schema.get("type"):
        case "boolean":
            return random.random() < 0.5
        case "integer":
            return random.choice((50, 60, 1_000, 20_000))
        case "number":
            return random.choice((0.5, 10, 50, 99.9))
        case "string":
            return random.choice(WORDS)
        case _:
            return random.choice((some_messages(random), {"messages": some_messages(random)}))


def some_messages(random: Random) -> list[Any]:
    """A few messages, some of them broken."""
    good = coding_session(random.randrange(1, 4), 120, seed=random.randrange(50))
    broken: list[Any] = [{"role": "user"}, {"content": "x"}, 5, {"role": "king", "content": "x"}]
    return [*good, random.choice(broken)] if random.random() < 0.3 else list(good)


def any_call(
    random: Random,
    id: int,
    tools: list[dict[str, Any]],
    sessions: tuple[str, ...] = ("fuzz", "other"),
) -> dict[str, Any]:
    """A call of some tool with arguments it may or may not take, mostly on these sessions."""
    tool = random.choice(tools)
    schema = tool["inputSchema"]
    names = [
        n for n in schema["properties"] if n in schema.get("required", ()) or random.random() < 0.4
    ]
    arguments = {name: any_value(random, schema["properties"][name]) for name in names}
    if random.random() < 0.7:
        arguments["session"] = random.choice(sessions)
    if random.random() < 0.05:
        arguments[random.choice(("dryrun", "", "__class__", "ctx", "allowed"))] = True
    return call(id, tool["name"], **arguments)


def mangled(rng: Random, id: int, line: bytes) -> tuple[int | None, bytes]:
    """A line with something wrong after its id, and the id its answer must have."""
    plain = line[:-3]
    digits, deep = (
        b"9" * rng.choice([20, 4_300, 5_000]),
        rng.choice([150, 190, 210, 1_000, 100_000]),
    )
    hopeless: list[tuple[int | None, bytes]] = [
        (None, rng.randbytes(40).replace(b"\n", b"")),
        (None, b'{"jsonrpc":"2.0","id":null,"method":"ping"}'),
        (None, b'{"jsonrpc":"2.0","id":{},"method":"ping"}'),
        (None, rng.choice([b"[]", b"7", b'"x"', b"nul", b"[[[", b"}"])),
        (id, b"[" + line + b"]"),
        (id, b'{"jsonrpc":"2.0","id":%d}' % id),
        (id, b'{"jsonrpc":"2.0","id":%d,"method":7}' % id),
        (id, b'{"jsonrpc":"2.0","id":%d,"method":"ping","params":[1]}' % id),
        (id, b'{"id":%d,"method":"ping"}' % id),
    ]
    damaged: list[tuple[int | None, bytes]] = [
        (id, line[: rng.randrange(40, len(line))]),
        (id, plain + b"," + b'"x":"' + rng.randbytes(20).replace(b"\n", b"") + b'"}}}'),
        (id, plain + b',"x":"' + b"\\ud83d" * rng.randrange(1, 4) + b'"}}}'),
        (id, plain + b',"x":' + digits + b"}}}"),
        (id, plain + b',"x":' + b"[" * deep + b"]" * deep + b"}}}"),
        (id, plain + b',"x":' + rng.choice([b"NaN", b"-Infinity", b"1e999", b"01"]) + b"}}}"),
        (id, plain + b',"x":"\\u0000\\u2028\xe2\x80\xa8\x00"}}}'),
    ]
    return rng.choice(hopeless + damaged * 2)
