"""Assigns run numbers and run ids; each is used once, even if the counter files were damaged.

A counter alone cannot be trusted: it may have been cut by a full disk or come back from a backup. ``numbers/seen``
notes with a checksum what was given out last and when ``runs/`` had last changed. As long as all of that agrees, the
counters are believed. Otherwise the runs themselves are asked, through the index where there are many.
"""

from __future__ import annotations

import os
import time

from holdfast.model import Identity, Json
from holdfast.runner import json_text, untrusted
from holdfast.runner.store.files import SYNCED, note, unlink_quietly, write_whole
from holdfast.runner.store.jsonl import is_intact, sealed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Project
    from holdfast.store.home import Home

_MILLISECONDS = "milliseconds"
_SEEN = "seen"
MOST = 10**9  # a greater run number was not given out by us
LATEST = 10**13  # milliseconds; a later time is none
_FEW = 100  # runs that are read faster than the index is opened
_LARGEST_NOTE = 64 << 20
_KEPT = 64  # claims of numbers that are kept, longer than two nodes can differ about the counter


def claim(home: Home, project: Project, at_least: int = 1) -> Identity:
    """A run id that is new, and the project's next number. A client killed right after leaves a gap, never a twin."""
    with home.lock("ids"):
        seen = _seen(home)
        number, stamp = _counter(home, project.id, MOST), _counter(home, _MILLISECONDS, LATEST)
        if seen.get("runs") != _time_of_runs(home) or (number, stamp) != _given(seen, project.id):
            number, stamp = _check(home, project.id, seen, number or 0, stamp or 0)
        number = _take(home, project.id, max((number or 0) + 1, at_least), _KEPT, MOST)
        last, stamp = stamp or 0, max(int(time.time() * 1000), (stamp or 0) + 1)
        stamp = _take(home, _MILLISECONDS, stamp, stamp - last, LATEST)
        _set_counter(home, _MILLISECONDS, stamp)
        _set_counter(home, project.id, number)
        given = {**_object(seen.get("of")), project.id: number}
        _note(home, {"runs": _time_of_runs(home), _MILLISECONDS: stamp, "of": given})
    return Identity(os.urandom(16).hex(), f"{_plain(project.name)}_{stamp}", number)


def _take(home: Home, name: str, first: int, kept: int, most: int) -> int:
    """The first number from there on that is free.

    The claim is a file that can be created only once: on a folder that several nodes share, the lock may hold within
    one node only. The claim that lies ``kept`` behind is not needed any more: a node that was slow and finds it gone
    sees that the counter has passed it.
    """
    number = first
    os.makedirs(os.path.dirname(home.counter(name)), 0o700, exist_ok=True)
    while True:
        try:
            os.close(os.open(home.counter(f"{name}.{number}"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            number += 1
            continue
        passed = _counter(home, name, most)
        if passed is None or passed < number:
            break
        unlink_quietly(os.fsencode(home.counter(f"{name}.{number}")))
        number = passed + 1
    unlink_quietly(os.fsencode(home.counter(f"{name}.{number - kept}")))
    return number


def note_created(home: Home) -> None:
    """A run with a claimed number has got its folder: ``runs/`` as it is now is no news to the counters."""
    with home.lock("ids"):
        seen = _seen(home)
        if seen:
            _note(home, {**seen, "runs": _time_of_runs(home)})


def is_note_intact(home: Home) -> bool:
    """Whether the note of what was given out is as it was written; one that is not there is."""
    return bool(_seen(home)) or not os.path.lexists(home.counter(_SEEN))


def _check(home: Home, project_id: str, seen: Json, number: int, stamp: int) -> tuple[int, int]:
    """The greatest number of the project and the latest stamp that anything knows of."""
    given = _given(seen, project_id)
    known = _of_few(home, project_id) or _of_index(home, project_id)
    return max(number, given[0] or 0, known[0]), max(stamp, given[1] or 0, known[1])


def _given(seen: Json, project_id: str) -> tuple[int | None, int | None]:
    number, stamp = _object(seen.get("of")).get(project_id), seen.get(_MILLISECONDS)
    return (
        number if isinstance(number, int) and 0 <= number < MOST else None,
        stamp if isinstance(stamp, int) and 0 <= stamp < LATEST else None,
    )


def _of_few(home: Home, project_id: str) -> tuple[int, int] | None:
    """From the runs themselves; None where there are too many to read them all."""
    from holdfast.store import runs

    uids = list(runs.uids(home))
    if len(uids) > _FEW:
        return None
    numbers, stamps = [0], [0]
    for uid in uids:
        request = runs.read(home, uid).request
        number, digits = request.get("run_number"), str(request.get("run_id", "")).rpartition("_")[2]
        if request.get("project_id") == project_id and isinstance(number, int) and number < MOST:
            numbers.append(number)
        if digits.isdigit() and digits.isascii() and len(digits) < len(str(LATEST)):
            stamps.append(int(digits))
    return max(numbers), max(stamps)


def _of_index(home: Home, project_id: str) -> tuple[int, int]:
    from holdfast.store.index.index import Index

    index = Index(home)
    try:
        return index.highest(project_id, MOST, LATEST)
    finally:
        index.close()


def _seen(home: Home) -> Json:
    """What was noted last; nothing where the note is missing or not as it was written."""
    try:
        line = untrusted.read_file(home.counter(_SEEN), _LARGEST_NOTE).rstrip(b"\n")
        document = json_text.loads(line.decode("utf-8")) if is_intact(line) else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return _object(document)


def _note(home: Home, seen: Json) -> None:
    """Not synced: where a power cut takes it away, the runs are asked."""
    path = home.counter(_SEEN)
    note(path, sealed({name: seen.get(name) for name in ("runs", _MILLISECONDS, "of")}))


def _counter(home: Home, name: str, most: int) -> int | None:
    """The last number given out by what the counter says; None where it says nothing."""
    try:
        data = untrusted.read_file(home.counter(name), 100)
    except (OSError, ValueError):
        return None
    digits = data[:-1]
    return int(digits) if data.endswith(b"\n") and digits.isdigit() and int(digits) < most else None


def _set_counter(home: Home, name: str, value: int) -> None:
    path = home.counter(name)
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    write_whole(path, b"%d\n" % value, sync=SYNCED)


def _time_of_runs(home: Home) -> int:
    try:
        return os.stat(home.runs).st_mtime_ns
    except FileNotFoundError:
        return 0


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _plain(name: str) -> str:
    """The name with the characters of an id: letters and digits of any script. It does not begin as options do."""
    if name.isascii():
        letters = (letter if letter.isalnum() or letter in "._-" else "-" for letter in name)
    else:
        import unicodedata

        marks = ("Mn", "Mc")  # accents and vowel signs, which belong to the letter before them
        letters = (
            letter if letter.isalnum() or letter in "._-" or unicodedata.category(letter) in marks else "-"
            for letter in unicodedata.normalize("NFC", name)
        )
    return "".join(letters).lstrip("-") or "project"
