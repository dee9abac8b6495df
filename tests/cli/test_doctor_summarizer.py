"""What `doctor --summarizer` finds out about an endpoint, over real HTTP on loopback."""

from __future__ import annotations

import re

import pytest

from tests.cli.conftest import Shell
from tests.models.server import Endpoint, endpoint

pytestmark = pytest.mark.anyio

KEY = "sk-ant-canary-0123456789abcdefghijklmnop"


def asking(shell: Shell, served: Endpoint, **settings: str) -> Shell:
    """A shell whose settings name that endpoint."""
    known = {"summarizer_model": "model-x", "summarizer_base_url": served.url, **settings}
    return shell.with_environ({f"MCP_COMPACTION_{k.upper()}": v for k, v in known.items()})


def test_without_a_model_it_says_that_nothing_leaves_the_machine(shell: Shell) -> None:
    said = shell.done("doctor", "--summarizer")
    assert "what is extracted by rules (summarizer = auto, and no summarizer_model is set)" in said
    assert "nothing leaves this machine" in said
    assert "set summarizer_model" in said
    assert "no problems found" in said


@pytest.mark.parametrize(("api", "path"), [("anthropic", ""), ("openai", "/v1")])
def test_an_endpoint_that_works_is_told_of_in_words(shell: Shell, api: str, path: str) -> None:
    with endpoint("ok") as served:
        doctor = asking(shell, served, summarizer=api, summarizer_base_url=served.url + path)
        said = doctor.done("doctor", "--summarizer")
    assert f"summarizer {api}, then what is extracted by rules (summarizer = {api})" in said
    assert f"{served.url}{path} (on this machine)" in said
    assert re.search(r"small call +[\d,]+ ms; the answer parsed and verified", said)
    assert re.search(r"key +none is sent", said)
    assert "no cost is counted" in said
    assert len(served.asked) == 1


def test_a_program_gets_one_document_without_the_key(shell: Shell) -> None:
    path = shell.folder / "key"
    path.write_text(KEY)
    path.chmod(0o600)
    with endpoint("ok") as served:
        ran = asking(shell, served, summarizer_key_file=str(path))(
            "doctor", "--summarizer", "--json"
        )
    (found,) = ran.json()["summarizers"]
    assert (ran.code, ran.err) == (0, "")
    assert KEY in str(served.asked[0].headers)
    assert found["key"] == "from summarizer_key_file"
    assert found["is_usable"]
    assert found["seconds"] > 0
    assert KEY not in ran.out


def test_a_refused_key_is_a_problem(shell: Shell) -> None:
    with endpoint("401") as served:
        ran = asking(shell, served)("doctor", "--summarizer")
    assert ran.code == 1
    assert "problem: anthropic: the endpoint refused the key (HTTP 401)" in ran.out
    assert len(served.asked) == 1


def test_a_key_file_that_others_may_read_is_a_problem_and_nobody_is_asked(shell: Shell) -> None:
    path = shell.folder / "key"
    path.write_text(KEY)
    path.chmod(0o644)
    with endpoint("ok") as served:
        ran = asking(shell, served, summarizer_key_file=str(path))("doctor", "--summarizer")
    assert ran.code == 1
    assert "problem: anthropic: others may read summarizer_key_file: chmod 600 it" in ran.out
    assert served.asked == []
