"""Counts what docs/decisions/0017-folders-by-subject.md compares: ``python tools/readability.py COMMIT...``.

modules      modules of the largest source folder, ``cli/commands`` aside, and the number of source folders
lines        lines of Python in src/holdfast
dialect      the words of ``DIALECT`` in all text of src, docs and the top-level pages
prose        the same in docstrings and comments of src, and in docs, as tests/test_language.py counts
joins        calls of os.path.join with a fixed file name of a store, outside the modules that define the layout
names        parameters and variables that do not say what they hold, as tests/test_language.py counts
replaces     calls of os.replace or os.rename, outside the modules that define how files are written
"""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
LANGUAGE = runpy.run_path(str(ROOT / "tests" / "test_language.py"))
DIALECT = re.compile(r"\b(nobody|somebody|whoever|anybody|house|rooms?|floor|storey)\b", re.IGNORECASE)
STORE_NAMES = {
    *("runs", "objects", "cache", "locks", "trash", "numbers", "environments", "runner", "ssh", "targets", "shims"),
    *("run.json", "plan.json", "events.jsonl", "client.jsonl", "outputs.jsonl", "control.jsonl", "log", "runner.log"),
    *(
        "outputs",
        "metrics",
        "gpu",
        "work",
        "workspace",
        "alive",
        "settings.json",
        "trust.json",
        "assets.jsonl",
        "agent.jsonl",
    ),
    *("store.json", "index.sqlite", "solved", "clock", "saved"),
}
LAYOUT = {"home", "layout"}
WRITERS = {"files", "atomic"}


def main(commits: list[str]) -> int:
    names = ("modules", "folders", "lines", "dialect", "prose", "names", "joins", "replaces")
    print(f"{'commit':<12}" + "".join(f"{name:>10}" for name in names))
    for commit in commits or ["HEAD"]:
        with tempfile.TemporaryDirectory() as folder:
            packed = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
            subprocess.run(["tar", "-x", "-C", folder], input=packed, check=True)
            counts = counted(Path(folder))
        print(f"{commit:<12}" + "".join(f"{counts[name]:>10}" for name in names))
    return 0


def counted(root: Path) -> dict[str, int]:
    package = root / "src" / "holdfast"
    sources = [path for path in package.rglob("*.py") if not {"templates", "compat"} & set(path.parts)]
    folders = Counter(path.parent.relative_to(package).as_posix() for path in sources if path.stem != "__init__")
    pages = [*root.glob("*.md"), *root.joinpath("docs").rglob("*.md")]
    texts = [path.read_text(encoding="utf-8") for path in (*sources, *pages)]
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sources}
    return {
        "modules": max(count for folder, count in folders.items() if folder != "cli/commands"),
        "folders": len(folders),
        "lines": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in sources),
        "dialect": sum(len(DIALECT.findall(text)) for text in texts),
        "prose": sum(len(DIALECT.findall(text)) for text in _prose(sources, pages)),
        "names": sum(_vague_names(path) for path in sources),
        "joins": sum(_joins(tree) for path, tree in trees.items() if path.stem not in LAYOUT),
        "replaces": sum(_replaces(tree) for path, tree in trees.items() if path.stem not in WRITERS),
    }


def _prose(sources: list[Path], pages: list[Path]) -> Iterator[str]:
    for path in sources:
        yield from (text for _, text in LANGUAGE["_prose"](path.read_text(encoding="utf-8")))
    for path in pages:
        if f"docs/{path.name}" not in LANGUAGE["OTHERS"] and path.name not in LANGUAGE["OTHERS"]:
            yield LANGUAGE["prose_of_page"](path.read_text(encoding="utf-8"))


def _vague_names(path: Path) -> int:
    names = LANGUAGE["_local_names"](path.read_text(encoding="utf-8"))
    return sum(name in LANGUAGE["VAGUE"] for _, name in names)


def _joins(tree: ast.Module) -> int:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_call(node, "os.path.join")]
    return sum(any(_fixed(argument) in STORE_NAMES for argument in call.args) for call in calls)


def _replaces(tree: ast.Module) -> int:
    return sum(_is_call(node, "os.replace") or _is_call(node, "os.rename") for node in ast.walk(tree))


def _is_call(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == name


def _fixed(node: ast.expr) -> str:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, (str, bytes)):
        return ""
    return node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
