"""Reads the settings once into one frozen value: flag > MCP_COMPACTION_* > TOML > default."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path, PurePath
from types import MappingProxyType, NoneType
from typing import Annotated, Any, Final, Literal, NamedTuple, Self, cast, get_args
from urllib.parse import urlsplit

from pydantic import (
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from mcp_compaction.core.policy import PRESETS, Count, Policy, Positive, setting
from mcp_compaction.errors import SettingsError
from mcp_compaction.git_folders import paths_of
from mcp_compaction.home import default_home
from mcp_compaction.lexicon.models import SummaryPrice, find_summary_price
from mcp_compaction.model import Value
from mcp_compaction.settings_file import CONFIG, NO_SETTINGS, PREFIX, at_home, settings_path

_NO_FLAGS: Mapping[str, object] = MappingProxyType({})

Dollars = Annotated[float, Field(ge=0)]

ProseTime = Literal["off", "at-compact", "ahead"]
PROSE_TIMES: tuple[ProseTime, ...] = get_args(ProseTime)

SUMMARIZERS = ("extractive", "anthropic", "openai")
"""The names that the setting `summarizer` may list; `auto` stands for the best one there is."""


class Settings(Value):
    """Everything a user can set, read once and passed on."""

    home: Path = Field(
        description="The folder the store lives in.",
        json_schema_extra={"when": "the store is to lie elsewhere, or there are several"},
    )
    project: str | None = setting(
        None,
        "The project to work in.",
        "neither the host's word nor the git top of the folder is the project that is meant",
    )
    store: SecretStr | None = setting(
        None,
        "The address of a team's PostgreSQL.",
        "many people or servers share a store; else it is a file in `home`",
    )
    owner: str = setting(
        "me", "Whose rows of a team's store are meant.", "you open a team's store by its address"
    )
    record: bool = setting(
        True, "Whether messages are recorded at all.", "nothing of your chats may be kept"
    )
    redact: bool = setting(
        True,
        "Whether secrets are masked before the disk.",
        "what looks like a secret is needed word for word, and the disk is safe",
    )
    preset: str = setting(
        "default",
        "The numbers that single settings go over: default, ladder, subagent, supervisor or lab.",
        "the window is small, or all is to go by one known scheme",
    )
    policy: Policy = Field(default=Policy(), description="The numbers that decide.")
    counter: Literal["auto", "o200k", "estimate"] = setting(
        "auto",
        "What counts tokens; auto: exact where its ranks are at hand.",
        "estimate: counting is to be fast, and a few percent do not matter",
    )
    summarizer: str = setting(
        "auto",
        "What writes digests: auto, or a list of anthropic, openai and extractive (rules).",
        "extractive: never ask a model; openai: a server that speaks chat completions",
    )
    summarizer_model: str | None = setting(
        None, "The model that writes prose.", "set it to have a model write; unset, none is asked"
    )
    summarizer_base_url: str | None = setting(
        None, "Where it is asked.", "the model runs on a server of your own, or behind a proxy"
    )
    summarizer_key_file: Path | None = setting(
        None,
        "A file of mode 600 with its key.",
        "the provider's own variable, as ANTHROPIC_API_KEY, is not set where hosts start",
    )
    summarizer_window_tokens: Positive | None = setting(
        None,
        "Tokens its window holds; unset: 4096 at an address of your own, else 100000.",
        "your server's model reads more, or less",
    )
    summarizer_max_calls_per_hour: Count | None = setting(
        60, "Most model calls in an hour, for all sessions.", "summaries stop at it, or should"
    )
    summarizer_max_cost_per_session: Dollars | None = setting(
        None,
        "Most dollars for one session; needs the model's price.",
        "one chat is not to cost more",
    )
    summarizer_max_cost_per_hour: Dollars | None = setting(
        None,
        "Most dollars in an hour, for all sessions.",
        "all chats together are not to cost more",
    )
    summarizer_prices: dict[str, SummaryPrice] = Field(
        default={}, description="Dollars for a million tokens, by model."
    )
    prose: ProseTime = setting(
        "off",
        "When the model of a chat writes its handover, checked like any draft: off, in Claude Code"
        " at-compact (at a /compact) or ahead (before the window is full); through the gateway,"
        " with an API key, either at its compactions. opencode and Codex then ask by"
        " our prompt.",
        "a handover in prose is worth a request of your chat's model",
    )
    shrink_in_turn: bool = setting(
        False,
        "Whether our module in Claude Code makes the requests of a running turn smaller, too.",
        "single turns fill the window; it was not tried on the provider's own service yet",
    )
    checks_fail: Literal["go", "ask"] = setting(
        "go",
        "What becomes of a call where the checks of pins cannot be read.",
        "ask: no call may go unseen because of a broken file",
    )
    unrecorded: tuple[str, ...] = Field(
        default=(), description="Projects whose messages are not recorded."
    )

    @field_validator("store")
    @classmethod
    def _is_postgresql(cls, store: SecretStr | None) -> SecretStr | None:
        kinds = ("postgresql://", "postgres://")
        if store is not None and not store.get_secret_value().startswith(kinds):
            raise ValueError("it should begin with postgresql://")
        return store

    @field_validator("summarizer_base_url")
    @classmethod
    def _is_plain_address(cls, url: str | None) -> str | None:
        parts = urlsplit(url or "http://localhost")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("it should begin with http:// or https://")
        if parts.username or parts.password or parts.query:
            raise ValueError("it should hold no key: write that to summarizer_key_file")
        return url

    @model_validator(mode="after")
    def _can_summarize(self) -> Self:
        unknown = [name for name in self.summarizers if name not in SUMMARIZERS]
        if unknown:
            raise ValueError(
                f"summarizer names {unknown[0]!r}; use auto, or a list of {', '.join(SUMMARIZERS)}"
            )
        if "extractive" in self.summarizers[:-1]:
            raise ValueError("summarizer lists others after extractive, which always answers")
        called = {"anthropic", "openai"}.intersection(self.summarizers)
        if len(called) > 1 and (self.summarizer_base_url or self.summarizer_key_file):
            raise ValueError(
                "summarizer names two providers, but summarizer_base_url and summarizer_key_file"
                " are for one"
            )
        asks = called or (self.summarizer_base_url and self.summarizer.strip() != "extractive")
        if asks and self.summarizer_model is None:
            raise ValueError(
                "summarizer or summarizer_base_url asks a model, but summarizer_model names none"
            )
        costs = (self.summarizer_max_cost_per_session, self.summarizer_max_cost_per_hour)
        if costs != (None, None) and self.summarizer_price is None:
            raise ValueError(
                "summarizer_max_cost_per_session and summarizer_max_cost_per_hour need the price"
                " of summarizer_model in the settings file, under [summarizer_prices]"
            )
        return self

    @property
    def summarizer_price(self) -> SummaryPrice | None:
        """What the summarizer's model costs: as the user says, else at its own provider as listed;
        None where nobody knows."""
        model = self.summarizer_model or ""
        is_at_provider = bool(model) and self.summarizer_base_url is None
        listed = find_summary_price(model) if is_at_provider else None
        return self.summarizer_prices.get(model) or listed

    @property
    def summarizers(self) -> tuple[str, ...]:
        """The summarizers in order; nothing leaves the machine unless a model is set."""
        if self.summarizer.strip() == "auto":
            return ("anthropic", "extractive") if self.summarizer_model else ("extractive",)
        return tuple(name.strip() for name in self.summarizer.split(",") if name.strip())

    def records(self, project: str) -> bool:
        """Whether messages of that project, or of the folder it lies in, are recorded: none where
        that is not wanted of one of its worktrees."""
        paths = map(PurePath, paths_of(project))
        folders = {str(one) for path in paths for one in (path, *path.parents)}
        return self.record and folders.isdisjoint(self.unrecorded)


class _Given(NamedTuple):
    """A value that was set, and where."""

    value: object
    source: str


_TABLES = ("policy", "unrecorded", "summarizer_prices")  # not one value each
_PLAIN = tuple(name for name in Settings.model_fields if name not in _TABLES)
_NUMBERS = tuple(Policy.model_fields)
POLICY: Final = tuple(name for name, field in Policy.model_fields.items() if field.description)
"""The settings that are numbers of the policy."""

NAMES: Final = (*_PLAIN, *POLICY)
"""The names of all settings: as a variable after MCP_COMPACTION_, and in TOML."""

GONE: Final = frozenset(
    (
        *(set(_NUMBERS) - set(POLICY)),
        *("overhead_per_tool", "overhead_tokens", "advise_below_trigger", "fact_days"),
        *("min_messages_to_compact", "head_preview_over_tokens", "digest_max_percent"),
        *("pinned_max_chars", "pinned_max_percent", "bound_thinking", "ask_before_resume"),
        *("summarizer_timeout_seconds", "summarizer_total_seconds", "ask_timeout_seconds"),
        *("summarizer_max_calls_per_session", "view_timeout_seconds"),
        *("checks_dialog", "offload_on_arrival"),
    )
)
"""What was a setting once: a file or a variable may still name it, and nothing comes of it."""

MAY_BE_NONE = frozenset(
    name
    for name, field in {**Settings.model_fields, **Policy.model_fields}.items()
    if field.default is not None and NoneType in get_args(field.annotation)
)
"""The settings that are a value unless somebody says `none`."""


def load_settings(
    environ: Mapping[str, str],
    flags: Mapping[str, object] = _NO_FLAGS,
    config_dir: Path | None = None,
    keywords: Mapping[str, object] = _NO_FLAGS,
) -> Settings:
    """The settings from flags, environment and the user's own file; SettingsError if one is bad.

    `keywords`: as a Python program passes them, which may set the other numbers of the policy, too.
    """
    path = settings_path(environ, config_dir)
    table = _read_file(path, required=bool(environ.get(CONFIG)))
    unrecorded = _read_unrecorded(table.pop("projects", {}), path, environ)
    prices = _read_prices(table.pop("summarizer_prices", {}), path)
    given = (
        _check_names(
            {
                name: _Given(value, f"{path}: {name}")
                for name, value in table.items()
                if name not in GONE
            }
        )
        | _from_environ(environ)
        | _check_names(
            {
                name.replace("-", "_"): _Given(value, _flag_of(name))
                for name, value in flags.items()
                if value is not None
            }
        )
        | _check_names(
            {name: _Given(value, f"{name}=") for name, value in keywords.items()},
            (*NAMES, *_NUMBERS),
        )
    )
    fields = {name: _none(given[name].value) for name in _PLAIN if name in given}
    fields["policy"] = _policy(given)
    fields["unrecorded"] = unrecorded
    fields["summarizer_prices"] = prices
    fields.setdefault("home", default_home(environ))
    return _settings(fields, given)


def settings_without_effect(environ: Mapping[str, str]) -> Settings:
    """Settings for one who cannot know what the user wants: nothing is recorded with them."""
    return Settings(home=default_home(environ), record=False)


def _settings(fields: dict[str, object], given: Mapping[str, _Given]) -> Settings:
    try:
        settings = Settings.model_validate(fields)
    except ValidationError as error:
        raise _error_of(error, given) from None
    home = settings.home.expanduser()
    if not home.is_absolute():
        source = given["home"].source if "home" in given else f"{PREFIX}HOME"
        raise SettingsError(f"{source} is {str(home)!r}: write the whole path, from / on.")
    return settings.model_copy(update={"home": home})


def _policy(given: Mapping[str, _Given]) -> Policy:
    preset, source = given.get("preset", _Given("default", ""))
    if not isinstance(preset, str) or preset not in PRESETS:
        raise SettingsError(
            f"{source} is {preset!r}, which is no preset: {_suggest_preset(preset)}"
        )
    own = {name: _none(given[name].value) for name in _NUMBERS if name in given}
    try:
        return Policy.model_validate(PRESETS[preset].model_dump(exclude_unset=True) | own)
    except ValidationError as error:
        raise _error_of(error, given) from None


def _none(value: object) -> object:
    is_none = isinstance(value, str) and value.strip().lower() == "none"
    return None if is_none else value


# Where values come from


def _read_file(path: Path, *, required: bool) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        if required:
            raise SettingsError(f"{path} does not exist: make it, or unset {CONFIG}.") from None
        return {}
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be read ({error.strerror}): give yourself the right to read it."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML ({error}): correct it there.") from error


def _from_environ(environ: Mapping[str, str]) -> dict[str, _Given]:
    return _check_names(
        {
            variable.removeprefix(PREFIX).lower(): _Given(value, variable)
            for variable, value in environ.items()
            if variable.startswith(PREFIX) and variable not in NO_SETTINGS and value.strip()
            if variable.removeprefix(PREFIX).lower() not in GONE
        }
    )


def _read_unrecorded(projects: object, path: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    if not isinstance(projects, dict):
        raise SettingsError(f'{path}: projects is no table: write [projects."/its/path"].')
    off: list[str] = []
    for project, table in cast(dict[str, object], projects).items():
        where = f'{path}: [projects."{project}"]'
        if not isinstance(table, dict):
            raise SettingsError(f"{where} is no table: write record = false under it.")
        for name, value in cast(dict[str, object], table).items():
            if name != "record" or not isinstance(value, bool):
                raise SettingsError(
                    f"{where} {name} = {value!r} has no meaning: write record = true or false."
                )
            if not value:
                off.append(str(at_home(project, environ)))
    return tuple(off)


def _read_prices(tables: object, path: Path) -> dict[str, SummaryPrice]:
    if not tables:
        return {}
    try:
        return TypeAdapter(dict[str, SummaryPrice]).validate_python(tables)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise SettingsError(
            f'{path}: summarizer_prices {where} is no price: write [summarizer_prices."model"]'
            " with input, output and if need be cached, in dollars for a million tokens."
        ) from None


# The errors of bad settings


def _check_names(given: dict[str, _Given], known: Sequence[str] = NAMES) -> dict[str, _Given]:
    for name, (_, source) in given.items():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            step = f"did you mean {_spell_like(source, near[0])}?" if near else "remove it."
            raise SettingsError(f"{source} is no setting: {step}")
    return given


def _spell_like(source: str, name: str) -> str:
    """A name spelled the way its source spells names."""
    if source.startswith("--"):
        return _flag_of(name)
    return PREFIX + name.upper() if source.startswith(PREFIX) else name


def _flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def _suggest_preset(value: object) -> str:
    names = tuple(PRESETS)
    near = get_close_matches(str(value), names, n=1)
    return f"did you mean {near[0]}?" if near else f"use {', '.join(names[:-1])} or {names[-1]}."


def _error_of(error: ValidationError, given: Mapping[str, _Given]) -> SettingsError:
    return SettingsError(" ".join(_describe_problem(detail, given) for detail in error.errors()))


def _describe_problem(detail: ErrorDetails, given: Mapping[str, _Given]) -> str:
    problem = detail["msg"].removeprefix("Value error, ").replace("Input should", "it should")
    problem = problem.partition(", unable")[0]
    name = str(detail["loc"][0]) if detail["loc"] else ""
    if name in given:
        # Who put a key into an address does not want to read it in a log.
        value = "…" if "no key" in problem else repr(given[name].value)
        return f"{given[name].source} is {value}: {problem}; change or remove it."
    # Several fields disagree: every one that was set may be the one to change.
    sources = [source for field, (_, source) in given.items() if field in problem]
    return f"{', '.join(sources)}: {problem}."
