"""Holdfast: run a training script on any machine you can reach, and prove afterwards what happened.

A script needs ``import holdfast`` and ``holdfast.log("loss", 0.3, step=10)``; the rest of this package is the
``holdfast`` command. Names are imported on first use, so that the command starts fast.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast._version import __version__
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
    "__version__",
    "active",
    "log",
    "log_dict",
    "log_figure",
    "log_image",
    "log_many",
    "log_table",
    "log_text",
    "outputs",
    "run_id",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    from importlib import import_module

    home = import_module("holdfast._version" if name == "__version__" else "holdfast.script_api.track")
    value: object = getattr(home, name)
    globals()[name] = value
    return value
