"""Frees disk space on a target. What exists only there, or is in use, stays."""

from __future__ import annotations

import os

from holdfast import answers, lifecycle
from holdfast.engine.runs import reconcile
from holdfast.engine.transfer import pull_runs
from holdfast.record import Record
from holdfast.store import output_manifest, runs, verify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.store.runs import Run
    from holdfast.target_lookup import Target


_NUMBERS = ("count", "bytes", "stays")


class Findings(Record):
    """``rows`` of what can be removed; ``runs`` that are complete on this machine, and how many are not."""

    rows: list[Json]
    runs: list[str]
    only_there: int

    @property
    def bytes(self) -> int:
        return sum(int(str(row["bytes"])) for row in self.rows)

    @property
    def count(self) -> int:
        return sum(int(str(row["count"])) for row in self.rows)


def look(home: Home, target: Target, channel: RunnerChannel) -> Findings:
    """Nothing is touched."""
    at_home, only_there = _ended_runs(home, channel)
    return _ask(home, target, channel, at_home, only_there, act=False)


def remove(home: Home, target: Target, channel: RunnerChannel, findings: Findings) -> Findings:
    """The rows say what went; what came into use meanwhile has stayed."""
    return _ask(home, target, channel, findings.runs, findings.only_there, act=True)


def _ended_runs(home: Home, channel: RunnerChannel) -> tuple[list[str], int]:
    """Runs of ours there that have ended: those that are all here, and how many are not."""
    if channel.hello()["store"] == home.id:
        return [], 0
    listed = offered(home, channel)
    mine = {str(run.get("uid")): run.get("attempts") for run in listed}
    unsafe = {str(run.get("uid")) for run in listed if unlisted(run)[0]}
    known = [runs.read(home, uid) for uid in mine]
    reconcile.settle(home, [run for run in known if not _has_ended(run)])
    ended = [run for run in (runs.read(home, uid) for uid in mine) if _has_ended(run)]
    at_home = [run.uid for run in ended if run.uid not in unsafe and _is_all_here(run, mine[run.uid])]
    return at_home, len(ended) - len(at_home)


def offered(home: Home, channel: RunnerChannel) -> list[Json]:
    """Runs of our history that the target has."""
    listed = [run for run in pull_runs.listed(channel) if isinstance(run, dict)]
    return [run for run in listed if _is_ours(home, run)]


def unlisted(run: Json) -> tuple[int, int]:
    """Number and bytes of the outputs that a run has there and no manifest lists."""
    counts = run.get("unlisted")
    counts = counts if isinstance(counts, dict) else {}
    return (answers.number(counts, "files"), answers.number(counts, "bytes")) if counts else (0, 0)


def _is_ours(home: Home, run: Json) -> bool:
    request, uid = run.get("request"), str(run.get("uid"))
    ours = isinstance(request, dict) and request.get("client_store") == home.id
    return ours and runs.is_uid(uid) and os.path.isdir(home.run(uid))


def _has_ended(run: Run) -> bool:
    return not run.problem and lifecycle.state_of(run.events) in lifecycle.FINAL


def _is_all_here(run: Run, attempts: object) -> bool:
    """Every attempt that is there."""
    if not isinstance(attempts, list) or len(attempts) > run.attempt_number:
        return False
    return all(_is_attempt_here(runs.attempt(run, number)) for number in range(1, run.attempt_number + 1))


def _is_attempt_here(run: Run) -> bool:
    """Whether all files of the closing event and all outputs are here; files that were not stored may be there."""
    closed = next((event for event in run.events if event.get("type") == "closed"), None)
    if closed is None or closed.get("outputs_trouble") or verify.damaged(run, closed):
        return False
    if output_manifest.refused(run):
        return False
    return all(output_manifest.is_here(run, row) for row in output_manifest.rows(run) if "sha256" in row)


def _ask(
    home: Home, target: Target, channel: RunnerChannel, whole: list[str], only_there: int, *, act: bool
) -> Findings:
    parameters = {
        "client": home.id,
        "runs": whole,
        "contained": target.kind.in_container,
        "engine": target.compute.engine,
        "data": target.compute.shared_data or "",
    }
    answer = answers.rows(channel.ask("clean", act=act, **parameters), "rows", target.name)
    rows = [_row(row, only_there) for row in answer]
    return Findings(rows, whole, only_there)


def _row(answer: Json, only_there: int) -> Json:
    count, size, stays = (answers.number(answer, name) for name in _NUMBERS)
    why = "; ".join(line.strip() for line in str(answer.get("why") or "").splitlines() if line.strip())
    if answer.get("kind") == "runs" and only_there:
        stays += only_there
        why = "; ".join(filter(None, (why, "with outputs that exist only there: holdfast return -r RUN")))
    young, young_bytes = (answers.number(answer, name) if name in answer else 0 for name in ("young", "young_bytes"))
    row: Json = {"what": str(answer.get("what")), "count": count, "bytes": size, "stays": stays, "why": why}
    return {**row, "young": young, "young_bytes": young_bytes}
