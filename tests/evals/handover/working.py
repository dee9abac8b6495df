"""A small session of work, as one would have it in a file."""

from __future__ import annotations

from tests.core.saying import Json, assistant, ran, used, user


def small_session(steps: int = 12) -> list[Json]:
    """A session whose later part goes on with files and commands of its first part."""
    said: list[Json] = [user("Mend the limiter. Never push to main.")]
    for n in range(steps):
        said += used(f"e{n}", "Edit", "ok", file_path=f"src/limits/part_{n}.py", new_string="x = 1")
        said += ran(f"r{n}", f"pytest -q tests/test_part_{n}.py", f"{n + 3} passed in 0.{n + 1}s")
    said.append(assistant("All parts are mended."))
    for n in range(steps):
        said += ran(f"l{n}", f"git add src/limits/part_{n}.py", "")
        said += ran(f"p{n}", f"pytest -q tests/test_part_{n}.py", f"{n + 3} passed in 0.{n + 1}s")
    return said
