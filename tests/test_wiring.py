"""What the settings put together: who is asked, within which limits, and what start-up loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_compaction.core.digest.allowance import Limits
from mcp_compaction.core.tokens import estimate
from mcp_compaction.errors import SettingsError
from mcp_compaction.lexicon.models import SummaryPrice
from mcp_compaction.settings import Settings, load_settings
from mcp_compaction.wiring import limits_of, summarizer_of, terms_of
from tests.tables import table


def loaded(folder: Path, toml: str = "", **environ: str) -> Settings:
    (folder / "config.toml").write_text(toml)
    return load_settings({"HOME": str(folder), **environ}, {}, folder)


@pytest.mark.parametrize(
    ("toml", "asked"),
    table(__file__, "the_settings_say_who_is_asked_and_in_which_order"),
)
def test_the_settings_say_who_is_asked_and_in_which_order(
    toml: str, asked: str, tmp_path: Path
) -> None:
    assert summarizer_of(loaded(tmp_path, toml), estimate).name == asked


def test_a_key_in_the_environment_alone_lets_nothing_leave_the_machine(tmp_path: Path) -> None:
    settings = loaded(tmp_path, ANTHROPIC_API_KEY="sk-x", ANTHROPIC_BASE_URL="http://elsewhere")
    assert summarizer_of(settings, estimate).name == "extractive"
    assert limits_of(settings) == Limits()


@pytest.mark.parametrize(
    ("toml", "said"),
    table(__file__, "settings_that_cannot_be_followed_are_refused_with_the_next_step"),
)
def test_settings_that_cannot_be_followed_are_refused_with_the_next_step(
    toml: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match=said):
        loaded(tmp_path, toml)


def test_a_known_model_costs_its_list_price_at_its_own_provider(tmp_path: Path) -> None:
    model = 'summarizer_model = "claude-opus-5"\nsummarizer_max_cost_per_hour = 1\n'
    price = terms_of(loaded(tmp_path, model)).price
    assert price is not None
    assert (price.input, price.output, price.cached) == (5, 25, 0.5)
    own = '[summarizer_prices."claude-opus-5"]\ninput = 1\noutput = 2\n'
    assert terms_of(loaded(tmp_path, model + own)).price == SummaryPrice(input=1, output=2)
    elsewhere = 'summarizer_base_url = "https://example.org"\n'
    with pytest.raises(SettingsError, match="need the price"):
        loaded(tmp_path, model + elsewhere)


def test_no_setting_holds_a_key(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.touch(0o600)
    path.write_text("sk-in-a-file")
    settings = loaded(
        tmp_path,
        f'summarizer_model = "m"\nsummarizer_key_file = "{path}"',
        ANTHROPIC_API_KEY="sk-from-the-environment",
    )
    assert "sk-" not in repr(settings) + settings.model_dump_json()


def test_start_up_loads_no_client_of_any_model_and_nothing_of_a_compaction() -> None:
    code = (
        "import sys, mcp_compaction.wiring as w;"
        "from mcp_compaction.settings import load_settings;"
        "s = load_settings({'HOME': '/nowhere', 'MCP_COMPACTION_SUMMARIZER_MODEL': 'm'});"
        "w.summarizer_of(s, len);"
        "ours = 'mcp_compaction.core.compaction';"
        "print([m for m in ('anthropic', 'httpx2', 'httpx', 'mcp', ours) if m in sys.modules])"
    )
    ran: Any = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert ran.stdout.strip() == "[]"
