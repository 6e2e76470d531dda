"""Checks runs from elsewhere (an archive, a shared folder) and admits them to the store.

A run is checked like one from another machine (``pull_runs``): every field must have its type, its files must have the
hashes of the closing event, and the address of its machine is not taken over.
"""

from __future__ import annotations

import os

from holdfast import lifecycle
from holdfast.engine.transfer.pull_runs import understand
from holdfast.runner.store import layout, objects
from holdfast.runner.store.objects import Batch
from holdfast.store import history_record, request_file, verify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.engine.transfer.pull_runs import Offer
    from holdfast.model import Json, Project
    from holdfast.store.home import Home
    from holdfast.store.runs import Run
    from holdfast.store.staging import Staging

_KEPT = ("git", "reproduces", "description", "environment")  # of a request, beside what strange machines may tell
_NO_CODE = "0" * 64
_NOT_LISTED = "it is not among the outputs that the run ended with"


class Refused(ValueError):
    """A run or snapshot that is not admitted, and why."""


def offer(run: Run) -> Offer:
    """A run that makes sense, has ended, and has the files and outputs that it ended with."""
    result = offer_without_outputs(run)
    wrong = _wrong_outputs(run)
    if wrong:
        raise Refused(f"{result.run_id}: {wrong}")
    return result


def offer_without_outputs(run: Run) -> Offer:
    attempts = [f"a{number}" for number in range(1, run.attempt_number + 1)]
    code = {} if run.request.get("tree") else {"tree": _NO_CODE}
    result = understand({"uid": run.uid, "request": {**run.request, **code}, "attempts": attempts})
    if result is None:
        raise Refused(f"invalid {run.problem or f'runs/{run.uid}/run.json'}")
    if request_file.is_changed(run.path):
        raise Refused(f"runs/{run.uid}/run.json was changed: its checksum is wrong")
    there = sorted(name for name in os.listdir(run.path) if os.path.isdir(os.path.join(run.path, name)))
    if there != sorted(attempts) or lifecycle.state_of(run.events) not in lifecycle.FINAL:
        raise Refused(f"{result.run_id} has not ended, or lacks an attempt")
    closed = next(event for event in run.events if event.get("type") == "closed")
    wrong = verify.differences(run, closed)
    if wrong:
        raise Refused(f"{result.run_id}: {wrong[0]}")
    more = {name: run.request[name] for name in _KEPT if isinstance(run.request.get(name), (dict, str))}
    more |= {"target": str(run.request.get("target") or "elsewhere")[:200]}
    origin = run.request.get("origin_number")
    number = origin if isinstance(origin, int) and not isinstance(origin, bool) else result.number
    kept = {name: value for name, value in result.request.items() if name not in code}
    return result._replace(request={**kept, **more}, number=number)


def _wrong_outputs(run: Run) -> str:
    """Only files that the manifest has; some may have stayed on their machine."""
    rows = {str(row["path"]): row for row in history_record.output_rows(run)}
    top = layout.outputs(run.attempt)
    for folder, _, files in os.walk(top):
        for name in files:
            path = os.path.join(folder, name)
            row = rows.get(os.path.relpath(path, top).replace(os.sep, "/"))
            problem = _NOT_LISTED if row is None else verify.compare(path, row.get("size"), row.get("sha256"))
            if problem:
                return f"outputs/{name}: {problem}"
    return ""


def new_objects(home: Home, stage: Staging, tree: str) -> list[str]:
    """The objects of a snapshot that are new here, folders behind what they hold; none where the code did not come.

    A tree is stored only when complete: its presence implies that of all its parts.
    """
    here, there = os.fsencode(home.objects), os.fsencode(layout.objects(stage.path))
    if objects.has(here, tree) or not objects.has(there, tree):
        return []
    digests: list[str] = []
    seen: set[str] = set()

    def walk(digest: str) -> None:
        seen.add(digest)
        for entry in objects.read_tree(there if objects.has(there, digest) else here, digest):
            if entry.kind != "link" and entry.digest not in seen:
                if entry.kind == "dir":
                    walk(entry.digest)
                elif not objects.has(here, entry.digest):
                    seen.add(entry.digest)
                    os.stat(objects.object_path(there, entry.digest))
                    digests.append(entry.digest)
        if not objects.has(here, digest):
            digests.append(digest)

    try:
        walk(tree)
    except (objects.Damaged, FileNotFoundError, ValueError, RecursionError) as error:
        raise Refused(f"the code {tree[:12]} is incomplete: {error}") from None
    return digests


def adopt(home: Home, stage: Staging, digests: list[str]) -> None:
    """What two snapshots share came with the first of them."""
    there = os.fsencode(layout.objects(stage.path))
    with Batch(os.fsencode(home.objects)) as batch:
        for digest in digests:
            source = objects.object_path(there, digest)
            if os.path.exists(source):
                batch.adopt(digest, source, os.stat(source).st_size)
        batch.commit()


def request(project: Project, candidate: Offer) -> Json:
    """What its run.json says in this store."""
    ours = candidate.request["project_id"] == project.id
    return {
        **candidate.request,
        "project_root": project.root if ours else "",
        "kind": "local",
        "home": "",
        "origin_number": candidate.number,
        "imported": True,
    }
