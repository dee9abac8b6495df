"""Where settings come from, which one wins, and what is said of a bad one."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.settings_page import PAGE, page
from mcp_compaction.core.policy import PRESETS, Policy
from mcp_compaction.errors import SettingsError
from mcp_compaction.settings import GONE, NAMES, POLICY, Settings, load_settings

_ENVIRON = {"HOME": "/home/ann"}


def _load(folder: Path, toml: str = "", flags: dict[str, object] | None = None, **env: str):
    (folder / "config.toml").write_text(toml, encoding="utf-8")
    variables = {f"MCP_COMPACTION_{name}": value for name, value in env.items()}
    return load_settings(_ENVIRON | variables, flags or {}, folder)


def _complaint(folder: Path, toml: str = "", flags: dict[str, object] | None = None, **env: str):
    with pytest.raises(SettingsError) as caught:
        _load(folder, toml, flags, **env)
    return str(caught.value).replace(str(folder), "~conf")


def test_a_flag_beats_a_variable_beats_the_file(tmp_path: Path):
    toml = "window_tokens = 1000\nrelease_percent = 50\npreserve_recent_turns = 7"
    settings = _load(
        tmp_path,
        toml,
        {"window_tokens": 3000, "project": None},
        WINDOW_TOKENS="2000",
        RELEASE_PERCENT="40",
    )
    policy = settings.policy
    assert (policy.window_tokens, policy.release_percent, policy.preserve_recent_turns) == (
        3000,
        40,
        7,
    )


def test_the_preset_comes_first_and_single_fields_over_it(tmp_path: Path):
    settings = _load(tmp_path, "reserve_tokens = 200", {"preset": "subagent"})
    assert settings.preset == "subagent"
    assert settings.policy == PRESETS["subagent"].model_copy(update={"reserve_tokens": 200})


def test_every_field_can_be_set_by_a_variable(tmp_path: Path):
    default = Settings(home=Path("/store"))
    for name in NAMES:
        value = getattr(default, name, None) if name in Settings.model_fields else None
        value = getattr(default.policy, name, value)
        text = "none" if value is None else str(value)
        variable = f"MCP_COMPACTION_{name.upper()}"
        assert load_settings(_ENVIRON | {variable: text}, {}, tmp_path), name


def test_there_are_few_settings_and_their_page_is_written_from_the_code():
    assert len(NAMES) <= 30
    assert PAGE.read_text(encoding="utf-8") == page()
    for name in NAMES:
        holder = Policy if name in POLICY else Settings
        assert str(holder.model_fields[name].description).endswith("."), name


def test_the_file_is_read_from_the_users_folder_and_never_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    work, xdg = tmp_path / "work", tmp_path / "xdg"
    for folder in (work / "mcp-compaction", work / ".config/mcp-compaction"):
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text("redact = false")
    (work / "config.toml").write_text("redact = false")
    (xdg / "mcp-compaction").mkdir(parents=True)
    (xdg / "mcp-compaction/config.toml").write_text("window_tokens = 7")
    monkeypatch.chdir(work)
    home = {"HOME": str(tmp_path)}
    assert load_settings(home).redact
    assert load_settings(home | {"XDG_CONFIG_HOME": "."}).redact
    assert load_settings(home | {"XDG_CONFIG_HOME": str(xdg)}).policy.window_tokens == 7


def test_a_project_can_be_left_unrecorded(tmp_path: Path):
    toml = '[projects."/work/secret"]\nrecord = false\n[projects."~/diary"]\nrecord = false\n'
    settings = _load(tmp_path, toml + '[projects."/work/open"]\nrecord = true')
    assert not settings.records("/work/secret")
    assert not settings.records("/work/secret/deeper")
    assert not settings.records("/home/ann/diary")
    assert settings.records("/work/open")
    assert settings.records("/work/secrets")
    assert not _load(tmp_path, RECORD="false").records("/work/open")


def test_what_was_a_setting_once_stops_no_start_and_does_nothing(tmp_path: Path):
    settings = _load(tmp_path, "min_gain_percent = 90\ncomplexity = 3", CHECKS_DIALOG="perhaps")
    assert settings.policy == Policy()
    assert not GONE.intersection(NAMES)


def test_a_program_may_set_the_other_numbers_of_the_policy_too(tmp_path: Path):
    given = {"min_gain_percent": 0, "complexity": "epic"}
    policy = load_settings(_ENVIRON, config_dir=tmp_path, keywords=given).policy
    assert (policy.min_gain_percent, policy.complexity) == (0, "epic")


def test_an_unknown_name_is_refused_with_the_nearest_one(tmp_path: Path):
    assert _complaint(tmp_path, "window_token = 5") == (
        "~conf/config.toml: window_token is no setting: did you mean window_tokens?"
    )
    assert _complaint(tmp_path, RELEASE_PERCNT="5") == (
        "MCP_COMPACTION_RELEASE_PERCNT is no setting: did you mean MCP_COMPACTION_RELEASE_PERCENT?"
    )
    assert _complaint(tmp_path, flags={"fill-treshold-percent": 5}) == (
        "--fill-treshold-percent is no setting: did you mean --fill-threshold-percent?"
    )
    assert _complaint(tmp_path, "zzz = 5").endswith("zzz is no setting: remove it.")


def test_a_bad_value_is_refused_with_its_source(tmp_path: Path):
    assert _complaint(tmp_path, "release_percent = 120") == (
        "~conf/config.toml: release_percent is 120: it should be less than or equal to 100; "
        "change or remove it."
    )
    assert _complaint(tmp_path, WINDOW_TOKENS="many") == (
        "MCP_COMPACTION_WINDOW_TOKENS is 'many': it should be a valid integer; change or remove it."
    )
    assert _complaint(tmp_path, flags={"counter": "abacus"}).startswith(
        "--counter is 'abacus': it should be 'auto', 'o200k' or 'estimate'"
    )


def test_fields_that_disagree_are_named_with_their_sources(tmp_path: Path):
    assert _complaint(tmp_path, "agent_controlled = false", FILL_THRESHOLD_PERCENT="50") == (
        "MCP_COMPACTION_FILL_THRESHOLD_PERCENT: release_percent (60) must be below "
        "fill_threshold_percent (50), which acts; lower the one or raise the other."
    )


@pytest.mark.parametrize(
    ("toml", "part"),
    [
        ("x =", "is not TOML"),
        ("projects = 3", "projects is no table"),
        ("[projects]\na = 1", '[projects."a"] is no table'),
        ('[projects."/a"]\nrecrd = false', "recrd = False has no meaning"),
        ('[projects."/a"]\nrecord = "no"', "record = 'no' has no meaning"),
    ],
)
def test_a_file_without_sense_is_refused_by_its_path(tmp_path: Path, toml: str, part: str):
    complaint = _complaint(tmp_path, toml)
    assert complaint.startswith("~conf/config.toml")
    assert part in complaint


def test_relative_and_missing_paths_are_refused(tmp_path: Path):
    assert _complaint(tmp_path, CONFIG="mine.toml").endswith("write the whole path, from / on.")
    assert "does not exist" in _complaint(tmp_path, CONFIG="/no/such/file.toml")
    assert _complaint(tmp_path, HOME="here").startswith("MCP_COMPACTION_HOME is 'here'")
    assert _load(tmp_path, 'home = "/store"').home == Path("/store")
