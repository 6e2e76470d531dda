"""Judges the answer of ``probe.py``: whether the GPU can be used, why not, and what to do. Pure."""

import json
import re

from ..decoding import readable

MYPY = False
if MYPY:
    from typing import Any

_LONGEST = 500
_MOST = 64
# From here on a driver runs every minor version of the CUDA it was made for.
_MINOR_COMPATIBLE = 11


def judge(facts: "dict[str, Any]", contained: "bool" = False) -> "dict[str, Any]":
    """Pure. ``fix`` is empty where all is well."""
    for look in (_library, _refusal, _absence, _failed_trials, _builds):
        why, fix = look(facts, contained)
        if why:
            return {"ok": False, "why": why, "fix": fix}
    return {"ok": True, "why": "", "fix": ""}


def too_new(cuda: "str", driver: "str") -> "bool":
    """Whether a driver that serves CUDA ``driver`` cannot run what was built for ``cuda``."""
    needed, have = _numbers(cuda), _numbers(driver)
    if not needed or not have:
        return False
    return needed[:1] > have[:1] if needed[0] >= _MINOR_COMPATIBLE else needed > have


def parsed(text: "bytes") -> "dict[str, Any] | None":
    """The facts of ``probe.py``: known names and types only."""
    try:
        document = json.loads(readable(text))
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or not isinstance(document.get("devices"), list):
        return None
    facts = {name: plain(document.get(name)) for name in ("python", "program", "library")}  # type: dict[str, Any]
    facts.update({name: _text_or_none(document.get(name)) for name in ("visible", "cuda")})
    facts["nodes"] = [plain(node) for node in _listed(document.get("nodes"))]
    facts["refused"] = _refused(document.get("refused"))
    facts["seconds"] = _number(document.get("seconds"))
    facts["devices"] = [_of(item, _DEVICE) for item in _listed(document["devices"]) if isinstance(item, dict)]
    facts["packages"] = [_of(item, _PACKAGE) for item in _listed(document.get("packages")) if isinstance(item, dict)]
    if isinstance(document.get("trials"), list):
        trials = [item for item in _listed(document["trials"]) if isinstance(item, dict)]
        facts["trials"] = [dict(_of(item, _TRIAL), refused=_refused(item.get("refused"))) for item in trials]
    return facts


def _library(facts: "dict[str, Any]", contained: "bool") -> "tuple[str, str]":
    if not facts["library"]:
        return "", ""
    if contained:
        return (
            "there is no GPU in the container: NVIDIA's driver is not in it (%s)" % facts["library"],
            "write nvidiaDocker: true in the .compute file; `holdfast computetarget test` shows what is missing",
        )
    return (
        "NVIDIA's driver was not found by %s: %s" % (facts["program"] or "this Python", facts["library"]),
        "install the driver of the GPU on that machine; if it is installed, add its folder to LD_LIBRARY_PATH",
    )


def _refusal(facts: "dict[str, Any]", contained: "bool") -> "tuple[str, str]":
    refused = facts["refused"]
    if not refused:
        return "", ""
    code = refused["code"]
    if code == 100:
        return _no_device(facts, contained)
    what, fix = _REFUSALS.get(code, ("NVIDIA's driver refuses", "run nvidia-smi there; restart the machine"))
    if code == 999 and contained:
        fix = "the container lost access to the GPU, for example by systemctl daemon-reload: restart the run"
    return "%s: %s says %s (%d)" % (what, refused["step"], refused["name"], code), fix


def _absence(facts: "dict[str, Any]", contained: "bool") -> "tuple[str, str]":
    return ("", "") if facts["devices"] else _no_device(facts, contained)


def _no_device(facts: "dict[str, Any]", contained: "bool") -> "tuple[str, str]":
    visible = facts["visible"]
    if visible is not None:
        hides = "hides every GPU" if visible in ("", "-1", "none", "NoDevFiles") else "selects no existing GPU"
        message = "CUDA_VISIBLE_DEVICES=%s %s" % (visible, hides)
        return message, "unset CUDA_VISIBLE_DEVICES, or select an existing GPU; the first one is 0"
    if contained and not facts["nodes"]:
        fix = "write nvidiaDocker: true in the .compute file; `holdfast computetarget test` shows what is missing"
        return "there is no GPU in the container: no /dev/nvidia* is in it", fix
    if not facts["nodes"]:
        return (
            "NVIDIA's driver shows no GPU: there is no /dev/nvidia*",
            "load the driver there: sudo nvidia-modprobe -u -c 0",
        )
    return "NVIDIA's driver shows no GPU although %s exists" % facts["nodes"][0], "run nvidia-smi there"


def _failed_trials(facts: "dict[str, Any]", _contained: "bool") -> "tuple[str, str]":
    for trial in facts.get("trials") or ():
        if trial["ok"]:
            continue
        refused = trial["refused"]
        if refused and refused["code"] == 2:
            fix = "`holdfast gpu` shows its processes; wait, or use another GPU"
            return "%s has no memory left, not even 1 MB" % trial["name"], fix
        if refused:
            message = "%s cannot be used: %s says %s (%d)" % (
                trial["name"],
                refused["step"],
                refused["name"],
                refused["code"],
            )
            return message, _REFUSALS.get(refused["code"], ("", "run nvidia-smi there; restart the machine"))[1]
        return "%s computes wrongly: %s" % (trial["name"], trial["note"]), "do not use this GPU; have it tested"
    return "", ""


def _builds(facts: "dict[str, Any]", _contained: "bool") -> "tuple[str, str]":
    """A trouble only where no package of this Python can use the card: others may be there for other reasons."""
    troubles = [_trouble_of(package, facts["cuda"]) for package in facts["packages"]]
    return troubles[0] if troubles and all(why for why, _ in troubles) else ("", "")


def _trouble_of(package: "dict[str, Any]", cuda: "str | None") -> "tuple[str, str]":
    name, version, build = package["name"], package["version"], package["build"]
    label = ("%s %s" % (name, version)).strip()
    if build == "cpu":
        fix = _GPU_BUILDS.get(name, "install its build for CUDA")
        if name.startswith("tensorflow") and version.startswith("1."):
            fix = "write tensorflow-gpu==%s" % version
        return "%s is built without CUDA and cannot use the GPU" % label, fix
    if build == "rocm":
        return "%s is built for AMD GPUs and cannot use this GPU" % label, _GPU_BUILDS.get(name, "")
    if build == "cuda" and package["cuda"] and cuda and too_new(package["cuda"], cuda):
        why = "%s is built for CUDA %s, but this driver supports %s and older" % (label, package["cuda"], cuda)
        return why, "install a build of %s for CUDA %s, or a newer driver" % (name, cuda.split(".")[0])
    if name.startswith("tensorflow") and package["cudnn"] is False and version.startswith("2."):
        return "%s finds no cuDNN here and cannot use the GPU" % label, "write tensorflow[and-cuda]==%s" % version
    return "", ""


_GPU_BUILDS = {
    "torch": "install a build of torch for CUDA: one without +cpu, and not from an index that ends in /cpu",
    "tensorflow": "write tensorflow[and-cuda]",
    "tensorflow-cpu": "write tensorflow[and-cuda] instead of tensorflow-cpu",
    "jax": "write jax[cuda12]",
}
_RESTART = "restart the machine: its driver was updated and the old one is still loaded"
_REFUSALS = {
    3: ("NVIDIA's driver is not set up", "run nvidia-smi there; restart the machine"),
    34: (
        "the libcuda.so.1 that is found is a stub of the CUDA toolkit",
        "remove the toolkit's stubs folder from LD_LIBRARY_PATH",
    ),
    35: ("NVIDIA's driver is too old", "install a newer driver there"),
    46: ("the GPU is busy or in exclusive use by one process", "`holdfast gpu` shows its processes"),
    101: ("the driver does not know this GPU", "select an existing GPU in CUDA_VISIBLE_DEVICES"),
    802: (
        "the machine's GPUs are not ready",
        "start the fabric manager there: sudo systemctl start nvidia-fabricmanager",
    ),
    803: ("NVIDIA's driver and its library are of different versions", _RESTART),
    804: (
        "NVIDIA's driver is too old for the CUDA of this image or environment",
        "install a newer driver there, or use an image for an older CUDA",
    ),
    999: ("NVIDIA's driver has an unknown error", "run nvidia-smi there; restart the machine"),
}
_DEVICE = {"index": int, "name": str, "uuid": str, "major": int, "minor": int}
_PACKAGE = {"name": str, "version": str, "build": str, "cuda": None, "cudnn": bool}
_TRIAL = {
    "index": int,
    "name": str,
    "uuid": str,
    "ok": bool,
    "bytes": int,
    "how": str,
    "note": str,
    "seconds": float,
}  # type: dict[str, type]


def _of(source: "dict[str, Any]", kinds: "dict[str, Any]") -> "dict[str, Any]":
    result = {}  # type: dict[str, Any]
    for name, kind in kinds.items():
        value = source.get(name)
        if kind is str:
            result[name] = plain(value)
        elif kind is bool:
            result[name] = value if isinstance(value, bool) else None
        elif kind is None:
            result[name] = _text_or_none(value)
        else:
            result[name] = kind(_number(value))
    return result


def _refused(value: "object") -> "dict[str, Any] | None":
    return _of(value, {"step": str, "code": int, "name": str}) if isinstance(value, dict) else None


def _listed(value: "object") -> "list[Any]":
    return value[:_MOST] if isinstance(value, list) else []


def _number(value: "object") -> "float":
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e15:
        return 0
    return value


def _text_or_none(value: "object") -> "str | None":
    return plain(value) if isinstance(value, str) else None


def plain(value: "object") -> "str":
    """Without what would move a terminal's cursor or paint it."""
    text = value if isinstance(value, str) else ""
    return re.sub(r"[^ -~\u00a1-\ud7ff]+", " ", text[:_LONGEST]).strip()


def _numbers(version: "str") -> "tuple[int, ...]":
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
