"""Reads the packages that were recorded for a run."""

from __future__ import annotations

from holdfast.runner import json_text, untrusted
from holdfast.runner.store import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json
    from holdfast.store.runs import Run

_LARGEST = 32 << 20
_TEXTS = ("path", "version", "implementation", "environment", "kind", "base")
_COUNTS = ("packages", "conda_packages")


def interpreter(run: Run) -> Json | None:
    """The Python that ran the script, its environment and the number of its packages; None where none was recorded."""
    python = _event(run).get("python")
    if not isinstance(python, dict):
        return None
    interpreter: Json = {name: python.get(name) if isinstance(python.get(name), str) else None for name in _TEXTS}
    interpreter.update({name: python[name] for name in _COUNTS if isinstance(python.get(name), int)})
    return interpreter


def read(run: Run) -> Json | None:
    """``python``, ``packages`` and ``conda`` of the newest attempt; None where none were recorded."""
    import hashlib

    try:
        data = untrusted.read_file(layout.package_file(run.attempt), _LARGEST, follow=False)
        if hashlib.sha256(data).hexdigest() != _event(run).get("sha256"):
            return None
        from holdfast.runner.machine.package_record import checked

        packages: Json = json_text.loads(checked(untrusted.loads(data))[0].decode("ascii"))
    except (OSError, ValueError):
        return None
    return packages


def versions(packages: Json) -> dict[str, str]:
    """Version by name, with the commit or path of what came from elsewhere than an index."""
    conda = {str(row["name"]): str(row["version"]) for row in rows(packages, "conda")}
    return {**conda, **{str(row["name"]): described(row) for row in rows(packages, "packages")}}


def described(row: Json) -> str:
    """The version of one package, and where it came from if that was no index."""
    version = str(row.get("version") or "")
    if not row.get("url"):
        return version
    commit = f" at {str(row['commit'])[:12]}" if row.get("commit") else ""
    return f"{version} ({'editable, ' if row.get('editable') else ''}{row['url']}{commit})"


def rows(packages: Json, name: str) -> list[Json]:
    rows = packages.get(name)
    return rows if isinstance(rows, list) else []


def _event(run: Run) -> Json:
    return next((event for event in reversed(run.events) if event.get("type") == "packages"), {})
