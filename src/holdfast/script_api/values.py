"""Converts values for ``holdfast.log`` (numbers, tables, pictures) into what a run stores.

Objects of libraries are recognised by their methods, and no library is imported: a script that has one has loaded it.
Nothing is pickled. Beside ``holdfast.py`` in a run this file is ``_holdfast_values.py``, for Python 3.6 and newer.
"""

import io
import json
import os
import struct
import sys
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    # kind, what its line says of it, what goes into a file of its own, and that file's ending
    Made = tuple[str, object, bytes, str]

LARGEST = 16 * 1000 * 1000  # bytes of one value
_LONGEST_ARRAY = 10000  # numbers that are kept one by one
_MOST_CELLS = 2000000  # of a table: more cannot come to less than the limit
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # PNG's number for grey, grey and alpha, RGB, RGBA
_LARGEST_BITS = 1023  # of an integer that is less than the greatest float
_HIGH = (512, 128)  # descriptors; below the usual limits of Linux and of macOS
_SOME = 0.01  # how far rounding may carry a colour beyond its ends


def make(kind: "str", value: "Any") -> "Made":
    """As the caller has said what it is. ``ValueError`` tells why it cannot be that."""
    try:
        return _MAKERS[kind](value)
    except (ValueError, MemoryError):
        raise
    except Exception as problem:
        # Above all no OSError: that would mean the run's own folder is in trouble.
        raise ValueError("no %s can be made of this %s: %s" % (kind, type(value).__name__, problem)) from None


def recognised(value: "Any") -> "Made | None":
    """By what the object itself is; None where it is nothing special."""
    module = type(value).__module__.partition(".")[0]
    if module == "matplotlib" and hasattr(value, "savefig"):
        return make("figure", value)
    if module == "PIL" and hasattr(value, "getbands"):
        return make("image", value)
    if _is_frame(value):
        return make("table", value) if _count(value) <= _MOST_CELLS else _described_frame(value)
    if hasattr(value, "dtype") and _count(value) > _LONGEST_ARRAY:
        return "array", _described_array(value), b"", ""
    return None


def plain(value: "Any") -> "Any":
    """A number as Python's own, and of anything else what comes nearest to JSON."""
    for _ in range(3):  # a tensor gives an array, an array gives numbers
        if value is None or isinstance(value, (bool, str, list, tuple, dict)):
            return value
        if isinstance(value, int):
            value = int(value)
            return value if value.bit_length() <= _LARGEST_BITS else _digits(value)
        if isinstance(value, float):
            return float(value)
        value = _plainer(value)
    return value


def high_descriptor(descriptor: "int") -> "int":
    """The same open file under a high number.

    A script that closes all descriptors, as daemons do, opens its own files under the low numbers next. What is logged
    then would be written into them.
    """
    if sys.platform == "win32":
        return descriptor
    import fcntl

    for least in _HIGH:
        try:
            high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)
        except OSError:
            continue  # beyond the limit of this process
        os.close(descriptor)
        return high
    return descriptor


def spelled(content: "dict[str, Any]") -> "bytes":
    """A line of a .jsonl."""
    try:
        text = json.dumps(content, default=_plainer)
    except Exception:  # a circle, a key that is no text, a number of 5,000 digits, ...
        text = json.dumps({"type": content["type"], "value": _described(content["value"])})
    return text.encode("ascii") + b"\n"


# How the libraries people train with give out plain Python values, asked in this order.
_PLAINER_FORMS = (
    ("tolist", ()),
    ("item", ()),
    ("numpy", ()),
    ("to_dict", ("list",)),
    ("to_dict", ()),
    ("to_list", ()),
    ("isoformat", ()),
)  # type: tuple[tuple[str, tuple[str, ...]], ...]


def _plainer(value: "Any") -> "object":
    for method, arguments in _PLAINER_FORMS:
        try:
            return getattr(value, method)(*arguments)
        except Exception:
            continue
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", "backslashreplace")
    if type(value).__name__ in ("Decimal", "Fraction", "mpf", "mpq"):
        try:
            return float(value)
        except (OverflowError, ValueError):
            pass  # greater than any float
    return _described(value)


def _digits(value: "int") -> "str":
    """An integer that is greater than any float, as text."""
    try:
        return str(value)
    except ValueError:  # Python writes no more than 4300 digits
        return hex(value)


def _described(value: "object") -> "str":
    try:
        return repr(value)
    except Exception:
        return object.__repr__(value)


def _image(value: "Any") -> "Made":
    if hasattr(value, "__fspath__") or isinstance(value, str):
        with open(os.fspath(value), "rb") as source:
            value = source.read(LARGEST + 1)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _encoded(bytes(value))
    if hasattr(value, "savefig"):
        return _figure(value)
    if hasattr(value, "getbands"):
        return _encoded(_saved_by_pil(value))
    return _encoded(_png(*_dots(_as_array(value))))


def _figure(value: "Any") -> "Made":
    target = io.BytesIO()
    value.savefig(target, format="png")
    return _encoded(target.getvalue())


def _table(value: "Any") -> "Made":
    if _count(value) > _MOST_CELLS:
        raise ValueError("a table of %d cells is larger than %d bytes" % (_count(value), LARGEST))
    columns, rows = _columns_and_rows(value)
    cells = [[None if type(cell).__name__ in ("NAType", "NaTType") else cell for cell in row] for row in rows]
    return "table", {"type": "table", "columns": [str(name) for name in columns], "rows": cells}, b"", ""


def _text(value: "Any") -> "Made":
    if isinstance(value, (bytes, bytearray)):
        value = bytes(value).decode("utf-8", "backslashreplace")
    return "text", str(value), b"", ""


def _dict(value: "Any") -> "Made":
    return "dict", {str(name): item for name, item in dict(value).items()}, b"", ""


_MAKERS = {"image": _image, "figure": _figure, "table": _table, "text": _text, "dict": _dict}


def _encoded(data: "bytes") -> "Made":
    import hashlib

    if len(data) > LARGEST:
        raise ValueError("an image of %d bytes is larger than %d" % (len(data), LARGEST))
    if data.startswith(_PNG) and len(data) > 24:
        ending, (width, height) = ".png", struct.unpack(">II", data[16:24])
    elif data.startswith(_JPEG):
        ending, (width, height) = ".jpg", _jpeg_size(data)
    else:
        raise ValueError("an image is a PNG or a JPEG, and this begins with %r" % data[:8])
    plain = {"type": "image", "width": width, "height": height, "sha256": hashlib.sha256(data).hexdigest()}
    return "image", plain, data, ending


def _jpeg_size(data: "bytes") -> "tuple[int, int]":
    """From the first segment that begins a frame: markers C0 to CF, less the three that mean something else."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]
    raise ValueError("the size of this JPEG cannot be read")


def _saved_by_pil(value: "Any") -> "bytes":
    target = io.BytesIO()
    try:
        value.save(target, format="PNG")
    except OSError:  # a mode that PNG has not, such as CMYK
        target = io.BytesIO()
        value.convert("RGB").save(target, format="PNG")
    return target.getvalue()


def _as_array(value: "Any") -> "Any":
    """A numpy array of height x width or height x width x channels."""
    channels_first = False
    if hasattr(value, "detach"):  # a tensor, whose first dimension are its channels
        value = value.detach().cpu()
        shape = tuple(value.shape)
        channels_first = len(shape) == 3 and shape[0] in _COLOUR_TYPES
        if str(value.dtype).endswith("bfloat16"):
            value = value.float()
    array = value if hasattr(value, "tobytes") else value.__array__()
    return array.transpose(1, 2, 0) if channels_first else array


def _dots(array: "Any") -> "tuple[int, int, int, bytes]":
    """Width, height, channels and the bytes of all dots."""
    shape = tuple(array.shape)
    if len(shape) not in (2, 3) or 0 in shape or (len(shape) == 3 and shape[2] not in _COLOUR_TYPES):
        raise ValueError(
            "an image is height x width, or that x 1 to 4 channels, and not %s" % "x".join(map(str, shape))
        )
    kind = array.dtype.kind
    if kind == "f":
        array = _from_floats(array)
    elif kind == "b":
        array = array.astype("uint8") * 255
    elif kind in "iu" and str(array.dtype) != "uint8":
        if array.min() < 0 or array.max() > 255:
            raise ValueError("whole numbers of an image go from 0 to 255, not %s to %s" % (array.min(), array.max()))
        array = array.astype("uint8")
    elif kind not in "iu":
        raise ValueError("an image must consist of numbers, not %s" % array.dtype)
    return shape[1], shape[0], shape[2] if len(shape) == 3 else 1, array.tobytes()


def _from_floats(array: "Any") -> "Any":
    array = sys.modules["numpy"].nan_to_num(array.astype("float64"), nan=0.0, posinf=1.0, neginf=0.0)
    if array.min() < -_SOME or array.max() > 1 + _SOME:
        raise ValueError("floats of an image go from 0 to 1, not %g to %g" % (array.min(), array.max()))
    return (array.clip(0, 1) * 255 + 0.5).astype("uint8")


def _png(width: "int", height: "int", channels: "int", dots: "bytes") -> "bytes":
    line = width * channels
    rows = b"".join(b"\0" + dots[start : start + line] for start in range(0, len(dots), line))
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    return _PNG + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data) & 0xFFFFFFFF)
        for kind, data in parts
    )


def _columns_and_rows(value: "Any") -> "tuple[Any, Any]":
    if hasattr(value, "iter_rows"):  # polars
        return value.columns, value.iter_rows()
    if hasattr(value, "itertuples"):  # pandas
        if any(name is not None for name in value.index.names):
            value = value.reset_index()
        return value.columns, value.itertuples(index=False, name=None)
    if isinstance(value, dict):
        columns = {name: _listed(column) for name, column in value.items()}
        if len({len(column) for column in columns.values()}) > 1:
            raise ValueError(
                "the columns of a table must have equal lengths, these have %s"
                % {str(name): len(column) for name, column in columns.items()}
            )
        return list(columns), zip(*columns.values())  # noqa: B905 - Python 3.6 has no strict
    names = getattr(getattr(value, "dtype", None), "names", None)
    rows = _listed(value)
    if names:
        return names, rows
    if rows and all(isinstance(row, dict) for row in rows):
        names = list({name: None for row in rows for name in row})
        return names, [[row.get(name) for name in names] for row in rows]
    rows = [_listed(row) if isinstance(row, (list, tuple)) or hasattr(row, "tolist") else [row] for row in rows]
    return range(max(map(len, rows), default=0)), rows


def _listed(value: "Any") -> "list[Any]":
    items = value.tolist() if hasattr(value, "tolist") else value
    return list(items)


def _is_frame(value: "Any") -> "bool":
    # Asked last for its columns: a lazy frame would go and find them out.
    return (hasattr(value, "itertuples") or hasattr(value, "iter_rows")) and hasattr(value, "columns")


def _count(value: "Any") -> "int":
    """How many numbers or cells it has; 0 where that is not known."""
    count = 1
    try:
        for length in value.shape:
            count *= int(length)
    except Exception:
        return 0
    return count


def _described_frame(value: "Any") -> "Made":
    columns = [str(name) for name in value.columns]
    return "table", {"type": "table", "columns": columns, "row_count": int(value.shape[0])}, b"", ""


def _described_array(value: "Any") -> "dict[str, Any]":
    """What is kept of an array that is too long to be kept number by number."""
    fields = {"type": "array", "shape": [int(length) for length in value.shape], "dtype": str(value.dtype)}  # type: dict[str, Any]
    for name in ("min", "max", "mean"):
        try:
            fields[name] = float(getattr(value, name)())
        except Exception:
            continue  # text, or a tensor of whole numbers, which has no mean
    return fields
