"""The data of a run: verified and held while the script runs, found by links and variables."""

import os
import sys

from ..decoding import as_bytes, readable
from ..machine import limits
from ..run.workdir import CannotPrepare
from ..store import layout, objects
from ..store.data_state import fingerprint
from . import data_notes, data_sets

MYPY = False
if MYPY:
    from ..plan import Data

_OWN_FILES = 64  # that a supervisor may have open beside those of the data
_LETTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


def variable(name: "str") -> "bytes":
    """``HOLDFAST_DATA_MNIST`` for ``mnist``; what a variable's name cannot have becomes ``_``."""
    return b"HOLDFAST_DATA_" + bytes(c if c in _LETTERS else ord("_") for c in as_bytes(name.upper()))


def location(home: "bytes", data: "Data") -> "bytes":
    """The path at which the script finds it, in a container too."""
    if data.path:
        return os.path.expanduser(as_bytes(data.path))
    note = data_notes.read(home, data.tree)
    folder = data_notes.folder_of(note) if note else os.path.join(layout.data(home), as_bytes(data.tree))
    return os.path.join(folder, as_bytes(data.file)) if data.file else folder


def _refuse_too_many(count: "int") -> "None":
    """Each set is held by an open file as long as the run lasts, and the supervisor needs some for itself."""
    most = limits.open_files()
    if most is not None and count + _OWN_FILES > most:
        raise CannotPrepare(
            "%d data sets need more open files than this machine allows (limit on open files: %d, see ulimit -n); "
            "name fewer folders that contain the others" % (count, most)
        )


class RunData:
    """Checks the content of all data when it is made; CannotPrepare says what is wrong."""

    def __init__(self, home: "bytes", plan_data: "list[Data]") -> "None":
        self._home = home
        self._data = plan_data
        self._held = []  # type: list[int]
        _refuse_too_many(sum(not data.path for data in plan_data))
        try:
            for data in plan_data:
                if data.path:
                    self._check_path(data)
                else:
                    self._hold(data)
        except CannotPrepare:
            while self._held:
                os.close(self._held.pop())
            raise

    def changed(self) -> "list[str]":
        """The names of data that was written to while the script ran."""
        names = []
        for data in self._data:
            try:
                if data.path and data.state:
                    is_same = self._state(data) == data.state
                else:
                    note = data_notes.read(self._home, data.tree) if data.tree else None
                    is_same = note is None or data_sets.is_whole(note)
            except (OSError, objects.Damaged):
                is_same = False
            names += [] if is_same else [data.name]
        return names

    def _check_path(self, data: "Data") -> "None":
        path = location(self._home, data)
        if not os.path.isabs(path) or not os.path.exists(path):
            raise CannotPrepare("data %s: %s does not exist on this machine" % (data.name, readable(path)))
        if data.state and self._state(data) != data.state:
            raise CannotPrepare("data %s: %s changed after it was hashed; submit again" % (data.name, readable(path)))

    def _hold(self, data: "Data") -> "None":
        try:
            folder = data_sets.find(self._home, data.tree, data.shared)
            if folder is not None:
                self._held.append(data_sets.hold(folder))
                data_notes.touch(self._home, data.tree)
                return
        except OSError as error:
            if limits.explain(error):
                raise CannotPrepare("data %s: %s" % (data.name, limits.reason(error))) from error
            sys.stderr.write("data %s: %s\n" % (ascii(data.name), error))
        raise CannotPrepare(
            "data %s: its copy on this machine (%s) is damaged or was removed; submit again to send it again"
            % (data.name, data.tree[:12])
        )

    def _state(self, data: "Data") -> "str":
        return fingerprint(location(self._home, data))
