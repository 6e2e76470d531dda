"""Spark's part of a run: the variables and folders that the script's process needs, and its record afterwards."""

import json
import os

from .. import untrusted
from ..decoding import lossless
from ..store import layout
from ..store.remove_tree import remove_tree

MYPY = False
if MYPY:
    from ..store.run_files import Events

_LARGEST = 4 * 1024 * 1024
_LONGEST = 2000
_TEXTS = ("application", "session", "master", "spark", "scala", "java", "python", "ui")


def variables(home: "bytes", attempt: "bytes", spark: "dict[str, object]") -> "dict[bytes, bytes]":
    """What the script's process is told. The folders are made; in a container they may not be there."""
    cache, scratch = layout.spark_packages(home), layout.spark_scratch(attempt)
    for folder in (cache, scratch):
        os.makedirs(folder, 0o700, exist_ok=True)
    folders = {"cache": cache, "scratch": scratch, "work": layout.work(attempt)}
    settings = dict(spark, **{name: lossless(folder) for name, folder in folders.items()})
    return {b"HOLDFAST_SPARK": json.dumps(settings).encode("ascii")}


def finish(attempt: "bytes", events: "Events", code: "int") -> "str":
    """Record what the script's process wrote about Spark; returns the reason for its failure, if Spark gave one."""
    remove_tree(layout.spark_scratch(attempt))
    record = _read(attempt)
    shown = fields_of(record)
    if shown:
        events.add("spark", **shown)
    return str(record.get("reason") or "")[:_LONGEST] if code > 0 else ""


def so_far(attempt: "bytes") -> "dict[str, object]":
    """The same as the event ``spark`` will have, of a run that goes on."""
    return fields_of(_read(attempt))


def fields_of(record: "dict[str, object]") -> "dict[str, object]":
    fields = {name: str(record[name])[:_LONGEST] for name in _TEXTS if record.get(name)}  # type: dict[str, object]
    receipt = record.get("receipt")
    if isinstance(receipt, dict):
        fields["receipt"] = receipt
    return fields


def _read(attempt: "bytes") -> "dict[str, object]":
    """The script's own process wrote it, so that anything may be there. Later lines have the last word."""
    record = {}  # type: dict[str, object]
    try:
        lines = untrusted.read_file(layout.spark_file(attempt), _LARGEST, follow=False).splitlines()
    except (OSError, ValueError):
        return record
    for line in lines:
        try:
            fields = untrusted.loads(line)
        except ValueError:
            continue  # the last one, of a process that was killed
        record.update(fields if isinstance(fields, dict) else {})
    return record
