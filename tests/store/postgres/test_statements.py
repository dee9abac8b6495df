"""Every statement names its owner, and every key begins with it: so the tables can be spread."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import mcp_compaction
from mcp_compaction.store.postgres.schema import MIGRATIONS, TABLES

FOLDER = Path(mcp_compaction.__file__).parent / "store" / "postgres"
OF_NO_OWNER = {"schema.py", "database.py", "tokens.py"}  # migrations and tokens
_VERB = re.compile(r"\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH)\b")
_TABLE_PUT_IN = re.compile(r"\b(?:FROM|UPDATE|INTO) …")
_TABLE = re.compile(r"\b(?:FROM|JOIN|UPDATE|INTO|USING) (\w+)(?: AS (\w+))?")


def test_every_statement_names_the_owner_of_each_table() -> None:
    statements = [one for path in sorted(FOLDER.glob("*.py")) for one in statements_of(path)]
    assert len(statements) > 80
    lacking = {
        f"{where}: {table}": " ".join(sql.split())
        for where, sql in statements
        for table in tables_of(sql)
        if not names_owner(sql, table)
    }
    assert lacking == {}
    named_later = [sql for _, sql in statements if _TABLE_PUT_IN.search(sql)]
    assert named_later
    assert all(names_owner(sql, "…") for sql in named_later)


def test_the_rule_finds_a_statement_without_an_owner() -> None:
    joined = (
        "SELECT 1 FROM pin JOIN session ON session.id = pin.session WHERE pin.owner = %(owner)s"
    )
    assert [t for t in tables_of(joined) if not names_owner(joined, t)] == ["session"]
    assert not names_owner("DELETE FROM pin WHERE number = 1", "pin")


def test_every_key_begins_with_the_owner() -> None:
    statements = "\n".join(sql for step in MIGRATIONS for sql in step)
    keys = re.findall(r"PRIMARY KEY \((\w+)|UNIQUE \((\w+)|INDEX \w+ ON \w+ \((\w+)", statements)
    assert len(keys) > len(TABLES)
    assert {name for found in keys for name in found if name} == {"owner"}
    assert re.findall(r"CREATE TABLE (\w+)", statements) == [*TABLES, "token"]


def statements_of(path: Path) -> list[tuple[str, str]]:
    """The statements that a module writes out, where a part is put in as if it were not there."""
    if path.name in OF_NO_OWNER:
        return []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {id(v) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for v in n.values}
    found: list[tuple[str, str]] = []
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [one.value if isinstance(one, ast.Constant) else "…" for one in node.values]
            text = "".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if _VERB.match(text) and "said" not in text and "FROM term" not in text:  # SQLite's index
            found.append((f"{path.name}:{node.lineno}", text))
    return found


def tables_of(sql: str) -> list[str]:
    """The tables of a statement, by the names it calls them."""
    return [alias or table for table, alias in _TABLE.findall(sql) if table in TABLES]


def names_owner(sql: str, table: str) -> bool:
    """Whether a statement says whose rows of a table it means."""
    if re.search(rf"INSERT INTO {table} \(\s*owner\b", sql):
        return "%(owner)s" in sql
    if f"{table}.owner = %(owner)s" in sql:
        return True
    return len(set(tables_of(sql))) <= 1 and "owner = %(owner)s" in sql
