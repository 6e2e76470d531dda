"""Runs when a Python of a run starts: when a script imports MLflow, wandb or TensorBoard, what it logs is recorded too.

Every Python of a run reads this file, so it only registers a finder; the rest is loaded with such a library. A
``sitecustomize`` of the environment comes next. ``HOLDFAST_CAPTURE=0`` turns it off.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A module of a library -> the module of _holdfast_capture whose ``install`` gets it after its import.
MODULES = {
    "mlflow.tracking.client": "mlflow_client",
    "wandb.sdk.wandb_init": "wandb_run",
    "wandb.sdk.wandb_run": "wandb_run",
    "tensorboard.summary.writer.event_file_writer": "event_files",
    "tensorboardX.event_file_writer": "event_files",
    "tensorflow.python.summary.writer.event_file_writer": "event_files",
    "tensorflow.python.ops.summary_ops_v2": "tensorflow_summary",
    "lightning.fabric.loggers.csv_logs": "lightning_csv",
    "lightning.pytorch.loggers.csv_logs": "lightning_csv",
    "lightning_fabric.loggers.csv_logs": "lightning_csv",
    "pytorch_lightning.loggers.csv_logs": "lightning_csv",
}
_OFF = ("0", "no", "off", "false")


class CaptureFinder:
    """Finds the modules above as the other finders do, and has them changed after their import."""

    def find_spec(self, name: "str", path: "Any" = None, target: "Any" = None) -> "Any":
        if name not in MODULES:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                _install_after_import(spec, MODULES[name])
                return spec
        return None


def _install_after_import(spec: "Any", capture: "str") -> "None":
    loader = spec.loader
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        return

    def exec_module(module: "Any") -> "None":
        vars(loader).pop("exec_module", None)
        execute(module)
        try:
            import importlib

            importlib.import_module("_holdfast_capture." + capture).install(module)
        except Exception as problem:
            sys.stderr.write("holdfast: what %s logs is not recorded: %s\n" % (module.__name__, problem))

    try:
        loader.exec_module = exec_module
    except AttributeError:
        return  # a loader without attributes of its own; the library works as always


def _run_next() -> "None":
    """The ``sitecustomize`` that this file hides, if there is one; not one of Holdfast in another version."""
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import PathFinder

    entries = [entry for entry in sys.path if not os.path.exists(os.path.join(entry, "_holdfast_values.py"))]
    spec = PathFinder.find_spec("sitecustomize", entries)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    if os.environ.get("HOLDFAST_METRICS_DIR") and os.environ.get("HOLDFAST_CAPTURE", "").lower() not in _OFF:
        sys.meta_path.insert(0, CaptureFinder())
    _run_next()
