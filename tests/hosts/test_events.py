"""The table of events: what install writes and what the server understands is the same."""

from __future__ import annotations

import pytest

from mcp_compaction.hosts.events import HookedHost, hooked_hosts
from mcp_compaction.hosts.folders import known_hosts

ALL = pytest.mark.parametrize("host", hooked_hosts().values(), ids=lambda host: host.name)


@ALL
def test_every_host_with_hooks_has_transcripts_that_are_read(host: HookedHost) -> None:
    assert host.name in {known.name for known in known_hosts()}


@ALL
def test_the_hooks_of_one_event_differ_only_in_what_they_put_back(host: HookedHost) -> None:
    for hook in host.hook:
        first = host.find_hook(hook.event)
        assert first is not None
        if hook.moment == "check":  # by a command of its own
            continue
        assert (first.moment, first.answer) == (hook.moment, hook.answer)
