"""The verb ``touch``: runs the GPU probe on a target, in the runtime that its runs use."""

import os

from ..decoding import as_bytes
from ..run import script_process
from . import probe_run, probe_verdict

MYPY = False
if MYPY:
    from typing import Any

LIMIT_S = 60.0
_BARE = [b"-E", b"-s", b"-S"]  # an environment that is not built yet has no packages to be judged by


def directly(home: "bytes", python: "str", bare: "bool") -> "dict[str, Any]":
    """By an interpreter of this machine; ``bare`` leaves out what is installed for it."""
    argv = [as_bytes(python), *(_BARE if bare else []), b"-B", probe_run.PROGRAM, b"run"]
    found = probe_run.run(argv, script_process.environment(dict(os.environb), {}, {}), home, LIMIT_S)
    return dict(found, where="by %s" % (found["facts"].get("program") or python))


def in_container(home: "bytes", wish: "dict[str, Any]", bare: "bool") -> "dict[str, Any]":
    """In a container of the image, with the very words that hand cards to a run's.

    The image is not fetched for this: where it is not here, ``skipped`` says so.
    """
    from ..container import engines, gpu_passthrough

    try:
        engine = engines.find(home, str(wish["engine"]) if wish.get("engine") else None)
        way = gpu_passthrough.look(engine)
        if way["refused"]:
            what, _, fix = str(way["refused"]).partition("\n")
            return _said(False, what, fix)
        image = _image(home, engine, str(wish["image"]), str(wish["python"]))
    except engines.EngineTrouble as error:
        return _said(False, str(error), error.hint)
    if image is None:
        why = "the image %s is not pulled yet; each run tests the GPU before its script starts" % wish["image"]
        return dict(_said(True, "", ""), skipped=why, how=way["how"])
    if not image.get("python"):
        return dict(_said(True, "", ""), skipped="the image %s has no Python for the test" % wish["image"])
    return dict(_run(engine, wish, image, way, bare), how=way["how"], advice=way["advice"])


def _run(
    engine: "dict[str, Any]", wish: "dict[str, Any]", image: "dict[str, Any]", way: "dict[str, Any]", bare: "bool"
) -> "dict[str, Any]":
    from ..container import argv as container
    from ..container import monitor

    name = "holdfast-touch-%d-%s" % (os.getpid(), os.urandom(4).hex())
    words = [str(engine["program"]), "run", "--rm", "--interactive", "--name", name, "--network", "none"]
    words += container.user_words(engine, str(wish.get("user") or ""), (os.getuid(), os.getgid()))
    words += [] if str(image["id"]).startswith("rootfs:") else ["--pull", "never"]
    words += ["--security-opt", "label=disable"] if container.has_selinux() else []
    for variable, value in sorted(way["environment"].items()):
        words += ["--env", "%s=%s" % (variable, value)]
    words += [*way["words"], *(str(word) for word in wish.get("arguments") or ())]
    words += ["--entrypoint", str(image["python"]), *container.image_words(str(image["id"]))]
    argv = [as_bytes(word) for word in words] + (_BARE if bare else []) + [b"-B", b"-", b"run"]
    with open(probe_run.PROGRAM, "rb") as source:
        program = source.read()
    found = probe_run.run(argv, dict(os.environb), b"/", LIMIT_S, program)
    facts = found["facts"]
    if facts:
        found = dict(probe_verdict.judge(facts, contained=True), facts=facts)
    else:
        monitor.remove(str(engine["program"]), name, 10)
        found["ok"] = False  # an engine that cannot start it will not start a run either
    return dict(found, where="in the container")


def _image(home: "bytes", engine: "dict[str, Any]", name: "str", python: "str") -> "dict[str, Any] | None":
    from ..container import engines

    if not name or engines.inspect(str(engine["program"]), name) is None:
        return None
    return engines.image(home, engine, name, python, lambda _said: None)


def _said(ok: "bool", why: "str", fix: "str") -> "dict[str, Any]":
    return {"ok": ok, "why": why, "fix": fix, "facts": {}, "where": "in the container"}
