"""Who may speak to the gateway: a process of this machine that knows the path of this run."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from mcp_compaction.errors import InputError

LOOPBACK = "127.0.0.1"
HEADER = "x-compaction-secret"
"""The header that may carry the secret in place of the path."""
_IN_HEADER = "-"  # the segment of a path whose secret is in the header
_NAMES = (LOOPBACK, "localhost", "[::1]")


class Door(NamedTuple):
    """The address of one gateway, and the secret of this run: in every path, or in a header."""

    port: int
    secret: str

    def url_of(self, upstream: str) -> str:
        """The base URL that a host gets for one of the upstreams."""
        return f"http://{LOOPBACK}:{self.port}/{self.secret}/{upstream}"

    def open_url_of(self, upstream: str) -> str:
        """The base URL for a host that sends the secret in a header: anyone may read it."""
        return f"http://{LOOPBACK}:{self.port}/{_IN_HEADER}/{upstream}"

    def refusal(self, headers: Mapping[str, str]) -> str | None:
        """Why a request is refused whatever its path is; None where it is not.

        A page in a browser sends an Origin, or by a name of its own another Host.
        """
        if headers.get("origin") is not None:
            return "requests from web pages are refused."
        if headers.get("host") not in {f"{name}:{self.port}" for name in _NAMES}:
            return f"the Host header has to be {LOOPBACK}:{self.port}."
        return None

    def path_behind(self, path: str, headers: Mapping[str, str]) -> tuple[str, str] | None:
        """The upstream that a path names and the path there; None without the secret."""
        _, _, rest = path.partition("/")
        given, _, rest = rest.partition("/")
        if given == _IN_HEADER:
            given = headers.get(HEADER, "")
        if not hmac.compare_digest(given.encode(), self.secret.encode()):
            return None
        upstream, slash, rest = rest.partition("/")
        return upstream, slash + rest


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
