"""Every statement names its owner, and every key begins with it: so the tables can be spread."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import mcp_compaction
from mcp_compaction.store.postgres.dialect import translate
from mcp_compaction.store.postgres.schema import MIGRATIONS, TABLES

STORE = Path(mcp_compaction.__file__).parent / "store"
FOLDER = STORE / "postgres"
OF_NO_OWNER = {"schema.py", "database.py", "tokens.py", "dialect.py", "known.py"}
OF_BOTH = (
    *("align", "forget", "listing", "load", "log", "row_tables", "scope", "sessions"),
    *("sql_store", "views", "postgres/known"),
)
_VERB = re.compile(r"\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH)\b")
_TABLE = re.compile(r"\b(?:FROM|JOIN|UPDATE|INTO|USING) (\w+)(?: AS (\w+))?")


def test_every_statement_names_the_owner_of_each_table() -> None:
    statements = [one for path in sorted(FOLDER.glob("*.py")) for one in statements_of(path)]
    assert len(statements) > 25
    lacking = {
        f"{where}: {table}": " ".join(sql.split())
        for where, sql in statements
        for table in tables_of(sql)
        if not names_owner(sql, table)
    }
    assert lacking == {}


def test_the_statements_of_both_engines_name_the_owner_of_each_table_once_translated() -> None:
    statements = [one for name in OF_BOTH for one in statements_of(STORE / f"{name}.py")]
    assert len(statements) > 80
    lacking = {
        f"{where}: {part}": sql
        for where, sql in statements
        for part in parts_without_owner(sql.replace("…", "message"))
    }
    assert lacking == {}
    assert parts_without_owner("SELECT 1 FROM json_each(?) AS run, message") == [", message"]


def parts_without_owner(sql: str) -> list[str]:
    """The tables that a translated statement names without saying whose rows it means."""
    known = "|".join(TABLES)
    text = " ".join(translate(sql).sql.split())
    named = (
        rf"FROM (?:{known}) WHERE owner = %\(owner\)s",
        rf"INSERT INTO (?:{known}) \(owner\b",
        rf"(?:UPDATE|DELETE FROM) ({known})\b(?=.* WHERE \1\.owner = %\(owner\)s)",
    )
    for rule in named:
        text = re.sub(rule, "", text)
    return re.findall(rf"(?:FROM|JOIN|INTO|UPDATE) (?:{known})\b|, (?:{known})$", text)


def test_a_statement_of_sqlites_reads_and_writes_the_owners_rows_alone() -> None:
    read = translate("SELECT name FROM pin JOIN session AS made ON made.id = pin.session")
    assert read.sql == (
        "SELECT name FROM (SELECT * FROM pin WHERE owner = %(owner)s) AS pin JOIN (SELECT * FROM"
        " session WHERE owner = %(owner)s) AS made ON made.id = pin.session"
    )
    written = translate("UPDATE pin SET used = ? WHERE number = ? OR session IS NOT ?")
    assert written.sql == (
        "UPDATE pin SET used = %(p0)s WHERE pin.owner = %(owner)s"
        " AND (number = %(p1)s OR session IS DISTINCT FROM %(p2)s)"
    )
    put = translate("INSERT INTO view (session, json) VALUES (?, ?) ON CONFLICT (session)", 2)
    assert put.sql == (
        "INSERT INTO view (owner, session, json) VALUES (%(owner)s, %(p0)s, %(p1)s),"
        " (%(owner)s, %(p2)s, %(p3)s) ON CONFLICT (owner, session)"
    )


def test_values_become_what_postgresql_can_hold() -> None:
    asked = translate("SELECT raw FROM message WHERE role = ? AND seq IN (SELECT value FROM"
                      " json_each(?)) AND raw LIKE ?")  # fmt: skip
    assert asked.bind(("us\0er", "[1, 2]", "%\0%"), "ann") == {
        "owner": "ann", "p0": "us\u2400er", "p1": [1, 2], "p2": b"%\0%",
    }  # fmt: skip


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
