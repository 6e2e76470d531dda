"""The files of ``aml_config``: tolerant readers, exact writers.

    target, findings = read_compute("aml_config/my_dsvm.compute")
    raise_errors(findings)

Bytes become a tree with places (``source``: ``plain`` and ``flow`` read what nearly all files look like, ``full``
the rest), the tree becomes a frozen value (``compute``, ``runconfig``, ``successor``, ``dependencies``, all through
``form``), and whatever is worth saying becomes a ``Finding``. Off the submit path, and so imported on use:
``check`` looks at a whole project, ``write`` makes and changes files.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.amlconfig.compute import read_compute
    from holdfast.amlconfig.findings import raise_errors, render
    from holdfast.amlconfig.runconfig import read_runconfig
    from holdfast.amlconfig.types import ComputeTarget, Finding, RunConfig

__all__ = ["ComputeTarget", "Finding", "RunConfig", "raise_errors", "read_compute", "read_runconfig", "render"]

_HOMES = {
    **dict.fromkeys(("ComputeTarget", "Finding", "RunConfig"), "types"),
    **dict.fromkeys(("raise_errors", "render"), "findings"),
    "read_compute": "compute",
    "read_runconfig": "runconfig",
}


def __getattr__(name: str) -> object:
    """Import each module on first use: a project without these files needs only the types."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
