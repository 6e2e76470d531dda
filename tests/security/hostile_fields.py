"""Every field of every document that a project, a target or an archive brings, with path-like values.

``python -m security.hostile_fields COUNT SEED`` (in tests/) runs that many cases as security.project_files does, with
the same oracle: nothing outside store and project is created, changed or read, and no command fails in itself.
"""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.amlconfig import compute, runconfig
from holdfast.cli import main
from holdfast.runner import untrusted
from security import project_files as files
from security.sentinel import Sentinel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    Way: TypeAlias = "tuple[str | int, ...]"

VALUES = (
    *("../../outside/secret", "{top}/outside/secret", "../x", "/", "..", ".", "~/.ssh/authorized_keys", "a/../../x"),
    *("file://{top}/outside/secret", "../outside", "{top}/outside", "a\0b", "x" * 5000, "../" * 40 + "etc/passwd"),
    *("../../user/.ssh/authorized_keys", "..\\..\\outside", "%2e%2e/x", "\ud800", "-rf", "a\nb", "{top}/new/folder"),
)
PROJECT: dict[str, dict[str, Any]] = {
    ".holdfast-project": {"id": files.GUID, "name": "project"},
    ".azureml/project.json": {"Id": files.GUID, "Scope": "accounts/a/workspaces/b/projects/c"},
    "assets/model.link": {"assetSource": "holdfast", "name": "model", "version": "1", "uid": "", "path": "m"},
    "aml_config/x.compute": {"type": "local", **dict.fromkeys(compute.KEYS, None)},
    "aml_config/x.runconfig": {"Target": "x", "Framework": "Python", **dict.fromkeys(runconfig.KEYS, None)},
}
# Which folder of this machine a target uses is confirmed by the user, not guessed from its spelling.
CONFIRMED = {"type", "root", "nativeSharedDirectory", "pythonLocation"}
# Written by the client itself, whatever the target or the archive said: where the project is, how a machine is reached.
OWN = {"project_root", "home", "reached_by", "kind", "target", "uid", "v", "crc"}
RUN = ("run.json", "client.jsonl", "a1/plan.json", "a1/outputs.jsonl", "a1/events.jsonl")
OF_PROJECT = tuple(command for command in files.COMMANDS if command[0] not in ("du", "config"))
OF_RUN: tuple[tuple[str, ...], ...] = (
    *(("runs",), ("info", "-r", "last"), ("info", "-r", "last", "-o", "json"), ("logs", "-r", "last")),
    *(("status", "-r", "last"), ("return", "-r", "last"), ("return", "-r", "last", "--overwrite")),
    *(("history", "download", "-r", "last", "-d", "got"), ("info", "-r", "last", "--artifact", "outputs/m")),
    *(("history", "list", "-o", "json"), ("history", "export", "-r", "last", "--to", "runs.zip"), ("store", "verify")),
    *(
        ("store", "prune"),
        ("diff", "-r", "last"),
        ("restore", "-r", "last"),
        ("history", "delete", "-r", "last", "--yes"),
    ),
    *(
        ("history", "promote", "-r", "last", "--artifact-path", "outputs/m", "--name", "m"),
        ("history", "metrics", "-r", "last"),
    ),
    *(("diagnostics", "-r", "last", "--to", "report.zip", "--yes"), ("retry", "-r", "last"), ("cancel", "-r", "last")),
)


class Case(NamedTuple):
    """``place``: project, run or archive; ``way`` leads to the field, and a last "key" means its name itself."""

    place: str
    document: str
    line: int
    way: Way
    value: str
    command: tuple[str, ...]

    def __str__(self) -> str:
        named = f"{self.place} {self.document}:{self.line} {'.'.join(map(str, self.way))} = {self.value[:60]!a}"
        return f"{named}: holdfast {' '.join(self.command)}"


def cases(count: int, seed: int, template: Path) -> list[Case]:
    """Every field once with some value and command, in any order; then any of all combinations."""
    rng = random.Random(seed)
    fields = list(_fields(template))
    found: list[Case] = []
    while len(found) < count:
        rng.shuffle(fields)
        for place, document, line, way in fields:
            commands = OF_PROJECT if place == "project" else OF_RUN
            found.append(Case(place, document, line, way, rng.choice(VALUES), rng.choice(commands)))
    return found[:count]


def _fields(template: Path) -> Iterator[tuple[str, str, int, Way]]:
    for document, content in PROJECT.items():
        yield from (("project", document, 0, way) for way in _ways(content) if way[0] not in CONFIRMED)
    run = next((template / "store" / "runs").iterdir())
    for document in RUN:
        for line, text in enumerate((run / document).read_text().splitlines()):
            for way in _ways(json.loads(text)):
                yield from ((place, document, line, way) for place in ("run", "archive") if way[0] not in OWN)


def _ways(value: object) -> Iterator[Way]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield (key,)
        yield from ((key, *way) for way in _ways(below))
        if isinstance(below, list) and isinstance(value, dict):
            yield (key, "key")


def changed(document: Any, way: Way, value: str) -> Any:
    """The same with that value in that field, or in the place of its name."""
    document = copy.deepcopy(document)
    inner = document
    *above, last = way[:-1] if way[-1] == "key" else way
    for step in above:
        inner = inner[step]
    if way[-1] == "key":
        inner[value] = inner.pop(last)
    else:
        inner[last] = value
    return document


def run(case: Case, template: Path, holdfast: files.Command = main.run) -> str:
    top = Path(tempfile.mkdtemp(dir=template.parent, prefix="case-"))
    try:
        for name in ("project", "store"):
            shutil.copytree(template / name, top / name, symlinks=True, copy_function=files.copy)
        sentinel = Sentinel(top)
        commands = [case.command]
        if case.place == "archive":
            _rewrite_archive(template / "runs.zip", top / "project" / "given.zip", case, top)
            shutil.rmtree(top / "store" / "runs")
            commands.insert(0, ("history", "import", "given.zip"))
        else:
            _rewrite(top, case)
        problems = [problem for command in commands for problem in files.watched(command, top, sentinel, holdfast)]
        return f"{case}: {'; '.join(problems)}" if problems else ""
    finally:
        shutil.rmtree(top, ignore_errors=True)


def _rewrite(top: Path, case: Case) -> None:
    if case.place == "project":
        path, content = top / "project" / case.document, json.dumps(PROJECT[case.document])
        plain = {name: value for name, value in PROJECT[case.document].items() if value is not None}
        content = json.dumps(changed({**plain, case.way[0]: plain.get(str(case.way[0]))}, case.way, _value(case, top)))
    else:
        path = next((top / "store" / "runs").iterdir()) / case.document
        content = _changed_lines(path.read_text(), case, top)
    path.write_text(content)


def _rewrite_archive(source: Path, target: Path, case: Case, top: Path) -> None:
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(target, "w") as after:
        for entry in before.infolist():
            data = before.read(entry)
            if entry.filename.endswith(f"/{case.document}") and entry.filename.startswith("runs/"):
                data = _changed_lines(data.decode(), case, top).encode()
            after.writestr(entry.filename, data)


def _changed_lines(text: str, case: Case, top: Path) -> str:
    lines = text.splitlines()
    lines[case.line] = json.dumps(changed(json.loads(lines[case.line]), case.way, _value(case, top)))
    return "\n".join(lines) + "\n"


def _value(case: Case, top: Path) -> str:
    return case.value.replace("{top}", str(top))


def campaign(count: int, seed: int) -> list[str]:
    files.preload()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True, dir=files.memory()) as folder:
        template = files.prepared(Path(folder))
        files.execute(("history", "export", "-r", "last", "--to", str(template / "runs.zip")), template, main.run)
        if not (template / "runs.zip").exists():
            raise RuntimeError((template / "store" / "said").read_text())
        return [problem for case in cases(count, seed, template) if (problem := run(case, template))]


def unseen() -> list[str]:
    """Cases that are not told although the checks of names are switched off."""

    def careless(command: Sequence[str]) -> int:
        for name in ("component", "relative", "guid", "hexadecimal"):
            setattr(untrusted, name, lambda value, *_: value)
        untrusted.below = os.path.join  # type: ignore[assignment]
        return main.run(command)

    secret, submit = "../../outside/secret", ("submit", "-c", "local", "train.py")
    planted = [
        Case("project", ".holdfast-project", 0, ("id",), secret, submit),
        Case("project", ".holdfast-project", 0, ("id",), "{top}/outside/secret", submit),
    ]
    files.preload()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        template = files.prepared(Path(folder))
        return [str(case) for case in planted if not run(case, template, careless)]


if __name__ == "__main__":
    if sys.argv[1] == "planted":
        sys.exit(f"not found: {left}" if (left := unseen()) else 0)
    failed = campaign(int(sys.argv[1]), int(sys.argv[2]))
    print("\n".join(failed))
    sys.exit(1 if failed else 0)
