"""The order in which runs get GPUs: a folder that all users of a machine share, with a ticket for each run.

Tickets say who waits, who holds a card, and who came first. They reserve no GPU: ``reservation`` does. Other users
write here, and the owner of the folder can delete or rename any file at any time, so links, FIFOs, huge files and lies
are expected, and whatever fails costs the order and nothing else. Every access goes through one descriptor of the
folder, so that a link put in its place later leads nowhere.
"""

import contextlib
import fcntl
import json
import os
import re
import stat
import time

from ..decoding import readable
from ..plan import PlanError, gpu_request
from ..store import lock_holders

MYPY = False
if MYPY:
    from collections.abc import Iterator
    from typing import Any

    from ..plan import GpuRequest

_TICKET = re.compile(r"(\d{12})-([0-9a-f]{32})\.ticket")
_OURS = re.compile(r"\d{12}-[0-9a-f]{32}\.ticket|order\.lock|gpu-[\w.-]+\.lock|\.\d+-[0-9a-f]{32}")
_HIGHEST = 10**12 - 1
_LONGEST = 1 << 16  # bytes of a ticket
_MOST_FILES, _MOST_TICKETS = 1 << 16, 1 << 12
_ORDER = "order.lock"


class Unusable(Exception):
    """The folder cannot be used; the text says why."""


class Ticket:
    """One run in the queue, as its ticket tells it. ``taken`` is None while it waits."""

    def __init__(self, number: "int", uid: "str", owner: "int", lines: "list[dict[str, Any]]") -> "None":
        fields = lines[0]
        self.number = number
        self.uid = uid
        self.request = _request(fields.get("wish"))
        self.run_id = _plain(fields.get("run_id") or uid)
        self.user = _user(owner, _plain(fields.get("user") or "?"))
        taken = next((line["taken"] for line in lines if isinstance(line.get("taken"), list)), None)
        self.taken = [_plain(uuid) for uuid in taken[:1000]] if taken is not None else None

    def brief(self) -> "dict[str, Any]":
        count = self.request.count
        shown = None if isinstance(count, int) and count >= 10**6 else count
        return {"run_id": self.run_id, "user": self.user, "count": shown}

    @property
    def place(self) -> "tuple[int, str]":
        """Its place in the order; two may draw the same number when the order could not be kept."""
        return self.number, self.uid


class Folder:
    """``with Folder(path) as folder:`` the folder, open; made for all users where there was none."""

    def __init__(self, path: "bytes", create: "bool" = True) -> "None":
        self._path = path
        made = False
        try:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(path)
                    made = True
            self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            if made:
                os.fchmod(self._fd, 0o1777)
        except NotADirectoryError as error:
            raise Unusable("%s is not a folder" % os.fsdecode(path)) from error
        except OSError as error:
            raise Unusable("%s cannot be used: %s" % (os.fsdecode(path), error.strerror)) from error

    def __enter__(self) -> "Folder":
        return self

    def __exit__(self, *_: "object") -> "None":
        os.close(self._fd)

    @contextlib.contextmanager
    def order(self, patience: "float") -> "Iterator[str]":
        """Held for a moment by each run that draws or takes. Yields why it could not be had in time, or nothing."""
        fd, trouble, deadline = -1, "", time.monotonic() + patience
        while not trouble:
            fd = self._open_lock(_ORDER)
            if fd >= 0 and _can_lock(fd, fcntl.LOCK_EX) and self.has(_ORDER, fd):
                break
            if fd < 0 or time.monotonic() > deadline:
                trouble = self._who_has_order()
            if fd >= 0:
                os.close(fd)
                fd = -1
                time.sleep(0.002)
        try:
            yield trouble
        finally:
            if fd >= 0:
                os.close(fd)

    def tickets(self, sweep: "bool" = False) -> "list[Ticket]":
        """Every valid ticket in order: one that its run keeps locked. ``sweep`` removes void ones of our own."""
        result = []
        for name in self._names()[:_MOST_TICKETS]:
            number, uid = _TICKET.fullmatch(name).groups()  # type: ignore[union-attr]
            lines, owner, valid = self._read(name)
            if valid and lines:
                result.append(Ticket(int(number), uid, owner, lines))
            elif not valid and sweep and owner == os.getuid():
                self._unlink(name)
        return result

    def draw(self, uid: "str", fields: "dict[str, Any]", number: "int" = 0) -> "tuple[int, int]":
        """A new ticket after all others, or with that number: its number and its descriptor, -1 where that failed."""
        if not number:
            number = min(_HIGHEST, 1 + max([ticket.number for ticket in self.tickets(sweep=True)], default=0))
        try:
            return number, self._write_ticket(ticket_name(number, uid), fields)
        except OSError:
            return number, -1

    def has(self, name: "str", fd: "int") -> "bool":
        """Whether a file is still the one of that name here."""
        try:
            return os.path.samestat(os.fstat(fd), os.stat(name, dir_fd=self._fd, follow_symlinks=False))
        except OSError:
            return False

    def lock_file(self, uuid: "str") -> "int":
        """The file by which older runners hold a card; -1 where it cannot be had."""
        return self._open_lock("gpu-%s.lock" % re.sub(r"[^\w.-]", "_", uuid))

    def remove(self, name: "str", fd: "int") -> "None":
        if self.has(name, fd):
            self._unlink(name)

    def clear(self) -> "None":
        """Remove what this user made here, and the folder if it is empty then."""
        for name in self._entries():
            with contextlib.suppress(OSError):
                known = os.stat(name, dir_fd=self._fd, follow_symlinks=False)
                if known.st_uid == os.getuid() and stat.S_ISREG(known.st_mode) and _OURS.fullmatch(name):
                    self._unlink(name)
        with contextlib.suppress(OSError):
            os.rmdir(self._path)

    def _names(self) -> "list[str]":
        return sorted(name for name in self._entries() if _TICKET.fullmatch(name))

    def _entries(self) -> "list[str]":
        try:
            return os.listdir(self._fd)[:_MOST_FILES]
        except OSError:
            return []

    def _read(self, name: "str") -> "tuple[list[dict[str, Any]], int, bool]":
        """What a ticket says, its owner, and whether its run lives. Another user wrote it, so it is only data."""
        try:
            known = os.stat(name, dir_fd=self._fd, follow_symlinks=False)
            if not stat.S_ISREG(known.st_mode) or known.st_size > _LONGEST:
                return [], -1, False
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._fd)
        except OSError:
            return [], -1, False
        try:
            known = os.fstat(fd)
            if not stat.S_ISREG(known.st_mode):
                return [], -1, False
            if _can_lock(fd, fcntl.LOCK_SH):
                return [], known.st_uid, False
            return _objects(os.read(fd, _LONGEST)), known.st_uid, True
        except OSError:
            return [], -1, False
        finally:
            os.close(fd)

    def _write_ticket(self, name: "str", fields: "dict[str, Any]") -> "int":
        """Locked before another user can open it: one that is not locked is void."""
        beside = ".%d-%s" % (os.getpid(), os.urandom(16).hex())
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW
        fd = os.open(beside, flags, 0o600, dir_fd=self._fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.fchmod(fd, 0o644)
            os.write(fd, (json.dumps(fields) + "\n").encode("ascii"))
            os.rename(beside, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except OSError:
            os.close(fd)
            self._unlink(beside)
            raise
        return fd

    def _who_has_order(self) -> "str":
        path = os.path.join(self._path, _ORDER.encode("ascii"))
        holders = ", ".join(str(holder) for holder in lock_holders.holders(path))
        return "%s %s" % (os.fsdecode(path), "is held by " + holders if holders else "cannot be locked")

    def _open_lock(self, name: "str") -> "int":
        """Opened, or else made: with fs.protected_regular a file of another user must not be opened to be made."""
        for _ in range(10):
            try:
                fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._fd)
                if stat.S_ISREG(os.fstat(fd).st_mode):
                    return fd
                os.close(fd)
                return -1
            except FileNotFoundError:
                pass
            except OSError:
                return -1
            try:
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                fd = os.open(name, flags, 0o644, dir_fd=self._fd)
                os.fchmod(fd, 0o644)
                return fd
            except FileExistsError:
                continue
            except OSError:
                return -1
        return -1

    def _unlink(self, name: "str") -> "None":
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=self._fd)


def ticket_name(number: "int", uid: "str") -> "str":
    return "%012d-%s.ticket" % (number, uid)


def _can_lock(fd: "int", how: "int") -> "bool":
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def _objects(content: "bytes") -> "list[dict[str, Any]]":
    objects = []
    for line in readable(content).splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            objects.append(value)
    return objects


def _request(value: "object") -> "GpuRequest":
    """The request of another run; one that cannot be parsed may want any GPU."""
    try:
        return gpu_request(value)
    except PlanError:
        return gpu_request({})


def _plain(value: "object") -> "str":
    """A word for an event and a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(value)[:100])


def _user(owner: "int", claimed: "str") -> "str":
    """The owner of the file; the name in the ticket is used only for our own."""
    if owner == os.getuid():
        return claimed
    import pwd

    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return "user %d" % owner
