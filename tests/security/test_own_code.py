"""S37: no code of a project runs on the client, whatever its files are called. S33: nothing asked becomes SQL."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import holdfast
from holdfast.errors import UsageError
from holdfast.store.home import Home
from holdfast.store.index.index import Index
from holdfast.store.index.select import Wish, select

if TYPE_CHECKING:
    from conftest import Desk

SOURCE = Path(holdfast.__file__).parent
NAMES = (
    *(
        "json",
        "os",
        "sqlite3",
        "typing",
        "holdfast",
        "ruamel",
        "jmespath",
        "packaging",
        "PIL",
        "mcp",
        "select",
        "random",
    ),
    *("numpy", "sitecustomize", "usercustomize", "conftest", "setup", "__init__", "metrics", "track"),
)
COMMANDS = (
    ("check",),
    ("submit", "-c", "local", "--dry-run", "train.py"),
    ("history", "list", "--where", "loss < 1"),
    ("history", "info"),
    ("history", "compare", "-r", "1", "-r", "1"),
    ("history", "metrics", "--name", "loss", "-o", "csv"),
    ("history", "plot", "--name", "loss"),
    ("diff", "-r", "1"),
    ("restore", "-r", "1", "--yes"),
    ("status",),
    ("logs",),
    ("env", "show"),
    ("store", "verify"),
)


def test_files_of_a_project_are_never_imported(desk: Desk) -> None:
    sentinel = desk.user_home / "ran"
    desk.script("import holdfast\nholdfast.log('loss', 0.5)\nholdfast.log('loss', 0.4)\n")
    assert desk.submit("train.py").code == 0
    for name in NAMES:
        desk.script(f"open({str(sentinel)!r}, 'a').write(__name__ + chr(10))\n", f"{name}.py")
    desk.script(f"open({str(sentinel)!r}, 'a').write('setup')\n", "holdfast/__init__.py")
    for words in COMMANDS:
        done = desk.holdfast(*words)
        assert done.code in (0, 1, 2, 65), (words, done.err)
        assert not sentinel.exists(), (words, sentinel.read_text())


def test_the_sentinel_would_be_seen(desk: Desk) -> None:
    sentinel = desk.user_home / "ran"
    desk.script(f"open({str(sentinel)!r}, 'a').write(__name__)\n", "json.py")
    desk.script("import sys; sys.path.insert(0, '.'); import json\n", "evil.py")
    import subprocess
    import sys

    subprocess.run([sys.executable, "evil.py"], cwd=desk.project, check=False)
    assert sentinel.exists()


ENDS = ("'", '"', "`", "')", "1)", "x", "lr = 1", "lr = 'a'", "Accuracy.max", "tags.x")
TAILS = (
    *("; DROP TABLE runs; --", " OR 1=1 --", " UNION SELECT * FROM meta", "/*", "*/ OR 1", " --", "; ATTACH 'x' AS y"),
    *(
        " AND (SELECT 1)",
        " || char(65)",
        "\0",
        "\\'; --",
        " ORDER BY 1",
        " LIMIT 0",
        ", randomblob(9)",
        " COLLATE NOCASE",
    ),
    *(" ESCAPE '%'", " GLOB '*'", " MATCH 'x'", " IS NOT NULL; VACUUM", "?1", ":a", "@a", "$a", "%s", "%(x)s", "{0}"),
)
STRINGS = [first + last + more for first, last, more in itertools.product(ENDS, TAILS, ("", " x"))]


@pytest.fixture
def index(tmp_path: Path) -> Index:
    (tmp_path / "runs").mkdir()
    return Index(Home(str(tmp_path), "0" * 32))


def test_what_is_asked_never_becomes_part_of_a_statement(index: Index) -> None:
    assert len(STRINGS) >= 500
    statements: list[str] = []
    index.db.set_trace_callback(statements.append)
    before = index.db.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
    for text in STRINGS:
        for wish in (Wish("p", text), Wish("p", sort=text), Wish("p", columns=text)):
            try:
                select(index, wish)
            except UsageError:
                continue
    index.db.set_trace_callback(None)
    assert index.db.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall() == before
    for word in ("DROP", "UNION", "ATTACH", "VACUUM", "randomblob", "COLLATE NOCASE"):
        assert not [one for one in statements if f"{word} " in f"{one} " and not _is_quoted(word, one)], word
    index.close()


def _is_quoted(word: str, statement: str) -> bool:
    """SQLite's trace writes bound values back into the text, in quotes."""
    outside = "".join(statement.replace("''", "").split("'")[::2])
    return word not in outside


def test_statements_are_not_put_together_from_values() -> None:
    """Only the compiler of queries builds SQL, from fragments of its own; others say constants."""
    builders = {"sql.py", "select.py"}
    found = []
    for path in set(SOURCE.rglob("*.py")) - set((SOURCE / "runner").glob("*.py")):  # which knows no SQL
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                is_sql = node.func.attr in ("execute", "executemany", "executescript")
                if is_sql and path.name not in builders and not _is_constant(node.args[0]):
                    found.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert found == []


def _is_constant(text: ast.expr) -> bool:
    """A literal, a name for one, or several of these."""
    if isinstance(text, ast.JoinedStr):
        return all(not isinstance(part, ast.FormattedValue) or _is_fixed(part.value) for part in text.values)
    if isinstance(text, ast.BinOp):
        return _is_constant(text.left) and _is_constant(text.right)
    return isinstance(text, (ast.Constant, ast.Name)) or _is_fixed(text)


def _is_fixed(value: ast.expr) -> bool:
    name = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
    return name.isupper()
