"""Runs when a Python of a run starts: what the script logs with MLflow, wandb or TensorBoard is recorded too.

Every Python of a run reads this file, so it only registers a finder; the rest is loaded with such a library, or with
Spark where the run may use it. A ``sitecustomize`` of the environment comes next. ``HOLDFAST_CAPTURE=0`` turns the
recording off.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A module of a library -> the module of ours whose ``install`` gets it after its import.
MODULES = {
    "mlflow.tracking.client": "_holdfast_capture.mlflow_client",
    "wandb.sdk.wandb_init": "_holdfast_capture.wandb_run",
    "wandb.sdk.wandb_login": "_holdfast_capture.wandb_run",
    "wandb.sdk.wandb_run": "_holdfast_capture.wandb_run",
    "tensorboard.summary.writer.event_file_writer": "_holdfast_capture.event_files",
    "tensorboardX.event_file_writer": "_holdfast_capture.event_files",
    "tensorflow.python.summary.writer.event_file_writer": "_holdfast_capture.event_files",
    "tensorflow.python.ops.summary_ops_v2": "_holdfast_capture.tensorflow_summary",
    "lightning.fabric.loggers.csv_logs": "_holdfast_capture.lightning_csv",
    "lightning.pytorch.loggers.csv_logs": "_holdfast_capture.lightning_csv",
    "lightning_fabric.loggers.csv_logs": "_holdfast_capture.lightning_csv",
    "pytorch_lightning.loggers.csv_logs": "_holdfast_capture.lightning_csv",
}
SPARK_MODULES = {
    "pyspark.java_gateway": "_holdfast_spark.gateway",
    "pyspark.core.context": "_holdfast_spark.context",
    "pyspark.context": "_holdfast_spark.context",
    "pyspark.sql.connect.session": "_holdfast_spark.connect",
}
_OFF = ("0", "no", "off", "false")


class CaptureFinder:
    """Finds the given modules as the other finders do, and has them changed after their import."""

    def __init__(self, modules: "dict[str, str]") -> "None":
        self._modules = modules

    def find_spec(self, name: "str", path: "Any" = None, target: "Any" = None) -> "Any":
        if name not in self._modules:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                _install_after_import(spec, self._modules[name])
                return spec
        return None


def _install_after_import(spec: "Any", ours: "str") -> "None":
    loader = spec.loader
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        return

    def exec_module(module: "Any") -> "None":
        vars(loader).pop("exec_module", None)
        execute(module)
        try:
            import importlib

            importlib.import_module(ours).install(module)
        except Exception as problem:
            what = "what %s logs" if ours.startswith("_holdfast_capture") else "the use of %s"
            _say("holdfast: %s is not recorded: %s\n" % (what % module.__name__, problem))

    try:
        loader.exec_module = exec_module
    except AttributeError:
        return  # a loader without attributes of its own; the library works as always


def _say(text: "str") -> "None":
    try:
        sys.stderr.write(text)
    except Exception:
        pass  # a script may have closed or replaced stderr; the import succeeds all the same


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


def _changed_modules() -> "dict[str, str]":
    captures = os.environ.get("HOLDFAST_METRICS_DIR") and os.environ.get("HOLDFAST_CAPTURE", "").lower() not in _OFF
    return dict(MODULES if captures else {}, **(SPARK_MODULES if _may_use_spark() else {}))


def _may_use_spark() -> "bool":
    """Not in the Python workers of Spark, which inherit the variables of the script."""
    return "HOLDFAST_SPARK" in os.environ and not os.environ.get("PYTHON_WORKER_FACTORY_SECRET")


if __name__ == "sitecustomize":
    changed = _changed_modules()
    if changed:
        sys.meta_path.insert(0, CaptureFinder(changed))
    _run_next()
    if _may_use_spark():
        __import__("_holdfast_spark").define()
