"""Compresses one session twice, by rules and with a model on this machine, and shows both."""

from __future__ import annotations

import argparse
import asyncio
import tempfile

from mcp_compaction.core.compaction.receipt.text import outcome_text
from mcp_compaction.core.digest.text import render_digest
from mcp_compaction.evals.scenarios import make_sessions
from mcp_compaction.model import Ask, Compaction
from mcp_compaction.ports import SessionKey
from mcp_compaction.settings import load_settings
from mcp_compaction.wiring import open_compactor


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-url", default="http://127.0.0.1:11434", help="the server's address")
    parser.add_argument("--model", required=True, help="the model, as the server calls it")
    parser.add_argument("--speaks", choices=("openai", "anthropic"), default="openai")
    parser.add_argument("--window", type=int, default=4_096, help="tokens the model can read")
    parser.add_argument("--tokens", type=int, default=6_000, help="about the size of the session")
    parser.add_argument("--seconds", type=float, default=120, help="the longest wait for one call")
    return parser.parse_args()


def asking(args: argparse.Namespace) -> dict[str, object]:
    """The settings that ask the model; in a settings file they have the same names."""
    url = args.base_url.rstrip("/")
    if args.speaks == "openai" and not url.endswith("/v1"):
        url += "/v1"  # the SDK of the Messages API adds it by itself, chat completions do not
    return {
        "summarizer": args.speaks,
        "summarizer_base_url": url,
        "summarizer_model": args.model,
        "summarizer_window_tokens": args.window,
        "summarizer_timeout_seconds": args.seconds,
    }


async def compressed(size: int, flags: dict[str, object]) -> tuple[str, str]:
    """The receipt and the digests of one session, made anew in a store of its own."""
    (case,) = make_sessions(seed=7, number=1, tokens=size)
    with tempfile.TemporaryDirectory() as home:
        settings = load_settings({"MCP_COMPACTION_HOME": home}, {"window_tokens": size, **flags})
        compactor = await open_compactor(settings)
        try:
            session, _ = await compactor.open(SessionKey(project="/local", name=case.name))
            await compactor.record(session, case.came)
            for rule in case.pins:
                await compactor.pin(session, rule, by="user")
            outcome = await compactor.compress(session, Ask(reason="try a model", force=True))
        finally:
            await compactor.close()
    digests = outcome.digests if isinstance(outcome, Compaction) else ()
    return outcome_text(outcome), "\n".join(map(render_digest, digests))


def only_in(digest: str, other: str) -> list[str]:
    """The items of a digest that the other one does not have."""
    known = set(other.splitlines())
    return [line for line in digest.splitlines() if line.startswith("- ") and line not in known]


async def main() -> None:
    """Show the receipt and what the model made of the digest."""
    args = arguments()
    _, by_rules = await compressed(args.tokens, {"summarizer": "extractive"})
    receipt, by_model = await compressed(args.tokens, asking(args))
    print(receipt)
    print(f"\n{args.model} added:")
    print("\n".join(only_in(by_model, by_rules)) or "nothing")
    print("\nextracted, and no longer there:")
    print("\n".join(only_in(by_rules, by_model)) or "nothing")


if __name__ == "__main__":
    asyncio.run(main())
