"""The endpoint where a model is asked, and the key that may go there."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mcp_compaction.summarizers.calling import CONNECT_SECONDS, CallFailed

if TYPE_CHECKING:  # only a call needs the client
    import httpx2

Secret = Callable[[], str | None]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address and a model; the key is looked up for each call and never kept."""

    base_url: str
    model: str
    environment_key: Secret  # the provider's own variable
    key_file: Path | None = None

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return is_loopback(self.base_url)

    def key(self) -> str | None:
        """The key to send; an environment's key never goes to a server on this machine."""
        if self.key_file is not None:
            key = read_key(self.key_file)
        else:
            key = None if self.is_local else self.environment_key()
        if key and not self.is_local and urlsplit(self.base_url).scheme != "https":
            raise CallFailed("a key is sent over https only; change summarizer_base_url")
        return key

    def needed_key(self) -> str:
        """The key, where the endpoint is not on this machine."""
        key = self.key()
        if not key and not self.is_local:
            raise CallFailed("there is no key: set the provider's variable or summarizer_key_file")
        return key or "none"


class BackendOfEndpoint:
    """A backend without its call: the endpoint that it asks, by plain HTTP."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    @property
    def model(self) -> str:
        """The model that is asked."""
        return self.endpoint.model

    def load(self) -> None:
        """Import what a call needs."""
        import httpx2  # noqa: F401  # pyright: ignore[reportUnusedImport]


def make_http_client(endpoint: Endpoint) -> httpx2.AsyncClient:
    """The client for an endpoint: it follows no redirect, and is timed by who asks."""
    import httpx2

    return httpx2.AsyncClient(
        # A cold model may be silent for long.
        timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
        follow_redirects=False,  # the key is for this address only
        trust_env=not endpoint.is_local,
    )


def is_loopback(url: str) -> bool:
    """Whether an address never leaves this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def read_key(path: Path) -> str:
    """The key in a file that only its owner may read."""
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise CallFailed("others may read summarizer_key_file: chmod 600 it")
        key = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise CallFailed("summarizer_key_file cannot be read") from None
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise CallFailed("summarizer_key_file holds no key")
    return key
