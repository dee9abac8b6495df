"""Requests that no client sends: broken heads and bodies, and JSON that is whole and hostile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.doors import Opened

DEEP = 100_000
VALUES = (
    b"null",
    b"true",
    b'""',
    b'"\\ud800"',
    b'"a\\udc00\\ud800b"',
    b'"\\u0000"',
    b"9" * 5000,
    b"-9223372036854775809",
    b"18446744073709551616",
    b"1e400",
    b"NaN",
    b"-0.0",
    b"[]",
    b"{}",
    b"[" * 90 + b"]" * 90,
    b'{"a":' * 90 + b"1" + b"}" * 90,
)
BODIES = (
    b"",
    b"{",
    b"null",
    b"[1]",
    b'"text"',
    b"\xff\xfe",
    b'\xef\xbb\xbf{"a": 1}',
    '{"a": "ä"}'.encode("utf-16"),
    b'{"a": "\xed\xa0\x80"}',
    b'{"\\ud800": 1}',
    b"[" * DEEP + b"]" * DEEP,
    b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    b'{"a": ' + b"9" * 5000 + b"}",
    b'{"a": 1, "a": 2}',
    b"{} {}",
    b"\x00",
)
_METHODS = ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "post", "B\x01")
_TARGETS = (
    "*",
    "x",
    "//",
    "/\x00",
    "/%00",
    "/%ff",
    "/%0a",
    "/%ed%a0%80",
    "/..%2f..",
    "/" + "a" * 5000,
    "http://127.0.0.1/",
    "http://[",
    "/?a=%00&project=%ff&project=%ed%a0%80",
    "/api/session/" + "9" * 30,
    "/api/session/" + "9" * 5000,
    "/api/session/1/messages/" + "9" * 30,
    "/api/session/1/message/" + "9" * 30,
)
_HEADS = (
    "Content-Length: -1",
    "Content-Length: +1",
    "Content-Length: 1_0",
    "Content-Length: 0x10",
    "Content-Length: \u0663",
    "Content-Length: " + "9" * 30,
    "Content-Length: " + "9" * 5000,
    "Content-Length: 1, 1",
    "Content-Length: 2\r\nContent-Length: 3",
    "Transfer-Encoding: gzip",
    "Transfer-Encoding: chunked\r\nContent-Length: 3",
    "Host: evil.example",
    "Authorization: Bearer x",
    "Authorization: \xff\xfe",
    "Origin: \xff",
    "no colon",
    " folded: x",
    "X:" + " " * 5000,
    "X: a\x00b",
    "\xff\xff: x",
    "Upgrade: websocket\r\nConnection: Upgrade",
    "Upgrade: h2c",
    "Expect: 100-continue",
    "Expect: \xff",
    "Content-Type: \xff",
    "Content-Type: application/json; charset=nonsense",
    "Content-Encoding: gzip",
    "Mcp-Session-Id: \xff",
    "MCP-Protocol-Version: \xff",
)
_CHUNKS = (
    b"-1\r\n",
    b"zz\r\n",
    b"f" * 30 + b"\r\n",
    b"2\r\n{}\r\n0\r\nX: \xff\r\n\r\n",
    b"1;a=b\r\n{\r\n0\r\n\r\n",
)


def broken_requests(door: Opened) -> Iterator[bytes]:
    """Requests whose lines, heads, lengths or pieces are wrong, with the right token in them."""
    good = door.bytes_of()
    line, _, rest = good.partition(b"\r\n")
    for method in _METHODS:
        yield method.encode("latin-1") + b" " + line.partition(b" ")[2] + b"\r\n" + rest
    for target in _TARGETS:
        for prefix in ("", door.path):
            words = (door.method, prefix + target, "HTTP/1.1")
            yield " ".join(words).encode("latin-1") + b"\r\n" + rest
    for version in (b"HTTP/0.9", b"HTTP/2", b"", b"HTTP/1.1 more"):
        yield line.rpartition(b" ")[0] + b" " + version + b"\r\n" + rest
    for head in _HEADS:
        yield (
            line
            + b"\r\n"
            + head.encode("utf-8" if "\u0663" in head else "latin-1")
            + b"\r\n"
            + rest
        )
    bare = b"\r\n".join(one for one in good.split(b"\r\n") if not one.startswith(b"Content-Length"))
    for chunk in _CHUNKS:
        head = bare.partition(b"\r\n\r\n")[0]
        yield head + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk
    yield b"\r\n\r\n" + good
    yield good.replace(b"\r\n", b"\n")
    yield b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"  # TLS
    yield b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def hostile_bodies(
    door: Opened, paths: Sequence[str], names: Sequence[str], beside: bytes = b""
) -> Iterator[bytes]:
    """Whole requests to each path, whose body is no JSON, or has a hostile value for each name.

    `beside`: what else stands in each object, with a comma behind it.
    """
    objects = (b'{%s"%s": %s}' % (beside, name.encode(), one) for name in names for one in VALUES)
    bodies = [*BODIES, *objects]
    for path in paths:
        at = replace(door, path=path, method="POST")
        for body in bodies:
            yield at.bytes_of(body)
