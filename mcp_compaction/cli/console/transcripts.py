"""Takes transcripts in for the commands that do: which count as a host's word, how far it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from mcp_compaction.cli.console.invocation import Invocation
from mcp_compaction.cli.console.opening import OpenedPlace
from mcp_compaction.cli.console.screen import Screen, make_teller
from mcp_compaction.cli.console.speaker import speaker_of
from mcp_compaction.core.text.secrets import masked_line
from mcp_compaction.core.wording import plural
from mcp_compaction.errors import InputError
from mcp_compaction.hosts.folders import host_of_file, note_folders, trusted_environ
from mcp_compaction.hosts.recording import RecordedPart, project_of_chat, record_new
from mcp_compaction.hosts.transcripts.pieces import Chat, Transcript

_FOREIGN_FILE = "not in the host's own folder, or not a file of yours"
_MOVED_FOLDER = "HOME or another variable moves the host's folder, which counts only at a terminal"
_LEFT_TO_HOST = "for what is new, run this in a terminal"
_AGENTS_WORD = "who said what in it is kept as the agent's word"


@dataclass(slots=True)
class Intake:
    """What became of the transcripts that were taken in."""

    taken: list[tuple[Transcript, RecordedPart]] = field(
        default_factory=list[tuple[Transcript, RecordedPart]]
    )
    failed: list[str] = field(default_factory=list[str])

    @property
    def new(self) -> int:
        """The number of messages that were not known before."""
        return sum(taken.new for _, taken in self.taken)


def environ_of_hosts(call: Invocation, home: Path) -> Mapping[str, str]:
    """The environment that says where hosts keep their transcripts; what a user names at a
    terminal is noted, and counts from then on. `home`: the folder of the store."""
    if speaker_of(call) != "user":
        return trusted_environ(call.environ, home)
    with suppress(OSError):  # where nothing can be written, it counts this time
        note_folders(call.environ, home)
    return call.environ


async def take_in(
    call: Invocation, place: OpenedPlace, transcripts: Sequence[Transcript], name: str | None = None
) -> Intake:
    """Record what is new in each of these; one that cannot be read does not stop the others."""
    intake = Intake()
    bar = _Bar(call, transcripts)
    is_named = bool(call.args.project or place.settings.project)
    for transcript in transcripts:

        def project_of(chat: Chat, transcript: Transcript = transcript) -> str:
            is_told = transcript.is_hosts_word and not is_named
            return (project_of_chat(transcript, chat) if is_told else None) or place.project

        try:
            taken = await record_new(
                place.workspace,
                transcript,
                project_of,
                name=name,
                may_record=place.settings.records,
                on_progress=bar.move,
            )
            intake.taken.append((transcript, taken))
        except InputError as error:
            intake.failed.append(str(error))
        bar.finish_one()
    bar.clear()
    return intake


def describe_intake(call: Invocation, intake: Intake) -> Iterable[str]:
    """What was recorded where, a line a session, and then what was not."""
    has_moved = False
    for transcript, taken in intake.taken:
        info = taken.session
        if info is not None and taken.new:
            which = f"the new session {info.name}" if taken.is_new else info.name
            held = taken.typed_in and f"; the chat was held in {taken.typed_in}: {_AGENTS_WORD}"
            yield f"recorded {plural(taken.new, 'message')} in {which} of {info.project}{held}"
            if not transcript.is_hosts_word:
                is_moved = host_of_file(transcript.path, call.environ) is not None
                yield f"   {_MOVED_FOLDER if is_moved else _FOREIGN_FILE}: {_AGENTS_WORD}"
                has_moved = has_moved or is_moved
    if has_moved:
        yield "to take it in as the host's own word, run this in a terminal"
    left = sum(taken.is_left_to_host for _, taken in intake.taken)
    if left:
        yield f"{plural(left, 'transcript')} known as the host's own word: {_LEFT_TO_HOST}"
    idle = sum(taken.new == 0 and taken.refused is None for _, taken in intake.taken)
    if same := idle - left:
        yield f"{plural(same, 'transcript')} had nothing new"
    off = {taken.refused for _, taken in intake.taken if taken.refused is not None}
    for project in sorted(off):
        yield f"left out what belongs to {project}: the setting `record` is false for it"
    skipped = sum(taken.skipped for _, taken in intake.taken)
    if skipped:
        yield f"{plural(skipped, 'line')} could not be read and stayed out"
    if masked := sum((taken.masked for _, taken in intake.taken), Counter[str]()):
        yield masked_line(masked)
    yield from intake.failed


def intake_as_json(intake: Intake) -> dict[str, object]:
    """The same for programs."""
    return {
        "new": intake.new,
        "transcripts": [
            {
                "path": str(transcript.path),
                "host": transcript.host,
                "is_hosts_word": transcript.is_hosts_word and not taken.typed_in,
                "session": taken.session and taken.session.model_dump(mode="json"),
                "is_new": taken.is_new,
                "new": taken.new,
                "skipped": taken.skipped,
                "masked": dict(taken.masked),
                "refused": taken.refused,
            }
            for transcript, taken in intake.taken
        ],
        "failed": intake.failed,
    }


class _Bar:
    """A bar for a person who waits: how much of the files is read."""

    def __init__(self, call: Invocation, transcripts: Sequence[Transcript]) -> None:
        self._screen: Screen = call.screen
        self._tell = make_teller(quiet=call.args.json or not call.screen.is_terminal)
        self._sizes = [_size_of(transcript) for transcript in transcripts]
        self._read = 0
        self._number = 0

    def move(self, position: int) -> None:
        read = self._read + min(position, self._sizes[self._number])
        percent = 100 * read / max(1, sum(self._sizes))
        place = f"{self._number + 1} of {plural(len(self._sizes), 'transcript')}"
        self._tell(f"{self._screen.bar(percent)}{percent:3.0f} %, {place}")

    def finish_one(self) -> None:
        self._read += self._sizes[self._number]
        self._number += 1

    def clear(self) -> None:
        self._tell("")


def _size_of(transcript: Transcript) -> int:
    try:
        return transcript.size()
    except InputError:
        return 0
