"""What only the target can tell, before the script's first line: memory, and the versions of the cluster."""

import json
import os

from . import memory

MYPY = False
if MYPY:
    from typing import Any


def check(settings: "dict[str, Any]") -> "None":
    """End the process with the reason where a session could not be made; children of the script do not ask again."""
    text = _complaint(settings)
    if text:
        from . import packages

        packages.refuse(text)
    for name in ("memory_line", "uses_spark"):
        settings.pop(name, None)
    os.environ["HOLDFAST_SPARK"] = json.dumps(settings)


def _complaint(settings: "dict[str, Any]") -> "str":
    text = memory.complaint((settings.get("conf") or {}).get("spark.driver.memory", ""))
    if text and settings.get("memory_line"):
        return "%s: %s" % (settings["memory_line"], text)
    if settings.get("uses_spark"):
        if settings.get("remote"):
            return _too_new(settings)
        from . import gateway

        try:
            gateway.check_cluster(settings)
        except gateway.CannotStart as problem:
            return str(problem)
    return ""


def _too_new(settings: "dict[str, Any]") -> "str":
    from . import installation, server_version

    return server_version.complaint(settings["remote"], installation.client_version())
