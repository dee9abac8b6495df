"""Who may speak to the gateway: a process of this machine that knows the path of this run."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import NamedTuple

LOOPBACK = "127.0.0.1"
_NAMES = (LOOPBACK, "localhost", "[::1]")


class Door(NamedTuple):
    """The address of one gateway. The first segment of every path is a secret of this run."""

    port: int
    secret: str

    def url_of(self, upstream: str) -> str:
        """The base URL that a host gets for one of the upstreams."""
        return f"http://{LOOPBACK}:{self.port}/{self.secret}/{upstream}"

    def refusal(self, headers: Mapping[str, str]) -> str | None:
        """Why a request is refused whatever its path is; None where it is not.

        A page in a browser sends an Origin, or by a name of its own another Host.
        """
        if headers.get("origin") is not None:
            return "requests from web pages are refused."
        if headers.get("host") not in {f"{name}:{self.port}" for name in _NAMES}:
            return f"the Host header has to be {LOOPBACK}:{self.port}."
        return None

    def path_behind(self, path: str) -> tuple[str, str] | None:
        """The upstream that a path names and the path there; None without the secret."""
        _, _, rest = path.partition("/")
        given, _, rest = rest.partition("/")
        if not hmac.compare_digest(given.encode(), self.secret.encode()):
            return None
        upstream, slash, rest = rest.partition("/")
        return upstream, slash + rest


def make_secret() -> str:
    """A path segment that nobody guesses."""
    return secrets.token_urlsafe(24)
