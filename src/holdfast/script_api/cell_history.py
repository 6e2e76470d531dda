"""``%azureml history on`` in a notebook: every executed cell becomes a record of the history.

A record has the cell's source, its output as text, its error, what it logged, and the files that
``%azureml upload outputs/FILE`` named. It is passed on as JSON; docs/formats.md has the format.
"""

import base64
import importlib
import json
import os
import shutil
import sys
import tempfile
import time
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

_files = importlib.import_module(
    "holdfast.script_api.replace" if __name__.startswith("holdfast.") else "_holdfast_replace"
)
_LARGEST = 16 * 1024 * 1024  # bytes of all files of a record
_LONGEST = 1024 * 1024  # characters of a cell's output
_USAGE = "usage: %azureml history on|off|show, %azureml upload outputs/FILE"


class Outbox:
    """Where records go: a folder from which the server of the kernel takes them."""

    def __init__(self, folder: "str") -> "None":
        self._folder = folder

    def deliver(self, record: "Dict[str, Any]") -> "None":
        path = os.path.join(self._folder, "%020d.json" % int(time.monotonic() * 1e9))
        _files.replace_text(path, json.dumps(record))


def install(shell: "Any", outbox: "Any") -> "CellHistory":
    """Add the magics and the hooks to an IPython shell. ``outbox.deliver`` is called with each record."""
    history = CellHistory(outbox)
    shell.register_magic_function(history.azureml, "line", "azureml")
    shell.register_magic_function(history.upload, "line", "upload_artifact")
    shell.events.register("pre_run_cell", history.begin)
    shell.events.register("post_run_cell", history.finish)
    return history


class UsageError(ValueError):
    """A magic was called in a way that it does not have. IPython shows it without a traceback."""

    def _render_traceback_(self) -> "List[str]":
        return ["UsageError: %s" % self]


class CellHistory:
    """Records cells while it is on. It is off at first."""

    def __init__(self, outbox: "Any") -> "None":
        self._outbox = outbox
        self._is_on = False
        self._cell: "Optional[_Cell]" = None

    def azureml(self, line: "str") -> "None":
        """The magic ``%azureml``."""
        arguments = line.split(None, 1)
        if arguments[:1] == ["upload"] and len(arguments) == 2:
            self.upload(arguments[1])
        elif arguments[:1] == ["history"] and arguments[1:] in (["on"], ["off"]):
            self._is_on = arguments[1] == "on"
            _say("History logging %s" % ("enabled" if self._is_on else "disabled"))
        elif arguments == ["history", "show"]:
            _say("History logging is %s" % ("enabled" if self._is_on else "disabled"))
        else:
            raise UsageError(_USAGE)

    def upload(self, line: "str") -> "None":
        """The magic ``%upload_artifact``: keep a file below outputs/ with the record of this cell."""
        path = os.path.normpath(line.strip().strip("\"'"))
        inside = os.path.relpath(path, "outputs").replace(os.sep, "/")
        if inside.startswith("..") or not os.path.isfile(path):
            raise UsageError("%s is not a file below outputs/" % path)
        if self._cell is None:
            raise UsageError("history logging is off, so that there is no record of this cell: %azureml history on")
        self._cell.keep(inside, path)

    def begin(self, info: "Any") -> "None":
        if self._is_on and self._cell is None:
            self._cell = _Cell(str(getattr(info, "raw_cell", "")))

    def finish(self, result: "Any") -> "None":
        cell, self._cell = self._cell, None
        if cell is None:
            return
        try:
            record = cell.record(result)
        finally:
            cell.close()
        if self._is_on:
            self._outbox.deliver(record)


class _Cell:
    """A cell that runs: what it writes is noted, and what it logs goes to a folder of its own."""

    def __init__(self, source: "str") -> "None":
        self._source = source
        self._start = time.time()
        self._folder = tempfile.mkdtemp(prefix="holdfast-cell-")
        self._outputs: "Dict[str, str]" = {}
        self._bytes = 0
        self._track = _track_module()
        self._before = os.environ.get("HOLDFAST_METRICS_DIR"), self._track._writer
        os.environ["HOLDFAST_METRICS_DIR"] = self._folder
        self._track._start_writer()
        self._streams = sys.stdout, sys.stderr
        self._text: "List[str]" = []
        sys.stdout, sys.stderr = _Tee(sys.stdout, self._text), _Tee(sys.stderr, self._text)

    def keep(self, name: "str", path: "str") -> "None":
        with open(path, "rb") as source:
            data = source.read(_LARGEST + 1)
        self._bytes += len(data)
        if self._bytes > _LARGEST:
            raise UsageError("outputs/%s: the files of a cell's record may have %d MB" % (name, _LARGEST >> 20))
        self._outputs[name] = base64.b64encode(data).decode("ascii")

    def record(self, result: "Any") -> "Dict[str, Any]":
        error = getattr(result, "error_in_exec", None) or getattr(result, "error_before_exec", None)
        if error is not None:
            self._text.append("".join(traceback.format_exception(type(error), error, error.__traceback__)))
        elif getattr(result, "result", None) is not None:
            self._text.append(_shown(result.result) + "\n")
        return {
            "v": 1,
            "number": getattr(result, "execution_count", None) or 0,
            "source": self._source,
            "start": self._start,
            "end": time.time(),
            "error": "" if error is None else ("%s: %s" % (type(error).__name__, error))[:2000],
            "log": "".join(self._text)[:_LONGEST],
            "metrics": self._logged(),
            "outputs": self._outputs,
        }

    def _logged(self) -> "Dict[str, str]":
        files = {}
        for name in sorted(os.listdir(self._folder)):
            with open(os.path.join(self._folder, name), "rb") as source:
                data = source.read()
            self._bytes += len(data)
            if self._bytes <= _LARGEST:
                files[name] = base64.b64encode(data).decode("ascii")
        return files

    def close(self) -> "None":
        sys.stdout, sys.stderr = self._streams
        folder, writer = self._before
        pair = self._track._writer.pair if self._track._writer is not None else None
        if folder is None:
            os.environ.pop("HOLDFAST_METRICS_DIR", None)
        else:
            os.environ["HOLDFAST_METRICS_DIR"] = folder
        self._track._writer = writer
        if pair is not None:
            os.close(pair.lines)
            os.close(pair.points)
        shutil.rmtree(self._folder, ignore_errors=True)


class _Tee:
    """A stream whose text is also noted."""

    def __init__(self, stream: "Any", text: "List[str]") -> "None":
        self._stream = stream
        self._noted = text
        self._length = 0

    def write(self, text: "str") -> "Any":
        if self._length < _LONGEST:
            self._noted.append(text)
            self._length += len(text)
        return self._stream.write(text)

    def __getattr__(self, name: "str") -> "Any":
        return getattr(self._stream, name)


def _track_module() -> "Any":
    return importlib.import_module("holdfast.script_api.track" if __package__ else "holdfast")


def _shown(value: "object") -> "str":
    try:
        return repr(value)[:10000]
    except Exception as problem:
        return "<%s>" % type(problem).__name__


def _say(text: "str") -> "None":
    sys.stdout.write(text + "\n")
