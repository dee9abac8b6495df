"""Compresses one session twice, by rules and with a model on this machine, and shows both."""

from __future__ import annotations

import argparse
import json
import tempfile
from typing import Any

from mcp_compaction import Compaction, open_store, outcome_text

RULE = "Never raise the limit above 100 requests a minute."
STEP_TOKENS = 220  # about what one step of the made-up session takes


def read_arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-url", default="http://127.0.0.1:11434", help="the server's address")
    parser.add_argument("--model", required=True, help="the model, as the server calls it")
    parser.add_argument("--speaks", choices=("openai", "anthropic"), default="openai")
    parser.add_argument("--window", type=int, default=4_096, help="tokens the model can read")
    parser.add_argument("--tokens", type=int, default=6_000, help="about the size of the session")
    return parser.parse_args()


def settings_of(args: argparse.Namespace) -> dict[str, object]:
    """The settings that ask the model; in a settings file they have the same names."""
    url = args.base_url.rstrip("/")
    if args.speaks == "openai" and not url.endswith("/v1"):
        url += "/v1"  # the SDK of the Messages API adds it by itself, chat completions do not
    return {
        "summarizer": args.speaks,
        "summarizer_base_url": url,
        "summarizer_model": args.model,
        "summarizer_window_tokens": args.window,
    }


def limiter_step(number: int) -> list[dict[str, Any]]:
    """One step of an agent that works on a rate limiter: what it says, reads and finds."""
    call = {
        "type": "tool_use",
        "id": f"t{number}",
        "name": "Read",
        "input": {"path": f"src/limits/rule_{number}.py"},
    }
    said = f"Rule {number} of the limiter is next: I read it, change it and run its tests."
    lines = [f"    if key == 'client-{number}-{n}': return {40 + n}" for n in range(9)]
    code = "\n".join([f"def limit_{number}(key: str) -> int:", *lines, "    return 60"])
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": code}
    return [
        {"role": "assistant", "content": [{"type": "text", "text": said}, call]},
        {"role": "user", "content": [result]},
    ]


def compress(tokens: int, settings: dict[str, object]) -> tuple[str, str, str]:
    """The receipt, the digests and the whole view of the made-up session, in a store of its own."""
    with (
        tempfile.TemporaryDirectory() as home,
        open_store(home=home, project="/local", window_tokens=tokens, **settings) as store,
    ):
        session = store.session("limiter")
        session.record({"role": "user", "content": f"Tidy up the rate limiter. {RULE}"})
        session.pin(RULE, by="user")
        for number in range(tokens // STEP_TOKENS):
            session.record(limiter_step(number))
        outcome = session.compress("try a model", force=True)
        digests = outcome.digests if isinstance(outcome, Compaction) else ()
        texts = [quote.text for digest in digests for quote in session.quote(digest.ref)]
        view = json.dumps(session.request("anthropic"))
    return outcome_text(outcome), "\n".join(texts), view


def only_in(digest: str, other: str) -> list[str]:
    """The items of a digest that the other one does not have."""
    known = set(other.splitlines())
    return [line for line in digest.splitlines() if line.startswith("- ") and line not in known]


def gone_from(digest: str, view: str) -> list[str]:
    """The items of a digest with a word that stands nowhere in a view."""
    items = [line for line in digest.splitlines() if line.startswith("- ")]
    return [line for line in items if any(word not in view for word in line.split())]


def main() -> None:
    """Show the receipt and what the model made of the digest."""
    args = read_arguments()
    _, by_rules, _ = compress(args.tokens, {"summarizer": "extractive"})
    receipt, by_model, view = compress(args.tokens, settings_of(args))
    print(receipt)
    print(f"\n{args.model} added:")
    print("\n".join(only_in(by_model, by_rules)) or "nothing")
    print("\nextracted, and no longer there:")
    print("\n".join(gone_from(by_rules, view)) or "nothing")


if __name__ == "__main__":
    main()
