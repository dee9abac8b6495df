"""Every error a caller can meet, as one tree; each message ends with the next step.

CompactionError
├── InputError                 the request cannot be carried out as it was asked
│   ├── UnknownSession         no session of that name in this project
│   ├── UnknownRef             no message, digest, pin or compaction of that ref
│   ├── NothingRecorded        the session holds no message yet
│   ├── ForgottenChat          a history of a chat whose words were forgotten
│   ├── PinRefused             over the pinned block's budget, blank, or already there
│   ├── NeedsUser              only the user may do this
│   └── MalformedMessage       not a message of a known shape, or over the size limit
├── StoreError                 the store cannot be used as it is
│   ├── StoreBusy              another process held the store past the deadline
│   ├── LogMoved               others wrote to the same session meanwhile
│   ├── StoreNewer             written by a newer version; left untouched
│   ├── StoreEarly             made by a version before the first that was kept; left untouched
│   ├── StoreDamaged           not a sound store; left untouched
│   ├── StoreMoved             its file was removed or replaced while it was open
│   ├── StoreFull              no room on the disk
│   └── StoreReadOnly          the folder or file cannot be written
├── NotSent                    a team's server does not take what is sent to it
│   └── ServerAway             it does not answer at all
├── SummarizerError            a summarizer gave no usable draft
└── SettingsError              a setting has no meaning
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the model knows this module, not the other way round
    from mcp_compaction.model import ModelCall


class CompactionError(Exception):
    """The base of all errors raised on purpose; its text is fit for a model and a person."""


class InputError(CompactionError):
    """The request cannot be carried out as it was asked; nothing was changed."""


class UnknownSession(InputError):
    """No session of that name or id in this scope."""


class UnknownRef(InputError):
    """No message, digest, pin or compaction of that ref in this scope."""


class NothingRecorded(InputError):
    """The session holds no message yet."""


class ForgottenChat(InputError):
    """A history that holds words which their user has had forgotten."""


class PinRefused(InputError):
    """The pin is blank, too large for the pinned block, or already there."""


class NeedsUser(InputError):
    """Only the user may do this: an agent's word is not enough."""


class MalformedMessage(InputError):
    """Not a message of a known shape, or over the size limit."""


class StoreError(CompactionError):
    """The store cannot be used as it is; nothing was changed."""


class StoreBusy(StoreError):
    """Another process held the store past the deadline."""


class LogMoved(StoreError):
    """Others wrote to the same session meanwhile; nothing was written."""


class StoreNewer(StoreError):
    """The store was written by a newer version and was left untouched."""


class StoreEarly(StoreError):
    """The store was made by a version before the first that was kept, and was left untouched."""


class StoreDamaged(StoreError):
    """The file is not a sound store and was left untouched."""


class StoreMoved(StoreError):
    """The store's file was removed or replaced while it was open; nothing was written."""


class StoreFull(StoreError):
    """The disk has no room for the write."""


class StoreReadOnly(StoreError):
    """The store's folder or file cannot be written."""


class NotSent(CompactionError):
    """A team's server does not take what is sent; it waits, and the next try begins with it."""


class ServerAway(NotSent):
    """A team's server does not answer."""


class SummarizerError(CompactionError):
    """A summarizer gave no usable draft; its words are fit for a receipt: no key, no body."""

    def __init__(self, reason: str, calls: tuple[ModelCall, ...] = ()) -> None:
        super().__init__(reason)
        self.calls = calls  # what was asked of models in vain


class SettingsError(CompactionError):
    """A setting has no meaning."""
