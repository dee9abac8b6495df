"""Twins of a forgotten message: where its text still stands, in words and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mcp_compaction import compactor
from mcp_compaction.cli.console.opening import OpenedPlace
from mcp_compaction.core.wording import plural
from mcp_compaction.ports import Scope, Twin, Twins


async def find_twins(place: OpenedPlace, refs: Sequence[str]) -> Twins:
    """The other messages that hold all that these say, in every project."""
    if not refs:
        return Twins()
    info = await place.session()
    going = [Twin(project=info.project, session=info.name, ref=ref) for ref in refs]
    found: list[Twin] = []
    more = 0
    for ref in refs:
        # The command line speaks for the owner of this machine, who may see all projects.
        twins = await compactor.twins(place.workspace, info, ref, Scope(project=None))
        found += [twin for twin in twins.found if twin not in (*going, *found)]
        more += twins.more
    return Twins(found=tuple(found), more=more)


def refs_by_session(twins: Twins, project: str) -> dict[str, list[str]]:
    """The refs of the twins in one project, by the name of their session."""
    refs: dict[str, list[str]] = {}
    for twin in twins.found:
        if twin.project == project:
            refs.setdefault(twin.session, []).append(twin.ref)
    return refs


def where_twins_stand(twins: Twins, project: str) -> str:
    """A sentence that names the twins of one project and counts those of others."""
    places = [
        f"{', '.join(refs)} of {session}"
        for session, refs in refs_by_session(twins, project).items()
    ]
    places += [
        f"{plural(number, 'message')} of another project, {other}"
        for other, number in _count_elsewhere(twins, project).items()
    ]
    more = f" and in {plural(twins.more, 'message')} more" if twins.more else ""
    return f"the same text also stands in {' and in '.join(places)}{more}"


def as_document(twins: Twins, project: str) -> dict[str, object]:
    """The twins for programs: those of one project by ref, those of others counted."""
    return {
        "twins": [
            {"session": twin.session, "ref": twin.ref}
            for twin in twins.found
            if twin.project == project
        ],
        "twins_elsewhere": dict(_count_elsewhere(twins, project)),
        "more_twins": twins.more,
    }


def _count_elsewhere(twins: Twins, project: str) -> Counter[str]:
    return Counter(twin.project for twin in twins.found if twin.project != project)
