"""Runs the GPU probe on a target in the runtime of its runs, and describes the result."""

from __future__ import annotations

from holdfast.engine.submit import container
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.amlconfig.types import ComputeTarget
    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.model import Json

NAME = "gpu test"
REACHED, UNSUITED, FAILED, SKIPPED = "reached", "unsuited", "failed", "skipped"


class Outcome(Record):
    """``state``: reached; unsuited (the card answers, and no package that is installed uses it); failed; skipped."""

    state: str
    found: str
    fix: str = ""


def is_due(compute: ComputeTarget, survey: Json) -> bool:
    """Where the machine has a GPU, or containers are to be given one."""
    return has_cards(survey) or (compute.kind.in_container and bool(compute.nvidia_docker))


def has_cards(survey: Json) -> bool:
    rows = survey.get("gpus")
    return isinstance(rows, list) and any(isinstance(row, dict) and row.get("name") for row in rows)


def trial(channel: RunnerChannel, compute: ComputeTarget, python: str | None = None) -> Outcome:
    """``python`` is the interpreter of a target that names none."""
    if compute.kind.in_container and not compute.nvidia_docker:
        fix = f"nvidiaDocker: true in {compute.name}.compute"
        return Outcome(SKIPPED, "the machine has a GPU, but containers of this target cannot use it", fix)
    answer = channel.ask("touch", **question(compute, python)).get("found")
    return outcome(answer if isinstance(answer, dict) else {})


def question(compute: ComputeTarget, python: str | None = None) -> Json:
    """The environment of a run may not exist yet, so its packages are not checked."""
    bare = not compute.user_managed_environment
    if not compute.kind.in_container:
        return {"python": compute.script_python or python or "python", "bare": bare}
    base = container.question(compute)
    settings: Json = {**base, "user": compute.container_user, "arguments": list(compute.docker_arguments or ())}
    if compute.dockerfile:
        settings["image"] = ""  # its name is that of its content, which is not known before a submit
    return {"container": settings, "bare": bare}


def outcome(answer: Json) -> Outcome:
    """As text; ``answer`` comes from the target."""
    facts = answer.get("facts")
    trials = facts.get("trials") if isinstance(facts, dict) else None
    rows = [row for row in trials if isinstance(row, dict)] if isinstance(trials, list) else []
    where, why = (" ".join(str(answer.get(name) or "").split()) for name in ("where", "why"))
    fix = "\n".join(line.strip() for line in str(answer.get("fix") or "").splitlines())
    if answer.get("skipped"):
        return Outcome(SKIPPED, str(answer["skipped"]))
    reached = bool(rows) and all(row.get("ok") is True for row in rows)
    if reached and answer.get("ok") is not True:
        return Outcome(UNSUITED, f"{_cards(rows)}, {where}, but {why}", fix)
    if reached:
        notes = dict.fromkeys(str(row["note"]) for row in rows if row.get("note"))
        return Outcome(REACHED, "; ".join([f"{_cards(rows)}, {where}", *notes]))
    return Outcome(FAILED, why or "the GPU could not be used; no reason was reported", fix)


def _cards(rows: list[Json]) -> str:
    names: dict[str, list[Json]] = {}
    for row in rows:
        names.setdefault(str(row.get("name")), []).append(row)
    return ", ".join(f"{len(same)} x {name}" if len(same) > 1 else name for name, same in names.items()) + (
        f": {_work(rows)}"
    )


def _work(rows: list[Json]) -> str:
    size = min(_number(row.get("bytes")) for row in rows) // 2**20
    seconds = sum(_number(row.get("seconds")) for row in rows)
    kernel = " and a kernel" if all(row.get("how") == "kernel" for row in rows) else ""
    return f"{size:.0f} MB{kernel} in {seconds:.1f} s"


def _number(value: object) -> float:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else 0
