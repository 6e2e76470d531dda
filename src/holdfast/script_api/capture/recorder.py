"""Writes what other libraries log into the run's metrics and outputs, and never raises into the script.

A failure of ours is one line on stderr; that library is then left alone until the process ends.
"""

import functools
import importlib
import math
import os
import shutil
import struct
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

ARTIFACTS = "artifacts"  # the folder below outputs/
_PICTURES = (".png", ".jpg", ".jpeg")
_LONGEST = 6000  # characters of a parameter or tag that is not a number
_track = sys.modules.get("holdfast")  # type: Any
if not hasattr(_track, "_Writer"):
    # In a run `holdfast` is the module that logs; elsewhere it is the package, which has that module in it.
    _track = importlib.import_module("holdfast")
    if not hasattr(_track, "_Writer"):
        _track = importlib.import_module("holdfast.script_api.track")
_files = importlib.import_module(
    "holdfast.script_api.replace" if __name__.startswith("holdfast.") else "_holdfast_replace"
)

# Looked up once, for speed.
_STEP_FLAG, _RECORD_SIZE, _EXACT = _track._STEP_FLAG, _track._RECORD_SIZE, _track._EXACT
_pack, _write, _now = _track._pack, _track._write, _track._now
_FORKS_UNSEEN = _track._FORKS_UNSEEN
_NUMBER_FLAGS = {kind: flags for kind, flags in _track._KIND_FLAGS.items() if kind is not None}


class Recorder:
    """What one library logs in this process."""

    def __init__(self, library: "str") -> "None":
        self.library = library
        self.works = True
        self._prefixes = {}  # type: dict[object, str]
        self._mentioned = set()  # type: set[str]

    def after(self, owner: "Any", name: "str", record: "Callable[..., None]") -> "None":
        """Have ``record(result, *arguments)`` called after each successful call of a function of the library."""
        original = owner.__dict__.get(name)
        if not callable(original):
            self.stop("%s has no %s" % (getattr(owner, "__name__", owner), name))
            return

        @functools.wraps(original)
        def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
            result = original(*args, **kwargs)
            if self.works:
                try:
                    record(result, *args, **kwargs)
                except Exception as problem:
                    self.stop(problem)
            return result

        setattr(owner, name, wrapper)

    def stop(self, problem: "object") -> "None":
        self.works = False
        _say("holdfast: what %s logs is no longer recorded: %s" % (self.library, problem))

    def prefix(self, key: "object", name: "str") -> "str":
        """Nothing for the first run or folder that this process logs to, the name and a slash for others."""
        if key not in self._prefixes:
            taken = set(self._prefixes.values())
            prefix = "%s/" % name if self._prefixes else ""
            number = 2
            while prefix in taken:
                prefix = "%s-%d/" % (name, number)
                number += 1
            self._prefixes[key] = prefix
        return self._prefixes[key]

    def number(self, name: "str", value: "Any", step: "int | None") -> "None":
        """A value. A float of a known name takes as few steps as ``holdfast.log``: training loops wait for this."""
        main = _track._writer
        if (
            value.__class__ is float
            and (step is None or step.__class__ is int)
            and _owners.get(name) is self
            and (main is None or name not in main.counters)
        ):
            writer = _current() if _FORKS_UNSEEN else _writer
            try:
                descriptor, word, count = writer.series[name]  # type: ignore[union-attr]
                number = count()
                if step is None:
                    step = number
                else:
                    word |= _STEP_FLAG
                if _write(descriptor, _pack(word, step, _now(), value)) != _RECORD_SIZE:
                    raise _track._CutShortError
                return
            except (KeyError, AttributeError, struct.error):
                pass  # not a known name, the first value of this process, or a step beyond 64 bits
            except Exception as problem:
                _current().lose(1, problem)
                return
        if self.owns(name):
            _current().write(((name, value),), step)

    def value(self, name: "str", value: "object", step: "int | None") -> "None":
        if self.owns(name):
            _current().write(((name, value),), step)

    def values(self, values: "list[tuple[str, object]]", step: "int | None") -> "None":
        """Several values of one moment, in one write."""
        points = [point for point in values if self.owns(point[0])]
        if len(points) == 1:
            self.number(*points[0], step)
        elif points:
            _current().numbers(points, step)

    def made(self, kind: "str", name: "str", value: "object", step: "int | None") -> "None":
        """An image, a table or a text."""
        if self.owns(name):
            try:
                made = _track._Made(_track._values.make(kind, value))
            except (ValueError, MemoryError) as problem:
                self.mention("%s %s" % (kind, name), "%s: %s" % (name, problem))
                return
            _current().write(((name, made),), step)

    def owns(self, name: "str") -> "bool":
        """Whether this library was the first to log this name: scripts log the same value with several of them."""
        main = _track._writer
        if name not in _owners and (not name or name in self._prefixes.values()):
            return False  # tensorboardX takes None as a name
        return _owners.setdefault(name, self) is self and (main is None or name not in main.counters)

    def has(self, name: "str") -> "bool":
        """Whether this library has logged values of that name."""
        return _owners.get(name) is self

    def parameter(self, name: "str", value: "object") -> "None":
        _note("parameter", name, value)

    def tag(self, name: "str", value: "object") -> "None":
        _note("tag", name, value)

    def artifact(self, path: "str", name: "str", step: "int | None" = None) -> "None":
        """Copy a file or a folder to outputs/artifacts/NAME; a picture is logged as one too."""
        outputs = os.environ.get("HOLDFAST_OUTPUTS", _OUTPUTS)
        parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
        if not outputs or not parts or ".." in parts:
            return
        if os.path.isdir(path):
            for folder, _, files in os.walk(path):
                below = os.path.relpath(folder, path)
                for file in files:
                    self.artifact(os.path.join(folder, file), "/".join((*parts, below, file)), step)
            return
        try:
            if name.lower().endswith(_PICTURES):
                self.made("image", name, path, step)
            _copy(path, outputs, parts)
        except OSError as problem:
            self.mention("artifact", "%s could not be copied to outputs/%s: %s" % (path, ARTIFACTS, problem))

    def mention(self, subject: "str", text: "str") -> "None":
        """One line on stderr, once for each subject."""
        if subject not in self._mentioned:
            self._mentioned.add(subject)
            _say("holdfast: %s: %s" % (self.library, text))


class _Writer(_track._Writer):  # type: ignore[misc]
    """Files of their own for this process, so that its counters are not those of ``holdfast.log``."""

    pair = None  # type: Any

    def numbers(self, points: "list[tuple[str, Any]]", step: "int | None") -> "None":
        """Values of one moment, in one write. Numbers of known names need no lock, as in ``holdfast.log``."""
        series = self.series  # all in one file: a writer that opens another one begins with an empty dictionary
        known = []
        if step is None or (step.__class__ is int and -_EXACT <= step <= _EXACT):
            for name, value in points:
                entry, flags = series.get(name), _NUMBER_FLAGS.get(value.__class__)
                if entry is None or flags is None or (flags and not -_EXACT <= value <= _EXACT):
                    break
                known.append((entry, flags, value))
        if len(known) < len(points):
            self.write(tuple(points), step)
            return
        try:
            records, moment, common = [], _now(), 0 if step is None else _STEP_FLAG
            for (_, word, count), flags, value in known:
                number = count()
                records.append(_pack(word | flags | common, number if step is None else step, moment, value))
            if _write(known[0][0][0], b"".join(records)) != _RECORD_SIZE * len(records):
                raise _track._CutShortError
        except Exception as problem:
            self.lose(len(points), problem)

    def note(self, kind: "str", name: "str", value: "object") -> "None":
        """A parameter or a tag: a line to which no record refers."""
        with self.lock:
            try:
                pair = self.pair or _track._Pair(self.folder)  # type: Any
                self.pair = pair
                pair.add_line({kind: name, "type": kind, "value": value})
            except Exception as problem:
                self.lose(1, problem)


def _copy(path: "str", outputs: "str", parts: "list[str]") -> "None":
    if os.path.realpath(path).startswith(os.path.join(os.path.realpath(outputs), "")):
        return  # it is kept already
    target = os.path.join(outputs, ARTIFACTS, *parts)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    _files.replace_file(target, functools.partial(shutil.copyfile, path))


def _note(kind: "str", name: "str", value: "object") -> "None":
    plain = _track._values.plain(value)
    if not isinstance(plain, (bool, int)) and not (isinstance(plain, float) and math.isfinite(plain)):
        plain = str(plain)[:_LONGEST]
    writer = _current()
    if _noted.get((kind, name)) != plain:
        _noted[kind, name] = plain
        writer.note(kind, name, plain)


def _current() -> "_Writer":
    if _writer is None or (_FORKS_UNSEEN and _writer.pid != os.getpid()):
        return _start_writer()
    return _writer


def _start_writer() -> "_Writer":
    global _writer  # noqa: PLW0603 - one per process
    with _lock:
        if _writer is None or _writer.pid != os.getpid():
            _writer = _Writer(os.environ.get("HOLDFAST_METRICS_DIR") or _METRICS)
            _noted.clear()
        return _writer


def _forget_writer() -> "None":
    """A child of a fork has files of its own. Another thread may have held the lock."""
    global _writer, _lock
    _writer, _lock = None, threading.RLock()


def _say(text: "str") -> "None":
    _track._say(text)


# A script may empty its environment once it has imported the library, as tests do.
_METRICS, _OUTPUTS = os.environ.get("HOLDFAST_METRICS_DIR", ""), os.environ.get("HOLDFAST_OUTPUTS", "")
_lock = threading.RLock()
_writer = None  # type: _Writer | None
_owners = {}  # type: dict[str, Recorder]
_noted = {}  # type: dict[tuple[str, str], object]
if sys.platform != "win32" and not _FORKS_UNSEEN:
    os.register_at_fork(after_in_child=_forget_writer)
