"""Who may have which GPU of this machine, with nobody in charge: tickets and locks in a folder that all users share.

A ticket is a file that its run keeps locked; one that nobody locks is void. Cards have a lock each, taken by one run
alone or by several that share. Whoever looks or takes does so under one short lock, so that order is order.
"""

import contextlib
import fcntl
import json
import os
import re
import stat
import time

MYPY = False
if MYPY:
    from collections.abc import Iterator
    from typing import Any

FOLDER = b"/tmp/holdfast-gpu"
_TICKET = re.compile(r"(\d{12})-([0-9a-f]{32})\.ticket")
_LONGEST = 1 << 16
_BUSY_S = 10.0
_TOUCH_S = 3600.0


class Unusable(Exception):
    """The folder cannot be used; the text says why."""


class Ticket:
    """One run in the queue, as anybody can read it. ``taken`` is None while it waits."""

    def __init__(self, number: "int", uid: "str", said: "dict[str, Any]", taken: "list[str] | None") -> "None":
        self.number = number
        self.uid = uid
        self.wish = _wish(said.get("wish"))
        self.run_id = str(said.get("run_id") or uid)
        self.user = str(said.get("user") or "?")
        self.taken = taken

    def brief(self) -> "dict[str, Any]":
        return {"run_id": self.run_id, "user": self.user, "count": self.wish.get("count")}


class Answer:
    """What a try came to: ``cards`` are taken, or ``reason`` says what is in the way and ``ahead`` who comes first."""

    def __init__(self, cards: "list[dict[str, Any]]", reason: "str", ahead: "list[Ticket]") -> "None":
        self.cards = cards
        self.reason = reason
        self.ahead = ahead


class Claim:
    """A run's place in the queue, and then its cards. All it holds are locks, which end with the process."""

    def __init__(self, uid: "str", about: "dict[str, Any]", wish: "dict[str, Any]") -> "None":
        """``about``: run_id and user, for those who wait."""
        self._folder = folder()
        self._uid = uid
        self._wish = wish
        self._locks = {}  # type: dict[str, int]
        self._touched = time.monotonic()
        with _order(self._folder):
            self.number = self._sweep() + 1
            self._name = ("%012d-%s.ticket" % (self.number, uid)).encode("ascii")
            self.ticket = self._draw(dict(about, wish=wish))

    @property
    def locks(self) -> "list[int]":
        return list(self._locks.values())

    def take(self, cards: "list[dict[str, Any]]") -> "Answer":
        """Take what was wished for if it is free and nobody was here before; ``cards`` as they are at this moment."""
        mine = fitting(cards, self._wish)
        with _order(self._folder):
            ahead = self._ahead(cards, mine)
            if ahead:
                first = ahead[0]
                reason = "%s of %s came first" % (first.run_id, first.user)
                return Answer([], reason, ahead)
            return self._take(mine)

    def keep_fresh(self) -> "None":
        """Those who tidy /tmp by age must not find these files old."""
        if time.monotonic() - self._touched > _TOUCH_S:
            self._touched = time.monotonic()
            for fd in [self.ticket, *self.locks]:
                with contextlib.suppress(OSError):  # a lock that another user made
                    os.utime(fd)

    def end(self) -> "None":
        """The run is over: its ticket goes. Cards are let go by the end of the processes that hold their locks."""
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._folder, self._name))

    def leave(self) -> "None":
        self.end()
        for fd in [self.ticket, *self.locks]:
            os.close(fd)
        self._locks = {}

    def _take(self, mine: "list[dict[str, Any]]") -> "Answer":
        wanted = len(mine) if self._wish["count"] == "all" else int(self._wish["count"])
        held = {uuid: one for one in standing(self._folder) for uuid in one.taken or () if one.uid != self._uid}
        troubles = []  # type: list[str]
        free = []  # type: list[dict[str, Any]]
        for card in sorted(mine, key=lambda card: -(card.get("memory_free") or 0)):
            trouble = _stranger(card, bool(self._wish.get("shared"))) or self._lock(card["uuid"], held)
            if trouble:
                troubles.append("GPU %s %s" % (card["index"], trouble))
            else:
                free.append(card)
        chosen = sorted(free[:wanted], key=lambda card: int(card["index"]))
        for uuid in set(self._locks) - ({card["uuid"] for card in chosen} if len(chosen) == wanted else set()):
            os.close(self._locks.pop(uuid))
        if len(chosen) < wanted:
            return Answer([], "; ".join(sorted(troubles)), [])
        line = json.dumps({"taken": [card["uuid"] for card in chosen]}) + "\n"
        os.write(self.ticket, line.encode("ascii"))
        return Answer(chosen, "", [])

    def _lock(self, uuid: "str", held: "dict[str, Ticket]") -> "str":
        """Empty if this card is ours now, else who has it: by their ticket too, should the lock have been deleted."""
        holder, shared = held.get(uuid), bool(self._wish.get("shared"))
        if holder is not None and not (shared and holder.wish.get("shared")):
            return "is held by %s of %s" % (holder.run_id, holder.user)
        if uuid not in self._locks:
            fd = _opened(self._folder, b"gpu-%s.lock" % re.sub(r"[^\w.-]", "_", uuid).encode("ascii"))
            try:
                fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                return "is being let go by its last run"
            self._locks[uuid] = fd
        return ""

    def _ahead(self, cards: "list[dict[str, Any]]", mine: "list[dict[str, Any]]") -> "list[Ticket]":
        """Those who were here before and wait for a card that we could take as well."""
        ours = {card["uuid"] for card in mine}
        waiting = [one for one in standing(self._folder, before=self.number) if one.taken is None]
        return [one for one in waiting if ours & {card["uuid"] for card in fitting(cards, one.wish)}]

    def _sweep(self) -> "int":
        """The highest valid number there is; void tickets of our own go."""
        highest = 0
        for name, number, _ in _tickets(self._folder):
            path = os.path.join(self._folder, name)
            if _is_held(path):
                highest = max(highest, number)
                continue
            with contextlib.suppress(OSError):
                if os.lstat(path).st_uid == os.getuid():
                    os.unlink(path)
        return highest

    def _draw(self, said: "dict[str, Any]") -> "int":
        """Locked before anybody can see it: one that is not locked is void."""
        path = os.path.join(self._folder, self._name)
        beside = os.path.join(self._folder, b".%d-%s" % (os.getpid(), self._uid.encode("ascii")))
        fd = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW, 0o644)
        try:
            os.fchmod(fd, 0o644)
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.write(fd, (json.dumps(said) + "\n").encode("ascii"))
            os.rename(beside, path)
        except OSError:
            os.close(fd)
            raise
        return fd


def folder() -> "bytes":
    """Made by whoever comes first, for all: anybody may add files and only their owner may take them away."""
    path = _place()
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)
            os.chmod(path, 0o1777)
        found = os.lstat(path)
    except OSError as error:
        raise Unusable("the folder of GPU locks cannot be made: %s" % error) from error
    if not stat.S_ISDIR(found.st_mode):
        raise Unusable("%s is not a folder; GPU locks belong there" % os.fsdecode(path))
    if not os.access(path, os.W_OK | os.X_OK):
        raise Unusable("%s is not open to all users: chmod 1777 %s" % (os.fsdecode(path), os.fsdecode(path)))
    return path


def _place() -> "bytes":
    return os.environb.get(b"HOLDFAST_GPU_LOCKS") or FOLDER


def standing(place: "bytes", before: "int | None" = None) -> "list[Ticket]":
    """Every valid ticket in order; with ``before`` those with a lower number."""
    found = []
    for name, number, uid in _tickets(place):
        if (before is None or number < before) and _is_held(os.path.join(place, name)):
            said = _lines(os.path.join(place, name))
            if said:
                taken = next((line["taken"] for line in said if isinstance(line.get("taken"), list)), None)
                found.append(Ticket(number, uid, said[0], [str(uuid) for uuid in taken] if taken is not None else None))
    return found


def listing() -> "list[dict[str, Any]]":
    """Who holds cards and who waits, in order, for people; nothing is made or taken."""
    place = _place()
    try:
        return [dict(one.brief(), uid=one.uid, taken=one.taken) for one in standing(place)]
    except OSError:
        return []


def tidy() -> "None":
    """Take away what we made, unless somebody is there."""
    place = _place()
    if not os.path.isdir(place):
        return
    with contextlib.suppress(OSError, Unusable), _order(place):
        if not standing(place):
            for name in os.listdir(place):
                path = os.path.join(place, name)
                with contextlib.suppress(OSError):
                    if os.lstat(path).st_uid == os.getuid():
                        os.unlink(path)
            with contextlib.suppress(OSError):
                os.rmdir(place)


def fitting(cards: "list[dict[str, Any]]", wish: "dict[str, Any]") -> "list[dict[str, Any]]":
    """Cards that this wish could be met with at some time, whoever is on them now."""
    name, memory = str(wish.get("name") or "").lower(), wish.get("memory") or 0
    return [
        card
        for card in cards
        if card.get("uuid")
        and not card.get("trouble")
        and not card.get("mig")
        and name in str(card.get("name") or "").lower()
        and (card.get("memory_total") or 0) >= memory
    ]


def impossible(cards: "list[dict[str, Any]]", wish: "dict[str, Any]") -> "str":
    """Why this wish can never be met here; empty if it can."""
    fits = fitting(cards, wish)
    wanted = 1 if wish["count"] == "all" else int(wish["count"])
    if len(fits) >= wanted:
        return ""
    asked = "%d GPU%s" % (wanted, "s" if wanted > 1 else "")
    asked += " named %s" % wish["name"] if wish.get("name") else ""
    asked += " with %.3g GB" % (wish["memory"] / 1e9) if wish.get("memory") else ""
    there = ", ".join(
        "%s (%.3g GB%s%s)"
        % (
            card.get("name") or "GPU %s" % card.get("index"),
            (card.get("memory_total") or 0) / 1e9,
            ", divided by MIG" if card.get("mig") else "",
            ", " + card["trouble"] if card.get("trouble") else "",
        )
        for card in cards
    )
    return "%s asked for, and this machine has %s" % (asked, there or "none")


def visible(cards: "list[dict[str, Any]]", said: "str | None") -> "list[dict[str, Any]]":
    """Those that CUDA_VISIBLE_DEVICES leaves us: numbers, or beginnings of UUIDs; as in CUDA a bad one ends it."""
    if said is None:
        return cards
    found = []  # type: list[dict[str, Any]]
    for word in said.split(","):
        match = [card for card in cards if _is_named(card, word.strip())]
        if len(match) != 1 or match[0] in found:
            break
        found += match
    return found


def _is_named(card: "dict[str, Any]", word: "str") -> "bool":
    if word.isdigit():
        return int(word) == card.get("index")
    return word.startswith("GPU-") and str(card.get("uuid")).startswith(word)


def _stranger(card: "dict[str, Any]", shared: "bool") -> "str":
    """Somebody computes on it who holds no lock, or has not gone yet."""
    for one in () if shared else card.get("processes") or ():
        who = one.get("run_id") or " ".join(str(part) for part in (one.get("user"), one.get("program")) if part)
        return "is in use by %s (pid %s)" % (who or "somebody", one.get("pid"))
    return ""


def _wish(said: "object") -> "dict[str, Any]":
    """Another user wrote it."""
    wish = said if isinstance(said, dict) else {}
    memory = wish.get("memory")
    return dict(wish, memory=memory if isinstance(memory, (int, float)) else 0)


@contextlib.contextmanager
def _order(place: "bytes") -> "Iterator[None]":
    """Held for a moment by each; one that stands still must not make the others stand."""
    path = os.path.join(place, b"order.lock")
    deadline = time.monotonic() + _BUSY_S
    while True:
        fd = _opened(place, b"order.lock")
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(fd, path):
                break
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(fd)
                text = "somebody has held %s for %d s; fuser shows who" % (os.fsdecode(path), _BUSY_S)
                raise Unusable(text) from None
        os.close(fd)
        time.sleep(0.002)
    try:
        yield
    finally:
        os.close(fd)


def _is_at(fd: "int", path: "bytes") -> "bool":
    """Whether a file is still the one of that name; its last user may have tidied up."""
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except OSError:
        return False


def _opened(place: "bytes", name: "bytes") -> "int":
    """First as it is, then made: with fs.protected_regular a file of somebody else's must not be opened to be made."""
    path = os.path.join(place, name)
    for _ in range(100):
        with contextlib.suppress(FileNotFoundError):
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            if stat.S_ISREG(os.fstat(fd).st_mode):
                return fd
            os.close(fd)
            raise Unusable("%s is no plain file" % os.fsdecode(path))
        with contextlib.suppress(FileExistsError):
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
            os.fchmod(fd, 0o644)
            return fd
    raise Unusable("%s comes and goes" % os.fsdecode(path))


def _is_held(path: "bytes") -> "bool":
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(fd)


def _tickets(place: "bytes") -> "list[tuple[bytes, int, str]]":
    found = []
    for name in sorted(os.listdir(place)):
        match = _TICKET.fullmatch(name.decode("ascii", "replace"))
        if match:
            found.append((name, int(match.group(1)), match.group(2)))
    return found


def _lines(path: "bytes") -> "list[dict[str, Any]]":
    """What a ticket says; another user wrote it, so it is only data."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return []
    try:
        text = os.read(fd, _LONGEST).decode("utf-8", "replace")
    finally:
        os.close(fd)
    found = []
    for line in text.splitlines():
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(said, dict):
            found.append(said)
    return found
