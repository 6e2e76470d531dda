"""Holdfast: run a training script on any machine you can reach, and prove afterwards what happened.

A script needs ``import holdfast`` and ``holdfast.log("loss", 0.3, step=10)``. Programs and notebooks use
``holdfast.submit``, ``holdfast.runs`` and ``holdfast.remote``. Names are imported on first use, so that
``import holdfast`` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast import errors
    from holdfast._version import __version__
    from holdfast.api import (
        Metric,
        Metrics,
        Outputs,
        Progress,
        RemoteFunction,
        RemoteRun,
        Run,
        RunList,
        TargetInfo,
        remote,
        run,
        runs,
        submit,
        targets,
    )
    from holdfast.script_api.track import (
        active,
        log,
        log_dict,
        log_figure,
        log_image,
        log_many,
        log_table,
        log_text,
        outputs,
        run_id,
    )

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
    "__version__",
    "active",
    "errors",
    "log",
    "log_dict",
    "log_figure",
    "log_image",
    "log_many",
    "log_table",
    "log_text",
    "outputs",
    "remote",
    "run",
    "run_id",
    "runs",
    "submit",
    "targets",
]
_OF_SCRIPTS = frozenset(
    (
        *("active", "log", "log_dict", "log_figure", "log_image", "log_many", "log_table", "log_text"),
        *("outputs", "run_id"),
    )
)


def load_ipython_extension(shell: object) -> None:
    """``%load_ext holdfast`` in a notebook: the magics ``%%submit``, ``%runs`` and ``%azureml``."""
    from holdfast.api.notebook_magics import load

    load(shell)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    from importlib import import_module

    if name == "errors":
        return import_module("holdfast.errors")
    package = "holdfast.script_api.track" if name in _OF_SCRIPTS else "holdfast.api"
    value: object = getattr(import_module("holdfast._version" if name == "__version__" else package), name)
    globals()[name] = value
    return value
