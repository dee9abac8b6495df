"""Writes docs/settings.md: every setting with its default, its meaning and when one changes it."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from mcp_compaction.cli.console.options import describe_value
from mcp_compaction.core.policy import PRESETS, Policy
from mcp_compaction.settings import NAMES, POLICY, Settings

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"

_HEAD = """\
# Settings

Nothing has to be set. Each of these is read once at the start: a flag (`--home`, `--preset`; for
the policy those of `compress`), else the variable `MCP_COMPACTION_<NAME>`, else its line in
`~/.config/mcp-compaction/config.toml` (`MCP_COMPACTION_CONFIG` names another file), else the
default. `none` means none. `mcp-compaction doctor` shows what differs from the defaults. This page
is written by `python benchmarks/settings_page.py`.

```toml
window_tokens = 200000
summarizer_model = "qwen3:8b"
summarizer_base_url = "http://127.0.0.1:11434"

[summarizer_prices."qwen3:8b"]  # dollars for a million tokens; also `cached`
input = 0
output = 0

[projects."~/diary"]            # nothing of it is recorded
record = false
```
"""

_TAIL = """
Of one session `mcp-compaction set` says the model, the window, the task's `complexity` (the more
complex, the more is kept) and the `agent_profile`, and whether it is recorded. A program may pass
the other fields of the policy (`mcp_compaction/core/policy.py`) to `open_store`, as presets do:
"""


def table(names: tuple[str, ...]) -> list[str]:
    """The rows of these settings."""
    rows = ["| setting | default | meaning | change it when |", "|---|---|---|---|"]
    for name in names:
        field = (Policy if name in POLICY else Settings).model_fields[name]
        default = "by the system" if field.is_required() else describe_value(field.default)
        when = cast("dict[str, str]", field.json_schema_extra)["when"]
        rows.append(f"| `{name}` | {default} | {field.description} | {when} |")
    return rows


def page() -> str:
    """The whole page."""
    others = tuple(name for name in NAMES if name not in POLICY)
    lines = [_HEAD, *table(others), "", "## When to compact, and what stays", "", *table(POLICY)]
    lines += [_TAIL]
    for name, policy in PRESETS.items():
        chosen = policy.model_dump(exclude_unset=True)
        said = ", ".join(f"`{key}` {describe_value(value)}" for key, value in chosen.items())
        lines.append(f"- `{name}`: {said or 'the defaults'}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
