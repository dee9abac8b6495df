"""Where a gateway is: who knows the path of this run may speak to it."""

from __future__ import annotations

import secrets
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.types import Scope

from mcp_compaction.door import LOOPBACK, header_of, is_secret, without_header
from mcp_compaction.errors import InputError

HEADER = "x-compaction-secret"
"""The header that may carry the secret in place of the path."""
_IN_HEADER = "-"  # the segment of a path whose secret is in the header


class GatewayAddress(NamedTuple):
    """The port of one gateway, and the secret of this run: in every path, or in a header."""

    port: int
    secret: str

    def url_of(self, upstream: str) -> str:
        """The base URL that a host gets for one of the upstreams."""
        return f"http://{LOOPBACK}:{self.port}/{self.secret}/{upstream}"

    def open_url_of(self, upstream: str) -> str:
        """The base URL for a host that sends the secret in a header: anyone may read it."""
        return f"http://{LOOPBACK}:{self.port}/{_IN_HEADER}/{upstream}"

    async def admit(self, scope: Scope) -> Scope | None:
        """A request whose path begins behind the secret; None without it."""
        path = bytes(scope.get("raw_path") or scope["path"].encode())
        given, _, rest = path.partition(b"/")[2].decode("latin-1").partition("/")
        if given == _IN_HEADER:
            given = header_of(scope, HEADER.encode()) or ""
        if not is_secret(given, self.secret):
            return None
        return {**without_header(scope, HEADER.encode()), "raw_path": rest.encode("latin-1")}


def check_upstream(url: str) -> str:
    """A base URL that a user typed; one over which keys would go for all to read is refused."""
    try:
        parts = urlsplit(url)
        scheme, host = parts.scheme, parts.hostname
    except ValueError:
        scheme, host = "", None
    if scheme not in ("http", "https") or host is None:
        raise InputError(
            f"{url!r} is no base URL of a provider: pass one as in "
            "--upstream https://api.anthropic.com"
        )
    if scheme == "http" and not _is_loopback(host):
        raise InputError(
            f"{url!r} is not encrypted: your key could be read on its way to {host}. "
            "Pass it with https, or an address of this machine."
        )
    return url


def _is_loopback(name: str) -> bool:
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def make_secret() -> str:
    """A path segment that nobody guesses."""
    return secrets.token_urlsafe(24)
