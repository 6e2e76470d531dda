"""Checks the system clock before anything is deleted because of its age.

A store notes in its file ``clock`` when it last looked. A clock that has moved much further since than time can have
passed, or backwards, is doubted: nothing has an age then. The doubt ends when the clock has gone on evenly for a week,
or when a person says that it is right. Python 3.6 and the standard library only: client and runner share this.
"""

import json
import os
import sys
import time

from .. import untrusted
from ..store import layout
from ..store.files import note

MYPY = False
if MYPY:
    from typing import AnyStr

_DAY_S = 86400.0
_FURTHEST_S = 30 * _DAY_S  # since the last look, across a boot
_DRIFT_S = 2 * _DAY_S  # between the clock and the time that really passed, within one boot
_PROOF_S = 7 * _DAY_S  # so long a doubted clock must go on evenly
_JUST_NOW_S = 3600.0  # files younger than this may have been written by the clock that is in question
_LARGEST = 10000


class Clock:
    """The present time; ``doubt`` says why it cannot be trusted, empty if it can."""

    def __init__(self, now: "float", doubt: "str") -> "None":
        self.now = now
        self.doubt = doubt

    def plausible_age(self, then: "float", earliest: "float" = 0.0) -> "float | None":
        """Seconds since then; None where the clock is in doubt, or that moment is to come or before the earliest."""
        if self.doubt or then > self.now or then < earliest:
            return None
        return self.now - then

    def is_older(self, path: "AnyStr", seconds: "float", earliest: "float" = 0.0) -> "bool":
        """Whether a file was last changed so long ago; False where that is not certain."""
        try:
            age = self.plausible_age(os.lstat(path).st_mtime, earliest)
        except OSError:
            return False
        return age is not None and age > seconds


def look(home: "bytes", confirmed: "bool" = False) -> "Clock":
    """Read the clock and note it. ``confirmed``: a person says that it is right."""
    now, passed, boot = time.time(), _passed(), _boot_id()
    noted = _read(home)
    doubt = "" if confirmed else _doubt(home, noted, now, passed, boot)
    moment = {"wall": now, "passed": passed, "boot": boot}
    if not doubt:
        _write(home, {"last": moment})
        return Clock(now, "")
    suspect = noted.get("suspect")
    if _is_even(suspect, now, passed, boot):
        if now - _number(suspect, "wall") > _PROOF_S:
            _write(home, {"last": moment})
            return Clock(now, "")
    else:
        _write(home, {"last": noted.get("last"), "suspect": moment})
    return Clock(now, doubt)


def _doubt(home: "bytes", noted: "dict[str, object]", now: "float", passed: "float", boot: "str") -> "str":
    last = noted.get("last")
    before = _number(last, "wall") or _newest(home, now)
    if not before:
        return ""  # a new store
    if now - before > _FURTHEST_S or before - now > _DAY_S or not _is_even(last, now, passed, boot, unknown=True):
        return "the clock shows %s, but this store was last used on %s" % (_day(now), _day(before))
    return ""


def _is_even(moment: "object", now: "float", passed: "float", boot: "str", unknown: "bool" = False) -> "bool":
    """Whether the clock moved since that moment as time did. ``unknown``: the answer where nothing is noted."""
    before = _number(moment, "wall")
    if not isinstance(moment, dict) or not before:
        return unknown
    if boot and moment.get("boot") == boot:
        return abs((now - before) - (passed - _number(moment, "passed"))) <= _DRIFT_S
    return -_DAY_S <= now - before <= _FURTHEST_S


def _newest(home: "bytes", now: "float") -> "float":
    """The newest change to a store without a note, except for those around now."""
    moments = [0.0]
    for folder in (home, layout.runs(home), layout.numbers(home)):
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            try:
                moments.append(os.lstat(os.path.join(folder, name)).st_mtime)
            except OSError:
                continue
    return max(moment for moment in moments if not now - _JUST_NOW_S <= moment <= now + _DAY_S)


def _passed() -> "float":
    """Seconds since the boot, sleep included where the system counts that."""
    if sys.platform == "win32" or not hasattr(time, "CLOCK_BOOTTIME"):
        return time.monotonic()
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _boot_id() -> "str":
    try:
        with open("/proc/sys/kernel/random/boot_id") as source:
            return source.read().strip()
    except OSError:
        return ""


def _read(home: "bytes") -> "dict[str, object]":
    try:
        document = untrusted.loads(untrusted.read_file(layout.clock(home), _LARGEST))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _write(home: "bytes", noted: "dict[str, object]") -> "None":
    note(layout.clock(home), json.dumps(noted).encode("ascii"))


def _number(moment: "object", name: "str") -> "float":
    value = moment.get(name) if isinstance(moment, dict) else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0


def _day(moment: "float") -> "str":
    try:
        return time.strftime("%Y-%m-%d", time.gmtime(moment))
    except (ValueError, OverflowError, OSError):
        return "%g" % moment
