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
    answer = probe_run.run(argv, script_process.environment(dict(os.environb), {}, {}), home, LIMIT_S)
    return dict(answer, where="by %s" % (answer["facts"].get("program") or python))


def in_container(home: "bytes", settings: "dict[str, Any]", bare: "bool") -> "dict[str, Any]":
    """In a container of the image, with the very words that hand cards to a run's.

    The image is not fetched for this: where it is not here, ``skipped`` says so.
    """
    from ..container import engines, gpu_passthrough

    try:
        engine = engines.find(home, str(settings["engine"]) if settings.get("engine") else None)
        method = gpu_passthrough.look(engine)
        if method["refused"]:
            what, _, fix = str(method["refused"]).partition("\n")
            return _verdict(False, what, fix)
        image = _image(home, engine, str(settings["image"]), str(settings["python"]))
    except engines.EngineTrouble as error:
        return _verdict(False, str(error), error.hint)
    if image is None:
        why = "the image %s is not pulled yet; each run tests the GPU before its script starts" % settings["image"]
        return dict(_verdict(True, "", ""), skipped=why, how=method["how"])
    if not image.get("python"):
        return dict(_verdict(True, "", ""), skipped="the image %s has no Python for the test" % settings["image"])
    return dict(_run(engine, settings, image, method, bare), how=method["how"], advice=method["advice"])


def _run(
    engine: "dict[str, Any]",
    settings: "dict[str, Any]",
    image: "dict[str, Any]",
    method: "dict[str, Any]",
    bare: "bool",
) -> "dict[str, Any]":
    from ..container import argv as container
    from ..container import monitor

    name = "holdfast-touch-%d-%s" % (os.getpid(), os.urandom(4).hex())
    command = [str(engine["program"]), "run", "--rm", "--interactive", "--name", name, "--network", "none"]
    command += container.user_words(engine, str(settings.get("user") or ""), (os.getuid(), os.getgid()))
    command += [] if str(image["id"]).startswith("rootfs:") else ["--pull", "never"]
    command += ["--security-opt", "label=disable"] if container.has_selinux() else []
    for variable, value in sorted(method["environment"].items()):
        command += ["--env", "%s=%s" % (variable, value)]
    command += [*method["words"], *(str(word) for word in settings.get("arguments") or ())]
    command += ["--entrypoint", str(image["python"]), *container.image_words(str(image["id"]))]
    argv = [as_bytes(word) for word in command] + (_BARE if bare else []) + [b"-B", b"-", b"run"]
    with open(probe_run.PROGRAM, "rb") as source:
        program = source.read()
    answer = probe_run.run(argv, dict(os.environb), b"/", LIMIT_S, program)
    facts = answer["facts"]
    if facts:
        answer = dict(probe_verdict.judge(facts, contained=True), facts=facts)
    else:
        monitor.remove(str(engine["program"]), name, 10)
        answer["ok"] = False  # an engine that cannot start it will not start a run either
    return dict(answer, where="in the container")


def _image(home: "bytes", engine: "dict[str, Any]", name: "str", python: "str") -> "dict[str, Any] | None":
    from ..container import engines

    if not name or engines.inspect(str(engine["program"]), name) is None:
        return None
    return engines.image(home, engine, name, python, lambda _verdict: None)


def _verdict(ok: "bool", why: "str", fix: "str") -> "dict[str, Any]":
    return {"ok": ok, "why": why, "fix": fix, "facts": {}, "where": "in the container"}
