"""What an old project is: its era, run configurations, targets, scripts and data flows, read without running it."""

from __future__ import annotations

import ast
import os
import re
import warnings

from holdfast.amlconfig.compute import read_compute
from holdfast.engine.revival import fixes, project_check
from holdfast.environments.revival import script_imports
from holdfast.record import Record
from holdfast.runner import untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from holdfast.amlconfig.types import Finding
    from holdfast.engine.revival.fixes import Change
    from holdfast.model import Json

ENTRY, MODULE, SCORING, UNREADABLE = "entry", "module", "scoring", "unreadable"
_MOST_BYTES = 1 << 20
_FLOWS = (".dprep", ".dsource")
_SUCCESSOR = re.compile(rb"^\s*[\"']?script[\"']?\s*:", re.M)


class Report(Record):
    """A project as found. ``roles`` are scripts with what they are; ``left`` is what only its author can change."""

    root: str
    name: str
    era: str
    configurations: tuple[Json, ...]
    targets: tuple[Json, ...]
    roles: tuple[tuple[str, str], ...]
    flows: tuple[str, ...]
    findings: tuple[Finding, ...]
    changes: tuple[Change, ...]
    left: tuple[str, ...]

    @property
    def entries(self) -> list[str]:
        return [file for file, role in self.roles if role == ENTRY]


def survey(root: str, known_targets: Collection[str] = ()) -> Report:
    """Read the whole project; nothing of it is run or changed."""
    changes, left = fixes.changes(root, known_targets)
    return Report(
        root,
        os.path.basename(os.path.normpath(root)),
        _era(root),
        tuple(
            {"name": config.name, "target": config.target, "framework": config.framework or "PySpark (not stated)"}
            for config in project_check.configurations(root)
        ),
        tuple(_targets(root)),
        tuple(roles(root)),
        tuple(_flows(root)),
        tuple(project_check.check(root, known_targets)),
        tuple(changes),
        tuple(left),
    )


def roles(root: str) -> Iterator[tuple[str, str]]:
    """Scripts to run, modules of others, scripts for web services, and what Python 3 cannot parse."""
    files = list(script_imports.scripts(root))
    imported: set[str] = set()
    for file in files:
        script = script_imports.read(root, file)
        imported.update(use.name.partition(".")[0] for use in (script.uses if script is not None else ()))
    for file in files:
        yield file, _role(root, file, imported)


def _role(root: str, file: str, imported: set[str]) -> str:
    try:
        data = untrusted.read_file(os.path.join(root, file), _MOST_BYTES, root)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return UNREADABLE
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if {"init", "run"} <= functions:
        return SCORING
    stem = os.path.basename(file)[:-3]
    if stem == "__init__" or stem in ("setup", "conftest"):
        return MODULE
    has_main = any(isinstance(node, ast.If) and _asks_for_name(node.test) for node in tree.body)
    acts = any(isinstance(node, (ast.Expr, ast.For, ast.With, ast.While)) and not _is_text(node) for node in tree.body)
    return ENTRY if has_main or (acts and stem not in imported) else MODULE


def _asks_for_name(test: ast.expr) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(test))


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _era(root: str) -> str:
    texts = []
    for name in project_check.names(root, ".runconfig"):
        try:
            texts.append(untrusted.read_file(os.path.join(root, project_check.FOLDER, name), _MOST_BYTES, root))
        except (OSError, ValueError):
            continue
    if any(_SUCCESSOR.search(text) for text in texts):
        return "Azure Machine Learning SDK, from September 2018"
    if any(text.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") for text in texts):
        return "Workbench, JSON run configurations, until September 2017"
    if texts or os.path.isdir(os.path.join(root, project_check.FOLDER)):
        return "Workbench, 2017 to 2018"
    return "a folder without aml_config"


def _targets(root: str) -> Iterator[Json]:
    for name in project_check.names(root, ".compute"):
        shown = f"{project_check.FOLDER}/{name}"
        target, _ = read_compute(os.path.join(root, shown), shown)
        yield {"name": name[:-8], "type": target.kind.name if target is not None else None}


def _flows(root: str) -> Iterator[str]:
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if not name.startswith("."))
        for file in sorted(files):
            if file.endswith(_FLOWS):
                yield os.path.relpath(os.path.join(folder, file), root).replace(os.sep, "/")
