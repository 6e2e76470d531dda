"""Records what Lightning's CSVLogger gets, its logger where TensorBoard is not installed."""

from .recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_recorder = Recorder("lightning")


def install(module: "Any") -> "None":
    """The module of fabric has the writer of metrics, the one of pytorch a class below it that has hyperparameters."""
    if "log_metrics" in vars(getattr(module, "_ExperimentWriter", None) or object):
        _recorder.after(module._ExperimentWriter, "log_metrics", _log_metrics)
    elif "log_hparams" in vars(getattr(module, "ExperimentWriter", None) or object):
        _recorder.after(module.ExperimentWriter, "log_hparams", _log_hparams)


def _log_metrics(_: "Any", writer: "Any", metrics_dict: "dict[str, Any]", step: "int | None" = None) -> "None":
    prefix = _recorder.prefix(writer.log_dir, str(writer.log_dir).rstrip("/").rpartition("/")[2])
    _recorder.values([(prefix + name, value) for name, value in metrics_dict.items()], step)


def _log_hparams(_: "Any", writer: "Any", params: "dict[str, Any]") -> "None":
    for name, value in params.items():
        _recorder.parameter(name, value)
