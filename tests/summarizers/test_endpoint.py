"""Which key goes where: an own file's, never to others, never in the clear, never by accident."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_compaction.summarizers.calling import CallFailed
from mcp_compaction.summarizers.endpoint import Endpoint, is_loopback, read_key

FROM_ENVIRONMENT = "sk-from-the-environment"


def where(url: str, key_file: Path | None = None) -> Endpoint:
    return Endpoint(url, "model-x", environment_key=lambda: FROM_ENVIRONMENT, key_file=key_file)


def key_file(folder: Path, text: str = "sk-in-a-file\n", mode: int = 0o600) -> Path:
    path = folder / "key"
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("url", "is_local"),
    [
        ("http://127.0.0.1:11434", True),
        ("http://localhost:1234/v1", True),
        ("http://[::1]:8080", True),
        ("http://192.168.1.5:11434", False),
        ("https://api.anthropic.com", False),
        ("http://localhost.example.com", False),
        ("http://127.0.0.1.example.com", False),
        ("nonsense", False),
    ],
)
def test_only_loopback_is_this_machine(url: str, is_local: bool) -> None:
    assert is_loopback(url) is is_local


def test_a_providers_key_goes_to_the_provider_and_never_to_a_local_server(tmp_path: Path) -> None:
    assert where("https://api.anthropic.com").needed_key() == FROM_ENVIRONMENT
    assert where("http://127.0.0.1:11434").needed_key() == "none"
    own = where("http://127.0.0.1:11434", key_file(tmp_path))
    assert own.needed_key() == "sk-in-a-file"


def test_a_key_is_not_sent_in_the_clear_over_a_network() -> None:
    with pytest.raises(CallFailed, match="over https only"):
        where("http://192.168.1.5:11434").needed_key()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_key_file_that_others_may_read_is_not_used(mode: int, tmp_path: Path) -> None:
    with pytest.raises(CallFailed, match="chmod 600"):
        read_key(key_file(tmp_path, mode=mode))
