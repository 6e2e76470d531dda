"""Records ``tf.summary``: values of eager code at once, those of a tf.function from the event file at the end."""

import atexit
import os
import weakref

from . import event_files, protobuf
from .event_files import recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_writers = []  # type: list[Any]  # weak references
_compiled = {}  # type: dict[str, set[str]]  # folder -> names that a tf.function has written


def install(module: "Any") -> "None":
    recorder.after(module, "create_file_writer_v2", _create_file_writer)
    _record_writes(module)
    atexit.register(_read_files)


def _create_file_writer(result: "Any", logdir: "Any", *args: "Any", **kwargs: "Any") -> "None":
    if isinstance(logdir, (str, bytes)) or hasattr(logdir, "__fspath__"):
        result._holdfast_folder = os.path.abspath(os.fsdecode(logdir))
        _writers.append(weakref.ref(result))


def _record_writes(module: "Any") -> "None":
    def record(
        _: "Any", tag: "Any", tensor: "Any", step: "Any" = None, metadata: "Any" = None, *args: "Any", **kwargs: "Any"
    ) -> "None":
        writer = module._summary_state.writer
        folder = getattr(writer, "_holdfast_folder", None)
        if folder is None:
            return
        name = tag if isinstance(tag, str) else None
        if not module.context.executing_eagerly() or name is None:
            _compiled.setdefault(folder, set()).add(name or "")
            return
        if bool(module.should_record_summaries()):
            step = module.get_step() if step is None else step
            value = tensor() if callable(tensor) else tensor
            _record(event_files.folder_prefix(folder) + name, metadata, value, int(step))

    recorder.after(module, "write", record)


def _record(name: "str", metadata: "Any", value: "Any", step: "int") -> "None":
    plugin = metadata.plugin_data.plugin_name if hasattr(metadata, "plugin_data") else ""
    if plugin == "scalars":
        recorder.number(name, float(value), step)
    elif plugin == "images":
        event_files.record_images(name, list(value.numpy())[2:], step)
    elif plugin == "text":
        recorder.made("text", name, value.numpy() if hasattr(value, "numpy") else value, step)
    else:
        event_files.leave_out(plugin)


def _read_files() -> "None":
    """What a tf.function has written never passed Python: it is taken from the event files of this process."""
    if not recorder.works:
        return
    try:
        for writer in filter(None, (reference() for reference in _writers if _compiled)):
            writer.flush()
        for folder, names in _compiled.items():
            prefix = event_files.folder_prefix(folder)
            for file in sorted(os.listdir(folder)):
                if ".tfevents." in file and ".%d." % os.getpid() in file:
                    for name, step, value in protobuf.scalars(os.path.join(folder, file)):
                        if name in names or "" in names:
                            recorder.number(prefix + name, value, step)
    except Exception as problem:
        recorder.stop(problem)
