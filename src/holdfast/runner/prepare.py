"""The script's folder: an isolated copy of the project, with outputs/, links and the shared folder in place."""

import os
import sys

from . import checkout, objects


class CannotPrepare(Exception):
    """The folder cannot be made; the text says what is wrong and with which file."""


def prepare(home: "bytes", attempt: "bytes", plan: "dict[str, object]") -> "None":
    work = os.path.join(attempt, b"work")
    try:
        checkout.checkout(os.path.join(home, b"objects"), str(plan["tree"]), work)
        os.makedirs(os.path.join(work, b"outputs"), 0o700, exist_ok=True)
        for link in plan["links"]:  # type: ignore[attr-defined]
            _link(work, _bytes(link["name"]), _bytes(link["target"]))
        if plan.get("share"):
            os.makedirs(_bytes(plan["share"]), 0o700, exist_ok=True)
    except (OSError, objects.Damaged) as error:
        raise CannotPrepare("the run's folder could not be made: %s" % error) from error


def variables(home: "bytes", runner: "str", attempt: "bytes", plan: "dict[str, object]") -> "dict[bytes, bytes]":
    """What every script finds in its environment."""
    site = os.path.join(home, b"runner", runner.encode("ascii"), b"site")
    found = {
        b"PYTHONUNBUFFERED": b"1",
        b"PYTHONPATH": site,
        b"HOLDFAST_RUN_ID": _bytes(plan["run_id"]),
        b"HOLDFAST_RUN_UID": _bytes(plan["uid"]),
        b"HOLDFAST_METRICS_DIR": os.path.join(attempt, b"metrics"),
        b"HOLDFAST_OUTPUTS": os.path.join(attempt, b"work", b"outputs"),
        b"AZUREML_RUN_ID": _bytes(plan["run_id"]),
    }
    if plan.get("shims"):
        found[b"PATH"] = _bytes(plan["shims"]) + b":" + os.environb.get(b"PATH", os.defpath.encode())
    if plan.get("share"):
        found[b"AZUREML_NATIVE_SHARE_DIRECTORY"] = os.path.join(_bytes(plan["share"]), b"")  # scripts join by `+`
    return found


def _link(work: "bytes", name: "bytes", target: "bytes") -> "None":
    place = os.path.join(work, name)
    os.makedirs(os.path.dirname(place), 0o700, exist_ok=True)
    if not os.path.exists(target):
        raise CannotPrepare("--link %s: %s does not exist on this machine" % (_text(name), _text(target)))
    os.symlink(target, place)


def _bytes(value: "object") -> "bytes":
    return str(value).encode("utf-8", "surrogateescape")


def _text(value: "bytes") -> "str":
    return value.decode(sys.getfilesystemencoding(), "replace")
