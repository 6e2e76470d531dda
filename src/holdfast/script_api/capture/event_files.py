"""Records the events that pass TensorBoard's writers in Python: torch's ``SummaryWriter``, tensorboardX, Lightning."""

import os
import struct

from . import protobuf
from .recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TEXT_SUFFIX = "/text_summary"  # what torch and tensorboardX append to the name of a text
recorder = Recorder("tensorboard")
_first_folder = []  # type: list[str]


def install(module: "Any") -> "None":
    recorder.after(module.EventFileWriter, "add_event", _add_event)


def folder_prefix(folder: "object") -> "str":
    """A prefix for the values of every writer but the first: the name of its folder."""
    path = os.path.abspath(os.fsdecode(folder))  # type: ignore[arg-type]
    if not _first_folder:
        _first_folder.append(path)
    first = os.path.join(_first_folder[0], "")
    name = path[len(first) :] if path.startswith(first) else os.path.basename(path)
    if name.replace(".", "").isdigit():
        return ""  # a moment: the folder that torch's add_hparams makes
    return recorder.prefix(path, name)


def _add_event(_: "Any", writer: "Any", event: "Any", *args: "Any", **kwargs: "Any") -> "None":
    values = event.summary.value  # empty where the event has no summary
    for value in values if len(values) != 1 else (values[0],):  # an iterator of protobuf costs more than the rest
        try:
            prefix = writer._holdfast_prefix
        except AttributeError:
            prefix = writer._holdfast_prefix = folder_prefix(writer.get_logdir())
        number = value.simple_value
        if number:  # a value of another kind has 0 here: most values need no further question
            recorder.number(prefix + value.tag, number, event.step)
            continue
        kind = value.WhichOneof("value")
        if kind == "simple_value":
            recorder.number(prefix + value.tag, number, event.step)
        elif kind == "image":
            recorder.made("image", prefix + value.tag, value.image.encoded_image_string, event.step)
        elif kind == "tensor":
            plugin = value.metadata.plugin_data
            record_tensor(prefix + value.tag, plugin.plugin_name, plugin.content, value.tensor, event.step)
        elif plugin_of(value) == "hparams":
            _record_parameters(value.metadata.plugin_data.content)
        else:
            leave_out(kind)


def plugin_of(value: "Any") -> "str":
    return str(value.metadata.plugin_data.plugin_name)


def record_tensor(name: "str", plugin: "str", content: "bytes", tensor: "Any", step: "int") -> "None":
    """A value in the newer form, in which the name of a plugin says what the tensor is."""
    if plugin == "scalars":
        recorder.number(name, scalar_of(tensor), step)
    elif plugin == "images":
        record_images(name, list(tensor.string_val)[2:], step)
    elif plugin == "text":
        name = name[: -len(_TEXT_SUFFIX)] if name.endswith(_TEXT_SUFFIX) else name
        recorder.made("text", name, b"\n".join(tensor.string_val), step)
    elif plugin == "hparams":
        _record_parameters(content)
    else:
        leave_out(plugin)


def record_images(name: "str", pictures: "list[bytes]", step: "int") -> "None":
    for number, picture in enumerate(pictures):
        recorder.made("image", name if len(pictures) == 1 else "%s/%d" % (name, number), picture, step)


def scalar_of(tensor: "Any") -> "float":
    """The number in a TensorProto of one element, without numpy."""
    for values in (tensor.float_val, tensor.double_val, tensor.int_val, tensor.int64_val):
        if len(values):
            return float(values[0])
    content = tensor.tensor_content
    return float(struct.unpack("<f" if len(content) == 4 else "<d", content)[0])


def leave_out(kind: "str | None") -> "None":
    if kind and not kind.startswith("graph"):
        name = {"histo": "histograms"}.get(kind, kind)
        recorder.mention(name, "%s are not recorded" % name)


def _record_parameters(content: "bytes") -> "None":
    """The hyperparameters in a HParamsPluginData: field 3 is the start of a session, its field 1 a map to Values."""
    for number, session in protobuf.fields(content):
        for inner, entry in protobuf.fields(session) if number == 3 else ():
            if inner == 1:
                pair = dict(protobuf.fields(entry))
                recorder.parameter(pair[1].decode("utf-8", "replace"), protobuf.plain_value(pair.get(2, b"")))
