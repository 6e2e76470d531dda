"""Repeats a run as a new run, with the same snapshot, environment and arguments, and compares the results."""

from __future__ import annotations

import os
import re
from shlex import quote

from holdfast import kinds
from holdfast.engine.submit.git_facts import Begun
from holdfast.engine.submit.submit import Submitter
from holdfast.errors import UsageError
from holdfast.model import Data, GpuWish, Job, Link
from holdfast.record import Record
from holdfast.runner.plan import Plan as ParsedPlan
from holdfast.runner.plan import PlanError
from holdfast.runner.store import layout
from holdfast.runner.store.files import write_synced
from holdfast.snapshot.snapshot import Snapshot
from holdfast.store import output_manifest, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from holdfast.metrics.reader import Metrics
    from holdfast.model import Json, Project
    from holdfast.store.runs import Run

# Parts of names of metrics that measure the machine and not the model; no two runs agree on those.
_OF_TIME = frozenset(
    (
        *("time", "times", "seconds", "second", "secs", "sec", "ms", "duration", "elapsed", "eta", "wall", "clock"),
        *("latency", "speed", "throughput", "fps", "ips", "qps", "timestamp", "minutes", "hours"),
    )
)
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PER_SECOND = re.compile(r"(_|/|per_?)(s|ms|us|ns)$", re.IGNORECASE)


class Verdict(Record):
    """One metric's last value in both runs. ``difference`` is relative; None where one of them has none."""

    name: str
    before: float
    after: float | None
    difference: float | None
    same: bool


class Again(Submitter):
    """Submits what a run was made from: its snapshot is here already, and no folder is read."""

    of: Run

    def _ask_git(self, project: Project) -> Begun:  # noqa: ARG002
        return _Told(self.of)

    def _take(self, project: Project, job: Job, skip_unreadable: bool) -> Snapshot:  # noqa: ARG002
        request = self.of.request
        files, size = (value if isinstance(value := request.get(name), int) else 0 for name in ("files", "bytes"))
        return Snapshot(str(request.get("tree")), files, size, 0, 0, (), ())


class _Told(Begun):
    """What git said of the project when the first run was submitted; it has gone on since."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def result(self) -> Json | None:
        facts = self._run.request.get("git")
        return facts if isinstance(facts, dict) else None

    def keep(self, folder: str) -> None:
        path = layout.git_diff(self._run.path)
        if os.path.isfile(path):
            with open(path, "rb") as source:
                write_synced(layout.git_diff(folder), source.read())


def job_again(
    run: Run, plan: Json, *, config: str, target: str, env: Mapping[str, str], links: tuple[Link, ...] = ()
) -> Job:
    """The job of the original run, from its stored request and plan; ``links`` were given for the new run."""
    request = run.request
    _refuse_malformed(run, plan)
    return Job(
        script=str(plan.get("script")),
        arguments=tuple(map(str, _list(request.get("arguments")))),
        command=tuple(map(str, _list(request.get("command")))),
        source=str(request["source"]) if "source" in request else None,
        config=config,
        target=target,
        env=env,
        links=_links(run, plan, target, links),
        timeout_s=_number(plan.get("timeout")),
        grace_s=_number(plan.get("grace")) or Job.grace_s,
        max_log=int(_number(plan.get("max_log")) or Job.max_log),
        fetch_outputs=str(request.get("fetch_outputs") or "small"),
        parent_run_id=str(request.get("run_id")),
        gpu=_gpu(plan.get("gpu")),
        scalars=plan.get("scalars") is True,
        keep=_keep(plan.get("keep")),
        capture=plan.get("capture") is not False,
        data=_data(request),
        reproduces=str(request.get("run_id")),
        **_interpreter(run, plan, target),
    )


def _refuse_malformed(run: Run, plan: Json) -> None:
    try:
        ParsedPlan(plan)
    except PlanError as error:
        where = str(run.request.get("run_id"))
        raise UsageError("the stored plan of this run is damaged", where=where, answer=str(error)) from None


def names_paths_of(run: Run, target: str) -> bool:
    """Whether paths in the plan of a run are used on this target without being given again.

    The plan of an imported run was written by someone else, and that of a run on another machine may have been changed
    there: on any other target it would choose folders and programs for that machine.
    """
    request = run.request
    if request.get("imported"):
        return False
    return target == request.get("target") or not kinds.of(str(request.get("kind"))).is_remote


def _links(run: Run, plan: Json, target: str, given: tuple[Link, ...]) -> tuple[Link, ...]:
    """The folders that the run saw by links, which a container mounts writable."""
    rows = runs.objects_in(plan, "links")
    recorded = [Link(str(row["name"]), str(row["target"])) for row in rows if {"name", "target"} <= row.keys()]
    names = {link.name for link in given}
    missing = [link for link in recorded if link.name not in names]
    if missing and not names_paths_of(run, target):
        what = "the folders that this run linked are not used unless you name them"
        answer = "\n".join(f"{link.name}: {link.target}" for link in missing)
        hint = " ".join(f"--link {quote(f'{link.name}={link.target}')}" for link in missing)
        raise UsageError(what, where=str(run.request.get("run_id")), answer=answer, hint=hint)
    return (*given, *missing)


def _keep(recorded: object) -> Json | None:
    return recorded if isinstance(recorded, dict) else None


def _data(request: Json) -> tuple[Data, ...]:
    """The data that the run used; what it is sent again from must still be the same."""
    rows = runs.objects_in(request, "data")
    return tuple(Data(**{name: str(row.get(name) or "") for name in Data._fields}) for row in rows)


def _interpreter(run: Run, plan: Json, target: str) -> dict[str, Any]:
    """The interpreter that the run used as it was, if it is submitted to the same target again."""
    recorded, argv = plan.get("interpreter"), _list(plan.get("argv"))
    if not isinstance(recorded, dict) or not argv:
        return {}
    python = plan.get("python") or argv[0]
    is_own = recorded.get("origin") in ("active", "path") and target == run.request.get("target")
    is_own = is_own and names_paths_of(run, target)
    return {"python": str(python) if is_own else None, "interpreter": recorded}


def variables(plan: Json, kept: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Values for the variables that the run had. Those of the command line were not kept and must be given again."""
    names = list(map(str, _list(plan.get("env"))))
    missing = [name for name in names if name not in kept and name not in given]
    if missing:
        hint = " ".join(f"-e {name}=VALUE" for name in missing)
        raise UsageError(f"the run had variables whose values were not stored: {', '.join(missing)}", hint=hint)
    return {**{name: kept[name] for name in names if name in kept}, **given}


def names_to_judge(metrics: Metrics, requested: Sequence[str]) -> list[str]:
    """The metrics whose last value is a number, without those of time and speed; or just those requested.

    Empty where the run logged none: then only exit codes and files can be compared.
    """
    numbers = [name for name, series in metrics.by_name.items() if _is_number(series.values[-1])]
    unknown = [name for name in requested if name not in numbers]
    if unknown:
        raise UsageError(f"this run has no metric named {unknown[0]!r}", hint=f"it has: {', '.join(numbers[:10])}")
    return list(requested) or [name for name in numbers if not is_of_time(name)]


def different_results(run: Run, again: Run) -> tuple[int, list[str]]:
    """How many files the two runs left, and the names of those that differ or that only one of them left."""
    before, after = (
        {output_manifest.name_of(row): row.get("sha256") or row.get("link") for row in output_manifest.rows(of)}
        for of in (run, again)
    )
    names = {**before, **after}
    return len(names), [name for name in names if before.get(name) != after.get(name)]


def exit_code(run: Run) -> int | None:
    closed = next((event for event in run.events if event.get("type") == "closed"), {})
    code = closed.get("exit_code")
    return code if isinstance(code, int) else None


def is_of_time(name: str) -> bool:
    """Whether a metric tells how long or how fast, by its name: train_time, epoch_s, samples_per_second, it/s."""
    return _PER_SECOND.search(name) is not None or any(part.lower() in _OF_TIME for part in _PARTS.findall(name))


def judge(before: Metrics, after: Metrics, names: Sequence[str], tolerance: float) -> list[Verdict]:
    verdicts = []
    for name in names:
        first: float = before.by_name[name].values[-1]  # type: ignore[assignment]
        series = after.by_name.get(name)
        other = series.values[-1] if series is not None and _is_number(series.values[-1]) else None
        apart = None if other is None else _apart(first, other)  # type: ignore[arg-type]
        verdicts.append(Verdict(name, first, other, apart, apart is not None and apart <= tolerance))  # type: ignore[arg-type]
    return verdicts


def _apart(first: float, other: float) -> float:
    """As a share of the larger one. NaN is like NaN and like nothing else."""
    if first == other or (first != first and other != other):  # noqa: PLR0124 - that is how NaN is known
        return 0.0
    apart = abs(first - other) / max(abs(first), abs(other))
    return apart if apart == apart else float("inf")  # noqa: PLR0124


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def _gpu(recorded: object) -> GpuWish:
    if not isinstance(recorded, dict):
        return GpuWish()
    grace = _number(recorded.get("grace_s"))
    return GpuWish(
        count=recorded.get("count"),
        memory=recorded.get("memory"),
        name=recorded.get("name"),
        shared=bool(recorded.get("shared")),
        wait_s=recorded.get("wait_s"),
        require=bool(recorded.get("require")),
        grace_s=GpuWish.grace_s if grace is None else grace,
    )


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _number(value: object) -> float | None:
    return value if isinstance(value, (int, float)) else None
