"""Runs as TensorBoard's event files, one folder for each: scalars, pictures, texts and hyperparameters.

An event file is a sequence of records (length, checksum, data, checksum) of protobuf messages. The few messages that
are needed are encoded here, because TensorBoard's own package brings twenty others.
"""

from __future__ import annotations

import os
import struct

from holdfast.metrics import values as logged_values
from holdfast.present.export import exported_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from holdfast.metrics.values import Series
    from holdfast.present.export.exported_run import ExportedRun, Written
    from holdfast.store.runs import Run

_FACTS = ("run_id", "run_number", "status", "script_name", "arguments", "target", "host", "user", "start_time_utc")
_GREATEST = 3.4028234663852886e38  # of the 32-bit floats that TensorBoard has
_STRING = 7  # TensorFlow's DT_STRING


def write(chosen: list[Run], folder: str, tell: Callable[[int, int], None]) -> Written:
    """One folder per run; ``tensorboard --logdir FOLDER`` shows them together."""
    folder = exported_run.new_folder(folder)
    left_out: list[str] = []
    for done, run in enumerate(chosen):
        tell(done, len(chosen))
        _write_run(exported_run.read(run), folder, left_out)
    return exported_run.Written(folder, len(chosen), 0, left_out)


def _write_run(run: ExportedRun, folder: str, left_out: list[str]) -> None:
    inner = os.path.join(folder, run.folder_name)
    os.makedirs(inner)
    created = run.run.request.get("created_ns")
    started = created if isinstance(created, int) else 0
    name = f"events.out.tfevents.{started // 10**9:010d}.holdfast"
    with open(os.path.join(inner, name), "xb") as target:
        _add(target, started, 0, _text(3, "brain.Event:2"))
        _add_summary(target, started, 0, _text_value("run", _facts(run)))
        if run.parameters:
            _add_summary(target, started, 0, _hyperparameters(run))
        for series in run.metrics.by_name.values():
            skipped = 0
            for moment, step, value in _points(run, series):
                skipped += value is None
                if value is not None:
                    _add_summary(target, moment, step, value)
            if skipped:
                left_out.append(f"{run.run_id}: {series.name}: {skipped} values that TensorBoard has no form for")


def _points(run: ExportedRun, series: Series) -> Iterator[tuple[int, int, bytes | None]]:
    """Time, step and the encoded value; None for a value that TensorBoard has no form for."""
    tag = _text(1, series.name)
    for moment, step, value in zip(series.times, series.steps, series.values, strict=True):
        if isinstance(value, (bool, int, float)):
            yield moment, step, tag + b"\x15" + struct.pack("<f", _as_float32(float(value)))
        elif isinstance(value, str):
            yield moment, step, _text_value(series.name, value)
        else:
            yield moment, step, _picture(run, tag, value)


def _as_float32(value: float) -> float:
    if abs(value) > _GREATEST and value - value == 0:
        return float("inf") if value > 0 else float("-inf")
    return value


def _picture(run: ExportedRun, tag: bytes, value: object) -> bytes | None:
    image = logged_values.image(value)  # type: ignore[arg-type]
    data = logged_values.read_image(run.metrics_folder, image) if image else None
    if image is None or data is None:
        return None
    # Summary.Image: height, width, colour space (3 is RGB), the bytes of the file
    size = _number(1, image.height) + _number(2, image.width) + _number(3, 3)
    return tag + _bytes(4, size + _bytes(4, data))


def _facts(run: ExportedRun) -> str:
    rows = [(name, run.record.get(name)) for name in _FACTS]
    cells = [(name, " ".join(map(str, value)) if isinstance(value, list) else value) for name, value in rows]
    return "| | |\n| --- | --- |\n" + "".join(
        f"| {name} | {value} |\n" for name, value in cells if value not in (None, "")
    )


def _text_value(name: str, text: str) -> bytes:
    """Summary.Value of the plugin `text`: a tensor of one string."""
    tensor = _number(1, _STRING) + _bytes(2, _bytes(2, _number(1, 1))) + _text(8, text)
    return _text(1, name) + _bytes(8, tensor) + _metadata("text", b"")


def _hyperparameters(run: ExportedRun) -> bytes:
    """The start of a session of the plugin `hparams`: a map from names to values."""
    entries = [_bytes(1, _text(1, name) + _bytes(2, _parameter(value))) for name, value in run.parameters.items()]
    session = b"".join(entries) + _text(4, run.run_id)
    return _text(1, "_hparams_/session_start_info") + _metadata("hparams", _bytes(3, session))


def _parameter(value: object) -> bytes:
    if isinstance(value, bool):
        return _number(4, int(value))
    if isinstance(value, (int, float)):
        return b"\x11" + struct.pack("<d", value)
    return _text(3, str(value))


def _metadata(plugin: str, content: bytes) -> bytes:
    return _bytes(9, _bytes(1, _text(1, plugin) + (_bytes(2, content) if content else b"")))


def _add_summary(target: BinaryIO, moment: int, step: int, value: bytes) -> None:
    _add(target, moment, step, _bytes(5, _bytes(1, value)))


def _add(target: BinaryIO, moment: int, step: int, content: bytes) -> None:
    event = b"\x09" + struct.pack("<d", moment / 1e9) + (_number(2, step) if step else b"") + content
    length = struct.pack("<Q", len(event))
    target.write(length + _checksum(length) + event + _checksum(event))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value & 0xFFFFFFFFFFFFFFFF)


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode("utf-8", "replace"))


def _varint(value: int) -> bytes:
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def _checksum(data: bytes) -> bytes:
    """CRC-32C, rotated and shifted as TFRecord has it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _table() -> tuple[int, ...]:
    rows = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)  # noqa: PLW2901
        rows.append(crc)
    return tuple(rows)


_TABLE = _table()
