"""Data sets that a target keeps: listed, pinned, removed."""

from __future__ import annotations

from holdfast import answers
from holdfast.errors import ConfigError, RunnerError, UsageError
from holdfast.runner import untrusted
from holdfast.store.history_record import utc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.model import Json


def listed(channel: RunnerChannel, target: str) -> list[Json]:
    return [_row(row, target) for row in answers.rows(_ask(channel, target, act="list"), "sets", target)]


def verify(channel: RunnerChannel, target: str, name: str | None) -> Iterator[Json]:
    """Have the target read a set, or all that it keeps, and compare it with its hashes; a row for each set."""
    rows = listed(channel, target)
    for row in [_matching(rows, target, name)] if name else rows:
        answer = _ask(channel, target, act="verify", tree=row["hash"])
        yield {**row, **_verdict(answer, target)}
    if not name:
        answer = _ask(channel, target, act="verify")
        files = answers.number(answer, "files", target)
        if files:
            yield {"name": "unfinished uploads", "hash": "", "files": files, **_verdict(answer, target)}


def _verdict(answer: Json, target: str) -> Json:
    state = answers.text(answer, "state", target)
    if state not in ("intact", "damaged", "in-use", "absent"):
        raise answers.malformed("state", state, "the outcome of a check", target)
    return {"state": state, "damaged": 0 if state == "absent" else answers.number(answer, "damaged", target)}


def act(channel: RunnerChannel, target: str, name: str, action: str) -> Json:
    """``pin``, ``unpin`` or ``remove`` the set with this name, or whose hash begins so."""
    row = _matching(listed(channel, target), target, name)
    state = answers.text(_ask(channel, target, act=action, tree=row["hash"]), "state", target)
    if state == "in-use":
        raise UsageError(f"the data set {row['name']!r} is used by a run", where=target, hint="wait until it has ended")
    if state == "absent" and action != "remove":
        raise UsageError(
            f"the data set {row['name']!r} was removed meanwhile", where=target, hint="submit with it again"
        )
    return row


def _matching(rows: list[Json], target: str, name: str) -> Json:
    matches = [row for row in rows if str(row["hash"]).startswith(name)] if name else []
    matches = matches or [row for row in rows if row["name"] == name]
    if len(matches) != 1:
        from shlex import quote

        what = f"{len(matches)} data sets match {name!r}" if matches else f"no data set matches {name!r}"
        known = "\n".join(f"{row['name']} {str(row['hash'])[:12]}" for row in matches or rows)
        hint = "name one by the beginning of its hash" if matches else f"holdfast data list -c {quote(target)}"
        raise UsageError(what, where=target, answer=known, hint=hint)
    return matches[0]


def _ask(channel: RunnerChannel, target: str, **fields: object) -> Json:
    try:
        return channel.ask("data", **fields)
    except RunnerError as error:
        if error.code != "unknown-verb":
            raise
        raise ConfigError("the runner on this target does not support data sets", where=target) from error


def _row(answer: Json, target: str) -> Json:
    try:
        tree = untrusted.hexadecimal(answer.get("tree"), 64)
    except untrusted.Untrusted as error:
        raise answers.malformed("tree", answer.get("tree"), "64 hexadecimal digits", target) from error
    return {
        "name": answers.optional_text(answer, "name", target),
        "hash": tree,
        "files": answers.number(answer, "files", target),
        "bytes": answers.number(answer, "bytes", target),
        "last_used": utc(answer.get("used_ns")),
        "pinned": answer.get("pinned") is True,
        "in_use": answer.get("in_use") is True,
        "shared": answer.get("shared") is True,
        "folder": answers.optional_text(answer, "at", target),
    }
