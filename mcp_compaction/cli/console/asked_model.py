"""The model that the commands which measure ask for digests, beside those that rules extract."""

from __future__ import annotations

from argparse import ArgumentParser

from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.errors import InputError
from mcp_compaction.evals.runner import AskedSummarizer
from mcp_compaction.ports import TokenCounter
from mcp_compaction.settings import load_settings
from mcp_compaction.wiring import summarizer_of


def add_summarizer(parser: ArgumentParser) -> None:
    """Declare the option that names a summarizer."""
    parser.add_argument(
        "--summarizer",
        metavar="NAME",
        help="measure a model too: anthropic, openai or auto, set up by the summarizer settings",
    )


def asked_model(call: Invocation, counter: TokenCounter) -> AskedSummarizer | None:
    """The model that writes digests beside the rules, from the user's own settings."""
    name: str | None = call.args.summarizer
    if name is None:
        return None
    settings = load_settings(call.environ, {"summarizer": name})
    if settings.summarizer_model is None or settings.summarizers == ("extractive",):
        raise InputError(
            f"--summarizer {name} asks no model; pass anthropic or openai, and set "
            "MCP_COMPACTION_SUMMARIZER_MODEL."
        )
    return AskedSummarizer(summarizer_of(settings, counter.count), settings.summarizer_model)
