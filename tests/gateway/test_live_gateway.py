"""Real hosts, run through the gateway against a scripted model: what is in their requests."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from tests.checkers import Json, problems
from tests.gateway.talking import plain_form, size_of
from tests.hosts.live import PROGRAM, binary_of, needs_hosts
from tests.hosts.scripted_model import ScriptedModel, Step, serve_model

pytestmark = needs_hosts

RULE = 'Never push to "main" without a review — not even once.'
WINDOW = 60_000
BOUND = "claude-opus-5-5"
LIMIT = 120  # seconds after which a host that hangs is ended


def _shell(number: int) -> Step:
    command = f"seq -f 'step {number}, line %g of the nightly run' 150"
    return Step(tool="shell", arguments={"command": command, "description": "the lines"})


COMPRESS = Step(tool="compress_context", arguments={"reason": "all read", "force": True})
PIN = Step(tool="pin_constraint", arguments={"text": RULE})


def _steps(first: int = 0) -> tuple[Step, ...]:
    """A session whose agent pins, works, compresses and goes on."""
    work = [_shell(number) for number in range(first, first + 11)]
    return PIN, *work[:8], COMPRESS, *work[8:], Step("done")


def _run(folder: Path, words: Sequence[str], environ: dict[str, str], *options: str) -> str:
    """Run a host through the gateway; what was told at its end."""
    project = folder / "project"
    project.mkdir(exist_ok=True)
    command = [PROGRAM, "run", *options, "--", *words]
    common = {
        "HOME": str(folder / "home"),
        "PATH": os.environ["PATH"],
        "MCP_COMPACTION_COUNTER": "estimate",
        "MCP_COMPACTION_WINDOW_TOKENS": str(WINDOW),
    }
    ran = subprocess.run(
        command,
        cwd=project,
        env={**common, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stderr


def _check(model: ScriptedModel, shape: str) -> None:
    """Check all that has to be true of the requests of a run."""
    key = "input" if shape == "responses" else "messages"
    bodies = [json.loads(one) for one in model.requests]
    sent: list[list[Json]] = [[plain_form(m) for m in body[key]] for body in bodies]
    faults = [fault for one in sent for fault in problems(_spoken(one), shape)]
    assert faults == []
    assert (model.unbound, model.dropped) == ([], 0)
    assert max(len(one) for one in model.requests) < 4 * WINDOW
    compressed = next(n for n, one in enumerate(model.requests) if "c1 done" in one)
    assert size_of(sent[compressed]) < 0.8 * size_of(sent[compressed - 1])
    written = json.dumps(RULE, ensure_ascii=False)[1:-1]
    assert all(written in one for one in model.requests[1:])
    # The transcript of the host vouches for it. opencode's `run` puts what it is given in quotes.
    author = "agent" if "opencode" in model.requests[0] else "user"
    assert f"p1 constraint, by {author}" in model.requests[-1]
    breaks = [n for n, (one, two) in enumerate(pairwise(sent), 1) if two[: len(one)] != one]
    # The pin may still join the block of the first request.
    assert set(breaks) <= {1, compressed}


def _spoken(messages: list[Json]) -> list[Json]:
    """The messages without the system's own, which the independent rules know nothing of."""
    return [one for one in messages if one.get("role") != "system"]


def _run_claude(folder: Path, model: ScriptedModel, *words: str, **wishes: str) -> str:
    environ = {
        **wishes,
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "no key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ENABLE_TOOL_SEARCH": "false",
    }
    return _run(folder, [binary_of("claude-code"), *words], environ)


def _run_codex(folder: Path, model: ScriptedModel) -> str:
    home = folder / "home/.codex"
    home.mkdir(parents=True)
    (home / "config.toml").write_text(
        f"""\
model = "gpt-5.1-codex"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = "{model.url}/v1"
wire_api = "responses"
env_key = "KEY"
""",
        encoding="utf-8",
    )
    flags = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json"]
    environ = {"KEY": "no key"}
    return _run(folder, [binary_of("codex"), "exec", *flags, RULE + " Go."], environ)


def _run_opencode(folder: Path, model: ScriptedModel) -> str:
    settings = folder / "home/.config/opencode"
    settings.mkdir(parents=True)
    options = {"baseURL": f"{model.url}/v1", "apiKey": "no key"}
    limit = {"context": 200_000, "output": 8_000}
    provider = {
        "npm": "@ai-sdk/anthropic",
        "options": options,
        "models": {BOUND: {"tool_call": True, "reasoning": True, "limit": limit}},
    }
    config = {"provider": {"scripted": provider}, "autoupdate": False, "share": "disabled"}
    config |= {"model": f"scripted/{BOUND}", "small_model": f"scripted/{BOUND}"}
    text = json.dumps(config)
    (settings / "opencode.json").write_text(text, encoding="utf-8")
    names = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")
    environ = {f"OPENCODE_DISABLE_{name}": "1" for name in names}
    words = [binary_of("opencode"), "run", "--format", "json", RULE + " Go."]
    return _run(folder, words, environ)


def test_claude_code_sends_less_once_its_agent_compresses(tmp_path: Path) -> None:
    with serve_model(ScriptedModel(*_steps())) as model:
        told = _run_claude(tmp_path, model, "--allowedTools=Bash", "-p", RULE + " Go.")
        _check(model, "anthropic")
        assert "# Environment" in model.requests[-1]
        assert "tokens a request" in told
        model.add(Step("well"))
        before = [plain_form(m) for m in json.loads(model.requests[-1])["messages"]]
        _run_claude(tmp_path, model, "--continue", "-p", "And now?")
        after = [plain_form(m) for m in json.loads(model.requests[-1])["messages"]]
        assert after[: len(before)] == before  # by another process of ours, too


def test_claude_code_that_sends_only_what_is_new_sends_all_and_then_less(tmp_path: Path) -> None:
    with serve_model(ScriptedModel(*_steps())) as model:
        wish = {"CLAUDE_CODE_TETHER_LIVE": "1"}
        _run_claude(tmp_path, model, "--allowedTools=Bash", "-p", RULE + " Go.", **wish)
        _check(model, "anthropic")
        assert "thread" not in json.loads(model.requests[-1])


@pytest.mark.parametrize("where", ["the user's settings", "the project's, and typed"])
def test_claude_code_goes_through_the_gateway_whatever_base_url_its_settings_have(
    tmp_path: Path, where: str
) -> None:
    with serve_model(ScriptedModel(Step("well"))) as model:
        is_own = where == "the user's settings"
        folder = tmp_path / ("home/.claude" if is_own else "project/.claude")
        folder.mkdir(parents=True)
        url = model.url if is_own else "http://127.0.0.1:1"
        settings = {"env": {"ANTHROPIC_BASE_URL": url}}
        (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        environ = {"ANTHROPIC_API_KEY": "no key", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        typed = () if is_own else ("--upstream", model.url)
        words = [binary_of("claude-code"), "-p", "Hello."]
        told = _run(tmp_path, words, environ, *typed)
        assert "through the gateway: 1 call" in told
        assert len(model.requests) == 1


def test_codex_sends_less_once_its_agent_compresses(tmp_path: Path) -> None:
    with serve_model(ScriptedModel(*_steps())) as model:
        _run_codex(tmp_path, model)
        _check(model, "responses")


def test_opencode_sends_less_once_its_agent_compresses(tmp_path: Path) -> None:
    with serve_model(ScriptedModel(*_steps())) as model:
        _run_opencode(tmp_path, model)
        _check(model, "anthropic")


@pytest.mark.slow
def test_three_hosts_at_once_in_one_project_never_mix(tmp_path: Path) -> None:
    claude, codex, opencode = (ScriptedModel(*_steps(first)) for first in (100, 200, 300))
    models = (claude, codex, opencode)
    with ExitStack() as stack, ThreadPoolExecutor() as threads:
        for model in models:
            stack.enter_context(serve_model(model))
        words = ("--allowedTools=Bash", "-p", RULE + " Go.")
        running = [
            threads.submit(_run_claude, tmp_path, claude, *words),
            threads.submit(_run_codex, tmp_path, codex),
            threads.submit(_run_opencode, tmp_path, opencode),
        ]
        for one in running:
            assert one.result()
    for model, shape in zip(models, ("anthropic", "responses", "anthropic"), strict=True):
        _check(model, shape)
    for first, model in zip((1, 2, 3), models, strict=True):
        told = "".join(model.requests)
        assert set(re.findall(r"step (\d)\d\d, line", told)) == {str(first)}


@pytest.fixture(autouse=True)
def only_on_request() -> None:
    """Skip, with the reason, where no hosts are installed."""
    if not os.environ.get("MCP_COMPACTION_HOSTS"):
        pytest.skip("MCP_COMPACTION_HOSTS names no folder with installed hosts")
