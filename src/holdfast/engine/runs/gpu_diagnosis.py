"""Diagnoses an idle GPU from the events and the snapshot of a run."""

from __future__ import annotations

import os

from holdfast.runner.decoding import readable
from holdfast.runner.store import objects
from holdfast.store import history_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.advice.gpu_doctor import Finding
    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.store.runs import Run

_READ = (".py", ".ipynb", ".txt", ".in", ".yml", ".yaml", ".toml", ".compute", ".runconfig")
MOST_FILES = 200
MOST_BYTES = 200_000
_DEPTH = 6


def lines_for(home: Home, run: Run) -> list[str]:
    """Two lines of text for each cause; none where all is well or the cause is unknown. Never raises."""
    return [
        line
        for finding in of_run(home, run)
        for line in (f"{finding.where}: {finding.what}", f"    try: {finding.fix}")
    ]


def of_run(home: Home, run: Run) -> list[Finding]:
    """The causes. A run is not read any further than its events unless they say that something is wrong."""
    try:
        receipt, check = history_record.gpu_receipt(run), _check(run)
        if not _is_ill(receipt, check):
            return []
        from holdfast.advice import gpu_doctor

        compute = f"aml_config/{run.request.get('target')}.compute"
        return gpu_doctor.findings(receipt, check, dict(_texts(home, run)), compute=compute)
    except Exception:  # advice is no reason to fail
        return []


def unused_framework(home: Home, run: Run) -> tuple[str, str] | None:
    """Of a completed run that requested no GPU on a machine that has one: a source file and its GPU framework."""
    kinds = {str(event.get("type")): event for event in run.events}
    if "gpu_unused" not in kinds or (kinds.get("closed") or {}).get("outcome") != "completed":
        return None
    try:
        from holdfast.advice import gpu_frameworks

        return gpu_frameworks.imported(dict(_texts(home, run)), _script(run))
    except Exception:  # advice is no reason to fail
        return None


def _is_ill(receipt: Json | None, check: Json | None) -> bool:
    verdict = (receipt or {}).get("verdict")
    if verdict == "used":
        from holdfast.advice import gpu_doctor

        return gpu_doctor.is_starved(receipt or {})
    return verdict in ("idle", "absent") or (receipt is None and check is not None and check["ok"] is False)


def _check(run: Run) -> Json | None:
    """The last result of the GPU check; it came from a target and is cleaned before use."""
    import json

    from holdfast.runner.gpu import probe_verdict

    event = next((event for event in reversed(run.events) if event.get("type") == "gpu_check"), None)
    if event is None:
        return None
    facts = probe_verdict.parsed(json.dumps(event.get("facts")).encode())
    texts = {name: probe_verdict.plain(event.get(name)) for name in ("why", "fix")}
    return {"ok": event.get("ok") is not False, **texts, "facts": facts or {}}


def _texts(home: Home, run: Run) -> Iterator[tuple[str, str]]:
    """Sources and declarations of the snapshot, the script first, then from the top of the project down."""
    root = os.fsencode(home.objects)
    script = _script(run)
    files: list[tuple[int, str, objects.Entry]] = []
    _collect(root, str(run.request.get("tree")), b"", files)
    files.sort(key=lambda item: (item[1] != script, item[0], item[1]))
    for _, name, entry in files[:MOST_FILES]:
        text = readable(objects.read(root, entry.digest))
        yield name, _cells(text) if name.endswith(".ipynb") else text


def _script(run: Run) -> str:
    """The file of the project that the run is about."""
    request = run.request
    return str(request.get("source") or request.get("script") or request.get("script_name") or "")


def _cells(text: str) -> str:
    """The code of a notebook."""
    import json

    try:
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        return "\n".join("".join(cell["source"]) for cell in cells)
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def _collect(root: bytes, tree: str, below: bytes, files: list[tuple[int, str, objects.Entry]]) -> None:
    depth = below.count(b"/") + 1 if below else 0
    for entry in objects.read_tree(root, tree, below):
        path = os.path.join(below, entry.name)
        name = readable(path)
        if entry.kind == "dir" and depth < _DEPTH:
            _collect(root, entry.digest, path, files)
        elif entry.kind == "file" and name.endswith(_READ) and entry.size <= MOST_BYTES:
            files.append((depth, name, entry))
