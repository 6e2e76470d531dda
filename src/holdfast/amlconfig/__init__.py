"""The files of ``aml_config``: tolerant readers, exact writers.

    target, findings = read_compute("aml_config/my_dsvm.compute")
    raise_errors(findings)

Bytes become a tree with places (``source``: ``plain`` and ``flow`` read what nearly all files look like, ``full``
the rest), the tree becomes a frozen value (``compute``, ``runconfig``, ``successor``, ``dependencies``, all through
``form``), and whatever is worth saying becomes a ``Finding``. Off the submit path, and so imported on use:
``check`` looks at a whole project, ``write`` makes and changes files.
"""

from __future__ import annotations

from holdfast.amlconfig.compute import read_compute
from holdfast.amlconfig.findings import raise_errors, render
from holdfast.amlconfig.runconfig import read_runconfig
from holdfast.amlconfig.types import ComputeTarget, Finding, RunConfig

__all__ = ["ComputeTarget", "Finding", "RunConfig", "raise_errors", "read_compute", "read_runconfig", "render"]
