"""Records what passes MLflow's client: ``mlflow.log_*``, autologging, and the loggers of Lightning and transformers."""

import os
import threading

from .recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SYSTEM = "mlflow."  # how MLflow's own tags begin
_recorder = Recorder("mlflow")
_inside = threading.local()  # .image while MLflow writes the files of one image


def install(module: "Any") -> "None":
    client = module.MlflowClient
    _recorder.after(client, "create_run", _create_run)
    _recorder.after(client, "log_metric", _log_metric)
    _recorder.after(client, "log_param", _log_param)
    _recorder.after(client, "set_tag", _set_tag)
    _recorder.after(client, "log_batch", _log_batch)
    _recorder.after(client, "log_artifact", _log_artifact)
    _recorder.after(client, "log_artifacts", _log_artifacts)
    if hasattr(client, "log_image"):
        _mark_images(client)
        _recorder.after(client, "log_image", _log_image)
    if hasattr(client, "log_model_artifacts"):
        _recorder.after(client, "log_model_artifacts", _log_model_artifacts)


def _create_run(result: "Any", *args: "Any", **kwargs: "Any") -> "None":
    info = result.info
    prefix = _recorder.prefix(info.run_id, getattr(info, "run_name", "") or info.run_id[:8])
    if not prefix:
        _recorder.tag("mlflow.run_id", info.run_id)
    for name, value in result.data.tags.items():
        _tag(prefix, name, value)


def _log_metric(
    _: "Any",
    client: "Any",
    run_id: "str",
    key: "str",
    value: "Any",
    timestamp: "Any" = None,
    step: "Any" = None,
    *args: "Any",
    **kwargs: "Any",
) -> "None":
    # MLflow knows no value without a step: 0 stands for it. Such values are counted, as those of holdfast.log are.
    _recorder.number(_prefix(run_id) + key, float(value), step or None)


def _log_param(
    _: "Any", client: "Any", run_id: "str", key: "str", value: "Any", *args: "Any", **kwargs: "Any"
) -> "None":
    _recorder.parameter(_prefix(run_id) + key, value)


def _set_tag(_: "Any", client: "Any", run_id: "str", key: "str", value: "Any", *args: "Any", **kwargs: "Any") -> "None":
    _tag(_prefix(run_id), key, value)


def _log_batch(
    _: "Any",
    client: "Any",
    run_id: "str",
    metrics: "Any" = (),
    params: "Any" = (),
    tags: "Any" = (),
    *args: "Any",
    **kwargs: "Any",
) -> "None":
    prefix = _prefix(run_id)
    by_step = {}  # type: dict[Any, list[tuple[str, object]]]
    for metric in metrics:
        by_step.setdefault(metric.step or None, []).append((prefix + metric.key, float(metric.value)))
    for step, points in by_step.items():
        _recorder.values(points, step)
    for param in params:
        _recorder.parameter(prefix + param.key, _typed(param.value))
    for tag in tags:
        _tag(prefix, tag.key, tag.value)


def _log_artifact(
    _: "Any", client: "Any", run_id: "str", local_path: "Any", artifact_path: "Any" = None, *args: "Any"
) -> "None":
    if getattr(_inside, "image", False):
        return
    path = os.fspath(local_path)
    _artifact(_prefix(run_id), artifact_path, path)


def _log_artifacts(
    _: "Any", client: "Any", run_id: "str", local_dir: "Any", artifact_path: "Any" = None, *args: "Any"
) -> "None":
    for name in os.listdir(local_dir):
        _artifact(_prefix(run_id), artifact_path, os.path.join(os.fspath(local_dir), name))


def _log_model_artifacts(
    _: "Any", client: "Any", model_id: "str", local_dir: "Any", artifact_path: "Any" = None, *args: "Any"
) -> "None":
    """The files of a logged model, which from MLflow 3 on are not artifacts of its run."""
    for name in os.listdir(local_dir):
        _artifact("models/%s/" % model_id, artifact_path, os.path.join(os.fspath(local_dir), name))


def _artifact(prefix: "str", folder: "str | None", path: "str") -> "None":
    _recorder.artifact(path, prefix + "/".join(filter(None, (folder, os.path.basename(path)))))


def _mark_images(client: "Any") -> "None":
    """Keep the files in which MLflow stores an image with a step out of the artifacts."""
    original = client.log_image

    def log_image(self: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        _inside.image = (args[3] if len(args) > 3 else kwargs.get("key")) is not None
        try:
            return original(self, *args, **kwargs)
        finally:
            _inside.image = False

    log_image.__wrapped__ = original  # type: ignore[attr-defined]
    client.log_image = log_image


def _log_image(
    _: "Any",
    client: "Any",
    run_id: "str",
    image: "Any",
    artifact_file: "Any" = None,
    key: "Any" = None,
    step: "Any" = None,
    *args: "Any",
    **kwargs: "Any",
) -> "None":
    if key is not None:  # otherwise it has passed as an artifact
        picture = image.to_pil() if hasattr(image, "to_pil") else image
        _recorder.made("image", _prefix(run_id) + key, picture, step or None)


def _prefix(run_id: "str") -> "str":
    return _recorder.prefix(run_id, run_id[:8])


def _typed(text: "Any") -> "object":
    """MLflow turns the values of several parameters into text before they come here."""
    for kind in (int, float):
        try:
            return kind(text)
        except (TypeError, ValueError):
            continue
    return {"True": True, "False": False}.get(text, text)


def _tag(prefix: "str", name: "str", value: "object") -> "None":
    if not name.startswith(_SYSTEM):
        _recorder.tag(prefix + name, value)
