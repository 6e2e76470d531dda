"""Log numbers and other values from a training script.

    import holdfast
    holdfast.log("loss", 0.3, step=10)

Inside a run the values go into files of the run's own folder, one system call each, and are there even if the
process is killed a moment later. Outside a run every call does nothing. Logging never raises into the script.

This file, with values.py for pictures and tables, is also the package ``holdfast-track`` and the ``holdfast``
that runs find on their path, so it needs only Python 3.6.
"""

import atexit
import errno
import importlib
import itertools
import os
import struct
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# The file format, as docs/formats.md tells it. metrics/reader.py reads it.
_MAGIC = b"hfmetric"
_VERSION = 1
_HEADER = struct.Struct("<8sIIQQQ24x")  # magic, version, record size, pid, process start (ticks), opened (wall ns)
_SCALAR = struct.Struct("<QqQd")  # name and flags, step, wall ns, value
_REFERENCE = struct.Struct("<QqQQ")  # the same, where the value is the offset of its line in the .jsonl
_FLAGS_SHIFT = 56  # below: the offset of the name's line in the .jsonl
_STEP_FLAG = 0x80 << _FLAGS_SHIFT  # the caller gave the step
_KIND_FLAGS = {float: 0 << _FLAGS_SHIFT, int: 1 << _FLAGS_SHIFT, bool: 2 << _FLAGS_SHIFT, None: 3 << _FLAGS_SHIFT}
_RECORD_SIZE = _SCALAR.size
_EXACT = 2**53  # a double holds every whole number up to here
_LARGEST = 16 * 1000 * 1000  # bytes of one value
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
_RETRY_SECONDS = 1.0
_FORKS_UNSEEN = hasattr(os, "fork") and not hasattr(os, "register_at_fork")  # Python 3.6

_pack = _SCALAR.pack  # looked up once, for speed, as the next two
_write = os.write
_now = getattr(time, "time_ns", lambda: int(time.time() * 1e9))  # Python 3.6 has no time_ns


def log(name: "str", value: "object", step: "int | None" = None) -> "None":
    """Record one value under a name: a number, text, list, dict, array, data frame, figure or PIL image.

    Without a step the values of a name are counted 0, 1, 2, ... in this process. Steps are whole numbers.
    """
    writer = _current_writer() if _FORKS_UNSEEN else _writer
    if writer is None:
        return
    # A training loop waits for this. A float under a known name needs no lock: it is one appending write.
    if value.__class__ is float and (step is None or step.__class__ is int):
        try:
            descriptor, word, count = writer.series[name]
            number = count()
            if step is None:
                step = number
            else:
                word |= _STEP_FLAG
            if _write(descriptor, _pack(word, step, _now(), value)) == _RECORD_SIZE:
                return
            writer.lose(1, _CutShortError())
            return
        except (KeyError, TypeError, struct.error):
            pass  # not a known name, or a step beyond 64 bits
        except Exception as problem:
            writer.lose(1, problem)
            return
    writer.write(((name, value),), step)


def log_many(values: "dict[str, object]", step: "int | None" = None) -> "None":
    """Record several values of the same moment at the price of one."""
    writer = _current_writer() if _FORKS_UNSEEN else _writer
    if writer is None:
        return
    try:
        points = tuple(values.items())
    except Exception as problem:
        writer.lose(1, problem)
    else:
        writer.write(points, step)


def log_image(name: "str", image: "object", step: "int | None" = None) -> "None":
    """Record a picture: a PNG or JPEG by its path or bytes, a PIL image, an array or a tensor.

    Arrays are height x width, or that x 3 or 4 channels, tensors have their channels first; bytes, or floats of 0 to 1.
    """
    _log_as("image", name, image, step)


def log_figure(name: "str", figure: "object", step: "int | None" = None) -> "None":
    """Record a matplotlib figure as a picture."""
    _log_as("figure", name, figure, step)


def log_table(name: "str", rows: "object", step: "int | None" = None) -> "None":
    """Record a table: a list of dicts, a dict of lists, a data frame, or an array of two dimensions."""
    _log_as("table", name, rows, step)


def log_text(name: "str", text: "object", step: "int | None" = None) -> "None":
    """Record text."""
    _log_as("text", name, text, step)


def log_dict(name: "str", values: "object", step: "int | None" = None) -> "None":
    """Record a dict as one value; ``log_many`` makes a series of each of its items."""
    _log_as("dict", name, values, step)


def active() -> "bool":
    """Whether this process is part of a Holdfast run, so that what is logged is kept."""
    return _writer is not None


def run_id() -> "str | None":
    """The id of the run this process is part of."""
    return os.environ.get("HOLDFAST_RUN_ID")


def outputs() -> "str":
    """The folder whose files are kept with the run; outside a run ``outputs`` in the current folder."""
    folder = os.environ.get("HOLDFAST_OUTPUTS") or "outputs"
    os.makedirs(folder, exist_ok=True)
    return folder


class _Writer:
    """The values of one process: written now, or counted as lost and said so."""

    def __init__(self, folder: "str") -> "None":
        self.folder = folder
        self.pid = os.getpid()
        # Re-entrant, because a signal handler may log in the middle of a call of the same thread.
        self.lock = threading.RLock()
        self.pair: "_Pair | None" = None
        # What ``log`` writes without further questions: name -> file, first word, counter. Empty while in trouble.
        self.series: "dict[str, tuple[int, int, Callable[[], int]]]" = {}
        self.counters: "dict[str, Callable[[], int]]" = {}
        self.retry_at = 0.0
        self.lost = 0
        self.warned = False

    def write(self, points: "tuple[tuple[object, object], ...]", step: "object") -> "None":
        points = tuple((name, _recognised(value)) for name, value in points)
        with self.lock:
            try:
                numbered = [(str(name), self.next_number(str(name)), value) for name, value in points]
                if self.retry_at and time.monotonic() < self.retry_at:
                    self.lost += len(points)
                    return
                if self.pair is None:
                    self.pair = _Pair(self.folder)
                pair = self.pair
                _append(pair.points, b"".join([self.record_or_nothing(pair, *point, step) for point in numbered]))
                self.retry_at = 0.0
            except Exception as problem:
                self.lose(len(points), problem)

    def next_number(self, name: "str") -> "int":
        return self.counters.setdefault(name, itertools.count().__next__)()

    def record_or_nothing(self, pair: "_Pair", *point: "Any") -> "bytes":
        try:
            return self.record(pair, *point)
        except _TooLargeError as problem:
            self.lose(1, problem)
            return b""

    def record(self, pair: "_Pair", name: "str", number: "int", value: "object", step: "object") -> "bytes":
        word = pair.name_word(name)
        self.series[name] = (pair.points, word, self.counters[name])
        if step is not None:
            word |= _STEP_FLAG
            number = _whole_step(step, number)
        if value.__class__ is _Made:
            return _REFERENCE.pack(word | _KIND_FLAGS[None], number, _now(), pair.add_made(value))
        plain = _values.plain(value)
        kind = plain.__class__
        if kind is float or kind is bool or (kind is int and -_EXACT <= plain <= _EXACT):
            return _SCALAR.pack(word | _KIND_FLAGS[kind], number, _now(), plain)
        return _REFERENCE.pack(word | _KIND_FLAGS[None], number, _now(), pair.add_value(type(value), plain))

    def lose(self, points: "int", problem: "Exception") -> "None":
        with self.lock:
            self.lost += points
            closed = getattr(problem, "errno", 0) == errno.EBADF  # the script closed all descriptors
            if isinstance(problem, OSError):
                self.series = {}
                self.retry_at = 0.0 if closed else time.monotonic() + _RETRY_SECONDS
            if closed or isinstance(problem, _CutShortError):
                # What follows half a record or line would be misread: the next value opens a new pair.
                self.pair = None
            first, self.warned = not self.warned, True
        if first:
            _say("holdfast: cannot log to %s: %s; the script continues" % (self.folder, problem))


class _Pair:
    """The two files of one process: records, and the lines that spell names and values that are not numbers."""

    def __init__(self, folder: "str") -> "None":
        # A process id can come again, in another container for instance; the files of the first are left alone.
        for number in itertools.count():
            try:
                self.stem = os.path.join(folder, "%d-%d" % (os.getpid(), number))
                self.lines, self.points = _create_pair(self.stem)
                break
            except FileExistsError:
                continue
        self.words: "dict[str, int]" = {}
        self.files = itertools.count()

    def name_word(self, name: "str") -> "int":
        if name not in self.words:
            self.words[name] = self.add_line({"name": name})
        return self.words[name]

    def add_value(self, kind: "type", plain: "object") -> "int":
        module = "" if kind.__module__ == "builtins" else "%s." % kind.__module__
        return self.add_line({"type": module + kind.__name__, "value": plain})

    def add_made(self, made: "_Made") -> "int":
        """The file is written before the line that names it, so that a reader of the line finds the complete file."""
        kind, plain, data, ending = made
        if data:
            plain = dict(plain, file=self.add_file(data, ending))
        return self.add_line({"type": kind, "value": plain})

    def add_file(self, data: "bytes", ending: "str") -> "str":
        path = "%s-%d%s" % (self.stem, next(self.files), ending)
        descriptor = os.open(path, _CREATE, 0o644)
        try:
            with open(descriptor, "wb") as target:
                target.write(data)
        except OSError:
            os.unlink(path)
            raise
        return os.path.basename(path)

    def add_line(self, content: "dict[str, object]") -> "int":
        """Append a line and return where it starts."""
        data = _values.spelled(content)
        if len(data) > _LARGEST:
            raise _TooLargeError("a value of %d bytes is larger than %d" % (len(data), _LARGEST))
        while True:
            start = os.lseek(self.lines, 0, os.SEEK_END)
            _append(self.lines, data)
            if os.lseek(self.lines, 0, os.SEEK_CUR) == start + len(data):
                return start
            # A signal handler logged in between and moved the end: write the line again, where we know.


class _Made(tuple):  # type: ignore[type-arg]
    """A value that values.py has prepared: kind, what its line says, bytes of its own file and their ending."""


class _TooLargeError(ValueError):
    """One value that would fill the disk."""


class _CutShortError(OSError):
    """Only a part of the bytes was written."""

    def __str__(self) -> "str":
        return "only a part could be written (is the disk full?)"


def _append(descriptor: "int", data: "bytes") -> "None":
    if _write(descriptor, data) != len(data):
        raise _CutShortError


def _create_pair(stem: "str") -> "tuple[int, int]":
    created: "list[tuple[str, int]]" = []
    try:
        for path in (stem + ".jsonl", stem + ".m"):
            created.append((path, _values.high_descriptor(os.open(path, _CREATE, 0o644))))
        (_, lines), (_, points) = created
        _append(points, _HEADER.pack(_MAGIC, _VERSION, _SCALAR.size, os.getpid(), _start_ticks(), _now()))
    except OSError:
        # On a full disk this is tried every second: leave no heap of empty files.
        for path, descriptor in created:
            os.close(descriptor)
            os.unlink(path)
        raise
    return lines, points


def _start_ticks() -> "int":
    """When the process started, in clock ticks since boot, as Linux tells it; else 0."""
    try:
        with open("/proc/self/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def _log_as(kind: "str", name: "str", value: "object", step: "int | None") -> "None":
    writer = _current_writer() if _FORKS_UNSEEN else _writer
    if writer is None:
        return
    try:
        made = _Made(_values.make(kind, value))
    except Exception as problem:
        writer.lose(1, problem)
    else:
        writer.write(((name, made),), step)


_ORDINARY = (float, int, bool, str, list, tuple, dict, type(None), _Made)


def _recognised(value: "object") -> "object":
    """A figure, picture, data frame or large array made ready; anything else as it is."""
    if value.__class__ in _ORDINARY:
        return value
    try:
        made = _values.recognised(value)
    except Exception:
        return value  # what it says of itself is kept
    return value if made is None else _Made(made)


def _whole_step(step: "Any", number: "int") -> "int":
    try:
        return max(-(2**63), min(int(step), 2**63 - 1))
    except Exception:
        return number


def _say(text: "str") -> "None":
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except Exception:
        pass


def _start_writer() -> "None":
    global _writer, _values  # noqa: PLW0603 - one per process, replaced in the child of a fork
    folder = os.environ.get("HOLDFAST_METRICS_DIR")
    _writer = _Writer(folder) if folder else None
    if folder and _values is None:
        # Now and not when it is needed: a signal handler that logs amid an import would wait for itself.
        try:
            _values = importlib.import_module("holdfast.script_api.values" if __package__ else "_holdfast_values")
        except Exception as problem:
            _writer = None
            _say("holdfast: logging is off: %s" % problem)


def _current_writer() -> "_Writer | None":
    if _writer is not None and _writer.pid != os.getpid():
        _start_writer()
    return _writer


def _say_what_was_lost() -> "None":
    if _writer is not None and _writer.lost:
        _say("holdfast: %d logged values of process %d could not be written" % (_writer.lost, os.getpid()))


def _real_package_folders() -> "list[str]":
    folders = [os.path.join(entry or os.curdir, "holdfast") for entry in sys.path]
    return [folder for folder in folders if os.path.isfile(os.path.join(folder, "__init__.py"))]


def __getattr__(name: "str") -> "object":
    if __name__ != "holdfast" or (name.startswith("__") and name != "__version__"):
        raise AttributeError("module %r has no attribute %r" % (__name__, name))
    return importlib.import_module("_holdfast_client_names").look_up(name)


_writer = None  # type: _Writer | None  # Python 3.6 takes no annotation on a global
_values = None  # type: Any
_start_writer()
atexit.register(_say_what_was_lost)
if sys.platform != "win32" and not _FORKS_UNSEEN:
    os.register_at_fork(after_in_child=_start_writer)

# Inside a run this file comes before an installed Holdfast, whose command a script may use.
if __name__ == "holdfast":
    __path__ = _real_package_folders()
    if sys.version_info < (3, 7):  # does not call the function of a module
        _call = {"__getattr__": lambda _, name: __getattr__(name)}
        sys.modules[__name__].__class__ = type("Module", (type(sys),), _call)
elif __name__ == "__main__":
    import runpy

    runpy.run_module("holdfast.__main__", run_name="__main__", alter_sys=True)
