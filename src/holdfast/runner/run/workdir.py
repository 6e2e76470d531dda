"""Makes the script's working folder: a copy of the project with outputs/, links and the shared folder."""

import os
import sys

from ..decoding import as_bytes
from ..machine import limits
from ..store import checkout, layout, objects
from . import checkpoints

MYPY = False
if MYPY:
    from ..plan import Data, Plan


class CannotPrepare(Exception):
    """The folder cannot be made; the text says what is wrong and with which file."""

    code = 74


def prepare(home: "bytes", attempt: "bytes", plan: "Plan") -> "tuple[int, str, str]":
    """Make the folder; returns when the copy was complete, and what ``checkpoints.prepare`` returns.

    The time is in nanoseconds by the clock of the file system.
    """
    work = layout.work(attempt)
    try:
        os.makedirs(os.path.dirname(work))
        os.symlink(layout.work.name, layout.old_work(attempt))  # where `exec` and `shell` of earlier versions look
        checkout.checkout(layout.objects(home), plan.tree, work)
        os.makedirs(layout.outputs(work), 0o700, exist_ok=True)
        complete = os.stat(layout.outputs(work)).st_mtime_ns
        for link in plan.links:
            _link(work, as_bytes(link.name), as_bytes(link.target))
        for wanted in plan.data:
            _link_data(home, work, wanted)
        if plan.share:
            os.makedirs(share_path(plan.share), 0o700, exist_ok=True)
        return (complete, *checkpoints.prepare(attempt))
    except objects.Damaged as error:
        _forget(home, error.digest, plan.project_id)
        cure = "the damaged copy was removed; submit again to store it again"
        raise CannotPrepare("a stored file is damaged: %s; %s" % (error, cure)) from error
    except OSError as error:
        raise CannotPrepare(
            "the run's folder %s could not be created: %s" % (_text(work), limits.told(error))
        ) from error


def variables(
    home: "bytes", runner: "str", attempt: "bytes", plan: "Plan", environment: "dict[str, object]"
) -> "tuple[dict[bytes, bytes], dict[bytes, list[bytes]]]":
    """What every script finds in its environment, and the folders that it is to look in first.

    ``environment`` is what the one it runs in says of itself.
    """
    site = layout.site(layout.runner(home, runner.encode("ascii")))
    values = {
        b"PYTHONUNBUFFERED": b"1",
        b"HOLDFAST_RUN_ID": as_bytes(plan.run_id),
        b"HOLDFAST_RUN_UID": as_bytes(plan.uid),
        b"HOLDFAST_METRICS_DIR": layout.metrics(attempt),
        b"HOLDFAST_OUTPUTS": layout.outputs(layout.work(attempt)),
        b"HOLDFAST_CHECKPOINTS": layout.checkpoints(attempt),
        b"AZUREML_RUN_ID": as_bytes(plan.run_id),
        **_of_plan(home, attempt, plan),
    }
    first = {b"PYTHONPATH": [site], b"PATH": [], b"LD_LIBRARY_PATH": []}  # type: dict[bytes, list[bytes]]
    if plan.shims:
        first[b"PATH"].append(as_bytes(plan.shims))
    if environment and plan.environment is not None:
        first[b"PATH"].append(os.path.join(as_bytes(plan.environment.prefix), b"bin"))
        own = environment.get("own_paths") or ()
        first[b"PYTHONPATH"] += [os.path.join(layout.work(attempt), as_bytes(name)) for name in own]  # type: ignore[attr-defined]
        first[b"LD_LIBRARY_PATH"] += [as_bytes(name) for name in environment.get("library_path") or ()]  # type: ignore[attr-defined]
    if plan.interpreter is not None and plan.interpreter.origin == "active":
        # The same environment is active in the script, for its programs and for runs that it submits itself.
        prefix = os.path.dirname(os.path.dirname(as_bytes(plan.python)))
        is_virtual = os.path.exists(os.path.join(prefix, b"pyvenv.cfg"))
        values[b"VIRTUAL_ENV" if is_virtual else b"CONDA_PREFIX"] = prefix
        first[b"PATH"].append(os.path.join(prefix, b"bin"))
    beside = os.path.dirname(as_bytes(plan.python))
    if plan.argv[0] != plan.python and beside and beside not in first[b"PATH"]:
        first[b"PATH"].append(beside)  # a program of the interpreter's environment comes before others of that name
    if plan.share:
        values[b"AZUREML_NATIVE_SHARE_DIRECTORY"] = os.path.join(share_path(plan.share), b"")  # scripts join by `+`
    return values, first


def _of_plan(home: "bytes", attempt: "bytes", plan: "Plan") -> "dict[bytes, bytes]":
    """Variables that only some runs have."""
    values = {} if plan.capture else {b"HOLDFAST_CAPTURE": b"0"}
    if plan.spark is not None:
        from ..machine import spark_record

        values.update(spark_record.variables(home, attempt, plan.spark))
    if plan.data:
        from ..data import run_data

        values.update((run_data.variable(data.name), run_data.location(home, data)) for data in plan.data)
    return values


def merged(parts: "tuple[dict[bytes, bytes], dict[bytes, list[bytes]]]") -> "dict[bytes, bytes]":
    """Variables as a child of ours gets them: behind the folders to look in first stand those of this machine."""
    result, first = dict(parts[0]), parts[1]
    result[b"PYTHONPATH"] = b":".join(first[b"PYTHONPATH"])
    result[b"PATH"] = b":".join([*first[b"PATH"], os.environb.get(b"PATH", os.defpath.encode())])
    if first[b"LD_LIBRARY_PATH"]:
        inherited = [os.environb[b"LD_LIBRARY_PATH"]] if os.environb.get(b"LD_LIBRARY_PATH") else []
        result[b"LD_LIBRARY_PATH"] = b":".join(first[b"LD_LIBRARY_PATH"] + inherited)
    return result


def share_path(share: "str") -> "bytes":
    """The folder that outlives runs, on this machine."""
    return os.path.expanduser(as_bytes(share))


def _forget(home: "bytes", digest: "str", project_id: "str") -> "None":
    """Make the next submit store this object again: it is not there, and no note says that it is."""
    note = layout.stat_cache(home, as_bytes(project_id).replace(b"/", b"-"))
    try:
        objects.discard(layout.objects(home), digest)
        os.unlink(note)
    except OSError:
        return  # a store that is not the client's has no such note


def _link(work: "bytes", name: "bytes", target: "bytes") -> "None":
    path = os.path.join(work, name)
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    if not os.path.exists(target):
        raise CannotPrepare(
            "--link %s: %s does not exist on the machine of the run; --data sends a folder"
            % (_text(name), _text(target))
        )
    os.symlink(target, path)


def _link_data(home: "bytes", work: "bytes", wanted: "Data") -> "None":
    from ..data import run_data

    path = os.path.join(work, as_bytes(wanted.link))
    above = os.path.dirname(path)
    os.makedirs(above, 0o700, exist_ok=True)
    if not (os.path.realpath(above) + b"/").startswith(os.path.realpath(work) + b"/"):
        raise CannotPrepare("data %s: %s leads out of the run's folder" % (wanted.name, wanted.link))
    os.symlink(run_data.location(home, wanted), path)


def _text(value: "bytes") -> "str":
    return value.decode(sys.getfilesystemencoding(), "replace")
