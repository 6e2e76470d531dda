"""Fetches runs that other clients started on a target (``holdfast history pull``).

The target's answer is untrusted: a run is accepted only if every field has its type, and the address of its target is
the one that this client uses.
"""

from __future__ import annotations

import os

from holdfast import labels, lifecycle
from holdfast.engine.runs import outputs, run_target
from holdfast.engine.runs.follow import Follower
from holdfast.errors import MalformedAnswerError
from holdfast.model import Identity, Project
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.store import run_numbers, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.store.runs import Run
    from holdfast.target_lookup import Target

_TEXTS = ("project", "script", "config", "user", "client", "client_store", "holdfast", "fetch_outputs", "source")
_NUMBERS = ("files", "bytes", "created_ns", "retries")
_NEEDED = frozenset(("project", "project_id", "script", "config", "tree", "created_ns", "arguments"))
_MOST_ATTEMPTS = 1000
_MOST_RUNS, _MOST_LISTED = 200_000, 256 * 1000**2  # runs and bytes in the list of a target
_MACHINE = ("address", "port")


class Gathered(Record):
    """Run ids that are new here, how many were here already, and how many made no sense.

    ``incomplete`` are ids of runs of which some outputs could not be fetched. ``left_alone`` is the number of runs
    that are known here as runs of another target, or with other contents: nothing was written to them. ``others`` is
    how many of the new ones are of other projects.
    """

    new: list[str]
    here: int
    refused: int
    incomplete: list[str]
    left_alone: int = 0
    others: int = 0


class Offer(Record):
    """A run on the target that made sense."""

    uid: str
    run_id: str
    number: int
    request: Json
    attempts: tuple[str, ...]


def gather(
    home: Home, target: Target, channel: RunnerChannel, project: Project, tell: Callable[[int, int], None]
) -> Gathered:
    """``project`` is the present one: its runs belong to its folder. ``tell`` is called with the progress."""
    if channel.hello()["store"] == home.id:
        return Gathered([], sum(1 for _ in runs.uids(home)), 0, [])
    offers, refused = _offers(channel)
    new, incomplete, left_alone, others = [], [], 0, 0
    for done, offer in enumerate(offers):
        tell(done, len(offers))
        if _adopt(home, target, project, offer):
            new.append(offer.run_id)
            others += offer.request["project_id"] != project.id
        elif not is_same_run(runs.read(home, offer.uid), offer, target):
            left_alone += 1
            continue
        incomplete += [offer.run_id] if _bring(home, channel, offer) else []
    return Gathered(new, len(offers) - len(new) - left_alone, refused, incomplete, left_alone, others)


def _offers(channel: RunnerChannel) -> tuple[list[Offer], int]:
    """Runs in the order in which they were made, and how many made no sense."""
    offers, refused = [], 0
    for entry in listed(channel):
        offer = understand(entry)
        if offer is not None:
            offers.append(offer)
        else:
            refused += 1
    return sorted(offers, key=lambda offer: _stamp(offer.run_id)), refused


def listed(channel: RunnerChannel) -> Iterator[object]:
    """What the target says of each of its runs. A list longer than any store has is refused."""
    channel.hello()
    before = channel.received
    for count, (header, _) in enumerate(channel.stream("list")):
        if header.get("end"):
            return
        if count >= _MOST_RUNS or channel.received - before > _MOST_LISTED:
            limit = f"a list of more than {_MOST_RUNS} runs or {_MOST_LISTED} bytes"
            raise MalformedAnswerError("the target sent a malformed answer", answer=limit)
        yield header.get("run")


def is_same_run(run: Run, offer: Offer, target: Target) -> bool:
    """Whether the run that is here is of this target's store, and the one that the target offers."""
    if run.problem:
        return False
    names = ("project_id", "tree", "created_ns")
    same = all(run.request.get(name) == offer.request.get(name) for name in names)
    return same and run.request.get("run_id") == offer.run_id and _is_of(run.request, run_target.remembered(target))


def _is_of(request: Json, store: Json) -> bool:
    """Whether a run is in this store, by what was written down here when it became known."""
    theirs, ours = request.get("reached_by") or {}, store.get("reached_by") or {}
    if not isinstance(theirs, dict) or not isinstance(ours, dict) or request.get("home") != store.get("home"):
        return False
    if theirs.get("username") != ours.get("username") or bool(theirs) != bool(ours):
        return False
    if theirs.get("host_key") or ours.get("host_key"):
        return theirs.get("host_key") == ours.get("host_key")
    return all(theirs.get(name) == ours.get(name) for name in _MACHINE)


def understand(entry: object) -> Offer | None:
    """A run as a target tells it, or None where that is not how runs are."""
    request = entry.get("request") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(request, dict):
        return None
    uid, run_id, number = entry.get("uid"), request.get("run_id"), request.get("run_number")
    if not (isinstance(uid, str) and runs.is_uid(uid) and request.get("uid") == uid):
        return None
    if not (isinstance(run_id, str) and _is_run_id(run_id) and _is_count(number)):
        return None
    kept, attempts = dict(_fields(request)), _attempts(entry.get("attempts"))
    if not attempts or not set(kept) >= _NEEDED:
        return None
    return Offer(uid, run_id, int(str(number)), kept, attempts)


def _attempts(value: object) -> tuple[str, ...]:
    names = tuple(f"a{count}" for count in range(1, len(value) + 1)) if isinstance(value, list) else ()
    return names if list(names) == value and len(names) <= _MOST_ATTEMPTS else ()


def _fields(request: Json) -> Iterator[tuple[str, object]]:
    """Those that we know, where they are what we would have written."""
    for name in _TEXTS:
        if isinstance(request.get(name), str):
            yield name, request[name]
    for name in _NUMBERS:
        if _is_count(request.get(name)):
            yield name, request[name]
    tree, project, parent = request.get("tree"), request.get("project_id"), request.get("parent_run_id")
    if _passes(lambda: untrusted.hexadecimal(tree, 64)):
        yield "tree", tree
    if _passes(lambda: untrusted.guid(project)):
        yield "project_id", project  # it names a file of ours
    if isinstance(parent, str) and _is_run_id(parent):
        yield "parent_run_id", parent
    for name in ("arguments", "command"):
        strings = request.get(name)
        if isinstance(strings, list) and all(isinstance(word, str) for word in strings):
            yield name, strings
    yield from _labels(request)


def _labels(request: Json) -> Iterator[tuple[str, object]]:
    """Its name and tags, where they are such that could have been given here."""
    name, tags = request.get("name"), request.get("tags")
    if isinstance(name, str) and labels.is_name(name):
        yield "name", name
    if isinstance(tags, dict) and all(
        labels.is_tag(key) and isinstance(value, (str, int, float)) for key, value in tags.items()
    ):
        yield "tags", tags


def _adopt(home: Home, target: Target, project: Project, offer: Offer) -> bool:
    """Make the run known here; False if it was."""
    with home.lock("gather"):
        if os.path.isdir(home.run(offer.uid)):
            return False
        ours = offer.request["project_id"] == project.id
        theirs = Project("", str(offer.request["project_id"]), str(offer.request["project"]))
        number = run_numbers.claim(home, theirs).run_number
        request = {
            **offer.request,
            "project_root": project.root if ours else "",
            "target": target.name,
            **run_target.remembered(target),
            "origin_number": offer.number,
        }
        runs.create(home, Identity(offer.uid, offer.run_id, number), request)
        return True


def _bring(home: Home, channel: RunnerChannel, offer: Offer) -> dict[str, str]:
    """All that there is of it by now; returns outputs that could not be fetched, and why.

    A run that was closed when we last looked has nothing new.
    """
    run = runs.read(home, offer.uid)
    if lifecycle.state_of(run.events) in lifecycle.FINAL and run.attempt_name == offer.attempts[-1]:
        return {}
    for name in offer.attempts:
        os.makedirs(home.run(offer.uid, name), 0o700, exist_ok=True)
    for name in offer.attempts:
        follower = Follower(home, offer.uid, _unheard, attempt=name)
        try:
            follower.follow(channel, wait=False)
        finally:
            follower.close()
    return outputs.bring_by_policy(home, channel, runs.read(home, offer.uid))


def _unheard(_block: bytes) -> None:
    """No listener: the bytes only go into the mirror."""


def _is_run_id(text: str) -> bool:
    name, _, stamp = text.rpartition("_")
    plain = all(letter.isalnum() or letter in "._-" for letter in name)
    return bool(name) and text.isascii() and plain and stamp.isdigit() and len(stamp) < 19 and len(text) < 300


def _stamp(run_id: str) -> int:
    return int(run_id.rpartition("_")[2])


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _passes(check: Callable[[], object]) -> bool:
    try:
        check()
    except untrusted.Untrusted:
        return False
    return True
