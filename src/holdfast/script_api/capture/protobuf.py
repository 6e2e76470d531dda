"""Reads protobuf messages and the event files of TensorBoard without a library."""

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_LENGTH = struct.Struct("<Q")


def fields(data: "bytes") -> "Iterator[tuple[int, Any]]":
    """The number and the content of each field: an int of a varint, bytes of anything else."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        length = {1: 8, 5: 4}.get(kind)
        if length is None:
            length, at = _varint(data, at)
        yield key >> 3, data[at : at + length]
        at += length


def plain_value(data: "bytes") -> "object":
    """A google.protobuf.Value that is a number, a text or a truth value."""
    for number, value in fields(data):
        if number == 2:
            return struct.unpack("<d", value)[0]
        if number == 3:
            return value.decode("utf-8", "replace")
        if number == 4:
            return bool(value)
    return None


def scalars(path: "str") -> "Iterator[tuple[str, int, float]]":
    """Name, step and number of each scalar in an event file, up to a record that is not complete."""
    with open(path, "rb") as source:
        while True:
            header = source.read(12)
            if len(header) < 12:
                return
            length = _LENGTH.unpack(header[:8])[0]
            data = source.read(length + 4)
            if len(data) < length + 4:
                return
            for point in _scalars_of(data[:length]):
                yield point


def _scalars_of(event: "bytes") -> "Iterator[tuple[str, int, float]]":
    """Event: 2 is the step, 5 the summary. Summary: 1 is a value. Value: 1 is its tag, 2 a float, 8 a tensor."""
    content = dict(fields(event))
    for _, value in fields(content.get(5, b"")):
        parts = dict(fields(value))
        number = parts.get(2) or _first_float(parts.get(8, b""))
        if number:
            yield parts[1].decode("utf-8", "replace"), content.get(2, 0), struct.unpack("<f", number)[0]


def _first_float(tensor: "bytes") -> "bytes":
    """TensorProto: 1 is the type, of which 1 is float; 4 are the bytes of all elements, 5 the elements one by one."""
    parts = dict(fields(tensor))
    data = parts.get(4) or parts.get(5) or b""  # type: bytes
    return data if parts.get(1) == 1 and len(data) == 4 else b""


def _varint(data: "bytes", at: "int") -> "tuple[int, int]":
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7
