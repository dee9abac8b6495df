"""The one asynchronous shell: load, drive the flow, save; every host and command enters here.

Its verbs are functions on one `Workspace`: `await compactor.pin(work, info, wish)`. The module of
each is loaded when it is first named: most commands only look something up.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

# The imports are for readers of types; at run time the table finds each verb.
# ruff: noqa: F401
# pyright: reportUnusedImport=false
if TYPE_CHECKING:
    from mcp_compaction.compactor.checking import (
        describe_check,
        held_calls,
        set_checks,
        try_checks,
    )
    from mcp_compaction.compactor.compressing import (
        compress,
        digest_log,
        fill_to_relieve,
        is_ready,
        make,
        prepare,
        relieve,
    )
    from mcp_compaction.compactor.headless import tell_programs
    from mcp_compaction.compactor.history_fitting import compare, fit, record_answer, record_history
    from mcp_compaction.compactor.host_summaries import check_host_summary
    from mcp_compaction.compactor.offering import decline_fact, keep_fact, offered_facts
    from mcp_compaction.compactor.pinning import (
        announce,
        is_said,
        owner_of,
        pin,
        pin_question,
        show_late_pins,
        unpin,
    )
    from mcp_compaction.compactor.recalling import brief, originals, quote, recall, recall_refs
    from mcp_compaction.compactor.recording import (
        is_off,
        record,
        record_transcript,
        switch_recording,
        take_over,
        vouch,
    )
    from mcp_compaction.compactor.records import (
        export,
        forget,
        read_after_compaction,
        read_records,
        receipts,
        twins,
    )
    from mcp_compaction.compactor.sessions import (
        find_named,
        find_session,
        list_sessions,
        open_session,
        own_window,
        put_pins_back,
    )
    from mcp_compaction.compactor.shortening import shorten
    from mcp_compaction.compactor.stats import load_newest, read_stats, stats_of
    from mcp_compaction.compactor.thinking import (
        leave_out_thinking,
        list_thinking_left_out,
        note_passing,
        take_refusal,
    )
    from mcp_compaction.compactor.viewing import begin, context, page_in, restore

_VERBS = {
    "checking": "describe_check held_calls set_checks try_checks",
    "compressing": "compress digest_log fill_to_relieve is_ready make prepare relieve",
    "headless": "tell_programs",
    "history_fitting": "compare fit record_answer record_history",
    "host_summaries": "check_host_summary",
    "offering": "decline_fact keep_fact offered_facts",
    "pinning": "announce is_said owner_of pin pin_question show_late_pins unpin",
    "recalling": "brief originals quote recall recall_refs",
    "recording": "is_off record record_transcript switch_recording take_over vouch",
    "records": "export forget read_after_compaction read_records receipts twins",
    "sessions": "find_named find_session list_sessions open_session own_window put_pins_back",
    "shortening": "shorten",
    "stats": "load_newest read_stats stats_of",
    "thinking": "leave_out_thinking list_thinking_left_out note_passing take_refusal",
    "viewing": "begin context page_in restore",
}
_MODULES = {verb: module for module, verbs in _VERBS.items() for verb in verbs.split()}


def __getattr__(name: str) -> object:
    """The verb of that name; it is looked up once."""
    if name not in _MODULES:
        raise AttributeError(f"the compactor has no {name!r}")
    found: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = found
    return found
