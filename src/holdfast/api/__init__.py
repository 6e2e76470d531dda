"""The Python API: submit scripts and functions, and read the history, from Python.

``import holdfast`` imports none of this; ``holdfast.submit`` and the other names load it on first use.
"""

from __future__ import annotations

from holdfast.api.history import RunList, run, runs
from holdfast.api.metrics import Metric, Metrics
from holdfast.api.outputs import Outputs
from holdfast.api.progress import Progress
from holdfast.api.remote_function import RemoteFunction, RemoteRun, remote
from holdfast.api.run_handle import Run
from holdfast.api.script_submit import submit
from holdfast.api.target_info import TargetInfo, targets

__all__ = [
    "Metric",
    "Metrics",
    "Outputs",
    "Progress",
    "RemoteFunction",
    "RemoteRun",
    "Run",
    "RunList",
    "TargetInfo",
    "remote",
    "run",
    "runs",
    "submit",
    "targets",
]
